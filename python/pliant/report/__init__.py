# SPDX-License-Identifier: MIT
"""Command `pliant report`: turns run logs into charts, tables and sentences.

Read `cli.py` first: logs become figures (`figures.py`), figures become sentences (`verdict.py`),
and both a page (`page.py`, of charts and tables), a trace (`trace.py`) or TensorBoard's scalars
(`scalars.py`). The chart on top of the page (`headline.py`) is also a file of its own, as SVG
(`svg.py`) or PNG (`picture.py`)."""
