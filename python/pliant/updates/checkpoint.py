# SPDX-License-Identifier: MIT
"""Part of a saved state that only kind updates has: the base, and exchanges in flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pliant import _native
from pliant.ddp.parameters import Parameters, flatten, unflatten
from pliant.errors import ContractError, DisagreementError
from pliant.side_channel import SideChannel
from pliant.updates import merge_optimizers

_NUMBERS = ("number", "sent", "due", "plan", "epoch", "is_void")
_TENSORS = ("result", "own_part", "returned")

Tensors = Sequence[tuple[str, torch.Tensor]]
"""By name, in the engine's order."""


def is_updates(saved: Mapping[str, Any]) -> bool:
    return "base" in saved


def compare(saved: Mapping[str, Any], side_channel: SideChannel) -> None:
    """Collective: raises unless all ranks load states of the same kind and exchange."""
    states = side_channel.gather(
        [saved.get("kind"), saved.get("step")], "load_state_dict: comparing the states"
    )
    for rank, other in enumerate(states):
        if other != states[0]:
            raise DisagreementError(
                f"load_state_dict: rank 0 has {_described(*states[0])} and rank {rank} "
                f"{_described(*other)}. "
                "Where a rank may have skipped a step, save inside averager.settled()."
            )


def _described(kind: str | None, step: int | None) -> str:
    return "none" if step is None else f"one of kind {kind}, exchange {step}"


def write(state: _native.State, parameters: Parameters, buffers: Tensors) -> dict[str, Any]:
    together = [*parameters.named(), *buffers]
    return {
        "own_steps": state.own_steps,
        "next_exchange": state.next_exchange,
        "base": _named(parameters.named(), state.base, zeros=True),
        "buffers": _named(buffers, state.buffers, zeros=True),
        "in_flight": [
            {key: getattr(flight, key) for key in _NUMBERS}
            | {key: _named(together, getattr(flight, key)) for key in _TENSORS}
            for flight in state.in_flight
        ],
    }


def read(
    saved: Mapping[str, Any], state: _native.State, parameters: Parameters, buffers: Tensors
) -> None:
    """Writes the part into `state`."""
    here = [name for name, _ in buffers]
    if sorted(saved["buffers"]) != sorted(here):
        raise ContractError(
            f"load_state_dict: buffers {sorted(saved['buffers'])} travelled when the state was "
            f"saved, and here {sorted(here)} do (buffers=)"
        )
    together = [*parameters.named(), *buffers]
    state.updates = True
    state.own_steps = saved["own_steps"]
    state.next_exchange = saved["next_exchange"]
    state.base = _flat(parameters.named(), saved["base"])
    state.buffers = _flat(buffers, saved["buffers"])
    flights = []
    for one in saved["in_flight"]:
        flight = _native.InFlight()
        for key in _NUMBERS:
            setattr(flight, key, one[key])
        for key in _TENSORS:
            setattr(flight, key, _flat(together, one[key]))
        flights.append(flight)
    state.in_flight = flights


def reshard(old: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The part that all new ranks get, from the states of all old ranks.

    Exchanges in flight land. Each new rank starts on the base; its residual is the mean of what the
    old ranks had beyond the base."""
    first = old[0]
    if any("own_parameters" not in state for state in old):
        raise ValueError(
            "reshard: these states were saved without parameters=True, and what ranks had beyond "
            "the base is in them"
        )
    names = list(first["parameters"])
    base = {name: _landed(first, name) for name in names}
    for state in old[1:]:
        for name in names:
            if not torch.equal(_landed(state, name), base[name]):
                raise ValueError(
                    f"reshard: the base of {name} differs between ranks 0 and {state['rank']}: "
                    "states of different exchanges"
                )
    residual = {name: _mean_beyond(base[name], name, old) for name in names}
    buffers = {name: _landed_buffer(first, name) for name in first["buffers"]}
    own_buffers = {
        name: buffers[name]
        if name in buffers
        else torch.stack([state["own_buffers"][name].cpu() for state in old]).amax(0)
        for name in first["own_buffers"]
    }
    frozen = {name: None for state in old for name in state.get("own_frozen", {})}
    own_frozen = {
        name: _mean([state["own_frozen"][name] for state in old])
        for name in frozen
        if all(name in state.get("own_frozen", {}) for state in old)
    }
    common = {
        "own_steps": 0,
        "next_exchange": max(state["next_exchange"] - state["own_steps"] for state in old),
        "base": base,
        "buffers": buffers,
        "in_flight": [],
        "own_parameters": base,
        "own_buffers": own_buffers,
        **({"own_frozen": own_frozen} if own_frozen else {}),
        "residual": residual,
    }
    if all("own_optimizers" in state for state in old):
        common["own_optimizers"] = merge_optimizers.mean_of(
            [state["own_optimizers"] for state in old]
        )
    return common


def _mean(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([tensor.double() for tensor in tensors]).mean(0).to(tensors[0].dtype)


def _mean_beyond(base: torch.Tensor, name: str, old: Sequence[Mapping[str, Any]]) -> torch.Tensor:
    """The mean over ranks of parameters + residual - base, once everything in flight has landed."""
    total = torch.zeros_like(base, dtype=torch.float64)
    for state in old:
        total += state["own_parameters"][name].cpu().double() - base.double()
        if name in state["residual"]:
            total += state["residual"][name]
        for flight in state["in_flight"]:
            for key, sign in (("result", 1), ("own_part", -1), ("returned", 1)):
                if name in flight[key]:
                    total += sign * flight[key][name].double()
    return (total / len(old)).to(torch.float32)


def _landed(state: Mapping[str, Any], name: str) -> torch.Tensor:
    base: torch.Tensor = state["base"][name].clone()
    for flight in state["in_flight"]:
        if name in flight["result"]:
            base += flight["result"][name]
    return base


def _landed_buffer(state: Mapping[str, Any], name: str) -> torch.Tensor:
    agreed: torch.Tensor = state["buffers"][name].clone()
    for flight in state["in_flight"]:
        if name in flight["result"] and not flight["is_void"]:
            agreed += flight["result"][name]
    return agreed


def _named(
    likes: Tensors, flats: Sequence[torch.Tensor], *, zeros: bool = False
) -> dict[str, torch.Tensor]:
    """By name, in the shapes of `likes`. An empty tensor is all zero, and left out unless
    `zeros`."""
    named = {}
    for (name, like), flat in zip(likes, flats, strict=True):
        if flat.numel() == like.numel():
            named[name] = unflatten(like, flat)
        elif zeros:
            named[name] = unflatten(
                like, torch.zeros(like.numel(), dtype=torch.float32, device="cpu")
            )
    return named


def _flat(likes: Tensors, named: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    nothing = torch.empty(0, dtype=torch.float32, device="cpu")
    return [flatten(like, named[name]) if name in named else nothing for name, like in likes]
