"""Examine what is installed, each backend and plugin in a process of its own, with a time limit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from singa_core import offers, plugins, registry

STAGES: Final = {"load": "import"}  # where the patient's own word is not a stage's
_RUNNING: Final[set[subprocess.Popen[bytes]]] = set()
GROUPS: Final = {"backend": registry.GROUP, "plugin": plugins.GROUP}


@dataclass
class Problem:
    """Something that is wrong: at which stage, what, and what to do."""

    stage: str
    reason: str
    advice: str | None = None


@dataclass
class Finding:
    """What is known of one backend or plugin.

    `manifest`, `probe`, `devices` and `pack` are what the patient told, as far as it came.
    """

    kind: str
    name: str
    distributions: tuple[str, ...] = ()
    manifest: dict[str, Any] | None = None
    probe: dict[str, Any] | None = None
    devices: list[dict[str, Any]] = field(default_factory=list)
    pack: dict[str, Any] | None = None
    problem: Problem | None = None

    @property
    def usable(self) -> bool:
        """True if nothing is wrong and it says it can run here."""
        return self.problem is None and (self.probe is None or bool(self.probe["usable"]))


def installed(kind: str) -> dict[str, tuple[str, ...]]:
    """Names of what is installed -> the distributions that offer it; nothing is imported."""
    found: dict[str, list[str]] = {}
    for point in offers.entry_points(GROUPS[kind]):
        found.setdefault(point.name, []).append(offers.owner(point) or "?")
    return {name: tuple(sorted(owners)) for name, owners in sorted(found.items())}


def examine(wanted: Iterable[tuple[str, str]], timeout: float) -> list[Finding]:
    """Findings on these (kind, name), in their order; several at a time."""
    offered = {kind: installed(kind) for kind in GROUPS}
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        jobs = [
            pool.submit(_examine, kind, name, offered[kind].get(name, ()), timeout)
            for kind, name in wanted
        ]
        try:
            return [job.result() for job in jobs]
        except BaseException:  # Ctrl-C: nobody waits for the patients
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(_RUNNING):
                _kill(process)
            raise


def _examine(kind: str, name: str, distributions: tuple[str, ...], timeout: float) -> Finding:
    finding = Finding(kind, name, distributions)
    output, errors, status = in_a_process([kind, name], timeout)
    at, done = "start", False
    for line in output.splitlines():
        try:
            said = json.loads(line)
        except ValueError:  # cut off in mid-line
            break
        at, done = said.get("at", at), said.get("done", done)
        finding.manifest = said.get("manifest", finding.manifest)
        finding.probe = said.get("probe", finding.probe)
        finding.pack = said.get("pack", finding.pack)
        if "device" in said:
            finding.devices.append(said["device"])
        if "computed" in said and said["computed"]["wrong"]:
            advice = "update the device's driver, or do not use this device"
            finding.problem = Problem(at, said["computed"]["wrong"], advice)
        if "error" in said:
            error = said["error"]
            finding.problem = Problem(
                error["stage"] or STAGES.get(at, at), error["reason"], error["hint"]
            )
    if not done:
        stage = STAGES.get(at, at)
        finding.problem = _ended(stage, status, errors, timeout, distributions)
    return finding


def in_a_process(args: Sequence[str], timeout: float) -> tuple[str, str, int | None]:
    """Output, errors and status of a patient; None as status if it had to be killed."""
    command = [sys.executable, "-P", "-m", "singa_core.cli.patient", *args]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "SINGA_PLUGINS": "off"}
    # files, not pipes: a grandchild that lives on must not keep this process waiting
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
            start_new_session=True,
        )  # fmt: skip
        status: int | None = None
        _RUNNING.add(process)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _RUNNING.discard(process)
            _kill(process)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return texts[0], texts[1], status


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it has started."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):  # it is gone
        pass
    process.wait()


def _ended(
    stage: str, status: int | None, errors: str, timeout: float, distributions: Sequence[str]
) -> Problem:
    """The problem of a patient that did not come to its end."""
    names = " ".join(text.split()[0] for text in distributions) or "it"
    without = f"pip uninstall {names} takes it out of the way"
    if status is None:
        reason = f"was still at it after {timeout:g} s, and was stopped"
        return Problem(stage, reason, f"--timeout S waits longer; {without}")
    if status >= 0:
        told = f"ended the process with status {status}"
        last = errors.strip().rpartition("\n")[2]
        return Problem(stage, f"{told}: {last}" if last else told, without)
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    reason = f"crashed with signal {-status} ({name}){_place(errors)}"
    advice = f"reinstall {names}, or the driver behind it; {without}"
    return Problem(stage, reason, advice)


def _place(errors: str) -> str:
    """Where in Python a crash was, from what faulthandler has written."""
    found = re.search(r'^  File "(.+)", line (\d+) in (\S+)', errors, re.MULTILINE)
    if found is None:
        return ""
    path = "/".join(found[1].replace("\\", "/").split("/")[-2:])
    return f" in {path}, line {found[2]}, {found[3]}"
