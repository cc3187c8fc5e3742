"""Products of matrices for devices that run thousands of work items: tiles in shared memory.

A group of 16 x 16 work items makes a tile of 64 x 64 elements of y, 4 x 4 for each, from pieces of
64 x 16 and 16 x 64 that it loads together. Work items that are neighbours load neighbours where the
strides allow it, and rows of a piece are one element longer, so that no two of them meet in a bank.
Where elements come from and go to is text of the caller, so that convolutions are products too.
"""

from __future__ import annotations

from functools import cache
from string import Template

from singa_core.dtype import BY_CODE
from singa_core.kernels.c.dialect import TYPES, Call, Source, Target
from singa_opencl.kernels.product import MATRIX, STRIDES, Product
from singa_opencl.kernels.text import call, numbers, operands

SIDE, DEPTH, GROUP = 64, 16, 256

_BODY = Template("""
    SHARED $kind as[$DEPTH][$LINE], bs[$DEPTH][$LINE];
$before
    const int top = GROUP * $SIDE, left = GROUP_Y * $SIDE;
    const int tx = LID % 16, ty = LID / 16;
    $kind s[4][4];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) s[i][j] = 0;
    for (int start = 0; start < k; start += $DEPTH) {
        for (int u = 0; u < 4; u++) {
            $place_a
            as[l][i] = top + i < m && start + l < k ? A(top + i, start + l) : 0;
        }
        for (int u = 0; u < 4; u++) {
            $place_b
            bs[l][j] = left + j < n && start + l < k ? B(start + l, left + j) : 0;
        }
        BARRIER;
        for (int l = 0; l < $DEPTH; l++) {
            $kind a[4], b[4];
            for (int i = 0; i < 4; i++) a[i] = as[l][ty + 16 * i];
            for (int j = 0; j < 4; j++) b[j] = bs[l][tx + 16 * j];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) s[i][j] += a[i] * b[j];
        }
        BARRIER;
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int row = top + ty + 16 * i, column = left + tx + 16 * j;
            if (row < m && column < n) STORE(row, column, s[i][j]);
        }
""")

_MACROS = Template("""
#define A(i, l) pa[(i) * am + (l) * ak]
#define B(l, j) pb[(l) * bk + (j) * bn]
#define STORE(i, j, v) y[z * m * n + (long)(i) * n + (j)] = $bias(v)
""")
_MATRICES = Template("""
$matrix
    const GLOBAL $kind *pa = a + z0 * a0 + z1 * a1 + z2 * a2;
    const GLOBAL $kind *pb = b + z0 * b0 + z1 * b1 + z2 * b2;
""")


def fits(target: Target, code: str) -> bool:
    """True if the device has groups and shared memory of the size."""
    nbytes = 2 * DEPTH * (SIDE + 1) * BY_CODE[code].itemsize
    return target.largest_group >= GROUP and target.shared >= nbytes


def text(code: str, *, a_by_rows: bool, b_by_columns: bool, before: str = "") -> str:
    """The body of a kernel that defines A(i, l), B(l, j) and STORE(i, j, v), and m, n, k.

    Args:
        code: the dtype of all operands.
        a_by_rows: neighbours in memory are along k in a; else along m.
        b_by_columns: neighbours in memory are along n in b; else along k.
        before: statements that go first.
    """
    return _BODY.substitute(
        kind=TYPES[code][0], SIDE=SIDE, DEPTH=DEPTH, LINE=SIDE + 1, before=before,
        place_a=place("i", along_k=a_by_rows), place_b=place("j", along_k=not b_by_columns),
    )  # fmt: skip


def place(name: str, *, along_k: bool) -> str:
    """Which element of a piece a work item loads: `l` of k, and `name` of m or n."""
    if along_k:
        return f"const int l = LID % {DEPTH}, {name} = LID / {DEPTH} + u * {GROUP // DEPTH};"
    return f"const int {name} = LID % {SIDE}, l = LID / {SIDE} + u * {GROUP // SIDE};"


def items(m: int, n: int, batch: int) -> tuple[int, int, int]:
    """Work items: groups along axis 0 take rows, along axis 1 columns, along axis 2 matrices."""
    return -(-m // SIDE) * GROUP, -(-n // SIDE), batch


@cache
def source(code: str, a_by_rows: bool, b_by_columns: bool, biased: bool) -> Source:
    """The kernel for matrices with strides."""
    before = _MATRICES.substitute(matrix=MATRIX, kind=TYPES[code][0])
    return Source(
        "gemm_tiled",
        operands(code, "a b", biased=biased),
        numbers("m n k size0 size1", STRIDES),
        text(code, a_by_rows=a_by_rows, b_by_columns=b_by_columns, before=before),
        (_MACROS.substitute(bias="bias[(j)] + " if biased else ""),),
        group=(GROUP,),
    )


def product(p: Product, target: Target) -> Call | None:
    """The call for a product; None if groups are too small."""
    if not fits(target, p.code):
        return None
    m, n, _ = p.sizes
    kernel = source(p.code, abs(p.a[1]) <= abs(p.a[0]), abs(p.b[1]) <= abs(p.b[0]), p.biased)
    return call(kernel, items(m, n, p.count), p.operands, p.numbers)
