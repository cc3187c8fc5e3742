"""The ways to convolve, each on every geometry it takes, in small tiles and shared by threads."""

import itertools

import numpy as np
import pytest

from house.convolutions import array, calls
from singa_core.conformance.oracles import ORACLES
from singa_core.optable import OPS
from singa_core.spec import Spec
from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels import conv, conv_depthwise, conv_images, conv_rows, conv_winograd
from singa_cpu_numpy.kernels import numpy as native

WAYS = {
    "rows": conv_rows, "images": conv_images, "depthwise": conv_depthwise,
    "winograd": conv_winograd,
}  # fmt: skip
# x, weight, attributes
GEOMETRIES = [
    ((5, 3, 11), (4, 3, 3), {"stride": 2, "padding": 1}),
    ((3, 2, 9, 10), (4, 2, 3, 3), {}),
    ((1, 2, 9, 10), (4, 2, 3, 3), {"padding": 1}),
    ((4, 2, 9, 40), (3, 2, 2, 3), {"padding": ((0, 2), (3, 0)), "stride": (1, 2)}),
    ((3, 2, 12, 9), (3, 2, 3, 2), {"dilation": (2, 3), "stride": (3, 1), "padding": 2}),
    ((3, 2, 12, 9), (3, 2, 3, 2), {"dilation": (3, 1), "stride": 2, "padding": (4, 0)}),
    ((2, 6, 8, 7), (4, 3, 3, 3), {"groups": 2, "padding": 1}),
    ((3, 4, 9, 8), (8, 1, 3, 2), {"groups": 4, "padding": (1, 0)}),
    ((3, 4, 9, 8), (4, 1, 3, 3), {"groups": 4, "padding": 2, "stride": (2, 3), "dilation": (1, 2)}),
    ((3, 5, 4, 6), (6, 5, 1, 1), {}),
    ((3, 6, 9, 8), (4, 3, 1, 1), {"groups": 2, "stride": (3, 2)}),
    ((2, 2, 3, 3), (3, 2, 1, 2), {"padding": ((4, 1), (3, 5)), "stride": 2}),
    ((2, 1, 6, 6), (3, 1, 5, 5), {"padding": "same"}),
    ((3, 2, 7, 6), (4, 2, 3, 3), {"padding": ((1, 0), (0, 2))}),
    ((5, 3, 6, 9), (2, 3, 3, 3), {"padding": 2}),
    ((2, 3, 3, 3), (2, 3, 3, 3), {}),
    ((7, 1, 1, 1), (1, 1, 1, 1), {}),
]


