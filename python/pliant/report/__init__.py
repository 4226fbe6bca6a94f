# SPDX-License-Identifier: MIT
"""Command `pliant report`: turns run logs into charts, tables and sentences.

Read `cli.py` first: logs become figures (`figures.py`), figures become sentences (`verdict.py`),
and both a page (`page.py`, of charts and tables), a picture (`picture.py`), a trace (`trace.py`) or
TensorBoard's scalars (`scalars.py`)."""
