"""Pooling: values by hand, a peer, ties and NaN, and what is said when it does not fit."""

import math

import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, random
from singa_core import ops
from singa_core.autograd import gradients
from singa_core.errors import ArgumentError, DTypeError, ShapeError

# x, attributes of max_pool; torch calls `kernel` kernel_size
WINDOWS = {
    "1d": ((2, 3, 9), {"kernel": 3}),
    "2x2": ((2, 3, 8, 6), {"kernel": 2}),
    "with a rest": ((2, 3, 7, 9), {"kernel": (2, 3)}),
    "overlapping": ((2, 2, 7, 8), {"kernel": 3, "stride": 2}),
    "padded": ((2, 2, 7, 8), {"kernel": 3, "stride": 2, "padding": 1}),
    "sparse": ((1, 2, 9, 9), {"kernel": 2, "stride": 3}),
    "rounded up": ((1, 2, 7, 8), {"kernel": 3, "stride": 2, "ceil_mode": True}),
    "rounded up, padded": ((1, 2, 6, 7), {"kernel": 3, "stride": (2, 3), "padding": 1, "ceil_mode": True}),
    "rounded up, sparse": ((1, 1, 5, 6), {"kernel": 2, "stride": 4, "padding": 1, "ceil_mode": True}),
    "3d": ((1, 2, 4, 5, 4), {"kernel": 2, "stride": (2, 1, 2)}),
}  # fmt: skip
DILATED = {
    "dilated": ((1, 2, 9, 8), {"kernel": 3, "stride": 1, "dilation": (2, 1), "padding": 1}),
    "dilated 1d": ((1, 2, 12), {"kernel": 2, "stride": 2, "dilation": 3, "ceil_mode": True}),
}


def torch_pool(name, rank):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    function = getattr(torch.nn.functional, f"{name}{rank}d")

    def call(x, *, kernel, **attrs):
        return function(x, kernel, **attrs)

    return call


def distinct(*shape, seed=0):
    """Values far apart from each other, so that no maximum is near another one."""
    values = np.random.default_rng([seed, *shape]).permutation(math.prod(shape))
    return (values.reshape(shape) * 0.1 - 3).astype(np.float32)


# -- the largest -------------------------------------------------------------------------------------


def test_max_by_hand(array):
    x = array([[[[1.0, 5.0, 2.0], [4.0, 3.0, 9.0], [7.0, 8.0, 6.0]]]])
    assert both(lambda x: ops.max_pool(x, kernel=2), x).tolist() == [[[[5.0]]]]
    y = both(lambda x: ops.max_pool(x, kernel=2, stride=1), x)
    assert y.tolist() == [[[[5.0, 9.0], [8.0, 9.0]]]]
    y = both(lambda x: ops.max_pool(x, kernel=2, ceil_mode=True), x)
    assert y.tolist() == [[[[5.0, 9.0], [8.0, 6.0]]]]
    y = both(lambda x: ops.max_pool(-x, kernel=3, stride=2, padding=1), x)
    assert y.tolist() == [[[[-1.0, -2.0], [-3.0, -3.0]]]]  # padding is never chosen


@pytest.mark.parametrize("name", [*WINDOWS, *DILATED])
def test_max_against_torch(device, name):
    shape, attrs = {**WINDOWS, **DILATED}[name]
    theirs = torch_pool("max_pool", len(shape) - 2)
    check_against_torch(
        lambda x: ops.max_pool(x, **attrs), lambda x: theirs(x, **attrs), device, distinct(*shape)
    )


