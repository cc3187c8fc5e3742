"""Recorder: turns calls of operations into Nodes, without running them.

While a recorder is active, cells are never written: `overlay` says which value a cell names *in the
recording*. An exception therefore needs no undoing, and other threads keep seeing real values.
Every concrete tensor met is a cell source, read at each replay; what is born from host data inside
the recording is a constant. Host-side effects that replays must repeat, in order (read a rate,
advance a counter, draw from a random stream) are the *host program*.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from singa_core.attributes import Attrs
from singa_core.device import Device
from singa_core.errors import DeviceError, GradientError, RecordingError
from singa_core.host import leaked, user_line
from singa_core.mode import MODE, Mode
from singa_core.node import Node, Source, Value, collected, flows
from singa_core.operation import Operation, apply, as_tensors, cast_all
from singa_core.optable import OPS
from singa_core.resolve import find_entry
from singa_core.spec import Spec
from singa_core.tensor import Tensor, apart


class RecordingWarning(UserWarning):
    """Something in a recorded function is frozen into the graph."""


class Rewindable(Protocol):
    """Host state that replays move; one that failed before it changed anything moves it back."""

    def moment(self) -> int:
        """Where it is."""

    def rewind(self, moment: int) -> None:
        """Back to where it was."""


@dataclass
class HostStep:
    """One line of the host program: call `function`; its value feeds scalar `slot`, if it has one.

    `moves`: the host state that the call changes, if it does.
    """

    function: Callable[[], Any]
    slot: int | None = None
    moves: Rewindable | None = None


@dataclass
class GradState:
    """What a recording does to one tensor's `.grad`: what it found there, and what it leaves."""

    owner: Tensor
    found: Tensor | None
    left: Tensor | None


