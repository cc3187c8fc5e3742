"""Edge values: zeros of both signs, NaN, infinity, the ends of each type, ties of rounding.

A trial is one call with its exact result. Scalar functions are tried on every edge value of the
type, pairs on every pair, against Python's own arithmetic; reductions and sorting with NaN and
infinity in several places. Where a device may choose, every answer the standard allows is good:
float32 need not have subnormal numbers, and a function may be off by a few units.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from singa_core.conformance import exact
from singa_core.conformance.oracles import ORACLES
from singa_core.conformance.oracles.common import HostArray
from singa_core.conformance.tolerances import (
    TINY,
    WIDENED,
    Mismatch,
    Terms,
    class_of,
    compare,
    widened,
)
from singa_core.dtype import DType, as_dtype

Judge = Callable[[HostArray], None]
Test = Callable[[Any, Any], bool]
BITS: Final = ("bit_and", "bit_or", "bit_xor")
CHOICES: Final = ("maximum", "minimum", "equal", "less", "less_equal")
EXACT: Final = ("add", "sub", "mul", "neg", "abs", "floor", "round")
REDUCTIONS: Final = ("sum", "prod", "max", "min", "argmax", "argmin", "cumsum", "cumprod")


@dataclass(frozen=True)
class Trial:
    """One call: inputs, attributes, and a judge of its outputs."""

    name: str
    inputs: tuple[HostArray, ...]
    judges: tuple[Judge, ...]
    attrs: dict[str, Any] = field(default_factory=dict)


def make(values: Sequence[Any], dtype: DType, shape: Any = -1) -> HostArray:
    """These Python numbers as an array."""
    numbers = np.array(values, float if dtype.is_floating else object)
    with np.errstate(all="ignore"):
        return numbers.astype(dtype.numpy).reshape(shape)


def numbers(x: HostArray) -> list[Any]:
    """Python numbers, in C order."""
    values: list[Any] = widened(x).reshape(-1).tolist()
    return values


def edges(dtype: DType) -> list[Any]:
    """Zeros, ones, halves, ordinary numbers, and the ends of the type."""
    if dtype.kind == "bool":
        return [False, True]
    if dtype.is_integer:
        low, high = exact.ends(dtype)
        some = (low, low + 1, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 8, 31, 64, high - 1, high)
        return sorted({v for v in some if low <= v <= high})
    tiny, largest = exact.extremes(dtype)
    less = (0, 1, 0.5, 1.5, 2.5, 3, 7.3, 0.4687, 0.469, 4.1, 11.7, 88, 1e-3, tiny, largest)
    signed = [v for w in (*less, math.inf) for v in (float(w), -float(w))]
    return [exact.round_to(v, dtype) for v in (*signed, math.nan)]


# -- judging --------------------------------------------------------------------------------------


def equal(got: Any, wanted: Any) -> bool:
    """Equal, or both NaN."""
    return bool(got == wanted or (got != got and wanted != wanted))


def identical(got: Any, wanted: Any) -> bool:
    """Equal, or both NaN; and zeros of one sign."""
    if wanted != wanted:
        return bool(got != got)
    return bool(got == wanted and math.copysign(1, got) == math.copysign(1, wanted))


def close(op: str, dtype: DType) -> Test:
    """At most a few units in the last place from the exact value."""
    # the halves compute in float32, so that their error is that of rounding
    units = 0.51 if dtype.bits == 16 else 4.0
    units *= WIDENED.get((class_of(op), dtype.name), 1.0)

    def near(got: Any, wanted: Any) -> bool:
        if equal(got, wanted) or got == exact.round_to(wanted, dtype):
            return True
        return bool(abs(got - wanted) <= units * exact.unit(wanted, dtype))

    return near


def bounded(op: str, dtype: DType) -> Test:
    """`close`, and exactly 1 where float64 cannot tell the function from its limit.

    In 1 + tanh(x) one unit in the last place less than 1 would be all that is left.
    """
    near = close(op, dtype)
    return lambda got, wanted: got == wanted if abs(wanted) == 1.0 else near(got, wanted)


def flushed(value: Any, dtype: DType) -> Any:
    """The number a device without subnormal numbers takes it for."""
    small = isinstance(value, float) and 0 < abs(value) < TINY[dtype.name]
    return math.copysign(0.0, value) if small else value


def may_flush(dtype: DType) -> bool:
    """IEEE single precision without subnormal numbers is allowed; bfloat16 has its range."""
    return dtype.name in ("float32", "bfloat16")


def judge(
    op: str, test: Test, function: Callable[..., Any], rows: Sequence[tuple[Any, ...]], dtype: DType
) -> Judge:
    """Every element passes the test, or would on a device without subnormal numbers."""

    def good(y: Any, row: tuple[Any, ...]) -> bool:
        if test(y, function(*row)):
            return True
        if not may_flush(dtype):
            return False
        small = tuple(flushed(v, dtype) for v in row)
        return any(
            test(y, v) or equal(y, flushed(v, dtype)) for v in (function(*row), function(*small))
        )

    def check(got: HostArray) -> None:
        wrong = [(y, row) for y, row in zip(numbers(got), rows, strict=True) if not good(y, row)]
        if wrong:
            y, row = wrong[0]
            called = ", ".join(map(repr, row))
            raise Mismatch(
                f"{op}({called}) as {dtype}: got {y!r}, needs {function(*row)!r}; "
                f"{len(wrong)} of {len(rows)} edge values are wrong"
            )

    return check


# -- trials ---------------------------------------------------------------------------------------


def trials(op: str, ins: Sequence[DType], outs: Sequence[DType]) -> Iterator[Trial]:
    """The trials of a primitive with these types; none for ops whose samples say it all."""
    if op in exact.UNARY and ins[0].is_floating:
        yield unary(op, ins[0], exact.UNARY[op])
    elif op in exact.INTEGER and not ins[0].is_floating:
        yield of_integers(op, ins[0])
    elif op in exact.BINARY and ins[0].is_floating:
        yield binary(op, ins[0], exact.BINARY[op])
    elif op in CHOICES:
        yield pair(op, ins[0], exact.ANY[op], equal)
    elif op == "where":
        yield where(ins[1])
    elif op == "cast":
        yield cast(ins[0], outs[0])
    elif op in ("copy", "full"):
        yield same(op, outs[0])
    elif op in REDUCTIONS:
        yield from reductions(op, ins[0])
    elif op == "sort":
        yield from sorts(ins[0])


def unary(op: str, dtype: DType, function: Callable[..., Any]) -> Trial:
    """A function of one float."""
    x = make(edges(dtype), dtype)
    rounded = _rounded(op, function, dtype)
    if op == "sign":
        rounded = function
    limited = bounded(op, dtype)
    # either zero may be the sign of -0.0
    tests: dict[str, Test] = {"sign": equal, "tanh": limited, "erf": limited}
    test = tests.get(op) or (identical if op in EXACT else close(op, dtype))
    rows = [(v,) for v in numbers(x)]
    return Trial("edges", (x,), (judge(op, test, rounded, rows, dtype),))


def _rounded(op: str, function: Callable[..., Any], dtype: DType) -> Callable[..., Any]:
    """The exact result brought to the type, for ops that must be right to the last digit."""
    if op not in EXACT:
        return function
    return lambda *row: exact.round_to(function(*row), dtype)


def binary(op: str, dtype: DType, function: Callable[..., Any]) -> Trial:
    """A function of two floats."""
    test = identical if op in EXACT else close(op, dtype)
    return pair(op, dtype, _rounded(op, function, dtype), test)


def pair(op: str, dtype: DType, function: Callable[..., Any], test: Test) -> Trial:
    """A function of two numbers, on every pair of edge values."""
    rows = list(itertools.product(edges(dtype), repeat=2))
    a, b = make([a for a, _ in rows], dtype), make([b for _, b in rows], dtype)
    return Trial("edges", (a, b), (judge(op, test, function, rows, dtype),))


def of_integers(op: str, dtype: DType) -> Trial:
    """A function of one or two integers or bools, which wraps."""
    function: Any = exact.INTEGER[op]
    one = op in exact.UNARY or op == "bit_not"
    rows: list[tuple[Any, ...]] = (
        [(v,) for v in edges(dtype)] if one else list(itertools.product(edges(dtype), repeat=2))
    )
    inputs = tuple(make([row[i] for row in rows], dtype) for i in range(1 if one else 2))

    def wrapped(*row: Any) -> Any:
        if dtype.kind == "bool":
            return bool(function(*map(int, row), 1) & 1)
        return exact.wrap(function(*row, dtype.bits), dtype)

    return Trial("edges", inputs, (judge(op, equal, wrapped, rows, dtype),))


def where(dtype: DType) -> Trial:
    """A choice between every pair."""
    both = list(itertools.product(edges(dtype), repeat=2))
    rows = [(n % 3 == 0, a, b) for n, (a, b) in enumerate(both)]
    c = np.array([row[0] for row in rows])
    a, b = (make([row[i] for row in rows], dtype) for i in (1, 2))
    check = judge("where", identical, lambda c, a, b: a if c else b, rows, dtype)
    return Trial("edges", (c, a, b), (check,))


def cast(source: DType, target: DType) -> Trial:
    """Ends of every type, fractions to cut off, and ties between neighbouring halves."""
    some = edges(source)
    if source.is_floating:
        some += [s * 2.0**n + d for n in range(7, 65) for s in (1, -1) for d in (-1.5, 0, 0.5)]
        # ties between two numbers of a half, and just beside them, where rounding twice goes wrong
        ties = [1 + k * 2.0**-n for n in (8, 11) for k in (1, 3)]
        some += [t + d for t in ties for d in (2.0**-40, 2.0**-20, 0, -(2.0**-20), -(2.0**-40))]
        some = [exact.round_to(v, source) for v in some]
    elif source.bits >= 32:
        some += [2**24 + 2**16 + 1, 2**24 + 3 * 2**16 - 1, 2**24 + 1]
    x = make(some, source)
    rows = [(v,) for v in numbers(x)]
    floats = source if source.is_floating else target
    check = judge(
        f"cast to {target} of", identical, lambda v: exact.cast(v, source, target), rows, floats
    )
    return Trial(f"edges-{target}", (x,), (check,), {"dtype": target})


def same(op: str, dtype: DType) -> Trial:
    """Every edge value, moved."""
    values = edges(dtype)
    rows = [(v,) for v in values]
    check = judge(op, identical, lambda v: v, rows, dtype)
    if op == "copy":
        return Trial("edges", (make(values, dtype),), (check,))
    # a value of its own for each call would be many launches: the largest says most
    value = values[-2] if dtype.is_floating else values[-1]
    check = judge(op, identical, lambda v: v, [(value,)] * 6, dtype)
    return Trial("edges", (), (check,), {"shape": (2, 3), "value": value, "dtype": dtype})


def reductions(op: str, dtype: DType) -> Iterator[Trial]:
    """NaN and infinity at the beginning, in the middle and at the end of short and long rows."""
    specials: list[Any] = []
    if dtype.is_floating:
        specials = [math.nan, math.inf, -math.inf]
    elif dtype.is_integer and op not in ("prod", "cumprod"):
        specials = list(exact.ends(dtype))
    for length in (1, 2, 5, 40, 300):
        for axis in (0, 1):
            rows = [_row(op, length, n, dtype) for n in range(len(specials) * 3 + 1)]
            places = itertools.product(specials, (0, length // 2, length - 1))
            for row, (special, place) in zip(rows, places, strict=False):
                row[place] = special
            if dtype.is_floating and length > 2:
                rows.append([math.inf, -math.inf, *rows[-1][2:]])
                rows.append([math.nan, -math.inf, *rows[-1][2:]])
            x = make(rows, dtype, (len(rows), length))
            x = np.ascontiguousarray(x.T) if axis == 0 else x
            yield _reduction(op, x, axis, length)


def _row(op: str, length: int, seed: int, dtype: DType) -> list[Any]:
    rng = np.random.default_rng([seed, length])
    if dtype.is_floating:
        low, high = (0.9, 1.1) if "prod" in op else (-2.0, 2.0)
        return numbers(rng.uniform(low, high, length).astype(dtype.numpy))
    return [int(v) for v in rng.integers(0, 2, length)]


def _reduction(op: str, x: HostArray, axis: int, length: int) -> Trial:
    with np.errstate(all="ignore"):
        wanted = np.asarray(SPECIAL.get(op, ORACLES[op])(x, axis=axis))
    target, met = reduced_dtype(op, as_dtype(x.dtype)), Terms(length)

    def check(got: HostArray) -> None:
        if target.is_floating:
            compare(op, got, wanted, met)
            return
        whole = [int(v) for v in wanted.reshape(-1).tolist()]
        whole = [exact.wrap(v, target) for v in whole] if target.is_integer else whole
        compare(op, got, make(whole, target, wanted.shape), met)

    return Trial(f"edges-{length}-axis{axis}", (x,), (check,), {"axis": axis})


def reduced_dtype(op: str, dtype: DType) -> DType:
    """Floats stay; integers add up and multiply in 64 bits."""
    if op in ("sum", "prod", "cumsum", "cumprod") and not dtype.is_floating:
        return as_dtype("uint64" if dtype.kind == "uint" else "int64")
    return as_dtype("int64") if op in ("argmax", "argmin") else dtype


def _over(step: Callable[[Any, Any], Any], running: bool = False) -> Callable[..., HostArray]:
    """A reduction in Python: NaN wins, sums of infinities are NaN, integers have no end."""

    def reduce(x: HostArray, *, axis: int) -> HostArray:
        rows = [row.tolist() for row in np.moveaxis(widened(x), axis, -1)]
        kind = object if x.dtype.kind in "biu" else float
        if not running:
            return np.array([functools.reduce(step, row) for row in rows], kind)
        y = np.array([list(itertools.accumulate(row, step)) for row in rows], kind)
        return np.moveaxis(y, -1, axis)

    return reduce


SPECIAL: Final[dict[str, Callable[..., HostArray]]] = {
    "max": _over(exact.larger),
    "min": _over(exact.smaller),
    "sum": _over(lambda a, b: a + b),
    "prod": _over(lambda a, b: a * b),
    "cumsum": _over(lambda a, b: a + b, running=True),
    "cumprod": _over(lambda a, b: a * b, running=True),
}


def sorts(dtype: DType) -> Iterator[Trial]:
    """Equal elements keep their order; NaN is the largest."""
    some = edges(dtype)
    values = [*some[1::2], *some[::2], *some[::-1]] * 2
    for descending in (False, True):
        for axis in (0, 1):
            attrs = {"axis": axis, "descending": descending}
            x = make(values, dtype, (2, -1) if axis else (-1, 2))
            y, order = ORACLES["sort"](x, **attrs)
            judges = tuple(functools.partial(_same_as, w) for w in (y, order))
            name = f"edges-{'down' if descending else 'up'}-axis{axis}"
            yield Trial(name, (x,), judges, attrs)


def _same_as(wanted: HostArray, got: HostArray) -> None:
    compare("sort", got, wanted)
