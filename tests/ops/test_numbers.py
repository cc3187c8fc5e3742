"""NumPy's numbers where Python's are expected, and numbers that a dtype does not hold."""

import math

import numpy as np
import pytest

from checks import both
from singa_core import ops
from singa_core.engine import graph
from singa_core.errors import ArgumentError, DTypeError, OutOfDeviceMemory, OutOfRange, ShapeError
from singa_core.tensor import tensor

HUGE = 2**64 - 1
INF = math.inf
X = np.arange(6.0, dtype=np.float32).reshape(2, 3)

# Each is called with Python's numbers, then with NumPy's.
CALLS = {
    "arange": lambda x, one, two, half: ops.arange(one, two * 3, two),
    "arange of floats": lambda x, one, two, half: ops.arange(half, two),
    "linspace": lambda x, one, two, half: ops.linspace(half, two, two * 2),
    "zeros": lambda x, one, two, half: ops.zeros((one, two)),
    "full": lambda x, one, two, half: ops.full(two, half),
    "eye": lambda x, one, two, half: ops.eye(two, k=one),
    "tril": lambda x, one, two, half: ops.tril(x, k=one),
    "sum": lambda x, one, two, half: x.sum(axis=one),
    "var": lambda x, one, two, half: x.var(axis=(one, 0), correction=one),
    "softmax": lambda x, one, two, half: x.softmax(axis=one),
    "argmax": lambda x, one, two, half: x.argmax(axis=one),
    "vector_norm": lambda x, one, two, half: ops.vector_norm(x, two, axis=one),
    "vector_norm of a half": lambda x, one, two, half: ops.vector_norm(x, half),
    "roll": lambda x, one, two, half: ops.roll(x, one, one),
    "roll flat": lambda x, one, two, half: ops.roll(x, two),
    "split": lambda x, one, two, half: ops.split(x, two, one)[0],
    "chunk": lambda x, one, two, half: ops.chunk(x, two, one)[1],
    "repeat": lambda x, one, two, half: ops.repeat(x, two, one),
    "tile": lambda x, one, two, half: ops.tile(x, two),
    "flip": lambda x, one, two, half: ops.flip(x, one),
    "expand_dims": lambda x, one, two, half: ops.expand_dims(x, one),
    "moveaxis": lambda x, one, two, half: ops.moveaxis(x, one, 0),
    "flatten": lambda x, one, two, half: ops.flatten(x, 0, one),
    "diagonal": lambda x, one, two, half: ops.diagonal(x, one),
    "reshape": lambda x, one, two, half: x.reshape(two * 3, one),
    "permute": lambda x, one, two, half: x.permute(one, 0),
    "getitem": lambda x, one, two, half: x[one, two],
    "slice": lambda x, one, two, half: x[:one, one:two],
    "topk": lambda x, one, two, half: ops.topk(x, two)[0],
    "clip": lambda x, one, two, half: x.clip(half, two),
    "leaky_relu": lambda x, one, two, half: ops.leaky_relu(x, alpha=half),
    "softplus": lambda x, one, two, half: ops.softplus(x, beta=two),
    "hard_tanh": lambda x, one, two, half: ops.hard_tanh(x, low=half, high=one),
    "threshold": lambda x, one, two, half: ops.threshold(x, one, half),
    "lerp": lambda x, one, two, half: ops.lerp(x, x + 1.0, half),
    "pad": lambda x, one, two, half: x.pad(one, half),
    "pad pairs": lambda x, one, two, half: x.pad(((one, two), (0, one))),
    "dropout": lambda x, one, two, half: ops.dropout(x, p=half - half),
    "pow": lambda x, one, two, half: x**two,
    "layer_norm": lambda x, one, two, half: ops.layer_norm(x, eps=half),
    "tensordot": lambda x, one, two, half: ops.tensordot(x, x.T, axes=one),
    "max_pool": lambda x, one, two, half: ops.max_pool(ops.full((1, 1, 4, 4), 2.0), kernel=two),
    "huber": lambda x, one, two, half: ops.huber_loss(x, x * 0.0, delta=half),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_numpy_s_numbers_are_python_s(name, kind):
    x = tensor(X)
    y = CALLS[name](x, 1, 2, 0.5)
    z = CALLS[name](x, kind(1), kind(2), np.float32(0.5))
    assert (y.shape, y.dtype) == (z.shape, z.dtype)
    np.testing.assert_array_equal(y.numpy(), z.numpy())


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.reshape(np.array([3, 2])), lambda x: x.permute(np.array([1, 0])),
        lambda x: ops.tile(x, np.array([2, 1])), lambda x: ops.split(x, np.array([1, 1]))[0],
        lambda x: x.sum(axis=np.array([0, 1])), lambda x: ops.zeros(np.array([2, 2])),
        lambda x: ops.roll(x, np.array([1, 1]), np.array([0, 1])), lambda x: x.pad(np.array([1, 2])),
    ],
)  # fmt: skip
def test_integer_arrays_are_sequences(call):
    assert call(tensor(X)).shape in ((3, 2), (4, 3), (1, 3), (), (2, 2), (2, 3), (5, 6))


