"""Joining values and writing into a part of one."""

from __future__ import annotations

from typing import Any

from singa_core.kernels import ANY
from singa_core.kernels.array import array


@array.kernel("concat", "T*->T", strides=True, returning=True, T=ANY)
def concat(xp: Any, *xs: Any, axis: int) -> Any:
    return xp.concatenate(xs, axis=axis)


@array.kernel("set_slice", "T,T->T", strides=True, returning=True, T=ANY)
def set_slice(xp: Any, x: Any, v: Any, *, start: tuple[int, ...], step: tuple[int, ...]) -> Any:
    y = x.copy()
    y[region(start, step, v.shape)] = v
    return y


def region(
    start: tuple[int, ...], step: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[slice, ...]:
    """The slices that begin at `start`, walk by `step` and cover `shape`."""
    stops = (s + t * n for s, t, n in zip(start, step, shape, strict=True))
    # A walk down to 0 stops at -1, which a slice would take for the last element.
    return tuple(
        slice(s, None if stop < 0 else stop, t)
        for s, stop, t in zip(start, stops, step, strict=True)
    )
