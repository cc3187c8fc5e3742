"""The backend under test: finding it, and what is worth saying of it in a report."""

from __future__ import annotations

import platform
import sys
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from singa_core.conformance.ledger import SUITE
from singa_core.device import Device
from singa_core.errors import PluginError
from singa_core.offers import entry_points, owner
from singa_core.registry import BACKEND_API, GROUP, Manifest, registry


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
        "core": version("singa-core"),
        "distribution": distribution(device.backend),
        "device": device.name,
        "driver": device.driver,
        "dtypes": sorted(d.name for d in able.dtypes),
        "capabilities": {
            f.name: plain(getattr(able, f.name)) for f in fields(able) if f.name != "dtypes"
        },
        "languages": list(device.languages),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
    }


def plain(value: Any) -> Any:
    """A value as JSON has it: a set as a sorted list."""
    return sorted(value) if isinstance(value, frozenset) else value


def distribution(backend: str) -> str:
    """`name version` of the distribution that offers a backend."""
    owners = (owner(point) for point in entry_points(GROUP) if point.name == backend)
    return next(filter(None, owners), "not installed")


def manifest_module(manifest: Manifest) -> tuple[str, str]:
    """(module, attribute) where a Manifest lives: what its entry point names."""
    for point in entry_points(GROUP):
        found = sys.modules.get(point.module)
        if point.name == manifest.name and getattr(found, point.attr, None) is manifest:
            return point.module, point.attr
    for module, found in list(sys.modules.items()):
        for attribute, value in list(vars(found).items()) if found is not None else ():
            if value is manifest and module != "__main__":
                return module, attribute
    raise PluginError(manifest.name, "manifest", "no module has it: it must be importable by name")
