"""Joining and writing into a part, against plain loops."""

import math

import numpy as np
import pytest

from array_language import ins, kernels, make, numbers, run, samples


@kernels("concat")
def test_concat(kernel):
    dtype = ins(kernel)[0]
    some = (samples(dtype)[:2] * 3)[:6]
    a, b = make(some, dtype, (2, 3)), make(some[:2], dtype, (2, 1))
    y = run(kernel, a, b, a[:, :0], axis=1)
    assert numbers(y) == [*some[:3], some[0], *some[3:], some[1]]
    assert numbers(run(kernel, a, a, axis=0)) == some * 2
    assert numbers(run(kernel, a, axis=0)) == some


@kernels("set_slice")
@pytest.mark.parametrize(
    ("shape", "start", "step", "region"),
    [
        ((5,), (1,), (2,), (2,)),
        ((5,), (4,), (-2,), (3,)),  # down to 0
        ((5,), (4,), (-1,), (5,)),
        ((5,), (5,), (1,), (0,)),
        ((4, 3), (3, 0), (-1, 2), (2, 2)),
        ((), (), (), ()),
        ((0, 2), (0, 0), (1, 1), (0, 2)),
    ],
)
def test_set_slice(kernel, shape, start, step, region):
    dtype = ins(kernel)[0]
    x = np.zeros(shape, dtype.numpy)
    v = make(range(1, math.prod(region) + 1), dtype, region)
    expected = dict.fromkeys(np.ndindex(*shape), 0)
    for place in np.ndindex(*region):
        there = tuple(s + t * n for s, t, n in zip(start, step, place, strict=True))
        expected[there] = numbers(v[place])[0]
    y = run(kernel, x, v, start=start, step=step)
    assert y.shape == shape
    assert numbers(y) == list(expected.values())
