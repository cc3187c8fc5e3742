"""Finding and loading backends: lazily, one at a time, and with an error that says where it broke.

A backend's entry point (group `singa.backends`) names a `Manifest`: a small object whose module
imports nothing heavy. Stages, each named in errors: metadata (which distribution offers the name),
manifest (import it), handshake (interface version), probe (can it run here), import (the backend's
own module), init (open one device). A backend nobody asked for is never touched.
"""

from __future__ import annotations

import importlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from singa_core.checks import as_integer, as_integers
from singa_core.device import Device
from singa_core.errors import BackendNotFound, DeviceError, PluginError
from singa_core.hints import install_hint, known_distributions, meant_hint
from singa_core.offers import FAULTS, Offer, cause, entry_points

GROUP: Final = "singa.backends"
BACKEND_API: Final = (1, 0)
"""Version of the interface between core and backends. A minor step only adds what has a default."""


@dataclass(frozen=True)
class Probe:
    """What a backend found on this machine.

    Args:
        usable: it can run here.
        reason: shown to the user when it is not usable.
        device_count: how many devices there are.
        kinds: of each device "cpu", "gpu" or another word; none: all are of the manifest's
            `device_type`. `"gpu"` never means a device of kind "cpu".
    """

    usable: bool
    reason: str = ""
    device_count: int = 1
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """What a backend says of itself before it is imported.

    Args:
        name: equals the entry point's name.
        api: the BACKEND_API it was written for.
        device_type: "host" for host memory, else a kind of device such as "gpu".
        probe: cheap check (under a second) that never raises.
        open: "module:function", called as `function(index) -> Device`, imported on first use.
        priority: higher wins where the user did not name a backend.
    """

    name: str
    api: tuple[int, int]
    device_type: str
    probe: Callable[[], Probe]
    open: str
    priority: int = 0


class _Known(Offer):
    """A backend as far as it has been loaded."""

    what = "backend"
    interface = "interface"

    def __init__(self, name: str, manifest: Manifest | None = None) -> None:
        super().__init__(name)
        self.manifest = manifest
        self.probe: Probe | None = None
        self.devices: dict[int, Device] = {}


