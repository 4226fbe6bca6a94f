# SPDX-License-Identifier: MIT
"""The run log and the metrics of real training on two ranks."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import pliant
from pliant import runlog
from pliant.monitoring import lab, metrics
from pliant.monitoring.hide_secrets import hide_secrets
from support import run_log_schema, synthetic_logs, world

STEPS = 12
HERE = Path(__file__).parent


def _model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(40, 300), nn.BatchNorm1d(300), nn.ReLU(), nn.Linear(300, 10))


def _train(
    rank: int, steps: int, **options: Any
) -> tuple[pliant.Averager, DistributedDataParallel]:
    ddp = DistributedDataParallel(
        _model(), broadcast_buffers=False
    )  # a dead peer is found by pliant, not by DDP's own broadcast
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    averager = pliant.attach(ddp, optimizer, **options)
    torch.manual_seed(rank)
    for _ in range(steps):
        loss = ddp(torch.randn(16, 40)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averager.note(loss=loss.item())
    return averager, ddp


def _logged(rank: int, size: int, folder: str, plan: str) -> tuple[int, int]:
    averager, _ = _train(rank, STEPS, plan=plan, log=f"{folder}/run.jsonl", lanes=2)
    averager.phase("later")
    logging.getLogger("pliant").warning("a warning of %s", "ours")
    averager.close()
    assert averager.summary().control_seconds > 0
    return averager.summary().bytes_sent, averager.summary().control_bytes_sent


@pytest.mark.parametrize(
    "plan",
    [
        "gradients union density=5%",
        "gradients dense",
        "auto",
        "updates every=2 late=1 union density=10%",
    ],
)
def test_a_run_is_logged_as_documented(plan: str, tmp_path: Path) -> None:
    (sent, control), _ = world.run(_logged, str(tmp_path), plan, ranks=2)
    assert os.listdir(tmp_path) == ["run.jsonl"], "rank 0 alone writes"
    lines = run_log_schema.read(tmp_path / "run.jsonl")
    run_log_schema.check(lines)
    steps = run_log_schema.of_type(lines, "step")
    assert len(steps) == STEPS
    assert sum(step["control_bytes"] for step in steps) == control
    assert sum(step["bytes"] for step in steps) == sent - control
    assert lines[-1]["summary"]["bytes"] == sent - control
    assert lines[-1]["status"] == "closed"
    header = lines[0]
    assert header["name"] == "run" and header["world"] == 2 and header["optimizer"] == "sgd"
    assert header["versions"]["torch"] == torch.__version__
    assert header["options"]["plan"] == plan
    notes = run_log_schema.of_type(lines, "note")
    assert [note["step"] for note in notes] == list(range(STEPS))
    assert all(note["values"]["loss"] > 0 for note in notes)
    assert [phase["name"] for phase in run_log_schema.of_type(lines, "phase")] == ["later"]
    assert "a warning of ours" in [
        message["text"] for message in run_log_schema.of_type(lines, "message")
    ]
    sending = [step for step in steps if step["round"] is not None]
    assert all(step["seen"] > 0 for step in sending)
    assert sending[-1]["predicted"] > 0 and sending[-1]["link"]["rate"] > 0
    assert steps[-1]["dense_step"] > 0


PLANS = (
    "gradients union density=5%",
    "updates every=3 late=1 union density=10%",
    "gradients dense",
)


def _changes_kind(rank: int, size: int, log: str) -> tuple[int, int, int, tuple[str, ...], str]:
    ddp = DistributedDataParallel(_model())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    averager = pliant.attach(ddp, optimizer, plan=PLANS[0], log=log)
    for plan in PLANS:
        averager.set_plan(plan)
        for _ in range(STEPS):
            optimizer.zero_grad()
            ddp(torch.randn(16, 40)).square().mean().backward()
            optimizer.step()
    averager.close()
    summary = averager.summary()
    return summary.steps, summary.bytes_sent, summary.exchanges, summary.decisions, str(summary)


def test_the_summary_counts_what_the_log_counts_when_the_kind_changes(tmp_path: Path) -> None:
    (steps, sent, exchanges, decisions, text), _ = world.run(
        _changes_kind, str(tmp_path / "run.jsonl"), ranks=2
    )
    lines = run_log_schema.read(tmp_path / "run.jsonl")
    run_log_schema.check(lines)
    end = lines[-1]["summary"]
    assert steps == end["steps"] == len(PLANS) * STEPS
    assert exchanges == end["exchanges"] and sent == end["bytes"] + end["control_bytes"]
    assert f"steps {steps}, " in text and f"{sent / steps / 1024:.3g} KiB a step" in text
    changed = [line for line in run_log_schema.of_type(lines, "decision") if line["changed"]]
    assert [f"step {line['step']}: {line['short']}" for line in changed[-len(decisions) :]] == list(
        decisions
    )
    assert decisions[0] == "step 0: pinned: top 5 %"
    assert "updates every 3, late 1, top 10 % instead of top 5 %, after one full exchange" in text
    first = [line for line in lines if line["type"] == "step" and "updates" in line["plan"]][0]
    assert f"step {first['step']}: full exchange done: updates every 3, late 1, top 10 %" in text


def _every_rank(rank: int, size: int, folder: str) -> None:
    averager, _ = _train(
        rank, 3, plan="gradients dense", log=Path(folder) / "run-{rank}.jsonl", name="<script>é\n"
    )
    averager.close()


def test_every_rank_writes_its_own_if_the_path_says_so(tmp_path: Path) -> None:
    world.run(_every_rank, str(tmp_path), ranks=2)
    for rank in range(2):
        lines = run_log_schema.read(tmp_path / f"run-{rank}.jsonl")
        run_log_schema.check(lines)
        assert (lines[0]["rank"], lines[0]["name"]) == (rank, "<script>é\n")


def _unwritable(rank: int, size: int, options: dict[str, str]) -> str:
    ddp = DistributedDataParallel(_model())
    with pytest.raises(OSError) as failure:
        pliant.attach(ddp, plan="gradients dense", **options)
    return str(failure.value)


def test_what_cannot_be_written_is_named_on_every_rank(tmp_path: Path) -> None:
    for options, culprit in (
        ({"log": str(tmp_path / "missing" / "run.jsonl")}, "missing/run.jsonl"),
        ({"log": str(tmp_path)}, str(tmp_path)),
        ({"metrics": str(tmp_path / "missing" / "run.prom")}, "missing/run.prom"),
        ({"metrics": "192.0.2.1:9095"}, "192.0.2.1:9095"),
    ):
        for text in world.run(_unwritable, options, ranks=2):
            assert text.startswith("rank 0: ") and culprit in text, text
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("where", ["", "localhost", "host:port", "127.0.0.1:70000", "run.txt"])
def test_metrics_that_make_no_sense_are_refused(where: str) -> None:
    with pytest.raises(ValueError, match="metrics="):
        metrics.read(where)


def test_metrics_are_on_loopback_unless_told_otherwise() -> None:
    assert metrics.read("9095") == ("127.0.0.1", 9095)
    assert metrics.read(":9095") == ("127.0.0.1", 9095)
    assert metrics.read("0.0.0.0:9095") == ("0.0.0.0", 9095)
    assert metrics.read("[::1]:9095") == ("::1", 9095)
    assert metrics.read("run.prom") == "run.prom"
    assert metrics.read(9095) == ("127.0.0.1", 9095)
    assert metrics.read(Path("run.prom")) == "run.prom"


_SAMPLE = re.compile(r'(pliant_[a-z_]+)\{(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+\} (\S+)')


def _samples(text: str) -> dict[str, float]:
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) pliant_[a-z_]+ .+", line), line
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, line
        samples[match[1]] = float(match[2])
    return samples


def _scraped(rank: int, size: int, folder: str) -> Any:
    port = world.free_port()
    averager, _ = _train(
        rank, 8, plan="gradients union density=5%", metrics=f"127.0.0.1:{port}", name='a "name"'
    )
    if rank == 0:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            found = _samples(answer.read().decode())
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/other", timeout=10)
    dist.barrier()
    averager.close()
    if rank != 0:
        return None
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)
    return found


def test_metrics_are_served_while_the_run_lasts(tmp_path: Path) -> None:
    found = world.run(_scraped, str(tmp_path), ranks=2)[0]
    assert 5 <= found["pliant_steps_total"] <= 8
    assert found["pliant_bytes_sent_total"] > 0
    assert found["pliant_wire_seconds_total"] > 0
    assert found["pliant_link_rate_bits_per_second"] > 0
    assert found["pliant_plan_info"] == 1
    assert found["pliant_note"] > 0


def _fails_to_attach(rank: int, size: int) -> None:
    """While the exception is held, so is everything that its frames hold."""
    port = world.free_port()
    for options in ({"check_every": rank}, {"log": "/nonexistent/run.jsonl"}):
        with pytest.raises((pliant.DisagreementError, OSError)) as failure:
            pliant.attach(DistributedDataParallel(_model()), metrics=port, **options)  # type: ignore[arg-type]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
        assert not [thread for thread in threading.enumerate() if "metrics" in thread.name]
        del failure
    averager, _ = _train(rank, 2, plan="gradients dense", metrics=port)
    averager.close()


def test_a_failed_attach_gives_the_port_of_the_metrics_back() -> None:
    world.run(_fails_to_attach, ranks=2)


def _to_file(rank: int, size: int, folder: str) -> int:
    averager, _ = _train(
        rank, 8, plan="gradients dense", metrics=f"{folder}/run.prom", log=f"{folder}/run.jsonl"
    )
    averager.close()
    return averager.summary().bytes_sent - averager.summary().control_bytes_sent


def test_metrics_may_be_a_file(tmp_path: Path) -> None:
    sent = world.run(_to_file, str(tmp_path), ranks=2)[0]
    assert sorted(os.listdir(tmp_path)) == ["run.jsonl", "run.prom"], "nothing is left beside it"
    found = _samples((tmp_path / "run.prom").read_text())
    assert found["pliant_steps_total"] == 8 and found["pliant_bytes_sent_total"] == sent


def _ends_without_a_word(rank: int, size: int, folder: str, plan: str) -> None:
    script = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
import torch.distributed as dist, run_log_test
dist.init_process_group("gloo")
run_log_test._train({rank}, 6, plan={plan!r}, log={folder + "/run.jsonl"!r}, metrics={folder + "/run.prom"!r})
"""
    dist.barrier()
    environment = {**os.environ, "MASTER_PORT": str(int(os.environ["MASTER_PORT"]) + 1)}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env=environment)


