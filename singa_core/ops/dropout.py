"""Dropout: elements switched off at random while training."""

from __future__ import annotations

import math
from typing import Any

from singa_core.checks import check_number
from singa_core.operation import Needs
from singa_core.ops.base import Grads, check_kind, takes_tensors
from singa_core.ops.creation import full
from singa_core.ops.elementwise_pairs import less_equal, where
from singa_core.ops.random import Draw, random_bits
from singa_core.ops.random_drawn import draw
from singa_core.sample import In, sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor

__all__ = ["dropout", "random_dropout"]

_STATE = In((4,), "uint32", values=[0x243F6A88, 0x85A308D3, 0xFFFFFFFF, 0x13198A2E])


class RandomDropout(Draw):
    """Each element 0 with probability p, else divided by 1 - p; and which ones were kept.

    Element i is dropped where word i of the draw is below floor(p * 2**32); for p = 1 all are.

    The mask is an output and kept for backward, a byte per element. Computing it again from the
    state would save the byte, but with shared kernels on a CPU that costs 13 times what the
    rest of backward does; a device's own kernel for the whole op writes the mask at little cost.

    Shapes: x any, state (4) -> y as x, mask as x.
    Dtype: floats, kept; uint32 -> bool for the mask.

    Args:
        p: probability, 0 <= p <= 1.
    Raises: ArgumentError for another p.
    Source: arXiv:1207.0580; the division as in arXiv:1512.05287, "inverted dropout".
    """

    name = "random_dropout"
    keeps = ("y1",)
    samples = (
        sample((3, 5), _STATE, p=0.5),
        sample((9,), _STATE, p=0.1),
        sample((2, 3), _STATE, p=1.0),
        sample((2, 3), _STATE, p=0.0),
        sample((), _STATE, p=0.9),
        sample((0, 3), _STATE, p=0.5),
    )

    def settle(self, x: Spec, state: Spec, *, p: float) -> dict[str, Any]:
        return {"p": check_number(self.name, "p", p, 0.0, 1.0)}

    def infer(self, x: Spec, state: Spec, *, p: float) -> tuple[Spec, Spec]:
        self.check_state(state)
        check_kind(self.name, "float", x=x)
        return x, x.with_dtype("bool")

    def forward(self, x: Tensor, state: Tensor, *, p: float) -> tuple[Tensor, Tensor]:
        if p == 1.0:
            mask = full(x.shape, False, dtype="bool", device=x.device)
        else:
            mask = less_equal(math.floor(p * 2.0**32), random_bits(state, shape=x.shape))
        return kept(x, mask, p), mask

    def backward(
        self, grad: Tensor, grad_mask: None, mask: Tensor, *, needs: Needs, p: float
    ) -> Grads:
        return kept(grad, mask, p), None


def kept(x: Tensor, mask: Tensor, p: float) -> Tensor:
    """Where the mask holds x / (1 - p), else 0."""
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    y: Tensor = where(mask, x * scale, 0.0)
    return y


@takes_tensors
def dropout(x: Tensor, *, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element 0 with probability p, else divided by 1 - p; x if not training or p is 0.

    Draws from the "train" stream; the gradient is dropped where x was.

    Shapes: any -> same. Dtype: floats, kept.
    Raises: ArgumentError unless 0 <= p <= 1.
    Source: arXiv:1207.0580.

    >>> from singa_core import tensor
    >>> dropout(tensor([1.0, 2.0]), p=1.0).tolist()
    [0.0, 0.0]
    """
    check_number("dropout", "p", p, 0.0, 1.0)
    if not training or p == 0.0:
        return x
    y: Tensor = draw(random_dropout, x.device, x, stream="train", p=p)[0]
    return y


random_dropout = RandomDropout()
