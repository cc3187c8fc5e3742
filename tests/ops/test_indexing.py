"""Gather, scatter, sort and what is made of them: values by hand, gradients, errors. Keys: test_indexing."""

import math

import numpy as np
import pytest

from checks import both, check_gradients, random
from singa_core import ops
from singa_core.autograd import gradients
from singa_core.engine import graph
from singa_core.errors import DTypeError, OutOfRange, RecordingError, ShapeError


def test_gather_takes_rows_columns_and_from_the_end(array):
    x = array([[1, 2, 3], [4, 5, 6]])
    assert both(lambda v, i: ops.gather(v, i, axis=0), x, array([1, 0, -1])).tolist() == [
        [4, 5, 6], [1, 2, 3], [4, 5, 6],
    ]  # fmt: skip
    assert ops.gather(x, array([[0], [2]]), axis=1).tolist() == [[[1], [3]], [[4], [6]]]
    assert ops.gather(x, array(2), axis=-1).tolist() == [3, 6]
    assert ops.gather(x, array([], "int64"), axis=0).shape == (0, 3)


def test_scatter_add_adds_every_value_and_scatter_keeps_the_last(array):
    x, i, v = array([10, 20, 30]), array([2, 0, 2]), array([1, 2, 3])
    assert both(lambda *a: ops.scatter_add(*a, axis=0), x, i, v).tolist() == [12, 20, 34]
    assert both(lambda *a: ops.scatter(*a, axis=0), x, i, v).tolist() == [2, 20, 3]


