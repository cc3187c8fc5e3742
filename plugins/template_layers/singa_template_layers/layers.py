"""The layers of this pack."""

from __future__ import annotations

import singa_core as sc
from singa_core.checks import check_integer
from singa_core.errors import ShapeError
from singa_template_layers import ops


class Squash(sc.Layer):
    """Vectors shrunk to a length below 1; see `squash`. Shapes: any -> same.

    Args: axis: along which a vector lies.
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = check_integer("Squash", "axis", axis)

    def forward(self, x: sc.Tensor) -> sc.Tensor:
        y: sc.Tensor = ops.squash(x, axis=self.axis)
        return y


class Snake(sc.Layer):
    """x + sin(alpha x)^2 / alpha, with a learnt alpha for each feature.

    Shapes: x (..., features) -> same; alpha (features).
    Args: features: size of the last axis, learnt from the first input if left out.
    Raises: ShapeError if x does not end in features.
    """

    def __init__(self, features: int | None = None) -> None:
        self.alpha = sc.Parameter((features,), init="ones")

    def initialize(self, x: sc.Tensor) -> None:
        (features,) = self.alpha.shape
        if not x.shape or features not in (None, x.shape[-1]):
            rule = f"x.shape[-1] == features == {features}" if x.shape else "x.ndim >= 1"
            raise ShapeError("Snake", rule, x.shape, x=x)
        self.alpha.set_shape(x.shape[-1:])

    def forward(self, x: sc.Tensor) -> sc.Tensor:
        y: sc.Tensor = ops.snake(x, self.alpha)
        return y
