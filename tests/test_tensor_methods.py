"""Operators and methods of Tensor: Python's protocol, numbers and arrays beside tensors, in place, names."""

import inspect
import sys

import numpy as np
import pytest

from checks import both, check_gradients, random
from singa_core import ops
from singa_core.autograd import gradients
from singa_core.errors import DTypeError, GradientError, ShapeError
from singa_core.methods import ArrayMethods
from singa_core.mode import no_grad
from singa_core.optable import FUNCTIONS, OPS
from singa_core.tensor import Tensor, tensor

OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip
OF_INTEGERS = {
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
}  # fmt: skip
A, B = [[7.0, -7.0], [2.5, 3.0]], [[2.0, 3.0], [2.5, -2.0]]
K, L = [[7, 8], [2, 3]], [[2, 1], [2, 3]]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_floats_are_numpys(array, name):
    f = OPERATORS[name]
    y = both(f, array(A), array(B))
    np.testing.assert_allclose(y.numpy(), f(np.float32(A), np.float32(B)), rtol=1e-6)


@pytest.mark.parametrize("name", {**OPERATORS, **OF_INTEGERS})
def test_operators_of_integers_are_numpys(array, name):
    f = {**OPERATORS, **OF_INTEGERS}[name]
    np.testing.assert_allclose(
        both(f, array(K), array(L)).numpy(), f(np.array(K), np.array(L)), rtol=1e-6
    )


@pytest.mark.parametrize("name", {**OPERATORS, **OF_INTEGERS})
@pytest.mark.parametrize(
    "other", [2, np.array(L), L, np.int64(2)], ids=["number", "ndarray", "list", "scalar"]
)
def test_numbers_arrays_and_lists_are_welcome_on_both_sides(array, device, name, other):
    f = {**OPERATORS, **OF_INTEGERS}[name]
    for y, expected in (
        (f(array(K), other), f(np.array(K), np.array(other))),
        (f(other, array(K)), f(np.array(other), np.array(K))),
    ):
        assert y.device is device
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


def test_products_of_matrices_and_arrays(array):
    x = array([[1, 2], [3, 4]])
    assert (x @ np.array([10, 1])).tolist() == [12, 34]
    assert (np.array([10, 1]) @ x).tolist() == [13, 24]
    assert ([10, 1] @ x).tolist() == [13, 24]
    x @= x
    assert x.tolist() == [[7, 10], [15, 22]]


def test_unary_operators(array):
    x = array([1, -2])
    assert (-x).tolist() == [-1, 2]
    assert (+x).tolist() == [1, -2]
    assert abs(x).tolist() == [1, 2]
    assert (~x).tolist() == [-2, 1]
    assert (~array([True, False])).tolist() == [False, True]


class Foreign:
    """A type that knows how to meet a tensor, as ours does not know it."""

    def __radd__(self, other):
        return "added"

    def __rmatmul__(self, other):
        return "multiplied"

    def __lt__(self, other):
        return "less"


def test_a_foreign_type_gets_its_turn(array):
    x = array([1.0])
    assert x + Foreign() == "added"
    assert x @ Foreign() == "multiplied"
    assert (x > Foreign()) == "less"
    for f in ("+", "*", "**", "<", "//"):
        with pytest.raises(TypeError, match="not supported|unsupported operand"):
            OPERATORS[f](x, None)
        if f != "*":  # where Python asks x how often to repeat the text
            with pytest.raises(TypeError, match="not supported|unsupported operand"):
                OPERATORS[f](x, "text")
    with pytest.raises(TypeError, match="unsupported operand"):
        x += "text"
    assert (x == None) is False  # noqa: E711  (what Python makes of two NotImplemented)
    assert (x != "text") is True


def test_the_weak_number_and_the_strong_scalar(array):
    x = array([1.0], "float16")
    assert (x * 2.5).dtype.name == (2.5 * x).dtype.name == "float16"
    assert (x * np.float32(2.5)).dtype.name == "float32"
    assert (array([1], "int8") + 1).dtype.name == "int8"
    assert (array([1], "int8") + np.int64(1)).dtype.name == "int64"
    assert (array([1]) / 2).tolist() == [0.5]


@pytest.mark.parametrize("exponent", [2, 3, 1, 0, 0.5, -1, 2.0, 1.5, -2])
def test_powers_by_products_are_powers(array, device, exponent):
    x = np.array([0.5, 1.0, 3.0], np.float32)
    y = both(lambda v: v**exponent, array(x))
    assert y.dtype.name == "float32"
    np.testing.assert_allclose(y.numpy(), x**exponent, rtol=1e-6)
    check_gradients(lambda v: v**exponent, device, x)


