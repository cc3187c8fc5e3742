"""Recorded functions: record once per key, then replay.

The key is what a recording depends on: the structure and specs of the arguments, static arguments,
grad mode, and the fingerprint of whatever layers take part. A miss records again; the least
recently used recordings are dropped.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from itertools import count
from types import MethodType
from typing import Any
from weakref import WeakValueDictionary

from singa_core import homes, profiling
from singa_core.arguments import Arguments, Slot, collect, device_of, fill, outline
from singa_core.device import Device
from singa_core.errors import ArgumentError, DeviceError, GradientError, StateLost
from singa_core.executable import LoopExecutable
from singa_core.launch import pack
from singa_core.mode import MODE, STRUCTURE, Mode, use_mode
from singa_core.node import Value
from singa_core.passes import ALGORITHMS, number, optimise
from singa_core.passes.eager import eager_peak, lowered
from singa_core.program import Executable, Program
from singa_core.recorder import GradState, HostStep, Recorder, RecordingWarning
from singa_core.registry import registry
from singa_core.tensor import Tensor, packed


@dataclass
class Recording:
    """One recorded call: its Program, loaded, with what it takes to call it again."""

    device: Device
    recorded: Program  # before any pass, for reports
    program: Program
    executable: Executable
    cells: list[Tensor]
    host: list[HostStep]
    result: Any
    outs: list[int]  # result number of each tensor that is made by a call
    grads: list[tuple[GradState, Slot | None]]
    scalars: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seen = STRUCTURE.count
        self._faults = -1
        self._states = [_state_of(cell) for cell in self.cells]
        moved = {id(step.moves): step.moves for step in self.host if step.moves is not None}
        self._moved = list(moved.values())

    def matches(self) -> bool:
        """True if every `.grad` is like what the recording found, and its cells as they were."""
        for state, _ in self.grads:
            now, found = state.owner._grad, state.found
            if now is not found and (now is None or found is None or now.spec is not found.spec):
                return False
        if self.grads and self._swaps_grads():
            return False
        if self._seen != STRUCTURE.count:
            if self._states != [_state_of(cell) for cell in self.cells]:
                return False
            self._seen = STRUCTURE.count
        return True

    def report(self) -> Mapping[str, Any]:
        """What the executable reports, beside what was recorded and what eager would take."""
        return {
            "recorded": len(self.recorded.instructions),
            "lowered": lowered(self.recorded, self.device),
            **self.executable.report(),
            "eager_peak": eager_peak(self.recorded, self.device),
        }

    def _swaps_grads(self) -> bool:
        """True if a `.grad` is now at another owner, or at two: stand-ins would mix them up."""
        others: dict[int, int] = {}
        for state, _ in self.grads:
            now = state.owner._grad
            if now is not None and now is not state.found:
                others[id(now)] = others.get(id(now), 0) + 1
        found = {id(state.found) for state, _ in self.grads}
        return any(count > 1 or key in found for key, count in others.items())

    def replay(self, args: Sequence[Tensor]) -> Any:
        """Host program, device program, results. The caller has the device's lock."""
        arrays = [t.array if t.array.packed else pack(t.array) for t in args if t.array is not None]
        self._check_faults()
        lent = self._lend_grads()
        moments = [(host, host.moment()) for host in self._moved]
        try:
            results = profiling.run(self.executable, self.device, arrays, self._run_host_program)
        except BaseException:
            if not self.executable.wrote:  # nothing has changed, so no step was made
                for host, moment in moments:
                    host.rewind(moment)
            raise
        count = len(self.program.results)
        outs = [Tensor(results[i]) for i in self.outs]
        for (arg, _), array in zip(self.program.arg_updates, results[count:], strict=True):
            homes.rebind(args[arg], array)
        for state, slot in self.grads:
            if state.left is not state.found:
                state.owner._grad = None if slot is None else self._pick(slot, outs, args)
        for grad, stand_in in lent:
            grad.assign(stand_in)
        return fill(self.result, lambda slot: self._pick(slot, outs, args))

    def _lend_grads(self) -> list[tuple[Tensor, Tensor]]:
        """Where `.grad` is another tensor than the recorded one, that one works in its place."""
        lent = []
        for state, _ in self.grads:
            now, found = state.owner._grad, state.found
            if now is not found and now is not None and found is not None:
                found.assign(now)
                if state.left is found:
                    lent.append((now, found))
        return lent

    def _check_faults(self) -> None:
        """Raises: StateLost if a failed replay has left one of the cells half written."""
        faults = self.device.state.faults
        if faults == self._faults:
            return
        for cell in self.cells:
            if cell.home is not None and cell.home.lost:
                raise StateLost(
                    "replay: a parameter or state was left half written by a replay that failed"
                )
        self._faults = faults

    def _run_host_program(self) -> list[Any]:
        """Advance counters, draw from streams; gives the values of the scalars."""
        for step in self.host:
            value = step.function()
            if step.slot is not None:
                self.scalars[step.slot] = value
        return self.scalars

    def _pick(self, slot: Slot, outs: Sequence[Tensor], args: Sequence[Tensor]) -> Tensor:
        return {"result": outs, "arg": args, "cell": self.cells}[slot.kind][slot.number]


