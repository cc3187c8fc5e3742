"""Convolution and its two gradients as products in tiles, for devices with thousands of work items.

Columns of the product are places of all images (of y, or of x for the gradient of the input), and
one of its operands is gathered as it is loaded: nothing is laid out before, nothing added after.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from singa_core.kernels.c.dialect import TYPES, Call, Source
from singa_opencl.kernels import tiled
from singa_opencl.kernels.conv_geometry import SIZES, Geometry
from singa_opencl.kernels.text import call, numbers, operands


@dataclass(frozen=True)
class Form:
    """How one of the three is a product.

    Args:
        ins: names of the first two operands.
        m, n, k: its sizes in C.
        macros: where its elements are.
        a_by_rows, b_by_columns: how neighbours lie, as in `tiled.text`.
    """

    ins: str
    m: str
    n: str
    k: str
    macros: str
    a_by_rows: bool = True
    b_by_columns: bool = True


_FORWARD = """
#define A(i, l) weight[((long)group * outs + (i)) * k + (l)]
#define B(l, j) seen(x, l, j, group, LIST)
#define STORE(i, j, v) y[(((long)((j) / (oh * ow)) * groups + group) * outs + (i)) * oh * ow \\
    + (j) % (oh * ow)] = (v) + START(i)
"""
_GRAD_INPUT = """
#define A(i, l) weight[(((long)group * outs + (l) / (kh * kw)) * channels + (i)) * kh * kw \\
    + (l) % (kh * kw)]
#define B(l, j) met(grad, l, j, group, LIST)
#define STORE(i, j, v) y[(((long)((j) / (h * w)) * groups + group) * channels + (i)) * h * w \\
    + (j) % (h * w)] = (v)
"""
_GRAD_WEIGHT = """
#define A(i, l) grad[(((long)((l) / (oh * ow)) * groups + group) * outs + (i)) * oh * ow \\
    + (l) % (oh * ow)]
#define B(l, j) seen(x, j, l, group, LIST)
#define STORE(i, j, v) y[((long)group * outs + (i)) * n + (j)] = (v)
"""

FORMS = {
    "conv": Form(
        "x weight", m="outs", n="batch * oh * ow", k="channels * kh * kw", macros=_FORWARD
    ),
    "conv_grad_input": Form(
        "grad weight", m="channels", n="batch * h * w", k="outs * kh * kw", macros=_GRAD_INPUT,
        a_by_rows=False,
    ),
    "conv_grad_weight": Form(
        "x grad", m="outs", n="channels * kh * kw", k="batch * oh * ow", macros=_GRAD_WEIGHT,
        b_by_columns=False,
    ),
}  # fmt: skip

# What place q of y sees of term l, and which grad has seen place q of x as its term l.
_ELEMENTS = """
#define GIVEN int groups, int channels, int h, int w, int outs, int oh, int ow, int kh, int kw, \\
    int sh, int sw, int dh, int dw, int ph, int pw
#define LIST groups, channels, h, w, outs, oh, ow, kh, kw, sh, sw, dh, dw, ph, pw
FUNCTION KIND seen(const GLOBAL KIND *x, int l, int q, int group, GIVEN)
{
    const int n = q / (oh * ow), t = q / ow % oh, u = q % ow;
    const int c = l / (kh * kw), r = l / kw % kh, s = l % kw;
    const int i = t * sh - ph + r * dh, j = u * sw - pw + s * dw;
    if (i < 0 || i >= h || j < 0 || j >= w) return 0;
    return x[((((long)n * groups + group) * channels + c) * h + i) * w + j];
}
FUNCTION KIND met(const GLOBAL KIND *grad, int l, int q, int group, GIVEN)
{
    const int n = q / (h * w), i = q / w % h, j = q % w;
    const int o = l / (kh * kw), r = l / kw % kh, s = l % kw;
    const int t = i + ph - r * dh, u = j + pw - s * dw;
    if (t < 0 || u < 0 || t % sh || u % sw || t / sh >= oh || u / sw >= ow) return 0;
    return grad[((((long)n * groups + group) * outs + o) * oh + t / sh) * ow + u / sw];
}
"""


@cache
def source(code: str, op: str, biased: bool) -> Source:
    """The kernel of one of the three."""
    form = FORMS[op]
    start = "bias[group * outs + (i)]" if biased else "0"
    body = tiled.text(
        code, a_by_rows=form.a_by_rows, b_by_columns=form.b_by_columns,
        before=f"    const int group = GROUP_Z, m = {form.m}, n = {form.n}, k = {form.k};",
    )  # fmt: skip
    kind, first = f"#define KIND {TYPES[code][0]}\n", f"#define START(i) {start}\n"
    return Source(
        f"{op}_tiled",
        operands(code, form.ins, biased=biased),
        numbers(SIZES),
        body,
        (kind, _ELEMENTS, first, form.macros),
        group=(tiled.GROUP,),
    )


def product(g: Geometry, op: str, *, biased: bool = False) -> Call:
    """The call of one of the three for its inputs and its output."""
    m, n = {
        "conv": (g.o, g.n * g.places),
        "conv_grad_input": (g.c, g.n * g.h * g.w),
        "conv_grad_weight": (g.o, g.terms),
    }[op]
    used = (0, 1, 2, 3) if biased else (0, 1, 2)
    return call(source(g.code, op, biased), tiled.items(m, n, g.groups), used, g.numbers)
