"""The OpenCL backend of singa-core: its manifest. The driver is looked for on first use."""

from singa_core.registry import Manifest, Probe


def probe() -> Probe:
    """Usable if there is a driver with a device that can compute."""
    from singa_opencl.choice import find  # noqa: PLC0415  (imports pyopencl)

    return find()


manifest = Manifest(
    name="opencl",
    api=(1, 0),
    device_type="opencl",
    probe=probe,
    open="singa_opencl.device:open_device",
    priority=5,
)
