# SPDX-License-Identifier: MIT
"""Run logs for Python: `lines.py` has a dataclass for each type of line, `reader.py` reads a file
into them, `plan_text.py` takes the text of a plan apart. Needs neither torch nor the binding."""

from pliant.runlog.lines import (
    FORMAT,
    VERSION,
    Candidate,
    Decision,
    End,
    Exchange,
    Header,
    Line,
    Link,
    Message,
    Note,
    Phase,
    RunLog,
    RunLogError,
    Step,
)
from pliant.runlog.reader import Follower, read

__all__ = [
    "FORMAT",
    "VERSION",
    "Candidate",
    "Decision",
    "End",
    "Exchange",
    "Follower",
    "Header",
    "Line",
    "Link",
    "Message",
    "Note",
    "Phase",
    "RunLog",
    "RunLogError",
    "Step",
    "read",
]
