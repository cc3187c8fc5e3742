"""Look-up tables."""

from __future__ import annotations

from singa_core import ops
from singa_core.checks import check_integer
from singa_core.initializer import InitializerLike
from singa_core.layer import Layer
from singa_core.parameter import Parameter
from singa_core.tensor import Tensor


class Embedding(Layer):
    """A row of `weight` for each id.

    Shapes: ids (...) -> y (..., features); weight (num_embeddings, features).

    Args:
        num_embeddings: rows, >= 1; ids lie in [0, num_embeddings).
        features: size of a row, >= 1.
        weight_init: initialiser, by name, callable or array.

    Raises: OutOfRange for an id outside the table; DTypeError for ids that are not integers.
    """

    def __init__(
        self, num_embeddings: int, features: int, *, weight_init: InitializerLike = "normal"
    ) -> None:
        rows = check_integer("Embedding", "num_embeddings", num_embeddings, 1)
        columns = check_integer("Embedding", "features", features, 1)
        self.weight = Parameter((rows, columns), weight_init)

    def forward(self, ids: Tensor) -> Tensor:
        y: Tensor = ops.embedding(ids, self.weight)
        return y

    def describe(self) -> str:
        return "{}, {}".format(*self.weight.shape)
