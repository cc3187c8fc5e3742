"""The packs in this checkout: each one's own tests, run as its author runs them.

In a process of their own, since what a pack adds is there for everybody in a process.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from house import counts

ROOT = Path(__file__).resolve().parent.parent
PACKS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))


def check_installed(folder):
    """Skip, or fail if `SINGA_REQUIRE` names the pack, unless it is installed from this checkout."""
    name = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["name"]
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        if folder.name in os.environ.get("SINGA_REQUIRE", "").split(","):
            pytest.fail(f"SINGA_REQUIRE has {folder.name}, and {name} is not installed")
        pytest.skip(f"{name} is not installed; try: pip install -e {folder.relative_to(ROOT)}")


@pytest.mark.parametrize("folder", PACKS, ids=lambda folder: folder.name)
def test_a_pack_s_own_tests_pass(folder):
    check_installed(folder)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SINGA_PLUGINS", "PYTEST"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^(\d+) passed in", done.stdout, re.MULTILINE)
    assert passed, "not all of its tests ran"
    counts.counted(f"tests of the pack {folder.name}", int(passed[1]))
