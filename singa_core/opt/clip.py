"""Gradients kept within bounds: functions over (parameter, gradient) pairs, eager and recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from singa_core import ops
from singa_core.checks import check_number
from singa_core.dtype import float32, promote
from singa_core.errors import ArgumentError, DeviceError
from singa_core.mode import no_grad
from singa_core.tensor import Tensor

Pairs = Iterable[tuple[Tensor, Tensor]]


def clip_by_norm(pairs: Pairs, max_norm: float) -> list[tuple[Tensor, Tensor]]:
    """All gradients times one factor, so that their norm as one long vector is <= max_norm.

    g <- g * min(1, max_norm / (norm + 1e-6)), norm = sqrt(sum of all g * g)

    It needs every gradient at once: updates cannot begin while backward still runs. One NaN makes
    all gradients NaN; an infinite number becomes NaN, and the rest 0.

    Dtype: the norm is taken in float32, or in float64 if a gradient is; gradients keep theirs.

    Args:
        pairs: (parameter, gradient); a parameter is only passed on.
        max_norm: > 0.

    Raises: ArgumentError for another max_norm; DeviceError for gradients on several devices.

    Source: Pascanu et al., "On the difficulty of training recurrent neural networks",
        arXiv:1211.5063, algorithm 1; the 1e-6 is PyTorch's.

    >>> from singa_core import tensor
    >>> w = tensor([0.0, 0.0])
    >>> [g.tolist() for _, g in clip_by_norm([(w, tensor([30.0, 40.0]))], max_norm=5.0)]
    [[3.0, 4.0]]
    """
    limit = check_number("clip_by_norm", "max_norm", max_norm, 0.0, ends="(]")
    held = list(pairs)
    if not held:
        return held
    with no_grad():
        factor = ops.minimum(limit / (global_norm(g for _, g in held) + 1e-6), 1.0)
        return [(p, g * factor.astype(g.dtype)) for p, g in held]


def global_norm(grads: Iterable[Tensor]) -> Tensor:
    """The norm of all gradients as one long vector: a 0-d tensor.

    Dtype: float32, or float64 if a gradient is.

    Raises: ArgumentError without gradients; DeviceError for gradients on several devices.
    """
    total: Tensor | None = None
    for g in grads:
        square = g.astype(promote(g.dtype, float32)).square().sum()
        if total is not None and total.device is not square.device:
            raise DeviceError("clip_by_norm", "gradients on one device", square.device, first=total)
        total = square if total is None else total + square
    if total is None:
        raise ArgumentError("global_norm", "a gradient", "none")
    return total.sqrt()


def clip_by_value(
    pairs: Pairs, limit: float, low: float | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Every number of every gradient brought into [-limit, limit], or [low, limit].

    One gradient at a time, so that it fits between backward and an update that begins meanwhile.
    What is not a number stays so.

    Args:
        pairs: (parameter, gradient).
        limit: the highest number; >= 0 if `low` is left out.
        low: the lowest one, <= limit; -limit if left out.

    Raises: ArgumentError for bounds that are none.
    """
    where = "clip_by_value"
    high = check_number(where, "limit", limit, 0.0 if low is None else -math.inf)
    lowest = -high if low is None else check_number(where, "low", low, -math.inf)
    if lowest > high:
        raise ArgumentError(where, "low <= limit", f"low {low}, limit {limit}")
    return _clipped(pairs, lowest, high)


def _clipped(pairs: Pairs, low: float, high: float) -> Iterator[tuple[Tensor, Tensor]]:
    for param, grad in pairs:
        with no_grad():
            clipped = grad.clip(low, high)
        yield param, clipped
        del param, grad, clipped  # a gradient must not outlive its use while backward goes on
