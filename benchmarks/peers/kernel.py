"""One kernel alone, writing into the same output again and again.

Options: what computes ("numpy", or a device), and what ("matmul-512", "conv").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import singa_core
from benchmarks.peers.serve import Call, serve
from benchmarks.workloads import Workload
from singa_core.kernels import table
from singa_core.ops import conv, matmul, zeros

BATCH, CHANNELS, SIZE, KERNEL = 16, 64, 32, 3  # of the convolution, as many filters as channels


def flops(what: str) -> float:
    """Floating-point operations of one call."""
    name, _, size = what.partition("-")
    if name == "matmul":
        return 2.0 * int(size) ** 3
    return 2.0 * BATCH * CHANNELS * SIZE**2 * CHANNELS * KERNEL**2


def build(workload: Workload, part: str, library: str, what: str) -> tuple[Call, str]:
    """The call, see `serve`; the workload has no say in it."""
    random = np.random.default_rng(0)
    name, _, size = what.partition("-")
    if name == "matmul":
        shapes: tuple[tuple[int, ...], ...] = ((int(size), int(size)),) * 2
        attrs: dict[str, Any] = {}
    else:
        shapes = (BATCH, CHANNELS, SIZE, SIZE), (CHANNELS, CHANNELS, KERNEL, KERNEL)
        attrs = {"padding": KERNEL // 2}
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    if library == "numpy":
        a, b = arrays
        out = np.empty((int(size), int(size)), np.float32)
        return lambda i: np.matmul(a, b, out), f"NumPy {np.__version__}"
    device = singa_core.device(library)
    op = matmul if name == "matmul" else conv
    return alone(device, op, [singa_core.tensor(a, device=device) for a in arrays], attrs), str(
        device
    )


def alone(device: Any, op: Any, inputs: list[Any], attrs: dict[str, Any]) -> Callable[[int], Any]:
    """The kernel that serves an op, without the engine."""
    y = op(*inputs, **attrs)
    specs = [t.spec for t in inputs]
    settled = op.settle(*specs, **dict(zip(op.attributes, op.pack(attrs), strict=True)))
    dtypes = [s.dtype for s in specs]
    for language in device.languages:
        kernel = table(language).find(op.name, dtypes, [y.dtype])
        if kernel is not None:
            break
    else:
        raise RuntimeError(f"{device} has no kernel for {op.name}")
    found = kernel.prepare(device.target(language), specs, [y.spec], **settled)
    launch, nbytes = found if isinstance(found, tuple) else (found, None)
    tensors = [*inputs, y]
    if nbytes is not None:
        tensors.append(zeros((nbytes,), dtype="uint8", device=device))
    handles = [t.array.handle for t in tensors]

    def call(i: int, kept: Any = tensors) -> Any:
        device.call(launch, *handles)
        return y

    return call


if __name__ == "__main__":
    serve(build)
