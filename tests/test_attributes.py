"""Attributes that Python calls equal are different attributes."""

import copy

import numpy as np
import pytest

from singa_core import ops
from singa_core.attributes import Packed
from singa_core.errors import ArgumentError
from singa_core.update import update


def test_a_wrong_attribute_does_not_stick(array):
    x = array(np.ones((2, 3), np.float32))
    with pytest.raises(ArgumentError, match="sum: needs an integer axis, or several, got True"):
        x.sum(axis=True)
    assert x.sum(axis=1).tolist() == [3.0, 3.0]
    with pytest.raises(ArgumentError, match="sum: needs an integer axis, or several, got 0.0"):
        x.sum(axis=0.0)
    assert x.sum(axis=0).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(ArgumentError, match=r"integer axis, or several, got \(0, True\)"):
        x.sum(axis=(0, True))
    assert x.sum(axis=(0, 1)).item() == 6.0


def test_both_zeros_are_kept_apart(array):
    x = array([-1.0])
    plus, minus = ops.leaky_relu(x, alpha=0.0), ops.leaky_relu(x, alpha=-0.0)
    assert np.signbit(plus.numpy()).tolist() == [True]  # 0.0 * -1
    assert np.signbit(minus.numpy()).tolist() == [False]
    filled = [ops.full((1,), value, device=x.device).numpy() for value in (0.0, -0.0)]
    assert [np.signbit(v).item() for v in filled] == [False, True]


def test_packed_attributes_are_one_object_for_one_meaning():
    one = ops.sum.pack({"axis": 1})
    assert ops.sum.pack({"axis": 1, "keepdims": False}) is one
    assert ops.leaky_relu.pack({"alpha": 1}) is not ops.leaky_relu.pack({"alpha": 1.0})
    assert ops.sum.pack({"axis": [0, 1]}) is ops.sum.pack({"axis": (0, 1)})
    assert ops.sum.pack({"axis": np.int64(1)}) is one
    assert Packed((1,)) != Packed((1,))


def test_attributes_need_names_and_hashes():
    with pytest.raises(ArgumentError, match=r"sum: needs attributes among \(axis, .*\), got axes"):
        ops.sum.pack({"axes": 1})
    with pytest.raises(ArgumentError, match="sum, axis: needs hashable attributes"):
        ops.sum.pack({"axis": {1}})


def test_a_bound_operation_is_the_operation_with_its_attributes(array):
    total = ops.sum.bound(axis=0)
    x = array([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert total(x).tolist() == [4.0, 6.0]
    total(x).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert total.attrs is ops.sum.pack({"axis": 0})
    assert copy.deepcopy(total) is total
    with pytest.raises(ArgumentError, match=r"sum: needs attributes among \(axis, .*\), got axes"):
        ops.sum.bound(axes=0)


def test_update_takes_a_bound_operation(array):
    x = array([[1.0, 2.0], [3.0, 4.0]])
    cell = array([0.0, 0.0])
    assert update(ops.sum.bound(axis=0), (x,), (cell,))[0] is cell
    assert cell.tolist() == [4.0, 6.0]
