"""Look-up tables."""

from __future__ import annotations

from singa_core import ops
from singa_core.errors import ArgumentError
from singa_core.initializer import InitializerLike
from singa_core.layer import Layer
from singa_core.parameter import Parameter
from singa_core.tensor import Tensor


class Embedding(Layer):
    """A row of `weight` for each id.

    Shapes: ids (...) -> y (..., features); weight (num_embeddings, features).

    Args:
        num_embeddings: rows; ids lie in [0, num_embeddings).
        features: size of a row.
        weight_init: initialiser, by name, callable or array.

    Raises: OutOfRange for an id outside the table.
    """

    def __init__(
        self, num_embeddings: int, features: int, *, weight_init: InitializerLike = "normal"
    ) -> None:
        if num_embeddings < 1 or features < 1:
            raise ArgumentError("Embedding", "sizes >= 1", (num_embeddings, features))
        self.weight = Parameter((num_embeddings, features), weight_init)

    def forward(self, ids: Tensor) -> Tensor:
        y: Tensor = ops.embedding(ids, self.weight)
        return y
