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
    grads_once_rounded,
    once_rounded,
    pair_samples,
    takes_tensors,
    unary_samples,
)
from singa_core.ops.elementwise import Rounding, exp, floor, log, log1p, sqrt
from singa_core.ops.elementwise_logic import isfinite
from singa_core.ops.elementwise_pairs import bit_and, equal, less, maximum, where
from singa_core.ops.shape import unbroadcast
from singa_core.optable import function
from singa_core.sample import In, sample
from singa_core.tensor import Tensor

__all__ = [
    "cbrt", "ceil", "exp2", "lerp", "log10", "log2", "logaddexp", "reciprocal", "rsqrt",
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

    @grads_once_rounded
    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (-grad * y * y,)


class Rsqrt(FloatUnary):
    """One over the square root, y = x**-0.5.

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: y = 1 / sqrt(x).
    """

    name = "rsqrt"
    keeps = ("y",)
    samples = unary_samples(0.5, 2.0)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return 1.0 / sqrt(x)

    @grads_once_rounded
    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (grad * -0.5 * y * y * y,)


class Cbrt(FloatUnary):
    """Cube root, also of negative numbers, y**3 = x.

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: C99 7.12.7.1, `cbrt`.
    """

    name = "cbrt"
    keeps = ("y",)
    samples = (*unary_samples(0.5, 2.0), sample(In((3, 2), low=-2.0, high=-0.5)))

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        a = x.abs()
        t = a ** (1.0 / 3.0)  # 1/3 is rounded: wrong in the last digits of t, by the size of log a
        t = t - (t - a / (t * t)) * (1.0 / 3.0)  # a step of Newton's method on t**3 - a
        return where(bit_and(isfinite(x), less(0.0, a)), x.sign() * t, x)

    @grads_once_rounded
    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (grad * (1.0 / 3.0) / y / y,)


class Exp2(FloatUnary):
    """Power of two, y = 2**x.

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: C99 7.12.6.2, `exp2`.
    """

    name = "exp2"
    samples = unary_samples()

    def forward(self, x: Tensor) -> Any:
        return 2.0**x


def exact(x: Tensor, y: Tensor, base: float, least: float) -> Any:
    """A logarithm y of x, but the whole number >= least where x is that power of the base."""
    whole = maximum(y.round(), least)
    return where(equal(base**whole, x), whole, y)


class Log2(FloatUnary):
    """Logarithm to base 2, y = ln x / ln 2; exact for powers of 2.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `log2`.
    """

    name = "log2"
    keeps = ("x",)
    samples = unary_samples(0.3, 3.0)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return exact(x, log(x) * (1.0 / math.log(2.0)), 2.0, -math.inf)

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad / x * (1.0 / math.log(2.0)),)


class Log10(FloatUnary):
    """Logarithm to base 10, y = ln x / ln 10; exact for powers of 10.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `log10`.
    """

    name = "log10"
    keeps = ("x",)
    samples = unary_samples(0.3, 3.0)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        # below 1e-37 float32 has no room for all digits of a power
        return exact(x, log(x) * (1.0 / math.log(10.0)), 10.0, -37.0)

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad / x * (1.0 / math.log(10.0)),)


class LogAddExp(Pair):
    """Logarithm of a sum, y = ln(e**a + e**b), without overflow.

    Shapes: a, b broadcast -> y. Dtype: floats, promoted; integers give float32.
    Source: array API standard 2023.12, `logaddexp`.
    """

    name = "logaddexp"
    accepts = "float"
    keeps = ("a", "b")
    weak_float = True
    samples = pair_samples()

    @once_rounded
    def forward(self, a: Tensor, b: Tensor) -> Any:
        distance = (a - b).abs()
        same = equal(a, b)  # also where both are the same infinity, whose difference is NaN
        return maximum(a, b) + log1p(exp(where(same, 0.0, -distance)))

    @grads_once_rounded
    def backward(self, grad: Tensor, a: Tensor, b: Tensor, *, needs: Needs) -> Grads:
        return (
            unbroadcast(grad / (exp(b - a) + 1.0), a.shape) if needs[0] else None,
            unbroadcast(grad / (exp(a - b) + 1.0), b.shape) if needs[1] else None,
        )


@function
@takes_tensors
def lerp(a: Tensor, b: Tensor, weight: Tensor | float) -> Any:
    """On the way from a to b, y = a + weight * (b - a); exactly b at weight 1."""
    step = b - a
    if isinstance(weight, Tensor):
        return where(less(weight, 0.5), a + step * weight, b - step * (1.0 - weight))
    return a + step * weight if weight < 0.5 else b - step * (1.0 - weight)


ceil, trunc, square, reciprocal, rsqrt = Ceil(), Trunc(), Square(), Reciprocal(), Rsqrt()
cbrt, exp2, log2, log10, logaddexp = Cbrt(), Exp2(), Log2(), Log10(), LogAddExp()
