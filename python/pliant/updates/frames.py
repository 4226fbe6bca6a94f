# SPDX-License-Identifier: MIT
"""Frames of Python's stack: which call of torch a hook belongs to, and whether it still runs."""

from __future__ import annotations

import sys
from types import FrameType


def frame_of(file: str) -> FrameType:
    """The innermost call under way of a function in this file of torch; without one, the outermost
    call of all, which runs as long as the thread."""
    frame = sys._getframe()
    while not frame.f_code.co_filename.endswith(file) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def calls_file(file: str) -> bool:
    """Whether a function in this file of torch is under way."""
    return frame_of(file).f_code.co_filename.endswith(file)


def is_running(wanted: FrameType | None) -> bool:
    """Whether a call is under way in this thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame is not wanted:
        frame = frame.f_back
    return frame is not None
