"""Checks of plain values among arguments. Each gives the value back, as Python's own.

What counts as what, everywhere: an integer is Python's, NumPy's, or whatever `operator.index` takes
(0-d integer arrays, integer tensors of one element); a number is an integer or a float, NumPy's
too; True and False are no numbers, and nothing else is True or False.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

import numpy as np

from singa_core.errors import ArgumentError, ShapeError


def as_integer(value: Any) -> int | None:
    """The integer that a value is, or None."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError):  # a tensor of several elements raises a ValueError
        return None


def as_number(value: Any) -> int | float | None:
    """The number that a value is, or None; an integer stays one."""
    if type(value) is float:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, float | np.floating):
        return float(value)
    return as_integer(value) if isinstance(value, int | np.integer) else None


def as_integers(value: Any) -> tuple[int, ...] | None:
    """The integers in a value, in its order, or None."""
    if type(value) is tuple and all(type(item) is int for item in value):
        return value
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping | Set):
        return None
    try:
        found = [as_integer(item) for item in value]
    except (TypeError, ValueError):  # an array without axes, a tensor
        return None
    return None if None in found else tuple(found)  # type: ignore[arg-type]  # just checked


def check_integer(where: str, name: str, value: Any, least: int | None = None) -> int:
    """An integer. Raises: ArgumentError for anything else, or one below `least`."""
    number = as_integer(value)
    if number is None or (least is not None and number < least):
        range_ = "" if least is None else f" >= {least}"
        raise ArgumentError(where, f"an integer {name}{range_}", repr(value))
    return number


def check_integers(where: str, name: str, value: Any) -> tuple[int, ...]:
    """Integers. Raises: ShapeError for anything else."""
    found = as_integers(value)
    if found is None:
        raise ShapeError(where, f"integers as {name}", repr(value))
    return found


def check_seed(where: str, value: Any) -> int:
    """What starts a stream of random numbers. Raises: ArgumentError unless 0 <= seed < 2**64."""
    number = as_integer(value)
    if number is None or not 0 <= number < 2**64:
        raise ArgumentError(where, "an integer 0 <= seed < 2**64", repr(value))
    return number


def check_number(
    where: str,
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    ends: str = "[]",
) -> float:
    """A finite number in the interval that starts at `low`; a round bracket leaves its end out.

    Raises: ArgumentError for anything else.
    """
    number = as_number(value)
    if number is not None and abs(number) < 2**1024 and math.isfinite(number):
        higher = low < number if ends[0] == "(" else low <= number
        lower = number < high if ends[1] == ")" else number <= high
        if higher and lower:
            return float(number)
    above, below = ("<" if end in "()" else "<=" for end in ends)
    first = f"{low:g} {above} " if low > -math.inf else "-inf < "
    last = f" {below} {high:g}" if high < math.inf else " < inf"
    raise ArgumentError(where, f"a number {first}{name}{last}", repr(value))


def check_scalar(where: str, name: str, value: Any) -> bool | int | float:
    """A number, or True or False, whatever it is; also of a 0-d array or tensor.

    Raises: ArgumentError for anything else.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # NumPy's, or a tensor
        value = value.item()
    if not isinstance(value, bool | int | float):
        raise ArgumentError(where, f"a number as {name}", repr(value))
    return value


def check_flag(where: str, name: str, value: Any) -> bool:
    """True or False. Raises: ArgumentError for what Python would only take for one of them."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(where, f"{name} True or False", repr(value))
    return bool(value)


def check_path(where: str, value: Any) -> str:
    """The name of a file, as text. Raises: ArgumentError for what is none."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ArgumentError(where, "the path of a file", repr(value))
    return os.fsdecode(value)


def check_choice(where: str, name: str, value: Any, choices: Collection[Any]) -> Any:
    """One of some values. Raises: ArgumentError for another."""
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return value
    raise ArgumentError(where, f"{name} among {', '.join(map(str, choices))}", repr(value))
