"""Attention with several heads, and the encoder layer of a transformer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from singa_core import ops
from singa_core.checks import check_flag, check_integer, check_number
from singa_core.errors import ArgumentError
from singa_core.layer import Layer
from singa_core.layers.functional import Dropout, check_step
from singa_core.layers.linear import Linear
from singa_core.layers.normalization import LayerNorm
from singa_core.tensor import Tensor


class MultiHeadAttention(Layer):
    """Attention in several heads side by side, each on its own projections of the inputs.

    Called with one tensor it is self-attention; with two, queries look at the second; with three,
    the second gives the keys and the third the values.

    Shapes: query (n, m, d), key (n, t, d'), value (n, t, d'') -> y (n, m, features);
        mask that broadcasts to (n, heads, m, t).

    Args:
        features: size of the output's last axis, >= 1; heads divide it.
        heads: >= 1.
        dropout: probability that a weight becomes 0 in training, 0 <= dropout <= 1.
        bias: of the four projections.

    Raises: ShapeError if the inputs do not fit; ArgumentError.
    Source: arXiv:1706.03762, section 3.2.2.

    >>> MultiHeadAttention(16, 4)(ops.zeros((2, 5, 16)), causal=True).shape
    (2, 5, 16)
    """

    def __init__(
        self, features: int, heads: int, *, dropout: float = 0.0, bias: bool = True
    ) -> None:
        where = "MultiHeadAttention"
        self.features = check_integer(where, "features", features, 1)
        self.heads = check_integer(where, "heads", heads, 1)
        if self.features % self.heads:
            raise ArgumentError(where, "features % heads == 0", f"{features} % {heads}")
        self.dropout = check_number(where, "dropout", dropout, 0.0, 1.0)
        check_flag(where, "bias", bias)
        self.query = Linear(features, bias=bias)
        self.key = Linear(features, bias=bias)
        self.value = Linear(features, bias=bias)
        self.out = Linear(features, bias=bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        key = query if key is None else key
        value = key if value is None else value
        y = ops.scaled_dot_product_attention(
            self.split(self.query(query)), self.split(self.key(key)),
            self.split(self.value(value)), mask, causal=causal, dropout_p=self.dropout,
            training=self.training,
        )  # fmt: skip
        joined = y.permute(0, 2, 1, 3).reshape(*query.shape[:2], self.features)
        made: Tensor = self.out(joined)
        return made

    def split(self, x: Tensor) -> Tensor:
        """(n, m, features) -> (n, heads, m, features / heads)."""
        parts = x.reshape(*x.shape[:2], self.heads, self.features // self.heads)
        return parts.permute(0, 2, 1, 3)

    def describe(self) -> str:
        return f"{self.features}, {self.heads}, dropout={self.dropout:g}"


class TransformerEncoderLayer(Layer):
    """Self-attention, then two linear maps with an activation between; each added to its input.

    Shapes: x (n, m, features) -> same; mask that broadcasts to (n, heads, m, m).

    Args:
        features: size of the last axis, >= 1; heads divide it.
        heads: of the attention, >= 1.
        hidden: features between the two linear maps, >= 1.
        dropout: probability of 0 in training, of the attention's weights, of what is added and of
            the hidden features.
        activation: a function of a tensor, or a layer.
        norm_first: normalise what goes into each part (it trains without a warm-up), instead of
            what comes out of it.

    Raises: ShapeError if x does not fit; ArgumentError.
    Source: arXiv:1706.03762, section 3.1; norm_first: arXiv:2002.04745, figure 1.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        hidden: int,
        *,
        dropout: float = 0.1,
        activation: Callable[[Any], Any] = ops.relu,
        norm_first: bool = False,
    ) -> None:
        where = "TransformerEncoderLayer"
        check_step(where, "an activation that is a function", activation)
        hidden = check_integer(where, "hidden", hidden, 1)
        self.norm_first = check_flag(where, "norm_first", norm_first)
        self.attention = MultiHeadAttention(features, heads, dropout=dropout)
        self.expand = Linear(hidden)
        self.contract = Linear(features)
        self.norm1, self.norm2 = LayerNorm(), LayerNorm()
        self.dropout = Dropout(dropout)
        self.activation = activation

    def forward(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        def attend(v: Tensor) -> Tensor:
            y: Tensor = self.dropout(self.attention(v, mask=mask, causal=causal))
            return y

        def feed(v: Tensor) -> Tensor:
            y: Tensor = self.dropout(self.contract(self.dropout(self.activation(self.expand(v)))))
            return y

        if self.norm_first:
            x = x + attend(self.norm1(x))
            return x + feed(self.norm2(x))
        x = self.norm1(x + attend(x))
        made: Tensor = self.norm2(x + feed(x))
        return made

    def describe(self) -> str:
        return f"norm_first={self.norm_first}"
