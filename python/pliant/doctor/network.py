# SPDX-License-Identifier: MIT
"""Checks of this machine's network: which interface Gloo picks, the settings of TCP, which ports
are opened."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from pliant.doctor.findings import Finding, State

_GLOO, _TCP, _PORTS = "network: what Gloo uses", "network: TCP", "network: ports"
_SYSCTL = Path("/proc/sys")
_DEFAULT_PORT = 29500
"""torchrun's, and the lab's."""
_SIOCGIFADDR = 0x8915


@dataclass(frozen=True)
class Link:
    """Link for which the buffers are judged."""

    bits_per_second: float = 1e9
    delay: float = 0.05
    """One way, in seconds."""

    @property
    def in_flight(self) -> int:
        """Bytes on the way in a round trip: the window that fills the link."""
        return round(self.bits_per_second / 8 * 2 * self.delay)


def read_link(text: str) -> Link:
    """'1gbit,50ms'; ValueError says what is wrong."""
    rate, comma, delay = (part.strip() for part in text.partition(","))
    if not comma:
        raise ValueError(f"'{text}' is not bandwidth,latency, as in 1gbit,50ms")
    return Link(
        _quantity(
            rate,
            {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9},
            "100mbit or 1gbit ('mbps' and 'MB' mean two things)",
        ),
        _quantity(delay, {"us": 1e-6, "ms": 1e-3, "s": 1.0}, "50ms"),
    )


def _quantity(text: str, units: dict[str, float], example: str) -> float:
    matched = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([A-Za-z]*)(?:/s)?", text)
    if matched is None or matched[2].lower() not in units:
        raise ValueError(
            f"'{text}' {'has no unit' if matched and not matched[2] else 'is not understood'}; "
            f"write it as {example}"
        )
    value = float(matched[1]) * units[matched[2].lower()]
    if value <= 0:
        raise ValueError(f"'{text}' must be above 0")
    return value


def check(link: Link) -> list[Finding]:
    return [_interface(), *_tcp(link), *_ports()]


# Gloo: the interface that GLOO_SOCKET_IFNAME names; else the first address of the host's own name
# that can be bound; else loopback.


def addresses() -> dict[str, str]:
    """The IPv4 address of each interface that has one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            import fcntl

            try:
                answer = fcntl.ioctl(
                    probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15])
                )
            except OSError:
                continue
            found[name] = socket.inet_ntoa(answer[20:24])
    return found


def _interface() -> Finding:
    known = addresses()
    outer = [
        name for name, address in known.items() if not ipaddress.ip_address(address).is_loopback
    ]
    choice = f"export GLOO_SOCKET_IFNAME={outer[0] if outer else 'eth0'}" + (
        f"   (there are: {', '.join(f'{n} {known[n]}' for n in outer)})" if outer else ""
    )
    named = os.environ.get("GLOO_SOCKET_IFNAME")
    if named:
        lost = [name for name in named.split(",") if name not in known]
        if lost:
            return Finding(
                _GLOO,
                "interface",
                State.BROKEN,
                f"GLOO_SOCKET_IFNAME names {', '.join(lost)}, which is not here or has no IPv4 "
                "address",
                choice,
            )
        return Finding(
            _GLOO,
            "interface",
            State.OK,
            f"{named} ({', '.join(known[n] for n in named.split(','))}), by GLOO_SOCKET_IFNAME",
        )
    name = socket.gethostname()
    address = _bindable(name)
    if address is None:
        return Finding(
            _GLOO,
            "interface",
            State.ADVICE,
            f"loopback: the name '{name}' of this host has no address of it, so no other "
            "machine can join",
            choice,
        )
    where = next((each for each, theirs in known.items() if theirs == address), "?")
    if ipaddress.ip_address(address).is_loopback:
        return Finding(
            _GLOO,
            "interface",
            State.ADVICE,
            f"{where} ({address}), the address of the name '{name}': fine for ranks on this machine, but no "
            "other can join",
            choice,
        )
    return Finding(
        _GLOO, "interface", State.OK, f"{where} ({address}), the address of the name '{name}'"
    )


def _bindable(name: str) -> str | None:
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    for family, kind, protocol, _, address in entries:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
        except OSError:
            continue
        return str(address[0])
    return None


# TCP.


def _read(name: str) -> str | None:
    try:
        return (_SYSCTL / name.replace(".", "/")).read_text().strip()
    except OSError:
        return None


def _set(name: str, value: str) -> str:
    return (
        f"sudo sysctl -w {name}={value}" if " " not in value else f"sudo sysctl -w {name}='{value}'"
    )


