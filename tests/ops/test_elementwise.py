"""Scalar functions, pairs, comparison and logic: values worked by hand, laws, gradients, errors."""

import math

import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, random
from singa_core import ops
from singa_core.autograd import gradients
from singa_core.errors import DeviceError, DTypeError, ShapeError
from singa_core.tensor import tensor

GOLDEN = [
    (ops.neg, [1, -2, 0], [-1, 2, 0]),
    (ops.abs, [-1.5, 0.0, 2.0], [1.5, 0.0, 2.0]),
    (ops.sign, [-3.0, 0.0, 5.0], [-1.0, 0.0, 1.0]),
    (ops.floor, [1.7, -1.2, 3.0], [1.0, -2.0, 3.0]),
    (ops.ceil, [1.2, -1.7, 3.0], [2.0, -1.0, 3.0]),
    (ops.trunc, [1.7, -1.7, 3.0], [1.0, -1.0, 3.0]),
    (ops.round, [0.5, 1.5, 2.5, -0.5, -1.4], [0.0, 2.0, 2.0, 0.0, -1.0]),
    (ops.exp, [0.0, math.log(2.0)], [1.0, 2.0]),
    (ops.exp2, [3.0, -1.0], [8.0, 0.5]),
    (ops.expm1, [0.0, 1e-10, math.log(3.0)], [0.0, 1e-10, 2.0]),
    (ops.log, [1.0, math.e], [0.0, 1.0]),
    (ops.log2, [8.0, 0.25], [3.0, -2.0]),
    (ops.log10, [1000.0, 0.1], [3.0, -1.0]),
    (ops.log1p, [0.0, 1e-10, math.e - 1.0], [0.0, 1e-10, 1.0]),
    (ops.sqrt, [4.0, 0.25], [2.0, 0.5]),
    (ops.rsqrt, [4.0, 0.25], [0.5, 2.0]),
    (ops.cbrt, [8.0, -27.0, 0.0], [2.0, -3.0, 0.0]),
    (ops.square, [3, -4], [9, 16]),
    (ops.reciprocal, [4.0, -0.5], [0.25, -2.0]),
    (ops.sin, [0.0, math.pi / 2], [0.0, 1.0]),
    (ops.cos, [0.0, math.pi], [1.0, -1.0]),
    (ops.tan, [0.0, math.pi / 4], [0.0, 1.0]),
    (ops.asin, [-1.0, 0.0, 0.5, 1.0], [-math.pi / 2, 0.0, math.pi / 6, math.pi / 2]),
    (ops.acos, [-1.0, 0.0, 0.5, 1.0], [math.pi, math.pi / 2, math.pi / 3, 0.0]),
    (ops.atan, [1.0, -math.inf], [math.pi / 4, -math.pi / 2]),
    (ops.sinh, [0.0, 1e-10, math.log(2.0)], [0.0, 1e-10, 0.75]),
    (ops.cosh, [0.0, math.log(2.0)], [1.0, 1.25]),
    (ops.tanh, [0.0, math.log(2.0), 50.0], [0.0, 0.6, 1.0]),
    (
        ops.asinh,
        [0.0, 1e-10, 0.75, -0.75, 1e30],
        [0.0, 1e-10, math.log(2.0), -math.log(2.0), 69.7707],
    ),
    (ops.acosh, [1.0, 1.25], [0.0, math.log(2.0)]),
    (ops.atanh, [0.0, 0.6, -0.6], [0.0, math.log(2.0), -math.log(2.0)]),
    (ops.erf, [0.0, 0.5, -2.0, 9.0], [0.0, 0.5204999, -0.9953223, 1.0]),
    (ops.bit_not, [0, 5, -1], [-1, -6, 0]),
    (ops.logical_not, [0, 3], [True, False]),
    (ops.isnan, [1.0, math.nan, math.inf], [False, True, False]),
    (ops.isinf, [1.0, math.nan, -math.inf], [False, False, True]),
    (ops.isfinite, [1.0, math.nan, math.inf], [True, False, False]),
]


