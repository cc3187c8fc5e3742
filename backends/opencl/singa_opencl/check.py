"""A first computation, whose result is known: some drivers get vectors wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl

from singa_core.errors import DeviceFailure

if TYPE_CHECKING:
    from singa_opencl.device import OpenCLDevice

_TEXT = """
typedef float8 float8u __attribute__((aligned(4)));
__kernel void check(__global const float *x, __global float *y)
{
    float8 v = *(__global const float8u *)(x + 1);
    *(__global float8u *)(y + 1) = exp(v) + sqrt(fabs(v)) * fmax(v, (float8)(0.5f));
    y[0] = x[0] * 2.0f;
}
"""


def check_vectors(device: OpenCLDevice) -> None:
    """Raises: DeviceFailure if vectors of 8 floats give wrong numbers."""
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    y = np.zeros(9, np.float32)
    kernel = cl.Kernel(device.compiler.build("check", _TEXT), "check")
    flags = cl.mem_flags
    source = cl.Buffer(device.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
    target = cl.Buffer(device.context, flags.READ_WRITE, y.nbytes)
    kernel.set_args(source, target)
    cl.enqueue_nd_range_kernel(device.queue, kernel, (1,), (1,))
    cl.enqueue_copy(device.queue, y, target, is_blocking=True)
    wide = x.astype(np.float64)
    expected = np.exp(wide) + np.sqrt(np.abs(wide)) * np.maximum(wide, 0.5)
    expected[0] = x[0] * 2
    if not np.allclose(y, expected, rtol=1e-5):
        raise DeviceFailure(
            f"{device}: the driver {device.native.platform.version} computes wrong numbers on this "
            f"machine: {y.tolist()} instead of {expected.tolist()}\n"
            "try: another OpenCL driver"
        )
