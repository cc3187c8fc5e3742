"""Every scalar function over the whole range of every float dtype, eager and recorded.

The grid and the references are the kit's. Gradients are compared with PyTorch's in float64, at the
same points: kinks and ties are among them.
"""

import numpy as np
import pytest

from singa_core import ops
from singa_core.autograd import gradients
from singa_core.conformance.ranges import (
    DTYPES,
    FORMAT,
    PAIRS,
    UNARY,
    UNITS,
    WIDE,
    grid,
    largest,
    pairs_of,
    units_off,
    worst,
)
from singa_core.dtype import as_dtype
from singa_core.engine import graph
from singa_core.ops.activation import Prelu
from singa_core.ops.base import FloatUnary, Pair
from singa_core.ops.elementwise_bounds import Bound
from singa_core.ops.normalization import AlongAxis
from singa_core.ops.reduction import Reduction
from singa_core.optable import OPS
from singa_core.tensor import tensor


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
