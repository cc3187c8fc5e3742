"""Kernels of the C language that look at rows or windows, in both families, beyond small samples."""

import numpy as np
import pytest

from singa_core.conformance.oracles import ORACLES
from singa_core.kernels.c import c


def array(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def check(run, op, inputs, **attrs):
    got = run(c, op, inputs, **attrs)
    wide = [v.astype(np.float64) if v.dtype.kind == "f" else v for v in inputs]
    expected = ORACLES[op](*wide, **attrs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(got) == len(expected)
    for mine, wanted in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_shares_along_any_axis(run, op):
    for shape, axis in (((5, 131), 1), ((131, 5), 0), ((3, 70, 9), 1)):
        check(run, op, [3 * array(*shape)], axis=axis)


def test_cross_entropy_and_its_gradient(run):
    labels = np.arange(70) * 7 % 131
    check(run, "softmax_cross_entropy", [array(70, 131), labels])
    log_probs = np.log(np.full((70, 131), 1 / 131, np.float32))
    check(run, "softmax_cross_entropy_grad", [array(70), log_probs, labels])


def test_batch_normalisation_and_its_gradient(run):
    x, weight, bias = array(5, 3, 9, 7), array(3, seed=1), array(3, seed=2)
    check(run, "batch_norm", [x, weight, bias], eps=1e-3)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    check(run, "batch_norm_grad", [array(5, 3, 9, 7, seed=3), x, weight, mean, variance], eps=1e-3)


def test_layer_normalisation_and_its_gradient(run):
    x, weight, bias = array(37, 83), array(83, seed=1), array(83, seed=2)
    check(run, "layer_norm", [x, weight, bias])
    check(run, "layer_norm_grad", [array(37, 83, seed=3), x, weight])


@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel": 2},
        {"kernel": 2, "stride": 3},
        {"kernel": 3, "stride": 2, "padding": 1},
        {"kernel": (3, 2), "stride": 1, "padding": 1},
    ],
    ids=str,
)
def test_windows_and_their_gradients(run, attrs):
    x = array(3, 2, 13, 20)
    x[0, 0, :4, :4] = 1.0  # ties: the first of the largest gets the grad
    check(run, "max_pool", [x], **attrs)
    check(run, "avg_pool", [x], **attrs)
    y = ORACLES["max_pool"](x.astype(np.float64), **attrs).astype(np.float32)
    grad = array(*y.shape, seed=1)
    check(run, "max_pool_grad", [grad, x, y], **attrs)
    check(run, "avg_pool_grad", [grad], size=x.shape[2:], **attrs)


def test_nan_is_the_largest(run):
    x = array(1, 1, 4, 4)
    x[0, 0, 1, 1] = np.nan
    (y,) = run(c, "max_pool", [x], kernel=2)
    assert np.isnan(y).tolist() == [[[[True, False], [False, False]]]]