def _state_of(cell: Tensor) -> tuple[Any, ...]:
    """What a recording depends on in a cell, besides its value: home, gradient wish, hooks."""
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
        update_wrapper(self, function)  # its name and its docs
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
        self._owners: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
        self._cache: OrderedDict[Hashable, Recording] = OrderedDict()
        self._history: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = MODE.get()
        if mode.recorder is not None:  # inside another recording: inlined
            return self.function(*args, **kwargs)
        device = self._device or device_of(args, kwargs) or registry.resolve()
        found = collect(args, kwargs, device)
        key = self._key(found)
        # found and replayed under one lock, so that no other thread drops it in between
        with device.state.lock:
            recording = self._cache.get(key)
            if recording is not None and recording.matches():
                self._cache.move_to_end(key)
                return recording.replay(found.tensors)
        recording = self._record(args, kwargs, found)
        if recording is None:
            return self(*args, **kwargs)
        with device.state.lock:
            # asked again: recording may have made layers, and has met others
            self._keep(self._key(found), recording)
            return recording.replay(found.tensors)

    def _key(self, found: Arguments) -> Hashable:
        """What a recording depends on."""
        grads = [owner._grad is None for owner in self._owners.values()] if self._owners else ()
        return found.device, tuple(found.parts), MODE.get().grad, self._structure(), tuple(grads)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """As a method, the owner is the first argument, and static."""
        return self if owner is None else MethodType(self, owner)

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

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"<graph of {name}, {len(self._cache)} recordings>"

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
        self, args: Sequence[Any], kwargs: dict[str, Any], found: Arguments
    ) -> Recording | None:
        """A new recording; None to look at the call again: an argument turned out to be state."""
        self.records += 1
        self._watch_statics(found.parts)
        device, tensors = found.device, found.tensors
        recorder = Recorder(device)
        for t in tensors:
            recorder.placeholder(t.spec, tracked=t.requires_grad)
        args, kwargs = fill(
            found.template((tuple(args), kwargs)), lambda s: recorder.args[s.number]
        )
        with use_mode(Mode(MODE.get().grad, recorder)):
            result = self.function(*args, **kwargs)
            with device.state.lock:
                known = len(self._met)
                self._met.update(recorder.met)
                self._owners.update({id(g.owner): g.owner for g in recorder.grads.values()})
                self._seen = self._seen if known == len(self._met) else -1
                state = [t for t in tensors if id(t) in recorder.cells]
                if not state:
                    return finish(recorder, result, self.graph_alg)
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


def finish(recorder: Recorder, result: Any, algorithm: str = "memory") -> Recording:
    """Number, optimise and load what was recorded. Runs inside the recording's mode."""
    results: dict[Value, int] = {}
    made: dict[int, tuple[Tensor, Slot]] = {}
    outs: list[int] = []

    def slot_of(t: Tensor) -> Slot:
        for i, arg in enumerate(recorder.args):
            if t is arg:
                return Slot("arg", i)
        value = recorder.value(t)
        if t.array is not None:
            return Slot("cell", list(recorder.cells).index(id(t)))
        if id(t) not in made:  # two tensors of one value stay two
            made[id(t)] = t, Slot("result", len(outs))
            outs.append(results.setdefault(value, len(results)))
        return made[id(t)][1]

    shape = outline(result, lambda leaf: slot_of(leaf) if isinstance(leaf, Tensor) else leaf)
    grads = []
    for state in recorder.grads.values():
        left = state.left if state.left is not state.found else None
        grads.append((_real_owner(state, recorder), None if left is None else slot_of(left)))
    cells = [source.payload for source in recorder.cells.values()]
    recorded = number(recorder, list(results), *_assigned(recorder))
    with use_mode(Mode(False, None)):
        program = optimise(recorded, recorder.device, algorithm)
        executable = recorder.device.load(program) or LoopExecutable(
            program, recorder.device, cells
        )
    return Recording(
        recorder.device, recorded, program, executable, cells, recorder.host, shape, outs, grads,
        [None] * len(recorder.scalars),
    )  # fmt: skip


def _assigned(recorder: Recorder) -> tuple[list[tuple[int, Value]], list[tuple[int, Value]]]:
    """(number, new value) of cells that name another value now, and of such arguments."""
    numbers = {key: i for i, key in enumerate(recorder.cells)}
    arg_numbers = {id(arg): i for i, arg in enumerate(recorder.args)}
    updates, arg_updates = [], []
    for key, (_, value) in recorder.overlay.items():
        if key in numbers and value != (recorder.cells[key], 0):
            updates.append((numbers[key], value))
        elif key in arg_numbers:
            arg_updates.append((arg_numbers[key], value))
    return updates, arg_updates


def _real_owner(state: GradState, recorder: Recorder) -> GradState:
    for arg in recorder.args:
        if state.owner is arg and state.left is not None:
            raise GradientError(
                "recording", ".grad of parameters and state only", "backward() to an argument",
                hint="use gradients(y, x) and return what it gives", x=arg,
            )  # fmt: skip
    return state


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

    Raises: ArgumentError for what is no function; DeviceError for what is no device.
    """
    if function is not None and not callable(function):
        raise ArgumentError("graph", "a function", repr(function))
    if not isinstance(device, Device | str | None):
        raise DeviceError("graph", "a device, a name or None", repr(device))
    if function is None:
        return lambda f: GraphFunction(f, device=device, graph_alg=graph_alg)
    return GraphFunction(function, device=device, graph_alg=graph_alg)
