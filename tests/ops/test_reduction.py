"""Reductions and running sums: values worked by hand, laws, gradients, errors."""

import math

import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, random
from singa_core import ops
from singa_core.autograd import gradients
from singa_core.errors import ArgumentError, ShapeError

X = [[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]]

GOLDEN = [
    (ops.sum, 21.0, [5.0, 7.0, 9.0], [9.0, 12.0]),
    (ops.prod, 720.0, [4.0, 10.0, 18.0], [15.0, 48.0]),
    (ops.max, 6.0, [4.0, 5.0, 6.0], [5.0, 6.0]),
    (ops.min, 1.0, [1.0, 2.0, 3.0], [1.0, 2.0]),
    (ops.argmax, 5, [1, 0, 1], [1, 2]),
    (ops.argmin, 0, [0, 1, 0], [0, 1]),
    (ops.mean, 3.5, [2.5, 3.5, 4.5], [3.0, 4.0]),
    (ops.var, 35 / 12, [2.25, 2.25, 2.25], [8 / 3, 8 / 3]),
    (ops.std, math.sqrt(35 / 12), [1.5, 1.5, 1.5], [math.sqrt(8 / 3)] * 2),
    (
        ops.norm,
        math.sqrt(91),
        [math.sqrt(17), math.sqrt(29), math.sqrt(45)],
        [math.sqrt(35), math.sqrt(56)],
    ),
    (ops.count_nonzero, 6, [2, 2, 2], [3, 3]),
    (ops.any, True, [True] * 3, [True] * 2),
    (ops.all, True, [True] * 3, [True] * 2),
]


@pytest.mark.parametrize(
    ("op", "whole", "rows", "columns"), GOLDEN, ids=[op.name for op, *_ in GOLDEN]
)
def test_values_worked_by_hand(array, op, whole, rows, columns):
    for axis, expected in ((None, whole), (0, rows), (1, columns), (-1, columns)):
        y = both(lambda x, axis=axis: op(x, axis=axis), array(X))
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
        kept = op(array(X), axis=axis, keepdims=True)
        assert kept.shape == {None: (1, 1), 0: (1, 3), 1: (2, 1), -1: (2, 1)}[axis]
        np.testing.assert_allclose(kept.numpy().reshape(np.shape(expected)), expected, rtol=1e-6)


def test_logsumexp_is_safe_from_overflow(array):
    y = both(ops.logsumexp, array([1000.0, 1000.0 + math.log(3.0)]))
    assert y.item() == pytest.approx(1000.0 + math.log(4.0), rel=1e-6)
    inf = math.inf
    y = ops.logsumexp(array([[-inf, -inf], [inf, 0.0], [-inf, 2.0]]), axis=1)
    assert y.tolist() == [-inf, inf, 2.0]
    assert ops.logsumexp(array(np.zeros((2, 0), np.float32)), axis=1).tolist() == [-inf, -inf]


def test_the_gradient_of_logsumexp_is_softmax(array):
    x = array([0.0, math.log(3.0), -math.inf], requires_grad=True)
    np.testing.assert_allclose(gradients(ops.logsumexp(x), x).numpy(), [0.25, 0.75, 0.0], rtol=1e-6)


def test_running_sums_and_products(array):
    x = array([[1, 2, 3], [4, 0, 6]])
    assert both(lambda v: ops.cumsum(v, axis=1), x).tolist() == [[1, 3, 6], [4, 4, 10]]
    assert both(lambda v: ops.cumsum(v, axis=0), x).tolist() == [[1, 2, 3], [5, 2, 9]]
    assert both(lambda v: ops.cumprod(v, axis=-1), x).tolist() == [[1, 2, 6], [4, 0, 0]]


def test_a_running_sum_wants_its_axis(array):
    with pytest.raises(ArgumentError, match=r"cumsum: needs the attribute 'axis'"):
        ops.cumsum(array([1, 2]))


# -- nothing to reduce ------------------------------------------------------------------------------


def test_reductions_over_nothing(array):
    x = array(np.zeros((2, 0), np.float32))
    assert ops.sum(x, axis=1).tolist() == [0.0, 0.0]
    assert ops.prod(x, axis=1).tolist() == [1.0, 1.0]
    assert ops.any(x, axis=1).tolist() == [False, False]
    assert ops.all(x, axis=1).tolist() == [True, True]
    assert np.isnan(ops.mean(x, axis=1).numpy()).all()
    assert np.isnan(ops.var(array([1.0]), correction=1).numpy())


@pytest.mark.parametrize("op", [ops.max, ops.min, ops.argmax, ops.argmin])
def test_a_choice_from_nothing_is_refused(array, op):
    with pytest.raises(ShapeError, match=rf"{op.name}: needs at least one element along axis, got"):
        op(array(np.zeros((2, 0), np.float32)), axis=1)
    assert op(array(np.zeros((0, 2), np.float32)), axis=1).shape == (0,)


def test_an_axis_outside_or_twice_is_refused(array):
    with pytest.raises(
        ShapeError, match=r"sum: needs -2 <= axis < 2, got 2\n  x: float32 \(2, 3\)"
    ):
        ops.sum(array(X), axis=2)
    with pytest.raises(ShapeError, match=r"mean: needs each axis once, got \(0, -2\)"):
        ops.mean(array(X), axis=(0, -2))


# -- dtypes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "total", "mean"),
    [("bool", "int64", "float32"), ("int8", "int64", "float32"), ("uint8", "uint64", "float32"),
     ("float16", "float16", "float16"), ("float64", "float64", "float64")],
)  # fmt: skip
def test_what_sums_and_means_are_kept_in(array, dtype, total, mean):
    x = array([1, 1, 0, 1], dtype)
    assert (
        ops.sum(x).dtype.name == ops.prod(x).dtype.name == ops.cumsum(x, axis=0).dtype.name == total
    )
    assert ops.mean(x).dtype.name == mean
    assert (ops.sum(x).item(), ops.mean(x).item()) == (3, 0.75)


