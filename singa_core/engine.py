"""Recorded functions: record once per key, then replay.

The key is what a recording depends on: the structure and specs of the arguments, static arguments,
grad mode, and the fingerprint of whatever layers take part. A miss records again; the least
recently used recordings are dropped.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from singa_core import homes
from singa_core.device import Device
from singa_core.errors import ArgumentError, DeviceError, GradientError, ReplayError, StateLost
from singa_core.executable import LoopExecutable
from singa_core.mode import MODE, STRUCTURE, Mode, use_mode
from singa_core.node import Value
from singa_core.operation import pack
from singa_core.passes import number, optimise
from singa_core.program import Executable, Program
from singa_core.recorder import GradState, HostStep, Recorder, RecordingWarning
from singa_core.registry import registry
from singa_core.tensor import Tensor, packed, tensor

ALGORITHMS = ("memory", "sequence")


@dataclass(frozen=True)
class _Slot:
    """Where a tensor stood in the arguments or the result: its kind and number."""

    kind: str  # "arg", "cell" or "result"
    number: int


@dataclass
class Recording:
    """One recorded call: its Program, loaded, with what it takes to call it again."""

    program: Program
    executable: Executable
    cells: list[Tensor]
    host: list[HostStep]
    result: Any
    grads: list[tuple[GradState, _Slot | None]]
    scalars: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seen = STRUCTURE.count
        self._states = [_state_of(cell) for cell in self.cells]
        moved = {id(step.moves): step.moves for step in self.host if step.moves is not None}
        self._moved = list(moved.values())

    def matches(self) -> bool:
        """True if every `.grad` is what the recording found, and its cells are as they were."""
        for state, _ in self.grads:
            if state.owner._grad is not state.found:
                return False
        if self._seen != STRUCTURE.count:
            if self._states != [_state_of(cell) for cell in self.cells]:
                return False
            self._seen = STRUCTURE.count
        return True

    def replay(self, args: Sequence[Tensor]) -> Any:
        """Host program, device program, results. The caller has the device's lock."""
        arrays = [pack(t.array) for t in args if t.array is not None]
        for cell in self.cells:
            if cell.home is not None and cell.home.lost:
                raise StateLost(
                    "replay: a parameter or state was left half written by a replay that failed\n"
                    "try: load the last checkpoint, or assign every parameter again"
                )
        moments = [(host, host.moment()) for host in self._moved]
        try:
            results = self.executable.run(arrays, self._run_host_program)
        except BaseException as error:
            if not isinstance(error, StateLost):  # nothing has changed, so no step was made
                for host, moment in moments:
                    host.rewind(moment)
            raise
        count = len(self.program.results)
        outs = [Tensor(array) for array in results[:count]]
        for (arg, _), array in zip(self.program.arg_updates, results[count:], strict=True):
            homes.rebind(args[arg], array)
        for state, slot in self.grads:
            if state.left is not state.found:
                state.owner._grad = None if slot is None else self._pick(slot, outs, args)
        return self._fill(self.result, outs, args)

    def _run_host_program(self) -> list[Any]:
        """Advance counters, draw from streams; gives the values of the scalars."""
        for step in self.host:
            value = step.function()
            if step.slot is not None:
                self.scalars[step.slot] = value
        return self.scalars

    def _pick(self, slot: _Slot, outs: Sequence[Tensor], args: Sequence[Tensor]) -> Tensor:
        return {"result": outs, "arg": args, "cell": self.cells}[slot.kind][slot.number]

    def _fill(self, shape: Any, outs: Sequence[Tensor], args: Sequence[Tensor]) -> Any:
        """The recorded result with this call's tensors."""
        if isinstance(shape, _Slot):
            return self._pick(shape, outs, args)
        if isinstance(shape, tuple | list):
            items = [self._fill(item, outs, args) for item in shape]
            return type(shape)(*items) if hasattr(shape, "_fields") else type(shape)(items)
        if isinstance(shape, dict):
            return {key: self._fill(item, outs, args) for key, item in shape.items()}
        return shape