@pytest.mark.parametrize("plan", ["gradients dense", "updates every=2 late=1 union density=10%"])
def test_a_script_that_simply_ends_writes_its_last_lines(plan: str, tmp_path: Path) -> None:
    world.run(_ends_without_a_word, str(tmp_path), plan, ranks=2)
    lines = run_log_schema.read(tmp_path / "run.jsonl")
    run_log_schema.check(lines)
    assert len(run_log_schema.of_type(lines, "step")) == 6
    assert _samples((tmp_path / "run.prom").read_text())["pliant_steps_total"] == 6


def _killed(rank: int, size: int, folder: str) -> None:
    averager, ddp = _train(rank, 10, plan="gradients union density=5%", log=f"{folder}/run.jsonl")
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(pliant.CommError):
        for _ in range(100):
            ddp(torch.randn(16, 40)).square().mean().backward()


def test_who_is_killed_leaves_whole_lines(tmp_path: Path) -> None:
    world.run(_killed, str(tmp_path), ranks=2, expected_to_die=(0,), farewell=False)
    assert (tmp_path / "run.jsonl").read_bytes().endswith(b"\n")
    lines = run_log_schema.read(tmp_path / "run.jsonl")
    run_log_schema.check(lines, ended=False)
    assert len(run_log_schema.of_type(lines, "step")) >= 8


