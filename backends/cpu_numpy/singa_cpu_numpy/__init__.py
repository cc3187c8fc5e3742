"""The NumPy backend of singa-core: its manifest. Device and kernels are imported on first use."""

from singa_core.registry import Manifest, Probe


def probe() -> Probe:
    """Usable wherever the package can be installed."""
    return Probe(usable=True)


manifest = Manifest(
    name="cpu_numpy",
    api=(1, 0),
    device_type="host",
    probe=probe,
    open="singa_cpu_numpy.device:open_device",
    priority=10,
)
