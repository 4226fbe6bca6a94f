# SPDX-License-Identifier: MIT
"""Merge of the optimizers' state of all ranks, for the change from updates to gradients.

Floating state is averaged, counters and running maxima take the largest, plain values are rank
0's. State that is missing on a rank counts as zero.

Optimizers keep their counters as scalars, but all state of a parameter that is itself a scalar (a
temperature, a logit scale) is scalar too. So a scalar is a counter if its name says so, or if it is
one beside state of other shapes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from pliant.ddp.parameters import Parameters
from pliant.errors import DisagreementError
from pliant.side_channel import SideChannel
from pliant.updates.optimizers import Optimizers

_RUNNING_MAXIMA = ("max_exp_avg_sq",)
_COUNTERS = ("step", "mu_product", "eta", "mu")
"""Scalars that PyTorch's own optimizers (NAdam, ASGD) keep of every parameter."""

Key = tuple[int, str, str]  # optimizer, parameter, key of its state


def merge(optimizers: Optimizers, parameters: Parameters, side_channel: SideChannel) -> None:
    """Collective. Afterwards the optimizers' state is the same on all ranks, bit for bit."""
    tensors = dict(parameters.named())
    names = {id(tensor): name for name, tensor in tensors.items()}
    gathered = side_channel.gather(
        {"state": list(_described(optimizers, names)), "groups": _groups(optimizers)},
        "comparing the optimizers' state",
    )

    shapes: dict[Key, tuple[str, list[int]]] = {}
    values: dict[Key, Any] = {}
    for rank, described in enumerate(gathered):
        for place, name, key, dtype, what in described["state"]:
            if dtype is None:
                values.setdefault((place, name, key), what)
            elif shapes.setdefault((place, name, key), (dtype, what)) != (dtype, what):
                raise DisagreementError(
                    f"state {key} of parameter {name} is {dtype} {what} on rank {rank} and "
                    f"{shapes[place, name, key]} on another"
                )
    for (place, name, key), value in values.items():
        if (place, name, key) not in shapes:
            optimizers.each[place].state[tensors[name]][key] = value
    kept: dict[tuple[int, str], dict[str, int]] = {}
    for (place, name, key), (_, shape) in shapes.items():
        kept.setdefault((place, name), {})[key] = len(shape)
    counters = {
        place: _counters(dims for (other, _), dims in kept.items() if other == place)
        for place in range(len(optimizers.each))
    }
    means: list[torch.Tensor] = []
    maxima: list[torch.Tensor] = []
    for (place, name, key), (dtype, shape) in sorted(shapes.items()):
        state = optimizers.each[place].state[tensors[name]]
        if not isinstance(state.get(key), torch.Tensor):
            like, agreed = tensors[name], getattr(torch, dtype)
            state[key] = (
                torch.zeros_like(like, dtype=agreed)
                if list(like.shape) == shape
                else torch.zeros(shape, dtype=agreed, device="cpu")
            )
        tensor = state[key]
        (maxima if _takes_largest(key, tensor, counters[place]) else means).append(tensor)
    side_channel.reduce(means, "mean", "averaging the optimizers' state")
    side_channel.reduce(maxima, "maximum", "comparing the optimizers' counters")
    _set_groups(optimizers, gathered[0]["groups"], gathered[side_channel.rank]["groups"])


def mean_of(saved: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The same for saved states: by rank, then by optimizer, as Optimizer.state_dict() has them."""
    result: list[dict[str, Any]] = []
    for every in zip(*saved, strict=True):  # of one optimizer, by rank
        counters = _counters(
            {key: value.dim() for key, value in kept.items() if isinstance(value, torch.Tensor)}
            for one in every
            for kept in one["state"].values()
        )
        state: dict[Any, dict[str, Any]] = {}
        for parameter in {key: None for one in every for key in one["state"]}:
            held = [one["state"].get(parameter, {}) for one in every]
            state[parameter] = {
                key: _combined(key, [one.get(key) for one in held], counters)
                for key in {key: None for one in held for key in one}
            }
        result.append({**every[0], "state": state})
    return result


def _counters(kept: Iterable[Mapping[str, int]]) -> set[str]:
    """The keys of counters among state of these dimensions, by parameter and key."""
    return set(_COUNTERS).union(
        *({key for key, dim in dims.items() if dim == 0} for dims in kept if any(dims.values()))
    )


def _takes_largest(key: str, state: torch.Tensor, counters: set[str]) -> bool:
    if key in _RUNNING_MAXIMA or not state.is_floating_point():
        return True
    return state.dim() == 0 and key in counters


def _combined(key: str, held: Sequence[Any], counters: set[str]) -> Any:
    tensors = [value for value in held if isinstance(value, torch.Tensor)]
    if not tensors:
        return next((value for value in held if value is not None), None)
    if _takes_largest(key, tensors[0], counters):
        return torch.stack(list(tensors)).amax(0)
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor in tensors:
        total += tensor
    return (total / len(held)).to(tensors[0].dtype)


def _described(
    optimizers: Optimizers, names: Mapping[int, str]
) -> Iterator[tuple[int, str, str, str | None, Any]]:
    for place, optimizer in enumerate(optimizers.each):
        for parameter, state in optimizer.state.items():
            if id(parameter) not in names:
                continue
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    yield (
                        place,
                        names[id(parameter)],
                        key,
                        str(value.dtype).removeprefix("torch."),
                        list(value.shape),
                    )
                elif _is_plain(value):
                    yield place, names[id(parameter)], key, None, value


def _groups(optimizers: Optimizers) -> list[list[dict[str, Any]]]:
    return [
        [
            {key: value for key, value in group.items() if key != "params" and _is_plain(value)}
            for group in optimizer.param_groups
        ]
        for optimizer in optimizers.each
    ]


def _set_groups(
    optimizers: Optimizers, wanted: list[list[dict[str, Any]]], mine: list[list[dict[str, Any]]]
) -> None:
    for optimizer, theirs, ours in zip(optimizers.each, wanted, mine, strict=True):
        for group, those, these in zip(optimizer.param_groups, theirs, ours, strict=True):
            for key, value in those.items():
                if these.get(key) != value:
                    group[key] = tuple(value) if isinstance(value, list) else value


def _is_plain(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
