# SPDX-License-Identifier: MIT
"""Command `pliant watch`: a run log shown while it grows. `cli.py` follows the file, `state.py`
adds its lines up, `plain_view.py` and `terminal_view.py` show the result."""
