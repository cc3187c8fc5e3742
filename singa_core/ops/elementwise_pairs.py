"""Arithmetic, comparison and bits of two inputs, and selection between two: the primitives."""

from __future__ import annotations

from singa_core.dtype import promote
from singa_core.operation import Needs, Operation
from singa_core.ops.base import (
    Compare,
    Grads,
    Pair,
    check_kind,
    given,
    grads_once_rounded,
    pair_samples,
)
from singa_core.ops.creation import zeros
from singa_core.ops.shape import unbroadcast
from singa_core.sample import In, sample
from singa_core.spec import Spec, broadcast_shapes
from singa_core.tensor import Tensor

__all__ = [
    "add", "bit_and", "bit_or", "bit_xor", "div", "equal",
    "floor_divide", "less", "less_equal", "maximum", "minimum", "mul", "pow", "remainder",
    "shift_left", "shift_right", "sub", "where",
]  # fmt: skip

_NUMBERS = pair_samples(dtype="number")
_FLAGS = (
    given([True, True, False, False], [True, False, True, False], dtype="bool"),
    sample(In((3, 1), "int32", -9, 9), In((1, 4), "int32", -9, 9)),
    sample(In((), "uint8", 0, 200), In((5,), "uint8", 0, 200)),
    sample(In((0, 3), "int64"), In((3,), "int64")),
)
_COUNTS = (
    given([[1, -8, 5], [7, 0, -1]], [[0, 1, 2], [3, 4, 5]], dtype="int32"),
    given([1, 2], 40, dtype="int32"),  # a count beyond the width
    given(200, [1, 2, 7], dtype="uint8"),
    sample(In((0, 3), "int64"), In((3,), "int64", 0, 3)),
)


class Add(Pair):
    """Sum, y = a + b.

    Shapes: a, b broadcast -> y. Dtype: numbers; operands are promoted.
    Source: array API standard 2023.12, `add`.

    >>> from singa_core import tensor
    >>> add(tensor([[1], [2]]), tensor([10, 20])).tolist()
    [[11, 21], [12, 22]]
    """

    name = "add"
    samples = _NUMBERS

    def backward(self, grad: Tensor, *, needs: Needs) -> Grads:
        a, b = needs.specs
        return (
            unbroadcast(grad, a.shape) if needs[0] else None,
            unbroadcast(grad, b.shape) if needs[1] else None,
        )


class Sub(Pair):
    """Difference, y = a - b. Unsigned integers wrap around.

    Shapes: a, b broadcast -> y. Dtype: numbers; operands are promoted.
    Source: array API standard 2023.12, `subtract`.
    """

    name = "sub"
    samples = _NUMBERS

    def backward(self, grad: Tensor, *, needs: Needs) -> Grads:
        a, b = needs.specs
        return (
            unbroadcast(grad, a.shape) if needs[0] else None,
            -unbroadcast(grad, b.shape) if needs[1] else None,
        )


class Mul(Pair):
    """Product, y = a * b.

    Shapes: a, b broadcast -> y. Dtype: numbers; operands are promoted.
    Source: array API standard 2023.12, `multiply`.
    """

    name = "mul"
    keeps = ("a", "b")
    samples = _NUMBERS

    def backward(self, grad: Tensor, a: Tensor, b: Tensor, *, needs: Needs) -> Grads:
        return (
            unbroadcast(grad * b, a.shape) if needs[0] else None,
            unbroadcast(grad * a, b.shape) if needs[1] else None,
        )


