"""Scalar functions against Python's own arithmetic, with NaN, infinity and the ends of the type."""

import itertools
import math

import numpy as np
import pytest

from array_language import (
    FUNCTIONS,
    close,
    equal,
    expect,
    find,
    identical,
    ins,
    kernels,
    make,
    numbers,
    outs,
    run,
    samples,
)
from singa_core import dtype as types
from singa_core.conformance import exact as oracle
from singa_core.dtype import BY_CODE

EXACT = ("sqrt", "floor", "round", "neg", "abs", "sign")
BITS = ("bit_and", "bit_or", "bit_xor")
SHIFTS = ("shift_left", "shift_right")


def pairs(dtype):
    """Two arrays with every sample of the type against every other, and the list of pairs."""
    both = list(itertools.product(samples(dtype), repeat=2))
    return make([a for a, _ in both], dtype), make([b for _, b in both], dtype), both


@kernels(*FUNCTIONS)
def test_functions_are_close_to_the_exact_value(kernel):
    dtype = ins(kernel)[0]
    x = make(samples(dtype), dtype)
    expected = [oracle.UNARY[kernel.op](v) for v in numbers(x)]
    expect(kernel, numbers(run(kernel, x)), expected, close(dtype), numbers(x))


@kernels(*EXACT, kinds=("float",))
def test_exact_functions_of_floats(kernel):
    dtype = ins(kernel)[0]
    x = make(samples(dtype), dtype)
    expected = [oracle.round_to(oracle.UNARY[kernel.op](v), dtype) for v in numbers(x)]
    test = equal if kernel.op == "sign" else identical  # either zero may be the sign of -0.0
    expect(kernel, numbers(run(kernel, x)), expected, test, numbers(x))


@kernels("add", "sub", "mul", "div", kinds=("float",))
def test_arithmetic_of_floats_is_rounded_once(kernel):
    dtype = ins(kernel)[0]
    a, b, both = pairs(dtype)
    expected = [oracle.round_to(oracle.BINARY[kernel.op](*pair), dtype) for pair in both]
    expect(kernel, numbers(run(kernel, a, b)), expected, identical, both)


@kernels("pow", "floor_divide", "remainder", kinds=("float",))
def test_powers_and_remainders_of_floats(kernel):
    dtype = ins(kernel)[0]
    a, b, both = pairs(dtype)
    expected = [oracle.BINARY[kernel.op](*pair) for pair in both]
    expect(kernel, numbers(run(kernel, a, b)), expected, close(dtype), both)


@kernels("neg", "abs", "sign", "bit_not", kinds=("int", "uint"))
def test_functions_of_integers_wrap(kernel):
    dtype = ins(kernel)[0]
    x = make(samples(dtype), dtype)
    expected = [oracle.wrap(oracle.INTEGER[kernel.op](v, dtype.bits), dtype) for v in numbers(x)]
    expect(kernel, numbers(run(kernel, x)), expected, equal, numbers(x))


@kernels(
    "add", "sub", "mul", "floor_divide", "remainder", "pow", *BITS, *SHIFTS, kinds=("int", "uint")
)  # fmt: skip
def test_pairs_of_integers_wrap(kernel):
    dtype = ins(kernel)[0]
    a, b, both = pairs(dtype)
    exact = [oracle.INTEGER[kernel.op](*pair, dtype.bits) for pair in both]
    expected = [oracle.wrap(v, dtype) for v in exact]
    expect(kernel, numbers(run(kernel, a, b)), expected, equal, both)


@kernels("bit_not", *BITS, kinds=("bool",))
def test_bits_of_bools_are_logic(kernel):
    if kernel.op == "bit_not":
        assert run(kernel, np.array([False, True])).tolist() == [True, False]
        return
    a, b, both = pairs(types.bool_)
    expected = [bool(oracle.INTEGER[kernel.op](*pair, 1)) for pair in both]
    assert run(kernel, a, b).tolist() == expected


@kernels("maximum", "minimum", "equal", "less", "less_equal")
def test_comparison_and_choice(kernel):
    a, b, both = pairs(ins(kernel)[0])
    expected = [oracle.ANY[kernel.op](*pair) for pair in both]
    expect(kernel, numbers(run(kernel, a, b)), expected, equal, both)


