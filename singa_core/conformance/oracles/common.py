"""What the references share: floats are computed in float64, integers stay what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

HostArray = npt.NDArray[Any]
Oracle = Callable[..., Any]


def wide(x: HostArray) -> HostArray:
    """Floats of any width (bfloat16 too, which NumPy does not know) as float64."""
    return x if x.dtype.kind in "biu" else x.astype(np.float64)


def real(x: HostArray) -> HostArray:
    """Everything as float64."""
    return np.asarray(x).astype(np.float64)


def on_wide(function: Oracle) -> Oracle:
    """A function of arrays, given floats in float64."""
    return lambda *xs, **attrs: function(*map(wide, xs), **attrs)


def on_real(function: Oracle) -> Oracle:
    """A function of arrays, given everything in float64."""
    return lambda *xs, **attrs: function(*map(real, xs), **attrs)


def each(function: Callable[[float], float]) -> Oracle:
    """A function of one Python float, for every element."""

    def elementwise(x: HostArray) -> HostArray:
        values = [function(v) for v in real(x).reshape(-1).tolist()]
        return np.array(values, np.float64).reshape(np.shape(x))

    return elementwise


def axes_of(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """An axis attribute as a tuple of axes counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, Sequence) else (axis,)
    return tuple(a % ndim for a in given)
