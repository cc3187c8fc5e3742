"""Matrix products, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from array_language import find, ins, kernels, mixed, numbers, rounding, run
from singa_core.conformance import exact as oracle


@kernels("matmul")
@pytest.mark.parametrize(
    ("left", "right", "shape"),
    [
        ((3, 4), (4, 2), (3, 2)),
        ((2, 3, 4), (4, 2), (2, 3, 2)),
        ((2, 1, 3, 4), (5, 4, 2), (2, 5, 3, 2)),
        ((3, 0), (0, 2), (3, 2)),
        ((0, 4), (4, 2), (0, 2)),
        ((2, 3, 0), (2, 0, 1), (2, 3, 1)),
    ],
)
def test_matmul(kernel, left, right, shape):
    dtype = ins(kernel)[0]
    a, b = mixed(dtype, left), mixed(dtype, right, seed=1)
    y = run(kernel, a, b)
    assert y.shape == shape
    a = np.broadcast_to(a, (*shape[:-2], *left[-2:]))
    b = np.broadcast_to(b, (*shape[:-2], *right[-2:]))
    for place in np.ndindex(*shape):
        *batch, i, j = place
        row, column = numbers(a[(*batch, i)]), numbers(b[(*batch, slice(None), j)])
        terms = [Fraction(u) * Fraction(v) for u, v in zip(row, column, strict=True)]
        exact, got = sum(terms), numbers(y[place])[0]
        if dtype.is_integer:
            assert got == oracle.wrap(int(exact), dtype)
        else:
            assert abs(got - exact) <= rounding(exact, terms, dtype)


def test_integers_wrap():
    a = np.array([[2**31 - 1, 1]], np.int32)
    assert run(find("matmul", "i32,i32->i32"), a, a.T.copy()).tolist() == [[2]]
