"""Writing at places, of values that lie in memory in any way."""

import numpy as np
import pytest

from conftest import open_device
from singa_core import ops, tensor
from singa_core.kernels.c import c


@pytest.fixture
def device():
    return open_device("opencl")


@pytest.mark.parametrize("op", ["scatter", "scatter_add"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_values_and_places_may_be_strided(device, run, op, axis):
    rng = np.random.default_rng(axis)
    x = rng.standard_normal((4, 5, 6)).astype(np.float32)
    places = np.array([[0, 2], [3, -1], [2, 1]], np.int64)  # 2 is written twice
    shape = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
    v = rng.standard_normal(shape[::-1]).astype(np.float32).T  # any order but the packed one
    index = np.repeat(places, 2, axis=1)[:, ::2]
    (y,) = run(c, op, [x, index, v], axis=axis)
    expected = np.moveaxis(x.copy(), axis, 0)
    rows = np.moveaxis(v.reshape(*x.shape[:axis], places.size, *x.shape[axis + 1 :]), axis, 0)
    for place, row in zip(places.reshape(-1), rows, strict=True):
        expected[place] = row if op == "scatter" else expected[place] + row
    np.testing.assert_allclose(y, np.moveaxis(expected, 0, axis), rtol=1e-6)


def test_a_gradient_of_an_embedding_adds_what_repeats(device):
    weight = tensor(np.ones((5, 3), np.float32), device=device, requires_grad=True)
    ops.embedding(tensor([[1, 4], [1, 1]], device=device), weight).sum().backward()
    np.testing.assert_array_equal(weight.grad.numpy()[:, 0], [0, 3, 0, 0, 1])
