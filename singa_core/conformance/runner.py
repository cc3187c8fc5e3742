"""`singa conformance NAME`: run the kit on one backend, from any folder.

Exit status: 0 the backend conforms, 1 it does not, 2 and above: it could not be found out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from singa_core.conformance.options import OPTIONS, for_pytest

INSTALL = "the kit needs pytest\ntry: pip install 'singa-core[conformance]'"
WORKERS = "-n: parallel workers need pytest-xdist\ntry: pip install pytest-xdist"


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="singa conformance",
        description="Run the conformance kit on one backend.",
        epilog="What follows -- goes to pytest.",
    )
    add = made.add_argument
    add("name", nargs="?", help="the backend: NAME[:index], or module:manifest")
    add("--singa-backend", metavar="NAME", help="the same, as pytest knows it")
    for name, how in OPTIONS.items():
        add(f"--{name}", **how)
    add("-n", metavar="N", dest="workers", help="parallel workers (needs pytest-xdist)")
    return made


def arguments(given: Sequence[str]) -> list[str]:
    """The arguments for pytest. Raises: SystemExit with a message for wrong ones."""
    own, rest = list(given), []
    if "--" in own:
        place = own.index("--")
        own, rest = own[:place], own[place + 1 :]
    options = parser().parse_args(own)
    name = options.singa_backend or options.name
    if not name or (options.singa_backend and options.name):
        parser().error("give one backend: NAME or --singa-backend NAME")
    here = Path(__file__).parent
    made = [
        "-p", "singa_core.conformance.plugin", "-p", "no:cacheprovider",
        "-c", str(here / "pytest.ini"), "--rootdir", str(here), "--noconftest", "-q", "--no-header",
        "--singa-backend", name, *for_pytest(vars(options)),
    ]  # fmt: skip
    made += ["-n", options.workers] if options.workers else []
    return [*made, *rest, "--pyargs", "singa_core.conformance.suite"]


def main(given: Sequence[str]) -> int:
    """Run the command; gives its exit status."""
    made = arguments(given)
    if find_spec("pytest") is None:
        print(INSTALL, file=sys.stderr)
        return 3
    if "-n" in made and find_spec("xdist") is None:
        print(WORKERS, file=sys.stderr)
        return 3
    import pytest  # noqa: PLC0415  (only who runs the kit needs it)

    return int(pytest.main(made))
