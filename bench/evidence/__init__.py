# SPDX-License-Identifier: MIT
"""Time to accuracy on changing networks, against what people would use instead. docs/results.md
tells the method."""
