"""Node: one application of an operation, for the tape, the recorded graph and the exporter alike.

A value is `(node, index)`. A Node knows where its inputs come from and nothing of who uses its
outputs; it holds no memory except what its operation `keeps` for the backward pass.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from singa_core.spec import Spec

if TYPE_CHECKING:
    from singa_core.resolve import Entry
    from singa_core.tensor import Tensor

Value = tuple["Node", int]
SourceKind = Literal["leaf", "arg", "cell", "scalar", "const"]

_SEQUENCE = count()


class Node:
    """`op(*inputs, **attrs)`, numbered in the order of application.

    Args:
        entry: the op, its settled attributes and its specs (shared by all equal applications).
        inputs: per input the value it came from; None where an eager input is not tracked.
        saved: arrays kept for backward (eager only), in the order of the op's `keeps`.
        tracked: True if gradients flow through it.
        token: the recording it belongs to, None for the eager tape.
    """

    __slots__ = ("entry", "hooks", "inputs", "saved", "sequence", "token", "tracked")

    def __init__(
        self,
        entry: Entry,
        inputs: tuple[Value | None, ...],
        saved: tuple[Any, ...],
        tracked: bool,
        token: object = None,
    ) -> None:
        self.entry: Entry = entry
        self.inputs: tuple[Value | None, ...] | None = inputs
        self.saved = saved
        self.tracked = tracked
        self.token = token
        self.sequence = next(_SEQUENCE)
        self.hooks: dict[int, list[Callable[[Tensor], Tensor | None]]] | None = None

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Specs of the outputs."""
        return self.entry.specs

    def strip(self) -> None:
        """Free what backward no longer needs. A second backward through here is a typed error."""
        self.inputs = None
        self.saved = ()

    def __repr__(self) -> str:
        return f"<{self.entry.op.name} #{self.sequence}>"


class Source(Node):
    """Where values enter: a leaf of the tape; an argument, cell, scalar or constant of a recording.

    `payload` is the cell, the scalar's number or the constant's array. A leaf and an argument know
    their Tensor only weakly: the Tensor holds its Source, and a cycle would keep memory. A leaf of
    a recording (a parameter after it was assigned) has the assigned value as its one input;
    `origin` is the parameter's first source, where all its gradients meet.
    """

    __slots__ = ("_specs", "kind", "origin", "payload")

    def __init__(
        self, kind: SourceKind, spec: Spec, payload: Any, tracked: bool, token: object = None
    ) -> None:
        self.kind: SourceKind = kind
        self.origin: Source | None = None
        self._specs = (spec,)
        self.payload = payload
        self.inputs = ()
        self.saved = ()
        self.tracked = tracked
        self.token = token
        self.sequence = next(_SEQUENCE)
        self.hooks = None

    @property
    def specs(self) -> tuple[Spec, ...]:
        """The one spec of the source."""
        return self._specs

    @property
    def cell(self) -> Tensor | None:
        """The Tensor that a gradient arriving here belongs to, if it is still alive."""
        if self.kind in ("leaf", "arg"):
            found: Tensor | None = self.payload()
            return found
        return self.payload if self.kind == "cell" else None

    def __repr__(self) -> str:
        return f"<{self.kind} #{self.sequence} {self._specs[0]}>"


def flows(value: Value | None) -> bool:
    """True if a gradient may flow back into this value: its Node is tracked, and it is floating."""
    return value is not None and value[0].tracked and value[0].specs[value[1]].dtype.is_floating


def collected(value: Value) -> Value:
    """Where a value's gradient is collected: a leaf stays one, however often it is assigned."""
    node = value[0]
    return (node.origin, 0) if isinstance(node, Source) and node.origin is not None else value


def leaf(tensor: Tensor, spec: Spec) -> Source:
    """The tape's entry for a Tensor that wants a gradient."""
    return Source("leaf", spec, weakref.ref(tensor), tracked=True)
