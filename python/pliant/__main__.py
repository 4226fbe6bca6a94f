# SPDX-License-Identifier: MIT
"""`python -m pliant`"""

import sys

from pliant.command import main

sys.exit(main())
