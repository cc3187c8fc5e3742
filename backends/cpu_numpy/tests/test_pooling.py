"""Pooling kernels in tiles of one plane and shared by threads, against the oracle."""

import numpy as np
import pytest

from singa_core.conformance.oracles import ORACLES
from singa_core.optable import OPS
from singa_core.spec import Spec
from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels import numpy as native
from singa_cpu_numpy.kernels import pooling

CASES = [
    ((3, 2, 8, 6), {"kernel": 2}),
    ((3, 2, 9, 7), {"kernel": 2}),
    ((2, 3, 7, 8), {"kernel": 3, "stride": 2, "padding": 1}),
    ((2, 1, 7, 8), {"kernel": (3, 1), "stride": 1, "padding": ((2, 0), (0, 0))}),
    ((2, 2, 9, 9), {"kernel": 2, "stride": 3}),
    ((2, 2, 7, 8), {"kernel": 3, "stride": 2, "ceil_mode": True}),
    ((1, 2, 5, 6), {"kernel": 2, "stride": 4, "padding": 1, "ceil_mode": True}),
    ((4, 3, 11), {"kernel": 3, "stride": 2, "padding": 1}),
    ((2, 2, 4, 4), {"kernel": 1, "stride": 2}),
    ((2, 2, 4, 5), {"kernel": (4, 5)}),
]
DILATED = [((2, 2, 9, 8), {"kernel": 3, "stride": (1, 2), "dilation": (2, 1), "padding": (2, 1)})]


@pytest.fixture(params=["as they are", "in small tiles", "shared by three"], autouse=True)
def _tiles(request, monkeypatch):
    if request.param != "as they are":
        monkeypatch.setattr(pooling, "TILE_BYTES", 1)
    if request.param == "shared by three":
        monkeypatch.setattr(threads, "workers", lambda work, parts: max(min(3, parts), 1))


def check(op, inputs, attrs, dtype):
    """The kernel's result from outputs and a workspace full of NaN."""
    inputs = [np.ascontiguousarray(x, dtype) for x in inputs]
    specs, known = [Spec(x.shape, dtype) for x in inputs], OPS[op]
    options = known.settle(*specs, **dict(zip(known.attributes, known.pack(attrs), strict=True)))
    out = known.infer(*specs, **options)
    kernel = native.find(op, [s.dtype for s in specs], [out.dtype])
    launch, nbytes = kernel.prepare(np, specs, (out,), **options)
    workspace = np.full(nbytes // np.dtype(dtype).itemsize, np.nan, dtype).view(np.uint8)
    y = np.full(out.shape, np.nan, dtype)
    launch(*inputs, y, workspace)
    np.testing.assert_allclose(y, ORACLES[op](*inputs, **attrs), rtol=1e-6, atol=1e-6)
    return y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "attrs"), CASES + DILATED)
@pytest.mark.parametrize("ties", [False, True])
def test_max_is_the_oracle(shape, attrs, dtype, ties):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, shape) if ties else rng.standard_normal(shape)
    y = check("max_pool", [x], attrs, dtype)
    check("max_pool_grad", [rng.standard_normal(y.shape), x, y], attrs, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "attrs"), CASES)
@pytest.mark.parametrize("include", [True, False])
def test_mean_is_the_oracle(shape, attrs, dtype, include):
    rng = np.random.default_rng(0)
    attrs = {**attrs, "count_include_pad": include}
    y = check("avg_pool", [rng.standard_normal(shape)], attrs, dtype)
    check("avg_pool_grad", [rng.standard_normal(y.shape)], {**attrs, "size": shape[2:]}, dtype)


def test_three_axes_and_nothing_are_left_to_the_decomposition():
    kernel = native.find("max_pool", [Spec((), "float32").dtype], [Spec((), "float32").dtype])
    for shape, size in (((1, 1, 2, 2, 2), (2, 2, 2)), ((0, 1, 2, 2), (2, 2))):
        x = Spec(shape, "float32")
        y = Spec((*shape[:2], *(1 for _ in size)), "float32")
        attrs = {"kernel": size, "stride": size, "padding": ((0, 0),) * len(size)}
        dilation = (1,) * len(size)
        assert kernel.prepare(np, (x,), (y,), **attrs, dilation=dilation, ceil_mode=False) is None
