"""Products of matrices of odd sizes, in any layout, by both families."""

import numpy as np
import pytest

from singa_core.conformance.oracles import ORACLES

SIZES = [(1, 1, 1), (7, 17, 5), (2, 33, 300), (97, 70, 65), (64, 64, 16), (65, 1, 3), (13, 24, 259)]


def array(shape, seed, dtype="float32"):
    rng = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind == "i":
        return rng.integers(-9, 9, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def operands(layout, m, n, k, dtype):
    """a and b: packed, transposed, cut out, reversed, of a batch, or broadcast over one."""
    if layout == "transposed":
        return array((k, m), 0, dtype).T, array((n, k), 1, dtype).T
    if layout == "cut":
        a = array((3, 1, m + 2, k + 3), 0, dtype)[:, :, 1:-1, 2:-1]
        return a, array((4, k + 1, n), 1, dtype)[:, 1:]
    if layout == "reversed":
        return array((2, 3, m, k), 0, dtype)[:, ::-1, :, ::-1], array((k, n), 1, dtype)[::-1]
    if layout == "rows":
        return array((2, 3, m, k), 0, dtype), array((k, n), 1, dtype)
    if layout == "broadcast":
        a = np.broadcast_to(array((m, k), 0, dtype), (3, m, k))
        return a, array((2, 3, k, n), 1, dtype)
    return array((m, k), 0, dtype), array((k, n), 1, dtype)


def own():
    return pytest.importorskip("singa_opencl.kernels").own


def close(got, expected, depth):
    size = np.abs(expected).max(initial=1.0)
    tolerance = {4: 3e-7, 8: 1e-15}[got.itemsize] * (2 + depth**0.5) * size
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["packed", "transposed", "cut", "reversed", "rows", "broadcast"])
def test_matmul_in_every_layout(run, layout, dtype):
    for m, n, k in SIZES:
        a, b = operands(layout, m, n, k, dtype)
        (y,) = run(own(), "matmul", [a, b])
        close(y, a.astype("float64") @ b.astype("float64"), k)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_wrap_around(run, dtype):
    a, b = array((9, 40), 0, dtype), array((40, 20), 1, dtype)
    a[0], b[:, 0] = np.iinfo(dtype).max, 3
    (y,) = run(own(), "matmul", [a, b])
    np.testing.assert_array_equal(y, np.einsum("ik,kj->ij", a, b))


def test_matmul_of_several_blocks_in_all_directions(cpu):
    """More rows, columns and depth than a work item takes or packs at a time."""
    for shape in ((300, 600, 570), (5, 700, 513), (400, 3, 300)):
        m, n, k = shape
        a, b = operands("packed", m, n, k, "float32")
        (y,) = cpu(own(), "matmul", [a, b])
        close(y, a.astype("float64") @ b, k)


def test_nan_and_infinity_stay_in_their_row_and_column(run):
    a, b = np.ones((7, 5), np.float32), np.ones((5, 18), np.float32)
    a[2, 3], b[1, 17] = np.nan, np.inf
    (y,) = run(own(), "matmul", [a, b])
    expected = np.full((7, 18), 5.0)
    expected[2], expected[:, 17] = np.nan, np.inf
    expected[2, 17] = np.nan
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("shapes", [((0, 4), (4, 3)), ((3, 0), (0, 2)), ((2, 4), (4, 0))])
def test_empty_products_are_left_to_others(run, shapes):
    a, b = (np.zeros(shape, np.float32) for shape in shapes)
    assert run(own(), "matmul", [a, b]) is None


@pytest.mark.parametrize("biased", [False, True])
def test_linear_with_and_without_bias(run, biased):
    for shape in ((7, 5), (2, 3, 5), (300, 5), (5,)):
        x, weight = array(shape, 0), array((19, 5), 1).T
        inputs = [x, weight, *([array((19,), 2)] if biased else [])]
        (y,) = run(own(), "linear", inputs)
        close(y, ORACLES["linear"](*(v.astype("float64") for v in inputs)), 5)


def test_linear_declines_rows_that_do_not_fold(run):
    x = array((3, 2, 5), 0).swapaxes(0, 1)
    assert run(own(), "linear", [x, array((5, 4), 1)]) is None


def test_a_device_with_little_shared_memory_packs_less():
    gemm = pytest.importorskip("singa_opencl.kernels.gemm")
    for rows in range(1, 7):
        for code in ("f32", "f64"):
            for shared in (32 << 10, 64 << 10, 1 << 20):
                tile = gemm.Tile(code, rows)
                m, n, k = gemm.pieces(tile, shared)
                assert m % rows == n % tile.columns == 0
                assert (m + n) * k * tile.itemsize <= shared
