"""Packs: distributions that add to what is there, by answering hooks.

A pack names a module in the entry-point group `singa.plugins`. The module says which interface it
was written for, `singa_api = (1, 0)`, and has functions marked with `hookimpl` under the names in
`Hooks`, each taking as many of the arguments as it wants:

    from singa_core.plugins import hookimpl

    singa_api = (1, 0)

    @hookimpl
    def singa_register_ops(ops):
        ops.add(swirl)

Packs are looked for when the first device is opened, before anything is computed, or when
`packs` is asked. One that fails is left out, with a warning that says at which stage and why:
metadata, import, handshake, hooks, ops, kernels, events. `SINGA_PLUGINS` chooses: `off` leaves all
of them out, `a,b` takes these only, and then a failure is an error, since they were named.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from difflib import get_close_matches
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from singa_core import kernels
from singa_core.device import Device, forget_entries
from singa_core.errors import ArgumentError, PluginError
from singa_core.hooks import EVENTS as EVENTS
from singa_core.hooks import HOOKS as HOOKS
from singa_core.hooks import PLUGIN_API as PLUGIN_API
from singa_core.hooks import Ops as Ops
from singa_core.hooks import PackWarning as PackWarning
from singa_core.hooks import bound, manager
from singa_core.hooks import hookimpl as hookimpl
from singa_core.offers import FAULTS, Offer, entry_points
from singa_core.optable import OPS
from singa_core.registry import registry
from singa_core.sample import output_counts

if TYPE_CHECKING:
    import pluggy

    from singa_core.training import Training

GROUP: Final = "singa.plugins"


class Pack(Offer):
    """One pack as far as it has been loaded."""

    what = "plugin"
    interface = "plugin interface"

    def __init__(self, name: str, module: ModuleType | None = None) -> None:
        super().__init__(name)
        self.module = module
        self.ops: tuple[str, ...] = ()
        self.kernels: dict[str, tuple[str, ...]] = {}  # by language, the ops they are for


class Packs:
    """The packs of this process. One instance, `packs`, serves the package."""

    def __init__(self) -> None:
        self._packs: dict[str, Pack] | None = None
        self._registered: dict[str, ModuleType] = {}
        self._lock = registry.lock  # a hook may open a device, which asks for the packs
        self._manager: pluggy.PluginManager | None = None
        self._languages: list[str] = []

    # -- what there is -----------------------------------------------------------------------------

    def all(self) -> tuple[Pack, ...]:
        """All packs that `SINGA_PLUGINS` lets in, loaded; `failure` says what is wrong with one.

        Raises: PluginError for a pack that is named there and is not installed, or fails.
        """
        with self._lock:
            if self._packs is None:
                self._packs = found = self._scan()
                try:
                    for pack in found.values():
                        self._guarded(pack, self._load)
                except PluginError:
                    self._packs = self._manager = None
                    raise
            return tuple(self._packs.values())

    def register(self, name: str, module: ModuleType) -> None:
        """Add a pack of this process, without an entry point: for notebooks and tests.

        Raises: PluginError if it cannot be used.
        """
        with self._lock:
            known = {pack.name for pack in self.all()}
            pack = Pack(name, module)
            if name in known:
                raise pack.error("metadata", f"there is a pack {name!r} already")
            self._load(pack)
            self._add_all_kernels(pack)
            self._registered[name] = module
            self._known()[name] = pack
            forget_entries()

    def refresh(self) -> None:
        """Look for packs again, for a `pip install` in a running process; loaded ones stay."""
        with self._lock:
            known = {pack.name: pack for pack in self.all() if pack.failure is None}
            self._packs = found = {**self._scan(), **known}
            for name, pack in found.items():
                if name not in known:
                    self._guarded(pack, self._load)
                    self._guarded(pack, self._add_all_kernels)
            forget_entries()

    def serve(self, device: Device) -> None:
        """Load what is there, and the kernels that it has for the languages of a device."""
        self.speak(device.languages)

    def speak(self, languages: Sequence[str]) -> None:
        """Load what is there, and the kernels that it has in some languages."""
        with self._lock:
            loaded = self.all()
            for language in languages:
                if language in self._languages:
                    continue
                self._languages.append(language)
                for pack in loaded:
                    if pack.failure is None:
                        self._guarded(pack, partial(self._add_kernels, language=language))

    def listen(self) -> bool:
        """True if some pack answers to the events of trainings."""
        self.all()
        return any(next(self._answers(event), None) for event in EVENTS)

    def tell(self, event: str, training: Training) -> None:
        """Call a training event of all packs; one that fails is left out from then on."""
        for pack, call in list(self._answers(event)):
            try:
                call(training=training)
            except FAULTS as error:
                self._leave_out(pack, pack.raised("events", event, error))

    # -- stage by stage ----------------------------------------------------------------------------

    def _known(self) -> dict[str, Pack]:
        return self._packs if self._packs is not None else {}

    def _scan(self) -> dict[str, Pack]:
        found: dict[str, Pack] = {}
        wanted = chosen()
        if wanted == ():
            return found
        for point in sorted(entry_points(GROUP), key=lambda p: (p.name, p.value)):
            if wanted is None or point.name in wanted:
                found.setdefault(point.name, Pack(point.name)).points.append(point)
        for name, module in self._registered.items():
            found[name] = Pack(name, module)
        for name in wanted or ():
            if name not in found:
                known = ", ".join(sorted({p.name for p in entry_points(GROUP)})) or "none"
                reason = f"named in SINGA_PLUGINS and not installed; installed: {known}"
                raise Pack(name).error("metadata", reason)
        return found

    def _guarded(self, pack: Pack, stage: Callable[[Pack], None]) -> None:
        """Run a stage; a failure is a warning, or an error if the user has named the pack."""
        try:
            stage(pack)
        except PluginError as error:
            self._leave_out(pack, error)

    def _leave_out(self, pack: Pack, error: PluginError) -> None:
        pack.failure = copy(error)  # a copy has no traceback, which would keep callers' frames
        if self._manager is not None and self._manager.has_plugin(pack.name):
            self._manager.unregister(name=pack.name)
        if chosen() is not None:
            raise error
        left_out = "it is left out; SINGA_PLUGINS=off leaves out all packs without a word"
        warnings.warn(f"{error}\n  {left_out}", PackWarning, stacklevel=2)

    def _load(self, pack: Pack) -> None:
        """Stages metadata, import, handshake, hooks and ops."""
        if pack.module is None:
            pack.module = pack.load("import")
        check_api(pack)
        self._hook_up(pack)
        ops = Ops()
        try:
            for call in self._calls(pack, "singa_register_ops"):
                call(ops=ops)
        except FAULTS as error:
            raise pack.raised("ops", "singa_register_ops", error) from error
        pack.ops = tuple(ops.names)

    def _hook_up(self, pack: Pack) -> None:
        """Let pluggy look at the pack's hooks."""
        import pluggy  # noqa: PLC0415  (see hookimpl)

        if self._manager is None:
            self._manager = manager()
        alone = manager()  # a pack that fails half-way leaves its first hooks behind
        try:
            alone.register(pack.module, pack.name)
        except pluggy.PluginValidationError as error:
            _, mine, wrong = f"{error}\n\n".split("\n")[:3]
            raise pack.error("hooks", f"{mine.partition(': ')[2]}: {wrong}") from error
        callers = alone.get_hookcallers(pack.module) or []
        if not callers:
            rule = f"needs a function marked with hookimpl, one of {', '.join(HOOKS)}"
            raise pack.error("hooks", rule)
        for caller in callers:
            if not caller.has_spec():
                close = get_close_matches(caller.name, HOOKS, n=1)
                hint = close[0] if close else f"one of {', '.join(HOOKS)}"
                raise pack.error("hooks", f"there is no hook {caller.name!r}", hint)
            if any(impl.wrapper or impl.hookwrapper for impl in caller.get_hookimpls()):
                raise pack.error("hooks", f"{caller.name} is a wrapper, which no hook here takes")
        self._manager.register(pack.module, pack.name)

    def _add_all_kernels(self, pack: Pack) -> None:
        for language in self._languages:
            self._add_kernels(pack, language)

    def _add_kernels(self, pack: Pack, language: str) -> None:
        """Stage kernels: all that a pack has in a language, or none."""
        table = kernels.table(language)
        draft = table.draft()
        try:
            for call in self._calls(pack, "singa_register_kernels"):
                call(language=language, table=draft)
            for op in draft.ops():
                if op not in OPS:
                    close = get_close_matches(op, OPS, n=1)
                    hint = close[0] if close else None
                    raise ArgumentError(f"kernel {op}", "the name of an operation", op, hint=hint)
                check_outputs(op, draft.signatures(op))
            table.take(draft)
        except FAULTS as error:
            told = f"singa_register_kernels for {language!r}"
            raise pack.raised("kernels", told, error) from error
        pack.kernels[language] = draft.ops()

    # -- calls -------------------------------------------------------------------------------------

    def _answers(self, hook: str) -> Iterator[tuple[Pack, Callable[..., Any]]]:
        """Who answers a hook, in pluggy's order, and the function to call with all arguments."""
        if self._manager is None:
            return
        for impl in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            pack = self._known().get(impl.plugin_name) or Pack(impl.plugin_name)
            yield pack, bound(impl)

    def _calls(self, pack: Pack, hook: str) -> Iterator[Callable[..., Any]]:
        """The answers of one pack."""
        return (call for at, call in list(self._answers(hook)) if at.name == pack.name)


