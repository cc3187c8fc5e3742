"""Compiling the dialect, and launches: kernels with their numbers set, waiting for memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from singa_core.device import Capabilities, Fixed
from singa_core.errors import DeviceFailure
from singa_core.kernels.c.dialect import FAULT, Call, Source, Target
from singa_opencl.batch import batch

enqueue = cl.enqueue_nd_range_kernel
Handle = tuple[cl.Buffer, int]  # a buffer, and the byte at which the operand begins


class Compiler(Target):
    """Compiles kernels for one device and keeps what it has compiled.

    Args:
        device: the OpenCL device.
        capabilities: what ours says of it.
    """

    def __init__(self, device: cl.Device, capabilities: Capabilities) -> None:
        super().__init__(
            capabilities,
            units=device.max_compute_units,
            group=min(64, device.max_work_group_size),
            largest_group=device.max_work_group_size,
            shared=device.local_mem_size,
        )
        self.device = device
        self.options = []
        if device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
            self.options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        self.sites: list[tuple[str, str]] = []
        self.faults: Any = None  # three words: found (2: an unsigned value), site, value
        self.context: Any = None
        self.queue: Any = None
        self.waiting: list[Step] = []
        self._found: dict[Source, tuple[cl.Program, str]] = {}

    def open(self, context: cl.Context, queue: cl.CommandQueue, faults: cl.Buffer) -> None:
        """Say where to compile and run, and where kernels tell of wrong indices."""
        self.context, self.queue, self.faults = context, queue, (faults, 0)

    def compile(self, sources: Sequence[Source]) -> None:
        """Compile kernels that are not known yet, all at once.

        Raises: DeviceFailure with the kernel's name and the compiler's words.
        """
        new = [source for source in dict.fromkeys(sources) if source not in self._found]
        if not new:
            return
        text, entries = batch(new, vectors=self.family == "cpu")
        try:
            program = self.build(new[0].name, text)
        except DeviceFailure:
            if len(new) == 1:
                raise
            for source in new:  # finds out whose fault it is
                self.compile([source])
            return
        for source, entry in zip(new, entries, strict=True):
            self._found[source] = program, entry

    def build(self, name: str, text: str) -> cl.Program:
        """Text in OpenCL C, compiled. Raises: DeviceFailure with the compiler's words."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cl.CompilerWarning)
                return cl.Program(self.context, text).build(self.options)
        except cl.Error as error:
            log = str(error).strip()
            raise DeviceFailure(
                f"kernel {name} does not compile on {self.device.name}: {log}\n{numbered(text)}"
            ) from error

    def kernel(self, call: Call) -> cl.Kernel:
        """A kernel object of its own for a call, with the numbers set."""
        self.compile([call.source])
        kernel = cl.Kernel(*self._found[call.source])
        first = 2 * len(call.operands)
        types = zip(call.source.number_types, self.numbers(call), strict=True)
        for position, (name, value) in enumerate(types, first):
            kernel.set_arg(position, np.dtype(name).type(value))
        return kernel

    def wait_for(self, steps: Sequence[Step]) -> None:
        """Make their kernels at the next call, which ends a graph's binding: compiled at once."""
        self.waiting += steps

    def make(self) -> None:
        """Compile and make what waits. Raises: DeviceFailure."""
        steps, self.waiting = self.waiting, []
        self.compile([step.call.source for step in steps])
        for step in steps:
            step.make()

    def numbers(self, call: Call) -> tuple[float, ...]:
        """The numbers of a call, with the one that says who found a fault."""
        if call.fault is None:
            return call.numbers
        if call.fault not in self.sites:
            self.sites.append(call.fault)
        return (*call.numbers, self.sites.index(call.fault))

    def launch(self, calls: Sequence[Call], operands: int) -> Launch:
        return Launch(self, calls)


class Launch:
    """Calls on a queue, one after the other: `launch(*handles)`."""

    __slots__ = ("calls", "compiler", "steps")

    def __init__(self, compiler: Compiler, calls: Sequence[Call]) -> None:
        self.compiler = compiler
        self.calls = tuple(calls)
        self.steps: list[Step] = []

    def __call__(self, *handles: Handle) -> None:
        if not self.steps:
            self.compiler.compile([call.source for call in self.calls])
            steps = [Step(self.compiler, call) for call in self.calls]
            for step in steps:
                step.make()
            self.steps = steps  # all of them, or none
        for step in self.steps:
            step.bind(handles)
            enqueue(*step.work)

    def fixed(self, handles: Sequence[Handle | None]) -> Fixed:
        """With kernel objects of its own, whose arguments are set once."""
        steps = [Step(self.compiler, call) for call in self.calls]
        for position, handle in enumerate(handles):
            put(steps, position, handle)
        self.compiler.wait_for(steps)
        if len(steps) == 1:
            return Fixed(enqueue, steps[0].work, partial(put, steps))
        works = [step.work for step in steps]
        return Fixed(enqueue_all, (works,), partial(put, steps))


class Step:
    """One kernel object, once it is made, and what its arguments are at the moment.

    A kernel keeps no buffer alive: whoever binds one owns it until the next is bound.
    """

    __slots__ = (
        "call", "compiler", "handles", "kernel", "offsets", "operands", "starts",
        "work",
    )  # fmt: skip

    def __init__(self, compiler: Compiler, call: Call) -> None:
        self.compiler, self.call = compiler, call
        self.operands = call.operands
        self.starts = call.begins
        self.offsets: list[int] = [-1] * len(call.operands)
        self.handles: dict[int, Handle] = {}  # those that wait for the kernel
        self.kernel: Any = None
        self.work: list[Any] = [compiler.queue, None, call.items, call.group]

    def make(self) -> None:
        """Make the kernel and give it what it waits for. Raises: DeviceFailure."""
        self.kernel = self.work[1] = self.compiler.kernel(self.call)
        if FAULT in self.operands:
            self.put(self.operands.index(FAULT), self.compiler.faults)
        for i, handle in self.handles.items():
            self.put(i, handle)
        self.handles.clear()

    def bind(self, handles: Sequence[Handle]) -> None:
        """Set the memory of all operands."""
        for i, operand in enumerate(self.operands):
            if operand >= 0:
                self.put(i, handles[operand])

    def put(self, i: int, handle: Handle) -> None:
        """Set the memory of one operand; a number costs more than a buffer, and seldom changes."""
        if self.kernel is None:
            self.handles[i] = handle
            return
        buffer, at = handle
        self.kernel.set_arg(2 * i, buffer)
        at += self.starts[i]
        if self.offsets[i] != at:
            self.kernel.set_arg(2 * i + 1, np.int64(at))
            self.offsets[i] = at


def put(steps: Sequence[Step], position: int, handle: Handle | None) -> None:
    """Give the steps of a launch the handle at one position."""
    if handle is None:
        return
    for step in steps:
        for i, operand in enumerate(step.operands):
            if operand == position:
                step.put(i, handle)


def enqueue_all(works: Sequence[Sequence[Any]]) -> None:
    """Several kernels, one after the other."""
    for work in works:
        enqueue(*work)


def kernels_of(function: Callable[..., Any], args: Sequence[Any]) -> Sequence[Sequence[Any]]:
    """What `function(*args)`, the launch of a `Fixed`, enqueues; nothing if it is another one."""
    if function is enqueue:
        return [args]
    return args[0] if function is enqueue_all else []


def numbered(text: str) -> str:
    """A text with line numbers, as the compiler counts them."""
    return "\n".join(f"{n:4} {line}" for n, line in enumerate(text.splitlines(), 1))
