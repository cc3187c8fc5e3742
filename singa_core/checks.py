"""Checks of plain numbers among arguments. Each gives the number back, as Python's own."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from singa_core.errors import ArgumentError


def check_integer(where: str, name: str, value: Any, least: int) -> int:
    """An integer, NumPy's too. Raises: ArgumentError for anything else, or one below `least`."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__") or value < least:
        raise ArgumentError(where, f"an integer {name} >= {least}", repr(value))
    return operator.index(value)


def check_number(
    where: str, name: str, value: Any, low: float, high: float = math.inf, *, ends: str = "[]"
) -> float:
    """A finite number in the interval that starts at `low`; a round bracket leaves its end out.

    Raises: ArgumentError for anything else.
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    above, below = ("<" if end in "()" else "<=" for end in ends)
    fits = number and math.isfinite(value) and low <= value <= high
    if not fits or (above == "<" and value == low) or (below == "<" and value == high):
        upper = f" {below} {high:g}" if high < math.inf else ""
        raise ArgumentError(where, f"a number {low:g} {above} {name}{upper}", repr(value))
    return float(value)