# -- ranges -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "int64", "uint64", "float32", "float64"]
)
@pytest.mark.parametrize("args", [(5,), (1, 6, 2), (100, 127, 9), (9, 0, -3), (3, 3), (0, 250, 50)])
def test_arange_has_the_dtype_and_numpy_s_numbers(device, args, dtype):
    expected = np.arange(*args)
    if dtype == "int8" and expected.size and expected.max() > 127:
        with pytest.raises(DTypeError, match=r"arange: needs numbers that int8 holds, got 200"):
            ops.arange(*args, dtype=dtype, device=device)
        return
    y = ops.arange(*args, dtype=dtype, device=device)
    assert (y.dtype.name, y.tolist()) == (dtype, expected.tolist())


@pytest.mark.parametrize(
    ("args", "dtype", "text"),
    [
        ((300,), "int8", "numbers that int8 holds, got 299"),
        ((-5, 5), "uint8", "numbers that uint8 holds, got -5"),
        ((0, 2, 0.5), "int64", "numbers that int64 holds, got 1.5"),
        ((0.5, 3, 2.0), "int64", "numbers that int64 holds, got 0.5"),
        ((10**25,), None, "numbers that int64 holds, got 9999999999999999999999999"),
        ((3,), "bool", "a number dtype"),
    ],
)
def test_numbers_that_a_range_cannot_hold_are_refused(args, dtype, text):
    with pytest.raises(DTypeError, match=f"arange: needs {text}"):
        ops.arange(*args, dtype=dtype)


def test_an_endless_range_is_refused():
    for stop in (INF, math.nan):
        with pytest.raises(ArgumentError, match="arange: needs finite numbers"):
            ops.arange(stop)
    with pytest.raises(ShapeError, match="linspace: needs a shape of integers >= 0, got"):
        ops.linspace(0, 1, -1)


def test_ranges_of_half_floats_count_in_wider_ones(device):
    y = ops.linspace(0.0, 1.0, 70001, dtype="float16", device=device)
    exact = np.linspace(0, 1, 70001).astype(np.float16)
    np.testing.assert_array_equal(y.numpy(), exact)
    y = ops.arange(0.0, 7.0, 1e-4, dtype="float16", device=device)
    np.testing.assert_array_equal(y.numpy(), np.arange(0.0, 7.0, 1e-4).astype(np.float16))
    y = ops.arange(0.1, 1000.0, 0.1, device=device)
    np.testing.assert_array_equal(y.numpy(), (np.arange(y.size) * 0.1 + 0.1).astype(np.float32))
    far = ops.linspace(-1e308, 1e308, 3, dtype="float64", device=device)
    assert far.tolist() == [-1e308, 0.0, 1e308]
    recorded = graph(lambda x: x + ops.linspace(0.0, 1.0, 5, dtype="float16").sum())
    assert recorded(tensor(0.0, device=device)).item() == 2.5


