# SPDX-License-Identifier: MIT
"""Benchmark of the lab's accuracy: rates, round trips, losses, the delay of a change, and the cost
of the switch.

Without arguments: the benchmark. With a role it is one of its endpoints, started by pliant-lab in
every host."""

from __future__ import annotations

import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import figures

LAB = figures.ROOT / "build" / "release" / "tools" / "pliant-lab" / "pliant-lab"
REPEATS = 3
RATES = {
    "64kbit": 64,
    "1mbit": 1000,
    "10mbit": 10_000,
    "100mbit": 100_000,
    "1000mbit": 1_000_000,
    "2000mbit": 2_000_000,
    "5000mbit": 5_000_000,
}  # kbit/s
PORT = 5201
RANK = int(os.environ.get("RANK", "0"))
SIZE = int(os.environ.get("WORLD_SIZE", "1"))


def address(host: int) -> str:
    return f"10.77.0.{host + 1}"


# The endpoints
# ------------------------------------------------------------------------------------------------------


def say(**result: object) -> None:
    print(json.dumps(result))


def connect(host: int) -> socket.socket:
    """Connects to a server that may not listen yet; gives up after 10 s."""
    for _ in range(200):
        try:
            return socket.create_connection((address(host), PORT), timeout=10)
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"host {host} does not listen")


def receive_for(connection: socket.socket, warm_up: float, seconds: float) -> float:
    """Bits per second that arrive after the warm-up."""
    buffer = bytearray(1 << 18)
    connection.settimeout(10)
    first = time.monotonic() + warm_up
    last = first + seconds
    start = end = 0.0
    received = 0
    while end < last:
        size = connection.recv_into(buffer)
        end = time.monotonic()
        if start:
            received += size
        elif end >= first:
            start = end
        if not size:
            break
    return received * 8 / (end - start)


def send_until_closed(connection: socket.socket) -> None:
    block = bytes(1 << 18)
    connection.settimeout(10)
    try:
        while True:
            connection.sendall(block)
    except OSError:
        pass  # the receiver has seen enough


def stream(warm_up: float, seconds: float) -> None:
    """Host 0 sends one TCP stream to host 1."""
    if RANK == 0:
        return send_until_closed(connect(1))
    with socket.create_server((address(1), PORT)) as server:
        connection, _ = server.accept()
        say(bits_per_second=receive_for(connection, warm_up, seconds))
        connection.close()


def all_to_all(warm_up: float, seconds: float) -> None:
    """Every host sends to every other one over TCP; each says what it got in all. One thread a host
    serves all its streams, and what arrives is never copied: the processors are the switch's and
    TCP's."""
    with (
        socket.create_server((address(RANK), PORT), backlog=SIZE) as server,
        selectors.DefaultSelector() as ready,
    ):
        for host in (host for host in range(SIZE) if host != RANK):
            out = connect(host)
            out.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 1 << 17)
            ready.register(out, selectors.EVENT_WRITE)
        for _ in range(SIZE - 1):
            ready.register(server.accept()[0], selectors.EVENT_READ)
        for key in ready.get_map().values():
            key.fileobj.setblocking(False)
        received = serve_streams(ready, time.monotonic() + warm_up, seconds)
    say(bits_per_second=received * 8 / seconds)


def serve_streams(ready: selectors.BaseSelector, first: float, seconds: float) -> int:
    """Bytes that arrive in the given stretch of time. Goes on for a second: the others are still
    measuring."""
    block, nowhere = bytes(1 << 17), bytearray(1 << 20)
    received = 0
    while (now := time.monotonic()) < first + seconds + 1:
        for key, events in ready.select(timeout=0.1):
            try:
                if events & selectors.EVENT_WRITE:
                    key.fileobj.send(block)
                    continue
                size = key.fileobj.recv_into(
                    nowhere, 0, socket.MSG_TRUNC
                )  # counted and discarded by the kernel
            except BlockingIOError:
                continue
            except ConnectionError:
                size = 0
            if size == 0:
                ready.unregister(key.fileobj)  # that host has seen enough
            elif first <= now < first + seconds:
                received += size
    return received


def flood(bits_per_second: float, seconds: float) -> None:
    """Every host sends datagrams to all others in turn, at an even pace; nobody reads them."""
    sock = udp()
    others = [(address((RANK + k) % SIZE), PORT) for k in range(1, SIZE)]
    datagram = bytes(1472)  # a packet of 1500 bytes
    per_second = bits_per_second / 8 / 1500
    time.sleep(0.5)  # everybody is there
    start = time.monotonic()
    sent = 0
    while (elapsed := time.monotonic() - start) < seconds:
        while sent < elapsed * per_second:
            sock.sendto(datagram, others[sent % len(others)])
            sent += 1
        time.sleep(0.004)


