# SPDX-License-Identifier: MIT
"""Comparison of the time to accuracy on changing networks with other methods. docs/results.md
describes it."""
