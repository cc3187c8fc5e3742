"""Sums, products, extremes and running sums along axes.

A reduction keeps some axes and walks the others. Three ways, by what lies side by side in memory:

- *rows*: the axis that lies side by side is walked. In the cpu family a work item takes whole rows
  and keeps several partial results, so that additions overlap; in the gpu family a group takes a
  row, and its items meet in shared memory.
- *columns*: that axis is kept. A work item takes some columns side by side.
- either in *parts*, if there are too few rows or columns for all work items: partial results go to
  the workspace, and a second call joins them.

Sums of float16 and bfloat16 are kept in float.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from singa_core.dtype import BY_CODE, DType
from singa_core.kernels import ANY, FLOATS
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import INT_LIMIT, Call, Source, Target, computed
from singa_core.kernels.c.expressions import EXPRESSIONS, wrapping
from singa_core.kernels.c.geometry import (
    Walk,
    grouped,
    padded,
    rounded_axes,
    row_items,
    walk,
)
from singa_core.kernels.c.loops import offsets, walk_numbers
from singa_core.spec import AnyForm, Shape, Spec

SIGNED = "b1 i8 i16 i32 i64"
UNSIGNED = "u8 u16 u32 u64"
COLUMNS: Final = 32
"""Columns that a work item of the cpu family takes at once."""
LONG: Final = 16384
"""Elements of a row that are worth a part of their own."""


@dataclass(frozen=True)
class Join:
    """How two values become one.

    Args:
        op: the op's name.
        kind: C type of partial results.
        code: dtype code of partial results in the workspace.
        text: the expression, of `{a}` and `{b}`.
        start: what to begin with.
    """

    op: str
    kind: str
    code: str
    text: str
    start: str

    def of(self, a: str, b: str) -> str:
        """The expression that joins two values."""
        return self.text.format(a=a, b=b)


_CODES: Final = {
    "float": "f32", "double": "f64", "int": "i32", "uint": "u32", "long": "i64", "ulong": "u64",
}  # fmt: skip
_LEAST: Final = {
    "float": "-INFINITY", "double": "-(double)INFINITY", "int": "(-2147483647 - 1)", "uint": "0",
    "long": "(-9223372036854775807L - 1)", "ulong": "0",
}  # fmt: skip
_MOST: Final = {
    "float": "INFINITY", "double": "(double)INFINITY", "int": "2147483647", "uint": "4294967295u",
    "long": "9223372036854775807L", "ulong": "18446744073709551615UL",
}  # fmt: skip


def join(op: str, source: DType, out: DType) -> Join:
    """The way `op` joins values on the way from `source` to `out`."""
    if op in ("max", "min"):
        kind = computed(source)
        text = EXPRESSIONS["maximum" if op == "max" else "minimum"](source)
        return Join(op, kind, _CODES[kind], text, (_LEAST if op == "max" else _MOST)[kind])
    kind = wrapping(computed(out))
    sign, start = ("+", "0") if op in ("sum", "cumsum") else ("*", "1")
    return Join(op, kind, _CODES[kind], f"{{a}} {sign} {{b}}", start)


# -- text ------------------------------------------------------------------------------------------

_ROWS = """
    IDX last = min((GID + 1) * per, rows * parts);
    for (IDX p = GID * per; p < last; p++) {{
        IDX r = p / parts, part = p % parts;
        {offsets}
        IDX first = part * chunk, stop = min(first + chunk, outer);
        IDX i0 = part * step, i1 = min(i0 + step, inner);
        if (step == 0) {{ i0 = 0; i1 = inner; }} else {{ first = 0; stop = outer; }}
        {T} total = {start};
        for (IDX o = first; o < stop; o++) {{
            IDX q = o, at = at0;
            {walked}
            {loop}
        }}
        ST_{out}(y, p, total);
    }}"""
# Sums of at most 4096 elements are added up first: a long sum keeps its digits.
_SCALAR_ROW = """
            for (IDX i = i0; i < i1; ) {{
                IDX end = min(i + 4096, i1);
                {T} some = {start};
                for (; i < end; i++) some = {some};
                total = {total};
            }}"""
_VECTOR_ROW = """
            IDX i = i0;
            while (i + 32 <= i1) {{
                IDX end = min(i + 8192, i1);
                float8 v0 = (float8)({start}), v1 = v0, v2 = v0, v3 = v0;
                for (; i + 32 <= end; i += 32) {{
                    float8 x0 = VLD_f32(x, at + i), x1 = VLD_f32(x, at + i + 8);
                    float8 x2 = VLD_f32(x, at + i + 16), x3 = VLD_f32(x, at + i + 24);
                    v0 = {j0}; v1 = {j1}; v2 = {j2}; v3 = {j3};
                }}
                v0 = {v01}; v2 = {v23}; v0 = {v02};
                float4 w = {w}; float2 u = {u};
                float some = {s};
                total = {total};
            }}
            for (; i < i1; i++) {{ float some = x[at + i]; total = {total}; }}"""
_GPU_ROWS = """
    SHARED {T} part[{group}];
    IDX p = GROUP, r = p / parts;
    IDX first = (p % parts) * chunk, stop = min(first + chunk, length);
    {offsets}
    {T} total = {start};
    for (IDX e = first + LID; e < stop; e += GROUP_SIZE) {{
        IDX q = e / inner, i = e % inner, at = at0;
        {walked}
        {T} some = LD_{code}(x, at + i * si);
        total = {total};
    }}
    part[LID] = total;
    BARRIER;
    for (int far = GROUP_SIZE / 2; far > 0; far >>= 1) {{
        if (LID < far) {{ {T} total = part[LID], some = part[LID + far]; part[LID] = {total}; }}
        BARRIER;
    }}
    if (LID == 0) ST_{out}(y, p, part[0]);"""
_COLUMNS = """
    IDX last = min((GID + 1) * per, rows * strips * parts);
    for (IDX p = GID * per; p < last; p++) {{
        IDX part = p / (rows * strips), r = p % (rows * strips) / strips;
        IDX row = r, c = (p % strips) * 32;
        int width = (int)min((IDX)32, n - c);
        {offsets}
        IDX first = part * chunk, stop = min(first + chunk, outer);
        {T} sum[32];
        for (int j = 0; j < 32; j++) sum[j] = {start};
        for (IDX o = first; o < stop; ) {{
            IDX end = min(o + 1024, stop);
            {T} some[32];
            for (int j = 0; j < 32; j++) some[j] = {start};
            for (; o < end; o++) {{
                IDX q = o, at = at0 + c;
                {walked}
                if (width == 32) {{
                    for (int j = 0; j < 32; j++) some[j] = {some};
                }} else {{
                    for (int j = 0; j < width; j++) some[j] = {some};
                }}
            }}
            for (int j = 0; j < width; j++) sum[j] = {sum};
        }}
        for (int j = 0; j < width; j++) ST_{out}(y, (part * rows + row) * n + c + j, sum[j]);
    }}"""
_GPU_COLUMNS = """
    IDX p = GID;
    if (p >= parts * rows * n) return;
    IDX part = p / (rows * n), r = p % (rows * n) / n, c = p % n;
    {offsets}
    IDX first = part * chunk, stop = min(first + chunk, outer);
    {T} total = {start};
    for (IDX o = first; o < stop; o++) {{
        IDX q = o, at = at0 + c;
        {walked}
        {T} some = LD_{code}(x, at);
        total = {total};
    }}
    ST_{out}(y, p, total);"""


def walked(axes: int) -> str:
    """Add the reduced axes' strides to `at`, from the number `q` of a walked row."""
    text = []
    for axis in range(axes - 2, 0, -1):
        text.append(f"at += (q % e{axis}) * t_{axis}; q /= e{axis};")
    if axes > 1:
        text.append("at += q * t_0;")
    return " ".join(text)


