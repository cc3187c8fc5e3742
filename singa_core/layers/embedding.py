"""Look-up tables: of ids, and of places in a sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from singa_core import ops
from singa_core.checks import check_integer
from singa_core.errors import ArgumentError, ShapeError
from singa_core.initializer import HostRandom, Initializer, InitializerLike, as_initializer
from singa_core.initializer.named import FromArray
from singa_core.initializer.rules import Host
from singa_core.layer import Layer
from singa_core.parameter import Parameter
from singa_core.spec import Shape
from singa_core.tensor import Tensor


class Embedding(Layer):
    """A row of `weight` for each id.

    Shapes: ids (...) -> y (..., features); weight (num_embeddings, features).

    Args:
        num_embeddings: rows, >= 1; ids lie in [0, num_embeddings).
        features: size of a row, >= 1.
        weight_init: initialiser, by name, callable or array.
        padding_idx: the id of a row that is not trained, negative from the end; it begins as zeros,
            unless `weight_init` is an array.

    Raises: OutOfRange for an id outside the table; DTypeError for ids that are not integers.
    """

    def __init__(
        self,
        num_embeddings: int,
        features: int,
        *,
        weight_init: InitializerLike = "normal",
        padding_idx: int | None = None,
    ) -> None:
        rows = check_integer("Embedding", "num_embeddings", num_embeddings, 1)
        columns = check_integer("Embedding", "features", features, 1)
        self.padding_idx = padding_idx
        init = as_initializer(weight_init)
        if padding_idx is not None:
            self.padding_idx = check_integer("Embedding", "padding_idx", padding_idx)
            if not -rows <= self.padding_idx < rows:
                rule = f"{-rows} <= padding_idx < num_embeddings ({rows})"
                raise ArgumentError("Embedding", rule, padding_idx)
            if not isinstance(init, FromArray):
                init = _WithoutRow(init, self.padding_idx)
        self.weight = Parameter((rows, columns), init)

    def forward(self, ids: Tensor) -> Tensor:
        y: Tensor = ops.embedding(ids, self.weight, padding_idx=self.padding_idx)
        return y

    def describe(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return "{}, {}".format(*self.weight.shape) + padding


@dataclass(frozen=True)
class _WithoutRow(Initializer):
    """Another initialiser's numbers, but zeros in one row."""

    init: Initializer
    row: int

    def __call__(self, shape: Shape, random: HostRandom) -> Host:
        host = np.array(self.init(shape, random))
        host[self.row] = 0.0
        return host


class PositionEmbedding(Layer):
    """Adds to each element of a sequence a row of `weight` that tells its place.

    Attention by itself does not know in which order its inputs are.

    Shapes: x (..., length, features) -> same, length <= max_length; weight (max_length, features).

    Args:
        max_length: rows, >= 1.
        features: size of a row, >= 1; by default that of the first input.
        weight_init: initialiser, by name, callable or array.

    Raises: ShapeError for an input that is longer, or of other features.
    Source: Gehring et al., "Convolutional sequence to sequence learning", arXiv:1705.03122, 3.1.
    """

    def __init__(
        self,
        max_length: int,
        *,
        features: int | None = None,
        weight_init: InitializerLike = "normal",
    ) -> None:
        where = "PositionEmbedding"
        rows = check_integer(where, "max_length", max_length, 1)
        if features is not None:
            check_integer(where, "features", features, 1)
        self.weight = Parameter((rows, features), weight_init)

    def initialize(self, x: Tensor) -> None:
        self._check(x)
        self.weight.set_shape((self.weight.shape[0], x.shape[-1]))

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        return x + self.weight[: x.shape[-2]]

    def _check(self, x: Tensor) -> None:
        longest, features = self.weight.shape
        if x.ndim < 2 or x.shape[-2] > longest or features not in (None, x.shape[-1]):
            rule = f"x (..., length <= {longest}, {features or 'features'})"
            raise ShapeError("PositionEmbedding", rule, x.shape, x=x)

    def describe(self) -> str:
        return f"{self.weight.shape[0]}"
