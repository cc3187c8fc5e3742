"""Softmax along an axis, and layer normalisation over the last axes."""

from __future__ import annotations

from typing import Any

from singa_core.errors import ArgumentError, DTypeError, ShapeError
from singa_core.operation import Needs, Operation
from singa_core.ops.base import FloatUnary, Grads, check_kind
from singa_core.ops.creation import full
from singa_core.sample import In, sample
from singa_core.spec import Shape, Spec, check_axis
from singa_core.tensor import Tensor

__all__ = ["layer_norm", "log_softmax", "softmax"]


def wide(x: Tensor) -> Tensor:
    """`x` in the type that sums are kept in: float32 for float16 and bfloat16."""
    return x.astype("float32") if x.dtype.bits < 32 else x


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


class LayerNorm(Operation):
    """Each sample to mean 0 and variance 1, then scaled and moved: y = weight * (x - m) / s + bias.

    The mean m and s = sqrt(variance + eps), biased, are taken over the axes that `weight` has, the
    last ones. `weight` and `bias` may be left out (None).

    Shapes: x (..., *d), weight (*d), bias (*d) -> y (..., *d). Dtype: floats, all of one.

    Args:
        axes: how many of the last axes are one sample; those of weight or bias if there is one.
        eps: keeps s away from 0, >= 0.

    Raises: ShapeError unless weight and bias have the shape of the last axes of x; DTypeError;
        ArgumentError for a negative eps.
    Source: arXiv:1607.06450, eq. 3 and 4.

    >>> from singa_core import tensor
    >>> layer_norm(tensor([[1.0, 3.0]]), tensor([2.0, 2.0]), tensor([1.0, 1.0]), eps=0.0).tolist()
    [[-1.0, 3.0]]
    """

    name = "layer_norm"
    keeps = ("x", "weight")
    samples = (
        sample((3, 4), (4,), (4,)),
        sample((2, 3, 4), (3, 4), (3, 4), eps=1e-3),
        sample((2, 3, 4), (4,), (4,)),
        sample((5,), (5,), (5,)),
        sample((0, 3), (3,), (3,)),
    )

    def __call__(
        self,
        x: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        axes: int = 1,
        eps: float = 1e-5,
    ) -> Any:
        given = weight if weight is not None else bias
        count = axes if given is None else given.ndim
        if not 0 < count <= x.ndim:
            raise ShapeError(self.name, "0 < axes <= x.ndim", f"{count} and {x.ndim}", x=x)
        shape = x.shape[x.ndim - count :]
        if weight is None:
            weight = full(shape, 1, dtype=x.dtype, device=x.device)
        if bias is None:
            bias = full(shape, 0, dtype=x.dtype, device=x.device)
        return super().__call__(x, weight, bias, eps=float(eps))

    def infer(self, x: Spec, weight: Spec, bias: Spec, *, eps: float = 1e-5) -> Spec:
        named: dict[str, Any] = {"x": x, "weight": weight, "bias": bias}
        check_kind(self.name, "float", **named)
        if weight.dtype is not x.dtype or bias.dtype is not x.dtype:
            raise DTypeError(self.name, "one dtype", f"{weight.dtype} and {bias.dtype}", **named)
        last = x.shape[x.ndim - weight.ndim :] if 0 < weight.ndim <= x.ndim else None
        if weight.shape != last or bias.shape != last:
            rule = "weight.shape == bias.shape == the last axes of x"
            raise ShapeError(self.name, rule, f"{weight.shape} and {bias.shape}", **named)
        if eps < 0:
            raise ArgumentError(self.name, "eps >= 0", eps)
        return x

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> Tensor:
        if not x.size:
            return x
        normal, _ = _normalized(wide(x), _last(x.ndim, weight.ndim), eps)
        return (normal * weight + bias).astype(x.dtype)

    # x is kept and its moments are computed again: two sums, against an activation held in memory
    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor, *, needs: Needs, eps: float
    ) -> Grads:
        axes = _last(x.ndim, weight.ndim)
        rest = tuple(i for i in range(x.ndim) if i not in axes)
        g = wide(grad)
        normal, scale = _normalized(wide(x), axes, eps)
        dx = dweight = dbias = None
        if needs[0]:
            h = g * weight
            mean, slope = _mean(h, axes), _mean(h * normal, axes)
            dx = ((h - mean - normal * slope) * scale).astype(x.dtype)
        if needs[1]:
            dweight = (g * normal).sum(axis=rest).astype(weight.dtype)
        if needs[2]:
            dbias = g.sum(axis=rest).astype(weight.dtype)
        return dx, dweight, dbias


def _last(ndim: int, count: int) -> Shape:
    """The last `count` of `ndim` axes."""
    return tuple(range(ndim - count, ndim))


def _mean(x: Tensor, axes: Shape) -> Tensor:
    """Mean over axes, which stay as 1; of nothing, 0."""
    count = Spec([x.shape[a] for a in axes], x.dtype).itemcount
    return x.sum(axis=axes, keepdims=True) / float(max(count, 1))


def _normalized(x: Tensor, axes: Shape, eps: float) -> tuple[Tensor, Tensor]:
    """(x - mean) / s, and 1 / s."""
    centered = x - _mean(x, axes)
    scale = 1.0 / (_mean(centered * centered, axes) + eps).sqrt()
    return centered * scale, scale


softmax, log_softmax, layer_norm = Softmax(), LogSoftmax(), LayerNorm()
