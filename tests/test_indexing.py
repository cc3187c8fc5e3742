"""x[key] and x[key] = value, against NumPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import both, check_gradients, random
from singa_core import ops
from singa_core.autograd import gradients
from singa_core.engine import graph
from singa_core.errors import DTypeError, OutOfRange, RecordingError, ShapeError
from singa_core.mode import no_grad

X = np.arange(24).reshape(2, 3, 4)

BASIC = [
    0, -1, (1, 2), (1, 2, 3), slice(1), slice(None, None, -1), (slice(None), slice(2, None, -2)),
    ..., (..., 0), (0, ..., 1), None, (None, 0), (slice(None), None, 1), (..., None),
    (slice(5, 9),), (slice(1, 1),), (slice(-1, None), slice(-2, None)), (), slice(-9, 9, 3),
]  # fmt: skip
ARRAYS = [
    [1, 0, 1], [-1], ([0, 1], [2, 0]), (slice(None), [0, 2]), (0, [1, 2]), ([0, 1], slice(None), 1),
    ([0, 1], slice(None), [3, 1]), (slice(None), [0, 2], [1, 3]), ([[0], [1]], [0, 2]),
    (None, [0, 1], [1, 0]), ([0, 1], None, [1, 0]), (..., [0, -1]), ([0], ..., [1]),
    (slice(None, None, -1), [2, 0], slice(1, 3)), [], (slice(None), []), (1, [0, 2], 3),
    (1, slice(1, 3), [0]), (None, [0], 1, ..., [1, 2]), (slice(None), [0, 1], ..., 2),
    ([1, 0], slice(None, None, -1)),
]  # fmt: skip


def name(key):
    return str(key)


def as_keys(key, array):
    """The key with lists as they are, as NumPy arrays and as tensors."""
    parts = key if isinstance(key, tuple) else (key,)
    yield key
    for convert in (np.asarray, array):
        made = tuple(convert(p) if isinstance(p, list) and p else p for p in parts)
        yield made if isinstance(key, tuple) else made[0]


@pytest.mark.filterwarnings("ignore::singa_core.recorder.RecordingWarning")  # a host index is baked
@pytest.mark.parametrize("key", BASIC + ARRAYS, ids=name)
def test_reading_is_numpys(array, key):
    for form in as_keys(key, array):
        y = both(lambda x, form=form: x[form], array(X))
        np.testing.assert_array_equal(y.numpy(), X[key])


@pytest.mark.parametrize("key", BASIC + ARRAYS, ids=name)
def test_writing_is_numpys(array, key):
    for form in as_keys(key, array):
        for value in (-7, -1 - np.arange(X[key].size).reshape(X[key].shape)):
            x, expected = array(X), X.copy()
            x[form] = value
            expected[key] = value
            np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("key", BASIC + ARRAYS, ids=name)
def test_gradients_flow_through_reading(device, key):
    check_gradients(lambda x: x[key], device, random(2, 3, 4))


def written(x, key, value):
    y = x * 1.0  # not a leaf
    y[key] = value
    return y


@pytest.mark.parametrize("key", BASIC + ARRAYS, ids=name)
def test_gradients_flow_through_writing(device, key):
    value = random(*X[key].shape, seed=1)
    check_gradients(lambda x, v: written(x, key, v), device, random(2, 3, 4), value)


def test_a_part_that_is_written_loses_its_gradient_and_the_value_gets_it(array):
    x, v = array([1.0, 2.0, 3.0], requires_grad=True), array(5.0, requires_grad=True)
    y = x * 10.0
    y[1:] = v
    dx, dv = gradients((y * array([1.0, 2.0, 3.0])).sum(), [x, v])
    assert dx.tolist() == [10.0, 0.0, 0.0]
    assert dv.item() == 5.0  # 2 + 3


def test_of_several_writers_only_the_last_gets_a_gradient(array):
    v = array([1.0, 2.0, 3.0], requires_grad=True)
    y = array(np.zeros(2, np.float32))
    y[[0, 1, 0]] = v
    assert y.tolist() == [3.0, 2.0]
    assert gradients(y.sum(), v).tolist() == [0.0, 1.0, 1.0]


def test_places_that_repeat_add_up_in_the_gradient(array):
    x = array([1.0, 2.0, 3.0], requires_grad=True)
    assert gradients(x[[0, 2, 2]].sum(), x).tolist() == [1.0, 0.0, 2.0]


# -- masks -----------------------------------------------------------------------------------------


MASK = X % 3 == 0


def test_a_mask_reads_in_c_order(array):
    assert array(X)[array(MASK)].tolist() == X[MASK].tolist()
    assert array(X)[MASK].tolist() == X[MASK].tolist()
    rows = np.array([False, True])
    np.testing.assert_array_equal(array(X)[array(rows)].numpy(), X[rows])
    np.testing.assert_array_equal(array(X)[:, MASK[0, :, 0]].numpy(), X[:, MASK[0, :, 0]])
    np.testing.assert_array_equal(array(X)[MASK[:, :, 0], 1].numpy(), X[MASK[:, :, 0], 1])
    np.testing.assert_array_equal(array(X)[[True, False]].numpy(), X[[True, False]])


@pytest.mark.parametrize("value", [5, np.arange(4), np.arange(X[MASK[..., 0]].size).reshape(-1, 4)])
def test_a_mask_writes_numbers_rows_and_lists(array, value):
    x, expected, mask = array(X), X.copy(), MASK[..., 0]
    x[array(mask)] = value
    expected[mask] = value
    np.testing.assert_array_equal(x.numpy(), expected)


def test_writing_by_mask_is_recorded_as_where(device, array):
    def clamp(x):
        y = x * 1.0
        y[x < 0.0] = 0.5
        return y

    assert both(clamp, array([-1.0, 2.0])).tolist() == [0.5, 2.0]
    check_gradients(clamp, device, [-1.0, 2.0])


def test_reading_by_mask_while_recording_is_an_error_with_the_line(array, device):
    recorded = graph(lambda x: x[x > 0.0], device=device)
    with pytest.raises(
        RecordingError, match=r"x\[mask\]: needs a value, .* got x\[mask\] at .*test_indexing"
    ):
        recorded(array([1.0, -1.0]))


def test_a_mask_of_another_shape_is_refused(array):
    with pytest.raises(ShapeError, match=r"index: needs a mask of shape \(2,\), got \(3,\)"):
        array(X)[np.array([True, False, True])]
    with pytest.raises(ShapeError, match=r"index: needs a mask of shape \(2,\), got \(3,\)"):
        array(X)[np.array([True, False, True])] = 0


# -- rules and their errors ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (2, OutOfRange, r"index: needs -2 <= index < 2 on axis 0, got 2\n  x: int64 \(2, 3, 4\)"),
        ((0, -4), OutOfRange, r"needs -3 <= index < 3 on axis 1, got -4"),
        ([0, 5], OutOfRange, r"needs -2 <= index < 2 on axis 0, got 5"),
        ((slice(None), np.array([[0, 3]])), OutOfRange, r"needs -3 <= index < 3 on axis 1, got 3"),
        ((0, 0, 0, 0), ShapeError, r"needs at most 3 indices, got 4"),
        ((..., ...), ShapeError, r"needs at most one \.\.\., got 2"),
        (slice(None, None, 0), ShapeError, r"needs a slice with step != 0"),
        (1.0, DTypeError, r"needs integers, slices, .*, got float"),
        ("a", DTypeError, r"needs integers, slices, .*, got str"),
        (True, DTypeError, r"needs integers, slices, .*, got True"),
        ([0.5], DTypeError, r"needs integers, slices, .*, got an array of float64"),
        (
            ([0, 1], [0, 1, 2]),
            ShapeError,
            r"index: needs equal sizes \(or 1\) at axis -1, got 2 and 3",
        ),
    ],
    ids=name,
)
def test_a_key_that_does_not_fit_is_refused(array, key, error, text):
    x = array(X)
    with pytest.raises(error, match=text):
        x[key]
    with pytest.raises(error, match=text):
        x[key] = 0
    assert x.tolist() == X.tolist()


def test_an_index_on_the_device_is_checked_by_the_device(array, device):
    if not device.capabilities.host:
        pytest.skip("only told later, by the next wait")
    with pytest.raises(OutOfRange, match=r"gather: needs -2 <= index < 2, got 2"):
        array(X)[array([0, 2])]
    with pytest.raises(OutOfRange, match=r"gather: needs -6 <= index < 6, got 6"):
        array(X)[array([0, 1]), array([0, 3])]  # two axes as one: outside of all


def test_a_value_may_not_lose_its_fraction(array):
    x = array([1, 2, 3])
    with pytest.raises(
        DTypeError, match=r"needs values that int64 holds, got float64 values\n  x: int64"
    ):
        x[0] = 1.5
    with pytest.raises(DTypeError, match=r"needs values that int64 holds, got float32"):
        x[:2] = array([1.0, 2.0])
    assert x.tolist() == [1, 2, 3]


def test_a_value_of_a_lower_kind_is_cast(array):
    x = array([1.0, 2.0, 3.0])
    x[0] = 7
    x[1:] = array([True, False])
    assert (x.tolist(), x.dtype.name) == ([7.0, 1.0, 0.0], "float32")


def test_a_value_must_broadcast(array):
    with pytest.raises(ShapeError, match=r"index assignment: needs equal sizes .* got 2 and 4"):
        array(X)[0] = np.arange(2)
    with pytest.raises(ShapeError, match=r"needs a value that broadcasts to \(4,\), got \(3, 4\)"):
        array(X)[0, 0] = np.zeros((3, 4), int)


def test_a_number_beyond_the_dtype_is_refused(array):
    with pytest.raises(DTypeError, match=r"needs numbers in the range of int8, got 300"):
        array([1, 2], "int8")[0] = 300


def test_leading_axes_of_size_1_of_a_value_are_dropped(array):
    x = array(X)
    x[0, 0] = np.arange(4).reshape(1, 1, 4)
    assert x[0, 0].tolist() == [0, 1, 2, 3]


# -- cells -----------------------------------------------------------------------------------------


def test_a_part_is_a_cell_of_its_own(array):
    x = array([[1, 2], [3, 4]])
    whole, row = x[...], x[0]
    row += 10
    whole[1] = 0
    assert x.tolist() == [[1, 2], [3, 4]]
    assert (row.tolist(), whole.tolist()) == ([11, 12], [[1, 2], [0, 0]])


def test_who_holds_the_old_value_keeps_it(array):
    x = array([1.0, 2.0, 3.0])
    old, part, alias = x.detach(), x[1:], x
    x[:] = 0.0
    assert (old.tolist(), part.tolist()) == ([1.0, 2.0, 3.0], [2.0, 3.0])
    assert alias.tolist() == [0.0, 0.0, 0.0]


def test_a_leaf_is_written_to_without_a_tape_only(array):
    x = array([1.0, 2.0], requires_grad=True)
    with pytest.raises(Exception, match="no_grad"):
        x[0] = 5.0
    with no_grad():
        x[0] = 5.0
    assert x.requires_grad
    assert x.is_leaf
    assert x.tolist() == [5.0, 2.0]


def test_augmented_assignment_to_a_part(array):
    x = array([[1, 2], [3, 4]])
    x[0] += 10
    x[:, 1] *= 2
    assert x.tolist() == [[11, 24], [3, 8]]


def test_iteration_and_membership(array):
    x = array([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x
    assert 5 not in x
    with pytest.raises(ShapeError, match=r"iter\(\): needs at least one axis"):
        iter(array(1))


def test_writing_while_recording(array):
    def step(x, i):
        y = x * 2
        y[0] = 7
        y[i] = -1
        y[..., 1] += 1
        return y

    y = both(step, array([[1, 2], [3, 4], [5, 6]]), array([2]))
    assert y.tolist() == [[7, 8], [6, 9], [-1, 0]]


def test_boolean_mask_and_nonzero_by_name(array):
    x = array([[1, 0], [0, 2]])
    assert ops.boolean_mask(x, x > 0).tolist() == [1, 2]
    assert [i.tolist() for i in x.nonzero()] == [[0, 1], [0, 1]]


# -- any key ---------------------------------------------------------------------------------------


SIZES = st.lists(st.integers(0, 4), max_size=4)


@st.composite
def keys(draw):
    """A shape and a key that NumPy takes for it."""
    shape = draw(SIZES)
    parts, axis, dots = [], 0, False
    broadcast = draw(st.sampled_from([(), (1,), (3,), (2, 3), (0,)]))
    while axis < len(shape):
        n = shape[axis]
        kinds = ["slice", "none", "stop"] + ["dots"] * (not dots) + ["mask"]
        kinds += ["int", "array", "array"] if n else []
        kind = draw(st.sampled_from(kinds))
        if kind == "stop":
            break
        if kind == "dots":
            parts.append(...)
            dots, left = True, draw(st.integers(axis, len(shape)))
            axis = left
            shape_after = shape[left:]
            assert len(shape_after) == len(shape) - left
            continue
        if kind == "none":
            parts.append(None)
            if len(parts) > 6:
                break
            continue
        if kind == "int":
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            ends = st.none() | st.integers(-n - 2, n + 2)
            step = draw(st.none() | st.integers(-3, 3).filter(bool))
            parts.append(slice(draw(ends), draw(ends), step))
        elif kind == "mask":
            parts.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool))
        else:
            size = int(np.prod(broadcast))
            flat = draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size))
            parts.append(np.array(flat, np.int64).reshape(broadcast))
        axis += 1
    if dots and axis < len(shape):  # what comes after the dots must reach the end
        parts.extend([slice(None)] * (len(shape) - axis))
    return tuple(shape), tuple(parts)


@settings(max_examples=400)
@given(keys(), st.booleans())
def test_any_key_reads_and_writes_as_numpys(array, shape_and_key, on_device):
    shape, key = shape_and_key
    host = np.arange(int(np.prod(shape))).reshape(shape)
    try:
        expected = host[key]
    except IndexError:  # masks of different counts do not broadcast
        with pytest.raises((ShapeError, OutOfRange)):
            array(host)[key]
        return
    ours = key
    if on_device:
        ours = tuple(array(p) if isinstance(p, np.ndarray) else p for p in key)
    np.testing.assert_array_equal(array(host)[ours].numpy(), expected)
    x, written_to = array(host), host.copy()
    value = -1 - np.arange(expected.size).reshape(expected.shape)
    x[ours] = value
    written_to[key] = value
    np.testing.assert_array_equal(x.numpy(), written_to)
