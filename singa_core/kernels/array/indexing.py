"""Reading and writing at places given by an index array; sorting."""

from __future__ import annotations

from typing import Any

from singa_core.errors import OutOfRange
from singa_core.kernels import ANY, INTS, place_rule
from singa_core.kernels.array import array

PLACES = "i32 i64"
HALVES = "f16 bf16"
WIDE = f"{INTS} f32 f64"


def check_places(op: str, i: Any, n: int, role: str | None = None) -> None:
    """Raises: OutOfRange unless every index in `i` fits an axis of size `n`, or its role there."""
    bad = (i < (-n if role is None else 0)) | (i >= n)
    if bad.any():
        raise OutOfRange(*place_rule(op, n, role), int(i[bad][0]))


@array.kernel("gather", "T,I->T", strides=True, returning=True, T=ANY, I=INTS)
def gather(xp: Any, x: Any, i: Any, *, axis: int, role: str | None) -> Any:
    check_places("gather", i, x.shape[axis], role)
    return xp.take(x, i.astype(xp.int64), axis=axis)


@array.kernel("scatter_add", "T,I,T->T", strides=True, returning=True, T=WIDE, I=PLACES)
def scatter_add(xp: Any, x: Any, i: Any, v: Any, *, axis: int) -> Any:
    check_places("scatter_add", i, x.shape[axis])
    y = x.copy()
    xp.add.at(y, (slice(None),) * axis + (i,), v)
    return y


@array.kernel("scatter_add", "T,I,T->T", strides=True, returning=True, T=HALVES, I=PLACES)
def scatter_add_in_float32(xp: Any, x: Any, i: Any, v: Any, *, axis: int) -> Any:
    y = scatter_add(xp, x.astype(xp.float32), i, v.astype(xp.float32), axis=axis)
    return y.astype(x.dtype)


@array.kernel("scatter", "T,I,T->T", strides=True, returning=True, T=ANY, I=PLACES)
def scatter(xp: Any, x: Any, i: Any, v: Any, *, axis: int) -> Any:
    n, before = x.shape[axis], (slice(None),) * axis
    check_places("scatter", i, n)
    # Assigning through an index leaves open which duplicate wins: find the last one first.
    flat = i.reshape(-1) % max(n, 1)
    last = xp.full(n, -1)
    xp.maximum.at(last, flat, xp.arange(flat.size))
    written = last >= 0
    y = x.copy()
    values = v.reshape(x.shape[:axis] + (flat.size,) + x.shape[axis + 1 :])
    y[(*before, written)] = values[(*before, last[written])]
    return y


@array.kernel("sort", "T->T,i64", strides=True, returning=True, T=f"b1 {WIDE}")
def sort(xp: Any, x: Any, *, axis: int, descending: bool) -> tuple[Any, Any]:
    order = _order(xp, x, axis, descending)
    return xp.take_along_axis(x, order, axis), order


@array.kernel("sort", "T->T,i64", strides=True, returning=True, T=HALVES)
def sort_in_float32(xp: Any, x: Any, *, axis: int, descending: bool) -> tuple[Any, Any]:
    # not in T: namespaces disagree about where a bfloat16 NaN belongs
    order = _order(xp, x.astype(xp.float32), axis, descending)
    return xp.take_along_axis(x, order, axis), order


def _order(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    if not descending:
        return xp.argsort(x, axis=axis, kind="stable").astype(xp.int64)
    # reversed before and after, so that equal elements keep their order
    order = xp.argsort(xp.flip(x, axis), axis=axis, kind="stable")
    return xp.flip(x.shape[axis] - 1 - order, axis).astype(xp.int64, order="C")
