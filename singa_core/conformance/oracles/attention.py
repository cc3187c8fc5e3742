"""Reference of attention: query by query."""

from __future__ import annotations

import math

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, wide


def attention(
    q: HostArray,
    k: HostArray,
    v: HostArray,
    *mask: HostArray,
    causal: bool = False,
    scale: float | None = None,
) -> HostArray:
    """Each query's mean over the keys that it sees."""
    q, k, v = wide(q), wide(k), wide(v)
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (q, k, v))
    m, n = q.shape[-2], k.shape[-2]
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    extra = np.broadcast_to(wide(mask[0]), (*lead, m, n)) if mask else None
    y = np.zeros((*lead, m, v.shape[-1]))
    for at in np.ndindex(*lead, m):
        batch, i = at[:-1], at[-1]
        seen = [j for j in range(n) if j <= i or not causal]
        if extra is not None and extra.dtype == bool:
            seen = [j for j in seen if extra[batch][i, j]]
        scores = np.array([factor * float(q[at] @ k[batch][j]) for j in seen])
        if extra is not None and extra.dtype != bool:
            scores = scores + extra[batch][i, seen]
        if seen:
            p = np.exp(scores - np.logaddexp.reduce(scores))
            y[at] = p @ v[batch][seen]
    return y


TABLE: dict[str, Oracle] = {"attention": attention}
