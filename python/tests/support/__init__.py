# SPDX-License-Identifier: MIT
"""Helpers of the tests: ranks to run on, models to train, run logs made up, reports, a browser."""
