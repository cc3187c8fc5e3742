"""Every scalar function over the whole range of every float dtype, against a wider type.

Values are compared in units of the last place. The grid has both zeros, subnormal numbers, every
power of two, numbers spread evenly in exponent and near the places where formulas change, the
largest number, infinity and NaN, each with both signs. Gradients are compared with PyTorch's in
float64, at the same points: kinks and ties are among them.
"""

import math

import numpy as np
import pytest

from singa_core import ops
from singa_core.autograd import gradients
from singa_core.dtype import as_dtype
from singa_core.engine import graph
from singa_core.ops.activation import Prelu
from singa_core.ops.base import FloatUnary, Pair
from singa_core.ops.elementwise_bounds import Bound
from singa_core.ops.normalization import AlongAxis
from singa_core.ops.reduction import Reduction
from singa_core.optable import OPS
from singa_core.tensor import tensor

WIDE = np.longdouble
DTYPES = ("float16", "bfloat16", "float32", "float64")
# digits of the significand; exponents of the smallest subnormal, the smallest normal, the largest
FORMAT = {
    "float16": (11, -24, -14, 15),
    "bfloat16": (8, -133, -126, 127),
    "float32": (24, -149, -126, 127),
    "float64": (53, -1074, -1022, 1023),
}
# Sixteen bits are computed in 32 and rounded once.
UNITS = {"float16": 0.51, "bfloat16": 0.51, "float32": 4.0, "float64": 4.0}


def sigmoid(x):
    e = np.exp(-abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


def elu(x, alpha=1):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def erfc(x):
    """In float64, which is the best that Python has."""
    return np.array([math.erfc(v) for v in x.astype(np.float64)], WIDE)


def erf(x):
    """In float64."""
    return np.array([math.erf(v) for v in x.astype(np.float64)], WIDE)


def soft_shrink(x):
    return np.where(abs(x) <= 0.5, 0, x - np.sign(x) / 2)


ALPHA, SCALE = WIDE(1.6732632423543772), WIDE(1.0507009873554805)
UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "round": np.rint,
    "ceil": np.ceil, "trunc": np.trunc, "square": np.square, "copy": np.positive,
    "exp": np.exp, "expm1": np.expm1, "exp2": np.exp2, "log": np.log, "log1p": np.log1p,
    "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": erf,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": sigmoid, "softplus": softplus,
    "log_sigmoid": lambda x: -softplus(-x), "gelu": lambda x: x / 2 * erfc(-x / np.sqrt(WIDE(2))),
    "silu": lambda x: x * sigmoid(x), "mish": lambda x: x * np.tanh(softplus(x)),
    "leaky_relu": lambda x: np.where(x > 0, x, x / 100), "elu": elu, "celu": elu,
    "selu": lambda x: SCALE * elu(x, ALPHA),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    "hard_tanh": lambda x: np.clip(x, -1, 1), "relu6": lambda x: np.clip(x, 0, 6),
    "softsign": lambda x: x / (1 + abs(x)), "tanh_shrink": lambda x: x - np.tanh(x),
    "hard_shrink": lambda x: np.where(abs(x) <= 0.5, 0, x), "soft_shrink": soft_shrink,
}  # fmt: skip
PAIRS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "maximum": np.maximum,
    "minimum": np.minimum, "at_least": np.maximum, "at_most": np.minimum, "atan2": np.arctan2,
    "hypot": np.hypot, "logaddexp": np.logaddexp,
}  # fmt: skip


# What cancels: the error is in units of this, not of the result.
CANCELS = {
    "gelu": lambda x: x / 2,
    "tanh_shrink": lambda x: x,
    "soft_shrink": lambda x: x,
    "logaddexp": lambda a, b: np.maximum(abs(a), abs(b)),
}
# exp(-x) overflows where the result is subnormal, and that becomes 0; silu and mish multiply by x
FLUSHED = {"sigmoid": lambda x: 1, "silu": np.abs, "mish": np.abs}
# a zero of either sign will do, as IEEE 754 says of maximum and minimum
ANY_ZERO = {
    "maximum", "minimum", "at_least", "at_most", "relu", "relu6", "hard_tanh", "hard_shrink",
    "soft_shrink", "log_sigmoid", "hard_swish",
}  # fmt: skip


def largest(name):
    digits, _, _, high = FORMAT[name]
    return (2.0 - 2.0 ** (1 - digits)) * 2.0**high


