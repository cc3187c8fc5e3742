"""The ways to convolve, each on geometries it takes, by both families."""

import numpy as np
import pytest

from house.convolutions import calls
from singa_core.conformance.oracles import ORACLES
from singa_core.spec import Spec

kernels = pytest.importorskip("singa_opencl.kernels")
own = kernels.own

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


def check(run, op, inputs, attrs, dtype):
    got = run(own, op, [v.astype(dtype) for v in inputs], **attrs)
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
        monkeypatch.setattr(getattr(kernels, way), "fits", lambda *args: False)
    for op, inputs, attrs in calls(*geometry):
        if op != "conv_grad_input" or not attrs.get("stride"):
            check(cpu, op, inputs, attrs, "float32")


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_products_of_grads_can_always_be_scattered(cpu, geometry, monkeypatch):
    monkeypatch.setattr(kernels.conv, "turned", lambda g: None)
    monkeypatch.setattr(kernels.conv, "by_images", lambda g: False)
    for op, inputs, attrs in calls(*geometry):
        if op == "conv_grad_input":
            check(cpu, op, inputs, attrs, "float32")


# with whole vectors of tiles in a row and without; the last grad has too much padding for this
SQUARES = [
    ((2, 5, 9, 32), (7, 5, 3, 3), {"padding": 1}, 3),
    ((1, 3, 16, 16), (6, 3, 3, 3), {"padding": (1, 0)}, 3),
    ((2, 4, 11, 13), (6, 2, 3, 3), {"padding": (1, 2), "groups": 2}, 3),
    ((3, 2, 18, 35), (4, 2, 3, 3), {"padding": ((0, 2), (3, 0))}, 2),
]


@pytest.mark.parametrize(("x", "weight", "attrs", "times"), SQUARES, ids=str)
def test_four_elements_at_a_time(cpu, x, weight, attrs, times, monkeypatch):
    winograd = kernels.conv_winograd
    monkeypatch.setattr(winograd, "LEAST_CHANNELS", 1)
    used = []
    monkeypatch.setattr(winograd, "forward", note(winograd.forward, used))
    for op, inputs, given in calls(x, weight, attrs):
        if op != "conv_grad_weight":
            check(cpu, op, inputs, given, "float32")
    assert len(used) == times


def note(function, used):
    """The function, which leaves a mark when it is called."""

    def noted(*args, **options):
        used.append(args)
        return function(*args, **options)

    return noted


# --- which ways there are, without a device ----------------------------------------------------


def planned(device, geometry):
    """The names of the kernels of the three operations, but for those that pack weights."""
    for op, inputs, attrs in calls(*geometry):
        made, _ = device.plan(own, op, [Spec(v.shape, "float32") for v in inputs], **attrs)
        yield made[-1].source.name


def test_the_geometries_above_reach_every_way(paper):
    few = paper(family="cpu", units=2, shared=1 << 20)
    assert {name for geometry in GEOMETRIES for name in planned(few, geometry)} == {
        "gemm", "conv_direct", "conv_implicit", "conv_scatter", "conv_grad_weight",
        "conv_implicit_grad_weight",
    }  # fmt: skip
    many = paper(family="gpu")
    assert {name for geometry in GEOMETRIES for name in planned(many, geometry)} == {
        "conv_tiled", "conv_grad_input_tiled", "conv_grad_weight_tiled",
    }  # fmt: skip


def test_wide_layers_of_3x3_go_four_elements_at_a_time(paper):
    few = paper(family="cpu", units=2, shared=1 << 20)
    for channels, name in ((32, "conv_winograd"), (31, "conv_direct")):
        x, weight = (Spec((2, channels, 16, 16), "float32"), Spec((32, channels, 3, 3), "float32"))
        made, _ = few.plan(own, "conv", [x, weight], padding=1)
        assert made[-1].source.name == name


WAYS = {
    "conv_winograd": lambda way, *job: way.forward(*job, biased=False),
    "conv_direct": lambda way, *job: way.forward(*job, biased=False),
    "conv_implicit": lambda way, *job: way.forward(*job, biased=False),
    "conv_scatter": lambda way, *job: way.grad_input(*job),
    "conv_weight": lambda way, *job: way.grad_weight(*job),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_workspace_is_that_of_one_image(paper, name):
    """Only weights in panels are laid out: the batch may be as large as memory allows."""
    found, device = [], paper(family="cpu", units=2, shared=1 << 20)
    windows = kernels.conv_geometry.Windows((1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    weight = Spec((64, 64, 3, 3), "float32")
    for n in (1, 4096):
        x = y = Spec((n, 64, 32, 32), "float32")
        g = kernels.conv_geometry.geometry(x, y, weight, windows)
        found.append(WAYS[name](getattr(kernels, name), device, g)[1])
    packed = {"conv_winograd": 16, "conv_weight": 0}.get(name, 9)  # elements for each 3x3
    assert found == [packed * 64 * 66 * 4] * 2  # 64 channels are 11 panels of 6 rows


@pytest.mark.parametrize("family", ["cpu", "gpu"])
def test_what_is_left_to_the_decomposition(paper, family):
    """Five axes, nothing to compute, and places that 32 bits do not count."""
    for x, weight in (
        ((1, 2, 3, 3, 3), (1, 2, 1, 1, 1)),
        ((0, 2, 3, 3), (1, 2, 1, 1)),
        ((1 << 15, 1, 1 << 8, 129), (1, 1, 1, 1)),
    ):
        pair = [Spec(shape, "float32") for shape in (x, weight)]
        assert paper(family=family, shared=1 << 20).plan(own, "conv", pair) is None


def test_groups_that_are_too_small_for_a_tile_leave_it_too(paper):
    pair = [Spec((1, 2, 9, 9), "float32"), Spec((3, 2, 3, 3), "float32")]
    for group, taken in ((256, True), (255, False)):
        found = paper(family="gpu", largest_group=group).plan(own, "conv", pair)
        assert (found is not None) == taken
