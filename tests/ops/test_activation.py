"""Activations: values by hand, against a peer, at the ends, at kinks."""

import math

import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, random
from singa_core import ops
from singa_core.autograd import gradients
from singa_core.conformance.oracles import ORACLES
from singa_core.errors import ArgumentError, ShapeError

E = math.e
GOLDEN = [
    (ops.relu, {}, [-1.0, 0.0, 2.0], [0.0, 0.0, 2.0]),
    (ops.relu6, {}, [-1.0, 3.0, 9.0], [0.0, 3.0, 6.0]),
    (ops.sigmoid, {}, [0.0, math.log(3.0), -math.log(3.0)], [0.5, 0.75, 0.25]),
    (ops.log_sigmoid, {}, [0.0, math.log(3.0)], [-math.log(2.0), math.log(0.75)]),
    (ops.softplus, {}, [0.0, math.log(3.0)], [math.log(2.0), math.log(4.0)]),
    (ops.softplus, {"beta": 2.0}, [0.0], [math.log(2.0) / 2]),
    (ops.silu, {}, [0.0, math.log(3.0)], [0.0, 0.75 * math.log(3.0)]),
    (ops.gelu, {}, [0.0, 1.0, -1.0], [0.0, 0.8413447, -0.1586553]),
    (ops.gelu, {"approximate": "tanh"}, [0.0, 1.0, -1.0], [0.0, 0.8411920, -0.1588080]),
    (ops.mish, {}, [0.0, 1.0], [0.0, 0.8650984]),
    (ops.leaky_relu, {}, [-1.0, 2.0], [-0.01, 2.0]),
    (ops.leaky_relu, {"alpha": 0.2}, [-1.0, 2.0], [-0.2, 2.0]),
    (ops.elu, {}, [-1.0, 2.0], [1 / E - 1, 2.0]),
    (ops.elu, {"alpha": 2.0}, [-1.0, 2.0], [2 / E - 2, 2.0]),
    (ops.celu, {"alpha": 2.0}, [-2.0, 2.0], [2 / E - 2, 2.0]),
    (ops.selu, {}, [-1.0, 1.0], [-1.1113307, 1.0507010]),
    (ops.hard_sigmoid, {}, [-4.0, 0.0, 1.5, 4.0], [0.0, 0.5, 0.75, 1.0]),
    (ops.hard_swish, {}, [-4.0, 1.5, 4.0], [0.0, 1.125, 4.0]),
    (ops.hard_tanh, {}, [-4.0, 0.5, 4.0], [-1.0, 0.5, 1.0]),
    (ops.softsign, {}, [-1.0, 3.0], [-0.5, 0.75]),
    (ops.hard_shrink, {}, [-1.0, 0.3, 1.0], [-1.0, 0.0, 1.0]),
    (ops.soft_shrink, {}, [-1.0, 0.3, 1.0], [-0.5, 0.0, 0.5]),
    (ops.tanh_shrink, {}, [math.log(2.0)], [math.log(2.0) - 0.6]),
    (ops.threshold, {"limit": 1.0, "value": -5.0}, [0.5, 2.0], [-5.0, 2.0]),
    (ops.glu, {}, [3.0, 8.0, 0.0, math.log(3.0)], [1.5, 6.0]),
]


def named(op):
    return getattr(op, "name", None) or op.__name__


@pytest.mark.parametrize(("op", "attrs", "x", "y"), GOLDEN, ids=[named(op) for op, *_ in GOLDEN])
def test_values_worked_by_hand(array, op, attrs, x, y):
    got = both(lambda v: op(v, **attrs), array(x))
    np.testing.assert_allclose(got.numpy(), y, rtol=1e-5, atol=1e-7)


PEERS = {
    "relu": (ops.relu, "relu", {}),
    "sigmoid": (ops.sigmoid, "sigmoid", {}),
    "log_sigmoid": (ops.log_sigmoid, "logsigmoid", {}),
    "softplus": (ops.softplus, "softplus", {}),
    "silu": (ops.silu, "silu", {}),
    "gelu": (ops.gelu, "gelu", {}),
    "mish": (ops.mish, "mish", {}),
    "elu": (ops.elu, "elu", {}),
    "celu": (ops.celu, "celu", {}),
    "selu": (ops.selu, "selu", {}),
    "leaky_relu": (ops.leaky_relu, "leaky_relu", {}),
    "hard_sigmoid": (ops.hard_sigmoid, "hardsigmoid", {}),
    "hard_swish": (ops.hard_swish, "hardswish", {}),
    "softsign": (ops.softsign, "softsign", {}),
    "glu": (ops.glu, "glu", {}),
}


@pytest.mark.parametrize("name", PEERS)
def test_values_and_gradients_are_the_peers(device, name):
    ours, theirs, options = PEERS[name]
    functional = pytest.importorskip(
        "torch.nn.functional", reason="torch is the oracle of this test"
    )
    peer = getattr(functional, theirs)
    check_against_torch(
        ours, lambda x: peer(x, **options), device, random(5, 8, low=-4.0, high=4.0)
    )


