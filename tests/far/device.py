"""A device that is not the host: everything a backend may be that NumPy on the host is not.

- Its memory cannot be reached: buffers and handles are opaque, and NumPy refuses them.
- There are no sub-buffers, and no kernel but `copy` takes strides: the core has to pack.
- It has no bfloat16.
- It fuses scalar operations in graphs.
- It is late: what goes wrong in a kernel is told by the next `synchronize` or `download`. Until then
  it skips what it is given, as a queue does after an error. Wrong *arguments* are refused at once.
- Kernels write into outputs and workspace they are given; fresh memory holds garbage.

Its kernel language is the shared `array` language, wrapped: a kernel unwraps its handles on the
device's side, and nothing of it returns to the host.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from singa_core.device import Capabilities, Device
from singa_core.dtype import ALL, bfloat16
from singa_core.kernels import KernelTable, add_table
from singa_core.kernels.array import array as shared
from singa_core.spec import make_form

LANGUAGE = "far"
GARBAGE = 0xA5
FUSES = frozenset(
    "neg abs sign add sub mul div maximum minimum equal less less_equal bit_and bit_or bit_not where "
    "cast exp expm1 log log1p sqrt tanh floor round".split()
)
NEEDS_WORKSPACE = ("matmul", "sort")  # as much of it as the outputs have: two that show how


class Buffer:
    """The name of a piece of far memory: says nothing, not even how large it is."""

    __slots__ = ("__weakref__",)


class Handle:
    """What a far kernel gets: a buffer, and how to look at it. Useless to anybody else."""

    __slots__ = ("buffer", "dtype", "offset", "shape", "strides")
    __array_ufunc__ = None

    def __init__(self, buffer, offset, shape, strides, dtype):
        self.buffer, self.offset, self.dtype = buffer, offset, dtype
        self.shape, self.strides = shape, strides

    def __array__(self, *args, **kwargs):
        raise TypeError("far memory cannot be reached from the host")


class FarDevice(Device):
    """Memory of its own, and a queue that works at once but tells its errors late."""

    def __init__(self, index: int = 0):
        capabilities = Capabilities(
            dtypes=frozenset(ALL) - {bfloat16}, alignment=256, sub_buffers=False, family="gpu",
            fuses=FUSES, batches=frozenset({"fused", "add", "mul"}),
        )  # fmt: skip
        super().__init__("far", index, capabilities, languages=(LANGUAGE,))
        self.launches = 0
        self._memory: dict[Buffer, np.ndarray] = {}
        self._fail_in = 0
        self._error: Exception | None = None
        self._busy = threading.Lock()

    # -- for tests ----------------------------------------------------------------------------------

    @property
    def alive(self) -> list[int]:
        """Sizes of the buffers that were allocated and not freed, in order of allocation."""
        return [memory.size for memory in self._memory.values()]

    @property
    def limit(self) -> int | None:
        """How many bytes there are; settable."""
        return self.capabilities.capacity

    @limit.setter
    def limit(self, nbytes: int | None):
        self.capabilities = replace(self.capabilities, capacity=nbytes)

    def fail_at(self, n: int):
        """The n-th launch from now fails (1 is the next one); 0 takes it back."""
        self._fail_in = n

    def recover(self) -> Exception | None:
        """Back to a device without limit and faults; gives the error that nobody asked about."""
        error, self._error = self._error, None
        self.limit, self._fail_in = None, 0
        return error

    # -- memory -------------------------------------------------------------------------------------

    def alloc(self, nbytes):
        if self.limit is not None and sum(self.alive) + nbytes > self.limit:
            raise MemoryError(f"far: {nbytes} bytes do not fit")
        buffer = Buffer()
        self._memory[buffer] = np.full(nbytes, GARBAGE, np.uint8)
        return buffer

    def free(self, buffer):
        del self._memory[buffer]

    def upload(self, buffer, offset, host):
        with self._alone():
            self._memory[buffer][offset : offset + host.size] = host

    def download(self, buffer, offset, host):
        self.synchronize()
        with self._alone():
            host[...] = self._memory[buffer][offset : offset + host.size]

    def copy(self, source, start, target, offset, nbytes):
        there, here = self._memory[target], self._memory[source]
        with self._alone():
            if self._error is None:
                there[offset : offset + nbytes] = here[start : start + nbytes]

    def synchronize(self):
        error, self._error = self._error, None
        if error is not None:
            raise error

    def bind(self, buffer, offset, shape, strides, dtype):
        handle = Handle(buffer, offset, shape, strides, dtype)
        self._look(handle)  # refuses what lies outside the buffer
        return handle

    def _look(self, handle: Handle) -> np.ndarray:
        """The device's own view of its memory."""
        if handle.buffer not in self._memory:
            raise RuntimeError("far: the buffer behind this handle has been freed")
        size, memory = handle.dtype.itemsize, self._memory[handle.buffer]
        steps = [stride * size for stride in handle.strides]
        return np.ndarray(
            handle.shape, handle.dtype.numpy, memory.data, handle.offset * size, steps
        )

    # -- kernels ------------------------------------------------------------------------------------

    def launch(self, work: Callable[..., None], forms: Sequence, handles: Sequence[Handle]):
        """Queue `work`. What is wrong with the arguments is told now, what goes wrong in it later."""
        for form, handle in zip(forms, handles, strict=True):
            given = (handle.shape, handle.strides, handle.dtype)
            if given != (form.shape, form.strides, form.dtype):
                raise TypeError(f"far: a kernel prepared for {form} was given {given}")
        arrays = [self._look(handle) for handle in handles]
        with self._alone():
            self.launches += 1
            self._fail_in -= 1
            if self._error is not None:
                return
            try:
                if self._fail_in == 0:
                    raise RuntimeError("far: a fault was asked for")
                with np.errstate(all="ignore"):
                    work(*arrays)
            except Exception as error:
                self._error = error.with_traceback(None)  # which would keep the caller's tensors

    @contextmanager
    def _alone(self):
        """`concurrent=False` is a promise by the core: one thread at a time."""
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("far: used by two threads at once")
        try:
            yield
        finally:
            self._busy.release()


def translate(kernel):
    """A far kernel out of a shared one: `launch(*ins, *outs[, workspace])` on handles."""

    def prepare(device, in_forms, out_specs, **attrs):
        function = kernel.prepare(np, in_forms, out_specs, **attrs)
        count, forms = len(in_forms), [*in_forms, *out_specs]
        workspace = sum(spec.nbytes for spec in out_specs) if kernel.op in NEEDS_WORKSPACE else 0
        if workspace:
            forms.append(make_form(out_specs[0].with_shape((workspace,)).with_dtype("uint8"), (1,)))

        def work(*arrays):
            made = function(*arrays[:count])
            results = made if isinstance(made, tuple) else (made,)
            if workspace:
                arrays[-1][...] = GARBAGE
            for out, result in zip(arrays[count : count + len(out_specs)], results, strict=True):
                if (out.shape, out.dtype) != (np.shape(result), result.dtype):
                    raise TypeError(f"{kernel.op} made {result.dtype} {result.shape}")
                out[...] = result

        def launch(*handles):
            device.launch(work, forms, handles)

        return (launch, workspace) if workspace else launch

    return prepare


def build() -> KernelTable:
    table = add_table(KernelTable(LANGUAGE))
    for kernel in shared:
        if "bf16" not in kernel.signature:
            # results are complete before they are written, so an output may be any of the inputs
            table.prepared(
                kernel.op, kernel.signature, strides=kernel.op == "copy", in_place=True
            )(translate(kernel))  # fmt: skip
    return table


TABLE = build()
