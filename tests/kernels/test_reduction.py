"""Sums, products, extremes and running sums, against exact fractions and plain loops."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from array_language import (
    equal,
    expect,
    find,
    ins,
    kernels,
    lines,
    make,
    mixed,
    numbers,
    outs,
    rounding,
    run,
    samples,
)
from singa_core.conformance import exact as oracle
from singa_core.dtype import BY_CODE

PICK = {
    "max": oracle.larger, "argmax": oracle.larger, "min": oracle.smaller, "argmin": oracle.smaller,
}  # fmt: skip


def reduced(shape, axes, keepdims):
    if keepdims:
        return tuple(1 if n in axes else size for n, size in enumerate(shape))
    return tuple(size for n, size in enumerate(shape) if n not in axes)


@kernels("sum", "prod")
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [(), (0,), (2,), (0, 2), (0, 1, 2)])
def test_sum_and_prod(kernel, axis, keepdims):
    (out,) = outs(kernel)
    x = mixed(ins(kernel)[0], (3, 2, 4))
    y = run(kernel, x, axis=axis, keepdims=keepdims)
    assert y.shape == reduced(x.shape, axis, keepdims)
    total = sum if kernel.op == "sum" else math.prod
    for got, terms in zip(numbers(y), lines(x, axis), strict=True):
        exact = total(map(Fraction, terms))
        if out.is_integer:
            assert got == oracle.wrap(int(exact), out)
        else:
            assert abs(got - exact) <= rounding(exact, terms, out)


@kernels("sum", "prod")
def test_of_nothing(kernel):
    x = np.zeros((0, 2), ins(kernel)[0].numpy)
    neutral = 0 if kernel.op == "sum" else 1
    assert run(kernel, x, axis=(0,), keepdims=False).tolist() == [neutral] * 2
    assert run(kernel, x, axis=(1,), keepdims=False).shape == (0,)
    assert numbers(run(kernel, x, axis=(0, 1), keepdims=False)) == [neutral]


@kernels("sum", kinds=("int", "uint"))
def test_integers_sum_in_64_bits(kernel):
    high = oracle.ends(ins(kernel)[0])[1]
    x = make([high] * 3, ins(kernel)[0])
    y = run(kernel, x, axis=(0,), keepdims=False)
    assert numbers(y) == [oracle.wrap(3 * high, outs(kernel)[0])]


@pytest.mark.parametrize("code", ["f16", "bf16"])
def test_halves_sum_in_float32(code):
    dtype = BY_CODE[code]
    ones = np.ones(5000, dtype.numpy)  # in bfloat16 itself 256 + 1 is 256
    y = run(find("sum", f"{code}->{code}"), ones, axis=(0,), keepdims=False)
    assert numbers(y) == [oracle.round_to(5000.0, dtype)]
    running = run(find("cumsum", f"{code}->{code}"), ones, axis=0)
    assert numbers(running) == [oracle.round_to(float(n), dtype) for n in range(1, 5001)]


@kernels("cumsum", "cumprod")
@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_and_products(kernel, axis):
    (out,) = outs(kernel)
    x = mixed(ins(kernel)[0], (3, 5))
    combine = (lambda a, b: a + b) if kernel.op == "cumsum" else (lambda a, b: a * b)
    y = run(kernel, x, axis=axis)
    for terms, results in zip(lines(x, (axis,)), lines(y, (axis,)), strict=True):
        exact = itertools.accumulate(map(Fraction, terms), combine)
        for got, value in zip(results, exact, strict=True):
            if out.is_integer:
                assert got == oracle.wrap(int(value), out)
            else:
                assert abs(got - value) <= rounding(value, terms, out)
    assert run(kernel, x[:0], axis=axis).shape == (0, 5)


@kernels("max", "min")
@pytest.mark.parametrize("axis", [(), (1,), (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_extremes(kernel, axis, keepdims):
    dtype = ins(kernel)[0]
    x = make(samples(dtype) * 2, dtype, (-1, 2))
    expected = [functools.reduce(PICK[kernel.op], row) for row in lines(x, axis)]
    y = run(kernel, x, axis=axis, keepdims=keepdims)
    assert y.shape == reduced(x.shape, axis, keepdims)
    expect(kernel, numbers(y), expected, equal)
    assert run(kernel, x[:0], axis=(1,), keepdims=keepdims).shape == reduced((0, 2), (1,), keepdims)


@kernels("argmax", "argmin")
def test_places_of_extremes(kernel):
    dtype = ins(kernel)[0]
    some = samples(dtype)
    x = make([*some, *some[::-1], *some[:1] * len(some), *some[1:], some[0]], dtype, (4, -1))

    def first(row):
        best = functools.reduce(PICK[kernel.op], row)
        return next(n for n, value in enumerate(row) if equal(value, best))

    y = run(kernel, x, axis=1, keepdims=False)
    assert y.tolist() == [first(row) for row in lines(x, (1,))]
    y = run(kernel, x, axis=0, keepdims=True)
    assert y.tolist() == [[first(row) for row in lines(x, (0,))]]
