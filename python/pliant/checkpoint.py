# SPDX-License-Identifier: MIT
"""Format of a saved state: an averager's state as a dict of tensors and plain values, and the same
for another number of ranks."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pliant import _native
from pliant.argument_checks import check_whole, refusal
from pliant.ddp.parameters import Parameters
from pliant.errors import ContractError
from pliant.updates import checkpoint as of_updates
from pliant.updates.checkpoint import is_updates

FORMAT = 1

# kind: of the next step; policy: what measuring and deciding have learnt.
_PLAIN = ("plan", "kind", "policy", "epoch", "step", "exchanges", "last_norm")

_NEEDED = (*_PLAIN, "rank", "world_size", "parameters", "units", "voted", "residual")
"""Keys that every state has, besides its format."""

_MOST_RANKS = 1 << 20

Buffers = Sequence[tuple[str, torch.Tensor]]
"""The buffers that travel, by name."""


def write(
    state: _native.State,
    parameters: Parameters,
    buffers: Buffers,
    *,
    rank: int,
    world_size: int,
    scale: float | None,
) -> dict[str, Any]:
    residual = {
        name: parameters.unflatten(position, flat)
        for position, (name, flat) in enumerate(zip(parameters.names, state.residual, strict=True))
        if flat.numel() > 0  # an empty one is all zero
    }
    saved = {
        "format": FORMAT,
        "pliant": _native.version,
        "rank": rank,
        "world_size": world_size,
        "parameters": {
            name: parameters.shape(position) for position, name in enumerate(parameters.names)
        },
        **{key: getattr(state, key) for key in _PLAIN},
        "units": [[parameters.names[position] for position in unit] for unit in state.units],
        "voted": list(state.voted),
        "common_share": state.common_share,
        "effective_steps": state.effective_steps,
        "scale": scale,
        "residual": residual,
    }
    return saved | of_updates.write(state, parameters, buffers) if state.updates else saved


def read(
    saved: Mapping[str, Any],
    parameters: Parameters,
    buffers: Buffers,
    *,
    rank: int,
    world_size: int,
) -> _native.State:
    _check(saved, parameters, rank, world_size)
    positions = {name: position for position, name in enumerate(parameters.names)}
    residual = saved["residual"]
    state = _native.State()
    for key in _PLAIN:
        setattr(state, key, saved[key])
    state.units = [[positions[name] for name in unit] for unit in saved["units"]]
    state.voted = list(saved["voted"])
    # States of older versions have neither of these.
    state.common_share = saved.get("common_share", (0.0, 0.0))
    state.effective_steps = saved.get("effective_steps", 0.0)
    nothing = torch.empty(0, dtype=torch.float32, device="cpu")
    state.residual = [
        parameters.flatten(position, residual[name]) if name in residual else nothing
        for position, name in enumerate(parameters.names)
    ]
    if is_updates(saved):
        of_updates.read(saved, state, parameters, buffers)
    return state


def check_state(name: str, state: object) -> None:
    """Refuses what cannot be the state of an averager. An empty one passes."""
    if not isinstance(state, Mapping):
        raise refusal(TypeError, name, state, "a dict that averager.state_dict() returned")
    needed = ("format", *_NEEDED) if state.get("format", FORMAT) == FORMAT else ()
    missing = [key for key in needed if key not in state]
    if state and missing:
        raise ValueError(
            f"{name}: not a dict that averager.state_dict() returned: it has no {missing[0]!r}"
        )


def reshard(states: Sequence[Mapping[str, Any]], world_size: int) -> list[dict[str, Any]]:
    """The states of all old ranks, in any order, as states for `world_size` new ones.

    Each new rank starts with the mean of the old residuals, so that the mean over ranks, which is
    what training sees of them, stays what it was. Their sum does not. Under updates everything in
    flight lands, new ranks start on the base, and the residual is the mean of (parameters +
    residual - base)."""
    old = _checked(states, world_size)
    first = old[0]
    common = of_updates.reshard(old) if is_updates(first) else {}
    residual = common.pop("residual", None) or {
        name: mean
        for name in first["parameters"]
        if (mean := _mean([state["residual"].get(name) for state in old])) is not None
    }
    on_device = {
        name: mean
        for name in first["parameters"]
        if (mean := _mean([state.get("device_residual", {}).get(name) for state in old]))
        is not None
    }
    return [
        {
            **first,
            "rank": rank,
            "world_size": world_size,
            "policy": "",  # another number of ranks is another network
            "voted": [-1] * len(first["voted"]),  # whoever led may be gone
            "last_norm": max(float(state["last_norm"]) for state in old),
            "residual": {name: mean.clone() for name, mean in residual.items()},
            **(
                {"device_residual": {name: mean.clone() for name, mean in on_device.items()}}
                if on_device
                else {}
            ),
            **copy.deepcopy(common),
        }
        for rank in range(world_size)
    ]


def _checked(states: Sequence[Mapping[str, Any]], world_size: int) -> list[Mapping[str, Any]]:
    """The states by rank; ValueError unless they are those of all ranks of one run and step."""
    if not isinstance(states, Sequence) or isinstance(states, str):
        raise refusal(TypeError, "states", states, "a list of the states of all ranks")
    if not states:
        raise ValueError("reshard: no states")
    check_whole("world_size", world_size, 1, _MOST_RANKS)
    for place, state in enumerate(states):
        check_state(f"states[{place}]", state)
        if not state:
            raise ValueError(f"states[{place}]: empty, so not the state of an averager")
    old = sorted(states, key=lambda state: int(state["rank"]))
    first = old[0]
    if [state["rank"] for state in old] != list(range(first["world_size"])):
        raise ValueError(
            f"reshard: needs the state of each of the {first['world_size']} ranks once, and has "
            f"those of ranks {[state['rank'] for state in old]}"
        )
    for state in old[1:]:
        for key in ("format", "world_size", "parameters", "plan", "epoch", "step", "units"):
            if state[key] != first[key]:
                raise ValueError(
                    f"reshard: states of different runs or steps: {key} is {first[key]} on rank 0 "
                    f"and {state[key]} on rank {state['rank']}"
                )
    if any(is_updates(state) != is_updates(first) for state in old):
        raise ValueError("reshard: states of different kinds")
    return old


def _mean(residuals: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    there = [residual for residual in residuals if residual is not None]
    if not there:
        return None
    total = torch.zeros_like(there[0], dtype=torch.float64)
    for residual in there:
        total += residual
    return (total / len(residuals)).to(torch.float32)


def _check(saved: Mapping[str, Any], parameters: Parameters, rank: int, world_size: int) -> None:
    if saved.get("format") != FORMAT:
        raise ContractError(
            f"load_state_dict: format {saved.get('format')}, and this version of pliant reads "
            f"{FORMAT}"
        )
    if saved["world_size"] != world_size:
        raise ContractError(
            f"load_state_dict: a state of {saved['world_size']} ranks, and there are {world_size}. "
            "Load the states of all ranks and give them to pliant.reshard(states, world_size) "
            "first."
        )
    if saved["rank"] != rank:
        raise ContractError(
            f"load_state_dict: the state of rank {saved['rank']} on rank {rank}; each rank has its "
            "own"
        )
    shapes: dict[str, list[int]] = saved["parameters"]
    missing = [name for name in parameters.names if name not in shapes]
    known = set(parameters.names)
    surplus = [name for name in shapes if name not in known]
    if missing or surplus:
        raise ContractError(
            f"load_state_dict: another model: not in the state: {missing or 'none'}; not in the "
            f"model: {surplus or 'none'}"
        )
    for position, name in enumerate(parameters.names):
        if shapes[name] != parameters.shape(position):
            raise ContractError(
                f"load_state_dict: parameter {name} is {shapes[name]} in the state and "
                f"{parameters.shape(position)} in the model"
            )
