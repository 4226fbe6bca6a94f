# SPDX-License-Identifier: MIT
"""Networks of the studies, as phases that begin at given steps: the same for every method.

Links are those of the published system at the size of its ResNet18. They become ours in two steps.
Bandwidth is scaled by the sizes of the models, ours over theirs, so that a model's bytes take as
long as theirs would. Then latency and byte time together are stretched until plain DDP's
communication, averaged over the network's steps and measured in the lab (`study.stretch`), is the
wanted multiple of compute (`load`): what decides between plans, latency over byte time, stays what
it was."""

from __future__ import annotations

from dataclasses import dataclass

GBIT = 1e9


@dataclass(frozen=True)
class Link:
    latency: float  # seconds
    rate: float  # bits per second
    loss: float = 0.0
    slow_host: float = 1.0  # host 1's rate is so many times lower

    def scaled(self, size: float, stretch: float) -> Link:
        return Link(self.latency * stretch, self.rate * size / stretch, self.loss, self.slow_host)

    def text(self) -> str:
        words = f"{self.rate / 1e6:.6f}mbit,{self.latency * 1e3:.4f}ms"
        return words + (f",loss={100 * self.loss:g}%" if self.loss else "")


@dataclass(frozen=True)
class Network:
    name: str
    links: tuple[Link, ...]
    shares: tuple[float, ...]  # of the steps, in turn

    def phases(self, steps: int) -> list[tuple[int, Link]]:
        """(first step, link), in order."""
        begins, before = [], 0.0
        for share, link in zip(self.shares, self.links, strict=True):
            begins.append((round(before * steps), link))
            before += share
        return begins

    def link_at(self, step: int, steps: int) -> Link:
        return [link for begin, link in self.phases(steps) if begin <= step][-1]


def _network(name: str, *phases: tuple[float, Link]) -> Network:
    total = sum(share for share, _ in phases)
    return Network(
        name, tuple(link for _, link in phases), tuple(share / total for share, _ in phases)
    )


def _c2() -> Network:
    latencies = [1, 2, 4, 8, 16, 32]
    rates = [25, 20, 15, 10, 5, 1]
    up = [Link(latency / 1e3, rate * GBIT) for latency, rate in zip(latencies, rates, strict=True)]
    return _network("c2", *((4.0, link) for link in [*up, *reversed(up)]), (2.0, up[0]))


C1 = _network(
    "c1",
    (12, Link(1e-3, 25 * GBIT)),
    (12, Link(1e-3, 1 * GBIT)),
    (12, Link(50e-3, 1 * GBIT)),
    (14, Link(50e-3, 25 * GBIT)),
)
NETWORKS = {
    network.name: network
    for network in (
        C1,
        _c2(),
        _network("wan", (1, Link(30e-3, 0.1 * GBIT, loss=0.001))),
        _network("wifi", *((1, Link(5e-3, rate * GBIT)) for rate in (10, 2, 5, 1, 8, 3, 10, 1.5))),
        _network("step", (1, Link(1e-3, 25 * GBIT)), (1, Link(20e-3, 1 * GBIT))),
        _network("slow_host", (1, Link(1e-3, 25 * GBIT, slow_host=20))),
        _network("fast_stable", (1, Link(0.1e-3, 400 * GBIT))),
    )
}


def dense_time(link: Link, entries: int, ranks: int) -> float:
    """Time of a ring all-reduce by the published formula; used only to choose the stretch."""
    return 2 * (ranks - 1) * link.latency + 2 * (ranks - 1) / ranks * 32 * entries / link.rate


def stretch_for(
    network: Network, load: float, compute: float, entries: int, ranks: int, stands_for: int
) -> float:
    natural = sum(
        share * dense_time(_worst(link).scaled(entries / stands_for, 1), entries, ranks)
        for share, link in zip(network.shares, network.links, strict=True)
    )
    return load * compute / natural


def _worst(link: Link) -> Link:
    return Link(link.latency, link.rate / link.slow_host)