def walked_numbers(path: Walk) -> tuple[list[tuple[str, str]], list[int]]:
    """Numbers of the reduced axes, as `walked` calls them."""
    names, values = [], []
    axes = len(path.shape)
    for axis in range(1, axes - 1):
        names.append((f"e{axis}", "IDX"))
        values.append(path.shape[axis])
    for axis in range(axes - 1):
        names.append((f"t_{axis}", "IDX"))
        values.append(path.strides[0][axis])
    return names, values


def whole_rows(path: Walk) -> Walk:
    """A walk whose rows are single elements: `offsets` counts all its axes then."""
    return Walk((*path.shape, 1), tuple((*s, 0) for s in path.strides))


def padded_axes(path: Walk) -> Walk:
    """The walk with as many axes as a kernel is made for."""
    return padded(path, rounded_axes(len(path.shape)))


# -- geometry --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A reduction of one operand: kept and reduced axes, and in which way they are walked."""

    kept: Walk
    reduced: Walk
    columns: bool


def planned(form: AnyForm, axes: Shape) -> Plan:
    """Kept and reduced axes of a form."""
    kept = [i for i in range(len(form.shape)) if i not in axes]

    def part(chosen: Sequence[int]) -> Walk:
        return walk(tuple(form.shape[i] for i in chosen), [form.strides[i] for i in chosen])

    one, two = part(kept), part(axes)
    side_by_side = one.strides[0][-1] == 1 and one.inner >= 8 and two.strides[0][-1] != 1
    return Plan(one, two, side_by_side and two.size > 1)


