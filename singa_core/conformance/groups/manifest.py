"""Group `manifest`: the backend is found, says what it is, and costs nobody who did not ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Final

from singa_core.conformance.backend import manifest_module
from singa_core.conformance.checking import Cases, raises
from singa_core.conformance.tolerances import expect
from singa_core.device import Device
from singa_core.errors import DeviceError
from singa_core.registry import BACKEND_API, Probe, registry

SECONDS: Final = 1.0  # of the processor, that a probe may take


def fresh(code: str, *names: str) -> Any:
    """What `code`, which sets `answer`, finds in a new process; `names` are its `given`."""
    path = os.pathsep.join(p for p in sys.path if p)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    begin = f"import json, sys\ngiven = {list(names)!r}\n"
    text = f"{begin}{code}\nprint()\nprint(json.dumps(answer))"
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=env | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    expect(done.returncode == 0, f"a new process failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def test_description(device: Device, case: Cases) -> None:
    """The manifest is one that this core understands, and the device is its device."""
    manifest = registry.manifest(device.backend)

    def api() -> None:
        major, minor = manifest.api
        known = major == BACKEND_API[0] and minor <= BACKEND_API[1]
        expect(known, f"api {manifest.api}, this core speaks {BACKEND_API}")

    def names() -> None:
        expect(manifest.name == device.backend, f"{manifest.name!r} opened {device.backend!r}")
        expect(manifest.device_type, "device_type is empty")
        again = registry.resolve(device.name)
        expect(again is device, f"{device.name} is another object when it is asked for again")

    case.check("api", api)
    case.check("names", names)


def test_probe(device: Device, case: Cases) -> None:
    """A probe is quick, gives one answer, and says how many devices there are."""
    manifest = registry.manifest(device.backend)

    def answers() -> None:
        first, second = manifest.probe(), manifest.probe()
        expect(isinstance(first, Probe), f"got {type(first).__name__}, needs a Probe")
        expect(first == second, f"{first}, and then {second}")
        expect(first.usable and first.device_count > device.index, f"{first}")

    def quick() -> None:
        module, attribute = manifest_module(manifest)
        took = min(fresh(PROBE, module, attribute) for _ in range(2))
        expect(took < SECONDS, f"needs less than {SECONDS} s of the processor, took {took:.2f}")

    case.check("answers", answers)
    case.check("quick", quick)


def test_index(device: Device, case: Cases) -> None:
    """A device that does not exist is an error with the range."""

    def check() -> None:
        count = registry.probe(device.backend).device_count
        with raises(DeviceError, f"0 <= index < {count}"):
            registry.device(device.backend, count)

    case.check("", check)


def test_imports(device: Device, case: Cases) -> None:
    """A manifest brings nothing heavy, and the core brings no backend."""
    manifest = registry.manifest(device.backend)
    module, _ = manifest_module(manifest)
    opened = manifest.open.partition(":")[0]

    def manifest_is_light() -> None:
        loaded = fresh(LIGHT, module)
        own = {module.partition(".")[0], "singa_core"}
        heavy = sorted({name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names))
        heavy = [root for root in heavy if root not in own]
        expect(not heavy, f"the import of {module} brings {', '.join(heavy)}")
        inside = opened in loaded and opened != module
        expect(not inside, f"the import of {module} brings {opened}, which is for later")

    def core_is_alone() -> None:
        loaded = fresh("import singa_core\nanswer = sorted(sys.modules)")
        brought = [m for m in (module, opened) if m in loaded]
        expect(not brought, f"`import singa_core` brings {', '.join(brought)}")

    def others_stay_out() -> None:
        named = fresh(OTHERS, module, manifest_module(manifest)[1], device.name)
        expect(not named, f"opening {device.name} brings {', '.join(named)}")

    case.check("light", manifest_is_light)
    case.check("core", core_is_alone)
    case.check("others", others_stay_out)


PROBE: Final = """
import time, importlib
import singa_core
manifest = getattr(importlib.import_module(given[0]), given[1])
start = time.process_time()
manifest.probe()
answer = time.process_time() - start
"""
LIGHT: Final = """
import importlib, numpy, singa_core
before = set(sys.modules)
importlib.import_module(given[0])
answer = sorted(set(sys.modules) - before)
"""
OTHERS: Final = """
import importlib, singa_core
from singa_core.offers import entry_points
from singa_core.registry import GROUP, registry
registry.register(getattr(importlib.import_module(given[0]), given[1]))
singa_core.device(given[2])
modules = {point.module for point in entry_points(GROUP)}
answer = sorted(m for m in modules - {given[0]} if m in sys.modules)
"""

__all__ = [name for name in dir() if name.startswith("test_")]
