"""Every native kernel gives the bits of the shared one, for every dtype and layout it accepts."""

import math
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from singa_core.dtype import ALL, BY_CODE
from singa_core.errors import OutOfRange
from singa_core.kernels.array import array as shared
from singa_core.spec import Spec, make_form
from singa_cpu_numpy.device import open_device
from singa_cpu_numpy.kernels import numpy as native

DEVICE = open_device(0)
BY_NUMPY = {d.numpy: d for d in ALL}
ODD = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.25, 1e-8, 1e4, math.inf, -math.inf, math.nan)
# How many eps native and shared may differ by. NumPy has a vectorised and a scalar loop for these
# functions, and the strides of the output decide which one runs; a sum depends on its order.
LOOSE = {
    "exp": 1, "expm1": 1, "log1p": 1, "log": 1, "sin": 1, "cos": 1, "atan": 1, "tanh": 1, "pow": 1,
    "sigmoid": 2, "softmax": 4, "log_softmax": 4, "erf": 1, "sum": 4, "prod": 4, "matmul": 40,
}  # fmt: skip


def values(code, shape, seed=0):
    """Ordinary values, and the ends and the odd ones of the type."""
    dtype, rng = BY_CODE[code], np.random.default_rng(seed)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(dtype.numpy)
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        x = np.asarray(rng.integers(max(info.min, -9), 10, shape)).astype(dtype.numpy)
        odd = np.array([info.min, info.max, 0, 1], dtype.numpy)
    else:
        x = np.asarray(rng.standard_normal(shape) * 3).astype(dtype.numpy)
        odd = np.array(ODD).astype(dtype.numpy)
    flat = x.reshape(-1)
    flat[: odd.size] = rng.permutation(odd)[: flat.size]
    return x


def layouts(code, seed=0):
    """The same kind of values, laid out in the ways that strides allow."""
    yield values(code, (9, 7), seed)
    yield values(code, (7, 9), seed).T
    yield values(code, (9, 7), seed)[::-1, ::-1]
    yield values(code, (9, 14), seed)[:, ::2]
    yield np.broadcast_to(values(code, (1, 7), seed), (9, 7))
    yield values(code, (96, 64), seed)
    yield values(code, (0, 7), seed)
    yield values(code, (), seed)


# -- cases: op -> (inputs, attributes) ----------------------------------------------------------


def one(code):
    for x in layouts(code):
        yield (x,), {}


def two(code, other):
    for a, b in zip(layouts(code), layouts(other, 1), strict=True):
        yield (a, b), {}
        yield (a, a), {}
        yield (a, values(other, (), 1)), {}
    yield (values(code, (4, 1)), values(other, (3,))), {}


def selections(_, code, __):
    for a, b in zip(layouts(code), layouts(code, 1), strict=True):
        yield (values("b1", a.shape), a, b), {}
        yield (values("b1", ()), a, b), {}
    yield (values("b1", (96, 1)), values(code, (96, 64)), values(code, (64,), 1)), {}


def sums(code, empty=((), (0,), (1,), (0, 1))):
    for x in layouts(code):
        some = empty if x.size == 0 else ((), (0,), (1,), (0, 1))
        for axis in some if x.ndim else ((),):
            for keepdims in (False, True):
                yield (x,), {"axis": axis, "keepdims": keepdims}


def extremes(code):
    return sums(code, empty=((1,),))


def scans(code):
    for x in layouts(code):
        for axis in range(x.ndim):
            yield (x,), {"axis": axis}


def places_of_extremes(code):
    for (x,), attrs in scans(code):
        if x.shape[attrs["axis"]]:
            yield (x,), {**attrs, "keepdims": False}
            yield (x,), {**attrs, "keepdims": True}