def test_gather_and_scatter_add_are_each_others_gradient(array):
    """<gather(x), v> = <x, scatter_add(0, v)>: one is the transpose of the other."""
    x, v, i = random(5, 3), random(4, 3, seed=1), [4, 0, 4, 2]
    taken = (ops.gather(array(x), array(i), axis=0) * array(v)).sum().item()
    zeros = array(np.zeros_like(x))
    given = (array(x) * ops.scatter_add(zeros, array(i), array(v), axis=0)).sum().item()
    assert taken == pytest.approx(given, rel=1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gradients(device, array, axis):
    i = array([1, 0, 1])
    check_gradients(lambda x: ops.gather(x, i, axis=axis), device, random(2, 3, 2))
    shape = [2, 3, 2]
    shape[axis] = 3
    v = random(*shape, seed=1)
    for op in (ops.scatter, ops.scatter_add):
        check_gradients(lambda x, w, op=op: op(x, i, w, axis=axis), device, random(2, 3, 2), v)


def test_an_index_outside_is_refused_where_the_device_checks(array, device):
    if not device.capabilities.host:
        pytest.skip("only told later, by the next wait")
    with pytest.raises(OutOfRange, match=r"gather: needs -3 <= index < 3, got 3"):
        ops.gather(array([1, 2, 3]), array([0, 3]), axis=0)
    with pytest.raises(OutOfRange, match=r"scatter: needs -3 <= index < 3, got -4"):
        ops.scatter(array([1, 2, 3]), array([-4]), array([0]), axis=0)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x, i: ops.gather(x, x, axis=0), DTypeError, r"gather: needs an index of an integer dtype, got float32"),
        (lambda x, i: ops.gather(x, i, axis=1), ShapeError, r"gather: needs -1 <= axis < 1, got 1"),
        (lambda x, i: ops.scatter_add(x, i, x, axis=0), ShapeError, r"scatter_add: needs v.shape == \(2,\), got \(3,\)"),
        (lambda x, i: ops.put(x, i, x), ShapeError, r"put: needs v.shape == index.shape, got \(3,\)"),
        (lambda x, i: ops.masked_fill(x, i, 0.0), DTypeError, r"masked_fill: needs bool, got int64"),
        (lambda x, i: ops.masked_fill(x, x.expand_dims(0) > 0, 0.0), ShapeError, r"masked_fill: needs mask and v that"),
        (lambda x, i: ops.topk(x, 4), ShapeError, r"topk: needs 0 <= k <= 3, got 4"),
        (lambda x, i: ops.take_along_axis(x, i.expand_dims(0)), ShapeError, r"needs index.ndim == x.ndim, got 2 != 1"),
        (lambda x, i: ops.boolean_mask(x, i), DTypeError, r"boolean_mask: needs a bool mask, got int64"),
        (lambda x, i: ops.sort(x.sum()), ShapeError, r"sort: needs a value with axes, got axis -1 of a scalar"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named(array, call, error, text):
    with pytest.raises(error, match=text):
        call(array([1.0, 2.0, 3.0]), array([0, 1]))


# -- order ------------------------------------------------------------------------------------------


def test_sort_gives_values_and_places_and_is_stable(array):
    x = array([[3, 1, 2], [5, 5, 4]])
    values, places = both(lambda v: ops.sort(v), x)
    assert (values.tolist(), places.tolist()) == ([[1, 2, 3], [4, 5, 5]], [[1, 2, 0], [2, 0, 1]])
    values, places = both(lambda v: ops.sort(v, descending=True), x)
    assert (values.tolist(), places.tolist()) == ([[3, 2, 1], [5, 5, 4]], [[0, 2, 1], [0, 1, 2]])
    assert ops.argsort(x, 0).tolist() == [[0, 0, 0], [1, 1, 1]]


def test_nan_counts_as_the_largest(array):
    values, places = ops.sort(array([math.nan, 1.0, math.inf]))
    assert places.tolist() == [1, 2, 0]
    assert math.isnan(values.tolist()[-1])
    assert ops.sort(array([1.0, math.nan]), descending=True)[1].tolist() == [1, 0]


def test_topk(array):
    x = array([[3, 1, 2], [4, 6, 5]])
    values, places = both(lambda v: ops.topk(v, 2), x)
    assert (values.tolist(), places.tolist()) == ([[3, 2], [6, 5]], [[0, 2], [1, 2]])
    assert ops.topk(x, 1, 0, largest=False)[0].tolist() == [[3, 1, 2]]
    assert ops.topk(x, 0)[0].shape == (2, 0)


def test_the_gradient_of_a_sort_goes_where_the_values_come_from(array, device):
    x = array([3.0, 1.0, 2.0], requires_grad=True)
    values, _ = ops.sort(x)
    assert gradients((values * array([1.0, 10.0, 100.0])).sum(), x).tolist() == [100.0, 1.0, 10.0]
    for axis in (0, 1, -1):
        check_gradients(lambda v, axis=axis: ops.topk(v, 2, axis)[0], device, random(3, 4, 2))


def test_a_sorted_value_stands_where_its_place_says(array):
    x = array(random(4, 5))
    values, places = ops.sort(x, axis=0)
    assert ops.take_along_axis(x, places, axis=0).tolist() == values.tolist()


# -- along an axis ----------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis_is_numpys(array, device, axis):
    x = random(2, 3, 4)
    i = np.random.default_rng(0).integers(-2, 2, (2, 3, 4))
    y = both(lambda v, w: ops.take_along_axis(v, w, axis=axis), array(x), array(i))
    np.testing.assert_array_equal(y.numpy(), np.take_along_axis(x, i, axis))
    check_gradients(lambda v: ops.take_along_axis(v, array(i), axis=axis), device, x)


def test_axes_beside_the_index_broadcast(array):
    x = array([[1, 2, 3], [4, 5, 6]])
    assert ops.take_along_axis(x, array([[2, 0]])).tolist() == [[3, 1], [6, 4]]
    assert ops.take_along_axis(array([[1, 2, 3]]), array([[2], [0]])).tolist() == [[3], [1]]


def test_an_index_beside_its_row_does_not_reach_the_next_one(array, device):
    if not device.capabilities.host:
        pytest.skip("only told later, by the next wait")
    with pytest.raises(OutOfRange, match=r"gather: needs -4 <= index < 4, got 4"):
        ops.take_along_axis(array([[1, 2], [3, 4]]), array([[2], [0]]))


def test_put_along_axis_writes_where_take_reads(array, device):
    x, i = random(3, 4), array([[1, 0], [2, 3], [0, 0]])
    y = ops.put_along_axis(array(x), i, array(np.zeros((1, 2), np.float32)))
    expected = x.copy()
    np.put_along_axis(expected, i.numpy(), 0.0, axis=-1)
    np.testing.assert_array_equal(y.numpy(), expected)
    check_gradients(lambda a, v: ops.put_along_axis(a, i, v), device, x, random(3, 2, seed=1))


def test_take_put_and_masked_fill(array):
    x = array([[1, 2], [3, 4]])
    assert ops.take(x, array([3, 0])).tolist() == [4, 1]
    assert ops.take(x, [1, 1], axis=1).tolist() == [[2, 2], [4, 4]]
    assert both(ops.put, x, array([[-1]]), array([[9]])).tolist() == [[1, 2], [3, 9]]
    assert both(ops.masked_fill, x, x > 2, array(0)).tolist() == [[1, 2], [0, 0]]


# -- read on the host -------------------------------------------------------------------------------


def test_nonzero_and_unique(array):
    x = array([[0, 2], [1, 2]])
    assert [i.tolist() for i in ops.nonzero(x)] == [[0, 1, 1], [1, 0, 1]]
    assert ops.unique(x).tolist() == [0, 1, 2]
    found = ops.unique(x, return_inverse=True, return_counts=True)
    assert found.inverse.tolist() == [[0, 2], [1, 2]]
    assert found.counts.tolist() == [1, 1, 2]
    assert ops.unique(x).dtype is x.dtype
    assert ops.take(found.values, found.inverse).tolist() == x.tolist()


@pytest.mark.parametrize(
    ("call", "what"),
    [(ops.nonzero, "nonzero"), (ops.unique, "unique"), (lambda x: ops.boolean_mask(x, x > 0), r"x\[mask\]")],
)  # fmt: skip
def test_what_depends_on_values_cannot_be_recorded(array, device, call, what):
    recorded = graph(call, device=device)
    with pytest.raises(RecordingError, match=rf"{what}: needs a value, .* at .*test_indexing"):
        recorded(array([1.0, 0.0]))