def _state_of(cell: Tensor) -> tuple[Any, ...]:
    """What a recording depends on in a cell, besides its value: its home, and what its gradient does."""
    hooks = cell.node.hooks if cell.node is not None else None
    return (cell.home, cell.requires_grad, tuple(hooks.get(0, ())) if hooks else ())


class GraphFunction:
    """A function whose calls are recorded once and replayed.

    Args:
        function: made of tensor operations; Python side effects run only while it is recorded.
        device: where it runs; by default the device of its first tensor argument.
        fingerprint: hashable summary of the structure it depends on, asked for only after a change.
        graph_alg: "memory" or "sequence": how the graph is ordered.
        limit: recordings kept.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        device: Device | str | None = None,
        fingerprint: Callable[[], Hashable] | None = None,
        graph_alg: str = "memory",
        limit: int = 32,
    ) -> None:
        if graph_alg not in ALGORITHMS:
            raise ArgumentError("graph_alg", f"one of {', '.join(ALGORITHMS)}", repr(graph_alg))
        self.function = function
        self.graph_alg = graph_alg
        self.limit = limit
        self.records = 0
        self._device = registry.resolve(device) if isinstance(device, str) else device
        self._fingerprint = fingerprint
        self._seen = -1
        self._print = 0
        self._prints: dict[Hashable, int] = {}
        self._numbers = count()
        # weakly: a model holds its graphs, and a cycle would keep their memory
        self._met: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._cache: OrderedDict[Hashable, Recording] = OrderedDict()
        self._history: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = MODE.get()
        if mode.recorder is not None:  # inside another recording: inlined
            return self.function(*args, **kwargs)
        tensors: list[Tensor] = []
        parts: list[Hashable] = []
        device = self._device or first_device((args, kwargs)) or registry.resolve()
        shape = _flatten((args, kwargs), tensors, parts, device, "argument")
        key = (tuple(parts), mode.grad, self._structure())
        # found and replayed under one lock, so that no other thread drops it in between
        with device.state.lock:
            recording = self._cache.get(key)
            if recording is not None and recording.matches():
                self._cache.move_to_end(key)
                return recording.replay(tensors)
        recording = self._record(shape, tensors, parts, device)
        if recording is None:
            return self(*args, **kwargs)
        with device.state.lock:
            # asked again: recording may have made layers, and has met others
            self._keep((tuple(parts), mode.grad, self._structure()), recording)
            return recording.replay(tensors)

    def _structure(self) -> int:
        """A number for the state that all layers and optimisers met so far are in."""
        if self._seen != STRUCTURE.count:
            own = self._fingerprint() if self._fingerprint is not None else None
            state = (own, *[met.fingerprint() for met in self._met.values()])
            if len(self._prints) > 4 * self.limit:
                self._prints.clear()
            # numbered, since a replay hashes its key; the numbers are never used again
            self._print = self._prints.setdefault(state, next(self._numbers))
            self._seen = STRUCTURE.count
        return self._print

    def _keep(self, key: Hashable, recording: Recording) -> None:
        old = self._cache.pop(key, None)
        if old is not None:
            old.executable.close()
        self._cache[key] = recording
        if len(self._cache) > self.limit:
            self._cache.popitem(last=False)[1].executable.close()

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The recordings at hand, oldest use first."""
        return tuple(self._cache.values())

    def clear(self) -> None:
        """Drop all recordings."""
        for recording in self._cache.values():
            recording.executable.close()
        self._cache.clear()

    # -- recording ---------------------------------------------------------------------------------

    def _record(
        self, shape: Any, tensors: list[Tensor], parts: list[Hashable], device: Device
    ) -> Recording | None:
        """A new recording; None if the call has to be looked at again, since it showed an argument to
        be state.
        """
        self.records += 1
        self._watch_statics(parts)
        recorder = Recorder(device)
        for t in tensors:
            recorder.placeholder(t.spec, tracked=t.requires_grad)
        args, kwargs = _unflatten(shape, recorder.args)
        with use_mode(Mode(MODE.get().grad, recorder)):
            result = self.function(*args, **kwargs)
            with device.state.lock:
                known = len(self._met)
                self._met.update(recorder.met)
                self._seen = self._seen if known == len(self._met) else -1
                state = [t for t in tensors if id(t) in recorder.cells]
                if not state:
                    return finish(recorder, result)
                # one cell under two names: given a home, it is that cell by either
                for t in state:
                    if t.home is None:
                        homes.rebind(t, packed(t))
                        homes.settle(t)
        return None

    def _watch_statics(self, parts: list[Hashable]) -> None:
        """Name a static argument that changes at every call: each new value is a new recording."""
        self._history.append(tuple(parts))
        if len(self._history) < 8:
            return
        recent = self._history = self._history[-8:]
        if len({len(h) for h in recent}) != 1:
            return
        for i, values in enumerate(zip(*recent, strict=True)):
            numbers = [v[1] for v in values if isinstance(v, tuple) and v and v[0] == "static"]
            if len(set(map(repr, numbers))) == len(recent):
                warnings.warn(
                    f"argument {i} of a recorded function had {len(recent)} values "
                    "in as many calls "
                    f"({numbers[-2]!r}, {numbers[-1]!r}, ...), each recorded anew; "
                    "pass singa_core.tensor(value) to make it a run-time input",
                    RecordingWarning,
                    stacklevel=4,
                )
                self._history = []
                return


