"""Options that all examples take, and the checks that turn a bad one into a line, no traceback."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import singa_core as sc
from singa_core.callbacks import Callback, Checkpoint
from singa_core.errors import SingaError


def parser(doc: str | None, *, epochs: int, rate: float) -> argparse.ArgumentParser:
    """A parser of the options that all examples take; an example may add its own.

    Args:
        doc: what the example does, its `__doc__`.
        epochs: how many there are without `--epochs`.
        rate: the learning rate without `--rate`.
    """
    made = argparse.ArgumentParser(description=doc)
    made.add_argument(
        "--device", type=device, default="cpu", help="backend[:index], cpu, gpu or auto"
    )
    made.add_argument("--epochs", type=integer(1), default=epochs, help="1 or more")
    made.add_argument("--rate", type=positive, default=rate, help="learning rate at the beginning")
    made.add_argument("--seed", type=integer(0, 2**64 - 1), default=0, help="0 or more")
    made.add_argument("--no-graph", action="store_true", help="run every operation eagerly")
    made.add_argument("--save", type=new_file, metavar="FILE", help="keep model and training there")
    made.add_argument("--resume", action="store_true", help="go on from the file of --save")
    return made


def parse(made: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; one that is wrong ends the program with a line that says why."""
    options = made.parse_args(arguments)
    if options.resume and options.save is None:
        made.error("argument --resume: needs --save FILE, which says from where")
    return options


def callbacks(options: argparse.Namespace) -> list[Callback]:
    """What `fit` is given for --save and --resume."""
    if options.save is None:
        return []
    return [Checkpoint(options.save, resume=options.resume)]


# -- types of options: each gives a value, or an error that argparse shows with the option's name -


def device(name: str) -> sc.Device:
    """The device of a name, opened."""
    try:
        return sc.device(name)
    except SingaError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def integer(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type for integers in a range."""
    rule = f"an integer >= {least}" + ("" if most is None else f" and <= {most}")

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"needs {rule}, got {text!r}")
        return number

    return convert


def positive(text: str) -> float:
    """A finite number > 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"needs a finite number > 0, got {text!r}")
    return number


def new_file(text: str) -> Path:
    """A path where a file can be written, in a folder that there is."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"needs the name of a file, got the folder {text!r}")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(
            f"needs a folder that can be written, got {str(path.parent)!r}"
        )
    return path
