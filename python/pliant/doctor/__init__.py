# SPDX-License-Identifier: MIT
"""`pliant doctor`: what is here, what will not work and why, and how to mend it. Needs neither
torch nor the binding."""