def _peer_dies(rank: int, size: int, folder: str) -> None:
    averager, ddp = _train(
        rank, 5, plan="gradients dense", log=f"{folder}/run.jsonl", deadline=20.0
    )
    if rank == 1:
        os._exit(3)
    with pytest.raises(pliant.CommError):
        for _ in range(100):
            ddp(torch.randn(16, 40)).square().mean().backward()
    averager.close()


def test_a_failure_is_in_the_last_line(tmp_path: Path) -> None:
    world.run(_peer_dies, str(tmp_path), ranks=2, expected_to_die=(1,), farewell=False)
    lines = run_log_schema.read(tmp_path / "run.jsonl")
    run_log_schema.check(lines)
    assert lines[-1]["status"] == "failed" and "rank 0" in lines[-1]["error"]
    assert len(run_log_schema.of_type(lines, "step")) == 5


_ENDING = """
import os, signal, sys, torch, pliant
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
averager = pliant.attach(model, plan="gradients dense", log=sys.argv[1])
how, closes = sys.argv[2:]
try:
    model(torch.ones(3, 4)).sum().backward()
    if how == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass
    elif how == "failed":
        raise ValueError("no such file")
    elif how == "exit":
        sys.exit(3)
finally:
    if closes == "closed":
        averager.close()
"""


@pytest.mark.parametrize("closes", ["closed", "left open"])
@pytest.mark.parametrize(
    ("how", "status", "error"),
    [
        ("interrupted", "interrupted", None),
        ("failed", "failed", "ValueError: no such file"),
        pytest.param("exit", "closed", None, marks=pytest.mark.slow),
        pytest.param("end", "closed", None, marks=pytest.mark.slow),
    ],
)
def test_the_last_line_says_how_the_run_ended(
    how: str, status: str, error: str | None, closes: str, tmp_path: Path
) -> None:
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(world.free_port())}
    subprocess.run(
        [sys.executable, "-c", _ENDING, str(tmp_path / "run.jsonl"), how, closes],
        env={**os.environ, **place, "RANK": "0", "WORLD_SIZE": "1"},
        stderr=subprocess.PIPE,
        timeout=120,
        check=how == "end",
    )
    lines = run_log_schema.read(tmp_path / "run.jsonl")
    run_log_schema.check(lines)
    assert (lines[-1]["status"], lines[-1]["error"]) == (status, error)


