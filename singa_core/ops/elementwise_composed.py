"""Rounding, powers, roots and logarithms that are made of the primitives.

Each is a composite: a backend may own a kernel for it, as speed, and owes none. Trigonometry is in
`elementwise_trig`, comparison and logic in `elementwise_logic`.
"""

from __future__ import annotations

import math
from typing import Any

from singa_core.operation import Needs
from singa_core.ops.base import (
    FloatUnary,
    Grads,
    Pair,
    Unary,
    pair_samples,
    takes_tensors,
    unary_samples,
)
from singa_core.ops.elementwise import Rounding, exp, floor, log, log1p, sqrt
from singa_core.ops.elementwise_pairs import equal, less, maximum, minimum, where
from singa_core.ops.shape import sum_to
from singa_core.optable import function
from singa_core.sample import In, sample
from singa_core.tensor import Tensor

__all__ = [
    "cbrt", "ceil", "clip", "exp2", "lerp", "log10", "log2", "logaddexp", "reciprocal", "rsqrt",
    "square", "trunc",
]  # fmt: skip


class Ceil(Rounding):
    """Smallest whole number y >= x, -floor(-x). Its gradient is 0.

    Shapes: any -> same. Dtype: numbers, kept. Source: array API standard 2023.12, `ceil`.
    """

    name = "ceil"
    accepts = "float"
    samples = (*unary_samples(0.1, 0.9), sample(In((3, 2), low=-1.9, high=-1.1)))

    def forward(self, x: Tensor) -> Any:
        return -floor(-x)


class Trunc(Rounding):
    """x without its fraction. Its gradient is 0.

    Shapes: any -> same. Dtype: numbers, kept. Source: array API standard 2023.12, `trunc`.
    """

    name = "trunc"
    accepts = "float"
    samples = (*unary_samples(0.1, 0.9), sample(In((3, 2), low=-1.9, high=-1.1)))

    def forward(self, x: Tensor) -> Any:
        return where(less(x, 0.0), -floor(-x), floor(x))


class Square(Unary):
    """Square, y = x * x.

    Shapes: any -> same. Dtype: numbers, kept. Source: array API standard 2023.12, `square`.
    """

    name = "square"
    samples = unary_samples(dtype="number")

    def forward(self, x: Tensor) -> Any:
        return x * x


class Reciprocal(FloatUnary):
    """Reciprocal, y = 1 / x.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2024.12, `reciprocal`.
    """

    name = "reciprocal"
    keeps = ("y",)
    samples = unary_samples(0.5, 2.0)

    def forward(self, x: Tensor) -> Any:
        return 1.0 / x

    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (-grad * y * y,)


class Rsqrt(FloatUnary):
    """One over the square root, y = x**-0.5.

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: y = 1 / sqrt(x).
    """

    name = "rsqrt"
    keeps = ("y",)
    samples = unary_samples(0.5, 2.0)

    def forward(self, x: Tensor) -> Any:
        return 1.0 / sqrt(x)

    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (grad * -0.5 * y * y * y,)


class Cbrt(FloatUnary):
    """Cube root, also of negative numbers, y**3 = x.

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: C99 7.12.7.1, `cbrt`.
    """

    name = "cbrt"
    samples = (*unary_samples(0.5, 2.0), sample(In((3, 2), low=-2.0, high=-0.5)))

    def forward(self, x: Tensor) -> Any:
        return x.sign() * x.abs() ** (1.0 / 3.0)


class Exp2(FloatUnary):
    """Power of two, y = 2**x.

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: C99 7.12.6.2, `exp2`.
    """

    name = "exp2"
    samples = unary_samples()

    def forward(self, x: Tensor) -> Any:
        return 2.0**x


class Log2(FloatUnary):
    """Logarithm to base 2, y = ln x / ln 2.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `log2`.
    """

    name = "log2"
    samples = unary_samples(0.3, 3.0)

    def forward(self, x: Tensor) -> Any:
        return log(x) * (1.0 / math.log(2.0))


class Log10(FloatUnary):
    """Logarithm to base 10, y = ln x / ln 10.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `log10`.
    """

    name = "log10"
    samples = unary_samples(0.3, 3.0)

    def forward(self, x: Tensor) -> Any:
        return log(x) * (1.0 / math.log(10.0))


class LogAddExp(Pair):
    """Logarithm of a sum, y = ln(e**a + e**b), without overflow.

    Shapes: a, b broadcast -> y. Dtype: floats, promoted; integers give float32.
    Source: array API standard 2023.12, `logaddexp`.
    """

    name = "logaddexp"
    accepts = "float"
    keeps = ("a", "b", "y")
    weak_float = True
    samples = pair_samples()

    def forward(self, a: Tensor, b: Tensor) -> Any:
        distance = (a - b).abs()
        same = equal(a, b)  # also where both are the same infinity, whose difference is NaN
        return maximum(a, b) + log1p(exp(where(same, 0.0, -distance)))

    def backward(self, grad: Tensor, a: Tensor, b: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (
            sum_to(grad * exp(a - y), a.shape) if needs[0] else None,
            sum_to(grad * exp(b - y), b.shape) if needs[1] else None,
        )


@function
@takes_tensors
def clip(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """Bound x, y = min(max(x, low), high); None: no bound. Source: array API standard, `clip`.

    >>> from singa_core import tensor
    >>> clip(tensor([-1, 3, 9]), 0, 5).tolist()
    [0, 3, 5]
    """
    y = x if low is None else maximum(x, low)
    clipped: Tensor = y if high is None else minimum(y, high)
    return clipped


@function
@takes_tensors
def lerp(a: Tensor, b: Tensor, weight: Any) -> Any:
    """On the way from a to b, y = a + weight * (b - a)."""
    return a + (b - a) * weight


ceil, trunc, square, reciprocal, rsqrt = Ceil(), Trunc(), Square(), Reciprocal(), Rsqrt()
cbrt, exp2, log2, log10, logaddexp = Cbrt(), Exp2(), Log2(), Log10(), LogAddExp()
