"""Backends with one planted fault each: the kit has to catch them, or it has a hole.

All are wrappers around the NumPy backend, whose kernels they take over; `control` changes nothing
and has to be green. `FAULTS` says which group must be the lowest one that fails. Faults are marked
by where they sit: in a kernel (`spoil`), in the device (methods), or in the process (`setup`).
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

import singa_cpu_numpy.device as good
from planted import spoilers
from singa_core import kernels
from singa_core.device import Capabilities, Device
from singa_core.dtype import ALL, bfloat16
from singa_core.executable import LoopExecutable
from singa_core.kernels import KernelTable, add_table
from singa_core.kernels.c import CallTable, c
from singa_core.kernels.c.dialect import Target
from singa_core.optable import OPS
from singa_core.registry import Manifest, Probe


class Planted(good.NumpyDevice):
    """The NumPy backend under another name, with its kernels wrapped."""

    able = Capabilities(alignment=64, host=True, synchronous=True, concurrent=True)
    spoil: Mapping[str, Callable] = {}

    def __init__(self):
        languages = {f"{self.fault}_{taken}": taken for taken in ("numpy", "array")}
        Device.__init__(self, f"planted_{self.fault}", 0, self.able, tuple(languages))
        for language, taken in languages.items():
            table = add_table(KernelTable(language))
            for kernel in kernels.table(taken):
                spoil = self.spoil.get(kernel.op, lambda kernel: kernel)
                table.add(spoil(replace(kernel, language=language)))


@dataclass(frozen=True)
class Fault:
    """What is planted: the lowest failing group it must lead to, and where to look.

    `select` narrows a run to some ops and tests, of all groups; the tests are the kit's own.
    """

    group: str | None
    select: tuple[str, ...]
    options: tuple[str, ...] = ()


FAULTS: dict[str, Fault] = {}
GROUPS = ("ops.primitive", "ops.composite", "autograd", "graph")


def plant(group, *subjects, options=(), **changes):
    """A class whose name is the fault, as a backend: `planted:<name>`."""

    def register(made):
        name = made.__name__
        made.fault = name
        for key, value in changes.items():
            setattr(made, key, value)
        manifest = Manifest(
            name=f"planted_{name}", api=(1, 0), device_type="host",
            probe=lambda: Probe(usable=True), open=f"planted:open_{name}",
        )  # fmt: skip
        globals()[name] = manifest
        globals()[f"open_{name}"] = lambda index: made()
        select = [f"{g}::{s}" for s in subjects for g in GROUPS if "::" not in s]
        select += [s for s in subjects if "::" in s]
        FAULTS[name] = Fault(group, tuple(select), options)
        return manifest

    return register


class Late(Planted):
    """A device with a queue: launches wait until somebody waits for them."""

    able = Capabilities(alignment=64)

    def __init__(self):
        self.queue = []
        super().__init__()

    def call(self, function, *args):
        self.queue.append((function, args))

    def synchronize(self):
        while self.queue:
            function, args = self.queue.pop(0)
            super().call(function, *args)

    def upload(self, buffer, offset, host):
        self.synchronize()
        super().upload(buffer, offset, host)

    def download(self, buffer, offset, host):
        self.synchronize()
        super().download(buffer, offset, host)

    def copy(self, *where):
        self.synchronize()
        super().copy(*where)


# -- nothing is wrong -----------------------------------------------------------------------------


@plant(None, "add", "max", "conv", "exp", "cast", "tanh", "graph::state", "graph::new_inputs")
class control(Planted):
    """Has to be green."""


# -- in the device --------------------------------------------------------------------------------


@plant("device", "device::*")
class downloads_at_once(Late):
    """A download does not wait for what was launched."""

    download = good.NumpyDevice.download


@plant("device", "device::*")
class leaks(Planted):
    """Freed buffers are kept."""

    kept: list = []
    free = kept.append


@plant("device", "device::*")
class forgets_a_byte(Planted):
    """The last byte of an odd upload stays behind."""

    def upload(self, buffer, offset, host):
        super().upload(buffer, offset, host[:-1] if host.size % 256 == 1 else host)


class Everything(frozenset):
    """A set that says it has what it has not."""

    def __contains__(self, dtype):
        return True


@plant("errors", "device::*", "errors::*")
class accepts_all_dtypes(Planted):
    """A type that is not declared is computed with."""

    able = replace(Planted.able, dtypes=Everything(set(ALL) - {bfloat16}))


@plant("errors", "device::*", "errors::*", able=replace(Planted.able, host=False))
class denies_that_it_is_the_host(Planted):
    """Handles are NumPy arrays, which nobody is told."""


@plant("errors", "errors::*", able=replace(Late.able, synchronous=True))
class claims_to_be_in_time(Late):
    """What goes wrong in a launch is told late."""


@plant("errors", "errors::*")
class refuses_a_second_thread(Planted):
    """Says that threads may launch at once, and has room for one."""

    def __init__(self):
        super().__init__()
        self.door = threading.RLock()

    def call(self, function, *args):
        if not self.door.acquire(blocking=False):
            raise RuntimeError("another thread is inside")
        try:
            return super().call(function, *args)
        finally:
            self.door.release()


@plant("errors", "errors::*", spoil={"fused": spoilers.declines})
class claims_to_fuse(Planted):
    """Its kernel for fused chains wants none."""

    able = replace(Planted.able, fuses=frozenset({"add", "mul", "neg"}))


@plant("errors", "errors::*", spoil={"together": spoilers.declines})
class claims_to_join_updates(Planted):
    """Its kernel for updates together wants none."""

    able = replace(Planted.able, batches=frozenset({"add", "mul"}))


class Narrow(Target):
    """Runs chains of sums, if they have no more than `takes` bytes of arguments."""

    takes = Capabilities.parameters // 3

    def launch(self, calls, operands):
        steps = self.steps

        def run(*handles):
            if any(call.parameters > self.takes for call in calls):
                raise RuntimeError("too many arguments")
            values = [*handles[:-1]]
            for _, _, (a, b), _ in steps:
                values.append(values[a] + values[b])
            handles[-1][...] = values[-1]

        return run


@plant("errors", "errors::*", spoil={"fused": spoilers.declines})
class overstates_its_arguments(Planted):
    """A launch takes a third of the bytes that it says: more than the core counts on."""

    able = replace(Planted.able, fuses=frozenset({"add"}))

    def __init__(self):
        super().__init__()
        made = add_table(CallTable("planted_c"))
        self.languages = (*self.languages, "planted_c")

        @made.calls("fused", kernels.ALL_SIGNATURES)
        def fused(target, ins, outs, *, steps, results):
            target.steps = steps
            kernel = c.find("fused", [x.dtype for x in ins], [y.dtype for y in outs])
            return c.calls_of(kernel)(target, ins, outs, steps=steps, results=results)

    def target(self, language):
        return Narrow(self.able) if language == "planted_c" else super().target(language)


@plant("device", "device::*", able=replace(Planted.able, largest=4096))
class takes_more_than_it_says(Planted):
    """Its largest buffer is larger than declared."""


@plant("errors", "device::*", "errors::*")
class swallows_errors(Planted):
    """What goes wrong in a launch is never told."""

    def call(self, function, *args):
        try:
            return super().call(function, *args)
        except Exception:
            return None


# -- in a kernel ----------------------------------------------------------------------------------


@plant("ops.primitive", "maximum", spoil={"maximum": spoilers.ignores_strides})
class ignores_strides(Planted):
    """Reads its inputs in the order of memory."""


@plant("ops.primitive", "maximum", spoil={"maximum": spoilers.ignores_strides_of("i16,i16->i16")})
class ignores_strides_of_rare_types(Planted):
    """Reads its inputs in the order of memory, in a type that no sample names."""


@plant("ops.primitive", "sum", spoil={"sum": spoilers.forgets_to_begin})
class forgets_to_begin(Planted):
    """The sum of nothing is what lay there."""


@plant("ops.primitive", "exp", spoil={"exp": spoilers.writes_its_input})
class writes_its_input(Planted):
    """Uses an input as scratch memory."""


@plant(
    "ops.primitive", "ops.primitive::exp[*edges*]", "ops.primitive::sum", options=("-n", "1"),
    spoil={"exp": spoilers.ends_the_process},
)  # fmt: skip
class ends_the_process(Planted):
    """A kernel that takes everything with it."""


@plant("ops.primitive", "max", spoil={"max": spoilers.loses_nan})
class loses_nan(Planted):
    """The largest of what is a number."""


@plant("ops.primitive", "cast", spoil={"cast": spoilers.truncates_halves})
class truncates_halves(Planted):
    """Rounds to float16 toward zero."""


@plant("ops.primitive", "random_bits", spoil={"random_bits": spoilers.counts_by_thread})
class counts_by_thread(Planted):
    """Each of its threads starts at the first position of the draw."""


@plant("ops.primitive", "add", spoil={"add": spoilers.forgets_the_tail})
class forgets_the_tail(Planted):
    """Vectors of 8, and what is left over is not computed."""


@plant("ops.primitive", "sum", spoil={"sum": spoilers.prepared_once})
class prepared_once(Planted):
    """Geometry is kept by op and dtype, whatever the shapes."""


@plant("ops.composite", "conv", spoil={"conv": spoilers.pads_the_other_side})
class pads_the_other_side(Planted):
    """`same` padding that is odd has its one more at the wrong end."""


@plant("ops.composite", "layer_norm_grad", spoil={"layer_norm_grad": spoilers.scaled(1.0001)})
class scaled_gradient_kernel(Planted):
    """A gradient of its own, scaled a little wrong."""


# -- between kernels ------------------------------------------------------------------------------


@plant("autograd", "tanh", "sigmoid")
class scales_a_gradient(Planted):
    """A gradient scaled wrong, where no kernel is to blame."""

    def __init__(self):
        super().__init__()
        tanh = type(OPS["tanh"])
        right = tanh.backward
        tanh.backward = lambda *args, **more: tuple(g * 1.01 for g in right(*args, **more))


@plant("graph", "add", "graph::new_inputs", "graph::state")
class replays_old_inputs(Planted):
    """A replay reads the buffers it was recorded with."""

    def __init__(self):
        super().__init__()
        bound, patch = set(), LoopExecutable._patch
        kept = []  # so that ids are not used again

        def once(executable, root, array):
            if (id(executable), root) not in bound:
                kept.append(executable)
                bound.add((id(executable), root))
                patch(executable, root, array)

        LoopExecutable._patch = once


@plant("graph", "sub", "graph::updates", "graph::state", spoil={"sub": spoilers.clears_first})
class clears_what_it_reads(Planted):
    """Says that it may write over its input, and clears its output first."""


@plant("random", "random::*")
class freezes_draws(Planted):
    """A replay draws what the recording drew."""

    def __init__(self):
        super().__init__()
        from singa_core.random import Stream  # noqa: PLC0415  (to be broken here)

        take, known = Stream.take, {}
        Stream.take = lambda stream, blocks: known.setdefault(blocks, take(stream, blocks))


__all__ = ["FAULTS", "np"]