def test_outside_the_lab_a_phase_is_only_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLIANT_LAB_CONTROL", raising=False)
    assert lab.enter_phase("slow") is False
    monkeypatch.setenv("PLIANT_LAB_CONTROL", "/nonexistent/control")
    with pytest.raises(ValueError, match="phase 'slow': the lab does not answer"):
        lab.enter_phase("slow")


_WARNS = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
import logging, torch.distributed as dist, run_log_test
dist.init_process_group("gloo")
averager, _ = run_log_test._train(0, 2, plan="gradients dense", log=sys.argv[1])
logging.getLogger("pliant").warning("clip norms of all ranks alike")
averager.load_state_dict(None)
averager.close()
"""


def _run_alone(*command: str) -> str:
    """Runs a script as the only rank. Returns what it wrote to stderr."""
    environment = {
        **os.environ,
        **{"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"},
        "MASTER_PORT": str(world.free_port()),
    }
    done = subprocess.run(
        [sys.executable, *command],
        check=True,
        timeout=120,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    return done.stderr


def test_a_run_log_leaves_warnings_on_the_terminal(tmp_path: Path) -> None:
    """Of a program that never configured logging, Python prints warnings to stderr."""
    printed = _run_alone("-c", _WARNS, str(tmp_path / "run.jsonl"))
    lines = run_log_schema.read(tmp_path / "run.jsonl")
    logged = [message["text"] for message in run_log_schema.of_type(lines, "message")]
    for warning in ("clip norms of all ranks alike", "no averager state to load"):
        assert printed.count(warning) == 1, printed
        assert sum(warning in text for text in logged) == 1, logged


def test_a_run_log_is_private_and_has_no_secrets_and_an_older_one_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    older = "".join(json.dumps(line) + "\n" for line in synthetic_logs.made(steps=20).lines)
    path.write_text(older)
    _run_alone("-c", _WARNS, str(path), "--token", "hunter1", "--lr=0.1", "HF_TOKEN=hunter2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (tmp_path / "run.1.jsonl").read_text() == older
    assert runlog.read(path).header.world == 1, "a reader sees the last run"
    assert b"hunter" not in path.read_bytes()
    command = run_log_schema.read(path)[0]["command"]
    assert command[-4:] == ["--token", "***", "--lr=0.1", "HF_TOKEN=***"]


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("--password=a b", "--password=***"),
        ("--hf_token|x|--lr|0.1", "--hf_token|***|--lr|0.1"),
        ("--wandb-api-key|-12x", "--wandb-api-key|***"),
        ("--apiKey|x", "--apiKey|***"),
        ("-secret|x", "-secret|***"),
        ("--key|x", "--key|***"),
        ("wandb.api_key=x|+db.password=y", "wandb.api_key=***|+db.password=***"),
        ("AWS_SECRET_ACCESS_KEY=x|NAME=y", "AWS_SECRET_ACCESS_KEY=***|NAME=***"),
        ("--env=HF_TOKEN=x", "--env=HF_TOKEN=***"),
        ("hf_abcdefgh|sk-proj-12345678", "***|***"),
        ("--init=tcp://user:word@host/x", "--init=tcp://***@host/x"),
        ("--header|Authorization: Bearer x", "--header|Authorization: ***"),
        ('--config|{"lr": 1, "api_key": "x"}', '--config|{"lr": 1, "api_key": ***'),
        ("https://host/?lr=1&token=x", "https://host/?lr=1&token=***"),
    ],
)
def test_secrets_of_a_command_are_hidden(command: str, written: str) -> None:
    assert hide_secrets(command.split("|")) == written.split("|")


def test_harmless_words_of_a_command_stay() -> None:
    command = (
        "train.py --tokenizer gpt2 --max-tokens 512 --use-auth-token --lr=0.1 model.depth=4 "
        "s3://bucket/data --monkey x --passes 3 --resume run:latest tcp://10.0.0.1:2950"
    ).split()
    assert hide_secrets(command) == command


def _bare_hook(rank: int, size: int, folder: str) -> None:
    ddp = DistributedDataParallel(_model())
    averager, hook = pliant.comm_hook("gradients union density=5%", log=f"{folder}/run.jsonl")
    ddp.register_comm_hook(averager, hook)
    for _ in range(6):
        ddp(torch.randn(16, 40)).square().mean().backward()
        averager.note(loss=torch.tensor(1.5))
    with pytest.raises(TypeError, match="note: loss='high': allowed is a number"):
        averager.note(loss="high")  # type: ignore[arg-type]
    averager.close()


def test_a_bare_hook_logs_from_its_second_step_on(tmp_path: Path) -> None:
    world.run(_bare_hook, str(tmp_path), ranks=2)
    lines = run_log_schema.read(tmp_path / "run.jsonl")
    run_log_schema.check(lines)
    assert len(run_log_schema.of_type(lines, "step")) == 5
    assert lines[0]["optimizer"] is None
