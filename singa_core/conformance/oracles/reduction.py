"""References of the reductions, element by element where NumPy would be the kernel itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, axes_of, real, wide

Axis = int | Sequence[int] | None


def over(function: Callable[[list[Any]], Any], widen: Callable[[HostArray], HostArray]) -> Oracle:
    """`function` of the list of elements that each place of the result brings together."""

    def reduce(x: HostArray, *, axis: Axis = None, keepdims: bool = False, **more: Any) -> Any:
        x, axes = widen(x), axes_of(axis, x.ndim)
        kept = [i for i in range(x.ndim) if i not in axes]
        shape = [x.shape[i] for i in kept]
        moved = np.transpose(x, [*kept, *sorted(axes)])
        moved = moved.reshape(math.prod(shape), -1 if x.size else 0)
        values = [function(row.tolist(), **more) for row in moved]
        y = np.array(values, None if values else np.float64)
        if keepdims:
            shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
        return y.reshape(shape)

    return reduce


def var(values: list[float], correction: float = 0.0) -> float:
    """Variance, from exact sums."""
    n = len(values)
    if n <= correction:
        return math.nan
    middle = math.fsum(values) / n
    return math.fsum((v - middle) ** 2 for v in values) / (n - correction)


def std(values: list[float], correction: float = 0.0) -> float:
    """Root of the variance."""
    return math.sqrt(var(values, correction))


def mean(values: list[float]) -> float:
    """Mean, from an exact sum."""
    return math.fsum(values) / len(values) if values else math.nan


def logsumexp(values: list[float]) -> float:
    """The definition, from the largest element up."""
    top = max(values, default=-math.inf)
    if not math.isfinite(top):
        return top
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


def total(values: list[Any]) -> Any:
    """Exact sum."""
    return math.fsum(values) if any(isinstance(v, float) for v in values) else sum(values)


def argmax(x: HostArray, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The first largest."""
    return np.argmax(wide(x), axis=axis, keepdims=keepdims)


def argmin(x: HostArray, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The first smallest."""
    return np.argmin(wide(x), axis=axis, keepdims=keepdims)


def running(step: Callable[[Any, Any], Any]) -> Oracle:
    """`step` along an axis, in Python."""

    def run(x: HostArray, *, axis: int) -> HostArray:
        moved = np.moveaxis(wide(x), axis, -1)
        rows = moved.reshape(-1, moved.shape[-1]) if moved.size else moved
        values = [list(itertools.accumulate(row.tolist(), step)) for row in rows]
        y = np.array(values).reshape(moved.shape)
        return np.moveaxis(y, -1, axis)

    return run


TABLE: dict[str, Oracle] = {
    "sum": over(total, wide),
    "prod": over(math.prod, wide),
    "max": over(max, wide),
    "min": over(min, wide),
    "mean": over(mean, real),
    "var": over(var, real),
    "std": over(std, real),
    "norm": over(lambda values: math.hypot(*values), real),
    "logsumexp": over(logsumexp, real),
    "any": over(lambda values: any(v != 0 for v in values), wide),
    "all": over(lambda values: all(v != 0 for v in values), wide),
    "count_nonzero": over(lambda values: sum(v != 0 for v in values), wide),
    "argmax": argmax,
    "argmin": argmin,
    "cumsum": running(lambda a, b: a + b),
    "cumprod": running(lambda a, b: a * b),
}