@pytest.mark.parametrize(
    ("op", "attrs"),
    [(op, attrs) for op, attrs, *_ in GOLDEN if op is not ops.glu],
    ids=[named(op) for op, *_ in GOLDEN if op is not ops.glu],
)
def test_gradients(device, op, attrs):
    check_gradients(lambda x: op(x, **attrs), device, [0.3, 1.7, -0.3, -1.7, 0.8, -0.8, 2.2])


SMOOTH = [ops.sigmoid, ops.log_sigmoid, ops.softplus, ops.silu, ops.gelu, ops.mish, ops.softsign]


@pytest.mark.parametrize("op", SMOOTH, ids=named)
def test_second_derivatives(device, op):
    check_gradients(op, device, [0.3, 1.7, -0.3, -1.7], order=2)


def test_the_tanh_formula_has_its_own_gradient(device):
    check_gradients(lambda x: ops.gelu(x, approximate="tanh"), device, random(6), order=2)


def test_large_values_overflow_nowhere(array):
    x = array([-1e4, 1e4, -100.0, 100.0], requires_grad=True)
    for op, expected in [
        (ops.sigmoid, [0.0, 1.0, 0.0, 1.0]),
        (ops.softplus, [0.0, 1e4, 0.0, 100.0]),
        (ops.log_sigmoid, [-1e4, 0.0, -100.0, 0.0]),
        (ops.silu, [0.0, 1e4, 0.0, 100.0]),
        (ops.gelu, [0.0, 1e4, 0.0, 100.0]),
        (ops.elu, [-1.0, 1e4, -1.0, 100.0]),
        (ops.mish, [0.0, 1e4, 0.0, 100.0]),
    ]:
        y = op(x)
        np.testing.assert_allclose(y.numpy(), expected, atol=1e-30, rtol=1e-6)
        assert np.isfinite(gradients(y.sum(), x).numpy()).all(), op


def test_kinks_have_the_left_slope_and_relu_has_0(array):
    x = array([0.0], requires_grad=True)
    assert gradients(ops.relu(x).sum(), x).tolist() == [0.0]
    assert gradients(ops.leaky_relu(x, alpha=0.1).sum(), x).tolist() == [pytest.approx(0.1)]


def test_relu_keeps_nan(array):
    assert math.isnan(ops.relu(array(math.nan)).item())


def test_prelu_learns_its_slope(array, device):
    w = array([0.5, 0.25], requires_grad=True)
    y = ops.prelu(array([[-2.0, 3.0], [4.0, -8.0]]), w)
    assert y.tolist() == [[-1.0, 3.0], [4.0, -2.0]]
    assert gradients(y.sum(), w).tolist() == [-2.0, -8.0]
    check_gradients(ops.prelu, device, random(3, 2), random(2, seed=1))


def test_laws(array):
    x = array(random(50, low=-4.0, high=4.0))
    one = (ops.sigmoid(x) + ops.sigmoid(-x)).numpy()
    np.testing.assert_allclose(one, 1.0, rtol=1e-6)
    np.testing.assert_allclose((ops.softplus(x) - ops.softplus(-x)).numpy(), x.numpy(), atol=1e-6)
    np.testing.assert_array_equal((ops.relu(x) - ops.relu(-x)).numpy(), x.numpy())
    np.testing.assert_allclose((ops.gelu(x) - ops.gelu(-x)).numpy(), x.numpy(), atol=1e-6)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("size", [5, 70000])  # in one chunk, and in several that threads share
def test_gelu_and_its_gradient_of_many_elements(array, approximate, size):
    x = np.random.default_rng(0).normal(size=size).astype(np.float32) * 3
    grad = np.random.default_rng(1).normal(size=size).astype(np.float32)
    y = ops.gelu(array(x), approximate=approximate)
    dx = ops.gelu_grad(array(grad), array(x), approximate=approximate)
    np.testing.assert_allclose(
        y.numpy(), ORACLES["gelu"](x, approximate=approximate), rtol=1e-5, atol=2e-6
    )
    wanted = ORACLES["gelu_grad"](grad, x, approximate=approximate)
    np.testing.assert_allclose(dx.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_integers_give_float32(array):
    assert ops.relu(array([-1, 2])).dtype.name == "float32"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ops.gelu(x, approximate="erf"), ArgumentError, r"gelu: needs approximate among none, tanh, got 'erf'"),
        (lambda x: ops.softplus(x, beta=0.0), ArgumentError, r"softplus: needs a number 0 < beta < inf, got 0.0"),
        (lambda x: ops.glu(x), ShapeError, r"glu: needs an even x.shape\[0\], got 3"),
        (lambda x: ops.relu_grad(x, x[:2]), ShapeError, r"relu_grad: needs grad.shape == y.shape, got \(3,\) != \(2,\)"),
        (lambda x: ops.gelu_grad(x, x[:2]), ShapeError, r"gelu_grad: needs grad.shape == x.shape, got \(3,\) != \(2,\)"),
        (lambda x: ops.relu(x, alpha=1.0), ArgumentError, r"relu: needs attributes among \(none\), got alpha"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named(array, call, error, text):
    with pytest.raises(error, match=text):
        call(array([1.0, 2.0, 3.0]))
