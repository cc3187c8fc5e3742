"""The one context variable that the engine reads: is there a tape, is something being recorded?

Both are local to a thread or an asyncio task. Training and evaluation are not modes: they are an
attribute of a layer.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from singa_core.recorder import Recorder


class Mode:
    """Immutable pair; one `get` per op reads both."""

    __slots__ = ("grad", "recorder")

    def __init__(self, grad: bool, recorder: Recorder | None) -> None:
        self.grad = grad
        self.recorder = recorder


MODE: ContextVar[Mode] = ContextVar("singa_mode", default=Mode(True, None))  # noqa: B039  (immutable)


class use_mode:  # noqa: N801  (used as a function)
    """Run a block in another mode; the old one comes back on any exit."""

    __slots__ = ("_before", "_mode")

    def __init__(self, mode: Mode) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        self._before = MODE.get()
        try:
            MODE.set(self._mode)
        except BaseException:  # an interrupt, right after it was set
            MODE.set(self._before)
            raise

    def __exit__(self, *failure: object) -> None:
        MODE.set(self._before)


class _Change(ContextDecorator):
    """A block, or a decorated function, in a mode made from the one outside.

    It keeps nothing itself: threads may share one, and a decorated function may call itself.
    """

    def change(self, mode: Mode) -> Mode:
        """The mode inside."""
        return mode

    def __enter__(self) -> None:
        before, outer = MODE.get(), _ENTERED.get()
        try:
            _ENTERED.set(_Entered(self, before, outer))
            MODE.set(self.change(before))
        except BaseException:  # an interrupt, right after one was set
            MODE.set(before)
            _ENTERED.set(outer)
            raise

    def __exit__(self, *failure: object) -> None:
        entered = _ENTERED.get()
        while entered is not None and entered.block is not self:
            entered = entered.outer  # an interrupt has kept it from being left
        if entered is not None:
            MODE.set(entered.before)
            _ENTERED.set(entered.outer)


class _Entered(NamedTuple):
    """A block that a thread or a task is in, the mode before it, and the block around it."""

    block: _Change
    before: Mode
    outer: _Entered | None


_ENTERED: ContextVar[_Entered | None] = ContextVar("singa_entered", default=None)


class no_grad(_Change):  # noqa: N801  (used as a function)
    """Run a block without a tape; also a decorator.

    >>> with no_grad():
    ...     grad_enabled()
    False
    """

    def change(self, mode: Mode) -> Mode:
        return Mode(False, mode.recorder)


class enable_grad(_Change):  # noqa: N801  (used as a function)
    """Run a block with a tape, inside a `no_grad` block too; also a decorator."""

    def change(self, mode: Mode) -> Mode:
        return Mode(True, mode.recorder)


class execute_once(_Change):  # noqa: N801  (used as a function)
    """Leave the recording, if there is one: what happens inside runs now, outside of the graph.

    For initialisation, logging to the host, and whatever belongs to the first run only. Also a
    decorator. Symbolic tensors of the recording cannot be read inside: they have no value yet.
    """

    def change(self, mode: Mode) -> Mode:
        return Mode(mode.grad, None)


def grad_enabled() -> bool:
    """True where operations on tracked tensors are put on the tape."""
    return MODE.get().grad


def recording() -> bool:
    """True while a graph is being recorded."""
    return MODE.get().recorder is not None


class Structure:
    """Counts changes to layers and gradient wishes, so that a replay compares one number."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def changed(self) -> None:
        """Say that something which a recording may depend on has changed."""
        self.count += 1


STRUCTURE = Structure()