def test_powers_of_integers_keep_the_kind(array):
    x = array([2, -1, 0])
    for exponent, expected in ((2, [4, 1, 0]), (3, [8, -1, 0]), (1, [2, -1, 0]), (0, [1, 1, 1])):
        y = x**exponent
        assert (y.tolist(), y.dtype.name) == (expected, "int64")
    for exponent in (0.5, 2.0, 0.0, 1.0):
        assert (array([4]) ** exponent).dtype.name == "float32"
    assert (array([2, -1]) ** -1).tolist() == [0, -1]
    assert (2 ** array([3, 0])).tolist() == [8, 1]
    assert (array([True, False]) ** 2).tolist() == [1, 0]


# -- in place ---------------------------------------------------------------------------------------


IN_PLACE = [
    ("__iadd__", 2, 9), ("__isub__", 2, 5), ("__imul__", 2, 14), ("__ifloordiv__", 2, 3), ("__imod__", 4, 3),
    ("__ipow__", 2, 49), ("__iand__", 3, 3), ("__ior__", 8, 15), ("__ixor__", 2, 5), ("__ilshift__", 1, 14),
    ("__irshift__", 1, 3),
]  # fmt: skip


@pytest.mark.parametrize(("name", "other", "expected"), IN_PLACE)
def test_in_place_the_cell_names_the_result(array, name, other, expected):
    x = array([7])
    alias, old = x, x.detach()
    x = getattr(x, name)(other)
    assert x is alias
    assert (x.tolist(), old.tolist()) == ([expected], [7])


def test_in_place_while_recording(array):
    def f(x):
        y = x * 1.0
        y += 1.0
        y *= y
        y -= 0.5
        y /= 2.0
        return y

    assert both(f, array([1.0, 2.0])).tolist() == [1.75, 4.25]


def test_gradients_flow_through_in_place_operators(device):
    def f(x):
        y = x * 2.0
        y *= x
        y += x
        return y

    check_gradients(f, device, random(3))


def test_in_place_keeps_dtype_and_shape(array):
    x = array([1, 2])
    with pytest.raises(DTypeError, match=r"add: needs a result of the cell's dtype, got float32"):
        x += 0.5
    with pytest.raises(ShapeError, match=r"add: needs a result of the cell's shape, got \(2, 2\)"):
        x += array([[1, 2], [3, 4]])
    assert x.tolist() == [1, 2]


def test_a_leaf_is_not_changed_in_place_but_without_a_tape(array):
    x = array([1.0], requires_grad=True)
    with pytest.raises(GradientError, match=r"add: needs a tensor that is not a leaf"):
        x += 1.0
    with no_grad():
        x += 1.0
    assert x.tolist() == [2.0]
    assert x.requires_grad


def test_fill_and_zero(array):
    x = array([1, 2])
    alias = x
    assert x.fill_(7) is alias
    assert alias.tolist() == [7, 7]
    assert x.zero_().tolist() == [0, 0]


# -- what it looks like -----------------------------------------------------------------------------


def test_sizes(array):
    x = array(np.zeros((2, 3, 4)), "float16")
    assert (x.ndim, x.size, x.numel(), x.nbytes, len(x)) == (3, 24, 24, 48, 2)
    assert (array(1).ndim, array(1).size) == (0, 1)


def test_shapes_come_as_numbers_or_as_one_sequence(array):
    x = array(np.arange(6))
    assert x.reshape(2, 3).tolist() == x.reshape((2, 3)).tolist() == x.reshape([2, -1]).tolist()
    assert x.view(3, 2).shape == (3, 2)
    y = x.reshape(1, 2, 3)
    assert (
        y.permute(2, 0, 1).shape
        == y.permute((2, 0, 1)).shape
        == y.transpose(2, 0, 1).shape
        == (3, 1, 2)
    )
    assert y.transpose().shape == y.T.shape == (3, 2, 1)
    assert y.mT.shape == (1, 3, 2)
    assert x.broadcast_to(2, 6).shape == x.broadcast_to((2, 6)).shape == (2, 6)
    assert array(5).reshape(1, 1).reshape(()).item() == array([5]).reshape().item() == 5


