"""Running the shared `array` kernels on NumPy, in tests: inputs, layouts and comparisons.

`run` computes every result again from inputs that are strided, reversed and in Fortran order; it
must be a new array of the right type, and the inputs must stay what they were.
"""

import math

import numpy as np
import pytest

from singa_core import dtype as types
from singa_core.conformance import edges
from singa_core.conformance import exact as oracle
from singa_core.conformance.edges import equal as equal
from singa_core.conformance.edges import identical as identical
from singa_core.conformance.edges import make as make
from singa_core.conformance.edges import numbers as numbers
from singa_core.dtype import BY_CODE
from singa_core.kernels.array import array as table
from singa_core.spec import Spec, make_form

FUNCTIONS = ("exp", "expm1", "log", "log1p", "sin", "cos", "atan", "tanh", "erf")
# Ops whose last digits may depend on the layout, and by how many eps: another loop, another order.
LAYOUT = dict.fromkeys((*FUNCTIONS, "pow"), 2) | dict.fromkeys(
    ("sum", "prod", "cumsum", "cumprod", "matmul"), 8
)


def kernels(*ops, kinds=("bool", "int", "uint", "float")):
    """The kernels of some ops whose first input is of one of these kinds: one test each."""
    found = [k for k in table if k.op in ops and (not ins(k) or ins(k)[0].kind in kinds)]
    marks = [pytest.param(k, id=f"{k.op} {k.signature}") for k in found]
    return pytest.mark.parametrize("kernel", marks)


def find(op, signature):
    return next(k for k in table if (k.op, k.signature) == (op, signature))


def ins(kernel):
    left = kernel.signature.partition("->")[0]
    return [BY_CODE[code.rstrip("*")] for code in left.split(",") if code]


def outs(kernel):
    return [BY_CODE[code] for code in kernel.signature.partition("->")[2].split(",")]


# -- running --------------------------------------------------------------------------------------


def run(kernel, *xs, **attrs):
    before = [x.tobytes() for x in xs]
    results = launch(kernel, xs, attrs)
    assert [x.tobytes() for x in xs] == before
    for y, dtype in zip(results, outs(kernel), strict=True):
        assert y.dtype == dtype.numpy
        assert not any(np.shares_memory(y, x) for x in xs)
    for arrange in (strided, reversed_twice, fortran) if kernel.strides else ():
        others = launch(kernel, [arrange(x) for x in xs], attrs)
        for y, other, dtype in zip(results, others, outs(kernel), strict=True):
            eps = oracle.unit(1.0, dtype) * LAYOUT.get(kernel.op, 0) if dtype.is_floating else 0
            assert y.shape == other.shape
            np.testing.assert_allclose(wide(other), wide(y), rtol=eps, atol=eps)
    return results if len(results) > 1 else results[0]


def launch(kernel, xs, attrs):
    forms = [
        make_form(Spec(x.shape, x.dtype), tuple(s // x.itemsize for s in x.strides)) for x in xs
    ]
    specs = [Spec((), dtype) for dtype in outs(kernel)]
    with np.errstate(all="ignore"):  # as a device does around launches
        made = kernel.prepare(np, forms, specs, **attrs)(*xs)
    return [np.asarray(y) for y in (made if isinstance(made, tuple) else (made,))]


def strided(x):
    spread = np.zeros((*x.shape, 2), x.dtype)
    spread[..., 0] = x
    return spread[..., 0]


def reversed_twice(x):
    flip = (..., *(slice(None, None, -1),) * x.ndim)  # with ... so that 0-d stays an array
    return x[flip].copy()[flip]


def fortran(x):
    return x.copy(order="F")


# -- numbers --------------------------------------------------------------------------------------


def wide(x):
    """Floats as float64, which holds all of them: NumPy's assertions misjudge bfloat16's NaN."""
    return x.astype(np.float64) if types.as_dtype(x.dtype).is_floating else x


samples = edges.edges


def mixed(dtype, shape, seed=0):
    """Ordinary random numbers, for sums."""
    rng = np.random.default_rng(seed)
    if dtype.is_floating:
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(0, 2 if dtype.kind == "bool" else 100, shape).astype(dtype.numpy)


def lines(x, axes):
    """For each place along the other axes, the numbers along `axes`."""
    rest = [n for n in range(x.ndim) if n not in axes]
    count = math.prod(x.shape[n] for n in axes)
    return [numbers(row) for row in x.transpose(*rest, *axes).reshape(-1, count)]


# -- comparing ------------------------------------------------------------------------------------


def expect(kernel, got, expected, test, *inputs):
    """Fail with the first inputs whose result does not pass the test."""
    wrong = [row for row in zip(*inputs, got, expected, strict=True) if not test(*row[-2:])]
    assert not wrong, f"{kernel.op} {kernel.signature}: (*inputs, got, expected) {wrong[:5]}"


def close(dtype):
    """A test for at most a few units in the last place between a result and the exact value."""
    return edges.close("", dtype)


def rounding(exact, terms, dtype):
    """What a sum may be off: a few eps of its terms (for the halves float32's, and 1/2 ulp)."""
    size = float(sum(map(abs, terms)) + abs(exact))
    if dtype.bits == 16:
        return 0.51 * oracle.unit(float(exact), dtype) + 4 * size * oracle.unit(1.0, types.float32)
    return 4 * size * oracle.unit(1.0, dtype)
