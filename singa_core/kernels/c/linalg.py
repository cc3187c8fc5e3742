"""Matrix products: simple ones, for every type and layout. Backends have faster ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from singa_core.dtype import DType
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import INT_LIMIT, Call, Source, Target, computed
from singa_core.kernels.c.expressions import wrapping
from singa_core.kernels.c.geometry import (
    Walk,
    grouped,
    leading,
    padded,
    rounded_axes,
    row_items,
    walk,
)
from singa_core.kernels.c.loops import offsets
from singa_core.spec import AnyForm, Shape, Spec, contiguous_strides

COLUMNS: Final = 16
"""Columns whose sums a work item of the cpu family keeps at once."""
TILE: Final = 16
"""Rows and columns of a work group's tile in the gpu family."""

_CPU = """
    IDX last = min((GID + 1) * per, rows);
    for (IDX row = GID * per; row < last; row++) {{
        IDX r = row / m, i = row % m;
        {offsets}
        for (IDX j = 0; j < n; j += 16) {{
            int width = (int)min((IDX)16, n - j);
            {T} sum[16];
            for (int q = 0; q < 16; q++) sum[q] = 0;
            for (IDX p = 0; p < k; p++) {{
                {T} left = LD_{code}(a, at0 + i * am + p * ak);
                IDX at = at1 + p * bk + j * bn;
                if (width == 16)
                    for (int q = 0; q < 16; q++) sum[q] += left * LD_{code}(b, at + q * bn);
                else
                    for (int q = 0; q < width; q++) sum[q] += left * LD_{code}(b, at + q * bn);
            }}
            for (int q = 0; q < width; q++) ST_{code}(y, row * n + j + q, sum[q]);
        }}
    }}"""
_GPU = """
    SHARED {T} left[16][17];
    SHARED {T} right[16][17];
    IDX r = GID_Z;
    IDX i = GID_Y, j = GID;
    int x = LID, u = LID_Y;
    {offsets}
    {T} sum = 0;
    for (IDX p = 0; p < k; p += 16) {{
        left[u][x] = (i < m && p + x < k) ? LD_{code}(a, at0 + i * am + (p + x) * ak) : 0;
        right[u][x] = (j < n && p + u < k) ? LD_{code}(b, at1 + (p + u) * bk + j * bn) : 0;
        BARRIER;
        for (int q = 0; q < 16; q++) sum += left[u][q] * right[q][x];
        BARRIER;
    }}
    if (i < m && j < n) ST_{code}(y, (GID_Z * m + i) * n + j, sum);"""


def batches(a: AnyForm, b: AnyForm, shape: Shape) -> Walk:
    """The axes in front of the matrices, with the strides of a, b and y."""
    path = walk(shape, leading(a, shape), leading(b, shape), contiguous_strides(shape))
    # `offsets` counts rows, and its inner axis is not among them
    return Walk((*path.shape, 1), tuple((*s, 0) for s in path.strides))


@c.calls("matmul", "T,T->T", strides=True, T="i32 i64 f16 bf16 f32 f64")
def matmul(target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> list[Call]:
    a, b = ins
    *front, m, n = outs[0].shape
    k = a.shape[-1]
    if not outs[0].itemcount:
        return []
    path = batches(a, b, tuple(front))
    path = padded(path, rounded_axes(len(path.shape)))
    names = [("m", "IDX"), ("n", "IDX"), ("k", "IDX")]
    names += [(name, "IDX") for name in ("am", "ak", "bk", "bn")]
    values = [m, n, k, *a.strides[-2:], *b.strides[-2:]]
    for axis in range(1, len(path.shape) - 1):
        names.append((f"d{axis}", "IDX"))
        values.append(path.shape[axis])
    for operand in (0, 1):
        for axis in range(len(path.shape) - 1):
            names.append((f"s{operand}_{axis}", "IDX"))
            values.append(path.strides[operand][axis])
    wide = path.wide or max(outs[0].itemcount, a.itemcount, b.itemcount) > INT_LIMIT
    by_rows = target.family == "cpu" or target.largest_group < TILE * TILE
    source = _source(outs[0].dtype, names, len(path.shape), by_rows=by_rows, wide=wide)
    if by_rows:
        rows = path.size * m
        items, per = row_items(rows, max(n * k // 4, 1), target)
        return [Call(source, (items,), (1,), (0, 1, 2), (per, rows, *values))]
    size = (grouped(n, TILE), grouped(m, TILE), path.size)
    return [Call(source, size, (TILE, TILE, 1), (0, 1, 2), tuple(values))]


def _source(
    dtype: DType, names: list[tuple[str, str]], axes: int, *, by_rows: bool, wide: bool
) -> Source:
    body = (_CPU if by_rows else _GPU).format(
        T=wrapping(computed(dtype)), code=dtype.code, offsets=offsets(axes, 2)
    )
    first = (("per", "IDX"), ("rows", "IDX")) if by_rows else ()
    operands = tuple(
        (name, dtype.code, kind) for name, kind in zip("aby", ("in", "in", "out"), strict=True)
    )
    group = () if by_rows else (TILE, TILE)
    return Source("matmul", operands, (*first, *names), body, group=group, wide=wide)
