"""Trigonometric and hyperbolic functions that are made of the primitives."""

from __future__ import annotations

import math
from typing import Any

from singa_core.operation import Needs
from singa_core.ops.base import (
    FloatUnary,
    Grads,
    Pair,
    grads_once_rounded,
    once_rounded,
    pair_samples,
    unary_samples,
)
from singa_core.ops.elementwise import log, log1p
from singa_core.ops.elementwise_pairs import bit_and, bit_or, equal, less, maximum, minimum, where
from singa_core.ops.shape import unbroadcast
from singa_core.sample import In, sample
from singa_core.tensor import Tensor

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan2", "atanh", "cosh", "hypot", "sinh", "tan",
]  # fmt: skip


LARGE = 2.0**28  # its square fits any dtype here, and is 1 + its square in float64


def odd(x: Tensor, y: Tensor) -> Any:
    """y, which was made of |x|, with the sign of x; a zero keeps its own."""
    return where(equal(x, 0.0), x, x.sign() * y)


class Tan(FloatUnary):
    """Tangent of x in radians, y = sin x / cos x.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `tan`.
    """

    name = "tan"
    keeps = ("y",)
    samples = unary_samples(-1.2, 1.2)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return x.sin() / x.cos()

    @grads_once_rounded
    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (grad * (y * y + 1.0),)


class Asin(FloatUnary):
    """Arc sine in radians, -pi/2 <= y <= pi/2; NaN outside [-1, 1].

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `asin`; y = atan(x / sqrt(1 - x*x)).
    """

    name = "asin"
    keeps = ("x",)
    samples = unary_samples(-0.9, 0.9)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return (x / ((1.0 - x) * (1.0 + x)).sqrt()).atan()

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad / ((1.0 - x) * (1.0 + x)).sqrt(),)


class Acos(FloatUnary):
    """Arc cosine in radians, 0 <= y <= pi; NaN outside [-1, 1].

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `acos`; y = 2 * atan(sqrt((1 - x) / (1 + x))).
    """

    name = "acos"
    keeps = ("x",)
    samples = unary_samples(-0.9, 0.9)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return ((1.0 - x) / (1.0 + x)).sqrt().atan() * 2.0

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (-grad / ((1.0 - x) * (1.0 + x)).sqrt(),)


class Sinh(FloatUnary):
    """Hyperbolic sine, y = (e**x - e**-x) / 2.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `sinh`.
    """

    name = "sinh"
    keeps = ("x",)
    samples = unary_samples()

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        # with m = expm1(|x|): (m + m / (m + 1)) / 2, exact near 0; e**(x/2) twice where m overflows
        a = x.abs()
        m, half = a.expm1(), (a * 0.5).exp()
        return odd(x, where(less(a, 20.0), (m + m / (m + 1.0)) * 0.5, half * 0.5 * half))

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad * cosh(x),)


class Cosh(FloatUnary):
    """Hyperbolic cosine, y = (e**x + e**-x) / 2.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `cosh`.
    """

    name = "cosh"
    keeps = ("x",)
    samples = unary_samples()

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        half = (x.abs() * 0.5).exp()
        return half * 0.5 * half + 0.5 / half / half

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad * sinh(x),)


class Asinh(FloatUnary):
    """Inverse hyperbolic sine, y = ln(x + sqrt(x*x + 1)).

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `asinh`; as ln(1 + a + a*a / (1 + sqrt(a*a + 1))), a = |x|,
        and ln a + ln 2 where a*a + 1 is a*a.
    """

    name = "asinh"
    keeps = ("x",)
    samples = unary_samples()

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        a = x.abs()
        small = minimum(a, LARGE)
        square = small * small
        near = log1p(small + square / ((square + 1.0).sqrt() + 1.0))
        return odd(x, where(less(a, LARGE), near, log(maximum(a, 1.0)) + math.log(2.0)))

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad / hypot(x, 1.0),)


class Acosh(FloatUnary):
    """Inverse hyperbolic cosine, y = ln(x + sqrt(x*x - 1)); NaN below 1.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `acosh`; as ln(1 + t + sqrt(t) * sqrt(t + 2)), t = x - 1,
        and ln x + ln 2 where t is x.
    """

    name = "acosh"
    keeps = ("x",)
    samples = unary_samples(1.3, 3.0)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        t = minimum(x, LARGE) - 1.0
        near = log1p(t + t.sqrt() * (t + 2.0).sqrt())
        return where(less(x, LARGE), near, log(x) + math.log(2.0))

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad / (x - 1.0).sqrt() / (x + 1.0).sqrt(),)


