"""Softmax along an axis; batch normalisation and layer normalisation, with their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from singa_core.kernels import FLOATS
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import INT_LIMIT, Call, Source, Target, computed
from singa_core.kernels.c.geometry import grouped
from singa_core.kernels.c.rows import Rows, Text
from singa_core.spec import AnyForm, Spec

WIDE = "f32 f64"
COLUMNS = 16  # that a work item of the cpu family adds up at once
Made = list[Call] | tuple[list[Call], int] | None


def along(x: AnyForm, axis: int) -> Rows:
    """Rows of packed elements along an axis."""
    inner = math.prod(x.shape[axis + 1 :])
    return Rows(x.itemcount // x.shape[axis], x.shape[axis], inner=inner, gap=inner)


def operands(code: str, ins: str, outs: str) -> list[tuple[str, str, str]]:
    """Operands of one dtype, named by letters or words."""
    named = [(name, code, "in") for name in ins.split()]
    return named + [(name, code, "out") for name in outs.split()]


@c.calls("softmax", "T->T", in_place=True, T=FLOATS)
def softmax(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, axis: int
) -> list[Call]:
    if not outs[0].itemcount:
        return []
    code, kind = outs[0].dtype.code, computed(outs[0].dtype)
    made = Text(target, along(ins[0], axis), kind)
    made.total("top", f"LD_{code}(x, AT)", largest=True)
    less = f"LD_{code}(x, AT) - top"
    if outs[0].dtype.bits < 32:  # an exponential stored in 16 bits would be rounded twice
        made.total("sum", less, exp=True)
        made.each(less, f"ST_{code}(y, AT, w / sum);", exp=True)
    else:
        made.total("sum", less, exp=True, then=f"ST_{code}(y, AT, w);")
        made.each(f"LD_{code}(y, AT)", f"ST_{code}(y, AT, w / sum);")
    return [made.call("softmax", operands(code, "x", "y"), (0, 1))]


@c.calls("log_softmax", "T->T", in_place=True, T=FLOATS)
def log_softmax(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, axis: int
) -> list[Call]:
    if not outs[0].itemcount:
        return []
    code, kind = outs[0].dtype.code, computed(outs[0].dtype)
    made = Text(target, along(ins[0], axis), kind)
    log_of_shares(made, code)
    return [made.call("log_softmax", operands(code, "x", "y"), (0, 1))]


def log_of_shares(made: Text, code: str) -> None:
    """y = log softmax(x)."""
    made.total("top", f"LD_{code}(x, AT)", largest=True)
    made.total("sum", f"LD_{code}(x, AT) - top", exp=True)
    made.say("sum = log(sum);")
    made.each(f"LD_{code}(x, AT) - top - sum", f"ST_{code}(y, AT, w);")


# -- over a batch ----------------------------------------------------------------------------------


def channels(x: AnyForm) -> Rows:
    """The elements of each channel of a packed x (n, c, *size)."""
    n, c, *size = x.shape
    step = math.prod(size)
    return Rows(c, step, segments=n, far=c * step)


@c.calls("batch_norm", "T,T,T->T,T,T", T=WIDE)
def batch_norm(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, eps: float
) -> list[Call] | None:
    if not ins[0].itemcount:
        return None
    code, kind = outs[0].dtype.code, computed(outs[0].dtype)
    made = Text(target, channels(ins[0]), kind)
    made.total("middle", "x[AT]")
    made.say("middle /= n * segments;")
    made.total("square", "(x[AT] - middle) * (x[AT] - middle)")
    made.say(f"square /= n * segments; const {kind} slope = weight[r] / sqrt(square + eps);")
    made.say(f"const {kind} more = bias[r];")
    made.each("x[AT]", "y[AT] = (w - middle) * slope + more;")
    made.once("mean[r] = middle; variance[r] = square;")
    names = operands(code, "x weight bias", "y mean variance")
    return [made.call("batch_norm", names, range(6), [("eps", kind, eps)])]


@c.calls("batch_norm_grad", "T,T,T,T,T->T,T,T", T=WIDE)
def batch_norm_grad(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, eps: float
) -> list[Call] | None:
    if not ins[0].itemcount:
        return None
    code, kind = outs[0].dtype.code, computed(outs[0].dtype)
    made = Text(target, channels(ins[0]), kind)
    made.say(f"const {kind} middle = mean[r], scale = 1 / sqrt(variance[r] + eps);")
    made.total("sum", "grad[AT]")
    made.total("turn", "grad[AT] * (x[AT] - middle)")
    made.say(f"turn *= scale; const {kind} slope = weight[r] * scale;")
    made.say(f"const {kind} share = slope / (n * segments);")
    made.each("grad[AT] * slope - share * (sum + (x[AT] - middle) * scale * turn)", "dx[AT] = w;")
    made.once("dweight[r] = turn; dbias[r] = sum;")
    names = operands(code, "grad x weight mean variance", "dx dweight dbias")
    return [made.call("batch_norm_grad", names, range(8), [("eps", kind, eps)])]


# -- of each sample --------------------------------------------------------------------------------


def samples(x: AnyForm, weight: AnyForm) -> Rows:
    """Rows of as many elements as weight has."""
    return Rows(x.itemcount // weight.itemcount, weight.itemcount)


def moments(made: Text) -> None:
    """The mean of a row, and scale = 1 / sqrt(variance + eps)."""
    made.total("mean", "x[AT]")
    made.say("mean /= n;")
    made.total("scale", "(x[AT] - mean) * (x[AT] - mean)")
    made.say("scale = 1 / sqrt(scale / n + eps);")


@c.calls("layer_norm", "T,T,T->T", T=WIDE)
def layer_norm(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, eps: float
) -> list[Call] | None:
    if not ins[0].itemcount:
        return None
    code, kind = outs[0].dtype.code, computed(outs[0].dtype)
    made = Text(target, samples(ins[0], ins[1]), kind)
    moments(made)
    made.each("(x[AT] - mean) * scale", "y[AT] = w * weight[e] + bias[e];")
    names = operands(code, "x weight bias", "y")
    return [made.call("layer_norm", names, range(4), [("eps", kind, eps)])]


@c.calls("layer_norm_grad", "T,T,T->T,T,T", T=WIDE)
def layer_norm_grad(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, eps: float
) -> Made:
    """dx row by row, leaving the moments in the workspace; then sums over rows, by columns."""
    if not ins[0].itemcount:
        return None
    code, kind = outs[0].dtype.code, computed(outs[0].dtype)
    g = samples(ins[0], ins[2])
    made = Text(target, g, kind)
    moments(made)
    made.total("middle", "grad[AT] * weight[e]")
    made.total("slope", "grad[AT] * weight[e] * (x[AT] - mean) * scale")
    made.say("middle /= n; slope /= n;")
    made.each(
        "(x[AT] - mean) * scale",
        "dx[AT] = (grad[AT] * weight[e] - middle - w * slope) * scale;",
    )
    made.once("moments[2 * r] = mean; moments[2 * r + 1] = scale;")
    names = operands(code, "grad x weight", "dx moments")
    first = made.call("layer_norm_grad", names, (0, 1, 2, 3, 6), [("eps", kind, eps)])
    return [first, sums_over_rows(target, g, code, kind)], 2 * g.rows * outs[0].dtype.itemsize


_SUMS = """
    const IDX c = GID * {columns}, width = min((IDX){columns}, n - c);
    if (c >= n) return;
    {T} dw[{columns}], db[{columns}];
    for (int j = 0; j < {columns}; j++) dw[j] = db[j] = 0;
    for (IDX r = 0; r < rows; r++) {{
        const {T} mean = moments[2 * r], scale = moments[2 * r + 1];
        const IDX at = r * n + c;
        if (width == {columns})
            for (int j = 0; j < {columns}; j++) {{
                const {T} g = grad[at + j];
                dw[j] += g * (x[at + j] - mean) * scale; db[j] += g;
            }}
        else
            for (int j = 0; j < width; j++) {{
                const {T} g = grad[at + j];
                dw[j] += g * (x[at + j] - mean) * scale; db[j] += g;
            }}
    }}
    for (int j = 0; j < width; j++) {{ dweight[c + j] = dw[j]; dbias[c + j] = db[j]; }}"""


def sums_over_rows(target: Target, g: Rows, code: str, kind: str) -> Call:
    """The gradients of weight and bias."""
    columns = COLUMNS if target.family == "cpu" else 1
    source = Source(
        "layer_norm_sums",
        (*operands(code, "grad x moments", "dweight dbias"),),
        (("rows", "IDX"), ("n", "IDX")),
        _SUMS.format(T=kind, columns=columns),
        wide=g.rows * g.n > INT_LIMIT,
    )
    group = 1 if target.family == "cpu" else target.group
    items = grouped(-(-g.n // columns), group)
    return Call(source, (items,), (group,), (0, 1, 6, 4, 5), (g.rows, g.n))