def test_dtypes_by_name(array):
    x = array([1.5, 0.0])
    for y, dtype in ((x.double(), "float64"), (x.half(), "float16"), (x.long(), "int64"), (x.int(), "int32"),
                     (x.bool(), "bool"), (x.astype(np.float64), "float64"), (x.float(), "float32")):  # fmt: skip
        assert y.dtype.name == dtype
    assert x.long().tolist() == [1, 0]
    assert x.astype("float32").array is x.array  # one value in two cells
    assert x.astype("float32", copy=True).array.storage is not x.array.storage
    assert array([1], "int8").astype(int).dtype.name == "int64"


def test_a_clone_has_memory_of_its_own_and_a_gradient(array):
    x = array([1.0, 2.0], requires_grad=True)
    y = x.clone()
    assert y.array.storage is not x.array.storage
    assert gradients((y * 3.0).sum(), x).tolist() == [3.0, 3.0]


# -- every method -----------------------------------------------------------------------------------


M = [[0.5, -0.25], [0.75, 0.1]]
METHODS = {
    name: getattr(np, name)
    for name in ("exp", "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc",
                 "sign", "square", "isnan", "isinf", "isfinite", "abs", "logical_not", "sum", "prod", "mean", "max",
                 "min", "any", "all", "argmax", "argmin", "var", "std", "count_nonzero")
} | {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "neg": np.negative, "round": np.rint,
    "reciprocal": np.reciprocal, "amax": np.max, "amin": np.min, "ravel": np.ravel, "flatten": np.ravel,
    "relu": lambda x: np.maximum(x, 0), "flip": np.flip, "squeeze": np.squeeze, "norm": np.linalg.norm,
    "tril": np.tril, "triu": np.triu, "diagonal": np.diagonal, "clone": np.copy, "contiguous": np.copy,
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_without_arguments_are_numpys(array, name):
    y = both(lambda x: getattr(x, name)(), array(M))
    np.testing.assert_allclose(y.numpy(), METHODS[name](np.array(M)), rtol=1e-5, atol=1e-7)


WITH_ARGUMENTS = {
    "log": (lambda x: (x + 1).log(), lambda x: np.log(x + 1)),
    "logs": (lambda x: (x + 1).log2() + (x + 1).log10() + x.log1p(),
             lambda x: np.log2(x + 1) + np.log10(x + 1) + np.log1p(x)),
    "roots": (lambda x: x.abs().sqrt() + x.abs().rsqrt(), lambda x: np.sqrt(abs(x)) + 1 / np.sqrt(abs(x))),
    "names of operators": (lambda x: x.add(x).sub(1.0).mul(x).div(2.0), lambda x: (x + x - 1) * x / 2),
    "pow": (lambda x: x.abs().pow(0.3), lambda x: abs(x) ** 0.3),
    "extremes": (lambda x: x.maximum(0.1).minimum(0.6), lambda x: np.clip(x, 0.1, 0.6)),
    "clip": (lambda x: x.clip(-0.1, 0.6), lambda x: np.clip(x, -0.1, 0.6)),
    "clamp": (lambda x: x.clamp(low=0.0), lambda x: np.maximum(x, 0.0)),
    "matmul": (lambda x: x.matmul(x), lambda x: x @ x),
    "logic": (lambda x: (x > 0).logical_and(x < 0.6).logical_or(x < -0.2).logical_xor(x > 0.7),
              lambda x: np.logical_xor(np.logical_or(np.logical_and(x > 0, x < 0.6), x < -0.2), x > 0.7)),
    "axes": (lambda x: x.sum(0, keepdims=True) + x.mean(axis=1) + x.max(-1), lambda x: x.sum(0, keepdims=True) + x.mean(1) + x.max(-1)),
    "spread": (lambda x: x.var(0, correction=1.0) + x.std(axis=1), lambda x: x.var(0, ddof=1) + x.std(1)),
    "running": (lambda x: x.cumsum(0) * x.cumprod(1), lambda x: x.cumsum(0) * x.cumprod(1)),
    "logsumexp": (lambda x: x.logsumexp(1), lambda x: np.log(np.exp(x).sum(1))),
    "softmax": (lambda x: x.softmax(0), lambda x: np.exp(x) / np.exp(x).sum(0)),
    "log_softmax": (lambda x: x.log_softmax(), lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "sort": (lambda x: x.sort(0)[0], lambda x: np.sort(x, 0)),
    "argsort": (lambda x: x.argsort(0, descending=True), lambda x: np.argsort(-x, 0)),
    "topk": (lambda x: x.topk(1)[0], lambda x: x.max(-1, keepdims=True)),
    "unsqueeze": (lambda x: x.unsqueeze(0).expand_dims(-1), lambda x: x[None, ..., None]),
    "swapaxes": (lambda x: x.swapaxes(0, 1), lambda x: x.T),
    "moveaxis": (lambda x: x.moveaxis(0, 1), lambda x: x.T),
    "roll": (lambda x: x.roll(1, 1), lambda x: np.roll(x, 1, 1)),
    "repeat": (lambda x: x.repeat(2, 0), lambda x: np.repeat(x, 2, 0)),
    "tile": (lambda x: x.tile(2, 1), lambda x: np.tile(x, (2, 1))),
    "pad": (lambda x: x.pad(1), lambda x: np.pad(x, 1)),
    "split": (lambda x: x.split(1)[1], lambda x: x[1:]),
    "chunk": (lambda x: x.chunk(2, 1)[0], lambda x: x[:, :1]),
    "unbind": (lambda x: x.unbind(1)[1], lambda x: x[:, 1]),
    "masked_fill": (lambda x: x.masked_fill(x < 0, 9.0), lambda x: np.where(x < 0, 9.0, x)),
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_ARGUMENTS)
def test_methods_with_arguments_are_numpys(array, name):
    ours, theirs = WITH_ARGUMENTS[name]
    y = both(ours, array(M))
    np.testing.assert_allclose(y.numpy(), theirs(np.float32(M)), rtol=1e-5, atol=1e-6)


def test_take_and_host_methods(array):
    x = array([[0, 2], [1, 2]])
    assert x.take(array([1, 1])).tolist() == [2, 2]
    assert x.take_along_axis(array([[1], [0]])).tolist() == [[2], [1]]
    assert x.unique().tolist() == [0, 1, 2]
    assert [i.tolist() for i in x.nonzero()] == [[0, 1, 1], [1, 0, 1]]
    assert array([0.0]).sigmoid().item() == 0.5
    assert array([0.0]).erf().item() == 0.0


def test_every_method_finds_its_op():
    """A name that no op and no function answers to would be found by its first user."""
    made_by_name = 0
    for name, member in inspect.getmembers(ArrayMethods, inspect.isfunction):
        cells = {
            v: c.cell_contents
            for v, c in zip(member.__code__.co_freevars, member.__closure__ or (), strict=True)
        }
        if "name" in cells:
            made_by_name += 1
            assert cells["name"] in OPS or cells["name"] in FUNCTIONS, name
    assert made_by_name > 100


def test_methods_say_where_to_read_on():
    assert Tensor.exp.__name__ == "exp"
    assert Tensor.exp.__doc__ == "See `singa_core.ops.exp`."


@pytest.mark.parametrize("f", [OPERATORS["+"], OPERATORS["-"], OPERATORS["*"], OPERATORS["/"], lambda a, b: a @ b,
                               lambda a, b: -a])  # fmt: skip
def test_an_operator_adds_one_frame_at_most(f):
    a = tensor([[1.0, 2.0], [3.0, 4.0]])
    f(a, a)
    frames = []
    sys.setprofile(lambda frame, event, _: event == "call" and frames.append(frame.f_code))
    try:
        f(a, a)
    finally:
        sys.setprofile(None)
    files = [code.co_filename for code in frames]
    assert files.count(inspect.getsourcefile(ArrayMethods)) == 1
    assert ops.__file__ not in files


# -- in place, over views ------------------------------------------------------------------------------

VIEWS = {
    "broadcast": lambda t: t[:1].broadcast_to((4,)),
    "reversed": lambda t: t[::-1],
    "stepped": lambda t: t[::2],
    "part": lambda t: t[1:3],
}


@pytest.mark.parametrize("view", VIEWS)
def test_in_place_is_the_same_as_out_of_place_on_every_kind_of_view(array, view):
    values = [1.0, 2.0, 3.0, 4.0]
    t = VIEWS[view](array(values))  # the view alone holds its bytes
    other = array([10.0, 20.0, 30.0, 40.0][: t.shape[0]])
    want = (VIEWS[view](array(values)) + other).tolist()
    t += other
    assert t.tolist() == want
    t = VIEWS[view](array(values))
    t[0] = 9.0
    assert t.tolist() == [9.0, *VIEWS[view](array(values)).tolist()[1:]]


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "float16"])
def test_numpy_makes_arrays_of_the_same_dtype(array, dtype):
    t = array([1, 0, 1], dtype)
    for made in (np.array(t), np.asarray(t), np.array(t, copy=True)):
        assert made.dtype == dtype
        assert made.tolist() == t.tolist()
    assert np.array(t, dtype="float64").dtype == np.float64
    changed = np.array(t)
    changed[0] = 0
    assert t.tolist()[0] == 1
