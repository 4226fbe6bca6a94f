# SPDX-License-Identifier: MIT
"""Command `pliant doctor`: checks this installation, and says what will not work, why, and how to
mend it. Needs neither torch nor the binding."""
