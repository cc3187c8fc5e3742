"""Reading and writing at given places, and sorting, against plain loops."""

import math

import numpy as np
import pytest

from array_language import find, identical, ins, kernels, launch, lines, make, numbers, run, samples
from singa_core.conformance import exact as oracle
from singa_core.dtype import BY_CODE
from singa_core.errors import OutOfRange

# shape of x, axis, indices
PLACES = (
    ((2,), 0, [1, -1, 0]),
    ((4, 3), 0, [[3, -4], [0, 0]]),
    ((2, 3, 2), 1, [2, 2, -3, 0]),
    ((2, 3), 1, 2),
    ((3, 2), 0, []),
    ((3, 0), 0, [1, 1]),
)


def indexed(kernel, role=None):
    """x, i, axis, and for each place of what i selects the place in x that it means."""
    for shape, axis, places in PLACES:
        x = make([n % 2 for n in range(math.prod(shape))], ins(kernel)[0], shape)
        from_front = places if role is None else np.array(places, np.int64) % shape[axis]
        i = np.array(from_front, ins(kernel)[1].numpy)
        found = {}
        for place in np.ndindex(*shape[:axis], *i.shape, *shape[axis + 1 :]):
            n = int(i[place[axis : axis + i.ndim]]) % shape[axis]
            found[place] = (*place[:axis], n, *place[axis + i.ndim :])
        yield x, i, axis, found


@kernels("gather")
@pytest.mark.parametrize("role", [None, "embedding: id"])
def test_gather(kernel, role):
    if role is None and ins(kernel)[1].name.startswith("uint"):
        return  # none counts from the end
    for x, i, axis, found in indexed(kernel, role):
        y = run(kernel, x, i, axis=axis, role=role)
        assert y.shape == x.shape[:axis] + i.shape + x.shape[axis + 1 :]
        assert numbers(y) == [numbers(x[there])[0] for there in found.values()]
    nothing = np.zeros(0, ins(kernel)[1].numpy)
    assert run(kernel, make([], ins(kernel)[0], (0, 2)), nothing, axis=0, role=role).shape == (0, 2)


@kernels("scatter_add", "scatter")
def test_scatter(kernel):
    dtype = ins(kernel)[0]
    for x, i, axis, found in indexed(kernel):
        shape = x.shape[:axis] + i.shape + x.shape[axis + 1 :]
        v = make([n % 120 + 1 for n in range(math.prod(shape))], dtype, shape)
        expected = dict(zip(np.ndindex(*x.shape), numbers(x), strict=True))
        for place, there in found.items():  # in C order: the last duplicate wins
            before = expected[there] if kernel.op == "scatter_add" else 0
            expected[there] = before + numbers(v[place])[0]
        y = run(kernel, x, i, v, axis=axis)
        assert y.shape == x.shape
        assert numbers(y) == list(expected.values())


@pytest.mark.parametrize("code", ["f16", "bf16"])
def test_halves_scatter_in_float32(code):
    dtype = BY_CODE[code]
    x, i, v = np.zeros(2, dtype.numpy), np.ones(5000, np.int64), np.ones(5000, dtype.numpy)
    y = run(find("scatter_add", f"{code},i64,{code}->{code}"), x, i, v, axis=0)
    assert numbers(y) == [0, oracle.round_to(5000.0, dtype)]


@kernels("gather", "scatter_add", "scatter")
@pytest.mark.parametrize("bad", [3, -4, 100])
def test_an_index_outside_is_named(kernel, bad):
    x = np.zeros((2, 3), ins(kernel)[0].numpy)
    if ins(kernel)[1].name.startswith("uint"):
        return  # none counts from the end
    i = np.array([0, bad, 77], ins(kernel)[1].numpy)
    values, attrs = (np.zeros((2, 3), x.dtype),), {}
    if kernel.op == "gather":
        values, attrs = (), {"role": None}
    with pytest.raises(OutOfRange, match=f"^{kernel.op}: needs -3 <= index < 3, got {bad}$"):
        launch(kernel, (x, i, *values), {"axis": 1, **attrs})
    with pytest.raises(OutOfRange, match="needs -0 <= index < 0, got 0"):
        launch(kernel, (x[:0], i[:1], *(v[:1] for v in values)), {"axis": 0, **attrs})


@kernels("gather")
@pytest.mark.parametrize("bad", [3, -1, -4, 127, 2**32 - 1, -(2**63), 2**63 - 1, 2**64 - 1])
def test_an_index_with_a_role_is_told_as_it_is(kernel, bad):
    kind = ins(kernel)[1].numpy
    if not np.iinfo(kind).min <= bad <= np.iinfo(kind).max:
        return
    x, i = np.zeros((2, 3), ins(kernel)[0].numpy), np.array([0, bad, 2], kind)
    with pytest.raises(OutOfRange, match=f"^embedding: needs 0 <= id < 3, got {bad}$"):
        launch(kernel, (x, i), {"axis": 1, "role": "embedding: id"})


@kernels("sort")
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_sort_is_stable_and_nan_is_greatest(kernel, axis, descending):
    dtype = ins(kernel)[0]
    some = samples(dtype)
    x = make([*some[1::2], *some[::2], *some[::-1]] * 2, dtype, (2, -1))
    y, order = run(kernel, x, axis=axis, descending=descending)
    rows = (lines(array, (axis,)) for array in (x, y, order))
    for row, values, places in zip(*rows, strict=True):
        keys = [(value != value, 0 if value != value else value) for value in row]
        # Python's sort keeps equal elements in order, reversed or not
        assert places == sorted(range(len(row)), key=keys.__getitem__, reverse=descending)
        assert all(identical(a, row[n]) for a, n in zip(values, places, strict=True))
    empty, _ = run(kernel, x[:, :0], axis=axis, descending=descending)
    assert empty.shape == (2, 0)
