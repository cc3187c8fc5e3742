"""Attention: means of values, weighted by how well their keys fit a query."""

from __future__ import annotations

import math
from typing import Any

from singa_core.checks import check_number
from singa_core.errors import DTypeError, ShapeError
from singa_core.operation import Operation, apply
from singa_core.ops.base import check_kind, takes_tensors, wide
from singa_core.ops.creation import iota
from singa_core.ops.dropout import dropout
from singa_core.ops.elementwise_logic import logical_not, logical_or
from singa_core.ops.elementwise_pairs import less_equal, where
from singa_core.ops.normalization import softmax
from singa_core.ops.reduction_composed import any as any_of
from singa_core.sample import In, sample
from singa_core.spec import Spec, broadcast_shapes
from singa_core.tensor import Tensor

__all__ = ["attention", "scaled_dot_product_attention"]


class Attention(Operation):
    """Means of values, y[i] = sum over j of p[i, j] * v[j], p = softmax of scale * q @ k.mT.

    A mask of bool says which keys a query may look at (True); one of floats is added to the scaled
    products. A query that may look at nothing gives 0.

    Shapes: q (..., m, d), k (..., n, d), v (..., n, e), mask that broadcasts to (..., m, n)
        -> y (..., m, e); leading axes broadcast. Dtype: floats, promoted (weights in float32 at
        least); the mask may be left out (None).

    Args:
        causal: query i looks at keys 0 ... i only.
        scale: by default 1 / sqrt(d).

    Raises: ShapeError if the sizes do not fit; DTypeError.
    Source: arXiv:1706.03762, eq. 1; ONNX operator set 23, `Attention`.

    >>> from singa_core import tensor
    >>> one = tensor([[0.0], [0.0]])
    >>> attention(one, one, tensor([[1.0], [5.0]]), causal=True).tolist()
    [[1.0], [3.0]]
    """

    name = "attention"
    heavy = True
    promotes = (0, 1, 2)
    samples = (
        sample((3, 4), (5, 4), (5, 2)),
        sample((2, 3, 4), (2, 3, 4), (2, 3, 4), causal=True),
        sample((2, 2, 3, 4), (2, 1, 5, 4), (1, 2, 5, 3), scale=0.3),
        sample((2, 3, 4), (2, 5, 4), (2, 5, 2), In((2, 1, 5), "bool")),
        sample((2, 3), (3, 3), (3, 3), In((2, 3), "bool", values=[[1, 0, 1], [0, 0, 0]])),
        sample((2, 3, 4), (2, 5, 4), (2, 5, 2), (3, 5), causal=True),
        sample((0, 3, 4), (0, 5, 4), (0, 5, 2)),
        sample((3, 4), (0, 4), (0, 2)),
    )

    def __call__(
        self,
        q: Any,
        k: Any,
        v: Any,
        mask: Any = None,
        *,
        causal: bool = False,
        scale: float | None = None,
    ) -> Any:
        attrs = self.pack({"causal": causal, "scale": scale})
        return apply(self, (q, k, v) if mask is None else (q, k, v, mask), attrs)

    def settle(
        self, q: Spec, k: Spec, v: Spec, *mask: Spec, causal: bool, scale: float | None
    ) -> dict[str, Any]:
        if scale is None:
            scale = 1.0 / math.sqrt(max(q.shape[-1], 1)) if q.ndim else 1.0
        return {"causal": bool(causal), "scale": check_number(self.name, "scale", scale)}

    def infer(
        self,
        q: Spec,
        k: Spec,
        v: Spec,
        *mask: Spec,
        causal: bool = False,
        scale: float | None = None,
    ) -> Spec:
        named: dict[str, Any] = {"q": q, "k": k, "v": v}
        check_kind(self.name, "float", **named)
        if mask:
            named["mask"] = mask[0]
            if mask[0].dtype.kind not in ("bool", "float"):
                raise DTypeError(self.name, "a mask of bool or floats", mask[0].dtype, **named)
        if min(spec.ndim for spec in (q, k, v)) < 2:
            rule = "q, k and v with at least 2 axes"
            raise ShapeError(self.name, rule, f"{q.ndim}, {k.ndim} and {v.ndim}", **named)
        (m, d), (n, depth), (count, e) = q.shape[-2:], k.shape[-2:], v.shape[-2:]
        if d != depth:
            raise ShapeError(self.name, "q.shape[-1] == k.shape[-1]", f"{d} != {depth}", **named)
        if n != count:
            raise ShapeError(self.name, "k.shape[-2] == v.shape[-2]", f"{n} != {count}", **named)
        lead = broadcast_shapes(self.name, q.shape[:-2], k.shape[:-2], v.shape[:-2], **named)
        if mask:
            whole, given = (*lead, m, n), mask[0].shape
            pairs = zip(reversed(given), reversed(whole), strict=False)
            if len(given) > len(whole) or any(a not in (1, b) for a, b in pairs):
                rule = f"a mask that broadcasts to {whole}"
                raise ShapeError(self.name, rule, mask[0].shape, **named)
        return q.with_shape((*lead, m, e))

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *mask: Tensor, causal: bool, scale: float
    ) -> Tensor:
        p = weights(q, k, *mask, causal=causal, scale=scale)
        y: Tensor = (p @ wide(v)).astype(q.dtype)
        return y


def weights(q: Tensor, k: Tensor, *mask: Tensor, causal: bool, scale: float) -> Tensor:
    """How much each query takes of each value: q (..., m, d), k (..., n, d) -> (..., m, n)."""
    scores: Tensor = (wide(q) * scale) @ wide(k).mT
    allowed = None
    if causal:
        queries = iota(q.shape[-2], dtype="int64", device=q.device).reshape(-1, 1)
        allowed = less_equal(iota(k.shape[-2], dtype="int64", device=q.device), queries)
    if mask and mask[0].dtype.kind == "bool":
        allowed = mask[0] if allowed is None else allowed & mask[0]
    elif mask:
        scores = scores + mask[0]
    if allowed is None:
        return _shares(scores)
    if not mask:  # every query sees at least the first key
        return _shares(where(allowed, scores, -math.inf))
    # a query that sees nothing is let to see everything, and then gives nothing
    sees = any_of(allowed, axis=-1, keepdims=True)
    scores = where(logical_or(allowed, logical_not(sees)), scores, -math.inf)
    p: Tensor = where(sees, _shares(scores), 0.0)
    return p


def _shares(scores: Tensor) -> Tensor:
    p: Tensor = softmax(scores, axis=-1)
    return p


attention = Attention()


@takes_tensors
def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    training: bool = True,
) -> Tensor:
    """`attention`, in training with dropout of its weights.

    Args: dropout_p: probability that a weight becomes 0, 0 <= dropout_p <= 1; see `attention`.
    Raises: as `attention`; ArgumentError for another probability.
    """
    check_number("scaled_dot_product_attention", "dropout_p", dropout_p, 0.0, 1.0)
    if not training or dropout_p == 0.0:
        y: Tensor = attention(q, k, v, mask, causal=causal, scale=scale)
        return y
    masks = () if mask is None else (mask,)
    attention.infer(*(t.spec for t in (q, k, v, *masks)))  # raises what attention raises
    if scale is None:
        scale = 1.0 / math.sqrt(max(q.shape[-1], 1))
    p = dropout(weights(q, k, *masks, causal=causal, scale=scale), p=dropout_p)
    return (p @ wide(v)).astype(q.dtype)
