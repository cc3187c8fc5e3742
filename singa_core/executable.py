"""The default Executable: a loop over the same kernels as eager, with everything bound once.

Every root has its memory, every launch its handles. Argument roots are bound at each run; result
roots are leased to the caller, and bound anew only if the caller still holds the last result; state
cells are written in place in their homes. Constants and scalars have memory of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from singa_core import homes
from singa_core.arena import Arena, arena
from singa_core.device import Device
from singa_core.errors import StateLost
from singa_core.launch import failure
from singa_core.passes.place import Place, Placed, place
from singa_core.passes.plan import plan
from singa_core.program import Executable, Program, Timing
from singa_core.spec import Spec
from singa_core.storage import (
    Array,
    Storage,
    allocate,
    as_bytes,
    empty_array,
    from_host,
    synchronize,
)
from singa_core.tensor import Tensor, packed

# how to give a launch a handle, at which position, and how to look at the memory (None: all of it)
Patch = tuple[Callable[[int, Any], None], int, Place | None]


class Lease:
    """The memory of a result, which the caller may still look at when the next run wants it."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array


class LoopExecutable(Executable):
    """A Program bound to kernels and memory of one device.

    Args:
        program: an optimised Program.
        device: where to run it.
        cells: the state cells it reads and writes, by number; each gets a home.
    """

    def __init__(self, program: Program, device: Device, cells: Sequence[Tensor]) -> None:
        self.program = program
        self.device = device
        self.cells = list(cells)
        self.placed = place(program, device)
        self.plan = plan(self.placed, device.capabilities)
        self.closed = False
        self._arena = arena(device)
        self._bound = -1
        self._arrays: dict[int, Array] = {}
        self._code: list[tuple[Callable[..., Any], Sequence[Any]]] = []
        self._copied: list[int] = []  # cells whose new value the last launches copy to them
        self._block: Storage | None = None
        self._empty: Storage | None = None
        self._patches: dict[int, list[Patch]] = {}
        self._leases: dict[int, Lease] = {}
        self._allocate(self.placed)
        self._arena.reserve(self.plan.buffers)
        self._bind()
        self._written: list[Any] = [self.cells[c] for c, _ in self.placed.writes]
        self._first_write = self._find_first_write()

    # -- loading -----------------------------------------------------------------------------------

    def _allocate(self, placed: Placed) -> None:
        """Memory for every root except arguments and temporaries."""
        arrays = self._arrays
        for cell, root in zip(self.cells, placed.cells, strict=True):
            if cell.home is None:
                homes.rebind(cell, packed(cell))
                homes.settle(cell)
            if cell.array is not None and cell.home is not None:
                # a look of our own: sharing the cell's would count as a holder of its value
                spec = cell.array.spec
                arrays[root] = Array(cell.home, spec, spec, 0, cell.array.handle)
        for slot, root in placed.constants.items():
            arrays[root] = from_host(self.device, self.program.constants[slot], placed.roots[root])
        self._allocate_scalars(placed)
        for root in placed.results:
            self._leases[root] = Lease(empty_array(self.device, placed.roots[root]))

    def _allocate_scalars(self, placed: Placed) -> None:
        """One block for all run-time scalars, and host views to fill it through."""
        offsets, size = [], 0
        for root in placed.scalars:
            offsets.append(size)
            step = self.device.capabilities.alignment
            size += -(-placed.roots[root].nbytes // step) * step
        self._staging = np.zeros(size, np.uint8)
        self._fields = []
        if not size:
            return
        if self.device.capabilities.sub_buffers:
            self._block = allocate(self.device, size)
        for root, offset in zip(placed.scalars, offsets, strict=True):
            spec = placed.roots[root]
            field = self._staging[offset : offset + spec.nbytes].view(spec.dtype.numpy)
            self._fields.append(field.reshape(spec.shape))
            if self._block is not None:
                array = Array(self._block, spec, spec, offset // spec.dtype.itemsize)
            else:
                array = empty_array(self.device, spec)
            self._arrays[root] = array

    def _bind(self) -> None:
        """The launch list: (function, handles), handles of arguments and results to be patched.

        Made anew when the arena has grown: temporaries lie elsewhere then.
        """
        placed = self.placed
        self._code, self._copied, self._patches = [], [], {}
        for root, (buffer, offset) in self.plan.offsets.items():
            spec, storage = placed.roots[root], self._arena.buffers[buffer]
            self._arrays[root] = Array(storage, spec, spec, offset // spec.dtype.itemsize)
        moving = set(placed.args) | set(placed.results)
        for number, step in enumerate(placed.steps):
            outs = [Place(root, placed.roots[root]) for root in step.outs]
            places = (*step.ins, *outs)
            handles = [self._handle(where) for where in places]
            function = step.entry.launch
            if step.entry.workspace is not None:
                handles.append(self._workspace(number, step.entry.workspace))
            kernel = step.entry.kernel
            if kernel is not None and kernel.returning:
                function = writing(function, len(step.ins))
            fixed = self.device.fix(function, handles)
            for position, where in enumerate(places):
                if where.root in moving:
                    patch = (fixed.put, position, None if placed.covers(where) else where)
                    self._patches.setdefault(where.root, []).append(patch)
            self._code.append((fixed.function, fixed.args))
        for cell, root in placed.writes:
            if root != placed.cells[cell]:
                self._copy_to_state(cell, root)
        # no launch yet: a device that compiles does it here, and where that fails nothing has begun
        self.device.call(_loop, ())
        self._bound = self._arena.version

    def _copy_to_state(self, cell: int, root: int) -> None:
        """The last launches: new values that could not be computed in place."""
        source, target = self._arrays[root], self._arrays[self.placed.cells[cell]].storage
        spec = self.placed.roots[root]
        start = source.offset * spec.dtype.itemsize
        if spec.nbytes:
            bytes_of = [source.storage.buffer, start, target.buffer, 0, spec.nbytes]
            self._code.append((self.device.copy, bytes_of))
            self._copied.append(cell)

    def _workspace(self, number: int, spec: Spec) -> Any:
        """The handle of a launch's scratch memory."""
        if number not in self.plan.workspaces:  # a kernel that asked for nothing
            buffer, offset = self._nothing(), 0
        else:
            at, offset = self.plan.workspaces[number]
            buffer = self._arena.buffers[at]
        return Array(buffer, spec, spec, offset).handle

    def _nothing(self) -> Storage:
        """Memory of no bytes."""
        if self._empty is None:
            self._empty = allocate(self.device, 0)
        return self._empty

    def _handle(self, where: Place) -> Any:
        lease = self._leases.get(where.root)
        array = self._arrays.get(where.root) if lease is None else lease.array
        if array is None:  # an argument: bound at each run
            return None
        return array.handle if self.placed.covers(where) else look(array, where)

    def _find_first_write(self) -> int:
        """Number of the first launch that writes state; a failure before it has changed nothing."""
        own = {self.placed.cells[c] for c, _ in self.placed.writes}
        for number, step in enumerate(self.placed.steps):
            if own.intersection(step.outs):
                return number
        return len(self.placed.steps)

    # -- running -----------------------------------------------------------------------------------

    def run(self, args: Sequence[Array], scalars: Callable[[], Sequence[Any]]) -> list[Array]:
        return self._run(args, scalars, _loop)

    def profile(
        self, args: Sequence[Array], scalars: Callable[[], Sequence[Any]]
    ) -> tuple[list[Array], list[Timing]]:
        synchronize(self.device)  # what went wrong before is not told of a launch in here
        seconds: list[float] = []
        results = self._run(args, scalars, partial(_timed, self.device, seconds))
        placed = self.placed
        told = [(s.title, ", ".join(map(str, s.entry.in_specs))) for s in placed.steps]
        told += [("copy", str(placed.roots[placed.cells[c]])) for c in self._copied]
        return results, [Timing(*t, taken) for t, taken in zip(told, seconds, strict=True)]

    def _run(
        self,
        args: Sequence[Array],
        scalars: Callable[[], Sequence[Any]],
        loop: Callable[[Any], None],
    ) -> list[Array]:
        """One run, with `loop` to launch what is left of the code."""
        self.wrote = False
        if self.closed:
            raise StateLost("this executable was closed", "record the function again")
        if self._bound != self._arena.version:
            self._bind()
        remaining = iter(self._code)
        try:
            self._prepare(args, scalars)
            self.device.call(loop, remaining)
            self.wrote = True
        except BaseException as error:  # an interrupt tears state like a fault
            told = self._failed(error, remaining)
            if told is error:
                raise
            raise told from error
        return self._finish()

    def _prepare(self, args: Sequence[Array], scalars: Callable[[], Sequence[Any]]) -> None:
        """Everything that can be refused, and all that must be moved, before the first launch."""
        alone = homes.ALONE[0]
        for cell in self._written:
            # told here too, since it is the rule: nobody else holds the value
            if homes.references(cell.array) != alone or cell.home.marks.arrays:
                homes.claim(cell)
        self._renew_leases()
        for root, array in zip(self.placed.args, args, strict=True):
            self._patch(root, array)
        values = scalars()
        if self._fields:
            for field, value in zip(self._fields, values, strict=True):
                field[...] = value
            self._upload_scalars()

    def _renew_leases(self) -> None:
        """Give a result new memory where the caller still looks at the last one."""
        for root, lease in self._leases.items():
            if homes.is_held(lease):
                lease.array = empty_array(self.device, self.placed.roots[root])
                self._patch(root, lease.array)

    def _upload_scalars(self) -> None:
        if self._block is not None:
            self.device.upload(self._block.buffer, 0, self._staging)
            return
        for root, field in zip(self.placed.scalars, self._fields, strict=True):
            buffer = self._arrays[root].storage.buffer
            self.device.upload(buffer, 0, as_bytes(np.ascontiguousarray(field)))

    def _patch(self, root: int, array: Array) -> None:
        for put, position, where in self._patches.get(root, ()):
            put(position, array.handle if where is None else look(array, where))

    def _finish(self) -> list[Array]:
        if not self.device.capabilities.synchronous:
            homed = [cell.home for cell in self._written if cell.home is not None]
            self.device.state.unsettled.update(homed)
        self._forget_args()
        return [lease.array for lease in self._leases.values()]

    def _forget_args(self) -> None:
        """The caller's arrays are not ours to keep."""
        for root in self.placed.args:
            for put, position, _ in self._patches.get(root, ()):
                put(position, None)

    def _failed(self, error: BaseException, remaining: Any) -> BaseException:
        """Before the first write nothing has changed; after it, state is neither old nor new."""
        # the loop does not count, since every replay would pay for it; its iterator knows
        number = len(self._code) - remaining.__length_hint__() - 1
        self._forget_args()
        told, steps = error, self.placed.steps
        if isinstance(error, Exception) and 0 <= number < len(steps):
            step = steps[number]
            told = failure(error, step.entry, self.device)
        self.wrote = number >= self._first_write
        if not self.wrote:
            return told
        for cell in self._written:
            if cell.home is not None:
                cell.home.lose()
        if not isinstance(error, Exception):
            return error
        text = steps[number].text if number < len(steps) else "copy to a cell"
        return StateLost(
            f"replay failed at launch {number} ({text}), "
            "after state had begun to change; "
            f"{len(self._written)} cells are neither old nor new\n"
            f"  cause: {type(told).__name__}: {told}"
        )

    # -- telling -----------------------------------------------------------------------------------

    def close(self) -> None:
        self.closed = True
        self._code.clear()
        self._patches.clear()
        self._arrays.clear()
        self._leases.clear()
        self._block = self._empty = None
        self._arena = Arena(self.device)  # ours alone: the shared one may go

    def report(self) -> Mapping[str, Any]:
        placed = self.placed
        own = {*placed.results, *placed.constants.values()}
        own.update(placed.scalars if self._block is None else ())
        held = sum(placed.roots[root].nbytes for root in own)
        held += 0 if self._block is None else self._block.nbytes
        in_place = sum(r == placed.cells[c] for c, r in placed.writes)
        return {
            "instructions": len(self.program.instructions),
            "launches": len(placed.steps),
            "native": len(placed.steps),
            "host": 0,  # nothing falls back to the host: loading fails where a kernel is missing
            "operations": dict(Counter(step.title for step in placed.steps)),
            "views": placed.views,
            "copies": placed.copies,
            "in_place_updates": in_place,
            "updates": len(placed.writes),
            "bytes": self.plan.nbytes + held,
            "planned_peak": self.plan.nbytes,
            "live_bound": self.plan.bound,
            "served": [
                (s.text, s.entry.kernel.language if s.entry.kernel else "none")
                for s in placed.steps
            ],
        }


def look(array: Array, where: Place) -> Any:
    """A handle on the memory of `array`, laid out as `where` says."""
    storage, form = array.storage, where.form
    offset = array.offset + where.offset
    return storage.device.bind(storage.buffer, offset, form.shape, form.strides, form.dtype)


def _loop(code: Any) -> None:
    for function, handles in code:
        function(*handles)


def _timed(device: Device, seconds: list[float], code: Any) -> None:
    seconds += [device.timed(function, *handles) for function, handles in code]


def writing(function: Any, inputs: int) -> Callable[..., None]:
    """A returning kernel as one that writes into its outputs."""

    def write(*handles: Any) -> None:
        made = function(*handles[:inputs])
        results = made if isinstance(made, tuple) else (made,)
        for out, result in zip(handles[inputs:], results, strict=True):
            out[...] = result

    return write
