"""References of the products."""

from __future__ import annotations

from typing import Any

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, wide


def matmul(a: HostArray, b: HostArray) -> Any:
    """The sum over k, by einsum."""
    left = "k" if a.ndim == 1 else "...ik"
    right = "k" if b.ndim == 1 else "...kj"
    rows, columns = "" if a.ndim == 1 else "i", "" if b.ndim == 1 else "j"
    batch = "..." if "." in left + right else ""
    return np.einsum(f"{left},{right}->{batch}{rows}{columns}", wide(a), wide(b))


TABLE: dict[str, Oracle] = {"matmul": matmul}