class Registry:
    """The backends of this process. One instance, `registry`, serves the package."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] | None = None
        self._registered: dict[str, Manifest] = {}
        self.lock = threading.RLock()
        self.on_open: list[Callable[[Device], None]] = []
        """Called with each device that is opened, before anybody else gets it."""

    # -- what there is --------------------------------------------------------------------------

    def register(self, manifest: Manifest) -> None:
        """Add a backend of this process, without an entry point. It hides an installed namesake."""
        check_manifest(manifest, _Known(str(getattr(manifest, "name", manifest))))
        with self.lock:
            self._registered[manifest.name] = manifest
            if self._known is not None:
                self._known[manifest.name] = _Known(manifest.name, manifest)

    def unregister(self, name: str) -> None:
        """Forget a backend added by `register`; an installed namesake can be seen again."""
        with self.lock:
            if self._registered.pop(name, None) is not None and self._known is not None:
                del self._known[name]
                self.refresh()

    def refresh(self) -> None:
        """Look at installed distributions again, for a `pip install` in a running process."""
        with self.lock:
            fresh = self._scan()
            for name, known in (self._known or {}).items():
                if name in fresh and known.devices:  # arrays may live there: keep the open devices
                    fresh[name] = known
            self._known = fresh

    def names(self) -> tuple[str, ...]:
        """The names of all backends found, loaded or not."""
        return tuple(sorted(self._all()))

    def _all(self) -> dict[str, _Known]:
        with self.lock:
            if self._known is None:
                self._known = self._scan()
            return self._known

    def _scan(self) -> dict[str, _Known]:
        known: dict[str, _Known] = {}
        for point in entry_points(GROUP):
            known.setdefault(point.name, _Known(point.name)).points.append(point)
        for name, manifest in self._registered.items():
            known[name] = _Known(name, manifest)
        return known

    # -- stage by stage ---------------------------------------------------------------------------

    def manifest(self, name: str) -> Manifest:
        """The manifest of a backend, imported and checked. Raises: PluginError, BackendNotFound."""
        known = self._find(name)
        with self.lock:
            if known.manifest is None:
                known.manifest = self._once(known, load_manifest)
            return known.manifest

    def probe(self, name: str) -> Probe:
        """What the backend says of this machine; asked once."""
        manifest, known = self.manifest(name), self._find(name)
        with self.lock:
            if known.probe is None:
                known.probe = ask(manifest)
            return known.probe

    def device(self, name: str, index: int = 0) -> Device:
        """Device `index` of a backend, opened on first use. Raises: PluginError, DeviceError."""
        manifest, known = self.manifest(name), self._find(name)
        found = known.devices.get(index)
        if found is not None:
            return found
        with self.lock:
            probe = self.probe(name)
            if not probe.usable:
                raise known.error("probe", f"not usable here: {probe.reason}")
            if not 0 <= index < (count := probe.device_count):
                raise no_such_index(name, index, count, name)
            if index not in known.devices:
                device = open_device(manifest, index, known)
                for call in self.on_open:
                    call(device)
                known.devices[index] = device
            return known.devices[index]

    def _once(self, known: _Known, load: Callable[[_Known], Manifest]) -> Manifest:
        """Run a stage; what failed once fails again with the same words, without another import."""
        if known.failure is None:
            try:
                return load(known)
            except PluginError as error:
                # a copy has neither traceback nor cause, which would keep the callers' frames
                known.failure = copy(error)
                raise
        raise copy(known.failure)

    def check_name(self, name: str) -> None:
        """Raises: BackendNotFound, with what to do, if there is no backend of this name."""
        self._find(name)

    def _find(self, name: str) -> _Known:
        known = self._all()
        if name not in known:
            reason = f"no such backend; installed: {', '.join(sorted(known)) or 'none'}"
            raise BackendNotFound(name, "metadata", reason, hint=meant_hint(name, known, ALIASES))
        return known[name]

    # -- device names -----------------------------------------------------------------------------

    def resolve(self, name: str | None = None) -> Device:
        """The device a user's name means: `<backend>[:index]`, an alias, or None for the default.

        `"cpu"` and the default are the host backend of highest priority, unprobed until opened;
        `"gpu"` and `"auto"` probe from the highest priority down and take the first usable one;
        `"gpu"` counts no device that is a CPU. `SINGA_DEVICE` in the environment replaces the
        default.

        Raises: BackendNotFound, PluginError, DeviceError.
        """
        text = (os.environ.get("SINGA_DEVICE") or "cpu") if name is None else name
        backend, index = split_name(text)
        if backend == "cpu":
            return self.device(self._host(), index)
        if backend in ("gpu", "auto"):
            return self.device(*self._first_usable(backend, index))
        return self.device(backend, index)

    def _loadable(self) -> list[Manifest]:
        """Manifests that load; a broken backend does not stand in the way of others."""
        manifests = []
        for name in self.names():
            try:
                manifests.append(self.manifest(name))
            except PluginError:
                continue
        return manifests

    def _host(self) -> str:
        for manifest in candidates("cpu", self._loadable()):
            return manifest.name
        raise self._nothing("cpu", "no usable host backend")

    def _first_usable(self, alias: str, index: int) -> tuple[str, int]:
        refused = []
        for manifest in candidates(alias, self._loadable()):
            probe = self.probe(manifest.name)
            meant = places(alias, probe.device_count, probe.kinds) if probe.usable else []
            if index < len(meant):
                return manifest.name, meant[index]
            if meant:
                raise no_such_index(alias, index, len(meant), manifest.name)
            cpus = f"its devices are CPUs; {manifest.name!r} means them"
            why = cpus if probe.usable else probe.reason
            refused.append(f"{manifest.name} ({why})")
        raise self._nothing(alias, "; ".join(refused) or "no backend of this kind")

    def _nothing(self, alias: str, reason: str) -> BackendNotFound:
        broken = [f"{k.name} ({k.failure.reason})" for k in self._all().values() if k.failure]
        if broken:
            reason = f"{reason}; broken: {', '.join(broken)}"
        known = known_distributions("gpu" if alias == "gpu" else "host")
        absent = [name for name in known if name not in self._all()]
        hint = install_hint(absent[0]) if absent else "singa doctor"
        return BackendNotFound(alias, "metadata", reason, hint=hint)


def load_manifest(known: _Known) -> Manifest:
    """Stages metadata, manifest and handshake."""
    manifest = known.load("manifest")
    check_manifest(manifest, known)
    return manifest  # type: ignore[no-any-return]  # checked above


def check_manifest(manifest: object, known: _Known) -> None:
    """Raises: PluginError unless it is a Manifest of the right name and a known interface."""
    if not isinstance(manifest, Manifest):
        reason = f"expected a singa_core.registry.Manifest, got {type(manifest).__name__}"
        raise known.error("manifest", reason)
    if not is_name(manifest.name):
        rule = "letters, digits, . _ - and no alias of devices"
        raise known.error("manifest", f"expected a name of {rule}, got {manifest.name!r}")
    if manifest.name != known.name:
        reason = f"entry point {known.name!r} but Manifest.name is {manifest.name!r}"
        raise known.error("manifest", reason)
    wrong = [what for what, good in fields(manifest) if not good]
    if wrong:
        raise known.error("manifest", f"expected {wrong[0]} in the Manifest")
    known.check_api(manifest.api, BACKEND_API)


def is_name(name: object) -> bool:
    """True if `<name>:<index>` can mean this backend and nothing else."""
    plain = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_.-]+", name) is not None
    return plain and name not in ALIASES


def fields(manifest: Manifest) -> Iterator[tuple[str, bool]]:
    """What each field must be, and whether it is: one that is not must not break other backends."""
    api, place = manifest.api, manifest.open
    pair = isinstance(api, tuple) and len(api) == 2 and as_integers(api) is not None
    yield "api=(major, minor)", pair
    yield "a device_type of text", isinstance(manifest.device_type, str)
    yield "a callable probe", callable(manifest.probe)
    yield "open='module:function'", isinstance(place, str) and all(place.partition(":"))
    yield "an integer priority", as_integer(manifest.priority) is not None


def ask(manifest: Manifest) -> Probe:
    """The backend's probe, or one that says what was wrong with it."""
    try:
        found = manifest.probe()
    except FAULTS as error:
        return Probe(usable=False, reason=f"probe raised {cause(error)}; it must not raise")
    if not isinstance(found, Probe):
        kind = type(found).__name__
        return Probe(usable=False, reason=f"probe gave {kind}, expected singa_core.registry.Probe")
    count = as_integer(found.device_count)
    if not isinstance(found.usable, bool) or count is None or count < 0:
        rule = "usable to be True or False, and an integer device_count >= 0"
        return Probe(usable=False, reason=f"probe gave {found}, expected {rule}")
    kinds = found.kinds
    words = isinstance(kinds, tuple) and all(isinstance(kind, str) for kind in kinds)
    if not words or (kinds and len(kinds) != count):
        rule = "kinds to be a tuple of a word for each device, or of none"
        return Probe(usable=False, reason=f"probe gave {found}, expected {rule}")
    return found