@dataclass
class Recorder:
    """The state of one recording on one device."""

    device: Device
    token: object = field(default_factory=object)
    nodes: list[Node] = field(default_factory=list)
    args: list[Tensor] = field(default_factory=list)
    cells: dict[int, Source] = field(default_factory=dict)
    overlay: dict[int, tuple[Tensor, Value]] = field(default_factory=dict)
    scalars: list[Source] = field(default_factory=list)
    host: list[HostStep] = field(default_factory=list)
    grads: dict[int, GradState] = field(default_factory=dict)
    reads: dict[Any, Source] = field(default_factory=dict)
    met: dict[int, Any] = field(default_factory=dict)
    spent: set[Node] = field(default_factory=set)

    def meet(self, owner: Any) -> None:
        """The recording depends on `owner.fingerprint()`: a layer or an optimiser takes part."""
        self.met[id(owner)] = owner

    # -- sources -----------------------------------------------------------------------------------

    def placeholder(self, spec: Spec, *, tracked: bool = False) -> Tensor:
        """A new argument of the recording."""
        tensor = Tensor(None)
        tensor.node = Source("arg", spec, weakref.ref(tensor), tracked, self.token)
        self.args.append(tensor)
        return tensor

    def constant(self, host: npt.NDArray[Any], spec: Spec) -> Tensor:
        """A value born from host data inside the recording."""
        kept = np.array(host, order="C", copy=True)
        return Tensor(None, Source("const", spec, kept, False, self.token))

    def scalar(
        self, function: Callable[[], Any], spec: Spec, *, moves: Rewindable | None = None
    ) -> Tensor:
        """A value that the host program computes before each replay.

        Two reads of one function share a slot unless an effect lies between them.
        """
        if moves is not None:
            self.reads.clear()
        elif (function, spec) in self.reads:
            return Tensor(None, self.reads[function, spec])
        source = Source("scalar", spec, len(self.scalars), False, self.token)
        self.scalars.append(source)
        self.host.append(HostStep(function, len(self.scalars) - 1, moves))
        if moves is None:
            self.reads[function, spec] = source
        return Tensor(None, source)

    def effect(self, function: Callable[[], Any], moves: Rewindable) -> None:
        """A host-side effect that each replay repeats at this place of the host program."""
        self.reads.clear()
        self.host.append(HostStep(function, None, moves))

    def warn_baked(self, host: npt.NDArray[Any]) -> None:
        """Say once per line that host data become a constant of the graph."""
        if host.size <= 1:
            return
        file, _, line = user_line().rpartition(":")
        text = (
            f"tensor of shape {host.shape} made from host data while a graph is recorded: "
            "it is a constant of the graph; pass it as an argument if it changes"
        )
        warnings.warn_explicit(RecordingWarning(text), None, file, int(line))

    # -- values ------------------------------------------------------------------------------------

    def value(self, tensor: Tensor) -> Value:
        """What a tensor names in this recording.

        Raises: RecordingError for a symbolic tensor of another recording; GradientError for a
        tensor
            with an eager tape, whose gradient would be lost; DeviceError for another device.
        """
        found = self.overlay.get(id(tensor))
        if found is not None:
            return found[1]
        if tensor.array is None:
            if tensor.node is None or tensor.node.token is not self.token:
                raise leaked("recording", tensor)
            return tensor.node, tensor.index
        source = self.cells.get(id(tensor))
        return (self._capture(tensor) if source is None else source), 0

    def _capture(self, tensor: Tensor) -> Source:
        """A concrete tensor becomes a cell of the graph."""
        if not tensor.is_leaf and MODE.get().grad:
            raise GradientError(
                "recording", "tensors without an eager tape", "the taped result of an operation",
                hint="compute it inside the recorded function, or detach() it", x=tensor,
            )  # fmt: skip
        if tensor.device is not self.device:
            raise self._elsewhere(tensor)
        tracked = tensor.requires_grad and tensor.is_leaf
        source = Source("cell", tensor.spec, tensor, tracked, self.token)
        if tracked and tensor.node is not None and tensor.node.hooks:
            source.hooks = {0: list(tensor.node.hooks[0])}
        self.cells[id(tensor)] = source  # the source holds the tensor: its id stays its own
        return source

    def _elsewhere(self, tensor: Tensor) -> DeviceError:
        """The error for a tensor of another device than that of the inputs."""
        here, there = self.device, tensor.device
        if type(tensor) is Tensor:
            return DeviceError(
                "recording", f"all tensors on {here}", there, hint=f".to({here.name!r})", x=tensor
            )
        # a layer's Parameter or State stays where it is: the inputs were made in the wrong place
        return DeviceError(
            "recording", "inputs and layers on one device", f"inputs on {here}, a layer on {there}",
            hint=f"x.to({there.name!r}) for each input x, or .to({here.name!r}) of the model",
        )  # fmt: skip

    def assign(self, cell: Tensor, value: Tensor, *, keep_history: bool = False) -> None:
        """The cell names another value from here on, in this recording."""
        assigned = self.value(value)
        named = self.value(cell)  # the cell is part of the graph, read or not
        if cell.requires_grad and cell.is_leaf:
            fresh = Source("leaf", cell.spec, weakref.ref(cell), True, self.token)
            fresh.inputs = (assigned,)
            fresh.origin = collected(named)[0]  # type: ignore[assignment]  # of a leaf: a Source
            assigned = fresh, 0
        elif flows(assigned) and not keep_history:
            assigned = self.value(self.record(OPS["detach"], (value,), (), MODE.get()))
        if cell.array is None and not is_argument(cell):  # nobody outside can see it
            cell.node, cell.index = assigned
        else:
            self.overlay[id(cell)] = (cell, assigned)

    # -- gradients ---------------------------------------------------------------------------------

    def grad_of(self, tensor: Tensor) -> Tensor | None:
        """`.grad` as the recording sees it."""
        state = self.grads.get(id(tensor))
        if state is None:
            found = tensor._grad
            state = self.grads[id(tensor)] = GradState(tensor, found, found)
        return state.left

    def set_grad(self, tensor: Tensor, value: Tensor | None) -> None:
        """A gradient that was there keeps its cell, so that each replay adds to the same one."""
        self.grad_of(tensor)
        state = self.grads[id(tensor)]
        if state.found is not None and value is not None:
            self.assign(state.found, value)
            state.left = state.found
        else:
            state.left = value

    # -- operations --------------------------------------------------------------------------------

    def record(self, op: Operation, tensors: Sequence[Any], attrs: Attrs, mode: Mode) -> Any:
        """Append a Node; give symbolic outputs."""
        if not all(isinstance(t, Tensor) for t in tensors):
            tensors = as_tensors(op, tensors, self.device)
        values = tuple(self.value(t) for t in tensors)
        specs = tuple(node.specs[i] for node, i in values)
        entry = find_entry(self.device, op, attrs, specs)
        if entry.casts is not None:
            return apply(op, cast_all(entry.casts, tensors), attrs)
        if entry.route is not None:
            return apart(entry.route(*tensors, **entry.options), tensors)
        tracked = mode.grad and entry.trackable and any(flows(v) for v in values)
        if tracked and op.is_composite and not op.has_backward:
            return op.expand(tensors, entry.options)
        node = Node(entry, values, (), tracked, self.token)
        self.nodes.append(node)
        outs = tuple(Tensor(None, node, i) for i in range(len(entry.specs)))
        return outs[0] if len(outs) == 1 else outs


def is_argument(tensor: Tensor) -> bool:
    """True for a placeholder of a recording."""
    return isinstance(tensor.node, Source) and tensor.node.kind == "arg"


def symbolic_only(where: str) -> RecordingError:
    """The error for host state whose value is not known while a graph is recorded."""
    return RecordingError(
        where, "to be read by a replay", f"its value while a graph is recorded, at {user_line()}",
        hint="pass a function of it to singa_core.scalar(...)",
    )  # fmt: skip