def grid(name):
    """Numbers of one dtype, see the module's text."""
    digits, low, _, high = FORMAT[name]
    rng = np.random.default_rng(0)
    eps = 2.0 ** (1 - digits)
    middles = (1.0, 2.0, 0.5, 3.0, 6.0, 20.0, 0.46875, 1e4, 2.0**28, math.pi / 2, math.pi)
    parts = [
        [0.0, math.inf, math.nan, largest(name), 709.5, 710.2, 745.0, 1000.0, 0.001],
        [2.0**k for k in range(low, high + 1)],
        (1 + rng.random(400)) * 2.0 ** np.linspace(low, high - 0.01, 400),
        np.linspace(0.01, 4, 300),
        np.linspace(4, 120, 200),
        [middle * (1 + k * eps) for middle in middles for k in range(-3, 4)],
    ]
    with np.errstate(all="ignore"):
        half = np.concatenate(parts)
        return np.concatenate([half, -half]).astype(as_dtype(name).numpy)


def pairs_of(name):
    """Every special value beside every other, and random ones of the grid beside each other."""
    special = [0.0, 1.0, 0.5, 2.0, 3.0, 1e-3, 7.0, 100.0, math.inf, math.nan, 1e4, largest(name)]
    special += [2.0 ** FORMAT[name][1], 2.0 ** FORMAT[name][2], 2.0 ** (1 - FORMAT[name][0])]
    special = np.array([*special, *(-v for v in special)])
    rng, x = np.random.default_rng(1), grid(name).astype(np.float64)
    a = [np.repeat(special, special.size), rng.choice(x, 2000), rng.normal(size=1000)]
    b = [np.tile(special, special.size), rng.choice(x, 2000), rng.normal(size=1000)]
    with np.errstate(all="ignore"):
        return tuple(np.concatenate(v).astype(as_dtype(name).numpy) for v in (a, b))


def units_off(op, name, got, exact, *xs):
    """How far each result is from the exact one, in units of the last place; infinite for nonsense."""
    digits, low, tiny, high = FORMAT[name]
    got = got.astype(WIDE)
    beyond = abs(exact) >= largest(name) + WIDE(2) ** (high - digits)
    exact = np.where(beyond, np.sign(exact) * WIDE(np.inf), exact)
    size = np.maximum(abs(exact), abs(CANCELS[op](*xs))) if op in CANCELS else abs(exact)
    exponent = np.floor(np.log2(np.where((size > 0) & np.isfinite(size), size, 1)))
    unit = WIDE(2) ** np.maximum(exponent - (digits - 1), low)
    off = np.where(got == exact, 0, abs(got - exact) / unit)
    off = np.where(np.isnan(got) & np.isnan(exact), 0, off)
    off = np.where(np.isnan(off), np.inf, off)
    if op in FLUSHED:
        off = np.where(abs(got - exact) <= WIDE(2) ** tiny * FLUSHED[op](*xs), 0, off)
    if op not in ANY_ZERO:
        both_zero = (got == 0) & (exact == 0)
        off = np.where(both_zero & (np.signbit(got) != np.signbit(exact)), np.inf, off)
    return off


def worst(op, name, off, allowed, got, exact, *xs):
    """A line about the worst result, or nothing if all are near enough."""
    i = int(np.argmax(off))
    if off[i] <= allowed:
        return []
    args = ", ".join(repr(float(x[i])) for x in xs)
    return [f"{op} {name}: ({args}) -> {got[i]}, not {exact[i]}: {float(off[i]):.3g} units off"]


def needs(device, name):
    if as_dtype(name) not in device.capabilities.dtypes:
        pytest.skip(f"{device.name} does not compute {name}")


@pytest.mark.parametrize("name", DTYPES)
def test_scalar_functions_are_right_everywhere(device, name):
    needs(device, name)
    complaints = []
    for table, hosts in ((UNARY, (grid(name),)), (PAIRS, pairs_of(name))):
        xs = [tensor(host, device=device) for host in hosts]
        wide = [host.astype(WIDE) for host in hosts]
        every = lambda *xs, table=table: tuple(getattr(ops, op)(*xs) for op in table)  # noqa: E731
        with np.errstate(all="ignore"):
            expected = [oracle(*wide) for oracle in table.values()]
        # recorded, a device may fuse them: the last bits may differ, but are as good
        for results in (every(*xs), graph(every)(*xs)):
            for op, exact, y in zip(table, expected, results, strict=True):
                assert y.dtype.name == name
                with np.errstate(all="ignore"):
                    off = units_off(op, name, y.numpy(), exact, *wide)
                complaints += worst(op, name, off, UNITS[name], y.numpy(), exact, *hosts)
    assert not complaints, "\n".join(complaints)


def test_no_scalar_function_is_left_out():
    elsewhere = (AlongAxis, Reduction, Prelu)
    unary = {n for n, op in OPS.items() if isinstance(op, FloatUnary)}
    unary = {n for n in unary if not isinstance(OPS[n], elsewhere)}
    assert unary <= set(UNARY)
    real = {
        n for n, op in OPS.items() if isinstance(op, Pair) and op.accepts in ("number", "float")
    }
    assert real | {
        "maximum",
        "minimum",
        *(n for n, op in OPS.items() if isinstance(op, Bound)),
    } == set(PAIRS)


