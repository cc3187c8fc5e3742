"""Along whole lines: where the largest element is, and running sums and products."""

from __future__ import annotations

from collections.abc import Sequence

from singa_core.kernels import ANY, FLOATS
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import INT_LIMIT, Call, Source, Target, computed
from singa_core.kernels.c.geometry import Walk, grouped, row_items, walk
from singa_core.kernels.c.loops import offsets, walk_numbers
from singa_core.kernels.c.reduction import SIGNED, UNSIGNED, join, padded_axes, whole_rows
from singa_core.spec import AnyForm, Shape, Spec

_ARG = """
    IDX last = min((GID + 1) * per, rows);
    for (IDX row = GID * per; row < last; row++) {{
        IDX r = row;
        {offsets}
        {T} best = LD_{code}(x, at0);
        IDX place = 0;
        for (IDX i = 1; i < n; i++) {{
            {T} v = LD_{code}(x, at0 + i * si);
            if (v {sign} best{nan}) {{ best = v; place = i; }}
        }}
        y[row] = place;
    }}"""
_RUNNING = """
    IDX last = min((GID + 1) * per, rows);
    for (IDX row = GID * per; row < last; row++) {{
        IDX r = row;
        {offsets}
        {T} total = {start};
        for (IDX i = 0; i < n; i++) {{
            total = {total};
            ST_{out}(y, at1 + i * sj, total);
        }}
    }}"""


def lines(shape: Shape, axis: int, *strides: Shape) -> Walk:
    """A walk over the lines along an axis: over all other axes."""
    others = [i for i in range(len(shape)) if i != axis]
    return padded_axes(
        whole_rows(
            walk(tuple(shape[i] for i in others), *[[s[i] for i in others] for s in strides])
        )
    )


def _line_call(
    target: Target, name: str, text: str, path: Walk, operands: tuple[tuple[str, str, str], ...],
    sizes: dict[str, int],
) -> Call:  # fmt: skip
    """One call in which a work item takes some lines, one after the other."""
    names, values = walk_numbers(path)
    cost = sizes["n"] if target.family == "cpu" else 8192
    items, per = row_items(path.size, cost, target) if target.family == "cpu" else (path.size, 1)
    group = 1 if target.family == "cpu" else target.group
    sizes = {"per": per, "rows": path.size, **sizes}
    every = (*((size, "IDX") for size in sizes), *names)
    source = Source(
        name, operands, every, text, wide=path.wide or path.size * sizes["n"] > INT_LIMIT
    )
    where = tuple(range(len(operands)))
    return Call(source, (grouped(items, group),), (group,), where, (*sizes.values(), *values))


def _arg(op: str, sign: str) -> None:
    def prepare(
        target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, axis: int, keepdims: bool
    ) -> list[Call]:
        (x,) = ins
        if not outs[0].itemcount:
            return []
        path = lines(x.shape, axis, x.strides)
        nan = " || (v != v && best == best)" if x.dtype.is_floating else ""
        body = _ARG.format(
            offsets=offsets(len(path.shape), 1), T=computed(x.dtype), code=x.dtype.code, sign=sign,
            nan=nan,
        )  # fmt: skip
        operands = (("x", x.dtype.code, "in"), ("y", "i64", "out"))
        sizes = {"n": x.shape[axis], "si": x.strides[axis]}
        return [_line_call(target, op, body, path, operands, sizes)]

    c.calls(op, "T->i64", strides=True, T=ANY)(prepare)


_arg("argmax", ">")
_arg("argmin", "<")


def _running(op: str) -> None:
    def prepare(
        target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, axis: int
    ) -> list[Call]:
        (x,), (y,) = ins, outs
        if not y.itemcount:
            return []
        how = join(op, x.dtype, y.dtype)
        path = lines(x.shape, axis, x.strides, y.strides)
        body = _RUNNING.format(
            offsets=offsets(len(path.shape), 2), T=how.kind, start=how.start, out=y.dtype.code,
            total=how.of("total", f"({how.kind})LD_{x.dtype.code}(x, at0 + i * si)"),
        )  # fmt: skip
        operands = (("x", x.dtype.code, "in"), ("y", y.dtype.code, "out"))
        sizes = {"n": x.shape[axis], "si": x.strides[axis], "sj": y.strides[axis]}
        return [_line_call(target, op, body, path, operands, sizes)]

    c.calls(
        op, "F->F", "I->i64", "U->u64", strides=True, F=FLOATS, I=SIGNED, U=UNSIGNED
    )(prepare)  # fmt: skip


_running("cumsum")
_running("cumprod")
