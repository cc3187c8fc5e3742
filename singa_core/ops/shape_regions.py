"""Regions of a tensor: reading one, writing one, and all of one size (windows)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singa_core.errors import ShapeError
from singa_core.operation import Layout, Needs, Operation
from singa_core.ops.base import Grads
from singa_core.ops.creation import zeros
from singa_core.sample import In, sample
from singa_core.spec import Shape, Spec, check_axis, check_shape, contiguous_strides, window_count
from singa_core.tensor import Tensor

__all__ = ["set_slice", "slice", "windows"]


class Slice(Operation):
    """Every step-th element of each axis, y[i, ...] = x[start + i * step, ...] for i < size.

    Shapes: x (n, ...) -> y `size`. Dtype: any, kept.
    Args: start, size, step: an integer for each axis; a step may be negative, 1 if left out.
    Raises: ShapeError if an element lies outside of its axis.
    Source: y[i] = x[start + i * step].

    >>> from singa_core import tensor
    >>> slice(tensor([0, 1, 2, 3]), start=(3,), size=(2,), step=(-2,)).tolist()
    [3, 1]
    """

    name = "slice"
    samples = (
        sample((4, 5), start=(1, 0), size=(2, 5)),
        sample((5, 6), start=(4, 1), size=(3, 2), step=(-2, 3)),
        sample((3,), start=(2,), size=(1,)),
        sample((3, 2), start=(1, 0), size=(0, 2)),
        sample((0, 3), start=(0, 2), size=(0, 3), step=(1, -1)),
        sample((), start=(), size=()),
    )

    def settle(
        self,
        x: Spec,
        *,
        start: Sequence[int],
        size: Sequence[int],
        step: Sequence[int] | None = None,
    ) -> dict[str, Any]:
        start, step = settle_region(self.name, x, start, step, check_shape(self.name, size))
        return {"start": start, "size": check_shape(self.name, size), "step": step}

    def infer(self, x: Spec, *, start: Shape, size: Shape, step: Shape | None = None) -> Spec:
        return x.with_shape(size)

    def view(
        self, shape: Shape, strides: Shape, *, start: Shape, size: Shape, step: Shape
    ) -> Layout:
        if 0 in size:  # a walk that starts nowhere may not point outside of the bytes
            return contiguous_strides(size), 0
        steps = tuple(s * t for s, t in zip(strides, step, strict=True))
        return steps, sum(i * s for i, s in zip(start, strides, strict=True))

    def backward(
        self, grad: Tensor, *, needs: Needs, start: Shape, size: Shape, step: Shape
    ) -> Grads:
        spec = needs.specs[0]
        nothing = zeros(spec.shape, dtype=spec.dtype, device=grad.device)
        return (set_slice(nothing, grad, start=start, step=step),)


def settle_region(
    where: str, x: Spec, start: Sequence[int], step: Sequence[int] | None, size: Shape
) -> tuple[Shape, Shape]:
    """Canonical start and step of a region of `size` inside `x`: an axis without a walk has step 1.

    Raises: ShapeError if the region is not inside.
    """
    step = (1,) * x.ndim if step is None else step
    if not len(start) == len(step) == len(size) == x.ndim:
        got = f"{len(start)} starts, {len(size)} sizes, {len(step)} steps"
        raise ShapeError(where, f"one start, size and step for each of {x.ndim} axes", got, x=x)
    starts, steps = [], []
    for axis, (n, first, count, by) in enumerate(zip(x.shape, start, size, step, strict=True)):
        last = first + (count - 1) * by
        if count and not (by and 0 <= first < n and 0 <= last < n):
            rule = f"step != 0 and 0 <= first, last < {n} on axis {axis}"
            raise ShapeError(where, rule, f"first {first}, last {last}, step {by}", x=x)
        starts.append(int(first) if count else 0)
        steps.append(int(by) if count > 1 else 1)
    return tuple(starts), tuple(steps)


class SetSlice(Operation):
    """Write v to the region that `slice` would read, y[start + i * step, ...] = v[i, ...].

    Shapes: x (n, ...), v of as many axes -> y (n, ...). Dtype: any; operands are promoted.
    Args: start, step: one integer for each axis; a step may be negative, and is 1 if left out.
    Raises: ShapeError if an element lies outside of its axis.
    Source: the undoing of `slice`.

    >>> from singa_core import tensor
    >>> set_slice(tensor([0, 1, 2, 3]), tensor([7, 8]), start=(0,), step=(2,)).tolist()
    [7, 1, 8, 3]
    """

    name = "set_slice"
    promotes = True
    samples = (
        sample((4, 5), (2, 5), start=(1, 0)),
        sample((5, 6), (3, 2), start=(4, 1), step=(-2, 3)),
        sample((3,), (3,), start=(2,), step=(-1,)),
        sample((3, 2), (0, 2), start=(1, 0)),
        sample(In((2, 2), "any"), In((1, 2), "any"), start=(1, 0)),
        sample((), (), start=()),
    )

    def settle(
        self, x: Spec, v: Spec, *, start: Sequence[int], step: Sequence[int] | None = None
    ) -> dict[str, Any]:
        if v.ndim != x.ndim:
            raise ShapeError(self.name, "v.ndim == x.ndim", f"{v.ndim} != {x.ndim}", x=x, v=v)
        start, step = settle_region(self.name, x, start, step, v.shape)
        return {"start": start, "step": step}

    def infer(self, x: Spec, v: Spec, *, start: Shape, step: Shape | None = None) -> Spec:
        return x

    def backward(self, grad: Tensor, *, needs: Needs, start: Shape, step: Shape) -> Grads:
        v = needs.specs[1]
        dx = dv = None
        if needs[0]:
            nothing = zeros(v.shape, dtype=v.dtype, device=grad.device)
            dx = set_slice(grad, nothing, start=start, step=step)
        if needs[1]:
            dv = slice(grad, start=start, size=v.shape, step=step)
        return dx, dv


class Windows(Operation):
    """Sliding windows, y[.., i, .., j] = x[.., i * step + j * dilation, ..], j on new last axes.

    Shapes: x (n, ...) -> y (m, ..., `size`), m = floor((n - dilation * (size - 1) - 1) / step) + 1.
    Dtype: any, kept.
    Args: axes: those that windows slide along; size, step, dilation: elements, for each of them
        (step and dilation are 1 if left out).
    Raises: ShapeError unless there is one size >= 1 for each axis, and one step and dilation >= 1.
    Source: NumPy, `lib.stride_tricks.sliding_window_view`.

    >>> from singa_core import tensor
    >>> windows(tensor([0, 1, 2, 3]), axes=(0,), size=(2,)).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """

    name = "windows"
    samples = (
        sample((6,), axes=(0,), size=(3,)),
        sample((2, 5, 6), axes=(1, 2), size=(3, 2), step=(1, 2)),
        sample((7, 2), axes=(-2,), size=(2,), step=(2,), dilation=(3,)),
        sample((2,), axes=(0,), size=(3,)),
        sample((0, 4), axes=(1,), size=(2,)),
        sample((3, 4), axes=(1, 0), size=(2, 2)),
    )

    def settle(
        self,
        x: Spec,
        *,
        axes: Sequence[int],
        size: Sequence[int],
        step: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
    ) -> dict[str, Any]:
        ones = (1,) * len(axes)
        out = {
            "axes": tuple(check_axis(self.name, a, x.ndim, x=x) for a in axes),
            "size": check_shape(self.name, size),
            "step": check_shape(self.name, ones if step is None else step),
            "dilation": check_shape(self.name, ones if dilation is None else dilation),
        }
        if len(set(out["axes"])) != len(axes):
            raise ShapeError(self.name, "each axis once", tuple(axes), x=x)
        for name in ("size", "step", "dilation"):
            if len(out[name]) != len(axes) or 0 in out[name]:
                raise ShapeError(self.name, f"one {name} >= 1 for each of axes", out[name], x=x)
        return out

    def infer(
        self,
        x: Spec,
        *,
        axes: Shape,
        size: Shape,
        step: Shape | None = None,
        dilation: Shape | None = None,
    ) -> Spec:
        shape = list(x.shape)
        ones = (1,) * len(axes)
        for a, k, s, d in zip(axes, size, step or ones, dilation or ones, strict=True):
            shape[a] = window_count(shape[a], k, s, 0, d)
        return x.with_shape([*shape, *size])

    def view(
        self,
        shape: Shape,
        strides: Shape,
        *,
        axes: Shape,
        size: Shape,
        step: Shape,
        dilation: Shape,
    ) -> Layout:
        outer = list(strides)
        for a, s in zip(axes, step, strict=True):
            outer[a] *= s
        return (*outer, *(strides[a] * d for a, d in zip(axes, dilation, strict=True))), 0

    def backward(
        self, grad: Tensor, *, needs: Needs, axes: Shape, size: Shape, step: Shape, dilation: Shape
    ) -> Grads:
        # one axis of windows at a time, the last first: each offset j is written where it was read
        shape = needs.specs[0].shape
        for a, k, s, d in reversed(list(zip(axes, size, step, dilation, strict=True))):
            grad = _fold(grad, a, shape[a], k, s, d)
        return (grad,)


def _fold(grad: Tensor, axis: int, n: int, size: int, step: int, dilation: int) -> Tensor:
    """Windows (last axis) along `axis` added back onto its n elements."""
    shape = list(grad.shape[:-1])
    count, shape[axis] = shape[axis], n
    nothing = zeros(shape, dtype=grad.dtype, device=grad.device)
    if not count:
        return nothing
    total = None
    for j in range(size):
        start = [0] * len(shape)
        start[axis] = j * dilation
        steps = [1] * len(shape)
        steps[axis] = step
        term = set_slice(nothing, grad[..., j], start=tuple(start), step=tuple(steps))
        total = term if total is None else total + term
    return nothing if total is None else total


slice, set_slice, windows = Slice(), SetSlice(), Windows()  # noqa: A001
