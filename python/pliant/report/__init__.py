# SPDX-License-Identifier: MIT
"""From run logs to what people look at. Follow `cli.py`: logs become figures (`figures.py`),
figures words (`verdict.py`), and both a page (`page.py`, of charts and tables), a picture
(`picture.py`), a trace (`trace.py`) or TensorBoard's scalars (`scalars.py`)."""