class Atanh(FloatUnary):
    """Inverse hyperbolic tangent, y = ln((1 + x) / (1 - x)) / 2; NaN outside [-1, 1].

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `atanh`.
    """

    name = "atanh"
    keeps = ("x",)
    samples = unary_samples(-0.8, 0.8)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return (log1p(x) - log1p(-x)) * 0.5

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad / ((1.0 - x) * (1.0 + x)),)


class Atan2(Pair):
    """Angle of the point (b, a) in radians, -pi <= y <= pi, tan y = a / b.

    The gradient at (0, 0) is 0.

    Shapes: a, b broadcast -> y. Dtype: floats, promoted; integers give float32.
    Source: array API standard 2023.12, `atan2`.
    """

    name = "atan2"
    accepts = "float"
    keeps = ("a", "b")
    weak_float = True
    samples = (
        *pair_samples((0.5, 2.0), (0.5, 2.0)),
        sample(In((2, 3), low=-2.0, high=-0.5), In((3,), low=-2.0, high=-0.5)),
        sample(In((2, 3), low=0.5, high=2.0), In((3,), low=-2.0, high=-0.5)),
    )

    @once_rounded
    def forward(self, a: Tensor, b: Tensor) -> Any:
        # the smaller over the larger, in the first octant; then mirrored into place
        wide, tall = b.abs(), a.abs()
        top, bottom = minimum(wide, tall), maximum(wide, tall)
        both = bit_and(equal(top, math.inf), equal(bottom, math.inf))
        ratio = where(equal(bottom, 0.0), 0.0, where(both, 1.0, top / bottom))
        angle = ratio.atan()
        angle = where(less(wide, tall), math.pi / 2 - angle, angle)
        angle = where(_negative(b), math.pi - angle, angle)
        return where(_negative(a), -angle, angle)

    @grads_once_rounded
    def backward(self, grad: Tensor, a: Tensor, b: Tensor, *, needs: Needs) -> Grads:
        length = hypot(a, b)  # the square of which may be out of range
        length = where(equal(length, 0.0), 1.0, length)
        return (
            unbroadcast(grad * (b / length) / length, a.shape) if needs[0] else None,
            -unbroadcast(grad * (a / length) / length, b.shape) if needs[1] else None,
        )


def _negative(x: Tensor) -> Any:
    """True below 0 and for -0.0, whose reciprocal is -inf."""
    return bit_or(less(x, 0.0), bit_and(equal(x, 0.0), less(1.0 / x, 0.0)))


class Hypot(Pair):
    """Length of (a, b), y = sqrt(a*a + b*b), without overflow on the way.

    Infinity where either is infinite, also beside NaN. The gradient at (0, 0) is 0.

    Shapes: a, b broadcast -> y. Dtype: floats, promoted; integers give float32.
    Source: array API standard 2023.12, `hypot`; C99 F.9.4.3.
    """

    name = "hypot"
    accepts = "float"
    keeps = ("a", "b", "y")
    weak_float = True
    samples = pair_samples((0.5, 2.0), (-2.0, -0.5))

    @once_rounded
    def forward(self, a: Tensor, b: Tensor) -> Any:
        wide, tall = a.abs(), b.abs()
        top, bottom = minimum(wide, tall), maximum(wide, tall)
        ratio = top / where(equal(bottom, 0.0), 1.0, bottom)
        infinite = bit_or(equal(wide, math.inf), equal(tall, math.inf))
        return where(infinite, math.inf, bottom * (ratio * ratio + 1.0).sqrt())

    @grads_once_rounded
    def backward(self, grad: Tensor, a: Tensor, b: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        y = where(equal(y, 0.0), 1.0, y)
        return (
            unbroadcast(grad * (a / y), a.shape) if needs[0] else None,
            unbroadcast(grad * (b / y), b.shape) if needs[1] else None,
        )


tan, asin, acos, atan2, hypot = Tan(), Asin(), Acos(), Atan2(), Hypot()
sinh, cosh, asinh, acosh, atanh = Sinh(), Cosh(), Asinh(), Acosh(), Atanh()
