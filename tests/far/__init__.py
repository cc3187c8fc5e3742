"""The "far" backend: its manifest. Only tests have it; `register()` makes it known to this process."""

from singa_core.registry import Manifest, Probe, registry

MANIFEST = Manifest(
    name="far",
    api=(1, 0),
    device_type="far",
    probe=lambda: Probe(usable=True, device_count=2),
    open="far.device:FarDevice",
    priority=-1,
)


def register() -> None:
    registry.register(MANIFEST)