def udp() -> socket.socket:
    """A socket, for a process that from now on is served at once if that is allowed: it is the
    network that is timed."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        pass
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address(RANK), PORT))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    sock.settimeout(5)
    return sock


def round_trips(count: int) -> None:
    """Host 0 asks, host 1 answers, one after the other."""
    sock = udp()
    if RANK == 1:
        while True:
            data, sender = sock.recvfrom(2048)
            sock.sendto(data, sender)
            if data == b"end":
                return
    time.sleep(0.3)  # host 1 listens
    times = []
    for i in range(count):
        start = time.monotonic()
        sock.sendto(str(i).encode(), (address(1), PORT))
        sock.recvfrom(2048)
        times.append(time.monotonic() - start)
    say(seconds=statistics.median(times))
    sock.sendto(b"end", (address(1), PORT))
    time.sleep(0.5)


def lossy(count: int, per_second: int) -> None:
    """Host 0 sends numbered datagrams at an even pace, host 1 counts what arrives."""
    sock = udp()
    if RANK == 0:
        time.sleep(0.3)
        start = time.monotonic()
        for i in range(count):
            if i % 50 == 0:
                time.sleep(max(0.0, start + i / per_second - time.monotonic()))
            sock.sendto(b"x" * 64, (address(1), PORT))
        time.sleep(1)
        for _ in range(50):
            sock.sendto(b"end", (address(1), PORT))
        return
    arrived = 0
    while sock.recv(2048) != b"end":
        arrived += 1
    say(lost=1 - arrived / count)


def ask(line: str) -> str:
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(os.environ["PLIANT_LAB_CONTROL"])
        control.sendall(line.encode() + b"\n")
        return control.makefile().readline().strip()


def change(times: int) -> None:
    """Host 0 sends a datagram each ms and switches the delay between 5 and 45 ms; host 1 says how
    long each was under way."""
    sock = udp()
    if RANK == 1:
        while (data := sock.recv(2048)) != b"end":
            sent = float(data)
            print(json.dumps([sent, time.monotonic() - sent]))
        return
    time.sleep(0.3)
    commands = []
    for i in range(times * 150):
        if i % 150 == 75:
            commands.append((time.monotonic(), 45 if len(commands) % 2 == 0 else 5))
            ask(f"set all {commands[-1][1]}ms")
        sock.sendto(repr(time.monotonic()).encode(), (address(1), PORT))
        time.sleep(0.001)
    say(commands=commands)
    time.sleep(0.2)
    for _ in range(5):
        sock.sendto(b"end", (address(1), PORT))


ROLES = {
    "stream": stream,
    "all_to_all": all_to_all,
    "flood": flood,
    "round_trips": round_trips,
    "lossy": lossy,
    "change": change,
}


# The benchmark
# ------------------------------------------------------------------------------------------------------


def run(options: list[str], role: str, *arguments: float) -> list[object]:
    """The JSON lines that the hosts wrote."""
    command = [
        str(LAB),
        "run",
        "--timeout",
        "100s",
        *options,
        "--",
        sys.executable,
        __file__,
        role,
        *map(str, arguments),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    return [json.loads(line.split("] ", 1)[1]) for line in done.stdout.splitlines()]


def rate_ratio(kbit: int) -> float:
    warm_up, seconds = (8, 30) if kbit < 1000 else (4, 10) if kbit < 10_000 else (2, 5)
    delay = (
        5 if kbit <= 1_000_000 else 1
    )  # beyond, TCP's default buffers (4 to 6 MB) would not fill a round trip of 10 ms
    [result] = run(["--hosts", "2", "--link", f"{kbit}kbit,{delay}ms"], "stream", warm_up, seconds)
    return result["bits_per_second"] / (kbit * 1e3)


def rtt_error_ms(ms: int) -> float:
    [result] = run(["--hosts", "2", "--link", f"100mbit,{ms}ms"], "round_trips", 30)
    return result["seconds"] * 1e3 - 2 * ms


def loss_ratio(percent: int, seed: int) -> float:
    [result] = run(
        [
            "--hosts",
            "2",
            "--seed",
            str(seed),
            "--link",
            f"1gbit,5ms,loss={percent}%,queue=10000p",
            "--mtu",
            "1500",
        ],
        "lossy",
        60000,
        15000,
    )
    return result["lost"] / (percent / 100)


def change_delays_ms() -> list[float]:
    lines = run(["--hosts", "2", "--link", "100mbit,5ms"], "change", 20)
    commands = next(line["commands"] for line in lines if isinstance(line, dict))
    packets = [line for line in lines if isinstance(line, list)]
    delays = []
    for at, delay in commands:
        in_force = [
            sent for sent, took in packets if at <= sent < at + 0.1 and abs(took * 1e3 - delay) < 10
        ]
        delays.append((min(in_force) - at) * 1e3)
    return delays


@dataclass
class Share:
    """Measurement of 8 hosts at 20 Mbit/s that all send to all, once the streams are under way."""

    cores: float  # that the switch used
    sum: float  # IP packets that passed all links, against what they may: rates count those
    least: float  # the same of the host that received least
    payload: float  # what programs received; at most 1448 / (1500 + 52) to 1448 / (1500 + 26) of it with TCP's headers and acknowledgements


def eight_hosts(role: str, *arguments: float) -> Share:
    with tempfile.TemporaryDirectory() as folder:
        truth = Path(folder) / "truth.jsonl"
        lines = run(
            ["--hosts", "8", "--link", "20mbit,10ms", "--truth", str(truth)], role, *arguments
        )
        records = [json.loads(line) for line in truth.read_text().splitlines()]
    start = records[0]["mono"]
    middle = [
        r for r in records if r["type"] in ("second", "switch") and 4 < r["mono"] - start < 11
    ]
    switch = [r for r in middle if r["type"] == "switch"]
    cores = sum(r["cpu_s"] for r in switch) / sum(r["interval_s"] for r in switch)
    hosts = [
        [r for r in middle if r["type"] == "second" and r["host"] == host] for host in range(8)
    ]
    ratios = [
        sum(r["in"]["bytes"] for r in seconds) * 8 / 20e6 / sum(r["interval_s"] for r in seconds)
        for seconds in hosts
    ]
    return Share(
        cores,
        statistics.mean(ratios),
        min(ratios),
        sum(line["bits_per_second"] for line in lines) / (8 * 20e6),
    )


def start_up_seconds(hosts: int) -> float:
    """From the command to the end of a job that does nothing."""
    start = time.monotonic()
    subprocess.run(
        [
            str(LAB),
            "run",
            "--timeout",
            "100s",
            "--hosts",
            str(hosts),
            "--link",
            "100mbit,10ms",
            "--",
            "true",
        ],
        check=True,
        timeout=120,
    )
    return time.monotonic() - start


def measure() -> list[figures.Figure]:
    rates = {name: [] for name in RATES}
    errors = {ms: [] for ms in (1, 10, 50, 150)}
    losses = {percent: [] for percent in (1, 5)}
    changes: list[float] = []
    streams: list[Share] = []
    floods: list[Share] = []
    start_ups: list[float] = []
    for repeat in range(
        REPEATS
    ):  # interleaved, so that a busy minute of the machine does not hit one figure alone
        for name, samples in rates.items():
            samples.append(rate_ratio(RATES[name]))
        for ms, samples in errors.items():
            samples.append(rtt_error_ms(ms))
        for percent, samples in losses.items():
            samples.append(loss_ratio(percent, repeat + 1))
        changes += change_delays_ms()
        streams.append(eight_hosts("all_to_all", 4, 7))
        floods.append(eight_hosts("flood", 21_000_000, 11))
        start_ups.append(start_up_seconds(200))
        print(f"bench lab: {repeat + 1} of {REPEATS} rounds", file=sys.stderr)
    return [
        *(figures.spread(f"rate_ratio/{name}", samples, "") for name, samples in rates.items()),
        *(figures.spread(f"rtt_error_ms/{ms}ms", samples, "ms") for ms, samples in errors.items()),
        *(
            figures.spread(f"loss_ratio/{percent}%", samples, "")
            for percent, samples in losses.items()
        ),
        figures.spread("change_delay_ms", changes, "ms"),
        figures.spread("cores_used/8x20mbit", [share.cores for share in streams], "cores"),
        figures.spread("sum_ratio/8x20mbit", [share.sum for share in streams], ""),
        figures.spread("payload_ratio/8x20mbit", [share.payload for share in streams], ""),
        figures.spread("flood_sum_ratio/8x20mbit", [share.sum for share in floods], ""),
        figures.spread("flood_least_ratio/8x20mbit", [share.least for share in floods], ""),
        figures.spread("flood_cores_used/8x20mbit", [share.cores for share in floods], "cores"),
        figures.spread("start_up_s/200hosts", start_ups, "s"),
    ]


def main() -> None:
    if len(sys.argv) > 1:
        return ROLES[sys.argv[1]](*(int(argument) for argument in sys.argv[2:]))
    results = measure()
    print(figures.show(results))
    print(f"wrote {figures.write('lab', results)}")


if __name__ == "__main__":
    main()
