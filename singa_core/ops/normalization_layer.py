"""Each sample to mean 0 and variance 1: layer, group and root-mean-square normalisation."""

from __future__ import annotations

from typing import Any

from singa_core.checks import check_integer, check_number
from singa_core.errors import DTypeError, ShapeError
from singa_core.operation import Needs, Operation
from singa_core.ops.base import Grads, as_operand, check_kind, wide
from singa_core.ops.creation import full
from singa_core.sample import sample
from singa_core.spec import Shape, Spec
from singa_core.tensor import Tensor

__all__ = ["group_norm", "layer_norm", "layer_norm_grad", "rms_norm"]


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
        axes = check_integer(self.name, "axes", axes)
        x, weight, bias = self._tensors(x, weight, bias)
        given = weight if weight is not None else bias
        count = axes if given is None else given.ndim
        if not 0 < count <= x.ndim:
            raise ShapeError(self.name, "0 < axes <= x.ndim", f"{count} and {x.ndim}", x=x)
        shape = x.shape[x.ndim - count :]
        if weight is None:
            weight = full(shape, 1, dtype=x.dtype, device=x.device)
        if bias is None:
            bias = full(shape, 0, dtype=x.dtype, device=x.device)
        return super().__call__(x, weight, bias, eps=eps)

    def _tensors(self, x: Any, weight: Any, bias: Any) -> list[Any]:
        """The operands as tensors; weight and bias may be None."""
        operands = {"x": x, "weight": weight, "bias": bias}
        given = [t for t in operands.values() if isinstance(t, Tensor)]
        return [
            None if value is None and name != "x" else as_operand(self.name, name, value, given)
            for name, value in operands.items()
        ]

    def infer(self, x: Spec, weight: Spec, bias: Spec, *, eps: float = 1e-5) -> Spec:
        check_affine(self.name, x, weight, eps, bias)
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
        made = layer_norm_grad(grad, x, weight, eps=eps)
        return tuple(g if need else None for g, need in zip(made, needs, strict=True))