@pytest.mark.parametrize(("op", "x", "y"), GOLDEN, ids=[op.name for op, *_ in GOLDEN])
def test_values_worked_by_hand(array, op, x, y):
    got = both(op, array(x)).numpy()
    np.testing.assert_allclose(got, y, rtol=1e-6, atol=1e-7 * (op is not ops.expm1))


PAIRS = [
    (ops.add, [1, 2], [10, 20], [11, 22]),
    (ops.sub, [1, 2], [10, 20], [-9, -18]),
    (ops.mul, [2, -3], [4, 5], [8, -15]),
    (ops.div, [1.0, -3.0], [4.0, 2.0], [0.25, -1.5]),
    (ops.floor_divide, [7, -7, 7, -7], [2, 2, -2, -2], [3, -4, -4, 3]),
    (ops.remainder, [7, -7, 7, -7], [3, 3, -3, -3], [1, 2, -2, -1]),
    (ops.remainder, [5.5, -5.5], [2.0, 2.0], [1.5, 0.5]),
    (ops.pow, [2.0, 9.0, 0.0, -2.0], [-1.0, 0.5, 0.0, 3.0], [0.5, 3.0, 1.0, -8.0]),
    (ops.pow, [2, -3, 5, 1, -1], [3, 2, -1, -9, -3], [8, 9, 0, 1, -1]),
    (ops.maximum, [1, 5], [3, 2], [3, 5]),
    (ops.minimum, [1, 5], [3, 2], [1, 2]),
    (ops.atan2, [1.0, 1.0, -1.0, 0.0], [1.0, -1.0, -1.0, -1.0],
     [math.pi / 4, 3 * math.pi / 4, -3 * math.pi / 4, math.pi]),
    (ops.hypot, [3.0, 0.0, 3e30], [4.0, 0.0, 4e30], [5.0, 0.0, 5e30]),
    (ops.logaddexp, [0.0, 1000.0], [math.log(3.0), 1000.0], [math.log(4.0), 1000.0 + math.log(2.0)]),
    (ops.equal, [1, 2], [1, 3], [True, False]),
    (ops.not_equal, [1, 2], [1, 3], [False, True]),
    (ops.less, [1, 2, 3], [2, 2, 2], [True, False, False]),
    (ops.less_equal, [1, 2, 3], [2, 2, 2], [True, True, False]),
    (ops.greater, [1, 2, 3], [2, 2, 2], [False, False, True]),
    (ops.greater_equal, [1, 2, 3], [2, 2, 2], [False, True, True]),
    (ops.bit_and, [6, -1], [3, 5], [2, 5]),
    (ops.bit_or, [6, 0], [3, 5], [7, 5]),
    (ops.bit_xor, [6, -1], [3, 5], [5, -6]),
    (ops.shift_left, [1, 3, 1], [4, 1, 64], [16, 6, 0]),
    (ops.shift_right, [16, -7, -1], [4, 1, 99], [1, -4, -1]),
    (ops.logical_and, [0, 2, 2], [1, 0, 3], [False, False, True]),
    (ops.logical_or, [0, 2, 0], [1, 0, 0], [True, True, False]),
    (ops.logical_xor, [0, 2, 2], [1, 0, 3], [True, True, False]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "a", "b", "y"), PAIRS, ids=[op.name for op, *_ in PAIRS])
def test_pairs_worked_by_hand(array, op, a, b, y):
    got = both(op, array(a), array(b)).numpy()
    np.testing.assert_allclose(got, y, rtol=1e-6)
    assert got.dtype == (np.asarray(y).dtype if got.dtype != np.float32 else np.float32)


# -- edges ------------------------------------------------------------------------------------------


def test_division_by_zero_is_ieees(array):
    y = ops.div(array([1.0, -1.0, 0.0]), array([0.0, 0.0, 0.0])).tolist()
    assert y[:2] == [math.inf, -math.inf]
    assert math.isnan(y[2])


def test_nan_is_kept_by_extremes_and_differs_from_itself(array):
    x = array([math.nan, 1.0])
    assert np.isnan(ops.maximum(x, 0.0).numpy()).tolist() == [True, False]
    assert np.isnan(ops.minimum(x, 0.0).numpy()).tolist() == [True, False]
    assert ops.equal(x, x).tolist() == [False, True]
    assert ops.not_equal(x, x).tolist() == [True, False]