def chosen() -> tuple[str, ...] | None:
    """The names in `SINGA_PLUGINS`; () for `off`, None if it is not set."""
    text = os.environ.get("SINGA_PLUGINS", "").strip()
    if not text:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    return () if text.lower() == "off" else names


def check_outputs(op: str, signatures: Sequence[str]) -> None:
    """Raises: ArgumentError for a kernel with other outputs than the op has in all its samples."""
    counts: set[int] | None = None
    for signature in signatures:
        got = signature.partition("->")[2].count(",") + 1
        if signature == kernels.ALL_SIGNATURES:
            continue
        counts = set(output_counts(OPS[op])) if counts is None else counts
        if counts and got not in counts:
            told = " or ".join(map(str, sorted(counts)))
            rule = f"a signature with as many outputs as {op} has: {told}"
            raise ArgumentError(f"kernel {op}", rule, f"{got} in {signature!r}")


def check_api(pack: Pack) -> None:
    """Raises: PluginError unless the pack was written for an interface that this core speaks."""
    api = getattr(pack.module, "singa_api", None)
    pair = isinstance(api, tuple) and len(api) == 2 and all(type(n) is int for n in api)
    if not isinstance(api, tuple) or not pair:
        at = getattr(pack.module, "__name__", type(pack.module).__name__)
        got = "none" if api is None else repr(api)
        raise pack.error("handshake", f"needs singa_api = (major, minor) in {at}, got {got}")
    pack.check_api(api, PLUGIN_API)


packs: Final = Packs()
