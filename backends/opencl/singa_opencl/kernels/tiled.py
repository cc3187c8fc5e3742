"""Products of matrices for devices that run thousands of work items: tiles in shared memory.

A group of 16 x 16 work items makes a tile of 64 x 64 elements of y, 4 x 4 for each, from pieces of
64 x 16 and 16 x 64 that it loads together. Work items that are neighbours load neighbours where the
strides allow it, and rows of a piece are one element longer, so that no two of them meet in a bank.
Where elements come from and go to is text of the caller, so that convolutions are products too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from singa_core.kernels.c.dialect import TYPES, Call, Source, Target

SIDE, DEPTH, GROUP = 64, 16, 256


def fits(target: Target, code: str) -> bool:
    """True if the device has groups and shared memory of the size."""
    size = 8 if code in ("f64", "i64") else 4
    return target.largest_group >= GROUP and target.shared >= 2 * DEPTH * (SIDE + 1) * size


def text(code: str, *, a_by_rows: bool, b_by_columns: bool, before: str = "") -> str:
    """The body of a kernel that defines A(i, l), B(l, j) and STORE(i, j, v), and m, n, k.

    Args:
        a_by_rows: neighbours in memory are along k in a; else along m.
        b_by_columns: neighbours in memory are along n in b; else along k.
        before: statements that go first.
    """
    kind = TYPES[code][0]
    quick_k = f"const int l = LID % {DEPTH}, i = LID / {DEPTH} + u * {GROUP // DEPTH};"
    quick_i = f"const int i = LID % {SIDE}, l = LID / {SIDE} + u * {GROUP // SIDE};"
    return f"""
    SHARED {kind} as[{DEPTH}][{SIDE + 1}], bs[{DEPTH}][{SIDE + 1}];
{before}
    const int top = GROUP * {SIDE}, left = GROUP_Y * {SIDE};
    const int tx = LID % 16, ty = LID / 16;
    {kind} s[4][4];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) s[i][j] = 0;
    for (int start = 0; start < k; start += {DEPTH}) {{
        for (int u = 0; u < 4; u++) {{
            {quick_k if a_by_rows else quick_i}
            as[l][i] = top + i < m && start + l < k ? A(top + i, start + l) : 0;
        }}
        for (int u = 0; u < 4; u++) {{
            {(quick_i if b_by_columns else quick_k).replace(" i = ", " j = ")}
            bs[l][j] = left + j < n && start + l < k ? B(start + l, left + j) : 0;
        }}
        BARRIER;
        for (int l = 0; l < {DEPTH}; l++) {{
            {kind} a[4], b[4];
            for (int i = 0; i < 4; i++) a[i] = as[l][ty + 16 * i];
            for (int j = 0; j < 4; j++) b[j] = bs[l][tx + 16 * j];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) s[i][j] += a[i] * b[j];
        }}
        BARRIER;
    }}
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {{
            const int row = top + ty + 16 * i, column = left + tx + 16 * j;
            if (row < m && column < n) STORE(row, column, s[i][j]);
        }}
"""


def items(m: int, n: int, batch: int) -> tuple[int, int, int]:
    """Work items: groups along axis 0 take rows, along axis 1 columns, along axis 2 matrices."""
    return -(-m // SIDE) * GROUP, -(-n // SIDE), batch


@cache
def source(code: str, a_by_rows: bool, b_by_columns: bool, biased: bool) -> Source:
    """The kernel for matrices with strides."""
    start = "bias[j] + " if biased else ""
    macros = f"""
#define A(i, l) pa[(i) * am + (l) * ak]
#define B(l, j) pb[(l) * bk + (j) * bn]
#define STORE(i, j, v) y[z * m * n + (long)(i) * n + (j)] = {start.replace("[j]", "[(j)]")}(v)
"""
    kind = TYPES[code][0]
    before = f"""
    const long z = GROUP_Z, z0 = z % size0, z1 = z / size0 % size1, z2 = z / size0 / size1;
    const GLOBAL {kind} *pa = a + z0 * a0 + z1 * a1 + z2 * a2;
    const GLOBAL {kind} *pb = b + z0 * b0 + z1 * b1 + z2 * b2;
"""
    body = text(code, a_by_rows=a_by_rows, b_by_columns=b_by_columns, before=before)
    ints = ("m", "n", "k", "size0", "size1")
    longs = ("am", "ak", "bk", "bn", "a0", "a1", "a2", "b0", "b1", "b2")
    bias = (("bias", code, "in"),) if biased else ()
    return Source(
        "gemm_tiled",
        (("a", code, "in"), ("b", code, "in"), *bias, ("y", code, "out")),
        (*((name, "int") for name in ints), *((name, "long") for name in longs)),
        body,
        (macros,),
        group=(GROUP,),
    )


def product(
    code: str,
    sizes: tuple[int, int, int],
    a: Sequence[int],
    b: Sequence[int],
    batch: Sequence[tuple[int, int, int]] = (),
    *,
    target: Target,
    biased: bool = False,
) -> Call | None:
    """The call for y[z] = a[z] @ b[z], as in `gemm.product`; None if groups are too small."""
    if not fits(target, code):
        return None
    m, n, k = sizes
    axes = (*batch, *((1, 0, 0),) * (3 - len(batch)))
    count = axes[0][0] * axes[1][0] * axes[2][0]
    kernel = source(code, abs(a[1]) <= abs(a[0]), abs(b[1]) <= abs(b[0]), biased)
    numbers = (m, n, k, axes[0][0], axes[1][0], *a, *b)
    numbers += tuple(axis[1] for axis in axes) + tuple(axis[2] for axis in axes)
    operands = (0, 1, 2, 3) if biased else (0, 1, 2)
    return Call(kernel, items(m, n, count), (GROUP, 1, 1), operands, numbers)
