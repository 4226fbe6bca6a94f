# SPDX-License-Identifier: MIT
"""Client of the lab's control socket, for processes that run in the lab
(docs/formats/lab-control.md)."""

from __future__ import annotations

import os
import socket

# The switch answers between packets; one that takes longer than this is gone.
_PATIENCE_SECONDS = 10.0


def enter_phase(name: str) -> bool:
    """Enters a named phase of the timeline; False outside the lab. ValueError: the lab knows no
    such phase, or is gone."""
    path = os.environ.get("PLIANT_LAB_CONTROL")
    if not path:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(_PATIENCE_SECONDS)
            control.connect(path)
            control.sendall(f"phase {name}\n".encode())
            answer = control.makefile().readline().strip()
    except OSError as error:
        raise ValueError(
            f"phase '{name}': the lab does not answer at {path}: {error.strerror or error}"
        ) from None
    if answer != "ok":
        raise ValueError(f"phase '{name}': {answer.removeprefix('error: ') or 'the lab has ended'}")
    return True