def launched(op, inputs, attrs, dtype):
    """The kernel's result, from outputs and a workspace full of NaN."""
    inputs = [x.astype(dtype) for x in inputs]
    specs, known = [Spec(x.shape, dtype) for x in inputs], OPS[op]
    options = known.settle(*specs, **dict(zip(known.attributes, known.pack(attrs), strict=True)))
    out = known.infer(*specs, **options)
    kernel = native.find(op, [s.dtype for s in specs], [out.dtype])
    prepared = kernel.prepare(np, specs, (out,), **options)
    if prepared is None:
        return None
    launch, nbytes = prepared
    workspace = np.full(nbytes // np.dtype(dtype).itemsize, np.nan, dtype).view(np.uint8)
    y = np.full(out.shape, np.nan, dtype)
    launch(*inputs, y, workspace)
    return y


@pytest.fixture(params=["as they are", "in small tiles", "shared by three"])
def _tiles(request, monkeypatch):
    if request.param != "as they are":
        monkeypatch.setattr(conv_rows, "COLUMNS", 4)
        monkeypatch.setattr(conv_rows, "TILE_BYTES", 256)
        monkeypatch.setattr(conv_images, "TILE_BYTES", 2048)
        monkeypatch.setattr(conv_depthwise, "RUN_BYTES", 256)
        for name, value in (("COLUMNS", 4), ("TILE_BYTES", 256), ("WEIGHT_BYTES", 1)):
            monkeypatch.setattr(conv_winograd, name, value)
    if request.param == "shared by three":
        monkeypatch.setattr(threads, "workers", lambda work, parts: max(min(3, parts), 1))


def takes(way, weight, attrs):
    """True if a way is meant for such a geometry."""
    if way == "depthwise":
        return weight[1] == 1 and attrs.get("groups", 1) > 1
    small = weight[2:] == (3, 3) and not {"stride", "dilation"} & set(attrs)
    return small or way != "winograd"


TAKEN = [
    (way, number)
    for way in WAYS
    for number, (_, weight, attrs) in enumerate(GEOMETRIES)
    if takes(way, weight, attrs)
]


@pytest.mark.parametrize(("way", "number"), TAKEN)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("_tiles")
def test_every_way_is_the_oracle(monkeypatch, way, number, dtype):
    x, weight, attrs = GEOMETRIES[number]
    monkeypatch.setattr(conv, "way", lambda g: WAYS[way])
    monkeypatch.setattr(conv_winograd, "fits", lambda g: way == "winograd")
    for op, inputs, options in calls(x, weight, attrs):
        got = launched(op, inputs, options, dtype)
        expected = ORACLES[op](*(v.astype(dtype) for v in inputs), **options)
        eps = np.finfo(dtype).eps * 16
        np.testing.assert_allclose(got, expected, rtol=eps, atol=eps * np.abs(expected).max())


def test_the_ways_chosen_are_those_measured():
    """A first layer by images, a deep one by rows."""
    chosen = {
        conv_images: [((64, 1, 28, 28), (20, 1, 5, 5), 1), ((8, 64, 32, 32), (128, 64, 1, 1), 1)],
        conv_rows: [((64, 20, 12, 12), (50, 20, 5, 5), 1), ((8, 512, 4, 4), (512, 512, 1, 1), 1)],
        conv_depthwise: [((8, 32, 16, 16), (32, 1, 3, 3), 32)],
        conv_winograd: [((8, 64, 32, 32), (64, 64, 3, 3), 1), ((2, 128, 9, 9), (64, 64, 3, 3), 2)],
    }
    for way, shapes in chosen.items():
        for x, weight, groups in shapes:
            size = [n - k + 1 for n, k in zip(x[2:], weight[2:], strict=True)]
            specs = [Spec(s, "float32") for s in (x, (x[0], weight[0], *size), weight)]
            g = conv.geometry(*specs, (1, 1), ((0, 0), (0, 0)), (1, 1), groups)
            assert conv.way(g) is way


def test_workspace_does_not_grow_with_the_batch():
    """No columns of a whole batch."""
    nbytes = {}
    for n, op in itertools.product((64, 1024), ("conv", "conv_grad_input", "conv_grad_weight")):
        x, w = Spec((n, 20, 12, 12), "float32"), Spec((50, 20, 5, 5), "float32")
        y = Spec((n, 50, 8, 8), "float32")
        ins, out, more = {
            "conv": ((x, w), y, {}),
            "conv_grad_input": ((y, w), x, {"size": (12, 12)}),
            "conv_grad_weight": ((x, y), w, {"kernel": (5, 5)}),
        }[op]
        attrs = {"stride": (1, 1), "padding": ((0, 0),) * 2, "dilation": (1, 1), "groups": 1}
        kernel = native.find(op, [x.dtype, x.dtype], [x.dtype])
        nbytes[op, n] = kernel.prepare(np, ins, (out,), **attrs, **more)[1]
    for op in ("conv", "conv_grad_input", "conv_grad_weight"):
        assert nbytes[op, 1024] <= 1.1 * nbytes[op, 64]
        assert nbytes[op, 64] <= 4 * 2**20 * threads.workers(1e12, 64)


def test_a_launch_gives_the_same_bits_each_time(monkeypatch):
    monkeypatch.setattr(threads, "workers", lambda work, parts: max(min(3, parts), 1))
    x, weight, grad = array((16, 8, 12, 12), 0), array((16, 8, 3, 3), 1), array((16, 16, 10, 10), 2)
    for op, inputs, attrs in [
        ("conv", (x, weight), {}),
        ("conv_grad_input", (grad, weight), {"size": (12, 12)}),
        ("conv_grad_weight", (x, grad), {"kernel": 3}),
    ]:
        first = launched(op, inputs, attrs, "float32")
        for _ in range(5):
            assert launched(op, inputs, attrs, "float32").tobytes() == first.tobytes()


def test_the_rounding_of_winograd_is_that_of_plain_sums():
    x, weight = array((2, 64, 12, 12), 0), array((64, 64, 3, 3), 1)
    specs = [Spec(s, "float32") for s in (x.shape, (2, 64, 10, 10), weight.shape)]
    g = conv.geometry(*specs, (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    assert conv_winograd.fits(g)
    exact = ORACLES["conv"](x.astype(np.float32), weight.astype(np.float32))
    errors = {}
    for way in (conv_rows, conv_winograd):
        launch, nbytes = way.forward(g)
        y = np.empty(exact.shape, np.float32)
        launch(*(v.astype(np.float32) for v in (x, weight)), y, np.empty(nbytes, np.uint8))
        errors[way] = np.abs(y - exact).max()
    assert errors[conv_winograd] < 3 * errors[conv_rows]
    assert errors[conv_rows] < 1e-4 * np.abs(exact).max()
