"""Normalisation kernels in small tiles and shared by threads, against the oracle."""

import numpy as np
import pytest

from singa_core.conformance.oracles import ORACLES
from singa_core.optable import OPS
from singa_core.spec import Spec
from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels import normalization_batch, normalization_layer
from singa_cpu_numpy.kernels import numpy as native


@pytest.fixture(params=["as they are", "in small tiles", "shared by three"], autouse=True)
def _tiles(request, monkeypatch):
    if request.param != "as they are":
        monkeypatch.setattr(normalization_layer, "TILE_BYTES", 1)
        monkeypatch.setattr(normalization_batch, "BLOCK_BYTES", 1)
        monkeypatch.setattr(normalization_batch, "SHORT", 1)
    if request.param == "shared by three":
        monkeypatch.setattr(threads, "workers", lambda work, parts: max(min(3, parts), 1))


def array(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape) + 0.5


def check(op, inputs, dtype, eps=1e-3):
    """The kernel's results from outputs and a workspace full of NaN."""
    inputs = [np.ascontiguousarray(x, dtype) for x in inputs]
    specs = [Spec(x.shape, dtype) for x in inputs]
    outs = OPS[op].infer(*specs, eps=eps)
    outs = outs if isinstance(outs, tuple) else (outs,)
    kernel = native.find(op, [s.dtype for s in specs], [s.dtype for s in outs])
    launch, nbytes = kernel.prepare(np, specs, outs, eps=eps)
    workspace = np.full(nbytes // np.dtype(dtype).itemsize, np.nan, dtype).view(np.uint8)
    made = [np.full(s.shape, np.nan, dtype) for s in outs]
    launch(*inputs, *made, workspace)
    expected = ORACLES[op](*(x.astype(np.float64) for x in inputs), eps=eps)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    expected = expected if isinstance(expected, tuple) else (expected,)
    for y, reference in zip(made, expected, strict=True):
        np.testing.assert_allclose(y, reference, rtol=tolerance, atol=tolerance)
    return expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(9, 4), (3, 5, 7), (4, 7, 3, 2), (1, 2, 5), (2, 1, 600)])
def test_batch_norm_is_the_oracle(shape, dtype):
    x, weight, bias = array(*shape), array(shape[1], seed=1), array(shape[1], seed=2)
    _, mean, variance = check("batch_norm", [x, weight, bias], dtype)
    check("batch_norm_inference", [x, weight, bias, mean, variance], dtype)
    check("batch_norm_grad", [array(*shape, seed=3), x, weight, mean, variance], dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((9, 4), 1), ((3, 5, 7), 1), ((3, 5, 7), 2), ((6,), 1)]
)
def test_layer_norm_is_the_oracle(shape, axes, dtype):
    last = shape[-axes:]
    x, weight = array(*shape), array(*last, seed=1)
    check("layer_norm", [x, weight, array(*last, seed=2)], dtype)
    check("layer_norm_grad", [array(*shape, seed=3), x, weight], dtype)


def test_a_large_mean_costs_no_precision():
    """Deviations are taken before they are squared."""
    x, one, zero = array(64, 3, 8) + 1e4, np.ones(3), np.zeros(3)
    _, _, variance = check("batch_norm", [x.astype(np.float32), one, zero], "float64")
    inputs = [np.ascontiguousarray(v, np.float32) for v in (x, one, zero)]
    specs = [Spec(v.shape, "float32") for v in inputs]
    outs = OPS["batch_norm"].infer(*specs)
    kernel = native.find("batch_norm", [s.dtype for s in specs], [s.dtype for s in outs])
    launch, nbytes = kernel.prepare(np, specs, outs, eps=1e-5)
    made = [np.empty(s.shape, np.float32) for s in outs]
    launch(*inputs, *made, np.empty(nbytes, np.uint8))
    np.testing.assert_allclose(made[2], variance, rtol=1e-3)
