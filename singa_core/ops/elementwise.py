"""Scalar functions of one input, applied to every element: the primitives.

Pairs are in `elementwise_pairs`, functions made of these in `elementwise_composed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from singa_core.dtype import DTypeLike, as_dtype
from singa_core.operation import Needs, Operation
from singa_core.ops.base import (
    FloatUnary,
    Grads,
    Unary,
    given,
    grads_once_rounded,
    unary_samples,
)
from singa_core.ops.creation import zeros_like
from singa_core.sample import In, sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor, own

__all__ = [
    "abs", "atan", "bit_not", "cast", "copy", "cos", "erf", "exp", "expm1", "floor", "log",
    "log1p", "neg", "round", "sign", "sin", "sqrt", "tanh",
]  # fmt: skip


class Neg(Unary):
    """Negative, y = -x. Unsigned integers wrap around.

    Shapes: any -> same. Dtype: numbers, kept.
    Source: array API standard 2023.12, `negative`.

    >>> from singa_core import tensor
    >>> neg(tensor([1, -2])).tolist()
    [-1, 2]
    """

    name = "neg"
    samples = unary_samples(dtype="number")

    def backward(self, grad: Tensor, *, needs: Needs) -> Grads:
        return (-grad,)


class Abs(Unary):
    """Absolute value, y = |x|; its gradient at 0 is 0.

    Shapes: any -> same. Dtype: numbers, kept.
    Source: array API standard 2023.12, `abs`.
    """

    name = "abs"
    keeps = ("x",)
    samples = (*unary_samples(0.2, 2.0, "number"), sample(In((3, 2), "number", -2.0, -0.2)))

    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad * sign(x),)


class Step(Unary):
    """A function that is constant between its jumps: its gradient is 0."""

    def backward(self, grad: Tensor, *, needs: Needs) -> Grads:
        return (zeros_like(grad),)


class Sign(Step):
    """Sign, y = -1, 0 or 1; NaN for NaN. Its gradient is 0.

    Shapes: any -> same. Dtype: numbers, kept.
    Source: array API standard 2023.12, `sign`.
    """

    name = "sign"
    samples = (*unary_samples(0.2, 2.0, "number"), sample(In((3, 2), "number", -2.0, -0.2)))


class Rounding(Step):
    """A whole number near x; integers are whole already."""

    def infer(self, x: Spec) -> Spec:
        return x if x.dtype.is_integer else super().infer(x)

    def route(self, x: Spec) -> Callable[..., Any] | None:
        return own if x.dtype.is_integer else None


class Floor(Rounding):
    """Largest whole number y <= x. Its gradient is 0.

    Shapes: any -> same. Dtype: numbers, kept.
    Source: array API standard 2023.12, `floor`.
    """

    name = "floor"
    accepts = "float"
    samples = (*unary_samples(0.1, 0.9), sample(In((3, 2), low=-1.9, high=-1.1)))


class Round(Rounding):
    """Nearest whole number; halves go to the even one. Its gradient is 0.

    Shapes: any -> same. Dtype: numbers, kept.
    Source: array API standard 2023.12, `round`.

    >>> from singa_core import tensor
    >>> round(tensor([0.5, 1.5, -2.6])).tolist()
    [0.0, 2.0, -3.0]
    """

    name = "round"
    accepts = "float"
    samples = (*unary_samples(-0.4, 0.4), sample(In((3, 2), low=0.6, high=1.4)))


class Exp(FloatUnary):
    """Exponential, y = e**x.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `exp`.
    """

    name = "exp"
    keeps = ("y",)
    samples = unary_samples()

    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (grad * y,)


class Expm1(FloatUnary):
    """Exponential minus one, y = e**x - 1, exact near 0.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `expm1`.
    """

    name = "expm1"
    keeps = ("y",)
    samples = unary_samples()

    @grads_once_rounded
    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (grad * (y + 1.0),)


class Log(FloatUnary):
    """Natural logarithm, y = ln x; -inf at 0, NaN below.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `log`.
    """

    name = "log"
    keeps = ("x",)
    samples = unary_samples(0.3, 3.0)

    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad / x,)


class Log1p(FloatUnary):
    """Logarithm of one more, y = ln(1 + x), exact near 0.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `log1p`.
    """

    name = "log1p"
    keeps = ("x",)
    samples = unary_samples(-0.6, 3.0)

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad / (x + 1.0),)


class Sqrt(FloatUnary):
    """Square root, y = x**0.5; NaN below 0. Its gradient at 0 is infinite.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `sqrt`.
    """

    name = "sqrt"
    keeps = ("y",)
    samples = unary_samples(0.3, 3.0)

    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (grad * 0.5 / y,)


class Sin(FloatUnary):
    """Sine of x in radians.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `sin`.
    """

    name = "sin"
    keeps = ("x",)
    samples = unary_samples(-4.0, 4.0)

    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad * cos(x),)


class Cos(FloatUnary):
    """Cosine of x in radians.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `cos`.
    """

    name = "cos"
    keeps = ("x",)
    samples = unary_samples(-4.0, 4.0)

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (-grad * sin(x),)


class Atan(FloatUnary):
    """Arc tangent in radians, -pi/2 <= y <= pi/2.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `atan`.
    """

    name = "atan"
    keeps = ("x",)
    samples = unary_samples()

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad / (x * x + 1.0),)


class Tanh(FloatUnary):
    """Hyperbolic tangent, y = (e**x - e**-x) / (e**x + e**-x).

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `tanh`.
    """

    name = "tanh"
    keeps = ("y",)
    samples = unary_samples()

    @grads_once_rounded
    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (grad * (1.0 - y * y),)


class Erf(FloatUnary):
    """Error function, y = 2/sqrt(pi) * integral from 0 to x of exp(-t*t) dt.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: W. J. Cody, Mathematics of Computation 23 (1969) 631-637.
    """

    name = "erf"
    keeps = ("x",)
    samples = unary_samples()

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad * (exp(-(x * x)) * (2.0 / math.sqrt(math.pi))),)


class BitNot(Unary):
    """Every bit inverted; logical not of bool.

    Shapes: any -> same. Dtype: bool and integers, kept.
    Source: array API standard 2023.12, `bitwise_invert`.

    >>> from singa_core import tensor
    >>> bit_not(tensor([0, 5])).tolist()
    [-1, -6]
    """

    name = "bit_not"
    accepts = "bits"
    samples = (
        given([[0, 5, -7], [1, 2, 3]], dtype="int32"),
        given([True, False], dtype="bool"),
        given(200, dtype="uint8"),
        sample(In((0, 2), "int64")),
    )


class Copy(Unary):
    """The same values, packed in memory of their own.

    Shapes: any -> same. Dtype: any, kept.
    Source: y = x.
    """

    name = "copy"
    accepts = "any"
    samples = unary_samples(dtype="any")

    def backward(self, grad: Tensor, *, needs: Needs) -> Grads:
        return (grad,)


class Cast(Operation):
    """The same numbers in another dtype; a float loses its fraction on the way to an integer.

    Shapes: any -> same.
    Dtype: any -> `dtype`. Out of range: floats to integers give the nearest end (NaN gives 0),
    integers to integers keep the low bits, numbers to bool give x != 0.
    Source: array API standard 2023.12, `astype`.

    >>> from singa_core import tensor
    >>> cast(tensor([1.7, -1.7, 300.0]), dtype="int8").tolist()
    [1, -1, 127]
    """

    name = "cast"
    samples = (
        sample(In((3, 4), grad=False), dtype="float32"),  # a difference quotient would not survive
        sample(In((3,), "any", grad=False), dtype="float32"),
        sample(In((2, 2), low=-9.0, high=9.0), dtype="int32"),
        sample(In((4,), "int64"), dtype="bool"),
        sample(In((), "bool"), dtype="int64"),
        sample(In((0, 2), grad=False), dtype="float32"),
    )

    def settle(self, x: Spec, *, dtype: DTypeLike) -> dict[str, Any]:
        return {"dtype": as_dtype(dtype)}

    def infer(self, x: Spec, *, dtype: DTypeLike) -> Spec:
        return x.with_dtype(dtype)

    def backward(self, grad: Tensor, *, needs: Needs, dtype: DTypeLike) -> Grads:
        return (cast(grad, dtype=needs.specs[0].dtype),)


neg, abs, sign, floor, round = Neg(), Abs(), Sign(), Floor(), Round()
exp, expm1, log, log1p, sqrt = Exp(), Expm1(), Log(), Log1p(), Sqrt()
sin, cos, atan, tanh, erf = Sin(), Cos(), Atan(), Tanh(), Erf()
bit_not, copy, cast = BitNot(), Copy(), Cast()
