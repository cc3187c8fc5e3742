"""Pooling layers: their operation with the attributes they were given."""

import numpy as np
import pytest

from checks import both, random
from singa_core import ops
from singa_core.errors import ArgumentError, ShapeError
from singa_core.layers import (
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    GlobalAvgPool,
    MaxPool1d,
    MaxPool2d,
)  # fmt: skip


def test_pooling_by_hand(array):
    x = array([[[[1.0, 5.0, 2.0], [4.0, 2.0, 9.0]]]])
    assert both(MaxPool2d(2), x).tolist() == [[[[5.0]]]]
    assert both(MaxPool2d(2, stride=1), x).tolist() == [[[[5.0, 9.0]]]]
    assert both(AvgPool2d((2, 1)), x).tolist() == [[[[2.5, 3.5, 5.5]]]]
    assert both(GlobalAvgPool(), array([[[1.0, 3.0], [2.0, 6.0]]])).tolist() == [[2.0, 4.0]]
    assert GlobalAvgPool(keepdims=True)(x).shape == (1, 1, 1, 1)
    assert both(AdaptiveAvgPool2d((1, 2)), x).tolist() == [[[[3.0, 4.5]]]]


@pytest.mark.parametrize(
    ("layer", "op", "attrs", "shape"),
    [
        (MaxPool1d(3, stride=2, padding=1), ops.max_pool, {"kernel": 3, "stride": 2, "padding": 1}, (2, 3, 9)),
        (MaxPool2d(2, dilation=2, ceil_mode=True), ops.max_pool, {"kernel": 2, "dilation": 2, "ceil_mode": True}, (1, 2, 6, 7)),
        (AvgPool1d(3, padding=1), ops.avg_pool, {"kernel": 3, "padding": 1}, (2, 3, 9)),
        (AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), ops.avg_pool,
         {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}, (1, 2, 6, 7)),
    ],
)  # fmt: skip
def test_layers_pass_on_what_they_were_given(array, layer, op, attrs, shape):
    x = array(random(*shape))
    np.testing.assert_array_equal(both(layer, x).numpy(), op(x, **attrs).numpy())


def test_input_that_does_not_fit(array):
    with pytest.raises(ShapeError, match=r"^MaxPool2d: needs x \(n, c, h, w\), got \(2, 3, 4\)"):
        MaxPool2d(2)(array(random(2, 3, 4)))
    with pytest.raises(ShapeError, match=r"^AvgPool1d: needs x \(n, c, w\), got \(1, 2, 3, 4\)"):
        AvgPool1d(2)(array(random(1, 2, 3, 4)))
    with pytest.raises(ShapeError, match=r"AdaptiveAvgPool2d: needs x \(n, c, h, w\)"):
        AdaptiveAvgPool2d(1)(array(random(2, 3, 4)))
    with pytest.raises(ArgumentError, match="MaxPool2d: needs kernel_size: an integer >= 1"):
        MaxPool2d(0)
    with pytest.raises(ArgumentError, match="AvgPool2d: needs stride: an integer >= 1"):
        AvgPool2d(2, stride=0)


def test_layers_say_what_they_are():
    assert repr(MaxPool2d(2)) == "MaxPool2d((2, 2), stride=(2, 2))"
    layer = AvgPool1d(3, stride=2, padding=1, ceil_mode=True)
    assert repr(layer) == "AvgPool1d((3,), stride=(2,), padding=1, ceil_mode=True)"
    assert repr(AdaptiveAvgPool2d(7)) == "AdaptiveAvgPool2d((7, 7))"
    assert repr(GlobalAvgPool()) == "GlobalAvgPool(keepdims=False)"
