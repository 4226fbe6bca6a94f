# SPDX-License-Identifier: MIT
"""Islands: ranks that train together over a fast network and exchange updates with other islands.
`across.py` reads the groups, the other modules are the ways in which an island holds its model.
docs/islands.md describes what a training script sees."""