class Div(Pair):
    """Quotient, y = a / b; a zero divisor gives an infinity or NaN.

    Shapes: a, b broadcast -> y. Dtype: numbers; operands are promoted, integers give float32.
    Source: array API standard 2023.12, `divide`.
    """

    name = "div"
    accepts = "float"
    keeps = ("b", "y")
    weak_float = True
    samples = pair_samples(b=(0.5, 2.0))

    @grads_once_rounded
    def backward(self, grad: Tensor, b: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (
            unbroadcast(grad / b, needs.specs[0].shape) if needs[0] else None,
            -unbroadcast(grad * y / b, b.shape) if needs[1] else None,
        )


class FloorDivide(Pair):
    """Quotient rounded down, y = floor(a / b). Its gradient is 0.

    Shapes: a, b broadcast -> y. Dtype: numbers; operands are promoted. An integer divided by
    0 gives what the device makes of it.
    Source: array API standard 2023.12, `floor_divide`.

    >>> from singa_core import tensor
    >>> floor_divide(tensor([7, -7]), 2).tolist()
    [3, -4]
    """

    name = "floor_divide"
    samples = (
        *pair_samples((0.2, 0.8), (1.0, 2.0)),
        sample(In((2, 3), low=-0.8, high=-0.2), In((3,), low=1.0, high=2.0)),
        given([[7, -7], [6, 5]], [2, -3], dtype="int32"),
    )

    def backward(self, grad: Tensor, *, needs: Needs) -> Grads:
        return tuple(
            zeros(spec.shape, dtype=spec.dtype, device=grad.device) if wanted else None
            for spec, wanted in zip(needs.specs, needs, strict=True)
        )


class Remainder(Pair):
    """What floor division leaves, y = a - floor(a / b) * b; it has the sign of b.

    Shapes: a, b broadcast -> y. Dtype: numbers; operands are promoted.
    Source: array API standard 2023.12, `remainder`.

    >>> from singa_core import tensor
    >>> remainder(tensor([7, -7]), 3).tolist()
    [1, 2]
    """

    name = "remainder"
    keeps = ("a", "b")
    samples = FloorDivide.samples

    @grads_once_rounded
    def backward(self, grad: Tensor, a: Tensor, b: Tensor, *, needs: Needs) -> Grads:
        return (
            unbroadcast(grad, a.shape) if needs[0] else None,
            -unbroadcast(grad * floor_divide(a, b), b.shape) if needs[1] else None,
        )


class Pow(Pair):
    """Power, y = a**b; 0**0 = 1, and a negative base with a fractional exponent gives NaN.

    Shapes: a, b broadcast -> y. Dtype: numbers; operands are promoted. An integer with a
    negative integer exponent gives 0, or the base itself for 1 and -1.
    Source: array API standard 2023.12, `pow`.
    """

    name = "pow"
    keeps = ("a", "b", "y")
    samples = (
        *pair_samples((0.4, 2.0), (-2.0, 2.0)),
        given([[2, -3], [0, 1]], [3, 2], dtype="int32"),
    )

    @grads_once_rounded
    def backward(self, grad: Tensor, a: Tensor, b: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        da = db = None
        if needs[0]:  # where b is 0 the slope is 0, also at a = 0
            slope = where(equal(b, 0.0), 0.0, b * pow(a, b - 1.0))
            da = unbroadcast(grad * slope, a.shape)
        if needs[1]:  # where a is 0, y does not change with a positive b
            flat = equal(a, 0.0)
            slope = where(flat, 0.0, y * where(flat, 1.0, a).log())
            db = unbroadcast(grad * slope, b.shape)
        return da, db


class Extreme(Pair):
    """One of the two; at a tie each gets half of the gradient."""

    accepts = "any"
    keeps = ("a", "b")
    samples = (
        given([[0.5, -1.0, 2.0], [1.5, 0.0, -2.0]], [[1.0, -1.5, 1.0], [0.5, 0.5, -1.0]]),
        given([[0.5], [-1.0]], [0.0, 1.0, -2.0]),
        given(0.5, [1.0, 0.0]),
        given(1.0, -1.0),
        *pair_samples(dtype="int32")[:2],
        sample((0, 3), (3,)),
    )

    def backward(self, grad: Tensor, a: Tensor, b: Tensor, *, needs: Needs) -> Grads:
        low, high = (b, a) if self is maximum else (a, b)
        mine = where(equal(a, b), grad * 0.5, where(less(low, high), grad, 0.0))
        return (
            unbroadcast(mine, a.shape) if needs[0] else None,
            unbroadcast(grad - mine, b.shape) if needs[1] else None,
        )


class Maximum(Extreme):
    """The larger of the two; NaN if either is. At a tie each gets half of the gradient.

    Shapes: a, b broadcast -> y. Dtype: any; operands are promoted.
    Source: array API standard 2023.12, `maximum`.
    """

    name = "maximum"


class Minimum(Extreme):
    """The smaller of the two; NaN if either is. At a tie each gets half of the gradient.

    Shapes: a, b broadcast -> y. Dtype: any; operands are promoted.
    Source: array API standard 2023.12, `minimum`.
    """

    name = "minimum"


class Equal(Compare):
    """True where a == b; NaN equals nothing.

    Shapes: a, b broadcast -> y. Dtype: any; operands are promoted -> bool.
    Source: array API standard 2023.12, `equal`.
    """

    name = "equal"
    samples = (
        given([[1, 2], [3, 4]], [[1, 0], [3, 5]], dtype="any"),
        given([[1], [2]], [1, 2, 3], dtype="number"),
        given([True, False], True, dtype="bool"),
        sample(In((0, 3), "any"), In((3,), "any")),
    )


class Less(Compare):
    """True where a < b.

    Shapes: a, b broadcast -> y. Dtype: any; operands are promoted -> bool.
    Source: array API standard 2023.12, `less`.
    """

    name = "less"
    samples = Equal.samples


class LessEqual(Compare):
    """True where a <= b.

    Shapes: a, b broadcast -> y. Dtype: any; operands are promoted -> bool.
    Source: array API standard 2023.12, `less_equal`.
    """

    name = "less_equal"
    samples = Equal.samples


class BitAnd(Pair):
    """Bits that are set in both; logical and of bool.

    Shapes: a, b broadcast -> y. Dtype: bool and integers; operands are promoted.
    Source: array API standard 2023.12, `bitwise_and`.
    """

    name = "bit_and"
    accepts = "bits"
    samples = _FLAGS


class BitOr(Pair):
    """Bits that are set in either; logical or of bool.

    Shapes: a, b broadcast -> y. Dtype: bool and integers; operands are promoted.
    Source: array API standard 2023.12, `bitwise_or`.
    """

    name = "bit_or"
    accepts = "bits"
    samples = _FLAGS


class BitXor(Pair):
    """Bits that are set in one of the two; logical exclusive or of bool.

    Shapes: a, b broadcast -> y. Dtype: bool and integers; operands are promoted.
    Source: array API standard 2023.12, `bitwise_xor`.
    """

    name = "bit_xor"
    accepts = "bits"
    samples = _FLAGS


class ShiftLeft(Pair):
    """a moved left by b bits, y = a * 2**b in the integer's width; 0 where b is outside [0, width).

    Shapes: a, b broadcast -> y. Dtype: integers; operands are promoted.
    Source: array API standard 2023.12, `bitwise_left_shift`.
    """

    name = "shift_left"
    accepts = "integer"
    samples = _COUNTS


class ShiftRight(Pair):
    """a moved right by b bits, y = floor(a / 2**b); 0 or -1 where b is outside [0, width).

    Shapes: a, b broadcast -> y. Dtype: integers; operands are promoted.
    Source: array API standard 2023.12, `bitwise_right_shift`.
    """

    name = "shift_right"
    accepts = "integer"
    samples = _COUNTS


class Where(Operation):
    """a where the condition holds, else b.

    Shapes: condition, a, b broadcast -> y. Dtype: bool; any, promoted.
    Source: array API standard 2023.12, `where`.

    >>> from singa_core import tensor
    >>> where(tensor([True, False]), tensor([1, 2]), 0).tolist()
    [1, 0]
    """

    name = "where"
    keeps = ("condition",)
    promotes = (1, 2)
    samples = (
        sample(In((3, 4), "bool"), (3, 4), (3, 4)),
        sample(In((3, 1), "bool"), (4,), ()),
        sample(In((), "bool"), (2, 3), (3,)),
        sample(In((4,), "bool"), In((4,), "any"), In((4,), "any")),
        sample(In((0,), "bool"), (0,), (1,)),
    )

    def infer(self, condition: Spec, a: Spec, b: Spec) -> Spec:
        check_kind(self.name, "bool", condition=condition)
        named = {"condition": condition, "a": a, "b": b}
        shape = broadcast_shapes(self.name, condition.shape, a.shape, b.shape, **named)
        return Spec(shape, promote(a.dtype, b.dtype))

    def backward(self, grad: Tensor, condition: Tensor, *, needs: Needs) -> Grads:
        _, a, b = needs.specs
        return (
            None,
            unbroadcast(where(condition, grad, 0.0), a.shape) if needs[1] else None,
            unbroadcast(where(condition, 0.0, grad), b.shape) if needs[2] else None,
        )


add, sub, mul, div, pow = Add(), Sub(), Mul(), Div(), Pow()
floor_divide, remainder, maximum, minimum = FloorDivide(), Remainder(), Maximum(), Minimum()
equal, less, less_equal = Equal(), Less(), LessEqual()
bit_and, bit_or, bit_xor = BitAnd(), BitOr(), BitXor()
shift_left, shift_right, where = ShiftLeft(), ShiftRight(), Where()
