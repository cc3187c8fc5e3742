"""Reading and writing at places given by an index array.

A place outside of its axis is told as a fault; nothing is read or written there. Values that are
added to one place are added in the order of the index: a work item owns a range of places and goes
through the whole index, so that no two items write to one place and no result depends on timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from singa_core.dtype import BY_CODE
from singa_core.kernels import ANY, INTS, place_rule
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import FAULT, INT_LIMIT, Call, Source, Target, computed
from singa_core.kernels.c.elementwise import cast_calls, copied, moved
from singa_core.kernels.c.expressions import wrapping
from singa_core.kernels.c.geometry import Walk, grouped, walk
from singa_core.kernels.c.loops import Scalar, calls, offsets, walk_numbers
from singa_core.kernels.c.reduction import padded_axes, whole_rows
from singa_core.spec import AnyForm, Spec

PLACES = "i32 i64"
HALVES = "f16 bf16"
WIDE = f"{INTS} f32 f64"
_FAULT = (("fault", "i64", "inout"),)


@c.calls("gather", "T,I->T", strides=True, T=ANY, I=INTS)
def gather(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, axis: int, role: str | None
) -> list[Call]:
    x, index = ins
    n, step = x.shape[axis], x.strides[axis]
    before, after = axis, len(x.shape) - axis - 1
    places = len(index.shape)
    source = (*x.strides[:axis], *(0,) * places, *x.strides[axis + 1 :])
    number = (*(0,) * before, *index.strides, *(0,) * after)
    path = walk(outs[0].shape, source, number, outs[0].strides)
    code, at = moved(x.dtype).code, index.dtype.code
    # as an unsigned number, a negative index is too large
    from_end = "if (k < 0) k += n; " if role is None and not at.startswith("u") else ""
    raw = (
        f"long k = (long)LD_{at}(a1, {{1}}); {from_end}"
        f"if ((ulong)k >= (ulong)n) FAULT_FOUND(a1[{{1}}]) "
        "else b0[{2}] = a0[{0} + (IDX)k * step];"
    )
    scalar = Scalar(
        "gather" if from_end else "look_up", (code, at), (), (code,), raw=raw, extra=_FAULT,
        numbers=(("n", "long"), ("step", "IDX"), ("site", "long")),
    )  # fmt: skip
    wide = (n - 1) * abs(step) + path.size > INT_LIMIT
    made = calls(
        target, scalar, path, (0, 1, 2, FAULT), given=(n, step), fault=place_rule("gather", n, role)
    )  # fmt: skip
    return (
        [replace(call, source=replace(call.source, wide=True)) for call in made] if wide else made
    )


def scattered(
    target: Target, op: str, forms: Sequence[AnyForm], axis: int, code: str, where: tuple[int, ...]
) -> list[Call]:
    """Write v over, or add it to, the places of y (packed): operands are (index, v, y)."""
    index, v, y = forms
    count = index.itemcount
    if not count or not v.itemcount:
        return []
    places = y.shape[axis]
    # the elements of one place: all other axes of y, walked together with those of v
    rest = [i for i in range(len(y.shape)) if i != axis]
    shape = tuple(y.shape[i] for i in rest)
    of_y = [y.strides[i] for i in rest]
    of_v = [*v.strides[:axis], *v.strides[axis + len(index.shape) :]]
    path = padded_axes(whole_rows(walk(shape, of_v, of_y)))
    inner = padded_axes(
        whole_rows(walk(index.shape, index.strides, v.strides[axis : axis + len(index.shape)]))
    )
    return [
        _write_call(
            target, op, (path, inner), (places, y.strides[axis], count), (index, v), code, where
        )
    ]


def _write_call(
    target: Target, op: str, walks: tuple[Walk, Walk], sizes: tuple[int, int, int],
    forms: tuple[AnyForm, AnyForm], code: str, where: tuple[int, ...],
) -> Call:  # fmt: skip
    path, inner = walks
    places, step, count = sizes
    elements = path.size
    if target.family == "cpu":
        work = count * elements
        items = max(min(work // 8192, 2 * target.units, places), 1)
        share, chunk, group = -(-places // items), elements, 1
    else:
        ranges = max(min(places, 4096 // max(elements, 1)), 1)
        share, chunk, group = -(-places // ranges), 1, target.group
    ranges, strips = -(-places // share), -(-elements // chunk)
    names, values = walk_numbers(path)
    more, also = walk_numbers(inner)
    renamed = [(name.replace("d", "e").replace("s", "t"), kind) for name, kind in more]
    kind = wrapping(computed(BY_CODE[code]))
    add = f"ST_{code}(y, at, ({kind})LD_{code}(y, at) + ({kind})LD_{code}(v, from));"
    body = _SCATTER.format(
        offsets=offsets(len(path.shape), 2), code=forms[0].dtype.code,
        walked=_walked(len(inner.shape)), write=add if op == "scatter_add" else "y[at] = v[from];",
    )  # fmt: skip
    given = {
        "strips": strips, "ranges": ranges, "share": share, "places": places, "chunk": chunk,
        "elements": elements, "count": count, "step": step,
    }  # fmt: skip
    operands = (
        ("index", forms[0].dtype.code, "in"),
        ("v", code, "in"),
        ("y", code, "inout"),
        *_FAULT,
    )
    source = Source(
        op, operands, (*((n, "IDX") for n in given), *names, *renamed, ("site", "long")), body,
        wide=path.wide or inner.wide or places * elements > INT_LIMIT,
    )  # fmt: skip
    items = grouped(strips * ranges, group)
    numbers_ = (*given.values(), *values, *also)
    return Call(source, (items,), (group,), (*where, FAULT), numbers_, fault=place_rule(op, places))


_SCATTER = """
    IDX g = GID;
    if (g >= strips * ranges) return;
    IDX low = (g / strips) * share, high = min(low + share, places);
    IDX begin = (g % strips) * chunk, end = min(begin + chunk, elements);
    for (IDX i = 0; i < count; i++) {{
        IDX q = i, index_at = 0, v_at = 0;
        {walked}
        long k = LD_{code}(index, index_at), found = k;
        if (k < 0) k += places;
        if (k < 0 || k >= places) {{
            if (g == 0) FAULT_FOUND(found)
            continue;
        }}
        if (k < low || k >= high) continue;
        for (IDX e = begin; e < end; e++) {{
            IDX r = e;
            {offsets}
            IDX at = at1 + (IDX)k * step, from = at0 + v_at;
            {write}
        }}
    }}"""


def _walked(axes: int) -> str:
    """From the number `q` of an index: where it lies, and where its values begin."""
    text = []
    for axis in range(axes - 2, 0, -1):
        text.append(
            f"{{ IDX w = q % e{axis}; q /= e{axis}; "
            f"index_at += w * t0_{axis}; v_at += w * t1_{axis}; }}"
        )
    text.append("index_at += q * t0_0; v_at += q * t1_0;")
    return " ".join(text)


def _writing(op: str, types: str, code: str | None) -> None:
    def prepare(
        target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, axis: int
    ) -> list[Call]:
        x, index, v = ins
        kind = moved(x.dtype).code if op == "scatter" else x.dtype.code
        first = [replace(call, operands=(0, 3)) for call in copied(target, (x,), outs)]
        return first + scattered(target, op, (index, v, outs[0]), axis, kind, (1, 2, 3))

    c.calls(op, "T,I,T->T", strides=True, T=types, I=PLACES)(prepare)


_writing("scatter", ANY, None)
_writing("scatter_add", WIDE, None)


@c.calls("scatter_add", "T,I,T->T", strides=True, T=HALVES, I=PLACES)
def scatter_add_in_float(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, axis: int
) -> tuple[list[Call], int]:
    """Added in float: the workspace holds x and v in that type."""
    x, index, v = ins
    total, given = Spec(x.shape, "float32"), Spec(v.shape, "float32")
    narrow = outs[0]
    made = [
        *cast_calls(target, x, total, (0, 4)),
        *cast_calls(target, v, given, (2, 4), start=total.itemcount),
        *[
            replace(call, starts=(0, total.itemcount, 0, 0))
            for call in scattered(
                target, "scatter_add", (index, given, total), axis, "f32", (1, 4, 4)
            )
        ],
        *cast_calls(target, total, narrow, (4, 3)),
    ]
    return made, total.nbytes + given.nbytes
