"""How wrong the probability of "yes" is: the operations with gradients of their own.

Each gives one number for each element; the functions of `loss_composed` average them.
"""

from __future__ import annotations

from typing import ClassVar

from singa_core.errors import ShapeError
from singa_core.operation import Needs, Operation
from singa_core.ops.activation import sigmoid
from singa_core.ops.base import Grads, check_kind, wide
from singa_core.ops.elementwise_pairs import maximum
from singa_core.sample import In, Sample, sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor

__all__ = ["log_loss", "logistic_loss"]


class Elementwise(Operation):
    """One loss for each element of two tensors of one shape."""

    keeps = ("x", "target")
    promotes = True
    weak_float = True
    samples: ClassVar[tuple[Sample, ...]] = (
        sample((4, 3), In((4, 3), low=0.1, high=0.9)),
        sample((3,), In((3,), low=0.1, high=0.9)),
        sample((), In((), low=0.1, high=0.9)),
        sample((0, 3), In((0, 3), low=0.1, high=0.9)),
    )

    def infer(self, x: Spec, target: Spec) -> Spec:
        check_kind(self.name, "float", x=x, target=target)
        if x.shape != target.shape:
            rule = "x.shape == target.shape"
            raise ShapeError(self.name, rule, f"{x.shape} and {target.shape}", x=x, target=target)
        return x


class LogLoss(Elementwise):
    """Cross-entropy of probabilities of "yes", y = -(target * log(x) + (1 - target) * log(1 - x)).

    The logarithms are kept at -100 or above, and the divisor of the gradient at 1e-12 or above.

    Shapes: x and target of one shape -> same. Dtype: floats; operands are promoted.
    Raises: ShapeError if the shapes differ. Outside 0 <= x <= 1 y is NaN.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 4.90, one term.
    """

    name = "log_loss"
    samples = (
        sample(In((4, 3), low=0.1, high=0.9), In((4, 3), low=0.1, high=0.9)),
        sample(In((), low=0.1, high=0.9), In((), low=0.1, high=0.9)),
        sample(In((0,), low=0.1, high=0.9), In((0,), low=0.1, high=0.9)),
    )

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        yes, no = _logs(x)
        return (target * (no - yes) - no).astype(x.dtype)

    def backward(self, grad: Tensor, x: Tensor, target: Tensor, *, needs: Needs) -> Grads:
        dx = dtarget = None
        if needs[0]:
            w = wide(x)
            slope = (w - target) / maximum(w * (1.0 - w), 1e-12)
            dx = (grad * slope).astype(x.dtype)
        if needs[1]:
            yes, no = _logs(x)
            dtarget = (grad * (no - yes)).astype(x.dtype)
        return dx, dtarget


def _logs(x: Tensor) -> tuple[Tensor, Tensor]:
    """log(x) and log(1 - x), both at least -100."""
    w = wide(x)
    return maximum(w.log(), -100.0), maximum((-w).log1p(), -100.0)


class LogisticLoss(Elementwise):
    """Cross-entropy of sigmoid(x), y = max(x, 0) - x * target + log(1 + exp(-|x|)).

    The same as log_loss of sigmoid(x), without its loss of digits and for any x. The target is the
    probability of "yes".

    Shapes: x and target of one shape -> same. Dtype: floats; operands are promoted.
    Raises: ShapeError if the shapes differ.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 4.90 and 4.91.

    >>> from singa_core import tensor
    >>> logistic_loss(tensor([200.0, -200.0]), tensor([1.0, 1.0])).tolist()
    [0.0, 200.0]
    """

    name = "logistic_loss"

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        w = wide(x)
        y: Tensor = maximum(w, 0.0) - w * target + (-w.abs()).exp().log1p()
        return y.astype(x.dtype)

    def backward(self, grad: Tensor, x: Tensor, target: Tensor, *, needs: Needs) -> Grads:
        return (
            grad * (sigmoid(x) - target) if needs[0] else None,
            -(grad * x) if needs[1] else None,
        )


log_loss, logistic_loss = LogLoss(), LogisticLoss()
