"""References of pooling: window by window."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, on_real
from singa_core.conformance.oracles.conv import each, pads

Ints = Sequence[int]


def axis_windows(
    n: int, k: int, s: int, pair: tuple[int, int], d: int, ceil_mode: bool
) -> list[list[int]]:
    """The places that each window on one axis sees, padding among them (below 0, or n and more)."""
    before, after = pair
    length = n + before + after - d * (k - 1) - 1
    count = -(-length // s) + 1 if ceil_mode else length // s + 1
    starts = [i * s - before for i in range(count)]
    if ceil_mode and starts[-1] >= n:
        starts.pop()
    return [[start + j * d for j in range(k)] for start in starts]


def walk(
    size: Ints,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[tuple[int, ...], Iterator[Any], list[tuple[int, int]]]:
    """Sizes of y, (index, places on each axis) of every window, and the padding."""
    rank = len(size)
    kernel, dilation = each(kernel, rank), each(dilation, rank)
    stride = kernel if stride is None else each(stride, rank)
    pairs = pads(padding, size, kernel, stride)
    parts = list(zip(size, kernel, stride, pairs, dilation, strict=True))
    axes = [axis_windows(*part, ceil_mode) for part in parts]
    out = tuple(map(len, axes))
    return out, zip(np.ndindex(*out), itertools.product(*axes), strict=True), pairs


def inside(places: Sequence[Ints], size: Ints) -> list[Any]:
    """Indices of those places that are elements of x, in all images and channels."""
    pairs = zip(places, size, strict=True)
    found = itertools.product(*([p for p in axis if 0 <= p < n] for axis, n in pairs))
    return [(..., *p) for p in found]


def max_pool(x: HostArray, **attrs: Any) -> HostArray:
    """The largest of the elements."""
    size = x.shape[2:]
    out, windows, _ = walk(size, **attrs)
    y = np.zeros((*x.shape[:2], *out))
    for index, places in windows:
        found = [x[p] for p in inside(places, size)]
        y[..., *index] = np.max(found, axis=0)
    return y


def max_pool_grad(grad: HostArray, x: HostArray, y: HostArray, **attrs: Any) -> HostArray:
    """Each grad to the first of the largest elements."""
    size = x.shape[2:]
    dx = np.zeros(x.shape)
    _, windows, _ = walk(size, **attrs)
    for index, places in windows:
        elements = inside(places, size)
        for n, c in np.ndindex(*x.shape[:2]):
            values = [x[n, c][p] for p in elements]
            dx[n, c][elements[int(np.argmax(values))]] += grad[n, c][*index]
    return dx


def divisor(
    places: Sequence[Ints], size: Ints, pairs: Sequence[tuple[int, int]], include: bool
) -> int:
    """How many elements a mean has."""
    count = 1
    for axis, n, (before, after) in zip(places, size, pairs, strict=True):
        low, high = (-before, n + after) if include else (0, n)
        count *= sum(low <= p < high for p in axis)
    return count


def avg_pool(x: HostArray, *, count_include_pad: bool = True, **attrs: Any) -> HostArray:
    """The mean of the elements."""
    size = x.shape[2:]
    out, windows, pairs = walk(size, **attrs)
    y = np.zeros((*x.shape[:2], *out))
    for index, places in windows:
        total = np.sum([x[p] for p in inside(places, size)], axis=0)
        count = divisor(places, size, pairs, count_include_pad)
        y[..., *index] = total / count
    return y


def avg_pool_grad(
    grad: HostArray, *, size: Ints, count_include_pad: bool = True, **attrs: Any
) -> HostArray:
    """Each grad in equal shares."""
    dx = np.zeros((*grad.shape[:2], *size))
    _, windows, pairs = walk(size, **attrs)
    for index, places in windows:
        share = grad[..., *index]
        for p in inside(places, size):
            dx[p] += share / divisor(places, size, pairs, count_include_pad)
    return dx


def adaptive_avg_pool(x: HostArray, *, size: int | Ints) -> HostArray:
    """Axis after axis."""
    y = x
    for axis, m in enumerate(each(size, x.ndim - 2), 2):
        n = y.shape[axis]
        bounds = [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
        parts = [y.take(range(a, b), axis).mean(axis=axis, keepdims=True) for a, b in bounds]
        y = np.concatenate(parts, axis=axis)
    return y


TABLE: dict[str, Oracle] = {
    "max_pool": on_real(max_pool),
    "max_pool_grad": on_real(max_pool_grad),
    "avg_pool": on_real(avg_pool),
    "avg_pool_grad": on_real(avg_pool_grad),
    "adaptive_avg_pool": on_real(adaptive_avg_pool),
}
