"""`singa doctor`: versions, libraries, and each backend and plugin tried out."""

from __future__ import annotations

import importlib.metadata
import json as json_
import os
import platform
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np

from singa_core import plugins, registry
from singa_core.cli.devices import element_types, why_not, wrong_default
from singa_core.cli.examine import Finding, Problem, examine, installed
from singa_core.cli.text import gibibytes, wrapped
from singa_core.errors import ArgumentError
from singa_core.hints import install_hint, known_distributions, nearest

LIBRARIES: Final = ("numpy", "ml_dtypes", "pluggy", "safetensors", "tqdm", "importlib-metadata")
SLOW: Final = 1.0  # seconds for a probe
THREADS: Final = re.compile(r"(OMP|OPENBLAS|MKL|BLIS|VECLIB)_(NUM|MAXIMUM)_THREADS")


def run(names: Sequence[str], *, timeout: float, json: bool) -> int:
    """Print what was found; 1 if something is wrong."""
    wanted = [(kind, name) for kind in ("backend", "plugin") for name in installed(kind)]
    if names:
        known = [name for _, name in wanted]
        for name in names:
            if name not in known:
                raise _unknown(name, known)
        wanted = [(kind, name) for kind, name in wanted if name in names]
    findings = examine(wanted, timeout)
    if names:
        for finding in findings:
            judge(finding)
    sound = [f.name for f in findings if f.kind == "plugin" and f.problem is None]
    together = examine([("plugin", ",".join(sound))], timeout)[0] if len(sound) > 1 else None
    general = [] if names else list(installation(findings))
    if not names and (wrong := wrong_default(findings)) is not None:
        general.append(wrong)
    if together is not None and together.problem is not None:
        general.append(replace(together.problem, stage="plugins together"))
    ok = not general and all(f.problem is None for f in findings)
    report = {"ok": ok, **surroundings(), "problems": [asdict(p) for p in general]}
    if json:
        report |= {
            f"{kind}s": [_plain(f) for f in findings if f.kind == kind]
            for kind in ("backend", "plugin")
        }
        print(json_.dumps(report, indent=2))
    else:
        print("\n".join(as_text(report, findings, general, full=not names)))
    return 0 if ok else 1


def judge(finding: Finding) -> None:
    """What was named is wrong if it cannot be used; without names it just is not there."""
    if finding.problem is None and not finding.usable:
        finding.problem = Problem("probe", f"not usable here: {why_not(finding)}")


def _unknown(name: str, known: Sequence[str]) -> ArgumentError:
    """The error for a name that nothing is offered under, which may be a pack of layers alone."""
    rule = f"the name of a backend or plugin ({', '.join(known) or 'none installed'})"
    for distribution in (name, f"singa-{name.replace('_', '-')}"):
        if _is_plain(distribution):
            got = f"{name}, a distribution without an entry point ({distribution})"
            hint = "its own tests; a pack of layers alone has nothing that the core loads"
            return ArgumentError("doctor", rule, got, hint=hint)
    return ArgumentError("doctor", rule, name, hint=nearest(name, known))


def _is_plain(distribution: str) -> bool:
    """True if it is installed and offers neither a backend nor a plugin."""
    try:
        points = importlib.metadata.distribution(distribution).entry_points
    except (importlib.metadata.PackageNotFoundError, ValueError):  # no name that one can have
        return False
    return not any(point.group.startswith("singa.") for point in points)


# -- what is around --------------------------------------------------------------------------------


def surroundings() -> dict[str, Any]:
    """Versions, the linear algebra behind NumPy, and threads."""
    return {
        "singa_core": importlib.metadata.version("singa-core"),
        "interfaces": {"backends": registry.BACKEND_API, "plugins": plugins.PLUGIN_API},
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "libraries": {name: _version(name) for name in LIBRARIES},
        "blas": blas(),
        "processors": processors(),
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if THREADS.fullmatch(name) or name.startswith("SINGA_")
        },
    }


def blas() -> str:
    """The linear algebra library that NumPy was built with."""
    try:
        found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{found.get('name', '?')} {found.get('version', '')}".strip()
    except (KeyError, TypeError, AttributeError):
        return "unknown"


