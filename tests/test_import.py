"""What `import singa_core` costs, and what it leaves alone."""

import inspect
import json
import os
import pkgutil
import statistics
import subprocess
import sys

import singa_core
from house import counts

HEAVY = (
    "importlib_metadata", "onnx", "matplotlib", "PIL", "torch", "pandas", "scipy", "cupy", "pyopencl",
    "hypothesis", "pytest",
)  # fmt: skip
BOUND = 2.0  # seconds: only something gone badly wrong takes as long


def fresh(code):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_import_brings_no_backend_and_nothing_heavy():
    loaded = json.loads(
        fresh("import singa_core, sys, json; print(json.dumps(sorted(sys.modules)))")
    )
    roots = {name.partition(".")[0] for name in loaded}
    assert "singa_core" in roots
    assert sorted(name for name in roots if name.startswith("singa") and name != "singa_core") == []
    assert sorted(roots & set(HEAVY)) == []


def test_import_opens_no_device():
    code = "import singa_core; from singa_core.registry import registry; print(registry._known)"
    assert fresh(code).strip() == "None"


def test_import_takes_little_time():
    def seconds(code):
        """Of the processor, since a busy machine would tell of others."""
        before = os.times()
        fresh(code)
        after = os.times()
        return sum(after[2:4]) - sum(before[2:4])

    times = {"pass": [], "import numpy, ml_dtypes": [], "import singa_core": []}
    for _ in range(5):
        for code, taken in times.items():
            taken.append(seconds(code))
    bare, libraries, ours = (statistics.median(taken) for taken in times.values())
    counts.told(
        f"import singa_core: {ours - bare:.2f} s (CPU) over bare Python, "
        f"{libraries - bare:.2f} s of it for numpy and ml_dtypes"
    )
    assert ours - bare < BOUND


MEANT_TWICE = {"device", "tensor", "update"}  # told in the package's docstring


def test_which_names_are_functions_and_modules_too():
    modules = {m.name for m in pkgutil.iter_modules(singa_core.__path__)}
    assert {
        n for n in modules if not inspect.ismodule(vars(singa_core).get(n, inspect))
    } == MEANT_TWICE
    assert all(f"`{name}`" in singa_core.__doc__ for name in MEANT_TWICE)


def test_the_functions_hide_the_modules_whatever_is_imported_first():
    for name in MEANT_TWICE:
        code = (
            f"import singa_core.{name}, singa_core as sc, types\n"
            f"import singa_core.{name} as again\n"
            f"print(isinstance(sc.{name}, types.FunctionType), again is sc.{name})"
        )
        assert fresh(code).split() == ["True", "True"]
    assert fresh("from singa_core.device import Device; print(Device.__name__)").strip() == "Device"
