# SPDX-License-Identifier: MIT
"""The world that other tests run in: no way for a rank to fail goes unnoticed."""

from __future__ import annotations

import atexit
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from support import world


def returns_its_rank(rank: int, size: int, *arguments: Any) -> tuple[Any, ...]:
    total = torch.tensor([1.0])
    dist.all_reduce(total)
    return rank, int(total), os.environ["PLIANT_WORLD_TEST"], *arguments


def test_results_come_back_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("first", "second"):  # ranks see the environment as it is now
        monkeypatch.setenv("PLIANT_WORLD_TEST", value)
        assert world.run(returns_its_rank, "word", ranks=3) == [
            (rank, 3, value, "word") for rank in range(3)
        ]


def raises(rank: int, size: int) -> None:
    if rank == 1:
        raise ValueError("rank 1 says no")


def dies(rank: int, size: int, how: int) -> None:
    if rank == 1:
        os.kill(os.getpid(), how)


def leaves_in_silence(rank: int, size: int) -> None:
    if rank == 1:
        os._exit(0)


def hangs(rank: int, size: int) -> None:
    if rank == 1:
        time.sleep(1000)


def aborts_at_exit(rank: int, size: int) -> str:
    if rank == 1:
        atexit.register(os.abort)
    return "done"


def hangs_at_exit(rank: int, size: int) -> str:
    if rank == 1:
        atexit.register(time.sleep, 1000)
    return "done"


class AbortsWhenDestroyed:
    def __del__(self, abort: Callable[[], None] = os.abort) -> None:
        abort()  # the module's names are gone by then


def aborts_in_a_finalizer(rank: int, size: int) -> str:
    if rank == 1:
        globals()["kept"] = AbortsWhenDestroyed()
    return "done"


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (raises, (), "ValueError: rank 1 says no"),
        (dies, (signal.SIGKILL,), "rank 1 ended with -9 without a word"),
        (leaves_in_silence, (), "rank 1 ended with 0 without a word"),
        (hangs, (), r"watchdog: ranks \[1\] have not returned"),
        (aborts_at_exit, (), "rank 1 returned, but ended with -6"),
        (aborts_in_a_finalizer, (), "rank 1 returned, but ended with -6"),
        (hangs_at_exit, (), "rank 1 returned, but has not ended"),
    ],
)
def test_a_rank_that_fails_fails_the_test(
    function: Callable[..., Any], arguments: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(AssertionError, match=words):
        world.run(function, *arguments, ranks=2, group=False, timeout=15, leaving_timeout=8)


def test_a_rank_that_is_to_die_may() -> None:
    assert world.run(dies, signal.SIGKILL, ranks=2, expected_to_die=(1,), farewell=False) == [
        None,
        None,
    ]
