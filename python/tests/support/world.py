# SPDX-License-Identifier: MIT
"""Runner of a function on several ranks: processes on this machine, Gloo on loopback, a watchdog
over all of them.

    @on_ranks(2, slow(3))
    def test_something(rank): ...

    def train(rank, size, plan): ...
    results = world.run(train, "gradients dense", ranks=3)

Functions are found by module and name, so they must be at the top of a test file. What a rank
returns comes back, by rank; what it raises ends the test with its traceback. A rank that crashes or
hangs on its way out, after it has returned, fails the test too.

With PLIANT_TEST_DEVICE=late in the environment everything that a rank makes is on the late device
(support/late_backend.py), and its process group has the backend for it.

Ranks are forked from a server that has imported torch: that takes seconds of every process that
does it by itself. They end as a script ends, with everything that runs at exit."""

from __future__ import annotations

import contextlib
import functools
import importlib
import multiprocessing
import multiprocessing.forkserver
import os
import queue
import random
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

DEVICE = "PLIANT_TEST_DEVICE"
WATCHDOG_SECONDS = 240.0 * (4 if os.environ.get(DEVICE) == "late" else 1)  # it is late on purpose
LEAVING_SECONDS = 60.0  # from a rank's last word to its end: far more than it takes


def free_port() -> int:
    """A port that nobody uses now. It is below those that the kernel gives to connections, and
    random, so that tests side by side take different ones."""
    for _ in range(100):
        port = random.SystemRandom().randrange(15_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
    raise OSError("no free port between 15000 and 30000 in 100 tries")


@functools.cache
def _server() -> Any:
    """The context of a server that runs, and finds support.preloaded by its PYTHONPATH."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["support.preloaded"])
    here = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    with mock.patch.dict(os.environ, PYTHONPATH=path):
        multiprocessing.forkserver.ensure_running()
    return context


def _rank_main(
    function: Callable[..., Any],
    rank: int,
    size: int,
    environment: dict[str, str],
    arguments: tuple[Any, ...],
    results: Any,
    group: bool,
    farewell: bool,
) -> None:
    os.environ.clear()  # the server's is as old as the server
    os.environ.update(environment)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank))

    def say(failure: str | None, value: Any = None) -> None:
        results.put((rank, failure, value))
        results.close()
        results.join_thread()
        sys.stdout.flush()

    try:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        torch.manual_seed(0)
        backend = "gloo"
        if os.environ.get(DEVICE) == "late":
            importlib.import_module("support.late_backend")
            importlib.import_module("late_device").set_delays(seed=rank + 1, most=60, period=8)
            torch.set_default_device("late")
            backend = "cpu:gloo,late:staged"
        if group:
            dist.init_process_group(backend)
        value = _on_host(function(rank, size, *arguments))
        if group and farewell:
            dist.barrier()
            dist.destroy_process_group()
            # Threads of torch's own group may still let go of tensors, for which they need the
            # interpreter; if it ends meanwhile, torch aborts, with Pliant or without.
            time.sleep(0.05)
    except BaseException:  # noqa: BLE001  it is passed on
        say(traceback.format_exc())
        os._exit(1)
    say(None, value)
    if not farewell:
        os._exit(0)
    # End as a script does. multiprocessing would call os._exit(), which runs no finalizers, and holds
    # on to the function, and so to everything in its module.
    os._exit = sys.exit  # type: ignore[assignment]
    process: Any = multiprocessing.current_process()
    process._target, process._args = None, ()


def _on_host(value: Any) -> Any:
    """What a rank returns must be readable by another process."""
    if hasattr(value, "cpu"):
        return value.cpu()
    if isinstance(value, (list, tuple)):
        return type(value)(_on_host(each) for each in value)
    if isinstance(value, dict):
        return {key: _on_host(each) for key, each in value.items()}
    return value


def run(
    function: Callable[..., Any],
    *arguments: Any,
    ranks: int,
    group: bool = True,
    timeout: float = WATCHDOG_SECONDS,
    leaving_timeout: float = LEAVING_SECONDS,
    expected_to_die: tuple[int, ...] = (),
    farewell: bool = True,
) -> list[Any]:
    """Returns what each rank returned. A rank in `expected_to_die` returns None and may end as it
    likes. `group`: the function finds a process group. `farewell`: the ranks leave it together and
    end as scripts do; otherwise they end at once, without anything that runs at exit."""
    context = _server()
    results = context.Queue()
    environment = {"GLOO_SOCKET_IFNAME": "lo", **os.environ}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = [
        context.Process(
            target=_rank_main,
            args=(function, rank, ranks, environment, arguments, results, group, farewell),
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
                gone = [rank for rank in waiting_for if processes[rank].exitcode is not None]
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
        else:
            failures = _ends(processes, expected_to_die, leaving_timeout)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join(20)
    assert not failures, "\n".join(failures)
    return [returned.get(rank) for rank in range(ranks)]


def _ends(processes: list[Any], expected_to_die: tuple[int, ...], timeout: float) -> list[str]:
    """Waits for ranks that have returned; what was wrong with their ends."""
    end = time.monotonic() + timeout
    failures = []
    for rank, process in enumerate(processes):
        if rank in expected_to_die:
            continue
        process.join(max(0.0, end - time.monotonic()))
        if process.exitcode is None:
            failures.append(f"rank {rank} returned, but has not ended after {timeout} s")
        elif process.exitcode != 0:
            failures.append(f"rank {rank} returned, but ended with {process.exitcode}")
    return failures


def slow(ranks: int) -> Any:
    """So many ranks, in `make test-all` only."""
    return pytest.param(ranks, marks=pytest.mark.slow)


def on_ranks(*sizes: Any) -> Callable[[Callable[[int], None]], Callable[[int], None]]:
    """Makes a test of a function that every rank runs with its number, once for each size."""

    def decorate(body: Callable[[int], None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("ranks", sizes)
        def test(ranks: int) -> None:
            run(_run_body, body.__module__, body.__name__, ranks=ranks)

        test.body = body  # type: ignore[attr-defined]
        test.__doc__ = body.__doc__
        return test

    return decorate


def _run_body(rank: int, size: int, module: str, name: str) -> None:
    getattr(importlib.import_module(module), name).body(rank)
