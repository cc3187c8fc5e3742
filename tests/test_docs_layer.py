"""docs/write-a-layer.md works as it is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "write-a-layer.md").read_text("utf-8")
FILES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))


@pytest.fixture
def folder(tmp_path):
    """An empty folder with the files that the page prints."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def start(folder, *args):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SINGA", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, *args], cwd=folder, env=env | {"SINGA_PLUGINS": "off"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_layer_passes_its_test_and_says_what_the_page_says(folder):
    told = start(folder, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-W", "error")
    assert "2 passed" in told
    (line,) = re.findall(r"Gated on .*", told)
    (printed,) = re.findall(r"^Gated on .*$", TEXT, re.MULTILINE)
    kinds = r"([a-z][\w =]+?) \d+"
    got, wanted = (re.findall(kinds, one.partition(":")[2]) for one in (line, printed))
    assert got == wanted + ["device == device"] * (", " in line.partition(":")[0])
    if "opencl" not in line:
        assert line.partition(";")[0] == printed


CODE = """
import sys; sys.path.insert(0, ".")
import numpy as np, singa_core as sc, plugin
from singa_core.conformance.layer import check_layer
from singa_core.plugins import packs
packs.register("mine", plugin)
from ops import log_cosh
class Loss(sc.Layer):
    def forward(self, x):
        return log_cosh(x).mean()
print(check_layer(Loss, (4, 5), output=()))
x = sc.tensor([0.0, 1.0, -100.0])
np.testing.assert_allclose(log_cosh(x).numpy(), [0, np.log(np.cosh(1)), 100 - np.log(2)], rtol=1e-6)
(pack,) = packs.all()
print(pack.ops, pack.kernels["array"])
class Net(sc.Model):
    def __init__(self):
        self.linear, self.optimizer = sc.layers.Linear(1), sc.opt.SGD(0.1)
        self.loss = lambda y, target: log_cosh(y - target).mean()
    def forward(self, x):
        return self.linear(x)
data = np.ones((4, 2), np.float32)
Net().fit([(data, data[:, :1])], 2, progress=False)
"""


def test_the_operation_its_kernel_and_its_hooks_work(folder):
    told = start(folder, "-W", "error", "-c", CODE).splitlines()
    assert told[0].startswith("Loss on ")
    assert told[1] == "('log_cosh',) ('log_cosh',)"
    assert [line.split()[0] for line in told[2:]] == ["1", "2"]


C_CODE = """
import sys; sys.path[:0] = [".", {tests!r}]
import numpy as np, singa_core as sc
from paper import Paper
from kernels import add_c_kernels
from ops import log_cosh
from singa_core.conformance.layer import check_layer
from singa_core.kernels.c import c
from singa_core.registry import registry
from singa_core.spec import Spec
add_c_kernels(c)
for kernel in list(c):
    if kernel.op == "log_cosh":
        x = Spec((2, 3), "float32" if "f32" in kernel.signature else "float64")
        if kernel.signature in ("f32->f32", "f64->f64"):
            for family in ("cpu", "gpu"):
                (call,) = kernel.prepare(Paper(family), [x], [x])
                assert "log1p" in call.source.body and "{{T}}" not in call.source.body
        print(kernel.signature)
class Loss(sc.Layer):
    def forward(self, x):
        return log_cosh(x)
if "opencl" in registry.names() and registry.probe("opencl").usable:
    report = check_layer(Loss, (4, 5), devices=["opencl"])
    assert report.checks["kernel == decomposition"] >= 6, report
"""


def test_the_kernel_in_c_works(folder):
    told = start(folder, "-W", "error", "-c", C_CODE.format(tests=str(ROOT / "tests")))
    assert told.split() == ["f16->f16", "bf16->bf16", "f32->f32", "f64->f64"]


def test_the_template_can_be_copied_as_the_page_says(tmp_path):
    """The three commands that give it another name; its tests still pass."""
    (block,) = re.findall(r"```\n(cp -r .*?)```", TEXT, re.DOTALL)
    cp, mv, rename, _, _ = block.splitlines()
    folder = tmp_path / "my-gates"
    script = "\n".join(["set -e", cp.replace("my-gates &&", f"{folder} &&").replace(
        "cd my-gates", f"cd {folder}"), mv, rename])  # fmt: skip
    subprocess.run(["bash", "-c", script], cwd=ROOT, check=True)
    left = [
        path for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and re.search(r"template.layers", path.read_text("utf-8"))
    ]  # fmt: skip
    assert left == []
    assert (folder / "singa_my_gates" / "plugin.py").exists()
    told = start(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_layers.py")
    assert re.search(r"^\d+ passed", told, re.MULTILINE)
