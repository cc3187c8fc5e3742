"""Joining values and writing into a part of one: copies with strides on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from singa_core.kernels import ANY
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import Call, Target
from singa_core.kernels.c.elementwise import copied, moved, one
from singa_core.kernels.c.geometry import walk
from singa_core.kernels.c.loops import calls
from singa_core.spec import AnyForm, Shape, Spec


def placed(
    target: Target, form: AnyForm, strides: Shape, start: int, where: tuple[int, int]
) -> list[Call]:
    """Copy an operand into a region of another: its strides there, and its first element."""
    bits = moved(form.dtype)
    path = walk(form.shape, form.strides, strides)
    return calls(target, one("copy", [bits], bits), path, where, starts=(0, start))


@c.calls("concat", "T*->T", strides=True, T=ANY)
def concat(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, axis: int
) -> list[Call]:
    # one call for each input, so that their number is not limited by that of a kernel's arguments
    strides, made, start = outs[0].strides, [], 0
    for number, form in enumerate(ins):
        made += placed(target, form, strides, start, (number, len(ins)))
        start += form.shape[axis] * strides[axis]
    return made


@c.calls("set_slice", "T,T->T", strides=True, T=ANY)
def set_slice(
    target: Target,
    ins: Sequence[AnyForm],
    outs: Sequence[Spec],
    *,
    start: tuple[int, ...],
    step: tuple[int, ...],
) -> list[Call]:
    x, v = ins
    whole = [replace(call, operands=(0, 2)) for call in copied(target, (x,), outs)]
    packed = outs[0].strides
    strides = tuple(s * t for s, t in zip(packed, step, strict=True))
    first = sum(s * t for s, t in zip(packed, start, strict=True))
    return whole + placed(target, v, strides, first if v.itemcount else 0, (1, 2))
