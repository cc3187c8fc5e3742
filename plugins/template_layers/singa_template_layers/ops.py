"""The operations of this pack. An object of each class is the public function."""

from __future__ import annotations

import singa_core as sc
from singa_core.errors import DTypeError, ShapeError
from singa_core.operation import Needs


class Squash(sc.Operation):
    """Shrink vectors to a length below 1, y = x |x| / (1 + |x|^2), with |x| along an axis.

    Made of other operations, so it needs no kernel and no gradient of its own.

    Shapes: any -> same. Dtype: floats.
    Args: axis: along which a vector lies.
    Raises: ShapeError for an axis that x does not have.
    Source: arXiv:1710.09829, equation 1.
    """

    name = "squash"

    def infer(self, x: sc.Spec, *, axis: int = -1) -> sc.Spec:
        if not x.dtype.is_floating:
            raise DTypeError(self.name, "a floating dtype", x.dtype, x=x)
        if not -len(x.shape) <= axis < len(x.shape):
            raise ShapeError(self.name, f"an axis of x, which has {len(x.shape)}", axis, x=x)
        return x

    def forward(self, x: sc.Tensor, *, axis: int) -> sc.Tensor:
        square = (x * x).sum(axis=axis, keepdims=True)
        tiny = 1e-12  # |x| has no gradient at 0
        y: sc.Tensor = x * (square + tiny).sqrt() / (square + 1.0)
        return y


class Snake(sc.Operation):
    """An activation for periodic data, y = x + sin(alpha x)^2 / alpha.

    It has a gradient of its own, so that it stays whole in a training too, and its kernels in
    `kernels.py` are used; where there is none for a device or dtype, `forward` is.

    Shapes: x (..., c), alpha (c) -> y (..., c). Dtype: that of both, a float.
    Raises: ShapeError unless alpha has the last axis of x; DTypeError.
    Source: arXiv:2006.08195, equation 3.
    """

    name, keeps = "snake", ("x", "alpha")
    promotes = True  # both inputs are brought to one dtype

    def infer(self, x: sc.Spec, alpha: sc.Spec) -> sc.Spec:
        if not x.dtype.is_floating:
            raise DTypeError(self.name, "a floating dtype", x.dtype, x=x)
        if not x.shape or alpha.shape != x.shape[-1:]:
            rule = "alpha.shape == x.shape[-1:] and x.ndim >= 1"
            raise ShapeError(self.name, rule, alpha.shape, x=x, alpha=alpha)
        return x

    def forward(self, x: sc.Tensor, alpha: sc.Tensor) -> sc.Tensor:
        wave = (x * alpha).sin()
        y: sc.Tensor = x + wave * wave / alpha
        return y

    def backward(
        self, grad: sc.Tensor, x: sc.Tensor, alpha: sc.Tensor, *, needs: Needs
    ) -> tuple[sc.Tensor | None, sc.Tensor | None]:
        slope = (x * alpha * 2.0).sin()  # of sin(alpha x)^2 by alpha x
        to_x = grad * (slope + 1.0) if needs[0] else None
        to_alpha = None
        if needs[1]:
            wave = (x * alpha).sin()
            each = grad * (slope * x - wave * wave / alpha) / alpha
            to_alpha = each.sum(axis=tuple(range(len(x.shape) - 1)))
        return to_x, to_alpha


squash, snake = Squash(), Snake()
