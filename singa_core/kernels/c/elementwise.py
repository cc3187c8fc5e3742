"""Scalar functions, comparison, selection, cast and fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from singa_core.dtype import BY_CODE, DType, bool_
from singa_core.kernels import ANY, FLOATS, INTS, NUMBERS
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import INT_LIMIT, TYPES, Call, Source, Target, computed
from singa_core.kernels.c.expressions import VECTORISED, cast, expression, functions
from singa_core.kernels.c.geometry import broadcast_walk, grouped
from singa_core.kernels.c.loops import Scalar, calls
from singa_core.spec import AnyForm, Spec

BITS = f"b1 {INTS}"
BY_SIZE = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
"""The type that moves an element of some size without looking into it."""


def one(op: str, ins: Sequence[DType], out: DType) -> Scalar:
    """A single op."""
    dtype = ins[-1] if ins else out
    names = tuple(f"x{i}" for i in range(len(ins)))
    text = expression(op, dtype, names, "{T}")
    vector = op in VECTORISED and {computed(d) for d in (*ins, out)} == {"float"}
    lines = (("y0", out, text),)
    codes = tuple(d.code for d in ins)
    return Scalar(op, codes, lines, (out.code,), functions(op, dtype), vector)


def _register(op: str, signature: str, types: str) -> None:
    def prepare(target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> list[Call]:
        scalar = one(op, [form.dtype for form in ins], outs[0].dtype)
        path = broadcast_walk(outs[0].shape, ins)
        return calls(target, scalar, path, range(len(ins) + 1))

    c.calls(op, signature, strides=True, in_place=True, T=types)(prepare)


for _ops, _signature, _types in (
    ("exp expm1 log log1p sqrt sin cos atan tanh floor round erf", "T->T", FLOATS),
    ("neg abs sign", "T->T", NUMBERS),
    ("bit_not", "T->T", BITS),
    ("add sub mul floor_divide remainder pow", "T,T->T", NUMBERS),
    ("div", "T,T->T", FLOATS),
    ("maximum minimum", "T,T->T", ANY),
    ("bit_and bit_or bit_xor", "T,T->T", BITS),
    ("shift_left shift_right", "T,T->T", INTS),
    ("equal less less_equal", "T,T->b1", ANY),
):
    for _op in _ops.split():
        _register(_op, _signature, _types)


def moved(dtype: DType) -> DType:
    """The type as which elements are moved."""
    return BY_CODE[BY_SIZE[dtype.itemsize]]


@c.calls("copy", "T->T", strides=True, T=ANY)
def copy(target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> list[Call]:
    return copied(target, ins, outs)


def copied(target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> list[Call]:
    """The same bits, packed."""
    bits = moved(outs[0].dtype)
    return calls(target, one("copy", [bits], bits), broadcast_walk(outs[0].shape, ins), (0, 1))


@c.calls("where", "b1,T,T->T", strides=True, in_place=True, T=ANY)
def where(target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> list[Call]:
    bits = moved(outs[0].dtype)
    scalar = one("where", [bool_, bits, bits], bits)
    return calls(target, scalar, broadcast_walk(outs[0].shape, ins), range(4))


@c.calls("cast", "S->T", strides=True, S=ANY, T=ANY)
def cast_(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, dtype: DType
) -> list[Call]:
    return cast_calls(target, ins[0], outs[0], (0, 1))


def cast_calls(
    target: Target, x: AnyForm, y: Spec, where: tuple[int, int], start: int = 0
) -> list[Call]:
    """Bring operand x to y's type, packed, from element `start` of operand y on."""
    source, dtype = x.dtype, y.dtype
    if source is dtype:
        scalar = one("copy", [moved(dtype)], moved(dtype))
    else:
        text, extra = cast(source, dtype, "x0")
        scalar = Scalar("cast", (source.code,), (("y0", dtype, text),), (dtype.code,), extra)
    return calls(target, scalar, broadcast_walk(y.shape, (x,)), where, starts=(0, start))


_FILL = """
    IDX start = GID * per, stop = min(start + per, n);
    for (IDX i = start; i < stop; i++) ST_{code}(y, i, {value});"""


def generated(
    target: Target, name: str, out: Spec, value: str, extra: tuple[str, ...] = (), given: Any = None
) -> list[Call]:
    """Elements that depend on their index `i`, or on nothing."""
    if not out.itemcount:
        return []
    code = out.dtype.code
    per = max(-(-out.itemcount // (4 * target.units)), 4096) if target.family == "cpu" else 1
    items = -(-out.itemcount // per)
    group = 1 if target.family == "cpu" else target.group
    names: tuple[tuple[str, str], ...] = (("per", "IDX"), ("n", "IDX"))
    numbers: tuple[Any, ...] = (per, out.itemcount)
    if given is not None:
        names, numbers = (*names, ("value", TYPES[code][1])), (*numbers, given)
    source = Source(
        name, (("y", code, "out"),), names, _FILL.format(code=code, value=value), extra,
        wide=out.itemcount > INT_LIMIT,
    )  # fmt: skip
    return [Call(source, (grouped(items, group),), (group,), (0,), numbers)]


@c.calls("full", "->T", T=ANY)
def full(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *,
    shape: tuple[int, ...], value: float, dtype: DType,
) -> list[Call]:  # fmt: skip
    bits = moved(dtype)
    number = np.asarray(value).astype(dtype.numpy).reshape(1).view(bits.numpy)[0]
    return generated(target, "full", outs[0].with_dtype(bits), "value", given=int(number))


@c.calls("iota", "->T", T=NUMBERS)
def iota(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, size: int, dtype: DType
) -> list[Call]:
    text, extra = cast(BY_CODE["i64"], dtype, "(long)i")
    return generated(target, "iota", outs[0], text, extra)
