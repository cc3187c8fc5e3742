"""An outsider's backend: built as a wheel, installed beside the core's wheel, tested from an empty folder.

`tests/outsider` was written from docs/write-a-backend.md alone. Its environment has nothing else of this
project: no checkout, no NumPy backend. Its library refuses to mix host and device, so that a copy
which the core forgets is an error.
"""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from house import counts
from singa_core.conformance.ledger import GROUPS

ROOT = Path(__file__).resolve().parent.parent
OUTSIDER = ROOT / "tests" / "outsider"
NEEDED = (
    "singa-core",
    "pytest",
)  # what comes with these is linked, not installed: no index is asked


def third_party(names):
    """Distributions that these need here, ours left out."""
    found, waiting = {}, list(names)
    while waiting:
        name = re.match(r"[\w.-]+", waiting.pop())[0].lower().replace("_", "-")
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or Python
        waiting += [line for line in found[name].requires or () if "extra ==" not in line]
    return [dist for name, dist in found.items() if not name.startswith("singa")]


def link(dist, site):
    """Make an installed distribution importable in another environment."""
    for top in {file.parts[0] for file in dist.files if file.parts[0] not in ("..", "__pycache__")}:
        place = site / top
        if not place.exists():
            place.symlink_to(dist.locate_file(top), target_is_directory=True)


def run(*command, cwd, **env):
    kept = {
        k: v for k, v in os.environ.items()
        if not k.startswith(("SINGA", "PYTHON", "PYTEST", "VIRTUAL_ENV"))
    }  # fmt: skip
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=kept | env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A function that runs Python in an environment with the two wheels, in an empty folder."""
    folder = tmp_path_factory.mktemp("outsider")
    wheels, empty = folder / "wheels", folder / "empty"
    empty.mkdir()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", wheels]
    code, _, err = run(*pip, *build, ROOT, OUTSIDER, cwd=folder)
    assert code == 0, err
    venv.create(folder / "env", with_pip=False, symlinks=os.name != "nt")
    python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    (site,) = (folder / "env").rglob("site-packages")
    for dist in third_party(NEEDED):
        link(dist, site)
    install = ["install", "-q", "--no-index", "--no-deps", *sorted(wheels.glob("*.whl"))]
    code, _, err = run(*pip, "--python", python, *install, cwd=folder)
    assert code == 0, err

    def start(*args):
        return run(python, *args, cwd=empty)

    return start


def test_it_is_small():
    files = [path for path in OUTSIDER.rglob("*") if path.suffix in (".py", ".toml")]
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in files)
    assert lines <= 300
    counts.told(f"the outsider's backend: {lines} lines in {len(files)} files")


def test_it_imports_what_a_backend_may():
    allowed = {"device", "dtype", "errors", "kernels", "program", "registry", "spec"}
    text = "".join(path.read_text("utf-8") for path in OUTSIDER.rglob("*.py"))
    assert set(re.findall(r"from singa_core\.?(\w*)", text)) <= allowed
    assert "import singa_core" not in text


def test_the_environment_is_clean(environment):
    code, out, err = environment("-c", "import singa_core, sys; print(singa_core.__file__)")
    assert code == 0, err
    assert str(ROOT) not in out
    code, _, err = environment("-c", "import singa_cpu_numpy")
    assert "ModuleNotFoundError" in err


def test_it_is_found_and_well(environment):
    code, out, err = environment("-m", "singa_core", "devices", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["aliases"] == {"cpu": None, "gpu": "outsider", "auto": "outsider"}
    assert [d["name"] for d in found["backends"][0]["devices"]] == ["outsider", "outsider:1"]
    code, out, _ = environment("-m", "singa_core", "doctor")
    assert "ok     outsider (singa-outsider 0.3.0)" in out
    assert code == 0


TRAIN = """
import numpy as np, singa_core as sc
from singa_core.layers import Dropout, Linear, ReLU, Sequential
class Net(sc.Model):
    def __init__(self):
        self.body = Sequential(Linear(16), ReLU(), Dropout(0.1), Linear(3))
        self.loss, self.optimizer = sc.ops.cross_entropy, sc.opt.Adam(0.02)
    def forward(self, x):
        return self.body(x)
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 5)).astype("float32")
labels = x[:, :3].argmax(1)
net = Net()
net.compile([sc.Placeholder((64, 5), device="outsider:1")])
losses = [float(net.train_one_batch(x, labels)[1]) for _ in range(150)]
assert losses[-1] < 0.3 * losses[0], losses
try:
    np.asarray(net.body.steps[0].weight.array.handle)
except TypeError as error:
    print(error)
"""


def test_it_trains_and_keeps_the_host_out(environment):
    code, out, err = environment("-c", TRAIN)
    assert (code, err) == (0, "")
    assert out == "an array of the device cannot be read by the host: to_host() copies\n"


def test_it_conforms(environment):
    """The kit from the wheel, at the level that a user needs."""
    code, out, err = environment("-m", "singa_core", "conformance", "outsider", "--level", "graph")
    assert code == 0, out[-4000:] + err
    assert "conforms: level graph" in out
    passed = re.findall(r"^ +([\w.]+) +(\d+) passed", out, re.MULTILINE)
    assert {group for group, _ in passed} == set(GROUPS)
    counts.counted("conformance cases of the outsider", sum(int(n) for _, n in passed))
