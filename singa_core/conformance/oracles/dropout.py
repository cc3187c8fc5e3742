"""Reference of dropout."""

from __future__ import annotations

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, real
from singa_core.conformance.oracles.random import bernoulli


def dropout(x: HostArray, state: HostArray, *, p: float) -> tuple[HostArray, HostArray]:
    """What is left, and where."""
    mask = ~bernoulli(state, shape=x.shape, p=p)
    y = np.zeros(x.shape)
    y[mask] = real(x)[mask] / (1.0 - p or 1.0)
    return y, mask


TABLE: dict[str, Oracle] = {"random_dropout": dropout}