@pytest.mark.parametrize("name", ["2x2", "overlapping", "padded", "with a rest"])
def test_of_equal_elements_the_first_gets_the_gradient(device, name):
    """Few different values, so that most windows have ties."""
    shape, attrs = WINDOWS[name]
    theirs = torch_pool("max_pool", len(shape) - 2)
    x = np.random.default_rng(0).integers(0, 2, shape).astype(np.float32)
    check_against_torch(lambda x: ops.max_pool(x, **attrs), lambda x: theirs(x, **attrs), device, x)
    zeros = np.where(x > 0, 0.0, -0.0).astype(np.float32)  # equal, though their bits differ
    check_against_torch(
        lambda x: ops.max_pool(x, **attrs), lambda x: theirs(x, **attrs), device, zeros
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["1d", "padded", "dilated"])
def test_max_gradients(device, name, order):
    shape, attrs = {**WINDOWS, **DILATED}[name]
    check_gradients(
        lambda x: ops.max_pool(x * x * x, **attrs), device, distinct(*shape), order=order, rtol=1e-5
    )


def test_nan_wins_and_infinities_are_numbers(array):
    inf, nan = math.inf, math.nan
    x = array([[[1.0, nan, -inf, -inf, inf, inf, nan, nan]]])
    y = both(lambda x: ops.max_pool(x, kernel=2), x)
    np.testing.assert_array_equal(y.numpy(), [[[nan, -inf, inf, nan]]])
    x.requires_grad = True
    y = ops.max_pool(x, kernel=2)
    (dx,) = gradients([y], [x], [array([[[1.0, 2.0, 3.0, 4.0]]])])
    pairs = dx.numpy().reshape(4, 2)
    np.testing.assert_array_equal(pairs.sum(axis=1), [1.0, 2.0, 3.0, 4.0])  # nothing is lost
    np.testing.assert_array_equal(pairs[1:3], [[2.0, 0.0], [3.0, 0.0]])


def test_max_of_integers(array):
    y = both(lambda x: ops.max_pool(x, kernel=2, stride=1, padding=1), array([[[-5, -7]]], "int32"))
    assert (y.dtype.name, y.tolist()) == ("int32", [[[-5, -5, -7]]])
    y = ops.max_pool(array([[[0, 3]]], "uint8"), kernel=3, stride=1, padding=1)
    assert y.tolist() == [[[3, 3]]]


# -- the mean ----------------------------------------------------------------------------------------


def test_mean_by_hand(array):
    x = array([[[[1.0, 5.0, 2.0], [4.0, 2.0, 9.0], [7.0, 8.0, 6.0]]]])
    assert both(lambda x: ops.avg_pool(x, kernel=2), x).tolist() == [[[[3.0]]]]
    y = both(lambda x: ops.avg_pool(x, kernel=2, ceil_mode=True), x)
    assert y.tolist() == [[[[3.0, 5.5], [7.5, 6.0]]]]
    y = both(lambda x: ops.avg_pool(x, kernel=2, stride=2, padding=((1, 0), 0)), x)
    assert y.tolist() == [[[[1.5], [5.25]]]]  # (0 + 0 + 1 + 5) / 4
    y = both(lambda x: ops.avg_pool(x, kernel=2, padding=((1, 0), 0), count_include_pad=False), x)
    assert y.tolist() == [[[[3.0], [5.25]]]]


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("include", [True, False])
def test_mean_against_torch(device, name, include):
    shape, attrs = WINDOWS[name]
    attrs = {**attrs, "count_include_pad": include}
    theirs = torch_pool("avg_pool", len(shape) - 2)
    check_against_torch(
        lambda x: ops.avg_pool(x, **attrs), lambda x: theirs(x, **attrs), device, random(*shape)
    )


@pytest.mark.parametrize("order", [1, 2])
def test_mean_gradients(device, order):
    attrs = {"kernel": 3, "stride": 2, "padding": 1, "count_include_pad": False}
    x = random(2, 2, 5, 6)
    check_gradients(lambda x: ops.avg_pool(x * x * x, **attrs), device, x, order=order, rtol=1e-5)


def test_mean_of_integers_is_float32(array):
    y = ops.avg_pool(array([[[1, 2]]]), kernel=2)
    assert (y.dtype.name, y.tolist()) == ("float32", [[[1.5]]])


def test_mean_of_float16_is_added_up_in_float32(array):
    y = ops.avg_pool(array(np.full((1, 1, 4096), 3.0), "float16"), kernel=4096)
    assert (y.dtype.name, y.tolist()) == ("float16", [[[3.0]]])