@kernels("where")
def test_where(kernel):
    a, b, both = pairs(ins(kernel)[1])
    c = np.arange(len(both)) % 3 == 0
    expected = [x if chosen else y for chosen, (x, y) in zip(c, both, strict=True)]
    expect(kernel, numbers(run(kernel, c, a, b)), expected, identical, both)


@kernels("cast")
def test_cast(kernel):
    (source,), (dtype,) = ins(kernel), outs(kernel)
    some = samples(source)
    if source.is_floating:
        # around the ends of every integer type, with fractions to cut off
        some += [s * 2.0**n + d for n in range(7, 65) for s in (1, -1) for d in (-1.5, 0, 0.5)]
        # ties between two bfloat16 numbers and just beside them, where rounding twice goes wrong
        some += [1 + k * 2.0**-8 + d for k in (1, 3) for d in (2.0**-40, 0, -(2.0**-40))]
        some = [oracle.round_to(v, source) for v in some]
    elif source.bits >= 32:
        some += [2**24 + 2**16 + 1, 2**24 + 3 * 2**16 - 1, 2**24 + 1]
    x = make(some, source)
    expected = [oracle.cast(v, source, dtype) for v in numbers(x)]
    expect(kernel, numbers(run(kernel, x, dtype=dtype)), expected, identical, numbers(x))


@kernels("full")
def test_full(kernel):
    (dtype,) = outs(kernel)
    for value in samples(dtype):
        y = run(kernel, shape=(2, 3), value=value, dtype=dtype)
        assert y.shape == (2, 3)
        assert all(identical(v, value) for v in numbers(y))
    for shape in ((), (0, 2)):
        assert run(kernel, shape=shape, value=1, dtype=dtype).shape == shape


@kernels("iota")
def test_iota(kernel):
    (dtype,) = outs(kernel)
    y = run(kernel, size=300, dtype=dtype)
    assert numbers(y) == [oracle.cast(n, types.int64, dtype) for n in range(300)]
    assert run(kernel, size=0, dtype=dtype).shape == (0,)


@kernels("copy")
def test_copy_is_packed(kernel):
    dtype = ins(kernel)[0]
    x = make((samples(dtype) * 3)[:6], dtype, (2, 3))
    y = run(kernel, x.T)
    assert y.flags.c_contiguous
    assert y.tobytes() == x.T.tobytes()


@kernels(*FUNCTIONS, *EXACT, "bit_not", "copy")
def test_shapes_of_one_input(kernel):
    for shape in ((), (0,), (2, 0, 3), (2, 1, 3)):
        assert run(kernel, np.ones(shape, ins(kernel)[0].numpy)).shape == shape


@kernels(*oracle.BINARY, *oracle.ANY, *BITS, *SHIFTS)
def test_shapes_of_two_inputs_broadcast(kernel):
    for left, right, shape in (
        ((), (), ()),
        ((3, 1), (4,), (3, 4)),
        ((0, 1), (5,), (0, 5)),
        ((2, 1, 3), (), (2, 1, 3)),
    ):
        a, b = (make([1] * math.prod(s), ins(kernel)[0], s) for s in (left, right))
        assert run(kernel, a, b).shape == shape


@kernels("where")
def test_where_broadcasts_all_three(kernel):
    dtype = ins(kernel)[1]
    c, a, b = np.array([[True], [False]]), make([1, 0, 1], dtype), make([0], dtype, ())
    y = run(kernel, c, a, b)
    assert y.shape == (2, 3)
    assert numbers(y) == [1, 0, 1, 0, 0, 0]
    assert run(kernel, c, a[:0], b).shape == (2, 0)


@pytest.mark.parametrize(("code", "error"), [("f64", 3e-16), ("f32", 6e-8)])
def test_erf_is_odd_and_accurate(code, error):
    kernel = find("erf", f"{code}->{code}")
    x = np.concatenate([np.linspace(0, 7, 20011), np.geomspace(1e-300, 1, 2000)])
    x = x.astype(BY_CODE[code].numpy)
    y = run(kernel, x)
    exact = np.array([math.erf(v) for v in x.tolist()])
    assert np.abs(y - exact).max() < error
    np.testing.assert_array_equal(run(kernel, -x), -y)
