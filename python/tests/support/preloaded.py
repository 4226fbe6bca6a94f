# SPDX-License-Identifier: MIT
"""Imports of the server that ranks are forked from: those that take seconds."""

import gc

import numpy  # noqa: F401
import pytest  # noqa: F401
import torch._dynamo
import torch.distributed
import torch.nn.parallel  # noqa: F401

# A rank that ends would look through all of it once more, which takes a second.
gc.collect()
gc.freeze()
