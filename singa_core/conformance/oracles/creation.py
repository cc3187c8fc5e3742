"""References of the fills."""

from __future__ import annotations

from typing import Any

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle
from singa_core.dtype import as_dtype


def full(*, shape: Any, value: float, dtype: Any) -> HostArray:
    """Element by element."""
    y = np.empty(shape, as_dtype(dtype).numpy)
    for place in np.ndindex(*y.shape):
        y[place] = value
    return y


def iota(*, size: int, dtype: Any) -> HostArray:
    """Python's range."""
    return np.array(list(range(size)), as_dtype(dtype).numpy)


TABLE: dict[str, Oracle] = {"full": full, "iota": iota}
