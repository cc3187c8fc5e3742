"""Tensor: a cell that names an immutable value.

`t.assign(v)`, `t += v` and `t[i] = v` let the cell name another value; whoever holds the old one
keeps it. A tensor is concrete (it has an array), or symbolic (a value of a graph that is being
recorded).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from singa_core import homes
from singa_core.checks import check_flag
from singa_core.device import Device
from singa_core.dtype import ALL as DTYPES
from singa_core.dtype import DType, DTypeLike, as_dtype
from singa_core.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    RecordingError,
    ShapeError,
)
from singa_core.host import host_array, leaked
from singa_core.launch import pack
from singa_core.mode import MODE, STRUCTURE
from singa_core.node import Node, Source, flows, leaf
from singa_core.optable import FUNCTIONS, OPS
from singa_core.readable import HostValue
from singa_core.registry import registry
from singa_core.spec import Shape, Spec
from singa_core.storage import Array, Storage, from_host, lost_value

MAX_CONSTANTS: Final = 1024


class Tensor(HostValue):
    """An n-dimensional array on a device, that remembers where it came from.

    Make one with `tensor(...)`, a factory such as `zeros`, or by calling operations; the
    constructor is the engine's. Methods and operators follow NumPy and PyTorch, see `ArrayMethods`.
    """

    __slots__ = ("__weakref__", "_grad", "array", "home", "index", "node")

    # NumPy leaves mixed expressions (ndarray + Tensor) to our reflected operators
    __array_ufunc__ = None

    def __init__(self, array: Array | None, node: Node | None = None, index: int = 0) -> None:
        self.array = array
        self.node = node
        self.index = index
        self.home: Storage | None = None  # where its value stays, once a graph has captured it
        self._grad: Tensor | None = None

    # -- what it is --------------------------------------------------------------------------------

    @property
    def spec(self) -> Spec:
        """Shape and dtype."""
        if self.array is not None:
            return self.array.spec
        return self._value_node().specs[self.index]

    def _value_node(self) -> Node:
        if self.node is None:
            raise RecordingError("tensor", "a value", "a placeholder that was never bound")
        return self.node

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        array = self.array
        return array.spec.shape if array is not None else self.spec.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.spec.dtype

    @property
    def device(self) -> Device:
        """Where it lives. A symbolic tensor lives where its recording does."""
        if self.array is not None:
            return self.array.storage.device
        recorder = MODE.get().recorder
        if recorder is None:
            raise leaked("device", self)
        return recorder.device

    @property
    def symbolic(self) -> bool:
        """True while it stands for a value that a recording will compute."""
        return self.array is None

    @property
    def is_leaf(self) -> bool:
        """True unless it is the taped result of an operation."""
        node, _ = self._named()
        return node is None or isinstance(node, Source) or not node.tracked

    def _named(self) -> tuple[Node | None, int]:
        """Where its value comes from; in a recording, the value that it names there."""
        recorder = MODE.get().recorder
        found = None if recorder is None else recorder.overlay.get(id(self))
        return (self.node, self.index) if found is None else found[1]

    # -- gradients ---------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """True if gradients flow to or through it. Settable on leaves."""
        node, index = self._named()
        return node is not None and flows((node, index))

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if check_flag("requires_grad", "it", wanted) == self.requires_grad:
            return
        if not self.is_leaf or self.array is None:
            rule = "a leaf"
            raise GradientError(
                "requires_grad", rule, "the result of an operation", hint="detach() it"
            )
        if wanted and not self.dtype.is_floating:
            raise GradientError("requires_grad", "a floating dtype", self.dtype, x=self)
        self.node = leaf(self, self.array.spec) if wanted else None
        STRUCTURE.changed()

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward()` left here, None before."""
        recorder = MODE.get().recorder
        return self._grad if recorder is None else recorder.grad_of(self)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise GradientError("grad", "a tensor or None", repr(value))
        if value is not None and value.spec is not self.spec:
            raise GradientError(
                "grad", f"a tensor like its owner ({self.spec})", value.spec, x=self
            )
        recorder = MODE.get().recorder
        elsewhere = value is not None and recorder is None and value.device is not self.device
        if value is not None and elsewhere:
            rule, hint = f"a tensor on {self.device}, as its owner", f".to({self.device.name!r})"
            raise DeviceError("grad", rule, value.device, hint=hint, x=self)
        if recorder is not None:
            recorder.set_grad(self, value)
        else:
            self._grad = value

    def backward(self, gradient: Tensor | None = None, *, retain_graph: bool = False) -> None:
        """Add the gradients of this tensor to `.grad` of every leaf it depends on.

        Args:
            gradient: gradient of this tensor; may be left out for a single element.
            retain_graph: keep the tape for another backward through it.
        """
        FUNCTIONS["backward"](self, gradient, retain_graph=retain_graph)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
        """Call `hook(gradient)` when this tensor's gradient is complete; it may return another one.

        Returns a function that removes the hook. Raises: GradientError if no gradient flows here.
        """
        if not callable(hook):
            raise ArgumentError("register_hook", "a function of the gradient", repr(hook))
        if self.node is None or not self.requires_grad:
            raise GradientError("register_hook", "a tensor that requires grad", "one that does not")
        recorder = MODE.get().recorder
        node, index = (self.node, self.index) if recorder is None else recorder.value(self)
        if node.hooks is None:
            node.hooks = {}
        hooks = node.hooks.setdefault(index, [])
        hooks.append(hook)
        STRUCTURE.changed()

        def remove() -> None:
            if hook in hooks:
                hooks.remove(hook)
                STRUCTURE.changed()

        return remove

    def detach(self) -> Tensor:
        """The same value without its history."""
        if self.array is None or MODE.get().recorder is not None:
            result: Tensor = OPS["detach"](self)
            return result
        return Tensor(self.array)

    # -- naming another value ----------------------------------------------------------------------

    def assign(self, value: Any) -> Tensor:
        """Let this cell name `value`; history is not kept. Whoever holds the old value keeps it.

        Raises: ShapeError, DTypeError or DeviceError unless shape, dtype and device are those of
        the cell.
        """
        value = self.fitting("assign", value)
        recorder = MODE.get().recorder
        if recorder is not None:
            recorder.assign(self, value)
        elif value.array is None:
            raise leaked("assign", value)
        elif value.array.storage.lost:
            raise lost_value("assign")
        else:
            homes.rebind(self, packed(value))
        return self

    copy_from = assign

    def fitting(self, where: str, value: Any) -> Tensor:
        """`value` as a tensor that may replace this one's value."""
        given: Tensor = value
        if not isinstance(value, Tensor):
            try:
                given = tensor(value, dtype=self.dtype, device=self.device)
            except (DTypeError, ShapeError) as error:
                raise type(error)(where, error.rule, error.got, hint=error.hint) from None
        if given.shape != self.shape:
            raise ShapeError(where, "the cell's shape", given.shape, cell=self, value=given)
        if given.dtype is not self.dtype:
            raise DTypeError(where, "the cell's dtype", given.dtype, cell=self, value=given)
        if given.array is not None and given.device is not self.device:
            raise DeviceError(
                where, "the cell's device", given.device, hint=f".to({self.device.name!r})",
                cell=self, value=given,
            )  # fmt: skip
        return given

    def _own(self) -> Tensor:
        return own(self)

    def _beside(self, op: str, number: bool | int | float) -> Any:
        """The constant that stood for `number` beside a tensor of this dtype in `op`; else itself.

        A short cut: without it the number takes the long way, where constants are made.
        """
        array = self.array
        if array is None or MODE.get().recorder is not None:
            return number
        constants = array.storage.device.state.constants
        return constants.get(number_key(number, array.spec.dtype, op), number)

    def _replace(self, op: str, *others: Any, **attrs: Any) -> Tensor:
        """`self = op(self, *others)` for `+=` and its kin, and for assignment by index."""
        mode = MODE.get()
        recorder = mode.recorder
        gains = mode.grad and any(isinstance(t, Tensor) and t.requires_grad for t in others)
        if recorder is None and self.array is not None and self.node is None and not gains:
            FUNCTIONS["update"](OPS[op], (self, *others), (self,), **attrs)
            return self
        stays_leaf = self.requires_grad and self.is_leaf
        if stays_leaf and mode.grad:
            raise GradientError(
                op, "a tensor that is not a leaf with a gradient", "in-place change of a leaf",
                hint="use `with no_grad():`, or write t = t + ... instead of t += ...", x=self,
            )  # fmt: skip
        result = self.fitting(op, OPS[op](self, *others, **attrs))
        if recorder is not None:
            recorder.assign(self, result, keep_history=True)
        else:
            homes.rebind(self, packed(result))
            if not stays_leaf:
                if (self.node is None) != (result.node is None):
                    STRUCTURE.changed()  # a recording may not take a taped state
                self.node, self.index = result.node, result.index
        return self

    # -- elsewhere ---------------------------------------------------------------------------------

    def to(self, device: Device | str) -> Tensor:
        """A copy on another device; the same value if it is there already.

        Raises: GradientError for the taped result of an operation: a graph lives on one device.
        """
        target = named_device("to", device)
        if target is self.device:
            return own(self)
        if self.requires_grad and not self.is_leaf:
            raise GradientError(
                "to", "a leaf or an untracked tensor", "a taped result", hint="detach() it", x=self
            )
        moved = Tensor(from_host(target, np.asarray(self.numpy()), self.spec))
        moved.requires_grad = self.requires_grad
        return moved

    # -- as a Python object ------------------------------------------------------------------------

    def __hash__(self) -> int:
        return id(self)  # `==` is elementwise: a tensor is a key by identity

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A cell of its own, without history; the value is shared, since it cannot change."""
        if self.array is None:
            raise leaked("deepcopy", self)
        twin = memo[id(self)] = Tensor(self.array)
        twin.requires_grad = self.requires_grad
        return twin


def tensor(
    data: Any,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with a copy of `data`: a number, nested lists, a NumPy array, a DLPack exporter.

    Dtype: `dtype`; else a NumPy array's own, float32 for Python floats, int64 for Python ints.
    Raises: DTypeError for data that are not numbers; ShapeError for ragged lists.

    >>> tensor([[1.0, 2.0]]).dtype
    float32
    """
    requires_grad = check_flag("tensor", "requires_grad", requires_grad)
    if isinstance(data, Tensor):
        raise ArgumentError(
            "tensor", "host data", "a tensor", hint="x.astype(...), x.to(...) or x.detach()"
        )
    recorder = MODE.get().recorder
    host = host_array(data, None if dtype is None else as_dtype(dtype, "tensor"))
    if recorder is not None:
        if not isinstance(data, bool | int | float):
            recorder.warn_baked(host)
        return recorder.constant(host, Spec(host.shape, host.dtype))
    spec = Spec(host.shape, host.dtype)
    made = Tensor(from_host(as_device(device), host, spec))
    if requires_grad:
        made.requires_grad = True
    return made


