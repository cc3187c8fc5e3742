"""Activation functions made of straight lines.

At a kink each has PyTorch's gradient, which its text gives. NaN stays NaN.
"""

from __future__ import annotations

from typing import Any

from singa_core.operation import Needs
from singa_core.ops.base import (
    FloatUnary,
    Grads,
    grads_once_rounded,
    once_rounded,
    takes_tensors,
    unary_samples,
)
from singa_core.ops.elementwise_bounds import clip
from singa_core.ops.elementwise_pairs import (
    bit_and,
    bit_or,
    less,
    less_equal,
    maximum,
    minimum,
    where,
)
from singa_core.optable import function
from singa_core.sample import In, sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor

__all__ = [
    "hard_shrink", "hard_sigmoid", "hard_swish", "hard_tanh", "relu6", "soft_shrink", "threshold",
]  # fmt: skip


class HardTanh(FloatUnary):
    """Straight lines for tanh, y = min(max(x, low), high); its gradient at both bounds is 0.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: R. Collobert, Large Scale Machine Learning, thesis, Paris VI (2004).
    """

    name = "hard_tanh"
    keeps = ("x",)
    samples = (
        *unary_samples(-0.9, 0.9),
        sample(In((3,), low=1.5, high=5.0)),
        sample(In((3,), low=0.5, high=5.0), low=0.0, high=6.0),
    )

    def infer(self, x: Spec, *, low: float = -1.0, high: float = 1.0) -> Spec:
        return super().infer(x)

    def forward(self, x: Tensor, *, low: float, high: float) -> Any:
        return minimum(maximum(x, low), high)

    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs, low: float, high: float) -> Grads:
        return (where(bit_or(less_equal(x, low), less_equal(high, x)), 0.0, grad),)


class HardSigmoid(FloatUnary):
    """Straight lines for `sigmoid`, y = min(max(x + 3, 0), 6) / 6; its gradient at both ends is 0.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: arXiv:1905.02244, section 5.2; ONNX's default slope is 0.2, see its importer.
    """

    name = "hard_sigmoid"
    keeps = ("x",)
    samples = (*unary_samples(-2.5, 2.5), sample(In((3,), low=3.5, high=5.0)))

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0

    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (where(bit_and(less(-3.0, x), less(x, 3.0)), grad / 6.0, 0.0),)


class HardSwish(FloatUnary):
    """Straight lines for `silu`, y = x * hard_sigmoid(x).

    Its gradient at -3 is 0, at 3 it is 1.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: arXiv:1905.02244, section 5.2.
    """

    name = "hard_swish"
    keeps = ("x",)
    samples = HardSigmoid.samples

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return x * hard_sigmoid(x)

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        flat = less_equal(x, -3.0)
        bent = where(less(x, 3.0), x / 3.0 + 0.5, 1.0)
        return (where(flat, 0.0, grad * where(flat, 0.0, bent)),)


@function
@takes_tensors
def relu6(x: Tensor) -> Tensor:
    """Rectifier with a ceiling, y = min(max(x, 0), 6); its gradient at 0 and 6 is 0."""
    y: Tensor = hard_tanh(x, low=0.0, high=6.0)
    return y


@function
@takes_tensors
def hard_shrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """Keep x where |x| > threshold, and NaN; y = 0 elsewhere. Its gradient there is 0."""
    y: Tensor = where(less_equal(x.abs(), threshold), 0.0, x)
    return y


@function
@takes_tensors
def soft_shrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """Move x towards 0 by the threshold; y = 0 where it would cross, and so is the gradient."""
    return x - clip(x, -threshold, threshold)


@function
@takes_tensors
def threshold(x: Tensor, limit: float, value: float) -> Tensor:
    """Keep x above the limit, and NaN; y = value elsewhere. Its gradient there is 0."""
    y: Tensor = where(less_equal(x, limit), value, x)
    return y


hard_sigmoid, hard_swish, hard_tanh = HardSigmoid(), HardSwish(), HardTanh()