def products(code, _):
    def v(*shape):
        if BY_CODE[code].is_integer:
            return values(code, shape)
        return np.random.default_rng(1).standard_normal(shape).astype(BY_CODE[code].numpy)

    yield (v(4, 5), v(5, 3)), {}
    yield (v(5, 4).T, v(3, 5).T), {}
    yield (v(4, 5)[::-1], v(5, 6)[:, ::2]), {}
    yield (np.broadcast_to(v(1, 5), (4, 5)), v(5, 3)), {}
    yield (v(2, 4, 5), v(5, 3)), {}
    yield (v(2, 4, 5), v(3, 5).T), {}
    yield (v(4, 2, 5).transpose(1, 0, 2), v(5, 3)), {}
    yield (v(2, 1, 4, 5), v(3, 5, 2)), {}
    yield (v(4, 5), v(3, 5, 2)), {}
    for a, b in (
        ((4, 0), (0, 3)),
        ((0, 5), (5, 3)),
        ((4, 5), (5, 0)),
        ((2, 0, 5), (5, 0)),
        ((2, 3, 0), (0, 2)),
    ):
        yield (v(*a), v(*b)), {}


def joins(code):
    a, b = values(code, (3, 4)), values(code, (4, 2)).T
    yield (a, b, a[:0]), {"axis": 0}
    yield (a, values(code, (3, 5))), {"axis": 1}
    yield (a,), {"axis": 0}


def insertions(code, _):
    x, whole = values(code, (5, 6)), values(code, (6, 5), 1)
    yield (x, values(code, (2, 3), 1)), {"start": (1, 5), "step": (2, -2)}
    yield (x.T, whole), {"start": (5, 4), "step": (-1, -1)}
    yield (whole, whole), {"start": (5, 0), "step": (-1, 1)}
    yield (x, values(code, (0, 6), 1)), {"start": (5, 0), "step": (1, 1)}
    yield (values(code, ()), values(code, (), 1)), {"start": (), "step": ()}


def indexed(code, index):
    dtype = BY_CODE[index].numpy
    for x, axis in (
        (values(code, (5, 4)), 0),
        (values(code, (3, 5)).T, 0),
        (values(code, (2, 5, 3)), 1),
        (values(code, (2, 5)), 1),
        (values(code, (5, 0)), 0),
    ):
        for i in ([[0, -1, 4], [-5, 4, 4]], 3, []):
            places = np.array(i, np.int64).astype(dtype)
            yield (x, places), {"axis": axis}
            yield (x, places.T[::-1] if places.ndim else places), {"axis": axis}
    yield (values(code, (0, 3)), np.array([], dtype)), {"axis": 0}


def looked_up(code, index):
    for (x, i), attrs in indexed(code, index):
        if not index.startswith("u"):  # which does not count from the end
            yield (x, i), {**attrs, "role": None}
        yield (x, (i.astype(np.int64) % 5).astype(i.dtype)), {**attrs, "role": "embedding: id"}


def added(code, index, _):
    for (x, i), attrs in indexed(code, index):
        axis = attrs["axis"]
        shape = x.shape[:axis] + i.shape + x.shape[axis + 1 :]
        yield (x, i, values(code, shape, 2)), attrs


def draws(_):
    for shape in ((), (0, 3), (7, 5), (400, 100)):
        yield (np.array([1, 2, 2**32 - 3, 4], np.uint32),), {"shape": shape}


def fills():
    for shape in ((), (3,), (0, 2), (4, 5)):
        yield (), {"shape": shape, "value": 1}


CASES = {
    "where": selections, "sum": sums, "prod": sums, "max": extremes, "min": extremes,
    "cumsum": scans, "cumprod": scans, "argmax": places_of_extremes, "argmin": places_of_extremes,
    "matmul": products, "concat": joins, "set_slice": insertions, "gather": looked_up,
    "scatter_add": added, "full": fills, "random_bits": draws,
    "softmax": scans, "log_softmax": scans,
}  # fmt: skip


def exact(function):
    """A function of float64, as one of any float type."""
    return lambda x, **attrs: np.asarray(function(x.astype(np.float64), **attrs)).astype(x.dtype)


def log_softmax(x, axis):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


# Composites, which have no shared kernel, and what they mean.
COMPOSITES = {
    "sigmoid": exact(lambda x: 0.5 + 0.5 * np.tanh(x / 2)),
    "relu": exact(lambda x: np.maximum(x, 0)),
    "relu_grad": lambda grad, y: np.where(y > 0, grad, np.zeros((), grad.dtype)),
    "softmax": exact(lambda x, axis: np.exp(log_softmax(x, axis)) if x.size else x),
    "log_softmax": exact(lambda x, axis: log_softmax(x, axis) if x.size else x),
}
# The other composites of this backend are compared with their decompositions by the kit.
KERNELS = [k for k in native if k.op in COMPOSITES or k.op in shared.ops()]


