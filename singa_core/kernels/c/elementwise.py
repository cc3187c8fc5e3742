"""Scalar functions, comparison, selection, cast and fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from singa_core.dtype import BY_CODE, DType, bool_
from singa_core.kernels import ANY, FLOATS, INTS, NUMBERS
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import INT_LIMIT, TYPES, WIDTH, Call, Source, Target, computed
from singa_core.kernels.c.expressions import VECTORISED, cast, expression, functions
from singa_core.kernels.c.geometry import (
    Walk,
    broadcast_walk,
    cut,
    grouped,
    padded,
    rounded_axes,
)
from singa_core.spec import AnyForm, Spec

BITS = f"b1 {INTS}"
BY_SIZE = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
"""The type that moves an element of some size without looking into it."""


@dataclass(frozen=True)
class Scalar:
    """What is computed for each element: inputs x0, x1, ... to outputs.

    Args:
        name: for errors.
        ins: dtype code of each input.
        lines: (variable, dtype, expression with `{T}` for the type); outputs are y0, y1, ...
        outs: dtype code of each output.
        functions: texts that the expressions call.
        vector: the expressions gain from vectors, and allow them. In a vector, true is -1.
        raw: statements for element i instead of `lines`, with `{0}`, `{1}`, ... for the index of
            the element in each operand.
        extra: more operands, and more numbers, that `raw` uses by name.
        words: variables that are random: element i of the k-th is word i of the draw whose state is
            the k-th extra operand.
        restrict: no output shares memory with an input that is read after it is written.
    """

    name: str
    ins: tuple[str, ...]
    lines: tuple[tuple[str, DType, str], ...]
    outs: tuple[str, ...]
    functions: tuple[str, ...] = ()
    vector: bool = False
    raw: str = ""
    extra: tuple[tuple[str, str, str], ...] = ()
    numbers: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()
    restrict: bool = True


def one(op: str, ins: Sequence[DType], out: DType) -> Scalar:
    """A single op."""
    dtype = ins[-1] if ins else out
    names = tuple(f"x{i}" for i in range(len(ins)))
    text = expression(op, dtype, names, "{T}")
    vector = op in VECTORISED and {computed(d) for d in (*ins, out)} == {"float"}
    lines = (("y0", out, text),)
    codes = tuple(d.code for d in ins)
    return Scalar(op, codes, lines, (out.code,), functions(op, dtype), vector)


# -- printing --------------------------------------------------------------------------------------


def operands(scalar: Scalar) -> tuple[tuple[str, str, str], ...]:
    """Buffers: a0, a1, ... and b0, b1, ..."""
    ins = [(f"a{i}", code, "in") for i, code in enumerate(scalar.ins)]
    outs = [(f"b{i}", code, "out") for i, code in enumerate(scalar.outs)]
    return (*ins, *outs, *scalar.extra)


def place(number: int, kind: str, i: str = "i") -> str:
    """The index of element i of the inner loop in operand `number`."""
    if kind == "s":
        return f"at{number}"
    return f"at{number} + {i}" if kind == "c" else f"at{number} + ({i}) * s{number}"


def element(scalar: Scalar, kinds: str) -> str:
    """Load, compute and store element i."""
    if scalar.raw:
        return scalar.raw.format(*[place(n, kind) for n, kind in enumerate(kinds)])
    text = []
    for n, code in enumerate(scalar.ins):
        text.append(f"{TYPES[code][1]} x{n} = LD_{code}(a{n}, {place(n, kinds[n])});")
    for k, name in enumerate(scalar.words):
        text.append(f"uint {name} = {word(scalar, kinds, k)};")
    for name, dtype, line in scalar.lines:
        kind = computed(dtype)
        text.append(f"{kind} {name} = {line.replace('{T}', kind)};")
    count = len(scalar.ins)
    for n, code in enumerate(scalar.outs):
        text.append(f"ST_{code}(b{n}, {place(count + n, kinds[count + n])}, y{n});")
    return " ".join(text)


def word(scalar: Scalar, kinds: str, k: int, i: str = "i") -> str:
    """Element i of the k-th draw: its number is where it lies in an output, which is packed."""
    count = len(scalar.ins)
    at = place(count, kinds[count], i)
    return f"random_word({scalar.extra[k][0]}, (ulong)({at}), &held{k}, word{k})"


def held(scalar: Scalar) -> str:
    """Variables for the last block of each draw; neighbours find their words in it."""
    return "".join(
        f"\n    ulong held{k} = ~(ulong)0; uint word{k}[4];" for k in range(len(scalar.words))
    )


def vector_element(scalar: Scalar, kinds: str, length: str) -> str:
    """Load, compute and store up to 8 elements from i on; `length` of them, or all for ""."""
    text = []
    for n, code in enumerate(scalar.ins):
        text.append(_vector_load(n, code, kinds[n], length))
    for k, name in enumerate(scalar.words):
        loop = f"for (int j = 0; j < {WIDTH}; j++) {name}_[j] = {word(scalar, kinds, k, 'i + j')};"
        text.append(f"uint {name}_[{WIDTH}]; {loop} uint{WIDTH} {name} = vload8(0, {name}_);")
    for name, dtype, line in scalar.lines:
        kind = f"{computed(dtype)}{WIDTH}"
        text.append(f"{kind} {name} = {line.replace('{T}', kind)};")
    count = len(scalar.ins)
    for n, code in enumerate(scalar.outs):
        text.append(_vector_store(n, count + n, code, kinds[count + n], length))
    return "\n            ".join(text)


def _vector_load(n: int, code: str, kind: str, length: str) -> str:
    number = TYPES[code][1]
    if kind == "s":
        sign = "-" if code == "b1" else ""
        return f"{number}8 x{n} = FILL_{number}({sign}LD_{code}(a{n}, at{n}));"
    if kind == "c" and code == "f32" and not length:
        return f"{number}8 x{n} = VLD_{code}(a{n}, at{n} + i);"
    last = f"min(j, {length} - 1)" if length else "j"
    sign = "-" if code == "b1" else ""
    load = f"{sign}LD_{code}(a{n}, {place(n, kind, f'i + {last}')})"
    loop = f"for (int j = 0; j < {WIDTH}; j++) v{n}[j] = {load};"
    return f"{number} v{n}[{WIDTH}]; {loop} {number}8 x{n} = vload8(0, v{n});"


def _vector_store(n: int, operand: int, code: str, kind: str, length: str) -> str:
    if kind == "c" and code == "f32" and not length:
        return f"VST_{code}(b{n}, at{operand} + i, y{n});"
    number = TYPES[code][1]
    sign = "-" if code == "b1" else ""
    store = f"ST_{code}(b{n}, {place(operand, kind, 'i + j')}, {sign}w{n}[j]);"
    loop = f"for (int j = 0; j < {length or WIDTH}; j++) {store}"
    return f"{number} w{n}[{WIDTH}]; vstore8(y{n}, 0, w{n}); {loop}"


def offsets(axes: int, count: int) -> str:
    """The index at which each operand's row begins, from the number of the row in `r`."""
    text = ["IDX " + ", ".join(f"at{k} = 0" for k in range(count)) + ";"]
    for axis in range(axes - 2, 0, -1):
        steps = " ".join(f"at{k} += q * s{k}_{axis};" for k in range(count))
        text.append(f"{{ IDX q = r % d{axis}; r /= d{axis}; {steps} }}")
    if axes > 1:
        text.append(" ".join(f"at{k} += r * s{k}_0;" for k in range(count)))
    return "\n        ".join(text)


