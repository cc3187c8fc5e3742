"""Views, joining, regions and what is made of them: values by hand, against NumPy, gradients, errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import both, check_gradients, random
from singa_core import ops
from singa_core.autograd import gradients
from singa_core.errors import ShapeError
from singa_core.ops.shape import regroup

X = np.arange(24).reshape(2, 3, 4)

AGAINST_NUMPY = {
    "reshape": (lambda x: ops.reshape(x, shape=(4, -1)), lambda x: x.reshape(4, -1)),
    "permute": (lambda x: ops.permute_dims(x, axes=(2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    "broadcast": (lambda x: ops.broadcast_to(x[:, :1], shape=(5, 2, 3, 4)), lambda x: np.broadcast_to(x[:, :1], (5, 2, 3, 4))),
    "expand": (lambda x: ops.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1))),
    "squeeze": (lambda x: ops.squeeze(x[:1, :, :1]), lambda x: np.squeeze(x[:1, :, :1])),
    "squeeze one": (lambda x: ops.squeeze(x[:1, :, :1], 0), lambda x: np.squeeze(x[:1, :, :1], 0)),
    "flatten": (lambda x: ops.flatten(x, 1), lambda x: x.reshape(2, 12)),
    "flatten two": (lambda x: ops.flatten(x, 0, 1), lambda x: x.reshape(6, 4)),
    "unflatten": (lambda x: ops.unflatten(x, -1, (2, -1)), lambda x: x.reshape(2, 3, 2, 2)),
    "swapaxes": (lambda x: ops.swapaxes(x, 0, -1), lambda x: np.swapaxes(x, 0, -1)),
    "matrix_transpose": (ops.matrix_transpose, lambda x: np.swapaxes(x, -1, -2)),
    "moveaxis": (lambda x: ops.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    "moveaxis two": (lambda x: ops.moveaxis(x, (0, 1), (2, 0)), lambda x: np.moveaxis(x, (0, 1), (2, 0))),
    "flip": (ops.flip, np.flip),
    "flip one": (lambda x: ops.flip(x, 1), lambda x: np.flip(x, 1)),
    "roll": (lambda x: ops.roll(x, 5), lambda x: np.roll(x, 5)),
    "roll two": (lambda x: ops.roll(x, (1, -1), (0, 2)), lambda x: np.roll(x, (1, -1), (0, 2))),
    "tile": (lambda x: ops.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    "tile longer": (lambda x: ops.tile(x, (2, 1, 1, 2)), lambda x: np.tile(x, (2, 1, 1, 2))),
    "tile shorter": (lambda x: ops.tile(x, 2), lambda x: np.tile(x, 2)),
    "repeat": (lambda x: ops.repeat(x, 2, 1), lambda x: np.repeat(x, 2, 1)),
    "repeat flat": (lambda x: ops.repeat(x, 3), lambda x: np.repeat(x, 3)),
    "pad": (lambda x: ops.pad(x, ((1, 0), (0, 2), (3, 1)), 7),
            lambda x: np.pad(x, ((1, 0), (0, 2), (3, 1)), constant_values=7)),
    "pad all": (lambda x: ops.pad(x, 1), lambda x: np.pad(x, 1)),
    "diagonal": (ops.diagonal, lambda x: np.diagonal(x, 0, -2, -1)),
    "diagonal up": (lambda x: ops.diagonal(x, 2, 0, 2), lambda x: np.diagonal(x, 2, 0, 2)),
    "diagonal down": (lambda x: ops.diagonal(x, -1), lambda x: np.diagonal(x, -1, -2, -1)),
    "diagonal beyond": (lambda x: ops.diagonal(x, 9), lambda x: np.diagonal(x, 9, -2, -1)),
    "stack": (lambda x: ops.stack([x, x + 1], axis=-1), lambda x: np.stack([x, x + 1], axis=-1)),
    "concat": (lambda x: ops.concat([x, x[:, :1]], axis=1), lambda x: np.concatenate([x, x[:, :1]], axis=1)),
    "concat flat": (lambda x: ops.concat([x, x[0]], axis=None), lambda x: np.concatenate([x, x[0]], axis=None)),
    "windows": (lambda x: ops.windows(x, axes=(2, 1), size=(2, 3)),
                lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", AGAINST_NUMPY)
def test_values_are_numpys(array, name):
    ours, theirs = AGAINST_NUMPY[name]
    y = both(ours, array(X))
    np.testing.assert_array_equal(y.numpy(), theirs(X))


@pytest.mark.parametrize("name", AGAINST_NUMPY)
def test_gradients(device, name):
    check_gradients(AGAINST_NUMPY[name][0], device, random(2, 3, 4))


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda x: ops.split(x, 2, 1), [X[:, :2], X[:, 2:]]),
        (lambda x: ops.split(x, (1, 0, 3), -1), [X[..., :1], X[..., 1:1], X[..., 1:]]),
        (lambda x: ops.chunk(x, 3, 2), [X[..., :2], X[..., 2:]]),
        (lambda x: ops.unbind(x, 1), [X[:, 0], X[:, 1], X[:, 2]]),
        (ops.unstack, [X[0], X[1]]),
        (lambda x: ops.split(x[:0], 2), [X[:0]]),
    ],
)
def test_parts(array, call, parts):
    made = both(call, array(X))
    assert len(made) == len(parts)
    for y, part in zip(made, parts, strict=True):
        np.testing.assert_array_equal(y.numpy(), part)


def test_parts_joined_are_the_whole(array):
    x = array(X)
    assert ops.concat(ops.split(x, (1, 2), 1), axis=1).tolist() == X.tolist()
    assert ops.stack(ops.unbind(x, 2), axis=2).tolist() == X.tolist()
    assert ops.flip(ops.flip(x, 1), 1).tolist() == X.tolist()
    assert ops.roll(ops.roll(x, 3, 2), -3, 2).tolist() == X.tolist()


def test_windows_with_steps_and_gaps(array):
    y = both(
        lambda x: ops.windows(x, axes=(0,), size=(2,), step=(3,), dilation=(2,)), array(range(9))
    )
    assert y.tolist() == [[0, 2], [3, 5], [6, 8]]


def test_elements_in_several_windows_add_up_in_the_gradient(array):
    x = array([0.0, 0.0, 0.0, 0.0], requires_grad=True)
    y = ops.windows(x, axes=(0,), size=(2,))
    assert gradients((y * array([1.0, 10.0])).sum(), x).tolist() == [1.0, 11.0, 11.0, 10.0]


def test_set_slice_writes_what_slice_reads(array, device):
    region = {"start": (1, 3), "step": (1, -2)}
    x, v = array(np.zeros((3, 4), np.float32)), array([[1.0, 2.0], [3.0, 4.0]])
    y = both(lambda a, b: ops.set_slice(a, b, **region), x, v)
    assert y.tolist() == [[0, 0, 0, 0], [0, 2, 0, 1], [0, 4, 0, 3]]
    assert ops.slice(y, size=(2, 2), **region).tolist() == v.tolist()
    check_gradients(
        lambda a, b: ops.set_slice(a, b, **region), device, random(3, 4), random(2, 2, seed=1)
    )


def test_no_gradient_flows_through_detach(array):
    x = array([2.0], requires_grad=True)
    y = both(lambda v: ops.detach(v) * v, x)
    assert gradients(y.sum(), x).tolist() == [2.0]
    assert not ops.detach(x).requires_grad


# -- views move no bytes ------------------------------------------------------------------------------


def is_view(y, x):
    return y.array.storage is x.array.storage


def test_what_is_a_view_and_what_a_copy(array):
    x = array(X)
    for y in (
        x.reshape(6, 4),
        x.mT,
        x[:, ::-1],
        ops.broadcast_to(x, shape=(2, 2, 3, 4)),
        x.detach(),
        ops.windows(x, axes=(2,), size=(2,)),
        x[0, :, 1],
        x.mT[:, :, :2].mT,
        x.expand_dims(0),
    ):
        assert is_view(y, x)
    for y in (x.mT.reshape(24), x[:, ::-1].reshape(24), x[[0, 1]], x + 0, x.clone()):
        assert not is_view(y, x)


@given(st.data())
def test_regroup_is_numpys_rule(data):
    """Where NumPy reshapes without a copy we do, with the same strides."""
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
    axes = data.draw(st.permutations(range(len(sizes))))
    host = np.zeros(sizes, np.int8).transpose(axes)
    host = host[tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in sizes)]
    left, new = host.size, []
    while left > 1:
        divisors = [d for d in (1, 2, 3, 4, 6) if left % d == 0]
        new.append(data.draw(st.sampled_from(divisors[1:] or [left])))
        left //= new[-1]
    new.insert(data.draw(st.integers(0, len(new))), 1)
    ours = regroup(host.shape, host.strides, tuple(new))
    try:
        theirs = np.reshape(host, new, copy=False)
    except ValueError:
        assert ours is None
        return
    assert ours is not None
    wide = [i for i, n in enumerate(new) if n != 1]
    assert [ours[i] for i in wide] == [theirs.strides[i] for i in wide]


# -- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: x.reshape(5, 5), r"reshape: needs prod\(shape\) == x\.size, got 25 != 24\n  x: int64"),
        (lambda x: x.reshape(-1, -1), r"reshape: needs at most one -1, got \(-1, -1\)"),
        (lambda x: x.reshape(7, -1), r"reshape: needs sizes whose product divides x\.size, got \(7, -1\) for 24"),
        (lambda x: x.reshape(-2, 12), r"reshape: needs a shape of integers >= 0, got \[-2, 12\]"),
        (lambda x: x.permute(0, 1), r"permute_dims: needs every axis once in axes, got \(0, 1\)"),
        (lambda x: x.permute(0, 1, 1), r"permute_dims: needs every axis once in axes, got \(0, 1, 1\)"),
        (lambda x: x.permute(0, 1, 3), r"permute_dims: needs -3 <= axis < 3, got 3"),
        (lambda x: ops.broadcast_to(x, shape=(2, 3, 5)), r"broadcast_to: needs equal sizes .*, got 4 and 5"),
        (lambda x: ops.broadcast_to(x, shape=(3, 4)), r"broadcast_to: needs x.shape that stretches to shape"),
        (lambda x: ops.slice(x, start=(0, 0, 2), size=(1, 1, 3)),
         r"slice: needs step != 0 and 0 <= first, last < 4 on axis 2, got first 2, last 4, step 1"),
        (lambda x: ops.slice(x, start=(0,), size=(1,)), r"slice: needs one start, size and step for each of 3 axes"),
        (lambda x: ops.set_slice(x, x[0], start=(0, 0, 0)), r"set_slice: needs v.ndim == x.ndim, got 2 != 3"),
        (lambda x: ops.windows(x, axes=(0,), size=(0,)), r"windows: needs one size >= 1 for each of axes"),
        (lambda x: ops.windows(x, axes=(0, 0), size=(1, 1)), r"windows: needs each axis once, got \(0, 0\)"),
        (lambda x: ops.concat([x, x[:, :2]]), r"concat: needs equal shapes except for axis 0, got \(2, 3, 4\) and \(2, 2, 4\)"),
        (lambda x: ops.concat([]), r"concat: needs at least one tensor, got 0"),
        (lambda x: ops.stack([x, x[0]]), r"stack: needs tensors of one shape, got \(2, 3, 4\), \(3, 4\)"),
        (lambda x: x.squeeze(1), r"squeeze: needs x.shape\[1\] == 1, got 3"),
        (lambda x: x.split(0), r"split: needs size >= 1, got 0"),
        (lambda x: x.split((1, 2)), r"split: needs sizes >= 0 that sum to x.shape\[0\], got \(1, 2\) for 2"),
        (lambda x: x.chunk(0), r"chunk: needs count >= 1, got 0"),
        (lambda x: x.pad(((1, 1),)), r"pad: needs a pair of widths >= 0 for each axis, got"),
        (lambda x: x.pad(-1), r"pad: needs a pair of widths >= 0 for each axis, got"),
        (lambda x: x.moveaxis((0, 1), 0), r"moveaxis: needs as many destinations as sources"),
        (lambda x: x.repeat(-1), r"repeat: needs repeats >= 0, got -1"),
        (lambda x: x.flatten(2, 1), r"flatten: needs start <= end, got 2 and 1"),
        (lambda x: x[0, 0].mT, r"mT: needs x.ndim >= 2, got 1"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named(array, call, text):
    with pytest.raises(ShapeError, match=text):
        call(array(X))
