"""The affine map."""

from __future__ import annotations

from typing import Any

from singa_core.errors import ShapeError
from singa_core.operation import Needs, Operation, apply
from singa_core.ops.base import Grads, check_kind
from singa_core.ops.linalg import matmul
from singa_core.ops.reduction import sum
from singa_core.sample import sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor

__all__ = ["linear"]


class Linear(Operation):
    """Affine map, y[..., j] = sum over i of x[..., i] * weight[i, j] + bias[j]; `bias` may be None.

    All leading axes of x become the rows of one matrix product.

    Shapes: x (..., in_features), weight (in_features, out_features), bias (out_features)
        -> y (..., out_features). Dtype: numbers; operands are promoted.
    Raises: ShapeError if the sizes do not fit.
    Source: ONNX operator set 13, `Gemm`.

    >>> from singa_core import tensor
    >>> linear(tensor([[1, 2]]), tensor([[3, 4], [5, 6]]), tensor([100, 200])).tolist()
    [[113, 216]]
    """

    name = "linear"
    heavy = True
    keeps = ("x", "weight")
    promotes = True
    samples = (
        sample((3, 4), (4, 5), (5,)),
        sample((3, 4), (4, 5)),
        sample((2, 3, 4), (4, 2), (2,)),
        sample((4,), (4, 2), (2,)),
        sample((0, 4), (4, 2), (2,)),
        sample((3, 0), (0, 2), (2,)),
    )

    def __call__(self, x: Any, weight: Any, bias: Any = None) -> Any:
        return apply(self, (x, weight) if bias is None else (x, weight, bias), ())

    def infer(self, x: Spec, weight: Spec, *bias: Spec) -> Spec:
        named: dict[str, Any] = {"x": x, "weight": weight}
        if bias:
            named["bias"] = bias[0]
        check_kind(self.name, "number", **named)
        if weight.ndim != 2:
            rule = "weight (in_features, out_features)"
            raise ShapeError(self.name, rule, weight.shape, **named)
        if not x.ndim:
            raise ShapeError(self.name, "x.ndim >= 1", 0, **named)
        if x.shape[-1] != weight.shape[0]:
            rule = "x.shape[-1] == weight.shape[0] (in_features)"
            hint = "weight.T" if x.shape[-1] == weight.shape[1] else None
            got = f"{x.shape[-1]} != {weight.shape[0]}"
            raise ShapeError(self.name, rule, got, hint=hint, **named)
        if bias and bias[0].shape != weight.shape[1:]:
            rule = "bias.shape == (weight.shape[1],) (out_features)"
            raise ShapeError(self.name, rule, f"{bias[0].shape} != {weight.shape[1:]}", **named)
        return x.with_shape((*x.shape[:-1], weight.shape[1]))

    def forward(self, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        y = _rows(x) @ weight
        if bias:
            y = y + bias[0]
        return y if x.ndim == 2 else y.reshape(*x.shape[:-1], weight.shape[1])

    def backward(self, grad: Tensor, x: Tensor, weight: Tensor, *, needs: Needs) -> Grads:
        g = _rows(grad)  # (rows, out)
        dx = dweight = None
        if needs[0]:
            dx = matmul(g, weight.mT)  # (rows, out)(out, in)
            dx = dx if x.ndim == 2 else dx.reshape(x.shape)
        if needs[1]:
            dweight = matmul(_rows(x).mT, g)  # (in, rows)(rows, out)
        if len(needs) == 2:
            return dx, dweight
        return dx, dweight, _total_of_rows(g) if needs[2] else None


def _rows(x: Tensor) -> Tensor:
    """The leading axes as rows: x (..., d) -> (rows, d)."""
    if x.ndim == 2:
        return x
    last = x.shape[-1]
    rows = Spec(x.shape[:-1], x.dtype).itemcount
    return x.reshape(rows, last)


_total_of_rows = sum.bound(axis=0)
linear = Linear()
