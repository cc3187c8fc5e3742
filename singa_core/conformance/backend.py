"""The backend under test: finding it, and what is worth saying of it in a report."""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from typing import Any

import numpy as np

from singa_core.conformance.ledger import SUITE
from singa_core.device import Device
from singa_core.errors import PluginError
from singa_core.registry import BACKEND_API, Manifest, registry


def find_backend(name: str) -> Device:
    """The device of a name: `<backend>[:index]`, or `module:attribute` of a Manifest.

    The second form is for a backend that is not installed; it is registered in this process.

    Raises: PluginError, DeviceError.
    """
    module, colon, attribute = name.partition(":")
    if colon and not attribute.isdecimal():
        return registry.resolve(register(module, attribute).name)
    return registry.resolve(name)


def register(module: str, attribute: str) -> Manifest:
    """Make the Manifest at `module:attribute` known to this process; once."""
    try:
        manifest = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        reason = f"{module}:{attribute}: {type(error).__name__}: {error}"
        raise PluginError(module, "manifest", reason) from error
    if not isinstance(manifest, Manifest):
        reason = f"{module}:{attribute} is a {type(manifest).__name__}, needs a Manifest"
        raise PluginError(module, "manifest", reason)
    if manifest.name not in registry.names() or registry.manifest(manifest.name) is not manifest:
        registry.register(manifest)
    return manifest


def describe(device: Device) -> dict[str, Any]:
    """What a report says of a device."""
    able = device.capabilities
    return {
        "suite": SUITE,
        "api": list(BACKEND_API),
        "core": _version("singa-core"),
        "distribution": distribution(device.backend),
        "device": device.name,
        "driver": device.driver,
        "dtypes": sorted(d.name for d in able.dtypes),
        "capabilities": {
            "alignment": able.alignment, "sub_buffers": able.sub_buffers, "host": able.host,
            "synchronous": able.synchronous, "concurrent": able.concurrent,
            "capacity": able.capacity, "largest": able.largest, "fuses": sorted(able.fuses),
            "batches": sorted(able.batches), "family": able.family,
        },
        "languages": list(device.languages),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
    }  # fmt: skip


def distribution(backend: str) -> str:
    """`name version` of the distribution that offers a backend."""
    from importlib_metadata import entry_points  # noqa: PLC0415  (30 ms, only for a report)

    for point in entry_points(group="singa.backends", name=backend):
        if point.dist is not None:
            return f"{point.dist.name} {point.dist.version}"
    return "not installed"


def _version(name: str) -> str:
    from importlib_metadata import version  # noqa: PLC0415

    return version(name)


def manifest_module(manifest: Manifest) -> tuple[str, str]:
    """(module, attribute) where a Manifest lives: what its entry point names."""
    from importlib_metadata import entry_points  # noqa: PLC0415

    for point in entry_points(group="singa.backends", name=manifest.name):
        module, _, attribute = point.value.partition(":")
        found = sys.modules.get(module)
        if found is not None and getattr(found, attribute, None) is manifest:
            return module, attribute
    for module, found in list(sys.modules.items()):
        for attribute, value in list(vars(found).items()) if found is not None else ():
            if value is manifest and module != "__main__":
                return module, attribute
    raise PluginError(manifest.name, "manifest", "no module has it: it must be importable by name")
