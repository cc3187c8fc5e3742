"""The ways to convolve, each on geometries it takes, by both families."""

import numpy as np
import pytest

from house.convolutions import calls
from singa_core.conformance.oracles import ORACLES

# x, weight, attributes
GEOMETRIES = [
    ((5, 3, 11), (4, 3, 3), {"stride": 2, "padding": 1}),
    ((2, 3, 9, 13), (5, 3, 3, 2), {"padding": (2, 1)}),
    ((4, 2, 9, 40), (3, 2, 2, 3), {"padding": ((0, 2), (3, 0)), "stride": (1, 2)}),
    ((2, 6, 11, 19), (4, 3, 3, 3), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}),
    ((1, 4, 7, 40), (8, 1, 2, 5), {"stride": (1, 3), "padding": (0, 2), "dilation": (1, 2),
                                   "groups": 4}),
    ((3, 8, 8, 8), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    ((3, 20, 12, 12), (10, 20, 5, 5), {}),
    ((2, 2, 30, 30), (13, 2, 5, 5), {"padding": 4}),
    ((2, 2, 20, 12), (1, 2, 1, 1), {"stride": (3, 1)}),
    ((3, 5, 9, 9), (6, 5, 1, 1), {}),
    ((3, 6, 9, 8), (4, 3, 1, 1), {"groups": 2, "stride": (3, 2)}),
    ((2, 2, 3, 3), (3, 2, 1, 2), {"padding": ((4, 1), (3, 5)), "stride": 2}),
    ((7, 1, 1, 1), (1, 1, 1, 1), {}),
    ((2, 40, 4, 4), (7, 40, 5, 5), {"padding": 2}),
    ((3, 4, 6, 3), (8, 2, 2, 3), {"padding": (1, 2), "dilation": (2, 1), "groups": 2}),
]  # fmt: skip


def own():
    return pytest.importorskip("singa_opencl.kernels").own


def check(run, op, inputs, attrs, dtype):
    got = run(own(), op, [v.astype(dtype) for v in inputs], **attrs)
    assert got is not None
    expected = ORACLES[op](*(v.astype(dtype).astype("float64") for v in inputs), **attrs)
    size = max(np.abs(expected).max(initial=0.0), 1.0)
    tolerance = {"float32": 3e-6, "float64": 1e-14}[dtype] * size
    np.testing.assert_allclose(got[0], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_convolution_and_its_gradients(run, geometry):
    for op, inputs, attrs in calls(*geometry):
        check(run, op, inputs, attrs, "float32")


@pytest.mark.parametrize("geometry", GEOMETRIES[1:4], ids=str)
def test_in_double_precision(run, geometry):
    for op, inputs, attrs in calls(*geometry):
        check(run, op, inputs, attrs, "float64")


@pytest.mark.parametrize("geometry", GEOMETRIES[1:9:2], ids=str)
def test_gathered_columns_take_any_geometry(cpu, geometry, monkeypatch):
    for way in ("conv_winograd", "conv_direct", "conv_weight", "conv_scatter"):
        module = pytest.importorskip(f"singa_opencl.kernels.{way}")
        monkeypatch.setattr(module, "fits", lambda *args: False)
    for op, inputs, attrs in calls(*geometry):
        if op != "conv_grad_input" or not attrs.get("stride"):
            check(cpu, op, inputs, attrs, "float32")


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_products_of_grads_can_always_be_scattered(cpu, geometry, monkeypatch):
    conv = pytest.importorskip("singa_opencl.kernels.conv")
    monkeypatch.setattr(conv, "turned", lambda g: None)
    monkeypatch.setattr(conv, "by_images", lambda g: False)
    for op, inputs, attrs in calls(*geometry):
        if op == "conv_grad_input":
            check(cpu, op, inputs, attrs, "float32")


SQUARES = [
    ((2, 5, 9, 32), (7, 5, 3, 3), {"padding": 1}),
    ((1, 3, 16, 16), (6, 3, 3, 3), {"padding": (1, 0)}),
    ((2, 4, 11, 13), (6, 2, 3, 3), {"padding": (1, 2), "groups": 2}),
    ((3, 2, 18, 35), (4, 2, 3, 3), {"padding": ((0, 2), (1, 0))}),
]


@pytest.mark.parametrize("geometry", SQUARES, ids=str)
def test_four_elements_at_a_time(cpu, geometry, monkeypatch):
    """Winograd's way, with whole vectors of tiles in a row and without."""
    winograd = pytest.importorskip("singa_opencl.kernels.conv_winograd")
    monkeypatch.setattr(winograd, "LEAST_CHANNELS", 1)
    used = []
    monkeypatch.setattr(winograd, "forward", note(winograd.forward, used))
    for op, inputs, attrs in calls(*geometry):
        if op != "conv_grad_weight":
            check(cpu, op, inputs, attrs, "float32")
    assert len(used) >= 2


def note(function, used):
    """The function, which leaves a mark when it is called."""

    def noted(*args, **options):
        used.append(args)
        return function(*args, **options)

    return noted


def test_no_workspace_is_as_large_as_all_columns(cpu):
    """Only weights in panels are laid out: the batch may be as large as memory allows."""
    geometry = pytest.importorskip("singa_opencl.kernels.conv_geometry")
    conv = pytest.importorskip("singa_opencl.kernels.conv")
    pair = (1, 1)
    for n in (1, 4096):
        g = geometry.Geometry("f32", n, 1, 64, 32, 32, 64, 3, 3, 32, 32, pair, pair, pair)
        for found in (
            conv.forward(cpu.target, g),
            conv.conv_scatter.grad_input(g, units=2, shared=1 << 20),
            conv.conv_weight.grad_weight(g, units=2, shared=1 << 20),
            conv.conv_implicit.grad_weight(g, units=2, shared=1 << 20),
        ):
            assert found[1] <= 64 * 66 * 16 * 4


def test_five_axes_are_left_to_the_decomposition(run):
    x, weight = np.zeros((1, 2, 3, 3, 3), np.float32), np.zeros((1, 2, 1, 1, 1), np.float32)
    assert run(own(), "conv", [x, weight]) is None
