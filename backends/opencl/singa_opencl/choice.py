"""Which OpenCL devices there are, in which order, and why others cannot be used.

`SINGA_OPENCL_DEVICE` keeps the devices whose platform or device name contains its text (case does
not matter). GPUs come first, then other accelerators, then CPUs; within a kind, as the drivers list
them. `SINGA_OPENCL_FAMILY` (cpu or gpu) overrules which kernels a device gets.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from singa_core.registry import Probe

DEVICE, FAMILY = "SINGA_OPENCL_DEVICE", "SINGA_OPENCL_FAMILY"
INSTALL = "pip install 'pyopencl[pocl]' brings a driver for the CPU"
FAMILIES = ("cpu", "gpu")
FORKED = (
    "this process was forked after OpenCL had been used, and OpenCL does not survive that: the "
    "threads of its drivers stay with the parent"
)


@dataclass(frozen=True)
class Choice:
    """Devices that can be used, and a line for each that cannot."""

    devices: tuple[Any, ...]
    refused: tuple[str, ...]


_asked: list[int] = []  # processes that have asked the drivers: this one, or one that forked it


def forked() -> bool:
    """True where drivers were loaded by a process that this one is a fork of."""
    return bool(_asked) and os.getpid() not in _asked


def find() -> Probe:
    """How many devices there are, or why none."""
    if forked():
        return Probe(usable=False, reason=FORKED, device_count=0)
    try:
        import pyopencl  # noqa: F401, PLC0415  (not before somebody asks)
    except Exception as error:
        reason = f"pyopencl cannot be imported ({type(error).__name__}: {error})"
        return Probe(usable=False, reason=reason, device_count=0)
    family = os.environ.get(FAMILY)
    if family and family not in FAMILIES:
        reason = f"{FAMILY} is {family!r}, which is none of {', '.join(FAMILIES)}"
        return Probe(usable=False, reason=reason, device_count=0)
    try:
        choice = choose(os.environ.get(DEVICE) or "")
    except Exception as error:
        return Probe(usable=False, reason=no_platform(error), device_count=0)
    if not choice.devices:
        reason = "; ".join(choice.refused) or f"the drivers have no device; {INSTALL}"
        return Probe(usable=False, reason=reason, device_count=0)
    kinds = tuple(kind_of(device) for device in choice.devices)
    return Probe(usable=True, device_count=len(kinds), kinds=kinds)


def no_platform(error: Exception) -> str:
    """Why the drivers cannot be asked."""
    if "PLATFORM_NOT_FOUND" in str(error):
        return f"no OpenCL driver (ICD) is installed; {INSTALL}"
    return f"the OpenCL drivers cannot be listed ({type(error).__name__}: {error})"


@lru_cache
def choose(text: str) -> Choice:
    """The devices that match `text`, best kind first. Raises: what pyopencl raises."""
    import pyopencl as cl  # noqa: PLC0415

    _asked.append(os.getpid())
    kinds = (cl.device_type.GPU, cl.device_type.ACCELERATOR, cl.device_type.CPU)
    found, refused = [], []
    for platform in cl.get_platforms():
        try:
            devices = platform.get_devices()
        except cl.Error as error:  # a driver without a device may raise
            refused.append(f"{platform.name}: {error}")
            continue
        for device in devices:
            name = f"{platform.name}: {device.name}"
            if text.lower() not in name.lower():
                refused.append(f"{name}: does not match {DEVICE}={text!r}")
            elif problem := unusable(platform, device):
                refused.append(f"{name}: {problem}")
            else:
                rank = next((i for i, kind in enumerate(kinds) if device.type & kind), len(kinds))
                found.append((rank, len(found), device))
    return Choice(tuple(d for _, _, d in sorted(found, key=lambda f: f[:2])), tuple(refused))


def unusable(platform: Any, device: Any) -> str | None:
    """What is missing to compute on a device."""
    import pyopencl as cl  # noqa: PLC0415

    if not device.available or not device.compiler_available:
        return "it is not available, or has no compiler"
    if not device.endian_little:
        return "its memory is big-endian"
    version = re.match(r"OpenCL (\d+)\.(\d+)", device.version)
    if version and tuple(map(int, version.groups())) < (1, 2):
        return f"{device.version} is older than OpenCL 1.2"
    on_cpu = device.type & cl.device_type.CPU
    if "Portable Computing" in platform.name and on_cpu and shutil.which("ld") is None:
        return (
            "this driver (PoCL) calls the linker `ld`, which is not on PATH, and would end the "
            "process; install binutils"
        )
    return None


def kind_of(device: Any) -> str:
    """What the driver says that a device is: `"gpu"` of core means no CPU."""
    import pyopencl as cl  # noqa: PLC0415

    words = {cl.device_type.GPU: "gpu", cl.device_type.CPU: "cpu"}
    return next((word for kind, word in words.items() if device.type & kind), "accelerator")


def family_of(device: Any) -> str:
    """Which kernels a device gets: those for a few wide work items, or for many small ones."""
    import pyopencl as cl  # noqa: PLC0415

    chosen = os.environ.get(FAMILY)
    return chosen or ("cpu" if device.type & cl.device_type.CPU else "gpu")