@pytest.mark.parametrize(
    ("op", "x", "y"),
    [
        (ops.log2, [8.0, 0.125, 2.0**-140, 2.0**127], [3.0, -3.0, -140.0, 127.0]),
        (ops.log10, [1000.0, 1e10, 0.001, 1e-30], [3.0, 10.0, -3.0, -30.0]),
        (ops.exp2, [3.0, -3.0, 127.0], [8.0, 0.125, 2.0**127]),
        (ops.cbrt, [27.0, -1e9, 2.0**-141], [3.0, -1000.0, 2.0**-47]),
    ],
    ids=["log2", "log10", "exp2", "cbrt"],
)
def test_whole_results_are_whole(array, op, x, y):
    assert op(array(x)).tolist() == y


# -- gradients --------------------------------------------------------------------------------------

# ours by name: the peer's, where the names differ
PEERS = {
    "relu": "relu", "relu6": "relu6", "elu": "elu", "celu": "celu", "selu": "selu",
    "leaky_relu": "leaky_relu", "hard_sigmoid": "hardsigmoid", "hard_swish": "hardswish",
    "hard_tanh": "hardtanh", "hard_shrink": "hardshrink", "soft_shrink": "softshrink",
    "tanh_shrink": "tanhshrink", "softsign": "softsign", "gelu": "gelu", "silu": "silu",
    "mish": "mish", "log_sigmoid": "logsigmoid",
}  # fmt: skip
# The peer has none; or it switches to a cruder formula.
OWN = {
    "cbrt": lambda t: t / (3 * PEER.tensor(np.cbrt(t.detach().numpy()) ** 2)),
    "atan2": lambda a, b: rotation(a, b.detach()) - rotation(b, a.detach()),
    "softplus": lambda t: -PEER.nn.functional.logsigmoid(-t),
    "copy": lambda t: t.clone(),
    "at_least": lambda a, b: PEER.clamp(a, min=b),
    "at_most": lambda a, b: PEER.clamp(a, max=b),
    "hard_sigmoid": lambda t: PEER.nn.functional.hardtanh(t + 3, 0, 6) / 6,  # theirs is float32
}
SKIPPED = {"floor_divide"}  # the peer has no gradient, ours is 0


def rotation(t, other):
    """A function with the slope other / (t**2 + other**2), which the peer takes out of range."""
    length = PEER.hypot(t, other).detach()
    return t * PEER.nan_to_num(other / length / length, nan=0.0)


def peer_of(op):
    if op in OWN:
        return OWN[op]
    return getattr(PEER.nn.functional, PEERS[op]) if op in PEERS else getattr(PEER, op)


try:
    import torch as PEER
except ImportError:
    PEER = None
torch_is_here = pytest.mark.skipif(PEER is None, reason="torch is the oracle of this test")


def wrong_gradients(op, name, got, exact, value, *xs):
    """Complaints about gradients that differ by more than some units, absolute below 1."""
    digits = FORMAT[name][0]
    with np.errstate(all="ignore"):
        known = np.isfinite(exact) & np.isfinite(value.astype(np.float64))
        for x in xs:
            known &= np.isfinite(x)
        exact = np.where(abs(exact) > largest(name), np.sign(exact) * np.inf, exact)
        off = abs(got.astype(np.float64) - exact) / np.maximum(abs(exact), 1) * 2.0 ** (digits - 1)
        off = np.where((got == exact) | ~known, 0, np.where(np.isnan(off), np.inf, off))
    allowed = 2.0 if digits < 20 else 32.0
    if op == "pow":  # of b - 1, what is lost in rounding counts log(a) times
        allowed *= max(1.0, -FORMAT[name][2] / digits)
    return worst(f"gradient of {op}", name, off, allowed, got, exact, *xs)


@torch_is_here
@pytest.mark.parametrize("name", DTYPES)
def test_gradients_are_right_everywhere(device, name):
    needs(device, name)
    complaints = []
    for table, hosts in ((UNARY, (grid(name),)), (PAIRS, pairs_of(name))):
        hosts = [h[np.all([np.isfinite(h) for h in hosts], axis=0)] for h in hosts]
        normal = np.all([(h == 0) | (abs(h) >= 2.0 ** FORMAT[name][2]) for h in hosts], axis=0)
        hosts = [h[normal] for h in hosts]
        for op in sorted(set(table) - SKIPPED):
            xs = [tensor(h, device=device, requires_grad=True) for h in hosts]
            peers = [PEER.tensor(h.astype(np.float64), requires_grad=True) for h in hosts]
            y = getattr(ops, op)(*xs)
            found = gradients(y.sum(), xs)
            expected = PEER.autograd.grad(peer_of(op)(*peers).sum(), peers)
            for got, exact in zip(found, expected, strict=True):
                complaints += wrong_gradients(
                    op, name, got.numpy(), exact.numpy(), y.numpy(), *hosts
                )
    assert not complaints, "\n".join(complaints)
