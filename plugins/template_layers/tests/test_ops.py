"""Values worked by hand, the texts of errors, and who computes."""

import math

import numpy as np
import pytest

import singa_core as sc
from singa_core.dtype import as_dtype
from singa_core.errors import DTypeError, ShapeError
from singa_core.plugins import packs
from singa_core.registry import registry
from singa_template_layers import snake, squash


def test_squash_by_hand():
    x = sc.tensor([[3.0, 4.0], [0.0, 0.0]])  # lengths 5 and 0
    np.testing.assert_allclose(
        squash(x).numpy(), [[3 * 5 / 26, 4 * 5 / 26], [0, 0]], rtol=1e-6, atol=1e-12
    )
    across = squash(x, axis=0).numpy()
    np.testing.assert_allclose(across, [[9 / 10, 16 / 17], [0, 0]], rtol=1e-6, atol=1e-12)


def test_snake_by_hand():
    x, alpha = sc.tensor([[math.pi / 2, math.pi / 4]]), sc.tensor([1.0, 2.0])
    y = snake(x, alpha)  # both sines are 1
    np.testing.assert_allclose(y.numpy(), [[math.pi / 2 + 1, math.pi / 4 + 0.5]], rtol=1e-6)


def usable():
    """A device of every backend that can run here."""
    return [name for name in registry.names() if registry.probe(name).usable]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("device", usable())
def test_the_kernel_computes_what_the_decomposition_does(device, dtype):
    rng, where = np.random.default_rng(0), sc.device(device)
    if as_dtype(dtype) not in where.capabilities.dtypes:
        pytest.skip(f"{device} has no {dtype}")
    x = sc.tensor(rng.normal(size=(5, 4, 3)).astype(dtype), device=where)[:, ::-1]  # strided
    alpha = sc.tensor(rng.uniform(0.5, 2, 3).astype(dtype), device=where)
    with sc.no_grad():
        got, wanted = snake(x, alpha), snake.forward(x, alpha)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", usable())
def test_core_has_found_the_pack_and_its_kernels(device):
    languages = sc.device(device).languages
    (pack,) = (pack for pack in packs.all() if pack.name == "template_layers")
    assert pack.failure is None
    assert pack.ops == ("snake", "squash")
    shared = [language for language in languages if language in ("array", "c")]
    assert shared
    for language in shared:
        assert pack.kernels[language] == ("snake",)


def test_errors_name_the_rule():
    x = sc.tensor([[1.0, 2.0]])
    with pytest.raises(ShapeError, match=r"squash: needs an axis of x, which has 2, got 2"):
        squash(x, axis=2)
    with pytest.raises(DTypeError, match=r"squash: needs a floating dtype, got int64"):
        squash(sc.tensor([1]))
    with pytest.raises(
        ShapeError, match=r"snake: needs alpha.shape == x.shape\[-1:\] .*, got \(3,\)"
    ):
        snake(x, sc.tensor([1.0, 1.0, 1.0]))
