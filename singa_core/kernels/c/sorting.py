"""Sorting lines along an axis, with the places that the elements come from."""

from __future__ import annotations

from collections.abc import Sequence

from singa_core.kernels import ANY
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import INT_LIMIT, Call, Source, Target, computed
from singa_core.kernels.c.geometry import grouped, row_items
from singa_core.kernels.c.lines import lines
from singa_core.kernels.c.loops import offsets, walk_numbers
from singa_core.spec import AnyForm, Spec

# Merges of runs that double, bottom up, so that equal elements keep their order. The places go back
# and forth between the output and the workspace, and begin where the last copy is the output.
_SORT = """
    IDX last = min((GID + 1) * per, rows);
    for (IDX row = GID * per; row < last; row++) {{
        IDX r = row;
        {offsets}
        GLOBAL long *here = places + at1, *there = spare + row * n;
        IDX here_step = sj, there_step = 1;
        if (swaps & 1) {{
            here = spare + row * n; here_step = 1; there = places + at1; there_step = sj;
        }}
        for (IDX i = 0; i < n; i++) here[i * here_step] = i;
        for (IDX run = 1; run < n; run *= 2) {{
            for (IDX low = 0; low < n; low += 2 * run) {{
                IDX middle = min(low + run, n), high = min(low + 2 * run, n);
                IDX i = low, j = middle;
                for (IDX k = low; k < high; k++) {{
                    int left = j >= high;
                    if (i < middle && j < high) {{
                        {T} a = LD_{code}(x, at0 + (IDX)here[i * here_step] * si);
                        {T} b = LD_{code}(x, at0 + (IDX)here[j * here_step] * si);
                        left = !({after});
                    }}
                    there[k * there_step] = here[(left ? i++ : j++) * here_step];
                }}
            }}
            GLOBAL long *other = here; here = there; there = other;
            IDX step = here_step; here_step = there_step; there_step = step;
        }}
        for (IDX i = 0; i < n; i++) y[at1 + i * sj] = x[at0 + (IDX)places[at1 + i * sj] * si];
    }}"""
# whether the right one, b, must come before a
_ASCENDING = ("b < a", "b < a || (a != a && b == b)")
_DESCENDING = ("b > a", "b > a || (b != b && a == a)")


@c.calls("sort", "T->T,i64", strides=True, T=ANY)
def sort(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, axis: int, descending: bool
) -> tuple[list[Call], int]:
    (x,), y = ins, outs[0]
    if not y.itemcount:
        return [], 0
    path = lines(x.shape, axis, x.strides, y.strides)
    names, values = walk_numbers(path)
    n, rows = x.shape[axis], path.size
    after = (_DESCENDING if descending else _ASCENDING)[x.dtype.is_floating]
    code = x.dtype.code
    body = _SORT.format(
        offsets=offsets(len(path.shape), 2), T=computed(x.dtype), code=code, after=after
    )
    cpu = target.family == "cpu"
    items, per = row_items(rows, n * max(n.bit_length(), 1) * 4, target) if cpu else (rows, 1)
    group = 1 if cpu else target.group
    sizes = {
        "per": per, "rows": rows, "n": n, "si": x.strides[axis], "sj": y.strides[axis],
        "swaps": (n - 1).bit_length(),
    }  # fmt: skip
    source = Source(
        "sort",
        (("x", code, "in"), ("y", code, "out"), ("places", "i64", "out"), ("spare", "i64", "out")),
        (*((size, "IDX") for size in sizes), *names), body,
        wide=path.wide or y.itemcount > INT_LIMIT,
    )  # fmt: skip
    call = Call(
        source, (grouped(items, group),), (group,), (0, 1, 2, 3), (*sizes.values(), *values)
    )
    return [call], 8 * y.itemcount
