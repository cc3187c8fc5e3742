"""Hooks: what a pack may answer, and how one says that it does. See `singa_core.plugins`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singa_core.errors import ArgumentError
from singa_core.kernels import KernelTable
from singa_core.operation import Operation
from singa_core.optable import OPS

if TYPE_CHECKING:
    import pluggy

    from singa_core.training import Training

PLUGIN_API: Final = (1, 0)
"""Version of the interface between core and packs. A minor step only adds hooks and arguments."""
PROJECT: Final = "singa"  # pluggy's name for our hooks
_F = TypeVar("_F", bound=Callable[..., Any])


def hookimpl(function: _F) -> _F:
    """Decorator: this function of a pack answers the hook of its name."""
    import pluggy  # noqa: PLC0415  (7 ms that nobody pays who has no packs)

    return pluggy.HookimplMarker(PROJECT)(function)


class PackWarning(UserWarning):
    """A pack that cannot be used is left out."""


class Hooks:
    """What a pack may answer."""

    def singa_register_ops(self, ops: Ops) -> None:
        """Name the pack's operations, with `ops.add(...)`: once, before anything is computed."""

    def singa_register_kernels(self, language: str, table: KernelTable) -> None:
        """Add kernels in a language, once for each language that an opened device speaks.

        `table` is written to as any kernel table: `table.kernel(...)`, `table.prepared(...)`. What
        was added counts once the hook has returned.
        """

    def singa_on_setup(self, training: Training) -> None:
        """As `Callback.on_setup`, for every training; and so the others below."""

    def singa_on_train_begin(self, training: Training) -> None:
        """Before the first epoch of a run."""

    def singa_on_epoch_begin(self, training: Training) -> None:
        """Before the first step of an epoch."""

    def singa_on_step_end(self, training: Training) -> None:
        """After a step."""

    def singa_on_epoch_end(self, training: Training) -> None:
        """After an epoch."""

    def singa_on_interrupted(self, training: Training) -> None:
        """After Ctrl-C or a loader's failure."""

    def singa_on_train_end(self, training: Training) -> None:
        """After everything, also if that was an error."""


HOOKS: Final = tuple(name for name in vars(Hooks) if name.startswith("singa_"))
EVENTS: Final = tuple(name for name in HOOKS if name.startswith("singa_on_"))


class Ops:
    """Where a pack names its operations."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def add(self, *operations: Operation) -> None:
        """Name operations. Raises: ArgumentError for what is none, or not the one of its name."""
        for op in operations:
            if not isinstance(op, Operation):
                hint = "an instance of it" if isinstance(op, type) else None
                raise ArgumentError("ops.add", "an Operation", repr(op), hint=hint)
            if OPS.get(op.name) is not op:
                rule = f"the operation that is registered as {op.name!r}"
                raise ArgumentError("ops.add", rule, f"another one, of {type(op).__module__}")
        self.names += [op.name for op in operations]


def bound(impl: Any) -> Callable[..., Any]:
    """A hook's function, which gets those of the arguments that it takes."""

    def call(**given: Any) -> Any:
        return impl.function(*[given[name] for name in impl.argnames])

    return call


def manager() -> pluggy.PluginManager:
    """Pluggy's side of it."""
    import pluggy  # noqa: PLC0415  (see hookimpl)

    mark, made = pluggy.HookspecMarker(PROJECT), pluggy.PluginManager(PROJECT)
    for name in HOOKS:
        mark(vars(Hooks)[name])
    made.add_hookspecs(Hooks)
    return made