# -- whole images ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "size"),
    [((2, 3, 7), (3,)), ((2, 3, 6, 8), (2, 4)), ((2, 3, 5, 7), (3, 2)), ((1, 2, 3, 4), (5, 4))],
)
def test_adaptive_against_torch(device, shape, size):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    theirs = getattr(torch.nn.functional, f"adaptive_avg_pool{len(size)}d")
    check_against_torch(
        lambda x: ops.adaptive_avg_pool(x, size=size), lambda x: theirs(x, size), device,
        random(*shape),
    )  # fmt: skip


def test_global_pools(array):
    x = array([[[[1.0, 5.0], [4.0, 2.0]], [[0.0, 0.0], [0.0, 8.0]]]])
    assert both(ops.global_avg_pool, x).tolist() == [[[[3.0]], [[2.0]]]]
    assert both(ops.global_max_pool, x).tolist() == [[[[5.0]], [[8.0]]]]
    assert ops.adaptive_avg_pool(x, size=1).tolist() == [[[[3.0]], [[2.0]]]]


# -- what is said ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
def test_pooling_names_the_broken_rule(array, name):
    op, x = getattr(ops, name), array(np.zeros((1, 2, 4, 6), np.float32))
    rule = r"size \+ padding >= dilation \* \(kernel - 1\) \+ 1 on every spatial axis, got 4 \+ 0 < 5 on spatial axis 0"
    with pytest.raises(ShapeError, match=rf"^{name}: needs {rule}"):
        op(x, kernel=5)
    rule = r"padding smaller than the window, which would see nothing else, got \(\(2, 2\), \(0, 0\)\) and windows of \(2, 2\)"
    with pytest.raises(ArgumentError, match=rf"^{name}: needs {rule}"):
        op(x, kernel=2, padding=(2, 0))
    with pytest.raises(
        ArgumentError, match=rf"^{name}: needs kernel: an integer >= 1, or one for each of 2"
    ):
        op(x, kernel=(2, 2, 2))
    with pytest.raises(ArgumentError, match="stride: an integer >= 1, .* got 0"):
        op(x, kernel=2, stride=0)
    rule = r"x \(n, c, \*size\) with at least 3 axes and spatial sizes >= 1, got \(2, 3\)\n  x: float32 \(2, 3\)"
    with pytest.raises(ShapeError, match=rf"^{name}: needs {rule}"):
        op(array(np.zeros((2, 3), np.float32)), kernel=2)
    with pytest.raises(ShapeError, match=r"spatial sizes >= 1, got \(1, 1, 0\)"):
        op(array(np.zeros((1, 1, 0), np.float32)), kernel=2)


def test_gradients_name_the_broken_rule(array):
    x, y = array(np.zeros((1, 1, 4), np.float32)), array(np.zeros((1, 1, 3), np.float32))
    with pytest.raises(
        ShapeError, match=r"^max_pool_grad: needs grad and y of shape \(1, 1, 2\), got \(1, 1, 3\)"
    ):
        ops.max_pool_grad(y, x, y, kernel=2)
    with pytest.raises(
        ShapeError, match=r"^avg_pool_grad: needs grad.shape\[2:\] == \(2,\), got \(3,\)"
    ):
        ops.avg_pool_grad(y, size=(4,), kernel=2)


def test_whole_images_name_the_broken_rule(array):
    x = array(np.zeros((2, 3), np.float32))
    for name in ("global_avg_pool", "global_max_pool"):
        with pytest.raises(ShapeError, match=f"^{name}: needs x "):
            getattr(ops, name)(x)
    with pytest.raises(ArgumentError, match="adaptive_avg_pool: needs size: an integer >= 1"):
        ops.adaptive_avg_pool(array(np.zeros((1, 1, 4), np.float32)), size=0)


def test_bool_has_no_largest(array):
    with pytest.raises(DTypeError, match="max_pool: needs a number dtype"):
        ops.max_pool(array(np.zeros((1, 1, 4), bool)), kernel=2)
