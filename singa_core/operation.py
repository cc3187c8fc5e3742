"""Operation and `apply`: what an op is, and the one way into the engine.

ops.f(x, w, **attrs) -> apply: devices agree -> resolve (cached) -+- eager: launch -> Tensor
+- recording: Node -> Tensor
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from singa_core.attributes import MAX_INTERNED, Attrs, Packed, hashable, is_plain, short_key, typed
from singa_core.device import Device
from singa_core.dtype import DType, as_dtype, fits, promote, weak
from singa_core.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    ShapeError,
    SingaError,
    told_by,
)
from singa_core.host import leaked
from singa_core.launch import failure, run
from singa_core.mode import MODE, Mode, use_mode
from singa_core.node import Node
from singa_core.optable import OPS, register
from singa_core.resolve import Entry, resolve, wrong_count
from singa_core.signature import Expected, read
from singa_core.spec import Shape, Spec
from singa_core.storage import Array, Storage, trouble
from singa_core.tensor import Tensor, apart, constant, number_key, tensor

Layout = tuple[Shape, int]


class Needs(tuple[bool, ...]):
    """Which inputs want a gradient; `specs` are the inputs' specs, `outs` the outputs'."""

    specs: tuple[Spec, ...]
    outs: tuple[Spec, ...]


class Operation:
    """A stateless operation; the object is the public function.

    A subclass gives `infer`, whose positional parameters are tensors and whose keyword-only ones
    are attributes, and then one of: a kernel in some language (a primitive), `forward` made of
    other ops (a composite), or `view` (another look at the same bytes). `backward` makes it
    differentiable; a composite without it is differentiated through its decomposition.

    Class attributes:
        name: its name in tables, messages and files.
        keeps: what backward needs, by the names of `infer`'s parameters, or "y" (the only output),
            "y0", "y1" ... (one of several).
        promotes: inputs that are brought to one dtype; a Python number among them is weak.
        weak_float: integers among the promoted inputs become float32.
        heavy: takes much more work than reading its inputs and writing its outputs does; a graph
            does it once where it is asked for twice, whatever memory that takes.
    """

    name: ClassVar[str]
    keeps: ClassVar[tuple[str, ...]] = ()
    promotes: ClassVar[tuple[int, ...] | bool] = False
    weak_float: ClassVar[bool] = False
    heavy: ClassVar[bool] = False

    inputs: ClassVar[tuple[str, ...]]
    variadic: ClassVar[bool]
    attributes: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        parameters = list(inspect.signature(cls.infer).parameters.values())[1:]
        cls.inputs = tuple(
            p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)
        )
        cls.variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        cls.attributes = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def __init__(self) -> None:
        self._interned: dict[Any, Attrs] = {}
        self._packs: dict[Any, Attrs] = {}  # a short cut to it
        self._expected: dict[str, Expected] | None = None  # read when first wanted: 20 us an op
        register(self)

    def infer(self, *specs: Any, **attrs: Any) -> Spec | tuple[Spec, ...]:
        """Output specs from input specs and settled attributes; raises what the op's docs say."""
        raise NotImplementedError(f"{type(self).__name__} must define infer")

    def settle(self, *specs: Any, **attrs: Any) -> dict[str, Any]:
        """Attributes in the form kernels see: axes counted from the front, defaults filled in."""
        return attrs

    # -- what a subclass may define ----------------------------------------------------------------

    def forward(self, *tensors: Any, **attrs: Any) -> Any:
        """The decomposition of a composite."""
        raise NotImplementedError

    def backward(self, *grads_and_kept: Any, **needs_and_attrs: Any) -> Any:
        """Gradients of the inputs; None where `needs` says no."""
        raise NotImplementedError

    def view(self, *shape_and_strides: Any, **attrs: Any) -> Layout | None:
        """Strides and element offset of the output over the input's bytes; None to copy first."""
        raise NotImplementedError

    def route(self, *specs: Any, **attrs: Any) -> Callable[..., Any] | None:
        """Another way for inputs of these specs, `f(*tensors, **attrs)`; None for the usual one.

        For inputs that kernels are not to see: it brings them into another form and calls again.
        """
        return None

    def members(self, **attrs: Any) -> Sequence[str]:
        """What an instruction that a pass has made of several is made of, for reports."""
        return ()

    @property
    def is_composite(self) -> bool:
        """True if it has a decomposition."""
        return type(self).forward is not Operation.forward

    @property
    def is_view(self) -> bool:
        """True if its output looks at its input's bytes."""
        return type(self).view is not Operation.view

    @property
    def has_backward(self) -> bool:
        """True if it has a gradient of its own."""
        return type(self).backward is not Operation.backward

    def __deepcopy__(self, memo: object) -> Operation:
        return self  # stateless: a copy of a layer calls the same operation

    # -- calling it --------------------------------------------------------------------------------

    def __call__(self, *tensors: Any, **attrs: Any) -> Any:
        if not self.attributes and not attrs:
            return apply(self, tensors, ())
        return apply(self, tensors, self.pack(attrs))

    def pack(self, attrs: dict[str, Any]) -> Attrs:
        """Attribute values in declared order, as one interned object.

        Raises: ArgumentError for an unknown name, a missing one, or a value without a hash, or of
            another type than the annotation of `infer` says (ShapeError for a shape, DTypeError for
            a dtype).
        """
        try:
            found = self._packs.get(short_key(attrs))
        except TypeError:  # a list, which has no hash
            found = None
        return self._pack(attrs) if found is None else found

    def _pack(self, attrs: dict[str, Any]) -> Attrs:
        unknown = [name for name in attrs if name not in self.attributes]
        if unknown:
            known = ", ".join(self.attributes) or "none"
            raise ArgumentError(self.name, f"attributes among ({known})", ", ".join(unknown))
        if self._expected is None:
            self._expected = read(type(self).infer)
        expected, values = self._expected, []
        for name, default in self.attributes.items():
            if name not in attrs and default is inspect.Parameter.empty:
                raise ArgumentError(
                    self.name, f"the attribute {name!r}", ", ".join(attrs) or "none"
                )
            value = default
            if name in attrs:
                value = hashable(f"{self.name}, {name}", attrs[name])
                if name in expected:
                    value = expected[name].check(self.name, name, value)
            values.append(value)
        if len(self._interned) >= MAX_INTERNED:
            self._interned.clear()
            self._packs.clear()
        key = tuple([typed(value) for value in values])
        packed = self._interned.setdefault(key, Packed(values))
        if all(is_plain(value) for value in attrs.values()):
            with suppress(TypeError):  # a list, which has no hash
                self._packs[short_key(attrs)] = packed
        return packed

    def bound(self, **attrs: Any) -> Bound:
        """The operation with its attributes given once, for code that calls it again and again.

        Raises: as `pack`.
        """
        return Bound(self, self.pack(attrs))

    def expand(self, tensors: Sequence[Tensor], options: dict[str, Any]) -> Any:
        """`forward`; what an op inside complains of is told with this one's name."""
        try:
            return apart(self.forward(*tensors, **options), tensors)
        except SingaError as error:
            told_by(error, self.name)
            raise

    def on_arrays(self, arrays: Sequence[Array], options: dict[str, Any]) -> list[Array]:
        """What `expand` gives, run at once: neither taped nor recorded."""
        with use_mode(Mode(False, None)):
            result = self.expand([Tensor(a) for a in arrays], options)
        results = result if isinstance(result, tuple) else (result,)
        return [t.array for t in results]

    def __repr__(self) -> str:
        return f"<operation {self.name}>"


