"""Scalar functions as loops: how the elements of a walk are loaded, computed and stored.

The cpu family gets long pieces of a row for each work item, in vectors of 8 floats where that
helps; the gpu family gets an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from singa_core.dtype import DType
from singa_core.kernels.c.dialect import TYPES, WIDTH, Call, Source, Target, computed
from singa_core.kernels.c.geometry import Walk, cut, grouped, padded, rounded_axes
from singa_core.kernels.c.places import check_count
from singa_core.kernels.c.random import STRIP


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
        words: variables that are random: the k-th is a word of the draw whose state is the k-th
            extra operand, the one with the number of the element in the output.
        restrict: no output shares memory with an input that is read after it is written.
        contract: as of a Source.
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
    contract: bool = True


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


def element(scalar: Scalar, kinds: str, word: str = "") -> str:
    """Load, compute and store element i; `word` says where a random word comes from."""
    if scalar.raw:
        return scalar.raw.format(*[place(n, kind) for n, kind in enumerate(kinds)])
    text = []
    for n, code in enumerate(scalar.ins):
        text.append(f"{TYPES[code][1]} x{n} = LD_{code}(a{n}, {place(n, kinds[n])});")
    for k, name in enumerate(scalar.words):
        text.append(f"uint {name} = {word.format(k=k, at=output_index(scalar, kinds))};")
    for name, dtype, line in scalar.lines:
        kind = computed(dtype)
        text.append(f"{kind} {name} = {line.replace('{T}', kind)};")
    count = len(scalar.ins)
    for n, code in enumerate(scalar.outs):
        text.append(f"ST_{code}(b{n}, {place(count + n, kinds[count + n])}, y{n});")
    return " ".join(text)


def output_index(scalar: Scalar, kinds: str, i: str = "i") -> str:
    """The number of an element in the outputs, which are packed."""
    count = len(scalar.ins)
    return place(count, kinds[count], i)


def vector_element(scalar: Scalar, kinds: str, length: str) -> str:
    """Load, compute and store up to 8 elements from i on; `length` of them, or all for ""."""
    text = []
    for n, code in enumerate(scalar.ins):
        text.append(_vector_load(n, code, kinds[n], length))
    for k, name in enumerate(scalar.words):
        text.append(f"uint8 {name} = vload8(0, word{k} + skip + (int)(i - first));")
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


def walk_numbers(path: Walk) -> tuple[tuple[tuple[str, str], ...], tuple[int, ...]]:
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


_CPU = """
    IDX last = min((GID + 1) * per, pieces);
    for (IDX p = GID * per; p < last; p++) {{
        IDX r = p / cuts, start = (p % cuts) * chunk, stop = min(start + chunk, inner), i = start;
        {offsets}
        {loop}
    }}"""
_SCALAR_LOOP = "for (; i < {stop}; i++) {{ {element} }}"
_VECTOR_LOOP = """for (; i + 8 <= {stop}; i += 8) {{
            {whole}
        }}
        if (i < {stop}) {{
            int left = (int)({stop} - i);
            {part}
            i = {stop};
        }}"""
# random words are made before the elements that use them, from the beginning of a block on
_STRIPS = """for (IDX first = i, end; first < stop; first = end) {{
        int skip = (int)({at} & 3);
        end = min(first + {strip} - skip, stop);
        {fill}
        {loop}
        }}"""
_GPU = """
    IDX g = GID;
    if (g >= pieces) return;
    IDX r = g / inner, i = g % inner;
    {offsets}
    {element}"""
# each block of random words is made by one work item
_GPU_BLOCK = """
    IDX g = GID * 4, stop = min(g + 4, pieces);
    {held}
    for (; g < stop; g++) {{
        IDX r = g / inner, i = g % inner;
        {offsets}
        {element}
    }}"""


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

    Operands are those of the scalar: inputs, outputs, extra ones. Those of the launch are the op's
    inputs, then its outputs, then the workspace. `given` are the values of the scalar's own
    numbers; `starts` and `fault` are the Call's.

    Raises: ArgumentError unless `where` has a place for each operand.
    """
    check_count(scalar.name, operands(scalar), where)
    if not path.size:
        return []
    path = padded(path, rounded_axes(len(path.shape)))
    names, values = walk_numbers(path)
    names, values = (*names, *scalar.numbers), (*values, *given)
    sizes: tuple[int, ...]
    if target.family == "cpu":
        source = cpu_source(scalar, path, names)
        piece = cut(path.rows, path.inner, target)
        sizes = (piece.per, piece.pieces, piece.cuts, piece.chunk, path.inner)
        items, group = piece.items, 1
    else:
        body = gpu_body(scalar, path)
        extra = (("pieces", "IDX"), ("inner", "IDX"))
        source = Source(
            scalar.name, operands(scalar), (*extra, *names), body, scalar.functions,
            wide=path.wide, restrict=scalar.restrict, contract=scalar.contract,
        )  # fmt: skip
        sizes = (path.size, path.inner)
        items = path.size if not scalar.words else -(-path.size // 4)
        items, group = grouped(items, target.group), target.group
    every = (*sizes, *values)
    return [Call(source, (items,), (group,), tuple(where), every, tuple(starts), fault)]


def cpu_source(scalar: Scalar, path: Walk, names: tuple[tuple[str, str], ...]) -> Source:
    """The kernel of the cpu family."""
    body = _CPU.format(
        offsets=offsets(len(path.shape), len(path.strides)),
        loop=strips(scalar, path.kinds) if scalar.words else loop(scalar, path.kinds),
    )
    sizes = tuple((name, "IDX") for name in ("per", "pieces", "cuts", "chunk", "inner"))
    return Source(
        scalar.name, operands(scalar), (*sizes, *names), body, scalar.functions,
        wide=path.wide, restrict=scalar.restrict, contract=scalar.contract,
    )  # fmt: skip


def loop(scalar: Scalar, kinds: str, stop: str = "stop") -> str:
    """From element i on to the end."""
    if scalar.vector:
        whole, part = (vector_element(scalar, kinds, length) for length in ("", "left"))
        return _VECTOR_LOOP.format(whole=whole, part=part, stop=stop)
    text = element(scalar, kinds, "word{k}[skip + (int)(i - first)]")
    return _SCALAR_LOOP.format(element=text, stop=stop)


def strips(scalar: Scalar, kinds: str) -> str:
    """The loop in strips, for each of which random words are made."""
    at = f"({output_index(scalar, kinds, 'first')})"
    room = STRIP + WIDTH  # the last vector may look beyond
    fill = "\n        ".join(
        f"uint word{k}[{room}]; random_strip(g{k}, (ulong){at}, (int)(end - first), word{k});"
        for k in range(len(scalar.words))
    )
    return _STRIPS.format(at=at, strip=STRIP, fill=fill, loop=loop(scalar, kinds, "end"))


def gpu_body(scalar: Scalar, path: Walk) -> str:
    """An element for each work item, or four."""
    lines = offsets(len(path.shape), len(path.strides))
    if not scalar.words:
        return _GPU.format(offsets=lines, element=element(scalar, path.kinds))
    held = " ".join(
        f"ulong held{k} = ~(ulong)0; uint word{k}[4];" for k in range(len(scalar.words))
    )
    text = element(scalar, path.kinds, "random_word(g{k}, (ulong)({at}), &held{k}, word{k})")
    return _GPU_BLOCK.format(held=held, offsets=lines, element=text)
