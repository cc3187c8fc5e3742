"""Bounds: a value on its bound has the gradient of one within, as in PyTorch's `clamp`."""

from __future__ import annotations

from typing import Any

from singa_core.operation import Needs
from singa_core.ops.base import Grads, Pair, takes_tensors
from singa_core.ops.elementwise_pairs import less, less_equal, maximum, minimum, where
from singa_core.ops.shape import unbroadcast
from singa_core.optable import function
from singa_core.tensor import Tensor

__all__ = ["at_least", "at_most", "clip"]


class Bound(Pair):
    """One of the two, to bound the first; at a tie that one gets all of the gradient."""

    accepts = "any"
    keeps = ("a", "b")
    samples = maximum.samples

    def backward(self, grad: Tensor, a: Tensor, b: Tensor, *, needs: Needs) -> Grads:
        low, high = (b, a) if self is at_least else (a, b)
        return (
            unbroadcast(where(less_equal(low, high), grad, 0.0), a.shape) if needs[0] else None,
            unbroadcast(where(less(high, low), grad, 0.0), b.shape) if needs[1] else None,
        )


class AtLeast(Bound):
    """a, but b where a is lower; NaN if either is. At a tie a gets all of the gradient.

    Shapes: a, b broadcast -> y. Dtype: any; operands are promoted.
    Source: array API standard 2023.12, `clip` with its lower bound alone.
    """

    name = "at_least"

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        y: Tensor = maximum(a, b)
        return y


class AtMost(Bound):
    """a, but b where a is higher; NaN if either is. At a tie a gets all of the gradient.

    Shapes: a, b broadcast -> y. Dtype: any; operands are promoted.
    Source: array API standard 2023.12, `clip` with its upper bound alone.
    """

    name = "at_most"

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        y: Tensor = minimum(a, b)
        return y


@function
@takes_tensors
def clip(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """Bound x, y = min(max(x, low), high); None: no bound. Source: array API standard, `clip`.

    NaN if x or a bound is. x gets the gradient where it is on a bound, as within; y is `high` where
    low > high.

    >>> from singa_core import tensor
    >>> clip(tensor([-1, 3, 9]), 0, 5).tolist()
    [0, 3, 5]
    """
    y = x if low is None else at_least(x, low)
    clipped: Tensor = y if high is None else at_most(y, high)
    return clipped


at_least, at_most = AtLeast(), AtMost()