class Bound:
    """An operation and its packed attributes: `op.bound(axis=0)(x)` is `op(x, axis=0)`."""

    __slots__ = ("attrs", "op")

    def __init__(self, op: Operation, attrs: Attrs) -> None:
        self.op = op
        self.attrs = attrs

    def __call__(self, *tensors: Any) -> Any:
        return apply(self.op, tensors, self.attrs)

    def __deepcopy__(self, memo: object) -> Bound:
        return self  # neither changes, and packed attributes are known by identity


# -- apply -----------------------------------------------------------------------------------------


def apply(  # noqa: PLR0912  (the hot path: a call of a helper would cost a tenth of an op)
    op: Operation, tensors: Sequence[Any], attrs: Attrs, device: Device | None = None
) -> Any:
    """Run `op` now, or record it. `device` says where, for an op without tensor inputs."""
    mode = MODE.get()
    if mode.recorder is not None:
        return mode.recorder.record(op, tensors, attrs, mode)
    try:
        arrays = [t.array for t in tensors]
        key = (op, attrs, *[a.form for a in arrays])
    except AttributeError:  # a number, host data, or a symbolic tensor
        key = None
    if key is None:  # out here, so that an error in it has no other behind it
        tensors = as_tensors(op, tensors, device)
        arrays = [t.array for t in tensors]
        key = (op, attrs, *[a.form for a in arrays])
    if arrays:
        storage = arrays[0].storage
        device = storage.device
        for array in arrays:
            if array.storage is not storage and array.storage.device is not device:
                raise mixed_devices(op, tensors)
    elif device is None:
        raise wrong_count(op, 0) if op.inputs else ArgumentError(op.name, "a device", None)
    entry = device.state.entries.get(key)
    if entry is None:
        entry = resolve(device, op, attrs, key[2:])
    tracked = False
    if mode.grad and entry.trackable:
        for t in tensors:
            if t.node is not None:
                tracked = True
                break
    make = entry.make
    if make is not None:  # the common case, written out: one native kernel, one output
        spec = entry.specs[0]
        try:
            buffer, handle = make()
        except Exception as error:
            raise trouble(device, "alloc", error, spec.nbytes) from error
        out = Array(Storage(device, buffer, spec.nbytes), spec, spec, 0, handle)
        handles = [a.handle if a._handle is None else a._handle for a in arrays]
        try:
            device.call(entry.launch, *handles, handle)
        except Exception as error:
            raise failure(error, entry, device) from error
    elif entry.form is not None:
        out = arrays[0].look(entry.specs[0], entry.form, entry.offset)
    else:
        return _seldom(entry, tensors, arrays, attrs, device, tracked)
    if not tracked:
        return Tensor(out)
    inputs = tuple([None if t.node is None else (t.node, t.index) for t in tensors])
    saved = tuple([out if is_out else arrays[i] for is_out, i in entry.kept]) if entry.kept else ()
    return Tensor(out, Node(entry, inputs, saved, True))


