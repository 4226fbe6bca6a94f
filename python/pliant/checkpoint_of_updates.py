# SPDX-License-Identifier: MIT
"""The part of a state that only kind updates has: the base, and what is in flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pliant import _native, alike
from pliant.errors import ContractError
from pliant.model import Model

_NUMBERS = ("number", "sent", "due", "plan", "epoch", "is_void")
_TENSORS = ("result", "own_part", "returned")

Tensors = Sequence[tuple[str, torch.Tensor]]
"""By name, in the engine's order."""


def write(state: _native.State, model: Model, buffers: Tensors) -> dict[str, Any]:
    together = [*_parameters(model), *buffers]
    return {
        "own_steps": state.own_steps,
        "next_exchange": state.next_exchange,
        "base": _named(_parameters(model), state.base, zeros=True),
        "buffers": _named(buffers, state.buffers, zeros=True),
        "in_flight": [
            {key: getattr(flight, key) for key in _NUMBERS}
            | {key: _named(together, getattr(flight, key)) for key in _TENSORS}
            for flight in state.in_flight
        ],
    }


def read(saved: Mapping[str, Any], state: _native.State, model: Model, buffers: Tensors) -> None:
    """Into `state`."""
    here = [name for name, _ in buffers]
    if sorted(saved["buffers"]) != sorted(here):
        raise ContractError(
            f"load_state_dict: buffers {sorted(saved['buffers'])} travelled when the state was saved, and here {sorted(here)} do (buffers=)"
        )
    together = [*_parameters(model), *buffers]
    state.updates = True
    state.own_steps = saved["own_steps"]
    state.next_exchange = saved["next_exchange"]
    state.base = _flat(_parameters(model), saved["base"])
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
    """What all new ranks have in common. What is in flight lands: its result is part of the base,
    its own part of nobody's parameters.

    Each new rank starts on the base, with the mean of what the old ranks had beyond it as its
    residual."""
    first = old[0]
    if any("own_parameters" not in state for state in old):
        raise ValueError(
            "reshard: these states were saved without parameters=True, and what ranks had beyond the base is in them"
        )
    names = list(first["parameters"])
    base = {name: _landed(first, name) for name in names}
    for state in old[1:]:
        for name in names:
            if not torch.equal(_landed(state, name), base[name]):
                raise ValueError(
                    f"reshard: the base of {name} differs between ranks 0 and {state['rank']}: states of different exchanges"
                )
    residual = {}
    for name in names:
        total = torch.zeros_like(base[name], dtype=torch.float64)
        for state in old:
            total += state["own_parameters"][name].double() - base[name].double()
            if name in state["residual"]:
                total += state["residual"][name]
            for flight in state["in_flight"]:
                for key, sign in (("result", 1), ("own_part", -1), ("returned", 1)):
                    if name in flight[key]:
                        total += sign * flight[key][name].double()
        residual[name] = (total / len(old)).to(torch.float32)
    buffers = {name: _landed_buffer(first, name) for name in first["buffers"]}
    own_buffers = {
        name: buffers[name]
        if name in buffers
        else torch.stack([state["own_buffers"][name] for state in old]).amax(0)
        for name in first["own_buffers"]
    }
    common = {
        "own_steps": 0,
        "next_exchange": max(state["next_exchange"] - state["own_steps"] for state in old),
        "base": base,
        "buffers": buffers,
        "in_flight": [],
        "own_parameters": base,
        "own_buffers": own_buffers,
        "residual": residual,
    }
    if all("own_optimizers" in state for state in old):
        common["own_optimizers"] = alike.mean_of([state["own_optimizers"] for state in old])
    return common


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


def _parameters(model: Model) -> Tensors:
    return list(zip(model.names, model.parameters, strict=True))


def _named(
    likes: Tensors, flats: Sequence[torch.Tensor], *, zeros: bool = False
) -> dict[str, torch.Tensor]:
    """By name, in shape. An empty one is all zero: left out, unless zeros are asked for."""
    named = {}
    for (name, like), flat in zip(likes, flats, strict=True):
        if flat.numel() == like.numel():
            named[name] = flat.as_strided(like.shape, _native.layout(like))
        elif zeros:
            named[name] = torch.zeros(like.numel()).as_strided(like.shape, _native.layout(like))
    return named


def _flat(likes: Tensors, named: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    return [
        _laid_out(like, named[name]) if name in named else torch.empty(0) for name, like in likes
    ]


def _laid_out(like: torch.Tensor, shaped: torch.Tensor) -> torch.Tensor:
    laid_out = torch.empty_strided(like.shape, _native.layout(like), dtype=torch.float32)
    laid_out.copy_(shaped)
    return laid_out.as_strided((like.numel(),), (1,))
