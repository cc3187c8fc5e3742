"""A device behind a library that looks like NumPy, for singa-core."""

from singa_core.registry import Manifest, Probe


def probe() -> Probe:
    """It is everywhere; there are two."""
    return Probe(usable=True, device_count=2)


manifest = Manifest(
    name="outsider",
    api=(1, 0),
    device_type="gpu",
    probe=probe,
    open="singa_outsider.device:open_device",
)