def beside(x: Tensor, data: Any, dtype: DType | None = None) -> Tensor:
    """Host data of an index or an assignment as a tensor on x's device: as static as the code."""
    host = host_array(data, dtype)
    spec, recorder = Spec(host.shape, host.dtype), MODE.get().recorder
    if recorder is not None:
        return recorder.constant(host, spec)
    return Tensor(from_host(x.device, host, spec))


def own(x: Tensor) -> Tensor:
    """A cell of its own for the value that x names: assigning to either leaves the other alone."""
    recorder = MODE.get().recorder
    node, index = (x.node, x.index) if recorder is None else recorder.value(x)
    if not isinstance(node, Source):
        return Tensor(x.array if recorder is None else None, node, index)
    named: Tensor = OPS["reshape"](x, shape=x.shape)  # a source stands for its one cell
    return named


def apart(result: Any, inputs: Iterable[Any]) -> Any:
    """Results of a function of `inputs`: one that is an input gets a cell of its own."""
    if isinstance(result, tuple):
        parts = [apart(part, inputs) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    for x in inputs:
        if x is result and isinstance(x, Tensor):
            return own(x)
    return result


def named_device(where: str, device: Device | str) -> Device:
    """`as_device` where None would mean nothing. Raises: DeviceError for it, and for a dtype."""
    if device is None:
        raise DeviceError(where, "a device or its name", None)
    if isinstance(device, DType | str) and str(device) in [dtype.name for dtype in DTYPES]:
        got = f"the dtype {device}"
        raise DeviceError(where, "a device or its name", got, hint=f"x.astype({str(device)!r})")
    return as_device(device)


def as_device(device: Device | str | None) -> Device:
    """A device from a device, a name, or None for the default."""
    if isinstance(device, Device):
        return device
    if device is not None and not isinstance(device, str):
        raise DeviceError("device", "a device, a name or None", repr(device))
    return registry.resolve(device)


def number_key(number: bool | int | float, dtype: DType, op: str = "") -> tuple[Any, ...]:
    """What a number of some dtype is remembered by; with `op`, one beside a tensor of that dtype.

    The text of a zero, since 0.0 == -0.0; the type, since 1 == 1.0 == True.
    """
    return (number or repr(number), type(number), dtype, op)


def constant(value: bool | int | float, dtype: DType, device: Device) -> Tensor:
    """A 0-d tensor of a Python number; cached per device, since code repeats its numbers."""
    recorder = MODE.get().recorder
    if recorder is not None:
        return recorder.constant(zero_d(value, dtype), Spec((), dtype))
    cache = device.state.constants
    key = number_key(value, dtype)
    found: Tensor | None = cache.get(key)
    if found is None:
        if len(cache) >= MAX_CONSTANTS:
            cache.clear()
        found = cache[key] = Tensor(from_host(device, zero_d(value, dtype), Spec((), dtype)))
    return found


def zero_d(value: bool | int | float, dtype: DType) -> npt.NDArray[Any]:
    """A Python number as a 0-d array. Raises: DTypeError for an integer beyond all floats."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(float(value) if dtype.is_floating else value).astype(dtype.numpy)
    except (OverflowError, TypeError):
        raise DTypeError("constant", f"a number in the range of {dtype}", value) from None


def packed(t: Tensor) -> Array:
    """The array of a concrete tensor, packed: its own, or a copy's."""
    if t.array is None:
        raise leaked("value", t)
    return pack(t.array)