def test_atan2_tells_the_quadrant_of_zeros_and_infinities(array):
    inf = math.inf
    a, b = [0.0, -0.0, 0.0, -0.0, inf, -inf, inf, 1.0], [1.0, 1.0, -1.0, -1.0, inf, -inf, -inf, inf]
    y = ops.atan2(array(a), array(b)).numpy()
    np.testing.assert_allclose(y, np.arctan2(a, b), rtol=1e-6)
    assert np.signbit(y).tolist() == np.signbit(np.arctan2(a, b)).tolist()


def test_large_values_do_not_overflow_on_the_way(array):
    x = array([89.0, -89.0])  # e**89 is beyond float32, sinh(89) is not
    np.testing.assert_allclose(ops.sinh(x).numpy(), np.sinh([89.0, -89.0]), rtol=1e-5)
    np.testing.assert_allclose(ops.cosh(x).numpy(), np.cosh([89.0, -89.0]), rtol=1e-5)
    y = ops.logaddexp(array([-math.inf, math.inf]), array([-math.inf, 0.0]))
    assert y.tolist() == [-math.inf, math.inf]


def test_unsigned_and_small_integers_wrap_around(array):
    assert ops.sub(array([0], "uint8"), array([1], "uint8")).tolist() == [255]
    assert ops.add(array([127], "int8"), array([1], "int8")).tolist() == [-128]
    assert ops.neg(array([1], "uint8")).tolist() == [255]


def test_whole_numbers_stay_integers_when_rounded(array):
    x = array([2**53 + 1])
    for op in (ops.floor, ops.ceil, ops.round, ops.trunc):
        assert op(x).tolist() == [2**53 + 1]


# -- dtypes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("int32", "float32", "float32"),
        ("int64", "float16", "float16"),
        ("uint8", "int8", "int16"),
        ("bool", "int32", "int32"),
        ("float32", "float64", "float64"),
    ],
)
def test_operands_meet_in_one_dtype(array, a, b, expected):
    y = ops.add(array([1], a), array([1], b))
    assert (y.dtype.name, y.tolist()) == (expected, [2])


def test_a_python_number_takes_the_tensors_dtype(array):
    assert ops.add(array([1], "int8"), 1).dtype.name == "int8"
    assert ops.mul(array([1.0], "float16"), 2.5).dtype.name == "float16"
    assert ops.mul(array([1], "int64"), 0.5).dtype.name == "float32"
    assert ops.mul(array([1], "int64"), 0.5).tolist() == [0.5]
    assert ops.add(True, array([1], "int32")).dtype.name == "int32"


def test_real_functions_of_integers_give_float32(array):
    for y in (ops.div(array([1]), array([2])), ops.exp(array([0])), ops.sqrt(array([True]))):
        assert y.dtype.name == "float32"
    assert ops.div(array([1]), array([2])).tolist() == [0.5]


def test_a_number_that_the_dtype_cannot_hold_is_refused(array):
    with pytest.raises(DTypeError, match=r"add: needs a number in the range of int8, got 300"):
        ops.add(array([1], "int8"), 300)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: ops.neg(x > 0),
            r"neg: needs a number dtype \(an integer or a float\), got bool",
        ),
        (
            lambda x: ops.bit_and(x, x),
            r"bit_and: needs bool or an integer dtype, got float32\n  a: ",
        ),
        (lambda x: ops.shift_left(x > 0, x > 0), r"shift_left: needs an integer dtype, got bool"),
        (
            lambda x: ops.where(x, x, x),
            r"where: needs bool, got float32\n  condition: float32 \(2,\)",
        ),
        (lambda x: ops.floor(x > 0), r"floor: needs a floating dtype, got bool"),
    ],
)
def test_a_dtype_of_the_wrong_kind_is_refused(array, call, text):
    with pytest.raises(DTypeError, match=text):
        call(array([1.0, -1.0]))


def test_shapes_that_do_not_broadcast_are_refused(array, device):
    with pytest.raises(ShapeError) as caught:
        ops.add(array(np.zeros((2, 3))), array(np.zeros((2, 4))))
    assert str(caught.value) == (
        f"add: needs equal sizes (or 1) at axis -1, got 3 and 4\n"
        f"  a: float64 (2, 3) {device}\n  b: float64 (2, 4) {device}"
    )


