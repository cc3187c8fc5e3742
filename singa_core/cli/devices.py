"""`singa devices`: the devices of this machine, and what the short names mean here."""

from __future__ import annotations

import json as json_
import os
from collections.abc import Sequence
from typing import Any

from singa_core.cli.examine import Finding, examine, installed
from singa_core.cli.text import columns, gibibytes, wrapped
from singa_core.dtype import ALL
from singa_core.registry import Registry, candidates, split_name

ALIASES = ("cpu", "gpu", "auto")


def run(names: Sequence[str], *, timeout: float, json: bool) -> int:
    """Print the list; 1 if there is no device or a backend that was named has none."""
    names = [split_name(name)[0] for name in names]
    for name in names:
        Registry().check_name(name)
    wanted = names or list(installed("backend"))
    findings = examine([("backend", name) for name in dict.fromkeys(wanted)], timeout)
    if not findings:
        Registry().resolve("cpu")  # says what to install
    meanings = {} if names else {alias: meaning(alias, findings) for alias in ALIASES}
    default = default_device(findings) if not names else None
    print(as_json(findings, meanings, default) if json else as_text(findings, meanings, default))
    usable = [finding.devices for finding in findings if finding.usable]
    return 0 if (len(usable) == len(findings) if names else usable) else 1


def meaning(alias: str, findings: Sequence[Finding]) -> str | None:
    """The backend that an alias means, as the registry finds it."""
    for finding in candidates(alias, [_Ranked(f) for f in findings if f.manifest]):
        if alias == "cpu" or finding.usable:
            return finding.name
    return None


class _Ranked:
    """A finding as `candidates` wants to see it."""

    def __init__(self, finding: Finding) -> None:
        manifest = finding.manifest or {}
        self.name, self.usable = finding.name, finding.usable
        self.device_type: str = manifest["device_type"]
        self.priority: int = manifest["priority"]


def default_device(findings: Sequence[Finding]) -> str | None:
    """The name of the device that is used where none is named."""
    text = os.environ.get("SINGA_DEVICE") or "cpu"
    backend, colon, index = text.partition(":")
    found = meaning(backend, findings) if backend in ALIASES else backend
    return f"{found}{colon}{index}".removesuffix(":0") if found else None


def as_json(
    findings: Sequence[Finding], meanings: dict[str, str | None], default: str | None
) -> str:
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
    return json_.dumps(told, indent=2)


def as_text(
    findings: Sequence[Finding], meanings: dict[str, str | None], default: str | None
) -> str:
    """The list for people."""
    rows, lines = [], []
    for f in findings:
        kind = f.manifest["device_type"] if f.manifest else "?"
        owner = ", ".join(f.distributions) or "this process"
        for device in f.devices:
            mark = "*" if device["name"] == default else " "
            memory, types = gibibytes(device["capacity"]), element_types(device["dtypes"])
            rows.append((mark, device["name"], kind, memory, types, owner))
    if rows:
        lines += columns(("", "device", "type", "memory", "element types", "offered by"), rows)
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
    return "\n".join(lines)


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
