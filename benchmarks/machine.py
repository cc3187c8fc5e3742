"""What a measurement was made on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("singa-core", "singa-cpu-numpy", "numpy", "torch", "jax")


def lines(*more: str) -> Iterator[str]:
    """A Markdown list; with `more` packages than those that are always named."""
    yield f"- processor: {processor()}, {len(os.sched_getaffinity(0))} cores used"
    yield f"- system: {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    yield f"- packages: {', '.join(f'{name} {has(name)}' for name in (*PACKAGES, *more))}"
    yield f"- C++ compiler, which torch.compile needs: {compiler()}"
    yield f"- load of the machine as the measurement began: {os.getloadavg()[0]:.1f}"


def has(package: str) -> str:
    """Its version."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """Its name, where Linux tells."""
    try:
        text = Path(os.sep, "proc", "cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or sys.platform
    names = [line.split(":")[1].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def compiler() -> str:
    """The first line of what g++ says of itself."""
    if shutil.which("g++") is None:
        return "none, so it is left out"
    done = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]
