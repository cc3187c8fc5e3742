"""The kit bites: each planted fault is found by its ordinary tests, and first in the right group."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from house import counts
from planted import FAULTS

HERE = Path(__file__).resolve().parent


def run_kit(folder, *arguments):
    """(exit status, the JSON report, what was printed) of a run of the kit in an empty folder."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "singa_core.conformance", *arguments, "--report", str(report)]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "SINGA"))}
    done = subprocess.run(
        command, cwd=folder, env=env | {"PYTHONPATH": str(HERE)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    data = json.loads(report.read_text("utf-8")) if report.exists() else {}
    return done.returncode, data, (done.stdout + done.stderr)[-4000:]


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name, tmp_path):
    fault = FAULTS[name]
    select = [part for pattern in fault.select for part in ("--select", pattern)]
    status, data, text = run_kit(
        tmp_path, f"planted:{name}", "--level", "full", "--stop", *fault.options, *select
    )
    assert data, text
    assert sum(group["ran"] for group in data["groups"].values()) > 10, text
    assert data["lowest_failing_group"] == fault.group, text
    assert status == (0 if fault.group is None else 1)
    assert data["passed"] is (fault.group is None)
    if fault.group is not None:
        assert all(f["message"] for f in data["failures"])
        counts.counted(f"planted faults that the kit has caught, of {len(FAULTS) - 1}")
