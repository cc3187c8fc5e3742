"""The kit, as far as every run of the tests can afford it: memory, errors, primitives in float32.

The driver compiles some 300 kernels for that. `singa conformance opencl --level full` is the whole.
"""

import json
import subprocess
import sys

import pytest

from conftest import open_device

SELECTED = ("device::*", "errors::*", "ops.primitive::*[float32-*")


@pytest.fixture
def device():
    return open_device("opencl")


def test_it_conforms_in_float32(device, tmp_path):  # in a process of its own: the kit has options
    report = tmp_path / "report.json"
    select = [part for chosen in SELECTED for part in ("--select", chosen)]
    command = [sys.executable, "-m", "singa_core.conformance", "opencl", "--level", "core"]
    command += ["--report", str(report)]
    made = subprocess.run([*command, *select], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout[-4000:]
    said = json.loads(report.read_text(encoding="utf-8"))
    ran = {name for name, counts in said["groups"].items() if counts["passed"]}
    assert (said["device"], ran) == ("opencl", {chosen.partition("::")[0] for chosen in SELECTED})
