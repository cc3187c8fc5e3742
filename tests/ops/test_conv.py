"""Convolution: values by hand, a peer, laws, derivatives, and what is said when it does not fit."""

import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, random
from singa_core import ops
from singa_core.errors import ArgumentError, DTypeError, ShapeError

# x, weight, attributes: what torch can do as well
CASES = {
    "1d": ((2, 3, 9), (4, 3, 3), {}),
    "1d strided": ((2, 3, 9), (4, 3, 2), {"stride": 3, "padding": 1, "dilation": 2}),
    "2d": ((2, 3, 6, 7), (4, 3, 3, 2), {}),
    "2d padded": ((2, 3, 6, 7), (4, 3, 3, 3), {"padding": (1, 2)}),
    "2d strided": ((3, 2, 9, 8), (4, 2, 3, 3), {"stride": (2, 3), "padding": 1}),
    "2d dilated": ((2, 2, 9, 8), (3, 2, 3, 2), {"dilation": (2, 3), "padding": (2, 1)}),
    "2d same": ((2, 2, 5, 6), (3, 2, 2, 3), {"padding": "same"}),
    "2d groups": ((2, 6, 5, 5), (4, 3, 3, 3), {"groups": 2, "padding": 1}),
    "2d depthwise": ((2, 4, 6, 5), (8, 1, 3, 3), {"groups": 4, "padding": 1, "stride": 2}),
    "2d 1x1": ((2, 5, 4, 3), (6, 5, 1, 1), {}),
    "2d 1x1 strided": ((2, 5, 5, 4), (6, 5, 1, 1), {"stride": 2}),
    "2d stride beyond the kernel": ((2, 2, 8, 8), (3, 2, 2, 1), {"stride": 3}),
    "2d first layer": ((3, 1, 12, 12), (5, 1, 5, 5), {}),
    "3d": ((2, 2, 4, 5, 4), (3, 2, 2, 3, 2), {"padding": (0, 1, 1), "stride": (2, 1, 1)}),
}


def torch_conv(rank, name="conv"):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    return getattr(torch.nn.functional, f"{name}{rank}d")


def inputs(x, weight, bias=True):
    hosts = [random(*x), random(*weight, seed=1)]
    return [*hosts, random(weight[0], seed=2)] if bias else hosts


# -- values ------------------------------------------------------------------------------------------


def test_conv_by_hand(array):
    x = array([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]])
    weight = array([[[[1.0, 0.0], [0.0, 10.0]]]])
    y = both(ops.conv, x, weight, array([0.5]))
    assert y.tolist() == [[[[51.5, 62.5], [84.5, 95.5]]]]  # 1 + 10*5 + 0.5 and so on
    y = both(lambda x, w: ops.conv(x, w, stride=2, padding=((1, 0), (0, 1))), x, weight)
    assert y.tolist() == [[[[20.0, 0.0], [84.0, 6.0]]]]  # rows 0 1 2 3, columns 1 2 3 0
    assert ops.conv(x, weight, None).shape == (1, 1, 2, 2)


def test_conv_sees_the_channels_of_its_group_only(array):
    x = array([[[1.0, 2.0], [3.0, 4.0]]])
    weight = array([[[10.0]], [[100.0]], [[1.0]], [[0.0]]])
    y = both(lambda x, w: ops.conv(x, w, groups=2), x, weight)
    assert y.tolist() == [[[10.0, 20.0], [100.0, 200.0], [3.0, 4.0], [0.0, 0.0]]]


def test_grad_input_by_hand(array):
    grad, weight = array([[[1.0, 2.0]]]), array([[[3.0, 5.0]]])
    y = both(lambda g, w: ops.conv_grad_input(g, w, size=(3,)), grad, weight)
    assert y.tolist() == [[[3.0, 11.0, 10.0]]]  # 1*3, 1*5 + 2*3, 2*5
    y = both(lambda g, w: ops.conv_grad_input(g, w, size=(5,), stride=2), grad, weight)
    assert y.tolist() == [[[3.0, 5.0, 6.0, 10.0, 0.0]]]  # no window saw the last one


def test_grad_weight_by_hand(array):
    x, grad = array([[[1.0, 2.0, 4.0]]]), array([[[1.0, 10.0]]])
    y = both(lambda x, g: ops.conv_grad_weight(x, g, kernel=(2,)), x, grad)
    assert y.tolist() == [[[21.0, 42.0]]]  # 1*1 + 10*2, 1*2 + 10*4


def test_transpose_by_hand(array):
    x, weight = array([[[1.0, 2.0]]]), array([[[1.0, 10.0, 100.0]]])
    y = both(lambda x, w, b: ops.conv_transpose(x, w, b, stride=2), x, weight, array([1.0]))
    assert y.tolist() == [[[2.0, 11.0, 103.0, 21.0, 201.0]]]
    y = ops.conv_transpose(x, weight, stride=2, padding=((1, 0),), output_padding=1)
    assert y.tolist() == [[[10.0, 102.0, 20.0, 200.0, 0.0]]]
    assert ops.conv_transpose(x, weight, stride=3, padding="same").shape == (1, 1, 6)


