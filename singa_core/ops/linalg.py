"""Products of matrices and vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from singa_core.checks import as_integer, as_integers
from singa_core.errors import ShapeError
from singa_core.operation import Needs, Operation
from singa_core.ops.base import Grads, check_kind, takes_tensors
from singa_core.ops.shape import unbroadcast
from singa_core.optable import function
from singa_core.sample import In, sample
from singa_core.spec import Spec, broadcast_shapes, check_axis
from singa_core.tensor import Tensor

__all__ = [
    "matmul", "outer", "tensordot", "vecdot",
]  # fmt: skip


class MatMul(Operation):
    """Matrix product, y[..., i, j] = sum over k of a[..., i, k] * b[..., k, j].

    Shapes: a (..., m, k), b (..., k, n) -> y (..., m, n); leading axes broadcast; a vector is a row
    on the left and a column on the right, and its axis does not appear in y.
    Dtype: numbers; operands are promoted.
    Raises: ShapeError if an operand is a scalar, or the two k differ.
    Source: array API standard 2023.12, `matmul`.

    >>> from singa_core import tensor
    >>> matmul(tensor([[1, 2]]), tensor([[3, 4], [5, 6]])).tolist()
    [[13, 16]]
    """

    name = "matmul"
    heavy = True
    keeps = ("a", "b")
    promotes = True
    samples = (
        sample((3, 4), (4, 5)),
        sample((2, 3, 4), (4, 5)),
        sample((2, 1, 3, 4), (5, 4, 2)),
        sample((1, 1), (1, 1)),
        sample((4,), (4, 2)),
        sample((2, 3, 4), (4,)),
        sample((3,), (3,)),
        sample((0, 4), (4, 3)),
        sample((3, 0), (0, 2)),
        sample((2, 3, 4), (4, 0)),
        sample(In((2, 3), "int64", -9, 9), In((3, 2), "int64", -9, 9)),
    )

    def route(self, a: Spec, b: Spec) -> Callable[..., Any] | None:
        return self._of_vectors if 1 in (a.ndim, b.ndim) else None

    def _of_vectors(self, a: Tensor, b: Tensor) -> Any:
        """A kernel sees matrices only."""
        shape = self.infer(a.spec, b.spec).shape
        rows = a.expand_dims(0) if a.ndim == 1 else a
        columns = b.expand_dims(-1) if b.ndim == 1 else b
        return self(rows, columns).reshape(shape)

    def infer(self, a: Spec, b: Spec) -> Spec:
        check_kind(self.name, "number", a=a, b=b)
        if not a.ndim or not b.ndim:
            got = f"{a.ndim} and {b.ndim}"
            raise ShapeError(self.name, "a.ndim >= 1 and b.ndim >= 1", got, a=a, b=b)
        inner = -2 if b.ndim > 1 else -1
        if a.shape[-1] != b.shape[inner]:
            rule = f"a.shape[-1] == b.shape[{inner}]"
            raise ShapeError(self.name, rule, f"{a.shape[-1]} != {b.shape[inner]}", a=a, b=b)
        batch = broadcast_shapes(self.name, a.shape[:-2], b.shape[:-2], a=a, b=b)
        rows = a.shape[-2:-1] if a.ndim > 1 else ()
        columns = b.shape[-1:] if b.ndim > 1 else ()
        return a.with_shape((*batch, *rows, *columns))

    def backward(self, grad: Tensor, a: Tensor, b: Tensor, *, needs: Needs) -> Grads:
        if b.ndim == 2 and a.ndim > 2 and needs.specs[0].itemcount and grad.size:
            return self._backward_of_rows(grad, a, b, needs)
        return (
            unbroadcast(grad @ b.mT, a.shape) if needs[0] else None,  # (..., m, n)(n, k)
            unbroadcast(a.mT @ grad, b.shape) if needs[1] else None,  # (..., k, m)(m, n)
        )

    def _backward_of_rows(self, grad: Tensor, a: Tensor, b: Tensor, needs: Needs) -> Grads:
        """One matrix b for all rows of a: two plain products instead of a batch and its sum."""
        rows = grad.reshape(-1, grad.shape[-1])
        return (
            (rows @ b.mT).reshape(a.shape) if needs[0] else None,  # (rows, n)(n, k)
            a.reshape(-1, a.shape[-1]).mT @ rows if needs[1] else None,  # (k, rows)(rows, n)
        )


@function
@takes_tensors
def outer(a: Tensor, b: Tensor) -> Tensor:
    """Products of all pairs, y[i, j] = a[i] * b[j]. Source: array API standard, `linalg.outer`.

    Raises: ShapeError unless both are vectors.
    """
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError("outer", "two vectors", f"{a.ndim} and {b.ndim} axes", a=a, b=b)
    y: Tensor = a.expand_dims(1) * b
    return y


@function
@takes_tensors
def vecdot(a: Tensor, b: Tensor, *, axis: int = -1) -> Tensor:
    """Inner products along an axis, y = sum over i of a[i] * b[i].

    Source: array API standard 2023.12, `vecdot`.
    """
    return (a * b).sum(axis=axis)


def _pairs_of_axes(a: Tensor, b: Tensor, axes: Any) -> tuple[Sequence[int], Sequence[int]]:
    """The axes to sum over, of each operand."""
    count = as_integer(axes)
    if count is not None and 0 <= count <= min(a.ndim, b.ndim):
        return tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    if isinstance(axes, list | tuple) and len(axes) == 2:
        both = [as_integers(part if isinstance(part, Iterable) else (part,)) for part in axes]
        if both[0] is not None and both[1] is not None and len(both[0]) == len(both[1]):
            return both[0], both[1]
    rule = f"0 <= axes <= {min(a.ndim, b.ndim)}, or as many axes of a as of b"
    raise ShapeError("tensordot", rule, repr(axes), a=a, b=b)


@function
@takes_tensors
def tensordot(
    a: Tensor, b: Tensor, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Sum over pairs of axes, the last `axes` of a and the first ones of b, or those named.

    Shapes: a's other axes, then b's.
    Raises: ShapeError for other axes, or unless those of each pair are of one size.
    Source: array API standard 2023.12, `tensordot`.
    """
    axes = _pairs_of_axes(a, b, axes)
    left = [check_axis("tensordot", i, a.ndim, a=a) for i in axes[0]]
    right = [check_axis("tensordot", i, b.ndim, b=b) for i in axes[1]]
    inner, other = tuple(a.shape[i] for i in left), tuple(b.shape[i] for i in right)
    if inner != other:
        rule = "equal sizes of the axes that are summed"
        raise ShapeError("tensordot", rule, f"{inner} and {other}", a=a, b=b)
    rows = [i for i in range(a.ndim) if i not in left]
    columns = [i for i in range(b.ndim) if i not in right]
    shape = (*(a.shape[i] for i in rows), *(b.shape[i] for i in columns))
    size = math.prod(inner)
    one = a.permute((*rows, *left)).reshape(math.prod(a.shape[i] for i in rows), size)
    two = b.permute((*right, *columns)).reshape(size, math.prod(b.shape[i] for i in columns))
    y: Tensor = (one @ two).reshape(shape)
    return y


matmul = MatMul()
