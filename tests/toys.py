"""Toy distributions on the import path: backends and packs, good and bad."""

import textwrap

MANIFEST = """
from singa_core.registry import Manifest, Probe
manifest = Manifest(
    name={name!r}, api={api}, device_type={device_type!r}, probe=lambda: {probe},
    open="toy_{name}.device:open_device", priority={priority},
)
"""
OPENER = """
from far.device import FarDevice
def open_device(index):
    device = FarDevice(index)
    device.backend, device.name = {name!r}, {name!r} + (f":{{index}}" if index else "")
    return device
"""


def write(folder, name, files, group, target, *, distribution=None, version="1.2", requires=()):
    """A distribution with one entry point."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(textwrap.dedent(text), encoding="utf-8")
    distribution = distribution or f"singa-{name}"
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n{needs}", "utf-8"
    )
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n", "utf-8")


def backend(folder, name, *, manifest=None, opener=OPENER, **values):
    """A backend; `manifest` and `opener` replace its two files."""
    options = {k: values.pop(k) for k in ("distribution", "version", "requires") if k in values}
    default = {"name": name, "api": (1, 0), "device_type": "gpu", "priority": 0,
               "probe": "Probe(True, '', 1)"}  # fmt: skip
    files = {
        f"toy_{name}/__init__.py": (manifest or MANIFEST).format(**(default | values)),
        f"toy_{name}/device.py": opener.format(name=name) if opener == OPENER else opener,
    }
    write(folder, name, files, "singa.backends", f"toy_{name}:manifest", **options)


def pack(folder, name, text, **options):
    """A pack of one module."""
    files = {f"toy_pack_{name}.py": text}
    write(folder, name, files, "singa.plugins", f"toy_pack_{name}", **options)