def _tcp(link: Link) -> list[Finding]:
    findings = [
        _switch(
            "net.ipv4.tcp_slow_start_after_idle",
            "0",
            "after a pause a connection starts slowly again: every exchange begins at a crawl",
        ),
        _switch(
            "net.ipv4.tcp_window_scaling",
            "1",
            "without it no connection has more than 64 KiB on the way",
        ),
        _buffers("net.ipv4.tcp_rmem", link),
        _buffers("net.ipv4.tcp_wmem", link),
        _limit("net.core.rmem_max", link),
        _limit("net.core.wmem_max", link),
        _congestion(),
    ]
    return [finding for finding in findings if finding is not None]


def _switch(name: str, good: str, harm: str) -> Finding | None:
    value = _read(name)
    if value is None:
        return None
    short = name.rpartition(".")[2]
    if value == good:
        return Finding(_TCP, short, State.OK, value)
    return Finding(_TCP, short, State.ADVICE, f"{value}: {harm}", _set(name, good))


def _rate(link: Link) -> str:
    rate = (
        f"{link.bits_per_second / 1e9:.3g} Gbit/s"
        if link.bits_per_second >= 1e9
        else f"{link.bits_per_second / 1e6:.3g} Mbit/s"
    )
    return f"{rate} at {link.delay * 2e3:.3g} ms there and back"


def _size(size: int) -> str:
    return f"{size / 2**20:.3g} MiB" if size >= 2**20 else f"{size / 2**10:.3g} KiB"


def _buffers(name: str, link: Link) -> Finding | None:
    """The third number is how far the kernel lets a connection's buffer grow; about half of it is
    window, the rest bookkeeping."""
    value = _read(name)
    if value is None:
        return None
    short = name.rpartition(".")[2]
    least, start, most = value.split()
    need = 2 * link.in_flight
    if int(most) >= need:
        return Finding(
            _TCP, short, State.OK, f"grows to {_size(int(most))}: enough for {_rate(link)}"
        )
    reach = int(most) / 2 * 8 / (2 * link.delay) / 1e6
    return Finding(
        _TCP,
        short,
        State.ADVICE,
        f"grows to {_size(int(most))}; {_rate(link)} needs {_size(need)}, so one connection stays "
        f"below about {reach:.3g} Mbit/s there",
        _set(name, f"{least} {start} {need}"),
    )


def _limit(name: str, link: Link) -> Finding | None:
    value = _read(name)
    if value is None:
        return None
    short = name.rpartition(".")[2]
    if int(value) >= link.in_flight:
        return Finding(_TCP, short, State.OK, _size(int(value)))
    return Finding(
        _TCP,
        short,
        State.NOTE,
        f"{_size(int(value))}: affects only programs that set their own buffer sizes; Gloo and Open MPI "
        "leave that to the kernel",
        _set(name, str(link.in_flight)),
    )


def _congestion() -> Finding | None:
    value = _read("net.ipv4.tcp_congestion_control")
    if value is None:
        return None
    others = (_read("net.ipv4.tcp_available_congestion_control") or "").split()
    if value == "bbr":
        return Finding(_TCP, "congestion", State.OK, "bbr")
    fix = _set("net.ipv4.tcp_congestion_control", "bbr")
    if "bbr" not in others:
        fix = f"sudo modprobe tcp_bbr && {fix}"
    return Finding(
        _TCP,
        "congestion",
        State.NOTE,
        f"{value}: takes every lost packet for congestion; on long links that lose some, bbr is "
        "faster",
        fix,
    )


# Ports.


def _ports() -> list[Finding]:
    text = os.environ.get("MASTER_PORT", str(_DEFAULT_PORT))
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", int(text)))
        store = Finding(
            _PORTS,
            "store",
            State.OK,
            f"rank 0 listens on MASTER_PORT {text}, which is free here; the others must reach it",
        )
    except (OSError, ValueError, OverflowError) as error:
        store = Finding(
            _PORTS,
            "store",
            State.ADVICE,
            f"rank 0 listens on MASTER_PORT {text}, which cannot be had here: {error}",
            "export MASTER_PORT=29501   (or another that is free, the same on all ranks)",
        )
    span = (_read("net.ipv4.ip_local_port_range") or "32768 60999").split()
    lanes = "Gloo and Open MPI: each rank listens on ports that the kernel picks"
    return [
        store,
        Finding(
            _PORTS,
            "exchanges",
            State.NOTE,
            f"{lanes}, {span[0]} to {span[1]}; firewalls between the machines must let them "
            "through. One connection to every other rank for each lane, one for control, one more "
            "where plans may be updates",
        ),
        Finding(
            _PORTS,
            "metrics",
            State.NOTE,
            'none unless asked for: attach(..., metrics="127.0.0.1:9095") answers on loopback',
        ),
    ]
