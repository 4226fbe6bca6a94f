# SPDX-License-Identifier: MIT
"""Command `pliant demo`: trains twice, with plain DDP and with Pliant, on a network that changes in
mid-run."""