def _seldom(
    entry: Entry,
    tensors: Sequence[Tensor],
    arrays: list[Array],
    attrs: Attrs,
    device: Device,
    tracked: bool,
) -> Any:
    """Casts, other routes, packing, several outputs, decomposition."""
    op = entry.op
    if entry.casts is not None:
        return apply(op, cast_all(entry.casts, tensors), attrs)
    if entry.route is not None:
        return apart(entry.route(*tensors, **entry.options), tensors)
    if tracked and entry.expands:
        return op.expand(tensors, entry.options)
    if not tracked and entry.launch is None and not entry.needs_pack:
        return op.expand(tensors, entry.options)
    outs = run(entry, arrays, device)
    if not tracked:
        return Tensor(outs[0]) if len(outs) == 1 else tuple(Tensor(a) for a in outs)
    inputs = tuple([None if t.node is None else (t.node, t.index) for t in tensors])
    saved = tuple([outs[i] if is_out else arrays[i] for is_out, i in entry.kept])
    node = Node(entry, inputs, saved, True)
    results = [
        Tensor(a, node, i) if a.spec.dtype.is_floating else Tensor(a) for i, a in enumerate(outs)
    ]
    return results[0] if len(results) == 1 else tuple(results)


def cast_all(casts: tuple[DType | None, ...], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Inputs brought to the dtypes an op wants; `cast` is an op like any other, so it is taped."""
    cast = OPS["cast"]
    return [t if d is None else cast(t, dtype=d) for t, d in zip(tensors, casts, strict=True)]


# -- inputs that are not plain tensors -------------------------------------------------------------


def as_tensors(op: Operation, inputs: Sequence[Any], device: Device | None = None) -> list[Tensor]:
    """Numbers and host arrays among the inputs as tensors.

    Raises: RecordingError for a leaked one.
    """
    given = [t for t in inputs if isinstance(t, Tensor)]
    if MODE.get().recorder is None:
        for t in given:
            if t.array is None:
                raise leaked(op.name, t)
    if device is None and given:
        device = given[0].device
    places = range(len(inputs)) if op.promotes is True else op.promotes or ()
    peers = [inputs[i].dtype for i in places if i < len(inputs) and isinstance(inputs[i], Tensor)]
    out = []
    for i, value in enumerate(inputs):
        if isinstance(value, Tensor):
            out.append(value)
        elif device is not None and peers and i in places and isinstance(value, bool | int | float):
            out.append(constant(value, number_dtype(op, value, peers), device))
            if len(peers) == 1 and MODE.get().recorder is None:
                device.state.constants[number_key(value, peers[0], op.name)] = out[-1]
        else:
            name = op.inputs[i] if i < len(op.inputs) else f"input {i}"
            out.append(operand(op.name, name, partial(tensor, value, device=device)))
    return out


def operand(where: str, name: str, make: Callable[[], Tensor]) -> Tensor:
    """Host data among operands as a tensor. Raises: as `tensor`, with the operand's name."""
    try:
        return make()
    except (DTypeError, ShapeError, ArgumentError) as error:
        rule = f"{name}: a tensor, or {error.rule}"
        raise type(error)(where, rule, error.got, hint=error.hint) from None


def number_dtype(op: Operation, number: bool | int | float, peers: Sequence[DType]) -> DType:
    """The type a Python number takes beside tensors of these types."""
    common = peers[0]
    for peer in peers[1:]:
        common = promote(common, peer)
    if common.kind == "float":
        return common
    if op.weak_float:
        return as_dtype("float32")
    dtype = weak(common, number)
    if not fits(number, dtype):
        raise DTypeError(op.name, f"a number in the range of {dtype}", number)
    return dtype


def mixed_devices(op: Operation, tensors: Sequence[Tensor]) -> DeviceError:
    """The error for operands on different devices."""
    names = op.inputs if not op.variadic else tuple(f"x{i}" for i in range(len(tensors)))
    got = " and ".join(dict.fromkeys(t.device.name for t in tensors))
    operands = dict(zip(names, tensors, strict=False))
    # a layer's Parameter or State stays where it is: its input was made in the wrong place
    stays = next((t for t in tensors if type(t) is not Tensor), None)
    home = (tensors[0] if stays is None else stays).device
    moves = next((name for name, t in operands.items() if t.device is not home), "")
    hint = f"{moves}.to({home.name!r})" + ("" if stays is None else ", where the layer is")
    return DeviceError(op.name, "all tensors on one device", got, hint=hint, **operands)