@pytest.mark.parametrize("size", range(4, 9))
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_same_gives_size_over_stride(array, size, stride, kernel):
    x, weight = array(random(1, 1, size)), array(random(1, 1, kernel))
    y = ops.conv(x, weight, stride=stride, padding="same")
    assert y.shape == (1, 1, -(-size // stride))
    back = ops.conv_transpose(y, weight, stride=stride, padding="same")
    assert back.shape == (1, 1, y.shape[2] * stride)


def test_nothing_in_gives_nothing_or_the_bias(array):
    weight, bias = array(random(3, 2, 2)), array([1.0, 2.0, 3.0])
    assert ops.conv(array(np.zeros((0, 2, 4))), weight, bias).shape == (0, 3, 3)
    empty = ops.conv(array(np.zeros((1, 0, 4))), array(np.zeros((3, 0, 2))), array([1.0, 2.0, 3.0]))
    assert empty.tolist() == [[[1.0] * 3, [2.0] * 3, [3.0] * 3]]
    none = ops.conv_grad_weight(array(np.zeros((0, 2, 4))), array(np.zeros((0, 3, 3))), kernel=2)
    assert none.tolist() == np.zeros((3, 2, 2)).tolist()


def test_float16_is_added_up_in_float32(array):
    x, weight = array(np.ones((1, 1, 4096)), "float16"), array(np.ones((1, 1, 4096)), "float16")
    y = ops.conv(x, weight)
    assert (y.dtype.name, y.tolist()) == ("float16", [[[4096.0]]])  # in float16 it stops at 2048


# -- a peer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
def test_conv_against_torch(device, name, bias):
    x, weight, attrs = CASES[name]
    theirs = torch_conv(len(x) - 2)
    hosts = inputs(x, weight, bias)
    check_against_torch(
        lambda *xs: ops.conv(*xs, **attrs), lambda *xs: theirs(*xs, **attrs), device, *hosts,
        rtol=1e-4, atol=1e-4,
    )  # fmt: skip


TRANSPOSED = {
    "1d": ((2, 3, 4), (3, 4, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "2d": ((2, 3, 4, 5), (3, 2, 3, 2), {}),
    "2d groups": ((2, 4, 4, 3), (4, 3, 2, 3), {"groups": 2, "stride": (2, 1), "padding": (1, 0)}),
    "2d dilated": ((1, 2, 3, 3), (2, 2, 2, 2), {"dilation": 2, "stride": 3, "output_padding": 2}),
    "3d": ((1, 2, 2, 3, 2), (2, 2, 2, 2, 2), {"stride": 2}),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transpose_against_torch(device, name):
    x, weight, attrs = TRANSPOSED[name]
    theirs = torch_conv(len(x) - 2, "conv_transpose")
    bias = random(weight[1] * attrs.get("groups", 1), seed=2)
    check_against_torch(
        lambda *xs: ops.conv_transpose(*xs, **attrs), lambda *xs: theirs(*xs, **attrs), device,
        *inputs(x, weight, bias=False), bias, rtol=1e-4, atol=1e-4,
    )  # fmt: skip


# -- laws and derivatives ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_transposed_maps(array, name):
    """<conv(x, w), g> = <x, grad_input(g, w)> = <w, grad_weight(x, g)>."""
    size, kernel, attrs = CASES[name]
    x, weight = (array(h.astype(np.float64)) for h in inputs(size, kernel, bias=False))
    y = ops.conv(x, weight, **attrs)
    g = array(random(*y.shape, seed=3, dtype=np.float64))
    product = (y * g).sum().item()
    dx = ops.conv_grad_input(g, weight, size=size[2:], **attrs)
    assert (x * dx).sum().item() == pytest.approx(product, rel=1e-12)
    dw = ops.conv_grad_weight(x, g, kernel=kernel[2:], **attrs)
    assert (weight * dw).sum().item() == pytest.approx(product, rel=1e-12)


@pytest.mark.parametrize("name", ["1d strided", "2d padded", "2d groups", "2d depthwise", "3d"])
@pytest.mark.parametrize("order", [1, 2])
def test_conv_gradients(device, name, order):
    x, weight, attrs = CASES[name]
    check_gradients(
        lambda *xs: ops.conv(*xs, **attrs), device, *inputs(x, weight), order=order, rtol=1e-5
    )


def test_a_kernel_of_one_is_a_linear_map(array):
    x, weight = random(2, 5, 4, 3), random(6, 5, seed=1)
    y = ops.conv(array(x), array(weight.reshape(6, 5, 1, 1)))
    expected = np.einsum("nchw,oc->nohw", x, weight)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_strided_input(array):
    x, weight = random(7, 6, 3, 2), random(4, 3, 3, 3, seed=1)
    y = ops.conv(array(x).permute(3, 2, 1, 0), array(weight), padding=1)
    whole = ops.conv(array(np.ascontiguousarray(x.transpose(3, 2, 1, 0))), array(weight), padding=1)
    np.testing.assert_allclose(y.numpy(), whole.numpy(), rtol=1e-5, atol=1e-5)


# -- what is said ------------------------------------------------------------------------------------


def zeros(array, *shapes):
    return [array(np.zeros(shape, np.float32)) for shape in shapes]


@pytest.mark.parametrize(
    ("shapes", "attrs", "rule"),
    [
        (((2, 3), (4, 3)), {}, r"x and weight with the same number of axes, at least 3, got 2 and 2"),
        (((2, 3, 8), (4, 3, 3, 3)), {}, r"same number of axes, at least 3, got 3 and 4\n  x: float32"),
        (((2, 3, 8, 8), (4, 5, 3, 3)), {},
         r"x.shape\[1\] == weight.shape\[1\] \* groups \(in_channels\), got 3 != 5 \* 1\n  x: .*\n  weight: "),
        (((2, 4, 8), (3, 2, 3)), {"groups": 2}, r"weight.shape\[0\] % groups == 0 \(out_channels\), got 3 % 2 = 1"),
        (((2, 3, 8), (4, 3, 0)), {}, r"kernel sizes >= 1, got \(0,\)"),
        (((2, 3, 8), (4, 3, 3), (3,)), {}, r"\(out_channels\), got \(3,\) != \(4,\)"),
        (((2, 3, 9, 4), (4, 3, 3, 3)), {"dilation": (1, 2)},
         r"size \+ padding >= dilation \* \(kernel - 1\) \+ 1 on every spatial axis, got 4 \+ 0 < 5 on spatial axis 1"),
    ],
)  # fmt: skip
def test_conv_names_the_broken_rule(array, shapes, attrs, rule):
    with pytest.raises(ShapeError, match=f"^conv: needs (.*)?{rule}"):
        ops.conv(*zeros(array, *shapes), **attrs)


@pytest.mark.parametrize(
    ("attrs", "rule"),
    [
        ({"stride": 0}, r"stride: an integer >= 1, or one for each of 2 spatial axes, got 0"),
        ({"stride": (1, 2, 3)}, r"stride: .* got \(1, 2, 3\)"),
        ({"dilation": 1.5}, r"dilation: an integer >= 1, .* got 1.5"),
        ({"groups": 0}, r"groups: an integer >= 1, .* got 0"),
        ({"padding": -1}, r"padding >= 0, one or a pair for each of 2 spatial axes, 'same' or 'valid', got -1"),
        ({"padding": "full"}, r"'same' or 'valid', got 'full'"),
        ({"padding": (1, 2, 1, 2)}, r"got \(1, 2, 1, 2\)\ntry: \(\(before, after\), ...\), a pair for each axis"),
    ],
)  # fmt: skip
def test_conv_names_the_bad_argument(array, attrs, rule):
    with pytest.raises(ArgumentError, match=f"^conv: needs (.*)?{rule}"):
        ops.conv(*zeros(array, (2, 3, 8, 8), (4, 3, 3, 3)), **attrs)


def test_the_others_name_the_broken_rule(array):
    grad, weight = zeros(array, (2, 4, 5), (4, 3, 3))
    with pytest.raises(
        ShapeError, match=r"^conv_grad_input: needs a size for each of 1 spatial axes"
    ):
        ops.conv_grad_input(grad, weight, size=(5, 5))
    rule = r"grad.shape\[1:\] == \(weight.shape\[0\], \*out\), got \(4, 5\) and \(4, 4\)"
    with pytest.raises(ShapeError, match=rule):
        ops.conv_grad_input(grad, weight, size=(6,))
    rule = r"^conv_grad_weight: needs grad.shape == \(x.shape\[0\], o, \*out\), got \(2, 4, 5\) and out \(6,\)"
    with pytest.raises(ShapeError, match=rule):
        ops.conv_grad_weight(zeros(array, (2, 3, 8))[0], grad, kernel=3)
    with pytest.raises(
        ShapeError, match=r"^conv_transpose: needs x.shape\[1\] == weight.shape\[0\]"
    ):
        ops.conv_transpose(zeros(array, (2, 3, 5))[0], weight)
    with pytest.raises(ArgumentError, match=r"output_padding < stride, got \(1,\) and \(1,\)"):
        ops.conv_transpose(grad, weight, output_padding=1)
    with pytest.raises(ShapeError, match="spatial sizes >= 1 of x and y, got"):
        ops.conv_transpose(grad, weight, padding=4)


def test_integers_are_refused(array):
    x = array(np.zeros((1, 1, 4), np.int64))
    with pytest.raises(DTypeError, match="conv: needs a floating dtype"):
        ops.conv(x, x)
