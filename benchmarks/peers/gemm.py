"""A square matrix product in NumPy: what the machine's arithmetic is good for just now."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.serve import Call, serve
from benchmarks.workloads import Workload

SIZE = 768
FLOPS = 2.0 * SIZE**3


def build(workload: Workload, part: str) -> tuple[Call, str]:
    """The call, see `serve`; the workload has no say in it."""
    a, b, y = (np.ones((SIZE, SIZE), np.float32) for _ in range(3))
    return lambda i: np.matmul(a, b, y), f"NumPy {np.__version__}"


if __name__ == "__main__":
    serve(build)