def test_the_ends_of_integers_are_in_ranges():
    assert ops.arange(2**63 - 2, 2**63).tolist() == [2**63 - 2, 2**63 - 1]
    assert ops.arange(2**63, 2**64, 2**62, dtype="uint64").tolist() == [2**63, 2**63 + 2**62]
    assert ops.arange(2**64 - 1, 2**64 - 4, -1, dtype="uint64").tolist() == [
        HUGE,
        HUGE - 1,
        HUGE - 2,
    ]


@pytest.mark.parametrize("make", [ops.arange, ops.zeros, lambda n: ops.linspace(0.0, 1.0, n)])
def test_what_no_memory_holds_is_told_as_such(make):
    with pytest.raises(OutOfDeviceMemory, match="out of memory: needs [0-9]+ bytes"):
        make(10**14)


# -- integers -----------------------------------------------------------------------------------------


def test_triangles_and_pads_of_bool_are_bool(array):
    b = array([[True, True], [True, True]])
    assert both(ops.tril, b).tolist() == [[True, False], [True, True]]
    assert both(ops.triu, b).tolist() == [[True, True], [False, True]]
    assert b.pad((0, 1)).tolist() == [[True, True, False], [True, True, False], [False] * 3]


@pytest.mark.parametrize("values", [[HUGE, 1], [[2**63], [0]], [2**53 + 1, 2**63], HUGE])
def test_large_integers_are_exact(device, values):
    for dtype in (None, "uint64"):
        x = tensor(values, dtype=dtype, device=device)
        assert (x.dtype.name, x.tolist()) == ("uint64", values)


@pytest.mark.parametrize("values", [[2**63, -1], 2**64, [2**64, 0]])
def test_integers_of_no_one_dtype_are_refused(values):
    with pytest.raises(DTypeError, match="integers in the range of int64 or of uint64"):
        tensor(values)
    assert tensor(values, dtype="float32").dtype.name == "float32"


INDEX = np.array([HUGE], np.uint64)


@pytest.mark.parametrize(
    "look_up",
    [
        lambda i, x: x[i], lambda i, x: x[i, 0], lambda i, x: x[0, i],
        lambda i, x: ops.embedding(i, x), lambda i, x: ops.cross_entropy(x[:1], i),
        lambda i, x: ops.nll_loss(x[:1], i), lambda i, x: x.__setitem__(i, 0.0),
    ],
)  # fmt: skip
def test_an_unsigned_index_out_of_range_is_not_the_last_one(array, device, look_up):
    x = array([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(OutOfRange, match="got [24]|9223372036854775807|18446744073709551615"):  # noqa: PT012  (or later)
        look_up(array(INDEX), x)
        device.synchronize()


@pytest.mark.parametrize(
    ("cell", "value"),
    [("int8", "int64"), ("uint8", "int8"), ("int8", "uint8"), ("int64", "uint64")],
)
def test_an_integer_tensor_is_not_narrowed_silently(array, cell, value):
    x = array([1, 2], cell)
    text = f"index assignment: needs values that {cell} holds, got {value}"
    with pytest.raises(DTypeError, match=text):
        x[0] = array(100, value)
    x[0] = array(100, value).astype(cell)
    assert x.tolist() == [100, 2]


@pytest.mark.parametrize(
    ("cell", "value"),
    [("int64", "int8"), ("int16", "uint8"), ("int8", "bool"), ("float32", "int64")],
)
def test_an_integer_tensor_may_be_widened(array, cell, value):
    x = array([7, 2], cell)
    x[0] = array(1, value)
    assert x.tolist() == [1, 2]
