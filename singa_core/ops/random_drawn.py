"""Random tensors: each call draws the next numbers of the user's stream.

`manual_seed` starts the stream again. Recorded, each replay draws anew. What an element is from its
words is told by the operations in `random`.

What all of these share:

    device: where the result lies; the default device if None, and in a recording its own.
"""

from __future__ import annotations

from typing import Any

from singa_core.checks import check_number
from singa_core.dtype import DTypeLike
from singa_core.errors import ArgumentError
from singa_core.mode import MODE
from singa_core.ops.base import takes_tensors
from singa_core.ops.creation import DeviceLike, ShapeLike
from singa_core.ops.random import (
    Draw,
    random_bernoulli,
    random_integers,
    random_normal,
    random_permutation,
    random_uniform,
)
from singa_core.random import STATE, STREAMS
from singa_core.tensor import Tensor, as_device

__all__ = [
    "bernoulli", "normal", "permutation", "rand", "rand_like", "randint", "randn", "randn_like",
    "uniform",
]  # fmt: skip


def draw(
    op: Draw,
    device: DeviceLike,
    *inputs: Tensor,
    stream: str = "user",
    **attrs: Any,
) -> Any:
    """`op(*inputs, state, **attrs)` on the next state of a stream, which an error does not move."""
    specs = (*(x.spec for x in inputs), STATE)
    settled = op.settle(*specs, **dict(zip(op.attributes, op.pack(attrs), strict=True)))
    made = op.infer(*specs, **settled)
    y = made[0] if isinstance(made, tuple) else made
    recorder = MODE.get().recorder
    place = recorder.device if recorder is not None else as_device(device)
    with STREAMS[stream].unless_failed():
        state = STREAMS[stream].draw(op.words(y), place)
        return op(*inputs, state, **attrs)


@takes_tensors
def uniform(
    shape: ShapeLike,
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: DTypeLike = "float32",
    device: DeviceLike = None,
) -> Tensor:
    """Uniform numbers, low + (high - low) * u with u in [0, 1); rounding may give `high` itself.

    Shapes: -> `shape`. Dtype: a float.
    Raises: ArgumentError unless low <= high.

    >>> uniform((2, 3)).shape
    (2, 3)
    """
    low = check_number("uniform", "low", low)
    high = check_number("uniform", "high", high)
    if not low <= high:
        raise ArgumentError("uniform", "low <= high", f"{low} and {high}")
    with STREAMS["user"].unless_failed():
        u = draw(random_uniform, device, shape=shape, dtype=dtype)
        return moved(u, high - low, low)


@takes_tensors
def rand(shape: ShapeLike, *, dtype: DTypeLike = "float32", device: DeviceLike = None) -> Tensor:
    """Uniform numbers in [0, 1)."""
    return uniform(shape, dtype=dtype, device=device)


@takes_tensors
def normal(
    shape: ShapeLike,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: DTypeLike = "float32",
    device: DeviceLike = None,
) -> Tensor:
    """Normal numbers, mean + std * z.

    Shapes: -> `shape`. Dtype: a float.
    Raises: ArgumentError unless std >= 0.

    >>> normal((2, 3), dtype="float64").dtype
    float64
    """
    mean = check_number("normal", "mean", mean)
    std = check_number("normal", "std", std, 0.0)
    with STREAMS["user"].unless_failed():
        z = draw(random_normal, device, shape=shape, dtype=dtype)
        return moved(z, std, mean)


@takes_tensors
def randn(shape: ShapeLike, *, dtype: DTypeLike = "float32", device: DeviceLike = None) -> Tensor:
    """Normal numbers with mean 0 and variance 1."""
    return normal(shape, dtype=dtype, device=device)


def moved(x: Tensor, scale: float, offset: float) -> Tensor:
    """Scaled, then shifted, without the steps that do nothing."""
    x = x if scale == 1.0 else x * scale
    return x if offset == 0.0 else x + offset


@takes_tensors
def bernoulli(
    shape: ShapeLike, p: float, *, dtype: DTypeLike = "bool", device: DeviceLike = None
) -> Tensor:
    """True (or 1) with probability p.

    Shapes: -> `shape`. Dtype: `dtype`.
    Raises: ArgumentError unless 0 <= p <= 1.

    >>> bernoulli((3,), 1.0).tolist()
    [True, True, True]
    """
    mask: Tensor = draw(random_bernoulli, device, shape=shape, p=float(p), dtype=dtype)
    return mask


@takes_tensors
def randint(
    low: int,
    high: int,
    shape: ShapeLike,
    *,
    dtype: DTypeLike = "int64",
    device: DeviceLike = None,
) -> Tensor:
    """Integers in [low, high).

    Shapes: -> `shape`. Dtype: an integer.
    Raises: ArgumentError unless low < high <= low + 2**32, both in the dtype's range.

    >>> randint(4, 5, (2,)).tolist()
    [4, 4]
    """
    i: Tensor = draw(
        random_integers, device, shape=shape, low=int(low), high=int(high), dtype=dtype,
    )  # fmt: skip
    return i


@takes_tensors
def permutation(n: int, *, device: DeviceLike = None) -> Tensor:
    """0, 1, ... n-1 in random order, as int64.

    Shapes: -> (n,).

    >>> sorted(permutation(3).tolist())
    [0, 1, 2]
    """
    order: Tensor = draw(random_permutation, device, n=n)
    return order


@takes_tensors
def rand_like(x: Tensor, *, dtype: DTypeLike | None = None) -> Tensor:
    """Uniform numbers in [0, 1) of the shape, dtype and device of `x`."""
    return rand(x.shape, dtype=dtype or x.dtype, device=x.device)


@takes_tensors
def randn_like(x: Tensor, *, dtype: DTypeLike | None = None) -> Tensor:
    """Normal numbers of the shape, dtype and device of `x`."""
    return randn(x.shape, dtype=dtype or x.dtype, device=x.device)
