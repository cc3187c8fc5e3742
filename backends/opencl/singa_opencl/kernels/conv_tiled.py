"""Convolution and its two gradients as products in tiles, for devices with thousands of work items.

Columns of the product are places of all images (of y, or of x for the gradient of the input), and
one of its operands is gathered as it is loaded: nothing is laid out before, nothing added after.
"""

from __future__ import annotations

from functools import cache

from singa_core.kernels.c.dialect import TYPES, Call, Source
from singa_opencl.kernels import tiled
from singa_opencl.kernels.conv_geometry import Geometry

SIZES = ("batch", "groups", "channels", "h", "w", "outs", "oh", "ow", "kh", "kw", "sh", "sw")
SIZES += ("dh", "dw", "ph", "pw")

# How each of the three is a product: its sizes, and where elements are.
FORWARD = """
#define A(i, l) weight[((long)group * outs + (i)) * k + (l)]
#define B(l, j) seen(x, l, j, group, LIST)
#define STORE(i, j, v) y[(((long)((j) / (oh * ow)) * groups + group) * outs + (i)) * oh * ow \\
    + (j) % (oh * ow)] = (v) + START(i)
"""
GRAD_INPUT = """
#define A(i, l) weight[(((long)group * outs + (l) / (kh * kw)) * channels + (i)) * kh * kw \\
    + (l) % (kh * kw)]
#define B(l, j) met(grad, l, j, group, LIST)
#define STORE(i, j, v) y[(((long)((j) / (h * w)) * groups + group) * channels + (i)) * h * w \\
    + (j) % (h * w)] = (v)
"""
GRAD_WEIGHT = """
#define A(i, l) grad[(((long)((l) / (oh * ow)) * groups + group) * outs + (i)) * oh * ow \\
    + (l) % (oh * ow)]
#define B(l, j) seen(x, j, l, group, LIST)
#define STORE(i, j, v) y[((long)group * outs + (i)) * n + (j)] = (v)
"""
# What place q of y sees of term l, and which grad has seen place q of x as its term l.
ELEMENTS = """
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
def source(code: str, name: str, biased: bool) -> Source:
    """The kernel of one of the three."""
    macros = {"conv": FORWARD, "conv_grad_input": GRAD_INPUT, "conv_grad_weight": GRAD_WEIGHT}[name]
    sizes = {
        "conv": ("outs", "batch * oh * ow", "channels * kh * kw"),
        "conv_grad_input": ("channels", "batch * h * w", "outs * kh * kw"),
        "conv_grad_weight": ("outs", "channels * kh * kw", "batch * oh * ow"),
    }[name]
    before = "    const int group = GROUP_Z"
    before += "".join(f", {v} = {e}" for v, e in zip("mnk", sizes, strict=True)) + ";"
    start = f"#define START(i) {'bias[group * outs + (i)]' if biased else '0'}\n"
    body = tiled.text(
        code, a_by_rows=name != "conv_grad_input", b_by_columns=name != "conv_grad_weight",
        before=before,
    )  # fmt: skip
    operands = {"conv": ("x", "weight"), "conv_grad_input": ("grad", "weight")}
    ins = (*operands.get(name, ("x", "grad")), *(("bias",) if biased else ()))
    return Source(
        f"{name}_tiled",
        (*((each, code, "in") for each in ins), ("y", code, "out")),
        tuple((each, "int") for each in SIZES),
        body,
        (f"#define KIND {TYPES[code][0]}\n", ELEMENTS, start, macros),
        group=(tiled.GROUP,),
    )


def call(g: Geometry, name: str, *, biased: bool = False) -> Call:
    """The call of one of the three for its inputs and its output."""
    m, n = {
        "conv": (g.o, g.n * g.places),
        "conv_grad_input": (g.c, g.n * g.h * g.w),
        "conv_grad_weight": (g.o, g.terms),
    }[name]
    numbers = (
        g.n, g.groups, g.c, g.h, g.w, g.o, g.oh, g.ow, g.kh, g.kw, *g.stride, *g.dilation, *g.before
    )  # fmt: skip
    operands = (0, 1, 2, 3) if biased else (0, 1, 2)
    group = (tiled.GROUP, 1, 1)
    return Call(source(g.code, name, biased), tiled.items(m, n, g.groups), group, operands, numbers)