def processors() -> int:
    """How many this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def installation(findings: Sequence[Finding]) -> Iterator[Problem]:
    """What is wrong with the distributions as they lie there."""
    names = {text.split()[0] for f in findings for text in f.distributions} | {"singa-core"}
    copies: Counter[str] = Counter()
    ours = importlib.metadata.version("singa-core")
    for dist in importlib.metadata.distributions():
        name = dist.metadata["Name"]
        if name not in names:
            continue
        copies[name] += 1
        for line in dist.requires or ():
            pinned = re.match(r"singa[-_.]core\s*==\s*([\w.]+)\s*$", line)
            if pinned and pinned[1] != ours:
                reason = f"{name} {dist.version} is made for singa-core {pinned[1]}, this is {ours}"
                yield Problem("versions", reason, f"pip install --upgrade singa-core {name}")
    for name, count in copies.items():
        if count > 1:
            reason = f"{name} is installed {count} times on the import path"
            yield Problem("distributions", reason, f"pip uninstall {name}, until it is gone; again")
    for name in LIBRARIES:
        if _version(name) is None:
            yield Problem("libraries", f"{name} is missing", f"pip install {name}")
    if not any(f.kind == "backend" and f.usable for f in findings):
        known = next(iter(known_distributions("host")))
        yield Problem("backends", "none can be used", install_hint(known))


# -- telling it ------------------------------------------------------------------------------------


def as_text(
    report: dict[str, Any], findings: Sequence[Finding], general: Sequence[Problem], *, full: bool
) -> list[str]:
    """The report for people."""
    lines = _head(report) if full else []
    for kind, title in (("backend", "backends"), ("plugin", "plugins")):
        some = [f for f in findings if f.kind == kind]
        if some or (full and kind == "backend"):
            lines += [""] * bool(lines) + [title if some else f"{title}: none"]
        for finding in some:
            lines += _finding(finding)
    for problem in general:
        lines += ["", *_problem(f"WRONG  {problem.stage}", problem)]
    wrong = sum(f.problem is not None for f in findings) + len(general)
    return [*lines, "", f"{wrong} wrong" if wrong else "all is well"]


def _head(report: dict[str, Any]) -> list[str]:
    libraries = ", ".join(f"{n} {v or 'MISSING'}" for n, v in report["libraries"].items())
    backend, plugin = (".".join(map(str, v)) for v in report["interfaces"].values())
    interfaces = f"interface {backend} for backends, {plugin} for plugins"
    environment = ", ".join(f"{name}={value}" for name, value in report["environment"].items())
    return [
        f"singa-core {report['singa_core']} ({interfaces})",
        f"{report['python']}, {report['platform']}",
        *wrapped(libraries, "  "),
        *wrapped(f"BLAS of NumPy: {report['blas']}; {report['processors']} processors", "  "),
        *wrapped(f"environment: {environment or 'nothing set about threads or singa'}", "  "),
    ]


def _finding(finding: Finding) -> list[str]:
    owner = f" ({', '.join(finding.distributions)})" if finding.distributions else ""
    if finding.problem is not None:
        title = f"  WRONG  {finding.name}{owner}: {finding.problem.stage}"
        lines = _problem(title, finding.problem)
    elif not finding.usable:
        told = f"  no     {finding.name}{owner}: not usable here: {why_not(finding)}"
        lines = wrapped(told, " " * 9)
    else:
        lines = wrapped(f"  ok     {finding.name}{owner}", " " * 9)
    if finding.probe is not None and finding.probe["seconds"] > SLOW:
        told = (
            f"its probe took {finding.probe['seconds']:.1f} s, and should take less than {SLOW:g}"
        )
        lines += wrapped(f"{' ' * 9}{told}", " " * 11)
    for device in finding.devices:
        memory, types = gibibytes(device["capacity"]), element_types(device["dtypes"])
        text = f"{device['name']} ({device['kind']}): {memory}, element types {types}"
        text += f", kernels in {' then '.join(device['languages'])}"
        lines += wrapped(f"{' ' * 9}{text}, open in {device['seconds']:.2f} s", " " * 11)
        if device["driver"]:
            lines += wrapped(f"{' ' * 11}driver: {device['driver']}", " " * 13)
    if finding.pack is not None:
        pack = finding.pack
        parts = [f"operations {', '.join(pack['ops'])}"] if pack["ops"] else []
        kernels = pack["kernels"].items()
        parts += [f"{name} kernels for {', '.join(ops)}" for name, ops in kernels if ops]
        parts += [f"listens to {', '.join(pack['events'])}"] if pack["events"] else []
        lines += wrapped(f"{' ' * 9}{'; '.join(parts) or 'adds nothing by itself'}", " " * 11)
    return lines


def _problem(title: str, problem: Problem) -> list[str]:
    lines = wrapped(f"{title}: {problem.reason}", " " * 9)
    if problem.advice:
        lines += wrapped(f"{' ' * 9}try: {problem.advice}", " " * 14)
    return lines


def _plain(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "usable": finding.usable, "why_not": why_not(finding)}
