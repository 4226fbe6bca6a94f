# SPDX-License-Identifier: MIT
"""Kind updates in Python: `driver.py` calls the engine after every optimizer step; the other
modules are its parts. docs/updates.md describes what a training loop sees."""