def test_operands_of_two_devices_are_refused(far_device):
    near, far = ops.zeros((2,)), ops.zeros((2,), device=far_device)
    told = r"add: needs all tensors on one device, got .* and far\n(.*\n)*try: b.to\('.*'\)$"
    with pytest.raises(DeviceError, match=told):
        ops.add(near, far)


# -- casts ------------------------------------------------------------------------------------------


def test_a_float_is_truncated_and_held_at_the_ends(array):
    x = array([1.9, -1.9, 300.0, -300.0, math.nan, math.inf])
    assert both(lambda v: ops.cast(v, dtype="int8"), x).tolist() == [1, -1, 127, -128, 0, 127]
    assert ops.cast(x, dtype="uint8").tolist() == [1, 0, 255, 0, 0, 255]


def test_an_integer_keeps_its_low_bits(array):
    assert ops.cast(array([300, -1, 128]), dtype="int8").tolist() == [44, -1, -128]


def test_not_zero_is_true(array):
    assert ops.cast(array([0.0, -0.0, 0.1, math.nan]), dtype=bool).tolist() == [
        False,
        False,
        True,
        True,
    ]


def test_a_cast_passes_the_gradient_in_the_inputs_dtype(array):
    x = array([1.0, 2.0], requires_grad=True)
    grad = gradients((x.astype("float64") * 3.0).sum(), x)
    assert (grad.tolist(), grad.dtype.name) == ([3.0, 3.0], "float32")


# -- gradients at special places ----------------------------------------------------------------------


def grad_of(function, *xs):
    grads = gradients(function(*xs).sum(), list(xs))
    return [g.tolist() for g in grads]


def test_ties_of_extremes_share_the_gradient(array):
    a, b = array([1.0, 2.0, 3.0], requires_grad=True), array([1.0, 5.0, 0.0], requires_grad=True)
    assert grad_of(ops.maximum, a, b) == [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]
    assert grad_of(ops.minimum, a, b) == [[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]


def test_a_power_at_zero_has_a_finite_gradient(array):
    a = array([0.0, 0.0, 0.0], requires_grad=True)
    b = array([0.0, 1.0, 2.0], requires_grad=True)
    assert grad_of(ops.pow, a, b) == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_a_gradient_does_not_leak_through_the_other_branch(array):
    x = array([0.0, 4.0], requires_grad=True)
    safe = ops.where(x > 0.0, x, 1.0)
    assert grad_of(lambda v: ops.where(v > 0.0, ops.sqrt(safe), 0.0), x) == [[0.0, 0.25]]


def test_steps_have_gradient_zero(array):
    x = array([0.7, -1.2], requires_grad=True)
    for op in (ops.floor, ops.ceil, ops.round, ops.trunc, ops.sign):
        assert grad_of(op, x) == [[0.0, 0.0]]


def test_a_broadcast_operand_gets_the_sum(array):
    a, b = array(np.ones((2, 3), np.float32), requires_grad=True), array([10.0], requires_grad=True)
    assert grad_of(ops.mul, a, b) == [[[10.0] * 3] * 2, [6.0]]


def test_the_same_tensor_twice_gets_both_shares(array):
    x = array([3.0], requires_grad=True)
    assert grad_of(lambda v: v * v + v, x) == [[7.0]]


@pytest.mark.parametrize(
    "op", [ops.exp, ops.tanh, ops.erf, ops.atan, ops.asinh, ops.sinh, ops.square]
)
def test_second_derivatives(device, op):
    check_gradients(op, device, random(3, 2), order=2)


# -- laws -------------------------------------------------------------------------------------------


def test_functions_and_their_inverses(array):
    x = array(random(50, low=0.1, high=0.9))
    for there, back in [
        (ops.exp, ops.log), (ops.expm1, ops.log1p), (ops.sin, ops.asin), (ops.cos, ops.acos),
        (ops.tan, ops.atan), (ops.sinh, ops.asinh), (ops.tanh, ops.atanh), (ops.sqrt, ops.square),
        (ops.exp2, ops.log2), (ops.reciprocal, ops.reciprocal),
    ]:  # fmt: skip
        np.testing.assert_allclose(back(there(x)).numpy(), x.numpy(), rtol=1e-5)


def test_quotient_and_remainder_give_the_number_back(array):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-50, 50, 200), rng.integers(1, 9, 200) * rng.choice([-1, 1], 200)
    q, r = ops.floor_divide(array(a), array(b)), ops.remainder(array(a), array(b))
    assert (q * array(b) + r).tolist() == a.tolist()
    assert all(abs(x) < abs(y) for x, y in zip(r.tolist(), b.tolist(), strict=True))


