# SPDX-License-Identifier: MIT
"""Runs a function on several ranks: processes on this machine, Gloo on loopback, a watchdog over
all of them.

    def check(rank, size): ...
    world.run(check, ranks=3)

The function is found by its module and name, so it must be at the top of a test file. What a rank
returns comes back, by rank; what it raises ends the test with its traceback."""

from __future__ import annotations

import multiprocessing
import os
import queue
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

WATCHDOG_SECONDS = 240.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _rank_main(
    function: Callable[..., Any],
    rank: int,
    size: int,
    port: int,
    arguments: tuple[Any, ...],
    results: Any,
    group: bool,
    farewell: bool,
) -> None:
    os.environ.update(
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        RANK=str(rank),
        WORLD_SIZE=str(size),
        LOCAL_RANK=str(rank),
    )
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        torch.manual_seed(0)
        if group:
            dist.init_process_group("gloo")
        value = function(rank, size, *arguments)
        results.put((rank, None, value))
        if not farewell:
            results.close()
            results.join_thread()
            os._exit(0)
        if group:
            dist.barrier()
            dist.destroy_process_group()
    except BaseException:  # noqa: BLE001  it is passed on
        results.put((rank, traceback.format_exc(), None))
        results.close()
        results.join_thread()
        sys.stdout.flush()
        os._exit(1)


def run(
    function: Callable[..., Any],
    *arguments: Any,
    ranks: int,
    group: bool = True,
    timeout: float = WATCHDOG_SECONDS,
    expected_to_die: tuple[int, ...] = (),
    farewell: bool = True,
) -> list[Any]:
    """Returns what each rank returned. A rank in `expected_to_die` returns None and may end as it
    likes. `group`: the function finds a process group; `farewell`: the ranks leave it together."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    port = free_port()
    processes = [
        context.Process(
            target=_rank_main,
            args=(function, rank, ranks, port, arguments, results, group, farewell),
            daemon=True,
        )
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    returned: dict[int, Any] = {}
    failures: list[str] = []
    waiting_for = set(range(ranks)) - set(expected_to_die)
    end = time.monotonic() + timeout
    try:
        while waiting_for and not failures:
            try:
                rank, failure, value = results.get(timeout=0.2)
            except queue.Empty:
                gone = [rank for rank in waiting_for if processes[rank].exitcode not in (None, 0)]
                if gone and results.empty():
                    failures.append(
                        f"rank {gone[0]} ended with {processes[gone[0]].exitcode} without a word"
                    )
                if time.monotonic() > end:
                    failures.append(
                        f"watchdog: ranks {sorted(waiting_for)} have not returned after {timeout} s"
                    )
                continue
            waiting_for.discard(rank)
            if failure is not None and rank not in expected_to_die:
                failures.append(f"rank {rank}:\n{failure}")
            returned[rank] = value
        if failures:
            time.sleep(1)  # the other ranks' words often say more
            while not results.empty():
                rank, failure, _ = results.get()
                if failure is not None:
                    failures.append(f"rank {rank}:\n{failure}")
        for rank, process in enumerate(processes):
            process.join(0 if failures or rank in expected_to_die else 20)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
    assert not failures, "\n".join(failures)
    return [returned.get(rank) for rank in range(ranks)]


def scratch() -> str:
    return tempfile.mkdtemp(prefix="pliant-test-")
