"""Products of matrices of odd sizes, in any layout, by both families."""

import numpy as np
import pytest

from singa_core.conformance.oracles import ORACLES
from singa_core.spec import Spec, make_form

kernels = pytest.importorskip("singa_opencl.kernels")
own = kernels.own

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


def close(got, expected, depth):
    size = np.abs(expected).max(initial=1.0)
    tolerance = {4: 3e-7, 8: 1e-15}[got.itemsize] * (2 + depth**0.5) * size
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["packed", "transposed", "cut", "reversed", "rows", "broadcast"])
def test_matmul_in_every_layout(run, layout, dtype):
    for m, n, k in SIZES:
        a, b = operands(layout, m, n, k, dtype)
        (y,) = run(own, "matmul", [a, b])
        close(y, a.astype("float64") @ b.astype("float64"), k)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_wrap_around(run, dtype):
    a, b = array((9, 40), 0, dtype), array((40, 20), 1, dtype)
    a[0], b[:, 0] = np.iinfo(dtype).max, 3
    (y,) = run(own, "matmul", [a, b])
    np.testing.assert_array_equal(y, np.einsum("ik,kj->ij", a, b))


def test_matmul_of_several_blocks_in_all_directions(cpu):
    """More rows, columns and depth than a work item takes or packs at a time."""
    for shape in ((300, 600, 570), (5, 700, 513), (400, 3, 300)):
        m, n, k = shape
        a, b = operands("packed", m, n, k, "float32")
        (y,) = cpu(own, "matmul", [a, b])
        close(y, a.astype("float64") @ b, k)


def test_nan_and_infinity_stay_in_their_row_and_column(run):
    a, b = np.ones((7, 5), np.float32), np.ones((5, 18), np.float32)
    a[2, 3], b[1, 17] = np.nan, np.inf
    (y,) = run(own, "matmul", [a, b])
    expected = np.full((7, 18), 5.0)
    expected[2], expected[:, 17] = np.nan, np.inf
    expected[2, 17] = np.nan
    np.testing.assert_array_equal(y, expected)


ROWS = {"float32": ((7, 5), (2, 3, 5), (300, 5), (5,)), "float64": ((2, 3, 5),)}


@pytest.mark.parametrize("dtype", ROWS)
@pytest.mark.parametrize("biased", [False, True])
def test_linear_with_and_without_bias(run, biased, dtype):
    for shape in ROWS[dtype]:
        x, weight = array(shape, 0, dtype), array((19, 5), 1, dtype).T
        inputs = [x, weight, *([array((19,), 2, dtype)] if biased else [])]
        (y,) = run(own, "linear", inputs)
        close(y, ORACLES["linear"](*(v.astype("float64") for v in inputs)), 5)


# --- what is left to others --------------------------------------------------------------------


@pytest.mark.parametrize("shapes", [((0, 4), (4, 3)), ((3, 0), (0, 2)), ((2, 4), (4, 0))])
@pytest.mark.parametrize("op", ["matmul", "linear"])
def test_empty_products(paper, op, shapes):
    assert paper(family="gpu").plan(own, op, [Spec(shape, "float32") for shape in shapes]) is None


def test_rows_that_do_not_fold(paper):
    x = make_form(Spec((2, 3, 5), "float32"), (5, 10, 1))
    assert paper(family="gpu").plan(own, "linear", [x, Spec((5, 4), "float32")]) is None


def test_a_bias_with_gaps(paper):
    x, weight = Spec((3, 5), "float32"), Spec((5, 4), "float32")
    for stride, taken in ((1, True), (2, False), (0, False)):
        bias = make_form(Spec((4,), "float32"), (stride,))
        found = paper(family="cpu").plan(own, "linear", [x, weight, bias])
        assert (found is not None) == taken


def test_a_batch_whose_axes_do_not_fold_into_three(paper):
    b = Spec((2, 2, 2, 2, 5, 4), "float32")
    for strides, taken in (((120, 60, 30, 15), True), ((15, 30, 60, 120), False)):
        a = make_form(Spec((2, 2, 2, 2, 3, 5), "float32"), (*strides, 5, 1))
        found = paper(family="cpu").plan(own, "matmul", [a, b])
        assert (found is not None) == taken


@pytest.mark.parametrize("code", ["float32", "float64"])
def test_groups_that_are_too_small_for_a_tile(paper, code):
    size, pair = np.dtype(code).itemsize, [Spec((30, 30), code)] * 2
    enough = 2 * 16 * 65 * size  # two pieces of 16 rows, an element longer than 64
    for group, shared, taken in ((256, enough, 1), (255, enough, 0), (256, enough - 1, 0)):
        device = paper(family="gpu", largest_group=group, shared=shared)
        assert (device.plan(own, "matmul", pair) is not None) == taken


# --- how work is cut ---------------------------------------------------------------------------


def test_packed_pieces_are_whole_tiles_that_fit_shared_memory():
    for rows in range(1, 7):
        for code in ("f32", "f64"):
            for shared in (32 << 10, 64 << 10, 1 << 20):
                tile = kernels.registers.Tile(code, rows)
                m, n, k = kernels.gemm.pieces(tile, shared)
                assert min(m, n, k) > 0
                assert m % rows == n % tile.columns == 0
                assert (m + n) * k * tile.itemsize <= shared


@pytest.mark.parametrize("units", [1, 3, 16])
@pytest.mark.parametrize("sizes", [(7, 900, 30), (64, 64, 512), (2000, 30, 8)])
def test_blocks_cover_the_product_and_keep_all_units_busy(paper, sizes, units):
    m, n, k = sizes
    pair = [Spec((m, k), "float32"), Spec((k, n), "float32")]
    ((call,), _) = paper(family="cpu", units=units).plan(own, "matmul", pair)
    numbers = dict(zip([name for name, _ in call.source.numbers], call.numbers, strict=True))
    down, across, _ = call.items
    assert (down - 1) * numbers["rows"] < m <= down * numbers["rows"]
    assert (across - 1) * numbers["columns"] < n <= across * numbers["columns"]
    assert 2 * down * across > units