class LayerNormGrad(Operation):
    """Gradients of layer_norm, for x, weight and bias.

    Shapes: grad (..., *d), x (..., *d), weight (*d) -> dx (..., *d), dweight (*d), dbias (*d).
    Dtype: floats, all of one. Args: eps: that of layer_norm.
    Raises: ShapeError unless grad is like x and weight has the shape of its last axes; DTypeError.
    Source: derivative of `layer_norm`.
    """

    name = "layer_norm_grad"
    samples = (
        sample((3, 4), (3, 4), (4,)),
        sample((2, 3, 4), (2, 3, 4), (3, 4), eps=1e-3),
        sample((5,), (5,), (5,)),
        sample((0, 3), (0, 3), (3,)),
    )

    def infer(
        self, grad: Spec, x: Spec, weight: Spec, *, eps: float = 1e-5
    ) -> tuple[Spec, Spec, Spec]:
        if grad is not x:
            raise ShapeError(self.name, f"grad like x ({x})", grad, grad=grad, x=x)
        check_affine(self.name, x, weight, eps)
        return x, weight, weight

    def forward(
        self, grad: Tensor, x: Tensor, weight: Tensor, *, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        axes = _last(x.ndim, weight.ndim)
        rest = tuple(range(x.ndim - weight.ndim))
        g = wide(grad)
        normal, scale = _normalized(wide(x), axes, eps)
        h = g * weight
        mean, slope = mean_of(h, axes), mean_of(h * normal, axes)
        dx = (h - mean - normal * slope) * scale
        dweight, dbias = (g * normal).sum(axis=rest), g.sum(axis=rest)
        return dx.astype(x.dtype), dweight.astype(x.dtype), dbias.astype(x.dtype)


def check_affine(where: str, x: Spec, weight: Spec, eps: float, bias: Spec | None = None) -> None:
    """Raises: ShapeError unless weight and bias fit x's last axes; DTypeError; ArgumentError."""
    named: dict[str, Any] = {"x": x, "weight": weight}
    if bias is not None:
        named["bias"] = bias
    check_kind(where, "float", **named)
    others = [weight] if bias is None else [weight, bias]
    if any(other.dtype is not x.dtype for other in others):
        raise DTypeError(where, "one dtype", " and ".join(str(o.dtype) for o in others), **named)
    last = x.shape[x.ndim - weight.ndim :] if 0 < weight.ndim <= x.ndim else None
    if any(other.shape != last for other in others):
        names = " == ".join(f"{name}.shape" for name in list(named)[1:])
        got = " and ".join(str(o.shape) for o in others)
        raise ShapeError(where, f"{names} == the last axes of x", got, **named)
    check_number(where, "eps", eps, 0.0)


def _last(ndim: int, count: int) -> Shape:
    """The last `count` of `ndim` axes."""
    return tuple(range(ndim - count, ndim))


def mean_of(x: Tensor, axes: Shape) -> Tensor:
    """Mean over axes, which stay as 1; of nothing, 0."""
    count = Spec([x.shape[a] for a in axes], x.dtype).itemcount
    return x.sum(axis=axes, keepdims=True) / float(max(count, 1))


def _normalized(x: Tensor, axes: Shape, eps: float) -> tuple[Tensor, Tensor]:
    """(x - mean) / s, and 1 / s."""
    centered = x - mean_of(x, axes)
    scale = 1.0 / (mean_of(centered * centered, axes) + eps).sqrt()
    return centered * scale, scale


class RMSNorm(Operation):
    """Each sample to a mean square of 1, then scaled: y = weight * x / sqrt(mean of x*x + eps).

    The mean is taken over the axes that `weight` has, the last ones.

    Shapes: x (..., *d), weight (*d) -> y (..., *d). Dtype: floats, both of one.
    Args: eps: keeps the root away from 0, >= 0.
    Raises: ShapeError unless weight has the shape of the last axes of x; DTypeError; ArgumentError.
    Source: arXiv:1910.07467, eq. 4; ONNX operator set 23, `RMSNormalization`.

    >>> from singa_core import tensor
    >>> rms_norm(tensor([[3.0, -3.0]]), tensor([1.0, 2.0]), eps=0.0).tolist()
    [[1.0, -2.0]]
    """

    name = "rms_norm"
    keeps = ("x", "weight")
    samples = (
        sample((3, 4), (4,)),
        sample((2, 3, 4), (3, 4), eps=1e-3),
        sample((5,), (5,)),
        sample((0, 3), (3,)),
    )

    def settle(self, x: Spec, weight: Spec, *, eps: float) -> dict[str, Any]:
        return {"eps": float(eps)}

    def infer(self, x: Spec, weight: Spec, *, eps: float = 1e-6) -> Spec:
        check_affine(self.name, x, weight, eps)
        return x

    def forward(self, x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
        w = wide(x)
        return (w * _inverse_root(w, _last(x.ndim, weight.ndim), eps) * weight).astype(x.dtype)

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor, *, needs: Needs, eps: float
    ) -> Grads:
        axes = _last(x.ndim, weight.ndim)
        g, w = wide(grad), wide(x)
        scale = _inverse_root(w, axes, eps)
        normal = w * scale
        dx = dweight = None
        if needs[0]:
            h = g * weight
            dx = ((h - normal * mean_of(h * normal, axes)) * scale).astype(x.dtype)
        if needs[1]:
            dweight = (g * normal).sum(axis=tuple(range(x.ndim - weight.ndim))).astype(x.dtype)
        return dx, dweight


def _inverse_root(x: Tensor, axes: Shape, eps: float) -> Tensor:
    """1 / sqrt(mean of x*x + eps)."""
    return 1.0 / (mean_of(x * x, axes) + eps).sqrt()


class GroupNorm(Operation):
    """Each group of channels of each sample to mean 0 and variance 1, then scaled and moved.

    y = weight * (x - m) / sqrt(variance + eps) + bias, with a weight and a bias for each channel.
    One group is layer normalisation of whole samples, one for each channel instance normalisation.

    Shapes: x (n, c, *size), weight (c), bias (c) -> y (n, c, *size). Dtype: floats, all of one.

    Args:
        groups: into how many groups the channels are divided, >= 1.
        eps: keeps the root away from 0, >= 0.

    Raises: ShapeError unless x has channels, which groups divide, and weight and bias have one
        number for each; DTypeError; ArgumentError.
    Source: arXiv:1803.08494, eq. 1, 2, 6 and 7; ONNX operator set 21, `GroupNormalization`.

    >>> from singa_core import tensor
    >>> x = tensor([[1.0, 3.0, 5.0, 5.0]])
    >>> group_norm(x, tensor([1.0, 2.0, 1.0, 1.0]), tensor([0.0, 0.0, 0.0, 7.0]), groups=2,
    ...            eps=1e-12).tolist()
    [[-1.0, 2.0, 0.0, 7.0]]
    """

    name = "group_norm"
    samples = (
        sample((2, 10), (10,), (10,), groups=2),
        sample((2, 4, 3), (4,), (4,), groups=2, eps=1e-3),
        sample((2, 3, 2, 4), (3,), (3,), groups=3),
        sample((1, 4, 2, 2), (4,), (4,), groups=1),
        sample((0, 4, 2), (4,), (4,), groups=2),
    )

    def settle(self, x: Spec, *affine: Spec, groups: int, eps: float) -> dict[str, Any]:
        return {"groups": int(groups), "eps": float(eps)}

    def infer(self, x: Spec, weight: Spec, bias: Spec, *, groups: int, eps: float = 1e-5) -> Spec:
        check_channels(self.name, x, eps, weight=weight, bias=bias)
        if groups < 1 or x.shape[1] % groups:
            rule = "groups >= 1 that divide x.shape[1]"
            raise ShapeError(self.name, rule, f"{groups} and {x.shape[1]}", x=x)
        return x

    def forward(
        self, x: Tensor, weight: Tensor, bias: Tensor, *, groups: int, eps: float
    ) -> Tensor:
        n, c, *size = x.shape
        rest = Spec((c // groups, *size), x.dtype).itemcount
        normal = layer_norm(wide(x).reshape(n, groups, rest), eps=eps).reshape(x.shape)
        shape = (c, *(1 for _ in size))
        y: Tensor = (normal * weight.reshape(shape) + bias.reshape(shape)).astype(x.dtype)
        return y


def check_channels(where: str, x: Spec, eps: float, **others: Spec) -> None:
    """Raises: ShapeError unless x is (n, c, ...) and all others (c); DTypeError; ArgumentError."""
    named: dict[str, Any] = {"x": x, **others}
    check_kind(where, "float", **named)
    if x.ndim < 2:
        raise ShapeError(where, "x (n, c, *size)", x.shape, **named)
    dtypes = dict.fromkeys(spec.dtype for spec in named.values())
    if len(dtypes) > 1:
        raise DTypeError(where, "one dtype", " and ".join(map(str, dtypes)), **named)
    for name, spec in others.items():
        if spec.shape != x.shape[1:2]:
            rule = f"{name}.shape == x.shape[1:2]"
            raise ShapeError(where, rule, f"{spec.shape} != {x.shape[1:2]}", **named)
    check_number(where, "eps", eps, 0.0)


layer_norm, layer_norm_grad = LayerNorm(), LayerNormGrad()
rms_norm, group_norm = RMSNorm(), GroupNorm()