def open_device(manifest: Manifest, index: int, known: _Known) -> Device:
    """Stages import and init."""
    module, _, function = manifest.open.partition(":")
    try:
        opener = getattr(importlib.import_module(module), function)
    except FAULTS as error:
        raise known.raised("import", f"import of {manifest.open}", error) from error
    try:
        device = opener(index)
    except DeviceError:
        raise
    except FAULTS as error:
        raise known.raised("init", f"{manifest.open}({index})", error) from error
    if not isinstance(device, Device):
        reason = f"{manifest.open} gave {type(device).__name__}, expected a singa_core Device"
        raise known.error("init", reason)
    return device


class Ranked(Protocol):
    """What of a manifest an alias looks at."""

    @property
    def name(self) -> str: ...

    @property
    def device_type(self) -> str: ...

    @property
    def priority(self) -> int: ...


R = TypeVar("R", bound=Ranked)
ALIASES: Final = {"cpu": (True,), "gpu": (False,), "auto": (True, False)}
"""What a user may say for a backend: does it mean those in host memory, the others, or all."""


def candidates(alias: str, manifests: Iterable[R]) -> list[R]:
    """Those that `"cpu"` (host memory), `"gpu"` (none) or `"auto"` (all) may mean, best first."""
    kinds = ALIASES[alias]
    fitting = [m for m in manifests if (m.device_type == "host") in kinds]
    return sorted(fitting, key=lambda m: (-m.priority, m.name))


def no_such_index(name: str, index: int, count: int, backend: str) -> DeviceError:
    """The error for an index beyond the `count` devices of a backend that a name may mean."""
    number = f"{count} device{'s' * (count != 1)}" if count else "no device"
    hint = f"singa devices {backend} (it has {number})"
    return DeviceError(f"device {name}:{index}", f"0 <= index < {count}", index, hint=hint)


def places(alias: str, count: int, kinds: Sequence[str]) -> list[int]:
    """Those of `count` devices of a backend that an alias may mean: for `"gpu"` no CPU."""
    return [i for i in range(count) if alias != "gpu" or not kinds or kinds[i] != "cpu"]


def split_name(text: str) -> tuple[str, int]:
    """`"name:2"` -> ("name", 2). Raises: DeviceError if the index is not a number."""
    backend, colon, index = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not backend or (colon and not index.isdecimal()):
        raise DeviceError("device", "a name like '<backend>' or '<backend>:1'", repr(text))
    return backend, int(index or 0)


registry: Final = Registry()
