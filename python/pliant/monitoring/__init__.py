# SPDX-License-Identifier: MIT
"""Monitoring of a run while it trains: its run log, Prometheus metrics, and phases of the lab."""
