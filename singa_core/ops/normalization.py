"""Softmax along an axis.

Normalisation of samples is in `normalization_layer`, that over a batch in `normalization_batch`.
"""

from __future__ import annotations

from typing import Any

from singa_core.operation import Needs
from singa_core.ops.base import FloatUnary, Grads, wide
from singa_core.sample import In, sample
from singa_core.spec import Spec, check_axis
from singa_core.tensor import Tensor

__all__ = ["log_softmax", "softmax"]


class AlongAxis(FloatUnary):
    """A function of the elements along one axis."""

    samples = (
        sample((3, 4)),
        sample((2, 3, 4), axis=1),
        sample((2, 3, 4), axis=0),
        sample((5,), axis=-1),
        sample((4, 1)),
        sample((0, 3)),
        sample((3, 0)),
        sample(In((2, 3), values=[[-90.0, 0.0, 90.0], [60.0, 60.5, 61.0]])),
    )

    def settle(self, x: Spec, *, axis: int = -1) -> dict[str, Any]:
        return {"axis": check_axis(self.name, axis, x.ndim, x=x)}

    def infer(self, x: Spec, *, axis: int = -1) -> Spec:
        return super().infer(x)


class Softmax(AlongAxis):
    """Shares that sum to 1 along an axis, y[i] = exp(x[i]) / sum over j of exp(x[j]).

    The largest x of the axis is subtracted first, so nothing overflows. All -inf gives NaN.

    Shapes: any with at least one axis -> same. Dtype: floats; integers -> float32.
    Raises: ShapeError if there is no such axis.
    Source: J. S. Bridle, NATO ASI Series 68 (1990), 227-236, eq. 3.

    >>> from singa_core import tensor
    >>> softmax(tensor([[0.0, 0.0]])).tolist()
    [[0.5, 0.5]]
    """

    name = "softmax"
    keeps = ("y",)

    def forward(self, x: Tensor, *, axis: int) -> Tensor:
        if not x.size:
            return x
        w = wide(x)
        e = (w - w.max(axis=axis, keepdims=True)).exp()
        return (e / e.sum(axis=axis, keepdims=True)).astype(x.dtype)

    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs, axis: int) -> Grads:
        g = wide(grad)
        dx = (g - (g * y).sum(axis=axis, keepdims=True)) * y
        return (dx.astype(y.dtype),)


class LogSoftmax(AlongAxis):
    """Logarithm of softmax along an axis, y[i] = x[i] - log(sum over j of exp(x[j])).

    Shapes: any with at least one axis -> same. Dtype: floats; integers -> float32.
    Raises: ShapeError if there is no such axis.
    Source: as softmax.
    """

    name = "log_softmax"
    keeps = ("y",)

    def forward(self, x: Tensor, *, axis: int) -> Tensor:
        if not x.size:
            return x
        w = wide(x)
        shifted = w - w.max(axis=axis, keepdims=True)
        return (shifted - shifted.exp().sum(axis=axis, keepdims=True).log()).astype(x.dtype)

    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs, axis: int) -> Grads:
        g = wide(grad)
        dx = g - wide(y).exp() * g.sum(axis=axis, keepdims=True)
        return (dx.astype(y.dtype),)


softmax, log_softmax = Softmax(), LogSoftmax()
