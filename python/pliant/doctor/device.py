# SPDX-License-Identifier: MIT
"""Check that Pliant works on a device: two ranks train on it in processes of their own.

The findings are meant to be pasted into a report of what works where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.doctor import training
from pliant.doctor.findings import Finding, State
from pliant.tools.formatting import count, duration, size

_SECONDS = 600.0
"""The trial takes a minute or two where nothing else runs."""

_REPORT = "please report it, with all of this output"


class NoDeviceError(Exception):
    """There is no such device here. is_unknown: PyTorch does not know the word."""

    def __init__(self, text: str, *, is_unknown: bool) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown


def check(device: str) -> list[Finding]:
    facts = training.run_trial(device, seconds=_SECONDS)
    if "device_unknown" in facts:
        raise NoDeviceError(
            f"'{device}' is no device of this PyTorch: {facts['device_unknown']}", is_unknown=True
        )
    if "device_missing" in facts:
        raise NoDeviceError(f"{device} is not here: {facts['device_missing']}", is_unknown=False)
    return of_facts(device, facts)


def of_facts(device: str, facts: dict[str, Any]) -> list[Finding]:
    found = training.of_installation(facts)
    if "binding" not in facts:
        return found
    area = f"device {device}"
    return [
        *found,
        _where(area, facts),
        *_pinned(area, facts),
        *_results(area, facts),
        *_memory(area, facts),
    ]


def has_wrong_results(findings: list[Finding]) -> bool:
    return any(finding.name in _RESULTS and finding.state is State.BROKEN for finding in findings)


_RESULTS = {
    "gradients": "gradients ",
    "updates": "updates ",
    "order": "busy: ",
}
"""Names of findings, and how the plans begin that each is about."""


def _where(area: str, facts: Mapping[str, Any]) -> Finding:
    places = " and ".join(facts[key] for key in ("device0", "device1") if key in facts)
    text = ", ".join(filter(None, [places, facts.get("device_name"), facts.get("group")]))
    if facts.get("tried"):
        return Finding(area, "ranks", State.OK, f"two, on {text}")
    why = facts.get("attach_error") or " ".join(
        [facts.get("died", "no answer in time"), *facts.get("last_words", [])]
    )
    return Finding(area, "ranks", State.BROKEN, f"two, on {text or area}: {why}", _REPORT)


def _pinned(area: str, facts: Mapping[str, Any]) -> list[Finding]:
    if "pinned_error" in facts:
        return [
            Finding(
                area,
                "pinned memory",
                State.ADVICE,
                f"refused ({facts['pinned_error']}): copies use pageable memory and are slower",
                "raise the limit of locked memory: ulimit -l unlimited",
            )
        ]
    if "copy_seconds" not in facts:
        return []
    text = f"{size(facts['copy_bytes'])} to the host in {duration(facts['copy_seconds'])}"
    return [Finding(area, "pinned memory", State.OK, text)]


def _results(area: str, facts: Mapping[str, Any]) -> list[Finding]:
    differing: dict[str, int] = facts.get("differing", {})
    found = []
    for name, begin in _RESULTS.items():
        plans = {plan: entries for plan, entries in differing.items() if plan.startswith(begin)}
        wrong = [f"'{plan}' ({entries} entries)" for plan, entries in plans.items() if entries > 0]
        if wrong:
            verb = "differs" if len(wrong) == 1 else "differ"
            text = f"{len(wrong)} of {count(len(plans), 'plan')} {verb} from host memory: "
            found.append(Finding(area, name, State.BROKEN, text + ", ".join(wrong), _REPORT))
        elif plans:
            text = f"{count(len(plans), 'plan')}, with the bits of host memory"
            if name == "order":
                text = f"{text}, behind work that keeps the device busy"
            found.append(Finding(area, name, State.OK, text))
    return found


def _memory(area: str, facts: Mapping[str, Any]) -> list[Finding]:
    words = []
    if "host_bytes" in facts:
        words.append(
            f"{facts['host_bytes']:.3g} bytes of the host for each parameter under "
            f"'{facts['host_plan']}'"
        )
    if "device_bytes" in facts:
        plain, ours = facts["device_bytes"]
        words.append(f"on the device at most {size(ours)}, with plain DDP {size(plain)}")
    return [Finding(area, "memory", State.NOTE, "; ".join(words))] if words else []
