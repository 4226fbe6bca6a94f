# SPDX-License-Identifier: MIT
"""Exceptions of pliant, one class for each kind of failure. Mistyped input (a plan, a duration) is
a ValueError instead."""

from __future__ import annotations


class PliantError(RuntimeError):
    """Any failure of pliant's own."""


class CommError(PliantError):
    """A peer is gone, or a deadline has passed. The averager is of no use afterwards; start again
    from a checkpoint."""

    rank: int | None = None
    """This rank, in the group that is averaged over."""
    peer: int | None = None
    """The rank it waited for, if that is known."""
    culprit: int | None = None
    """The rank that all others wait for, if they could be asked. The peer may itself only wait for
    another rank."""
    epoch: int | None = None
    """The plan version of the exchange."""


class AbsentError(CommError):
    """Some ranks did not come to a collective call (`settled()`, `close()`) before the deadline.
    Nothing is broken: training can go on."""


class DisagreementError(PliantError):
    """Ranks that must be alike are not. The text names the fact, two ranks and both values."""


class DivergedError(PliantError):
    """Training diverged: under updates, no rank makes finite progress any more."""


class ContractError(PliantError):
    """A call that may not be made like this, or now. The text says why."""


class PayloadError(PliantError):
    """A message that does not fit what was expected: bytes changed on the way, or ranks run
    different programs."""


class UnsupportedError(PliantError, TypeError):
    """Something that pliant does not work with, by name, and what to do instead."""