def finish(recorder: Recorder, result: Any) -> Recording:
    """Number, optimise and load what was recorded. Runs inside the recording's mode."""
    results: list[Value] = []
    slots: dict[Value, _Slot] = {}

    def slot_of(t: Tensor) -> _Slot:
        for i, arg in enumerate(recorder.args):
            if t is arg:
                return _Slot("arg", i)
        value = recorder.value(t)
        if t.array is not None:
            return _Slot("cell", list(recorder.cells).index(id(t)))
        if value not in slots:
            slots[value] = _Slot("result", len(results))
            results.append(value)
        return slots[value]

    shape = _map(result, slot_of)
    grads = []
    for state in recorder.grads.values():
        left = state.left if state.left is not state.found else None
        grads.append((_real_owner(state, recorder), None if left is None else slot_of(left)))
    cells = [source.payload for source in recorder.cells.values()]
    numbers = {id(cell): i for i, cell in enumerate(cells)}
    arg_numbers = {id(arg): i for i, arg in enumerate(recorder.args)}
    updates, arg_updates = [], []
    for key, (_, value) in recorder.overlay.items():
        if key in numbers and value != (recorder.cells[key], 0):
            updates.append((numbers[key], value))
        elif key in arg_numbers:
            arg_updates.append((arg_numbers[key], value))
    program = number(recorder, results, updates, arg_updates)
    with use_mode(Mode(False, None)):
        program = optimise(program, recorder.device)
        executable = recorder.device.load(program) or LoopExecutable(
            program, recorder.device, cells
        )
    return Recording(
        program, executable, cells, recorder.host, shape, grads, [None] * len(recorder.scalars)
    )


def _real_owner(state: GradState, recorder: Recorder) -> GradState:
    for arg in recorder.args:
        if state.owner is arg and state.left is not None:
            raise GradientError(
                "recording", ".grad of parameters and state only", "backward() to an argument",
                hint="use gradients(y, x) and return what it gives", x=arg,
            )  # fmt: skip
    return state


# -- trees of arguments ----------------------------------------------------------------------------


def first_device(tree: Any) -> Device | None:
    """The device of the first concrete tensor in nested lists, tuples and dicts."""
    for leaf in _leaves(tree):
        if isinstance(leaf, Tensor) and leaf.array is not None:
            return leaf.device
    return None


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, tuple | list):
        for item in tree:
            yield from _leaves(item)
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from _leaves(item)
    else:
        yield tree


