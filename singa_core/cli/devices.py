"""`singa devices`: the devices of this machine, and what the short names mean here."""

from __future__ import annotations

import json as json_
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from singa_core.cli.examine import Finding, Problem, examine, installed
from singa_core.cli.text import columns, gibibytes, wrapped
from singa_core.dtype import ALL
from singa_core.errors import DeviceError
from singa_core.hints import meant_hint
from singa_core.registry import ALIASES, Registry, candidates, places, split_name


def run(names: Sequence[str], *, timeout: float, json: bool) -> int:
    """Print the list; 1 if there is no device, or if what was named cannot be used."""
    names = [split_name(name)[0] for name in names]
    for name in names:
        Registry().check_name(name)
    wanted = names or list(installed("backend"))
    findings = examine([("backend", name) for name in dict.fromkeys(wanted)], timeout)
    if not findings:
        Registry().resolve("cpu")  # says what to install
    meanings = {} if names else {alias: meaning(alias, findings) for alias in ALIASES}
    default = None if names else default_device(findings)
    wrong = None if names else wrong_default(findings)
    show = as_json if json else as_text
    print(show(findings, meanings, default, wrong))
    usable = [finding.devices for finding in findings if finding.usable]
    return 0 if (len(usable) == len(findings) if names else usable and not wrong) else 1


def meaning(alias: str, findings: Sequence[Finding], index: int = 0) -> str | None:
    """The device that an alias means, as the registry finds it."""
    for finding in candidates(alias, [_Ranked(f) for f in findings if f.manifest]):
        if alias == "cpu":
            return device_name(finding.name, index)
        if finding.usable and (meant := places(alias, finding.count, finding.kinds)):
            return device_name(finding.name, meant[index]) if index < len(meant) else None
    return None


class _Ranked:
    """A finding as `candidates` wants to see it."""

    def __init__(self, finding: Finding) -> None:
        manifest, probe = finding.manifest or {}, finding.probe or {}
        self.name, self.usable = finding.name, finding.usable
        self.device_type: str = manifest["device_type"]
        self.priority: int = manifest["priority"]
        self.count: int = probe.get("device_count", 0)
        self.kinds: Sequence[str] = probe.get("kinds", ())


def device_name(backend: str, index: int) -> str:
    """A device's own name: the index of the first is not part of it."""
    return f"{backend}:{index}" if index else backend


def default_device(findings: Sequence[Finding]) -> str | None:
    """The name of the device that is used where none is named; None if there is none."""
    if wrong_default(findings) is not None:
        return None
    backend, index = split_name(os.environ.get("SINGA_DEVICE") or "cpu")
    aliased = backend in ALIASES
    return meaning(backend, findings, index) if aliased else device_name(backend, index)


def wrong_default(findings: Sequence[Finding]) -> Problem | None:
    """Why SINGA_DEVICE, if it is set, names no device of all that were found."""
    text = os.environ.get("SINGA_DEVICE")
    if not text:
        return None
    names = [finding.name for finding in findings]
    try:
        backend, index = split_name(text)
    except DeviceError as error:
        return Problem("SINGA_DEVICE", f"needs {error.rule}, got {error.got}")
    name = meaning(backend, findings, index) if backend in ALIASES else device_name(backend, index)
    counts = {f.name: (f.probe or {}).get("device_count", 0) for f in findings if f.usable}
    devices = [device_name(owner, i) for owner, count in counts.items() for i in range(count)]
    if name in devices:
        return None
    if backend not in (*names, *ALIASES):
        hint = meant_hint(backend, names, ALIASES)
        return Problem("SINGA_DEVICE", f"there is no backend {backend!r}", hint)
    for finding in findings:
        if finding.name == backend and not finding.usable:
            return Problem("SINGA_DEVICE", f"{text!r} is not usable here: {why_not(finding)}")
    hint = f"one of {', '.join(devices)}" if devices else None
    return Problem("SINGA_DEVICE", f"there is no device {text!r}", hint)


def as_json(
    findings: Sequence[Finding], meanings: dict[str, str | None], default: str | None,
    wrong: Problem | None,
) -> str:  # fmt: skip
    """The list for programs."""
    rows = [
        {
            "backend": f.name, "distributions": f.distributions, "usable": f.usable,
            "device_type": f.manifest["device_type"] if f.manifest else None,
            "reason": why_not(f), "devices": f.devices,
        }
        for f in findings
    ]  # fmt: skip
    told: dict[str, Any] = {"backends": rows, "aliases": meanings, "default": default}
    told["problem"] = wrong and asdict(wrong)
    return json_.dumps(told, indent=2)


def as_text(
    findings: Sequence[Finding], meanings: dict[str, str | None], default: str | None,
    wrong: Problem | None,
) -> str:  # fmt: skip
    """The list for people."""
    lines = _table(findings, default)
    broken = [f for f in findings if not f.usable]
    if broken:
        lines += [""] * bool(lines) + ["not usable here"]
        for f in broken:
            lines += wrapped(f"  {f.name}: {why_not(f)}", "      ")
            if f.problem and f.problem.advice:
                lines += wrapped(f"      try: {f.problem.advice}", "           ")
    if meanings:
        told = ", ".join(f"{alias} = {name or 'none'}" for alias, name in meanings.items())
        chosen = " (SINGA_DEVICE)" if os.environ.get("SINGA_DEVICE") else ""
        lines += ["", f"* default{chosen}: {default or 'none'};  {told}"]
    if wrong is not None:
        lines += ["", *wrapped(f"WRONG  {wrong.stage}: {wrong.reason}", " " * 7)]
        lines += wrapped(f"       try: {wrong.advice}", " " * 12) if wrong.advice else []
    return "\n".join(lines)


def _table(findings: Sequence[Finding], default: str | None) -> list[str]:
    """A row for each device; below it what the device says that it is."""
    rows, drivers = [], []
    for f in findings:
        owner = ", ".join(f.distributions) or "this process"
        for device in f.devices:
            mark = "*" if device["name"] == default else " "
            memory, types = gibibytes(device["capacity"]), element_types(device["dtypes"])
            rows.append((mark, device["name"], device["kind"], memory, types, owner))
            drivers.append(device["driver"])
    if not rows:
        return []
    head, *table = columns(("", "device", "type", "memory", "element types", "offered by"), rows)
    lines = [head]
    for row, driver in zip(table, drivers, strict=True):
        lines += [row, *(wrapped(f"     {driver}", " " * 7) if driver else ())]
    return lines


def why_not(finding: Finding) -> str | None:
    """Why a backend cannot be used, None if it can."""
    if finding.problem is not None:
        return f"{finding.problem.stage}: {finding.problem.reason}"
    if finding.probe is not None and not finding.probe["usable"]:
        return str(finding.probe["reason"] or "its probe gives no reason")
    return None


def element_types(names: Sequence[str]) -> str:
    """`all 13`, or what is missing, or what is there: whatever is shortest."""
    missing = [dtype.name for dtype in ALL if dtype.name not in names]
    if not missing:
        return f"all {len(ALL)}"
    if len(missing) <= 3:
        return f"no {', '.join(missing)}"
    return f"{len(names)} of {len(ALL)}"
