#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Usage: run.sh installed|subdirectory BUILD_DIR. Builds and runs the consumer of that name in a folder that is removed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kind=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=(-DPLIANT_SOURCE="$here/../..")
if [ "$kind" = installed ]; then
  cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
  options=(-DCMAKE_PREFIX_PATH="$work/prefix")
  # Nothing that is installed names a folder of the machine that built it.
  root=$(cd "$here/../.." && pwd)
  if found=$(grep -rlF -e "$root" -e "$build" "$work/prefix"); then
    printf 'these installed files name %s or %s:\n%s\n' "$root" "$build" "$found" >&2
    exit 1
  fi
fi
cmake -G Ninja -S "$here/$kind" -B "$work/build" -DCMAKE_BUILD_TYPE=Release "${options[@]}" > "$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" --target consumer > "$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/build/consumer"
