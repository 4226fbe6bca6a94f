# SPDX-License-Identifier: MIT
"""Parts that the command-line tools share: exit codes, option parsing and text formats. Needs
neither torch nor the binding."""
