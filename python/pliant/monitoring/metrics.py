# SPDX-License-Identifier: MIT
"""Metrics of a run as Prometheus text, served over HTTP or written to a file for node_exporter's
textfile collector. docs/metrics.md lists the names."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pliant.argument_checks import refusal

# A scraper comes every 15 seconds or so; a file that is older than this looks dead.
_FILE_SECONDS = 5.0

_ALLOWED = "a port (9095), a host and a port ('127.0.0.1:9095'), or a file that ends in .prom"

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Name after pliant_, keys that lead to it in Engine.latest(), help.
_COUNTERS = (
    ("steps_total", "summary.steps", "Completed steps of training."),
    ("exchanges_total", "summary.exchanges", "Exchanges of those steps."),
    ("voids_total", "summary.voids", "Steps whose exchange was void."),
    ("bytes_sent_total", "summary.bytes", "Bytes that this rank sent, control records apart."),
    (
        "control_bytes_sent_total",
        "summary.control_bytes",
        "Bytes of control records that this rank sent.",
    ),
    ("seconds_total", "sums.whole", "Seconds that the steps took."),
    ("compute_seconds_total", "sums.compute", "Of that, this rank's own work."),
    ("exposed_seconds_total", "sums.exposed", "Of that, waiting for exchanges."),
    ("coding_seconds_total", "sums.coding", "Selecting, encoding, decoding."),
    ("wire_seconds_total", "sums.seen", "Exchanges on the wire, by the rank that came last."),
)
_GAUGES = (
    ("epoch", "step.epoch", "Plan version."),
    ("step_seconds", "step.whole", "The last completed step."),
    ("step_compute_seconds", "step.compute", "Of that, this rank's own work."),
    ("step_exposed_seconds", "step.exposed", "Of that, waiting for an exchange."),
    (
        "step_dense_seconds",
        "step.dense_step",
        "What the model says a step with a plain dense all-reduce would take.",
    ),
    ("wire_seconds", "step.seen", "Its exchanges on the wire."),
    ("wire_predicted_seconds", "step.predicted", "What the model said they would take."),
    ("updated_fraction", "step.updated", "Entries of the result that are not zero / all."),
    ("gain", "step.gain", "Energy sent / energy accumulated."),
    (
        "residual_ratio",
        "step.residual_ratio",
        "Norm of what is not sent yet / norm of the contribution.",
    ),
    ("link_latency_seconds", "step.link.latency", "Estimated seconds per message."),
    ("link_latency_uncertainty_seconds", "step.link.latency_sd", "One standard deviation of that."),
    ("link_rate_bits_per_second", "step.link.rate", "Estimated bandwidth."),
    (
        "link_rate_uncertainty_bits_per_second",
        "step.link.rate_sd",
        "One standard deviation of that.",
    ),
)
_FIGURES = [(*row, "counter") for row in _COUNTERS] + [(*row, "gauge") for row in _GAUGES]


def text(latest: str, name: str, notes: dict[str, float]) -> str:
    """latest: the JSON of Engine.latest(). name: of the run."""
    known = json.loads(latest) if latest else {}
    run = f'run="{_escaped(name)}"'
    lines: list[str] = []
    for figure, path, about, kind in _FIGURES:
        value: Any = known
        for key in path.split("."):
            value = value.get(key) if value is not None else None
        if value is not None:
            lines += _sample(figure, kind, about, [(run, float(value))])
    plan = (known.get("step") or {}).get("plan")
    if plan:
        lines += _sample(
            "plan_info",
            "gauge",
            "The plan in force, as text; always 1.",
            [(f'{run},plan="{_escaped(plan)}"', 1.0)],
        )
    if notes:
        lines += _sample(
            "note",
            "gauge",
            "What the job itself said last.",
            [(f'{run},name="{_escaped(key)}"', value) for key, value in sorted(notes.items())],
        )
    return "\n".join(lines) + "\n" if lines else ""


def _sample(figure: str, kind: str, about: str, values: list[tuple[str, float]]) -> list[str]:
    full = f"pliant_{figure}"
    return [
        f"# HELP {full} {about}",
        f"# TYPE {full} {kind}",
        *(f"{full}{{{labels}}} {value:.17g}" for labels, value in values),
    ]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def read(where: object) -> tuple[str, int] | str:
    """A host and a port, or the path of a file."""
    if isinstance(where, os.PathLike):
        where = os.fspath(where)
    if isinstance(where, int) and not isinstance(where, bool):
        where = str(where)
    if not isinstance(where, str):
        raise refusal(TypeError, "metrics", where, _ALLOWED)
    if where.endswith(".prom") or "/" in where:
        return where
    host, colon, port = where.rpartition(":")
    if not port.isdecimal() or int(port) > 65535 or (not colon and where != port):
        raise refusal(ValueError, "metrics", where, _ALLOWED)
    return host.strip("[]") or "127.0.0.1", int(port)


class Server:
    """Answers GET /metrics in a thread of its own."""

    def __init__(self, host: str, port: int, say: Callable[[], str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # noqa: N802  http.server's name
                if self.path.partition("?")[0] not in ("/", "/metrics"):
                    self.send_error(404)
                    return
                body = say().encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """A library does not print."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise OSError(f"serving metrics at {host}:{port}: {error.strerror or error}") from None
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.2},
            name="pliant metrics",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class File:
    """Rewritten every few seconds and at the end: beside it first, then put in its place."""

    def __init__(self, path: str, say: Callable[[], str]) -> None:
        self._path, self._say = path, say
        self._ending = threading.Event()
        try:
            self._write()
        except OSError as error:
            raise OSError(f"writing metrics to '{path}': {error.strerror or error}") from None
        self._thread = threading.Thread(target=self._work, name="pliant metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            self._write()

    def _work(self) -> None:
        while not self._ending.wait(_FILE_SECONDS):
            with contextlib.suppress(OSError):  # a disk that is full for a while
                self._write()

    def _write(self) -> None:
        folder, name = os.path.split(os.path.abspath(self._path))
        handle, beside = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(self._say())
                os.fchmod(file.fileno(), 0o644)  # the collector is another user
            os.replace(beside, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise


def start(where: object, say: Callable[[], str]) -> Server | File:
    """OSError that names what cannot be had."""
    place = read(where)
    return File(place, say) if isinstance(place, str) else Server(*place, say)
