"""References of reading and writing at places, and of sorting: element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, wide

Place = tuple[int, ...]


def pairs(x: HostArray, index: HostArray, axis: int) -> Iterator[tuple[Place, Place]]:
    """(place in the gathered array, place in x), in C order of the index."""
    axis %= x.ndim
    for before in np.ndindex(*x.shape[:axis]):
        for i in np.ndindex(*index.shape):
            for after in np.ndindex(*x.shape[axis + 1 :]):
                source = int(index[i]) % x.shape[axis]
                yield (*before, *i, *after), (*before, source, *after)


def gather(x: HostArray, index: HostArray, *, axis: int = 0, role: str | None = None) -> HostArray:
    """One read for each place."""
    axis %= x.ndim
    y = np.empty(x.shape[:axis] + index.shape + x.shape[axis + 1 :], x.dtype)
    for place, source in pairs(x, index, axis):
        y[place] = x[source]
    return y


def scatter_add(x: HostArray, index: HostArray, v: HostArray, *, axis: int = 0) -> HostArray:
    """One addition for each place."""
    y, v = wide(x).copy(), wide(v)
    for place, target in pairs(x, index, axis):
        y[target] += v[place]
    return y


def scatter(x: HostArray, index: HostArray, v: HostArray, *, axis: int = 0) -> HostArray:
    """One write for each place; the last wins."""
    y = x.copy()
    for place, target in pairs(x, index, axis):
        y[target] = v[place]
    return y


def sort(x: HostArray, *, axis: int = -1, descending: bool = False) -> tuple[HostArray, HostArray]:
    """Python's stable sort of (value, place); NaN is the largest."""
    moved = np.moveaxis(wide(x), axis, -1)
    y, order = np.empty_like(moved), np.empty(moved.shape, np.int64)
    for place in np.ndindex(*moved.shape[:-1]):
        row = moved[place].tolist()
        places = sorted(range(len(row)), key=lambda i: _key(row[i]), reverse=descending)  # noqa: B023
        order[place] = places
        y[place] = [row[i] for i in places]
    return np.moveaxis(y, -1, axis), np.moveaxis(order, -1, axis)


def _key(value: float) -> tuple[bool, float]:
    nan = isinstance(value, float) and math.isnan(value)
    return nan, 0.0 if nan else value


def put(x: HostArray, index: HostArray, v: HostArray) -> HostArray:
    """One write for each place of the flat array."""
    y = x.copy().reshape(-1)
    for place, value in zip(index.flat, v.flat, strict=True):
        y[place] = value
    return y.reshape(x.shape)


def masked_fill(x: HostArray, mask: HostArray, v: HostArray) -> Any:
    """NumPy's masked assignment."""
    y = x.copy()
    mask, v = np.broadcast_to(mask, x.shape), np.broadcast_to(v, x.shape)
    y[mask] = v[mask]
    return y


TABLE: dict[str, Oracle] = {
    "gather": gather, "scatter_add": scatter_add, "scatter": scatter, "sort": sort, "put": put,
    "masked_fill": masked_fill,
}  # fmt: skip