# -- running ------------------------------------------------------------------------------------


def prepared(kernel, ins, out, attrs):
    forms = [
        make_form(Spec(x.shape, x.dtype), tuple(s // x.itemsize for s in x.strides)) for x in ins
    ]
    made = kernel.prepare(np, forms, [out], **attrs)
    if not isinstance(made, tuple):
        return made
    launch, nbytes = made
    return lambda *handles: launch(*handles, np.full(nbytes, 0xA5, np.uint8))


def run_shared(op, ins, dtype, attrs):
    kernel = shared.find(op, [BY_NUMPY[x.dtype] for x in ins], [dtype])
    if kernel is None:
        return DEVICE.call(partial(COMPOSITES[op], **attrs), *ins)
    return np.asarray(DEVICE.call(prepared(kernel, ins, Spec((), dtype), attrs), *ins))


def run_native(kernel, ins, out, attrs):
    """The result, or None if the kernel leaves these shapes to the shared one."""
    launch = prepared(kernel, ins, out, attrs)
    if launch is None:
        return None
    y = np.full(out.shape, 1, out.dtype.numpy)  # a kernel that does not write leaves ones
    DEVICE.call(launch, *ins, y)
    return y


def check(op, got, expected):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    floating = BY_NUMPY[got.dtype].is_floating
    eps = float(ml_dtypes.finfo(got.dtype).eps) if floating else 0.0
    if floating and got.dtype.itemsize == 2:  # NumPy's assertions do not know bfloat16's NaN
        got, expected = got.astype(np.float32), expected.astype(np.float32)
    if floating and op in LOOSE:
        np.testing.assert_allclose(got, expected, rtol=eps * LOOSE[op], atol=eps * LOOSE[op])
        return
    np.testing.assert_array_equal(got, expected)
    if floating and op not in ("maximum", "minimum", "relu"):  # where either zero may win
        zeros = got == 0
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))


def check_in_place(kernel, ins, attrs, expected):
    """The output as each of the inputs that it may be, also where that one is given twice."""
    for x in ins:
        if (x.shape, x.dtype) == (expected.shape, expected.dtype):
            y = x.copy()  # packed, as outputs are
            twins = [y if other is x else other for other in ins]
            launch = prepared(kernel, twins, Spec(y.shape, y.dtype), attrs)
            DEVICE.call(launch, *twins, y)
            check(kernel.op, y, expected)


@pytest.mark.parametrize("kernel", [pytest.param(k, id=f"{k.op}-{k.signature}") for k in KERNELS])
def test_native_equals_shared(kernel):
    left, _, right = kernel.signature.partition("->")
    codes, dtype = [c.rstrip("*") for c in left.split(",") if c], BY_CODE[right]
    found = CASES.get(kernel.op, one if len(codes) == 1 else two)
    count = 0
    for ins, attrs in found(*codes):
        if kernel.op in ("cast", "full"):
            attrs = {**attrs, "dtype": dtype}
        before = [x.tobytes() for x in ins]
        expected = run_shared(kernel.op, ins, dtype, attrs)
        got = run_native(kernel, ins, Spec(expected.shape, dtype), attrs)
        if got is None:
            continue
        check(kernel.op, got, expected)
        assert [x.tobytes() for x in ins] == before
        if kernel.in_place:
            check_in_place(kernel, ins, attrs, expected)
        count += 1
    assert count


@pytest.mark.parametrize("code", ["i32", "i64"])
@pytest.mark.parametrize("bad", [3, -4, 2**31 - 1, -(2**31)])
def test_gather_names_the_index_before_it_writes(code, bad):
    kernel = native.find("gather", [BY_CODE["f32"], BY_CODE[code]], [BY_CODE["f32"]])
    x, i = values("f32", (3, 2)), np.array([0, bad, 99], BY_CODE[code].numpy)
    y = np.ones((3, 2), np.float32)
    with pytest.raises(OutOfRange, match=f"gather: needs -3 <= index < 3, got {bad}$"):
        prepared(kernel, (x, i), Spec(y.shape, y.dtype), {"axis": 0, "role": None})(x, i, y)
    assert (y == 1).all()
