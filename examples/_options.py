"""Options that all examples take, and the checks that turn a bad one into a line, no traceback."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path

import singa_core as sc
from singa_core.errors import SingaError

PICTURES = (".svg", ".png", ".pdf")


def parser(file: str, doc: str | None, *, epochs: int, rate: float) -> argparse.ArgumentParser:
    """A parser of the options that all examples take; an example may add its own.

    The options have the example's `name` as well.

    Args:
        file: the example's `__file__`.
        doc: what the example does, its `__doc__`.
        epochs: how many there are without `--epochs`.
        rate: the learning rate without `--rate`.
    """
    name = Path(file).stem
    made = argparse.ArgumentParser(f"python3 examples {name}", description=doc)
    made.set_defaults(name=name)
    made.add_argument(
        "--device", type=device, default=os.environ.get("SINGA_DEVICE") or "cpu",
        help="backend[:index], cpu, gpu or auto; without it %(default)s (SINGA_DEVICE sets that)",
    )  # fmt: skip
    made.add_argument("--epochs", type=integer(1), default=epochs, help="1 or more")
    made.add_argument("--rate", type=positive, default=rate, help="learning rate at the beginning")
    made.add_argument("--seed", type=integer(0, 2**64 - 1), default=0, help="0 or more")
    made.add_argument("--no-graph", action="store_true", help="run every operation eagerly")
    made.add_argument(
        "--save", type=new_file, metavar="FILE", help="keep model and training there, each epoch"
    )
    made.add_argument(
        "--resume", type=old_file, metavar="FILE",
        help="go on from what --save kept, with the same other options; saved there too",
    )  # fmt: skip
    made.add_argument(
        "--plot", type=picture, metavar="FILE", default=Path(f"{name}.svg"),
        help="where the curves go: .svg, .png or .pdf",
    )  # fmt: skip
    return made


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


def old_file(text: str) -> Path:
    """The path of a file that is there."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"needs a file that is there, got {text!r}")
    return path


def picture(text: str) -> Path:
    """A path where a picture can be written."""
    if Path(text).suffix not in PICTURES:
        kinds = ", ".join(PICTURES)
        raise argparse.ArgumentTypeError(f"needs a name that ends in one of {kinds}, got {text!r}")
    return new_file(text)
