"""The process in which one backend or plugin is examined; what ends it ends nobody else.

`python -m singa_core.cli.patient backend NAME` prints a line of JSON before each stage and after
it, so that whoever started it knows how far it came. `plugin NAME[,NAME]` does so for packs.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import operator
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

Tell = Callable[..., None]
MOST = 16  # devices of a backend that are opened
SHARED = ("array", "c")  # languages that are nobody's own


def main(argv: Sequence[str]) -> int:
    """Examine and report."""
    kind, name = argv
    faulthandler.enable()
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what foreign code prints must not mix with the report

    def tell(**said: Any) -> None:
        print(json.dumps(said, default=plain), file=report, flush=True)

    tell(at="import singa_core")
    from singa_core.errors import PluginError, SingaError  # noqa: PLC0415  (told first)
    from singa_core.offers import FAULTS, cause  # noqa: PLC0415

    try:
        (backend if kind == "backend" else plugins)(name, tell)
    except PluginError as error:
        where = {"distribution": error.distribution, "hint": error.hint}
        tell(error={"stage": error.stage, "reason": error.reason, **where})
    except SingaError as error:
        tell(error={"stage": None, "reason": str(error), "hint": None})
    except FAULTS as error:
        tell(error={"stage": None, "reason": cause(error), "hint": None})
    tell(done=True)
    return 0


def plain(value: Any) -> Any:
    """What a backend has said in a type that JSON does not know: a NumPy integer, say."""
    return operator.index(value) if hasattr(type(value), "__index__") else str(value)


def backend(name: str, tell: Tell) -> None:
    """All stages of a backend, and a small computation on each of its devices."""
    from singa_core.registry import registry  # noqa: PLC0415  (see main)

    tell(at="manifest")
    manifest = registry.manifest(name)
    known = {"device_type": manifest.device_type, "priority": manifest.priority}
    tell(manifest={**known, "api": list(manifest.api)})
    tell(at="probe")
    start = time.perf_counter()
    probe = registry.probe(name)
    found = dataclasses.asdict(probe)
    tell(probe={**found, "seconds": time.perf_counter() - start})
    for index in range(min(probe.device_count, MOST) if probe.usable else 0):
        tell(at=f"open {name}:{index}" if index else f"open {name}")
        start = time.perf_counter()
        device = registry.device(name, index)
        opened = time.perf_counter() - start
        capabilities = device.capabilities
        told = {
            "name": device.name,
            "kind": probe.kinds[index] if probe.kinds else manifest.device_type,
            "driver": device.driver,
            "family": capabilities.family,
            "host": capabilities.host,
            "capacity": capabilities.capacity,
            "dtypes": sorted(dtype.name for dtype in capabilities.dtypes),
            "languages": list(device.languages),
        }
        tell(device={**told, "seconds": opened})
        tell(at=f"compute on {device.name}")
        start = time.perf_counter()
        wrong = computes_wrongly(device)
        tell(computed={"wrong": wrong, "seconds": time.perf_counter() - start})


def computes_wrongly(device: Any) -> str | None:
    """What is wrong with a few numbers that went there, were computed with, and came back."""
    import numpy as np  # noqa: PLC0415  (see main)

    from singa_core.tensor import tensor  # noqa: PLC0415

    x = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
    y = tensor(x, device=device)
    got = ((y @ y.mT).sum(axis=0) - y.exp().sum(axis=1)).numpy()
    wide = x.astype(np.float64)
    wanted = (wide @ wide.T).sum(axis=0) - np.exp(wide).sum(axis=1)
    if np.allclose(got, wanted, rtol=1e-5, atol=1e-5):
        return None
    return f"a small computation gave {got.tolist()}, not {wanted.tolist()}"


def plugins(names: str, tell: Tell) -> None:
    """Packs, together, with their kernels in the languages that backends share."""
    os.environ["SINGA_PLUGINS"] = names  # named packs fail aloud
    from singa_core.plugins import EVENTS, packs  # noqa: PLC0415  (see main)

    tell(at="load")
    found = packs.all()
    tell(at="kernels")
    for language in SHARED:
        import_module(f"singa_core.kernels.{language}")  # makes the table
    packs.speak(SHARED)
    for pack in found:
        hooks = [event for event in EVENTS if hasattr(pack.module, event)]
        tell(pack={"ops": pack.ops, "kernels": pack.kernels, "events": hooks})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
