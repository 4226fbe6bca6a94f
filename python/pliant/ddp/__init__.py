# SPDX-License-Identifier: MIT
"""Integration with DistributedDataParallel: the communication hook (`hook.py`), the driver that
sends gradient buckets to the engine (`gradients_driver.py`), and their parts."""
