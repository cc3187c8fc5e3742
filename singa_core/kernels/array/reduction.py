"""Sums, products, extremes and running sums along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singa_core.kernels import ANY, FLOATS, Launch
from singa_core.kernels.array import array
from singa_core.spec import AnyForm, Spec

SIGNED = "b1 i8 i16 i32 i64"
UNSIGNED = "u8 u16 u32 u64"


def _accumulated(op: str, name: str) -> None:
    """`op` is the namespace's `name`, which sums float16 and bfloat16 in float32."""

    def prepare(xp: Any, ins: Sequence[AnyForm], outs: Sequence[Spec], **attrs: Any) -> Launch:
        function, dtype = getattr(xp, name), outs[0].dtype.numpy
        if dtype.itemsize == 2:
            return lambda x: function(x, dtype=xp.float32, **attrs).astype(dtype)
        return lambda x: function(x, dtype=dtype, **attrs)

    array.prepared(
        op, "F->F", "I->i64", "U->u64", strides=True, returning=True,
        F=FLOATS, I=SIGNED, U=UNSIGNED,
    )(prepare)  # fmt: skip


for _op in ("sum", "prod", "cumsum", "cumprod"):
    _accumulated(_op, _op)


@array.kernel("max", "T->T", strides=True, returning=True, T=ANY)
def max_(xp: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    return xp.max(x, axis=axis, keepdims=keepdims)


@array.kernel("min", "T->T", strides=True, returning=True, T=ANY)
def min_(xp: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    return xp.min(x, axis=axis, keepdims=keepdims)


@array.kernel("argmax", "T->i64", strides=True, returning=True, T=ANY)
def argmax(xp: Any, x: Any, *, axis: int, keepdims: bool) -> Any:
    return xp.argmax(x, axis=axis, keepdims=keepdims).astype(xp.int64)


@array.kernel("argmin", "T->i64", strides=True, returning=True, T=ANY)
def argmin(xp: Any, x: Any, *, axis: int, keepdims: bool) -> Any:
    return xp.argmin(x, axis=axis, keepdims=keepdims).astype(xp.int64)