def reduction(
    target: Target, form: AnyForm, out: Spec, axes: Shape, how: Join
) -> tuple[list[Call], int]:
    """Calls for operands (x, y, workspace), and the bytes of workspace."""
    if not out.itemcount:
        return [], 0
    plan = planned(form, axes)
    parts, count = parts_of(plan, target), out.itemcount
    if parts == 1:
        return [one_pass(target, plan, (form.dtype.code, out.dtype.code), how, 1, (0, 1))], 0
    first = one_pass(target, plan, (form.dtype.code, how.code), how, parts, (0, 2))
    if plan.columns:  # parts lie one after the other
        again = Plan(walk((count,), (1,)), walk((parts,), (count,)), True)
    else:
        again = Plan(walk((count,), (parts,)), walk((parts,), (1,)), False)
    second = one_pass(target, again, (how.code, out.dtype.code), how, 1, (2, 1))
    return [first, second], parts * count * BY_CODE[how.code].itemsize


def parts_of(plan: Plan, target: Target) -> int:
    """How many parts each reduction is made in."""
    cpu, count = target.family == "cpu", plan.kept.size
    wanted = 2 * target.units if cpu else 8192
    busy = count
    if plan.columns and cpu:
        busy = -(-count // COLUMNS)
    elif not plan.columns and not cpu:
        busy = count * target.group
    steps = plan.reduced.size if plan.columns or not cpu else max(plan.reduced.rows, 1)
    if cpu and not plan.columns and steps == 1:
        steps = plan.reduced.inner
    most = plan.reduced.size * min(busy, COLUMNS) // LONG if cpu else plan.reduced.size // 256
    return max(min(wanted // busy, most, steps), 1)


def one_pass(
    target: Target, plan: Plan, codes: tuple[str, str], how: Join, parts: int,
    where: tuple[int, int],
) -> Call:  # fmt: skip
    """One call that reduces, in parts or at once."""
    code, out = codes
    columns, cpu = plan.columns, target.family == "cpu"
    # a kernel counts the kept axes but for columns side by side, and all reduced ones but for rows
    kept = padded_axes(plan.kept if columns else whole_rows(plan.kept))
    reduced = padded_axes(whole_rows(plan.reduced) if columns else plan.reduced)
    gap = reduced.strides[0][-1]
    sizes, items, group = (_column_sizes if columns else _row_sizes)(target, plan, parts)
    words = {
        "T": how.kind, "code": code, "out": out, "start": how.start, "group": target.group,
        "offsets": offsets(len(kept.shape), 1), "walked": walked(len(reduced.shape)),
        "total": how.of("total", "some"), "loop": "",
    }  # fmt: skip
    names, values = walk_numbers(kept)
    more, also = walked_numbers(reduced)
    if columns and cpu:
        words["some"] = how.of("some[j]", f"({how.kind})LD_{code}(x, at + j)")
        words["sum"] = how.of("sum[j]", "some[j]")
    elif not columns:
        sizes["si"] = gap
        words["loop"] = _loop(how, code, gap) if cpu else ""
    body = _TEXT[columns, target.family].format(**words)
    source = Source(
        f"{how.op}_{'columns' if columns else 'rows'}",
        (("x", code, "in"), ("y", out, "out")),
        (*((name, "IDX") for name in sizes), *names, *more),
        body,
        group=(target.group,) if not columns and not cpu else (),
        wide=kept.wide or reduced.wide or plan.kept.size * plan.reduced.size > INT_LIMIT,
    )
    return Call(source, (items,), (group,), where, (*sizes.values(), *values, *also))


def _row_sizes(target: Target, plan: Plan, parts: int) -> tuple[dict[str, int], int, int]:
    rows, reduced = plan.kept.size, plan.reduced
    if target.family == "gpu":
        chunk = -(-reduced.size // parts)
        sizes = {"parts": parts, "chunk": chunk, "length": reduced.size, "inner": reduced.inner}
        return sizes, rows * parts * target.group, target.group
    chunk, step = -(-reduced.rows // parts), 0
    if reduced.rows == 1 and parts > 1:
        chunk, step = 1, -(-reduced.inner // parts)
    items, per = row_items(rows * parts, max(reduced.size // parts, 1), target)
    sizes = {
        "per": per, "rows": rows, "parts": parts, "chunk": chunk, "step": step,
        "outer": reduced.rows, "inner": reduced.inner,
    }  # fmt: skip
    return sizes, items, 1


def _column_sizes(target: Target, plan: Plan, parts: int) -> tuple[dict[str, int], int, int]:
    n, rows, outer = plan.kept.inner, plan.kept.rows, plan.reduced.size
    chunk = -(-outer // parts)
    sizes = {"rows": rows, "parts": parts, "chunk": chunk, "outer": outer, "n": n}
    if target.family == "gpu":
        return sizes, grouped(parts * rows * n, target.group), target.group
    strips = -(-n // COLUMNS)
    items, per = row_items(rows * strips * parts, chunk * COLUMNS, target)
    return {"per": per, "strips": strips, **sizes}, items, 1


def _loop(how: Join, code: str, gap: int) -> str:
    """The inner loop of a row in the cpu family."""
    total = how.of("total", "some")
    if code != "f32" or gap != 1 or how.kind != "float":
        place = {1: "at + i", 0: "at"}.get(gap, "at + i * si")
        some = how.of("some", f"({how.kind})LD_{code}(x, {place})")
        return _SCALAR_ROW.format(T=how.kind, start=how.start, some=some, total=total)
    return _VECTOR_ROW.format(
        **{f"j{n}": how.of(f"v{n}", f"x{n}") for n in range(4)}, start=how.start, total=total,
        v01=how.of("v0", "v1"), v23=how.of("v2", "v3"), v02=how.of("v0", "v2"),
        w=how.of("v0.lo", "v0.hi"), u=how.of("w.lo", "w.hi"), s=how.of("u.x", "u.y"),
    )  # fmt: skip


_TEXT: Final = {
    (False, "cpu"): _ROWS, (False, "gpu"): _GPU_ROWS, (True, "cpu"): _COLUMNS,
    (True, "gpu"): _GPU_COLUMNS,
}  # fmt: skip


# -- ops -------------------------------------------------------------------------------------------


def _reduction(op: str, *signatures: str, **types: str) -> None:
    def prepare(
        target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *,
        axis: tuple[int, ...], keepdims: bool,
    ) -> tuple[list[Call], int]:  # fmt: skip
        how = join(op, ins[0].dtype, outs[0].dtype)
        return reduction(target, ins[0], outs[0], axis, how)

    c.calls(op, *signatures, strides=True, **types)(prepare)


for _op in ("sum", "prod"):
    _reduction(_op, "F->F", "I->i64", "U->u64", F=FLOATS, I=SIGNED, U=UNSIGNED)
for _op in ("max", "min"):
    _reduction(_op, "T->T", T=ANY)
