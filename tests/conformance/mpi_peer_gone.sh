#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Usage: mpi_peer_gone.sh RANKS PROGRAM. Passes if every survivor reported the loss and came to its end,
# and none failed.
set -u
ranks=$1 program=$2
output=$(timeout -k 5 60 "$(dirname "$0")/../../scripts/mpirun" --enable-recovery -n "$ranks" "$program" 2>&1)
said=$(grep -c 'peer gone, said so' <<<"$output")
ended=$(grep -c 'session ended' <<<"$output")
if [ "$said" -eq $((ranks - 1)) ] && [ "$ended" -eq $((ranks - 1)) ] && ! grep -q FAILED <<<"$output"; then
  echo "$said of $((ranks - 1)) survivors said so"
  exit 0
fi
echo "$output"
exit 1
