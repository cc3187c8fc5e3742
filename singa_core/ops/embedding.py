"""Looking up rows of a table by their numbers."""

from __future__ import annotations

from singa_core.errors import ArgumentError, DTypeError, ShapeError
from singa_core.indexing import signed
from singa_core.operation import Needs, Operation
from singa_core.ops.base import Grads, check_kind
from singa_core.ops.creation import zeros
from singa_core.ops.elementwise_pairs import equal, where
from singa_core.ops.indexing import gather, scatter_add
from singa_core.sample import In, sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor

__all__ = ["embedding"]


class Embedding(Operation):
    """Rows of a table, y[...] = weight[ids[...]]. The gradient of a row is the sum over its uses.

    Shapes: ids (...), weight (n, d) -> y (..., d). Dtype: integers; floats, kept.
    Args: padding_idx: the id of a row that gets no gradient, negative from the end; None: all do.
    Raises: OutOfRange unless 0 <= id < n; ShapeError unless weight is a matrix; DTypeError for ids
        that are not integers; ArgumentError unless -n <= padding_idx < n.
    Source: ONNX operator set 13, `Gather` on axis 0, for ids that are not negative.

    >>> from singa_core import tensor
    >>> embedding(tensor([1, 0, 1]), tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]
    """

    name = "embedding"
    keeps = ("ids",)
    samples = (
        sample(In((5,), "int64", 0, 4), (4, 3)),
        sample(In((2, 3), "int32", 0, 4), (4, 2)),
        sample(In((), "int64", 0, 4), (4, 2)),
        sample(In((0,), "int64"), (4, 2)),
        sample(In((3,), "uint8", 0, 4), (4, 2)),
        sample(In((5,), "int64", 0, 4), In((4, 3), grad=False), padding_idx=-1),
    )

    def infer(self, ids: Spec, weight: Spec, *, padding_idx: int | None = None) -> Spec:
        if not ids.dtype.is_integer:
            rule = "ids of an integer dtype"
            raise DTypeError(self.name, rule, ids.dtype, ids=ids, weight=weight)
        check_kind(self.name, "float", weight=weight)
        if weight.ndim != 2:
            raise ShapeError(self.name, "weight.ndim == 2", weight.ndim, ids=ids, weight=weight)
        n = weight.shape[0]
        if padding_idx is not None and not -n <= padding_idx < n:
            raise ArgumentError(
                self.name, f"{-n} <= padding_idx < {n}", padding_idx, ids=ids, weight=weight
            )
        return weight.with_shape((*ids.shape, weight.shape[1]))

    def forward(self, ids: Tensor, weight: Tensor, *, padding_idx: int | None) -> Tensor:
        y: Tensor = gather(weight, ids, axis=0, role="embedding: id")
        return y

    def backward(
        self, grad: Tensor, ids: Tensor, *, needs: Needs, padding_idx: int | None
    ) -> Grads:
        if not needs[1]:
            return None, None
        weight = needs.specs[1]
        if padding_idx is not None:
            padding = equal(signed(ids), padding_idx % weight.shape[0]).reshape(*ids.shape, 1)
            grad = where(padding, 0.0, grad)
        nothing = zeros(weight.shape, dtype=weight.dtype, device=grad.device)
        return None, scatter_add(nothing, signed(ids), grad, axis=0)


embedding = Embedding()