def test_clip_and_lerp(array, device):
    assert ops.clip(array([-1.0, 0.5, 9.0]), 0.0, 1.0).tolist() == [0.0, 0.5, 1.0]
    assert ops.clip(array([-1, 5]), low=0).tolist() == [0, 5]
    assert ops.clip(array([-1, 5]), high=array([0, 2])).tolist() == [-1, 2]
    assert ops.lerp(array([0.0, 10.0]), array([4.0, 20.0]), 0.25).tolist() == [1.0, 12.5]
    check_gradients(lambda a, b: ops.lerp(a, b, 0.3), device, random(4), random(4, seed=1))


def test_lerp_meets_both_ends_exactly(array):
    a, b = array([1e8, 0.1, -1e30]), array([1.0, 0.3, 7.0])
    for end, x in ((0.0, a), (1.0, b)):
        assert ops.lerp(a, b, end).tolist() == x.tolist()
        assert ops.lerp(a, b, array([end] * 3)).tolist() == x.tolist()


NAN, INF = math.nan, math.inf
BOUNDED = [0.0, 1.0, 2.0, 3.0, 4.0, NAN, 2.0, 2.0, -INF, INF]
LOW, HIGH = [1.0] * 6 + [NAN] + [1.0] * 3, [3.0] * 7 + [NAN] + [3.0] * 2


def test_clip_and_its_gradients_are_the_peer_s_at_bounds_and_nan(device):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    hosts = [np.array(v, np.float32) for v in (BOUNDED, LOW, HIGH)]
    check_against_torch(ops.clip, torch.clamp, device, *hosts)
    check_against_torch(lambda x: x.clip(1.0, 3.0), lambda x: x.clamp(1.0, 3.0), device, hosts[0])
    check_against_torch(lambda x: x.clip(3.0, 1.0), lambda x: x.clamp(3.0, 1.0), device, hosts[0])
    check_against_torch(lambda x: x.clip(low=2), lambda x: x.clamp(min=2), device, hosts[0])
    assert np.isnan(ops.clip(tensor([0.0, 1.0], device=device), NAN, 1.0).numpy()).all()


NAN_STAYS = {
    "hard_shrink": ops.hard_shrink, "soft_shrink": ops.soft_shrink, "relu6": ops.relu6,
    "threshold": lambda x: ops.threshold(x, 1.0, 9.0), "clip": lambda x: ops.clip(x, -1.0, 1.0),
    "prelu": lambda x: ops.prelu(x, 0.5), "glu": lambda x: ops.glu(ops.stack([x, x])),
    "lerp": lambda x: ops.lerp(x, x, 0.5), "max": lambda x: x.max(), "min": lambda x: x.min(),
    "softmax": lambda x: x.softmax(), "logsumexp": lambda x: x.logsumexp(),
    "vector_norm": lambda x: ops.stack([ops.vector_norm(x, p) for p in (0.5, 1, 2, 3, INF, -INF, -1)]),
    "huber": lambda x: ops.huber_loss(x, x * 0.0), "sort": lambda x: ops.sort(x)[0][-1],
    "cumsum": lambda x: ops.cumsum(x, axis=0)[-1], "where": lambda x: ops.where(x == 1.0, 0.0, x)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", NAN_STAYS)
def test_nan_is_not_selected_away(array, name):
    y = both(NAN_STAYS[name], array([NAN, 1.0])).numpy().reshape(-1)
    assert np.isnan(y).all() if y.size != 2 else np.isnan(y[0])