def numbers(path: Walk) -> tuple[tuple[tuple[str, str], ...], tuple[int, ...]]:
    """Names and values of what `offsets` and `place` use."""
    names, values = [], []
    axes = len(path.shape)
    for axis in range(1, axes - 1):
        names.append((f"d{axis}", "IDX"))
        values.append(path.shape[axis])
    for k, strides in enumerate(path.strides):
        for axis in range(axes - 1):
            names.append((f"s{k}_{axis}", "IDX"))
            values.append(strides[axis])
        if path.kinds[k] == "g":
            names.append((f"s{k}", "IDX"))
            values.append(strides[-1])
    return tuple(names), tuple(values)


_CPU = """{held}
    IDX last = min((GID + 1) * per, pieces);
    for (IDX p = GID * per; p < last; p++) {{
        IDX r = p / cuts, start = (p % cuts) * chunk, stop = min(start + chunk, inner), i = start;
        {offsets}
        {loop}
    }}"""
_SCALAR_LOOP = "for (; i < stop; i++) {{ {element} }}"
_VECTOR_LOOP = """for (; i + 8 <= stop; i += 8) {{
            {whole}
        }}
        if (i < stop) {{
            int left = (int)(stop - i);
            {part}
        }}"""
_GPU = """{held}
    IDX g = GID;
    if (g >= pieces) return;
    IDX r = g / inner, i = g % inner;
    {offsets}
    {element}"""


def calls(
    target: Target,
    scalar: Scalar,
    path: Walk,
    where: Sequence[int],
    *,
    given: Sequence[int] = (),
    starts: Sequence[int] = (),
    fault: tuple[str, str] | None = None,
) -> list[Call]:
    """A scalar function over a walk; `where` places the operands among those of the launch.

    `given` are the values of the scalar's own numbers; `starts` and `fault` are the Call's.
    """
    if not path.size:
        return []
    path = padded(path, rounded_axes(len(path.shape)))
    axes, count = len(path.shape), len(path.strides)
    names, values = numbers(path)
    names, values = (*names, *scalar.numbers), (*values, *given)
    sizes: tuple[int, ...]
    if target.family == "cpu":
        source = cpu_source(scalar, path, names)
        piece = cut(path.rows, path.inner, target)
        sizes = (piece.per, piece.pieces, piece.cuts, piece.chunk, path.inner)
        items, group = piece.items, 1
    else:
        body = _GPU.format(
            held=held(scalar),
            offsets=offsets(axes, count),
            element=element(scalar, path.kinds),
        )
        extra = (("pieces", "IDX"), ("inner", "IDX"))
        source = Source(
            scalar.name, operands(scalar), (*extra, *names), body, scalar.functions,
            wide=path.wide, restrict=scalar.restrict,
        )  # fmt: skip
        sizes = (path.size, path.inner)
        items, group = grouped(path.size, target.group), target.group
    every = (*sizes, *values)
    return [Call(source, (items,), (group,), tuple(where), every, tuple(starts), fault)]


def cpu_source(scalar: Scalar, path: Walk, names: tuple[tuple[str, str], ...]) -> Source:
    """The kernel of the cpu family."""
    kinds = path.kinds
    if scalar.vector:
        whole, part = (vector_element(scalar, kinds, length) for length in ("", "left"))
        loop = _VECTOR_LOOP.format(whole=whole, part=part)
    else:
        loop = _SCALAR_LOOP.format(element=element(scalar, kinds))
    lines = offsets(len(path.shape), len(path.strides))
    body = _CPU.format(held=held(scalar), offsets=lines, loop=loop)
    sizes = tuple((name, "IDX") for name in ("per", "pieces", "cuts", "chunk", "inner"))
    return Source(
        scalar.name, operands(scalar), (*sizes, *names), body, scalar.functions,
        wide=path.wide, restrict=scalar.restrict,
    )  # fmt: skip


# -- ops -------------------------------------------------------------------------------------------


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
