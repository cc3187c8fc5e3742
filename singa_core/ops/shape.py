"""Other looks at the same elements, and joining.

All but `concat` are views: they change strides and move no bytes. Parts are in `shape_regions`,
what is made of these in `shape_composed`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from singa_core.dtype import promote
from singa_core.errors import ShapeError
from singa_core.operation import Layout, Needs, Operation
from singa_core.ops.base import Grads, all_tensors
from singa_core.ops.shape_regions import slice  # noqa: A004
from singa_core.sample import In, sample
from singa_core.spec import (
    Shape,
    Spec,
    broadcast_shapes,
    check_axis,
    check_shape,
    contiguous_strides,
)
from singa_core.tensor import Tensor

__all__ = ["broadcast_to", "concat", "detach", "permute_dims", "reshape"]


class Reshape(Operation):
    """The elements in the same (C) order under another shape; one size may be -1, for what is left.

    Shapes: any -> `shape`, of the same size. Dtype: any, kept.
    Raises: ShapeError if the sizes differ.
    Source: array API standard 2023.12, `reshape`.

    >>> from singa_core import tensor
    >>> reshape(tensor([[1, 2, 3], [4, 5, 6]]), shape=(3, -1)).tolist()
    [[1, 2], [3, 4], [5, 6]]
    """

    name = "reshape"
    samples = (
        sample((2, 6), shape=(3, 4)),
        sample((2, 3, 4), shape=(-1, 4)),
        sample((4,), shape=(2, 1, 2)),
        sample((1, 1), shape=()),
        sample((0, 3), shape=(3, 0)),
        sample(In((2, 2), "any"), shape=(4,)),
    )

    def settle(self, x: Spec, *, shape: Sequence[int]) -> dict[str, Any]:
        sizes = list(shape) if isinstance(shape, Sequence) else [shape]
        holes = [i for i, n in enumerate(sizes) if n == -1]
        if len(holes) > 1:
            raise ShapeError(self.name, "at most one -1", tuple(sizes), x=x)
        for i in holes:
            known = math.prod(n for n in sizes if n != -1)
            if not known or x.itemcount % known:
                rule = "sizes whose product divides x.size"
                raise ShapeError(self.name, rule, f"{tuple(sizes)} for {x.itemcount}", x=x)
            sizes[i] = x.itemcount // known
        return {"shape": check_shape(self.name, sizes)}

    def infer(self, x: Spec, *, shape: Shape) -> Spec:
        if math.prod(shape) != x.itemcount:
            got = f"{math.prod(shape)} != {x.itemcount}"
            raise ShapeError(self.name, "prod(shape) == x.size", got, x=x, shape=shape)
        return x.with_shape(shape)

    def view(self, old: Shape, strides: Shape, *, shape: Shape) -> Layout | None:
        if math.prod(old) == 0:
            return contiguous_strides(shape), 0
        new = regroup(old, strides, shape)
        return None if new is None else (new, 0)

    def backward(self, grad: Tensor, *, needs: Needs, shape: Shape) -> Grads:
        return (reshape(grad, shape=needs.specs[0].shape),)


def regroup(old: Shape, strides: Shape, new: Shape) -> Shape | None:
    """Strides of the shape `new` over elements laid out as (old, strides), or None."""
    runs: list[list[int]] = []  # [elements, stride of the innermost], innermost first
    for size, stride in zip(reversed(old), reversed(strides), strict=True):
        if size == 1:
            continue
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= size
        else:
            runs.append([size, stride])
    out = []
    left, step = runs.pop(0) if runs else (1, 1)
    for size in reversed(new):
        if size == 1:
            out.append(step)
            continue
        if left == 1:
            left, step = runs.pop(0)
        if left % size:
            return None
        out.append(step)
        left, step = left // size, step * size
    return tuple(reversed(out))


class PermuteDims(Operation):
    """The axes in another order, y.shape[i] = x.shape[axes[i]].

    Shapes: any -> permuted. Dtype: any, kept.
    Raises: ShapeError unless `axes` names every axis once.
    Source: array API standard 2023.12, `permute_dims`.

    >>> from singa_core import tensor
    >>> permute_dims(tensor([[1, 2], [3, 4]]), axes=(1, 0)).tolist()
    [[1, 3], [2, 4]]
    """

    name = "permute_dims"
    samples = (
        sample((2, 3), axes=(1, 0)),
        sample((2, 3, 4), axes=(2, 0, 1)),
        sample((2, 3, 4), axes=(0, -1, 1)),
        sample((), axes=()),
        sample((0, 3), axes=(1, 0)),
    )

    def settle(self, x: Spec, *, axes: Sequence[int]) -> dict[str, Any]:
        order = tuple(check_axis(self.name, a, x.ndim, x=x) for a in axes)
        if sorted(order) != list(range(x.ndim)):
            raise ShapeError(self.name, "every axis once in axes", tuple(axes), x=x)
        return {"axes": order}

    def infer(self, x: Spec, *, axes: Shape) -> Spec:
        return x.with_shape([x.shape[a] for a in axes])

    def view(self, shape: Shape, strides: Shape, *, axes: Shape) -> Layout:
        return tuple(strides[a] for a in axes), 0

    def backward(self, grad: Tensor, *, needs: Needs, axes: Shape) -> Grads:
        inverse = sorted(range(len(axes)), key=axes.__getitem__)
        return (permute_dims(grad, axes=tuple(inverse)),)


class BroadcastTo(Operation):
    """x stretched: axes of size 1 and missing leading axes are repeated.

    Shapes: any that broadcasts -> `shape`. Dtype: any, kept.
    Raises: ShapeError if x does not broadcast to `shape`.
    Source: array API standard 2023.12, `broadcast_to`.

    >>> from singa_core import tensor
    >>> broadcast_to(tensor([[1], [2]]), shape=(2, 3)).tolist()
    [[1, 1, 1], [2, 2, 2]]
    """

    name = "broadcast_to"
    samples = (
        sample((3,), shape=(2, 3)),
        sample((2, 1), shape=(2, 4)),
        sample((), shape=(2, 2)),
        sample((1, 3), shape=(0, 3)),
        sample((0, 1), shape=(2, 0, 3)),
        sample((2, 3), shape=(2, 3)),
    )

    def settle(self, x: Spec, *, shape: Sequence[int]) -> dict[str, Any]:
        return {"shape": check_shape(self.name, shape)}

    def infer(self, x: Spec, *, shape: Shape) -> Spec:
        if broadcast_shapes(self.name, x.shape, shape, x=x, shape=shape) != tuple(shape):
            rule = "x.shape that stretches to shape"
            raise ShapeError(self.name, rule, x.shape, x=x, shape=shape)
        return x.with_shape(shape)

    def view(self, old: Shape, strides: Shape, *, shape: Shape) -> Layout:
        new = [0] * (len(shape) - len(old))
        kept = zip(old, strides, shape[len(new) :], strict=True)
        return (*new, *(s if n == m else 0 for n, s, m in kept)), 0

    def backward(self, grad: Tensor, *, needs: Needs, shape: Shape) -> Grads:
        return (unbroadcast(grad, needs.specs[0].shape),)


def unbroadcast(x: Tensor, shape: Shape) -> Tensor:
    """Gradient of what was broadcast from `shape`, as `sum_to`; the very x if nothing was.

    For `backward`: the engine gives gradients cells of their own.
    """
    own = x.shape
    if own == shape:
        return x
    new = len(own) - len(shape)
    stretched = [i for i, n in enumerate(own) if i < new or (shape[i - new] == 1 and n != 1)]
    y: Tensor = reshape(x.sum(axis=tuple(stretched)), shape=shape)
    return y


class Detach(Operation):
    """The same values, y = x, through which no gradient flows.

    Shapes: any -> same. Dtype: any, kept.
    Source: y = x, dy/dx = 0.
    """

    name = "detach"
    samples = (
        sample(In((2, 3), grad=False)),
        sample(In((), grad=False)),
        sample(In((0, 2), "any", grad=False)),
    )

    def infer(self, x: Spec) -> Spec:
        return x

    def view(self, shape: Shape, strides: Shape) -> Layout:
        return strides, 0


class Concat(Operation):
    """Tensors joined along an axis: `concat([a, b])` or `concat(a, b)`; None flattens them first.

    Shapes: (..., n_i, ...) -> (..., sum of n_i, ...). Dtype: any; operands are promoted.
    Raises: ShapeError if there is none, or another axis differs.
    Source: array API standard 2023.12, `concat`.

    >>> from singa_core import tensor
    >>> concat([tensor([[1, 2]]), tensor([[3, 4]])], axis=1).tolist()
    [[1, 2, 3, 4]]
    """

    name = "concat"
    promotes = True
    samples = (
        sample((2, 3), (4, 3)),
        sample((2, 3), (2, 1), (2, 2), axis=-1),
        sample((2, 3), axis=0),
        sample((0, 3), (2, 3)),
        sample(In((2, 2, 2), "any"), In((2, 1, 2), "any"), axis=1),
    )

    def __call__(self, *xs: Any, axis: int | None = 0) -> Any:
        if len(xs) == 1 and isinstance(xs[0], list | tuple):
            xs = tuple(xs[0])
        if not xs:
            raise ShapeError(self.name, "at least one tensor", 0)
        if axis is None:
            xs, axis = tuple(x.reshape(-1) for x in all_tensors(self.name, xs)), 0
        return super().__call__(*xs, axis=axis)

    def settle(self, *xs: Spec, axis: int = 0) -> dict[str, Any]:
        return {"axis": check_axis(self.name, axis, xs[0].ndim, **_numbered(xs))}

    def infer(self, *xs: Spec, axis: int = 0) -> Spec:
        first, dtype = xs[0], xs[0].dtype
        for x in xs[1:]:
            dtype = promote(dtype, x.dtype)
            if without(x.shape, axis) != without(first.shape, axis):
                rule = f"equal shapes except for axis {axis}"
                raise ShapeError(self.name, rule, f"{first.shape} and {x.shape}", **_numbered(xs))
        total = sum(x.shape[axis] for x in xs)
        return Spec((*first.shape[:axis], total, *first.shape[axis + 1 :]), dtype)

    def backward(self, grad: Tensor, *, needs: Needs, axis: int) -> Grads:
        start, out = [0] * grad.ndim, []
        for spec, wanted in zip(needs.specs, needs, strict=True):
            out.append(slice(grad, start=tuple(start), size=spec.shape) if wanted else None)
            start[axis] += spec.shape[axis]
        return tuple(out)


def without(shape: Shape, axis: int) -> tuple[int | None, ...]:
    """A shape with a hole at an axis."""
    return tuple(None if i == axis else n for i, n in enumerate(shape))


def _numbered(xs: Sequence[Spec]) -> dict[str, Any]:
    return {f"x{i}": x for i, x in enumerate(xs)}


reshape, permute_dims, broadcast_to = Reshape(), PermuteDims(), BroadcastTo()
detach, concat = Detach(), Concat()
