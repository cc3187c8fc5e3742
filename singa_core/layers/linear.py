"""Affine maps."""

from __future__ import annotations

from singa_core import ops
from singa_core.checks import check_flag, check_integer
from singa_core.errors import ArgumentError, ShapeError
from singa_core.initializer import InitializerLike
from singa_core.layer import Layer
from singa_core.parameter import Parameter
from singa_core.tensor import Tensor


class Linear(Layer):
    """Affine map, y = x @ weight + bias.

    Shapes: x (..., in_features) -> y (..., out_features); weight (in_features, out_features).

    Args:
        out_features: size of the last axis of y, >= 1.
        in_features: size of the last axis of x, >= 1; learnt from the first input if left out.
        bias: add a learnt vector.
        weight_init, bias_init: initialisers, by name, callable or array.

    Raises: ShapeError if x does not end in in_features.

    >>> Linear(3)(ops.zeros((2, 4))).shape
    (2, 3)
    """

    def __init__(
        self,
        out_features: int,
        *misplaced: int,
        in_features: int | None = None,
        bias: bool = True,
        weight_init: InitializerLike = "glorot_uniform",
        bias_init: InitializerLike = "zeros",
    ) -> None:
        if misplaced:
            raise ArgumentError(
                "Linear", "the output size alone: Linear(out_features)",
                f"Linear({out_features}, {misplaced[0]})",
                hint=f"Linear({misplaced[0]}, in_features={out_features})",
            )  # fmt: skip
        out_features = check_integer("Linear", "out_features", out_features, 1)
        if in_features is not None:
            in_features = check_integer("Linear", "in_features", in_features, 1)
        self.weight = Parameter((in_features, out_features), weight_init)
        wanted = check_flag("Linear", "bias", bias)
        self.bias = Parameter((out_features,), bias_init) if wanted else None

    def initialize(self, x: Tensor) -> None:
        wanted, out_features = self.weight.shape
        if not x.shape or wanted not in (None, x.shape[-1]):
            rule = f"x.shape[-1] == in_features == {wanted}" if x.shape else "x.ndim >= 1"
            raise ShapeError("Linear", rule, x.shape, x=x)
        self.weight.set_shape((x.shape[-1], out_features))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.linear(x, self.weight, self.bias)
        return y

    def describe(self) -> str:
        in_features, out_features = self.weight.shape
        return f"{out_features}, in_features={in_features}, bias={self.bias is not None}"
