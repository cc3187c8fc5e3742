"""The command `singa` (= `python -m singa_core`): what is installed, and whether it works.

Exit status: 0 all is well, 1 something is wrong (the output says what), 2 the command was not
understood, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from singa_core.cli.text import wrapped
from singa_core.errors import SingaError

STATUS = """exit status:
  0  all is well
  1  something is wrong; the output says what
  2  the command was not understood"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        if given[:1] == ["conformance"]:  # its options are its own
            return _conformance(given[1:])
        options = parser().parse_args(given)
        status: int = options.run(options)
        sys.stdout.flush()  # here, where a closed pipe is expected
    except SingaError as error:
        print("\n".join(wrapped(f"singa: {error}", "  ")), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("singa: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `singa devices | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(
        prog="singa", description="What is installed for singa-core, and whether it works.",
        epilog=STATUS, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"singa-core {_version()}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    devices = commands.add_parser("devices", help="list the devices of this machine")
    devices.description = """List the devices that the installed backends offer, and what
        "cpu", "gpu" and "auto" mean here. Each backend is asked in a process of its own."""
    devices.add_argument("names", nargs="*", metavar="NAME", help="these backends only")
    _common(devices)
    devices.set_defaults(run=_devices)

    doctor = commands.add_parser("doctor", help="check everything that is installed")
    doctor.description = """Load every backend and every plugin in a process of its own, open its
        devices and compute a little; whatever goes wrong there, a crash included, is told with
        its stage and what to do about it."""
    doctor.add_argument("names", nargs="*", metavar="NAME", help="these backends and plugins only")
    _common(doctor)
    doctor.set_defaults(run=_doctor)
    commands.add_parser("conformance", add_help=False, help="test a backend: NAME [--level LEVEL]")
    for command in (devices, doctor):
        command.epilog, command.formatter_class = STATUS, argparse.RawDescriptionHelpFormatter
        command.description = "\n".join(wrapped(" ".join(str(command.description).split()), ""))
    return top


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument(
        "--timeout", type=_seconds, default=30.0, metavar="S",
        help="give up on a backend or plugin after S seconds (default 30)",
    )  # fmt: skip


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"needs seconds > 0, got {text!r}")
    return seconds


# each command's module is imported when the command is run


def _devices(options: argparse.Namespace) -> int:
    from singa_core.cli import devices  # noqa: PLC0415

    return devices.run(options.names, timeout=options.timeout, json=options.json)


def _doctor(options: argparse.Namespace) -> int:
    from singa_core.cli import doctor  # noqa: PLC0415

    return doctor.run(options.names, timeout=options.timeout, json=options.json)


def _conformance(given: Sequence[str]) -> int:
    from singa_core.conformance import runner  # noqa: PLC0415

    return runner.main(given)


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415

    return version("singa-core")