def test_float16_is_summed_in_float32(array):
    x = array(np.full(4096, 32.0), "float16")
    assert ops.mean(x).item() == 32.0  # the sum itself, 131072, is beyond float16
    assert ops.norm(array([300.0, 400.0], "float16")).item() == 500.0  # and so are the squares
    ones = array(np.ones(4096), "float16")
    assert ops.sum(ones).item() == 4096.0  # ones added in float16 stop at 2048


def test_nan_is_the_largest_and_the_smallest(array):
    x = array([1.0, math.nan, 3.0])
    assert math.isnan(ops.max(x).item())
    assert math.isnan(ops.min(x).item())
    assert ops.argmax(x).item() == ops.argmin(x).item() == 1


def test_bool_and_first_of_equals(array):
    assert ops.max(array([False, True])).item() is True
    assert ops.argmax(array([2, 7, 7])).item() == 1


# -- norms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "expected"),
    [(2, 5.0), (1, 7.0), (math.inf, 4.0), (-math.inf, 0.0), (0, 2.0), (3, 91 ** (1 / 3))],
)
def test_vector_norms(array, order, expected):
    x = array([[3.0, -4.0, 0.0]])
    y = both(lambda v: ops.vector_norm(v, order, axis=1), x)
    np.testing.assert_allclose(y.numpy(), [expected], rtol=1e-6)
    assert ops.vector_norm(x, order, keepdims=True).shape == (1, 1)


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, math.inf, -math.inf])
def test_norms_and_their_gradients_are_the_peer_s_at_zeros_and_ties(device, order):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    x = np.array([[0.0, 0.0, 0.0], [0.0, 2.0, -2.0], [3.0, -4.0, 1.0], [math.inf, 0.5, 1.0]])
    rows = x if order != 0.5 else x[:3]  # inf * 0 there, which the peer calls infinite
    check_against_torch(
        lambda v: ops.vector_norm(v, order, axis=1),
        lambda v: torch.linalg.vector_norm(v, order, dim=1),
        device,
        rows,
    )


def test_norms_of_half_floats_do_not_overflow_on_the_way(array):
    x = array([60.0, 80.0], "float16")
    assert ops.vector_norm(x, 3).item() == pytest.approx((60.0**3 + 80.0**3) ** (1 / 3), rel=1e-3)


def test_a_norm_by_name_is_refused(array):
    with pytest.raises(ArgumentError, match=r"vector_norm: needs a number as ord, got 'fro'"):
        ops.vector_norm(array([1.0]), "fro")


# -- gradients at special places ----------------------------------------------------------------------


def test_elements_that_tie_share_the_gradient_evenly(array):
    x = array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], requires_grad=True)
    third = pytest.approx([1 / 3] * 3)
    assert gradients(ops.max(x, axis=1).sum(), x).tolist() == [[0.0, 0.5, 0.5], third]
    assert gradients(ops.min(x, axis=1).sum(), x).tolist() == [[1.0, 0.0, 0.0], third]


def test_the_gradient_of_a_product_with_zeros(device, array):
    x = array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0]], requires_grad=True)
    assert gradients(ops.prod(x, axis=1).sum(), x).tolist() == [[0.0, 6.0, 0.0], [0.0, 0.0, 0.0]]
    zeros = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0]])
    check_gradients(lambda v: ops.prod(v, axis=1), device, zeros, order=2)
    check_gradients(lambda v: ops.cumprod(v, axis=1), device, zeros, order=2)


def test_the_norm_of_zeros_has_gradient_zero(array):
    x = array([0.0, 0.0], requires_grad=True)
    assert gradients(ops.norm(x), x).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gradients_of_running_ops(device, axis):
    check_gradients(lambda x: ops.cumsum(x, axis=axis), device, random(3, 5, 2))
    check_gradients(lambda x: ops.cumprod(x, axis=axis), device, random(3, 5, 2), order=2)


@pytest.mark.parametrize(
    "op", [ops.sum, ops.prod, ops.max, ops.mean, ops.var, ops.norm, ops.logsumexp]
)
@pytest.mark.parametrize("axis", [None, 1, (0, -1), ()])
def test_gradients_along_axes(device, op, axis):
    check_gradients(lambda x: op(x, axis=axis), device, random(2, 3, 2))


# -- laws -------------------------------------------------------------------------------------------


def test_a_variance_does_not_change_with_the_mean(array):
    x = random(1000).astype(np.float64)
    near, far = ops.var(array(x)).item(), ops.var(array(x + 1e6)).item()
    assert far == pytest.approx(near, rel=1e-8)  # mean of squares minus square of mean would be off


def test_correction_rescales(array):
    x = array(random(7))
    assert ops.var(x, correction=1).item() == pytest.approx(ops.var(x).item() * 7 / 6, rel=1e-6)


def test_axis_after_axis_is_all_axes(array):
    x = array(np.arange(24).reshape(2, 3, 4))
    assert ops.sum(ops.sum(x, axis=0), axis=1).tolist() == ops.sum(x, axis=(0, 2)).tolist()
    assert ops.cumsum(x, axis=1)[:, -1].tolist() == ops.sum(x, axis=1).tolist()


def test_text_is_no_axis(array):
    with pytest.raises(ArgumentError, match="sum: needs an integer axis, or several, got '0'"):
        ops.sum(array(X), axis="0")
