"""Values of tensors on the host: as NumPy's arrays, as Python's numbers, as text.

Whoever reads a value waits for it. While a graph is recorded there is none, and reading is an error
that names the user's line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from singa_core.errors import DTypeError, ShapeError
from singa_core.host import host_read, leaked
from singa_core.launch import pack
from singa_core.methods import ArrayMethods
from singa_core.mode import MODE
from singa_core.node import Node, Source
from singa_core.storage import Array, lost_value, to_host

if TYPE_CHECKING:
    from singa_core.device import Device


class HostValue(ArrayMethods):
    """What a Tensor is to code on the host; `Tensor` adds what it is."""

    __slots__ = ()

    if TYPE_CHECKING:
        array: Array | None
        node: Node | None

        @property
        def device(self) -> Device: ...
        @property
        def requires_grad(self) -> bool: ...

    def numpy(self) -> npt.NDArray[Any]:
        """The value as a read-only NumPy array; without a copy where it lies in host memory.

        Raises: RecordingError while a graph is recorded.
        """
        array = self._readable("numpy()")
        if isinstance(array, np.ndarray):
            return array
        storage = array.storage
        if storage.device.capabilities.host and not storage.pinned:
            storage.mark().exported = True
            host: npt.NDArray[Any] = array.handle.view()
        else:
            host = to_host(pack(array))
        host.flags.writeable = False
        return host

    def _readable(self, what: str) -> Array | npt.NDArray[Any]:
        """The array behind the value, or the host value of a constant."""
        recorder = MODE.get().recorder
        if isinstance(self.node, Source) and self.node.kind == "const" and self.array is None:
            payload: npt.NDArray[Any] = self.node.payload
            return payload.copy()
        if self.array is None and recorder is None:
            raise leaked(what, self)
        if self.array is None or recorder is not None:
            raise host_read(what, recorder)
        if self.array.storage.lost:
            raise lost_value(what)
        return self.array

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        host = self.numpy()
        if copy is False and not self.device.capabilities.host:
            raise ValueError(f"__array__: needs host memory for copy=False, got {self.device}")
        wanted = host.dtype if dtype is None else np.dtype(dtype)
        return host.astype(wanted, copy=bool(copy)) if copy or wanted != host.dtype else host

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule of a copy: consumers write to what they are given, read-only or not."""
        if options.get("copy") is False:
            raise BufferError("__dlpack__: needs a copy, since a tensor's value never changes")
        return self.numpy().copy().__dlpack__(**{k: v for k, v in options.items() if k != "copy"})

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU: other devices export a host copy

    def item(self) -> bool | int | float:
        """The value of a single element as a Python number. Raises: ShapeError otherwise."""
        return self._number("item()")

    def tolist(self) -> Any:
        """The value as nested lists of Python numbers."""
        return self._host_value("tolist()").tolist()

    def _host_value(self, what: str) -> npt.NDArray[Any]:
        array = self._readable(what)
        if isinstance(array, np.ndarray):
            return array
        if array.packed:
            return to_host(array)
        return self.numpy()

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __bool__(self) -> bool:
        return bool(self._number("bool()"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise DTypeError("index", "an integer tensor", self.dtype, x=self)
        return int(self._number("an index"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def _number(self, what: str) -> bool | int | float:
        if self.spec.itemcount != 1:
            raise ShapeError(
                what, "exactly one element", self.shape, hint=".any(), .all() or an index", x=self
            )
        value: bool | int | float = self._host_value(what).reshape(()).item()
        return value

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len()", "at least one axis", self.shape)
        return self.shape[0]

    def __format__(self, form: str) -> str:
        """A single element as its number is formatted; without a form, as `str`."""
        return format(self._number("format()"), form) if form else str(self)

    def __repr__(self) -> str:
        spec = self.spec
        if self.array is None:
            return f"<symbolic {spec} of {self.node!r}>"
        extra = ", requires_grad=True" if self.requires_grad else ""
        if MODE.get().recorder is not None:
            return f"<tensor {spec} {self.device}{extra}>"
        values = np.array2string(
            self._host_value("repr()"), separator=", ", prefix="tensor(", threshold=64, edgeitems=3,
            precision=6,
        )  # fmt: skip
        return f"tensor({values}, dtype={spec.dtype}, device={self.device.name!r}{extra})"
