# SPDX-License-Identifier: MIT
"""`pliant demo`: the same training twice, plain DDP and pliant, on a network that changes in
mid-run."""
