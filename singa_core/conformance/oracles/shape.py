"""References of the views, of joining and of writing into a part."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle

Ints = Sequence[int]


def reshape(x: HostArray, *, shape: Ints) -> HostArray:
    """C order."""
    return np.array(list(x.flat), x.dtype).reshape(shape)


def permute_dims(x: HostArray, *, axes: Ints) -> HostArray:
    """Element by element."""
    axes = [a % x.ndim for a in axes]
    y = np.empty([x.shape[a] for a in axes], x.dtype)
    for place in np.ndindex(*y.shape):
        source = [0] * x.ndim
        for a, i in zip(axes, place, strict=True):
            source[a] = i
        y[place] = x[tuple(source)]
    return y


def places(start: Ints, size: Ints, step: Ints | None) -> list[tuple[int, ...]]:
    """The places of a region in C order."""
    steps = (1,) * len(start) if step is None else step
    walks = [[s + i * t for i in range(n)] for s, n, t in zip(start, size, steps, strict=True)]
    return list(itertools.product(*walks))


def slice_(x: HostArray, *, start: Ints, size: Ints, step: Ints | None = None) -> HostArray:
    """Element by element."""
    return np.array([x[p] for p in places(start, size, step)], x.dtype).reshape(size)


def set_slice(x: HostArray, v: HostArray, *, start: Ints, step: Ints | None = None) -> HostArray:
    """Element by element."""
    y = x.copy()
    for place, value in zip(places(start, v.shape, step), v.flat, strict=True):
        y[place] = value
    return y


def broadcast_to(x: HostArray, *, shape: Ints) -> HostArray:
    """Element by element."""
    y = np.empty(shape, x.dtype)
    for place in np.ndindex(*y.shape):
        own = place[len(place) - x.ndim :]
        y[place] = x[tuple(0 if n == 1 else i for i, n in zip(own, x.shape, strict=True))]
    return y


def windows(
    x: HostArray, *, axes: Ints, size: Ints, step: Ints | None = None, dilation: Ints | None = None
) -> HostArray:
    """Element by element: where the window stands, plus where in the window."""
    ones = (1,) * len(axes)
    parts = list(zip([a % x.ndim for a in axes], size, step or ones, dilation or ones, strict=True))
    shape = list(x.shape)
    for a, k, s, d in parts:
        shape[a] = max((x.shape[a] - d * (k - 1) - 1) // s + 1, 0)
    y = np.empty([*shape, *size], x.dtype)
    for place in np.ndindex(*y.shape):
        source = list(place[: x.ndim])
        for (a, _, s, d), j in zip(parts, place[x.ndim :], strict=True):
            source[a] = source[a] * s + j * d
        y[place] = x[tuple(source)]
    return y


def detach(x: HostArray) -> HostArray:
    """The same."""
    return x.copy()


def concat(*xs: HostArray, axis: int = 0) -> HostArray:
    """Written part by part into a new array."""
    axis %= xs[0].ndim
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    y = np.empty(shape, xs[0].dtype)
    start = 0
    for x in xs:
        y[(slice(None),) * axis + (slice(start, start + x.shape[axis]),)] = x
        start += x.shape[axis]
    return y


TABLE: dict[str, Oracle] = {
    "reshape": reshape, "permute_dims": permute_dims, "slice": slice_, "set_slice": set_slice,
    "broadcast_to": broadcast_to, "windows": windows, "detach": detach, "concat": concat,
}  # fmt: skip
