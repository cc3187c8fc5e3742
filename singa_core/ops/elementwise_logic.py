"""Comparisons, tests and logic that are made of the primitives."""

from __future__ import annotations

import math
from typing import Any

from singa_core.ops.base import Compare, Unary, given
from singa_core.ops.creation import full_like
from singa_core.ops.elementwise import bit_not, cast
from singa_core.ops.elementwise_pairs import bit_and, bit_or, bit_xor, equal, less, less_equal
from singa_core.sample import In, sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor

__all__ = [
    "greater", "greater_equal", "isfinite", "isinf", "isnan", "logical_and", "logical_not",
    "logical_or", "logical_xor", "not_equal",
]  # fmt: skip

_TESTED = (
    given([[1.0, math.nan], [math.inf, -math.inf]]),
    given(0.0),
    given([1, -2, 0], dtype="int32"),
    sample((0, 3)),
)


class NotEqual(Compare):
    """True where a != b; NaN differs from everything.

    Shapes: a, b broadcast -> y. Dtype: any; promoted -> bool.
    Source: array API standard 2023.12, `not_equal`.
    """

    name = "not_equal"
    samples = equal.samples

    def forward(self, a: Tensor, b: Tensor) -> Any:
        return bit_not(equal(a, b))


class Greater(Compare):
    """True where a > b.

    Shapes: a, b broadcast -> y. Dtype: any; promoted -> bool.
    Source: array API standard 2023.12, `greater`.
    """

    name = "greater"
    samples = equal.samples

    def forward(self, a: Tensor, b: Tensor) -> Any:
        return less(b, a)


class GreaterEqual(Compare):
    """True where a >= b.

    Shapes: a, b broadcast -> y. Dtype: any; promoted -> bool.
    Source: array API standard 2023.12, `greater_equal`.
    """

    name = "greater_equal"
    samples = equal.samples

    def forward(self, a: Tensor, b: Tensor) -> Any:
        return less_equal(b, a)


class Question(Unary):
    """A question to every element."""

    accepts = "number"
    samples = _TESTED

    def infer(self, x: Spec) -> Spec:
        return super().infer(x).with_dtype("bool")


class IsNan(Question):
    """True where x is not a number, x != x.

    Shapes: any -> same. Dtype: numbers -> bool. Source: array API standard 2023.12, `isnan`.
    """

    name = "isnan"

    def forward(self, x: Tensor) -> Any:
        return bit_not(equal(x, x))


class IsInf(Question):
    """True where x is inf or -inf.

    Shapes: any -> same. Dtype: numbers -> bool. Source: array API standard 2023.12, `isinf`.
    """

    name = "isinf"

    def forward(self, x: Tensor) -> Any:
        if not x.dtype.is_floating:
            return full_like(x, False, dtype="bool")
        return equal(x.abs(), math.inf)


class IsFinite(Question):
    """True where x is neither infinite nor NaN.

    Shapes: any -> same. Dtype: numbers -> bool. Source: array API standard 2023.12, `isfinite`.
    """

    name = "isfinite"

    def forward(self, x: Tensor) -> Any:
        if not x.dtype.is_floating:
            return full_like(x, True, dtype="bool")
        return less(x.abs(), math.inf)


class LogicalNot(Unary):
    """True where x is 0 or False.

    Shapes: any -> same. Dtype: any -> bool. Source: array API standard 2023.12, `logical_not`.
    """

    name = "logical_not"
    accepts = "any"
    samples = (given([[0, 1, 2]], dtype="any"), given(False, dtype="bool"), sample((0, 2)))

    def infer(self, x: Spec) -> Spec:
        return x.with_dtype("bool")

    def forward(self, x: Tensor) -> Any:
        return bit_not(cast(x, dtype="bool"))


class Logical(Compare):
    """Truth of two inputs, where a number is true if it is not 0."""

    samples = (
        given([[0, 1], [2, 0]], [[0, 0], [1, 1]], dtype="any"),
        given([[True], [False]], [True, False], dtype="bool"),
        sample(In((0, 3), "any"), In((3,), "any")),
    )


class LogicalAnd(Logical):
    """True where both are true; a number is true if it is not 0.

    Shapes: a, b broadcast -> y. Dtype: any -> bool.
    Source: array API standard 2023.12, `logical_and`.
    """

    name = "logical_and"

    def forward(self, a: Tensor, b: Tensor) -> Any:
        return bit_and(cast(a, dtype="bool"), cast(b, dtype="bool"))


class LogicalOr(Logical):
    """True where either is true; a number is true if it is not 0.

    Shapes: a, b broadcast -> y. Dtype: any -> bool.
    Source: array API standard 2023.12, `logical_or`.
    """

    name = "logical_or"

    def forward(self, a: Tensor, b: Tensor) -> Any:
        return bit_or(cast(a, dtype="bool"), cast(b, dtype="bool"))


class LogicalXor(Logical):
    """True where one is true and the other is not; a number is true if it is not 0.

    Shapes: a, b broadcast -> y. Dtype: any -> bool.
    Source: array API standard 2023.12, `logical_xor`.
    """

    name = "logical_xor"

    def forward(self, a: Tensor, b: Tensor) -> Any:
        return bit_xor(cast(a, dtype="bool"), cast(b, dtype="bool"))


not_equal, greater, greater_equal = NotEqual(), Greater(), GreaterEqual()
isnan, isinf, isfinite = IsNan(), IsInf(), IsFinite()
logical_and, logical_or = LogicalAnd(), LogicalOr()
logical_xor, logical_not = LogicalXor(), LogicalNot()