def _flatten(
    tree: Any, tensors: list[Tensor], parts: list[Hashable], device: Device, path: str
) -> Any:
    """Replace tensors by slots; collect them, and in `parts` what the key needs of each leaf."""
    if isinstance(tree, np.ndarray | np.generic) and not isinstance(tree, float | bool):
        tree = tensor(tree, device=device)
    if isinstance(tree, Tensor):
        return _flatten_tensor(tree, tensors, parts, device, path)
    if isinstance(tree, tuple | list):
        parts.append((type(tree), len(tree)))
        items = [_flatten(t, tensors, parts, device, f"{path}[{i}]") for i, t in enumerate(tree)]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict):
        parts.append((dict, tuple(tree)))
        return {k: _flatten(t, tensors, parts, device, f"{path}[{k!r}]") for k, t in tree.items()}
    try:
        hash(tree)
    except TypeError:
        raise ReplayError(
            path,
            "tensors, arrays, or hashable static values",
            f"an unhashable {type(tree).__name__}",
        ) from None
    # the type, since 1 == 1.0 == True; the text, since 0.0 == -0.0 and NaN is not even itself
    odd = isinstance(tree, float) and (tree == 0 or tree != tree)
    parts.append(("static", repr(tree) if odd else tree, type(tree)))
    return tree


def _flatten_tensor(
    t: Tensor, tensors: list[Tensor], parts: list[Hashable], device: Device, path: str
) -> Any:
    if t.home is not None:  # state: the same cell however it is reached
        parts.append(("cell", id(t), t.requires_grad))
        return t
    if t.device is not device:
        raise DeviceError(
            path, f"all tensors on {device}", t.device, hint=f".to({device.name!r})", x=t
        )
    if not t.is_leaf and MODE.get().grad:
        raise GradientError(
            path, "an argument without an eager tape", "the taped result of an operation",
            hint="compute it inside the recorded function, or detach() it", x=t,
        )  # fmt: skip
    for i, known in enumerate(tensors):
        if known is t:
            parts.append(("again", i))
            return _Slot("arg", i)
    parts.append((t.spec, t.requires_grad))
    tensors.append(t)
    return _Slot("arg", len(tensors) - 1)


def _unflatten(shape: Any, args: Sequence[Tensor]) -> Any:
    if isinstance(shape, _Slot):
        return args[shape.number]
    if isinstance(shape, tuple | list):
        items = [_unflatten(item, args) for item in shape]
        return type(shape)(*items) if hasattr(shape, "_fields") else type(shape)(items)
    if isinstance(shape, dict):
        return {key: _unflatten(item, args) for key, item in shape.items()}
    return shape


def _map(tree: Any, slot_of: Callable[[Tensor], _Slot]) -> Any:
    """A result with its tensors replaced by slots."""
    if isinstance(tree, Tensor):
        return slot_of(tree)
    if isinstance(tree, tuple | list):
        items = [_map(item, slot_of) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict):
        return {key: _map(item, slot_of) for key, item in tree.items()}
    return tree


def graph(
    function: Callable[..., Any] | None = None,
    *,
    device: Device | str | None = None,
    graph_alg: str = "memory",
) -> Any:
    """Decorator: record the function's operations once per kind of arguments, and replay them.

    Tensors and NumPy arrays among the arguments are run-time inputs; everything else is static and
    part of the key. Tensors that the function reads from outside are state, read at each replay.

    >>> from singa_core import tensor
    >>> @graph
    ... def double(x):
    ...     return x + x
    >>> double(tensor([1, 2])).tolist()
    [2, 4]
    """
    if function is None:
        return lambda f: GraphFunction(f, device=device, graph_alg=graph_alg)
    return GraphFunction(function, device=device, graph_alg=graph_alg)
