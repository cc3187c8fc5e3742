"""Each channel of a batch to mean 0 and variance 1, and with the mean and variance of the past."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from singa_core.errors import ShapeError
from singa_core.operation import Needs, Operation
from singa_core.ops.base import Grads, wide
from singa_core.ops.normalization_layer import check_channels, mean_of
from singa_core.sample import In, sample
from singa_core.spec import Shape, Spec
from singa_core.tensor import Tensor

__all__ = ["batch_norm", "batch_norm_grad", "batch_norm_inference"]


def _others(x: Tensor) -> Shape:
    """All axes but the channels'."""
    return (0, *range(2, x.ndim))


def _column(v: Tensor, x: Tensor) -> Tensor:
    """A number for each channel, in a shape that broadcasts to x."""
    return wide(v).reshape(-1, *(1 for _ in range(x.ndim - 2)))


def _scale(variance: Tensor, eps: float) -> Tensor:
    """1 / sqrt(variance + eps)."""
    return 1.0 / (variance + eps).sqrt()


class BatchNorm(Operation):
    """Each channel to mean 0 and variance 1 over the batch, y = weight * (x - m) / s + bias.

    s = sqrt(variance + eps), the variance of the elements (biased). It changes no state: whoever
    keeps running statistics does so with the mean and the variance that it gives.

    Shapes: x (n, c, *size), weight (c), bias (c) -> y (n, c, *size), mean (c), variance (c).
    Dtype: floats, all of one; the moments of 16-bit floats are float32.
    Args: eps: keeps s away from 0, >= 0.
    Raises: ShapeError unless x has channels, and weight and bias one number for each; DTypeError;
        ArgumentError for a negative eps.
    Source: arXiv:1502.03167, algorithm 1.

    >>> from singa_core import tensor
    >>> x = tensor([[1.0], [3.0]])
    >>> y, mean, variance = batch_norm(x, tensor([2.0]), tensor([1.0]), eps=0.0)
    >>> y.tolist(), mean.tolist(), variance.tolist()
    ([[-1.0], [3.0]], [2.0], [1.0])
    """

    name = "batch_norm"
    keeps = ("x", "weight", "y1", "y2")
    samples = (
        sample((6, 3), (3,), (3,)),
        sample((3, 2, 4), (2,), (2,), eps=1e-3),
        sample((2, 3, 4, 3), (3,), (3,)),
        sample((3, 2, 1, 2, 2), (2,), (2,)),
        sample((0, 2, 3), (2,), (2,)),
    )

    def settle(self, x: Spec, weight: Spec, bias: Spec, *, eps: float) -> dict[str, Any]:
        return {"eps": float(eps)}

    def infer(
        self, x: Spec, weight: Spec, bias: Spec, *, eps: float = 1e-5
    ) -> tuple[Spec, Spec, Spec]:
        check_channels(self.name, x, eps, weight=weight, bias=bias)
        moment = weight.with_dtype("float32") if x.dtype.bits < 32 else weight
        return x, moment, moment

    def forward(
        self, x: Tensor, weight: Tensor, bias: Tensor, *, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        w, axes = wide(x), _others(x)
        mean = mean_of(w, axes)
        centered = w - mean
        variance = mean_of(centered * centered, axes)
        y = centered * (_scale(variance, eps) * _column(weight, x)) + _column(bias, x)
        return y.astype(x.dtype), mean.reshape(weight.shape), variance.reshape(weight.shape)

    def backward(
        self,
        grad: Tensor | None,
        grad_mean: Tensor | None,
        grad_variance: Tensor | None,
        *kept: Tensor,
        needs: Needs,
        eps: float,
    ) -> Grads:
        x, weight, mean, variance = kept
        made: Grads = (None, None, None)
        if grad is not None:
            made = batch_norm_grad(grad, x, weight, mean, variance, eps=eps)
        dx = made[0]
        for more in _through_moments(grad_mean, grad_variance, x, mean) if needs[0] else ():
            dx = more if dx is None else dx + more
        return tuple(g if n else None for g, n in zip((dx, *made[1:]), needs, strict=True))


def _through_moments(
    grad_mean: Tensor | None, grad_variance: Tensor | None, x: Tensor, mean: Tensor
) -> Iterator[Tensor]:
    """Gradients of x from those of its mean and its variance."""
    count = float(max(x.size // max(x.shape[1], 1), 1))
    if grad_mean is not None:
        yield (_column(grad_mean, x) / count).broadcast_to(x.shape).astype(x.dtype)
    if grad_variance is not None:
        slope = _column(grad_variance, x) * (2.0 / count)
        yield ((wide(x) - _column(mean, x)) * slope).astype(x.dtype)


class BatchNormGrad(Operation):
    """Gradients of batch_norm's y, for x, weight and bias.

    Shapes: grad (n, c, *size), x (n, c, *size), weight (c), mean (c), variance (c) ->
        dx (n, c, *size), dweight (c), dbias (c). Dtype: those of batch_norm.
    Args: eps: that of batch_norm.
    Raises: ShapeError unless grad is like x, and the others have one number for each channel.
    Source: arXiv:1502.03167, section 3.
    """

    name = "batch_norm_grad"
    samples = (
        sample((6, 3), (6, 3), (3,), In((3,), low=-0.5, high=0.5), In((3,), low=0.5)),
        sample((3, 2, 4), (3, 2, 4), (2,), (2,), In((2,), low=0.5), eps=1e-3),
        sample((2, 3, 4, 3), (2, 3, 4, 3), (3,), (3,), In((3,), low=0.5)),
        sample((0, 2, 3), (0, 2, 3), (2,), (2,), In((2,), low=0.5)),
    )

    def settle(self, *specs: Spec, eps: float) -> dict[str, Any]:
        return {"eps": float(eps)}

    def infer(
        self, grad: Spec, x: Spec, weight: Spec, mean: Spec, variance: Spec, *, eps: float = 1e-5
    ) -> tuple[Spec, Spec, Spec]:
        named: dict[str, Any] = {"grad": grad, "x": x, "weight": weight}
        if grad is not x:
            raise ShapeError(self.name, f"grad like x ({x})", grad, **named)
        check_channels(self.name, x, eps, weight=weight)
        moments = {"mean": mean, "variance": variance}
        for name, spec in moments.items():
            if spec.shape != weight.shape:
                rule = f"{name}.shape == weight.shape"
                raise ShapeError(self.name, rule, f"{spec.shape} != {weight.shape}", **named)
        return x, weight, weight

    def forward(
        self,
        grad: Tensor,
        x: Tensor,
        weight: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        eps: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        axes, g, scale = _others(x), wide(grad), _scale(_column(variance, x), eps)
        normal = (wide(x) - _column(mean, x)) * scale
        dbias, dweight = mean_of(g, axes), mean_of(g * normal, axes)
        dx = (g - dbias - normal * dweight) * (scale * _column(weight, x))
        count = float(x.size // max(x.shape[1], 1))
        dweight, dbias = (
            (v * count).reshape(weight.shape).astype(x.dtype) for v in (dweight, dbias)
        )
        return dx.astype(x.dtype), dweight, dbias


class BatchNormInference(Operation):
    """Each channel with a given mean and variance, y = weight * (x - mean) / s + bias.

    s = sqrt(variance + eps).

    Shapes: x (n, c, *size), weight (c), bias (c), mean (c), variance (c) -> y (n, c, *size).
    Dtype: floats, all of one; the moments of 16-bit floats may be float32.
    Args: eps: keeps s away from 0, >= 0.
    Raises: ShapeError unless x has channels, and the others one number for each; DTypeError;
        ArgumentError for a negative eps.
    Source: arXiv:1502.03167, algorithm 2.

    >>> from singa_core import tensor
    >>> one = tensor([1.0])
    >>> batch_norm_inference(tensor([[5.0]]), one, one, one, tensor([4.0]), eps=0.0).tolist()
    [[3.0]]
    """

    name = "batch_norm_inference"
    samples = (
        sample((4, 3), (3,), (3,), (3,), In((3,), low=0.5)),
        sample((2, 2, 3), (2,), (2,), (2,), In((2,), low=0.5), eps=1e-3),
        sample((2, 3, 2, 2), (3,), (3,), (3,), In((3,), low=0.5)),
        sample((0, 2, 3), (2,), (2,), (2,), In((2,), low=0.5)),
    )

    def settle(self, *specs: Spec, eps: float) -> dict[str, Any]:
        return {"eps": float(eps)}

    def infer(
        self, x: Spec, weight: Spec, bias: Spec, mean: Spec, variance: Spec, *, eps: float = 1e-5
    ) -> Spec:
        check_channels(self.name, x, eps, weight=weight, bias=bias)
        if mean.dtype is x.dtype or x.dtype.bits > 16:
            check_channels(self.name, x, eps, mean=mean, variance=variance)
        else:
            wider = x.with_dtype("float32")
            check_channels(self.name, wider, eps, mean=mean, variance=variance)
        return x

    def forward(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        eps: float,
    ) -> Tensor:
        scale = _scale(wide(variance), eps) * wide(weight)
        y = (wide(x) - _column(mean, x)) * _column(scale, x) + _column(bias, x)
        return y.astype(x.dtype)


batch_norm, batch_norm_grad = BatchNorm(), BatchNormGrad()
batch_norm_inference = BatchNormInference()
