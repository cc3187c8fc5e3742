"""Operation and `apply`: what an op is, and the one way into the engine.

    ops.f(x, w, **attrs) -> apply: devices agree -> resolve (cached) -+- eager: launch -> Tensor
                                                                     +- recording: Node -> Tensor

`resolve` answers everything about (op, attributes, forms) at once -- settled attributes, output
specs, kernel or view or decomposition -- and is cached per device in one dictionary.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from singa_core import kernels
from singa_core.device import Array, Device, Storage, empty_array, with_memory
from singa_core.dtype import DType, as_dtype, fits, promote, weak
from singa_core.errors import (
    ArgumentError,
    DeviceError,
    DeviceFailure,
    DTypeError,
    KernelMissing,
    ShapeError,
    SingaError,
)
from singa_core.mode import MODE, Mode, use_mode
from singa_core.node import Node
from singa_core.optable import OPS, register
from singa_core.spec import AnyForm, Shape, Spec, make_form, spec_of
from singa_core.tensor import Tensor, constant, leaked, tensor

if TYPE_CHECKING:
    from singa_core.kernels import Kernel

Attrs = tuple[Any, ...]
Layout = tuple[Shape, int]
MAX_PACKS: Final = 256
MAX_ENTRIES: Final = 16384  # shapes that keep changing must not grow the table for ever


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
    """

    name: ClassVar[str]
    keeps: ClassVar[tuple[str, ...]] = ()
    promotes: ClassVar[tuple[int, ...] | bool] = False
    weak_float: ClassVar[bool] = False

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
        self._packs: dict[tuple[tuple[str, Any], ...], Attrs] = {}
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

    # -- calling it --------------------------------------------------------------------------------

    def __call__(self, *tensors: Any, **attrs: Any) -> Any:
        if not self.attributes and not attrs:
            return apply(self, tensors, ())
        return apply(self, tensors, self.pack(attrs))

    def pack(self, attrs: dict[str, Any]) -> Attrs:
        """Attribute values in declared order, hashable.

        Raises: ArgumentError for an unknown name.
        """
        try:
            return self._packs[tuple(attrs.items())]
        except (KeyError, TypeError):  # new, or with a list in it
            return self._pack(attrs)

    def _pack(self, attrs: dict[str, Any]) -> Attrs:
        values: list[Any] = []
        left = len(attrs)
        for name, default in self.attributes.items():
            if name in attrs:
                value = attrs[name]
                left -= 1
                values.append(hashable(value) if isinstance(value, _CONTAINERS) else value)
            elif default is inspect.Parameter.empty:
                raise ArgumentError(self.name, f"the attribute {name!r}", sorted(attrs))
            else:
                values.append(default)
        if left:
            unknown = ", ".join(sorted(set(attrs) - set(self.attributes)))
            known = ", ".join(self.attributes) or "none"
            raise ArgumentError(self.name, f"attributes among ({known})", unknown)
        packed = tuple(values)
        if len(self._packs) < MAX_PACKS and not any(
            isinstance(v, _CONTAINERS) for v in attrs.values()
        ):
            self._packs[tuple(attrs.items())] = packed
        return packed

    def __repr__(self) -> str:
        return f"<operation {self.name}>"


_CONTAINERS: Final = (list, dict, set)


def hashable(value: Any) -> Any:
    """Lists as tuples, so that an attribute can be part of a key."""
    if isinstance(value, list | tuple):
        return tuple(hashable(item) for item in value)
    raise ArgumentError("attribute", "a hashable value", repr(value))


class Entry:
    """The answer for one (op, attributes, forms) on one device."""

    __slots__ = (
        "__weakref__", "attrs", "casts", "expands", "form", "in_specs", "kept", "kernel", "launch",
        "make", "needs_pack", "offset", "op", "options", "specs", "trackable", "workspace",
    )  # fmt: skip

    def __init__(self, op: Operation, in_specs: tuple[Spec, ...]) -> None:
        self.op = op
        self.in_specs = in_specs
        self.specs: tuple[Spec, ...] = ()
        self.options: dict[str, Any] = {}
        self.attrs: tuple[tuple[str, Any], ...] = ()
        self.casts: tuple[DType | None, ...] | None = None
        self.kernel: Kernel | None = None
        self.launch: Any = None  # kernels.Launch, or None; Any spares a check per launch
        self.workspace: Spec | None = None
        self.form: AnyForm | None = None  # of a view: how it lies over its input's bytes
        self.offset = 0
        self.needs_pack: tuple[int, ...] = ()
        self.kept: tuple[tuple[bool, int], ...] = ()  # (is an output, position)
        self.trackable = False
        self.expands = False  # differentiated through its decomposition
        self.make: Any = None  # allocates the output, where one plain kernel serves the op


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
    except AttributeError:
        tensors = as_tensors(op, tensors, device)
        arrays = [t.array for t in tensors]
        key = (op, attrs, *[a.form for a in arrays])
    if arrays:
        device = arrays[0].storage.device
        for array in arrays:
            if array.storage.device is not device:
                raise mixed_devices(op, tensors)
    elif device is None:
        raise ArgumentError(op.name, "a device, since it has no tensor inputs", None)
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
        except MemoryError:
            buffer, handle = with_memory(device, spec.nbytes, make)
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
    """Casts, views, packing, several outputs, decomposition."""
    op = entry.op
    if entry.casts is not None:
        return apply(op, cast_all(entry.casts, tensors), attrs)
    if tracked and entry.expands:
        return op.forward(*tensors, **entry.options)
    if not tracked and entry.launch is None and not entry.needs_pack:
        return op.forward(*tensors, **entry.options)
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


def run(entry: Entry, arrays: list[Array], device: Device) -> Sequence[Array]:
    """Output Arrays of an entry whose casts are done; nothing in here is taped."""
    if entry.form is not None:
        return (arrays[0].look(entry.specs[0], entry.form, entry.offset),)
    if entry.needs_pack:
        packed = list(arrays)
        for i in entry.needs_pack:
            packed[i] = pack(packed[i])
        forms = tuple(a.form for a in packed)
        again = find_entry(device, entry.op, tuple(v for _, v in entry.attrs), forms)
        return run(again, packed, device)
    if entry.launch is not None:
        return launch(entry, arrays, device)
    with use_mode(Mode(False, None)):
        result = entry.op.forward(*[Tensor(a) for a in arrays], **entry.options)
    results = result if isinstance(result, tuple) else (result,)
    return [t.array for t in results]


def launch(entry: Entry, arrays: Sequence[Array], device: Device) -> Sequence[Array]:
    """Run a kernel into new Arrays."""
    handles = [a.handle for a in arrays]
    kernel = entry.kernel
    if kernel is not None and kernel.returning:
        return _launch_returning(entry, handles, device)
    outs = [empty_array(device, spec) for spec in entry.specs]
    written = list(outs)
    if entry.workspace is not None:
        written.append(empty_array(device, entry.workspace))
    try:
        device.call(entry.launch, *handles, *[a.handle for a in written])
    except Exception as error:
        raise failure(error, entry, device) from error
    return outs


def _launch_returning(entry: Entry, handles: list[Any], device: Device) -> Sequence[Array]:
    try:
        made = device.call(entry.launch, *handles)
    except Exception as error:
        raise failure(error, entry, device) from error
    results = made if isinstance(made, tuple) else (made,)
    arrays = []
    for result, spec in zip(results, entry.specs, strict=True):
        adopted = device.adopt(result)
        if adopted is None:
            array = empty_array(device, spec)
            array.handle[...] = result
        else:
            buffer, handle = adopted
            array = Array(Storage(device, buffer, spec.nbytes), spec, spec, 0, handle)
        arrays.append(array)
    return arrays


def failure(error: Exception, entry: Entry, device: Device) -> Exception:
    """A native exception in core's words; core's own pass through."""
    if isinstance(error, SingaError):
        return error
    specs = ", ".join(map(str, entry.in_specs))
    told = f"{type(error).__name__}: {error}"
    return DeviceFailure(f"{entry.op.name} on {device} failed with {told}\n  inputs: {specs}")


def pack(array: Array) -> Array:
    """The array itself if it is packed, else a packed copy."""
    if array.packed:
        return array
    device = array.storage.device
    entry = find_entry(device, OPS["copy"], (), (array.form,))
    return launch(entry, (array,), device)[0]


# -- resolve ---------------------------------------------------------------------------------------


def find_entry(device: Device, op: Operation, attrs: Attrs, forms: tuple[AnyForm, ...]) -> Entry:
    """The cached answer, resolved if it is new."""
    entry: Entry | None = device.state.entries.get((op, attrs, *forms))
    return resolve(device, op, attrs, forms) if entry is None else entry


def resolve(device: Device, op: Operation, attrs: Attrs, forms: tuple[AnyForm, ...]) -> Entry:
    """Settle, infer, and find who serves it. Raises: what `infer` raises; KernelMissing."""
    in_specs = tuple(spec_of(form) for form in forms)
    if not op.variadic and len(forms) != len(op.inputs):
        raise ShapeError(op.name, f"{len(op.inputs)} tensors ({', '.join(op.inputs)})", len(forms))
    entry = Entry(op, in_specs)
    named = dict(zip(op.attributes, attrs, strict=True))
    if op.promotes:
        entry.casts = casts_for(op, in_specs)
        if entry.casts is not None:
            in_specs = tuple(
                s.with_dtype(d) if d else s for s, d in zip(in_specs, entry.casts, strict=True)
            )
    try:
        entry.options = op.settle(*in_specs, **named)
        inferred = op.infer(*in_specs, **entry.options)
    except SingaError as error:
        if hasattr(error, "operands"):
            error.operands = {k: _Placed(v, device) for k, v in error.operands.items()}
        raise
    entry.specs = inferred if isinstance(inferred, tuple) else (inferred,)
    entry.attrs = tuple(entry.options.items())
    entry.kept = tuple(keep_position(op, name) for name in op.keeps)
    differentiable = op.has_backward or op.is_composite
    entry.trackable = differentiable and any(s.dtype.is_floating for s in entry.specs)
    entry.expands = op.is_composite and not op.has_backward
    if entry.casts is None:
        serve(entry, device, forms)
        plain = entry.launch is not None and entry.workspace is None and len(entry.specs) == 1
        returning = entry.kernel is not None and entry.kernel.returning
        if plain and not returning and not (entry.expands and entry.trackable):
            entry.make = device.maker(entry.specs[0])
    entries = device.state.entries
    if len(entries) >= MAX_ENTRIES:
        entries.clear()
    entries[(op, attrs, *forms)] = entry
    return entry


class _Placed:
    """A spec and its device, for messages."""

    def __init__(self, spec: Any, device: Device) -> None:
        self.spec = spec
        if isinstance(spec, Spec):
            self.shape, self.dtype, self.device = spec.shape, spec.dtype, device

    def __repr__(self) -> str:
        return repr(self.spec)


def casts_for(op: Operation, specs: tuple[Spec, ...]) -> tuple[DType | None, ...] | None:
    """The dtype each input must be cast to (None: as it is); None if all fit."""
    places = range(len(specs)) if op.promotes is True else op.promotes or ()
    common = specs[places[0]].dtype if places else None
    for i in places:
        common = promote(common, specs[i].dtype) if common else None
    if common is None:
        return None
    if op.weak_float and not common.is_floating:
        common = as_dtype("float32")
    casts = tuple(
        common if i in places and s.dtype is not common else None for i, s in enumerate(specs)
    )
    return casts if any(casts) else None


def cast_all(casts: tuple[DType | None, ...], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Inputs brought to the dtypes an op wants; `cast` is an op like any other, so it is taped."""
    cast = OPS["cast"]
    return [t if d is None else cast(t, dtype=d) for t, d in zip(tensors, casts, strict=True)]


def serve(entry: Entry, device: Device, forms: tuple[AnyForm, ...]) -> None:
    """View, kernel, packed kernel or decomposition, in this order."""
    op = entry.op
    check_dtypes(entry, device)
    if op.is_view:
        form = forms[0]
        layout = op.view(form.shape, form.strides, **entry.options)
        if layout is None:
            entry.needs_pack = (0,)
        else:
            strides, offset = layout
            entry.form = make_form(entry.specs[0], strides)
            entry.offset = offset if entry.specs[0].itemcount else 0  # nothing lies at its end
        return
    tried: list[str] = []
    for language in device.languages:
        kernel = kernels.table(language).find(
            op.name, [s.dtype for s in entry.in_specs], [s.dtype for s in entry.specs]
        )
        if kernel is None:
            signatures = kernels.table(language).signatures(op.name)
            if signatures:
                tried.append(f"language {language!r} has {', '.join(signatures)}")
            continue
        if not kernel.strides:
            entry.needs_pack = tuple(i for i, f in enumerate(forms) if not isinstance(f, Spec))
            if entry.needs_pack:
                return
        prepared = kernel.prepare(device.target(language), forms, entry.specs, **entry.options)
        if prepared is None:
            tried.append(f"language {language!r} declines these shapes")
            continue
        entry.kernel = kernel
        if isinstance(prepared, tuple):
            entry.launch, nbytes = prepared
            entry.workspace = Spec((nbytes,), "uint8")
        else:
            entry.launch = prepared
        return
    if not op.is_composite:
        dtypes = [s.dtype.name for s in entry.in_specs]
        raise KernelMissing(
            op.name,
            dtypes,
            device,
            tried,
            hint=f"add {op.name!r} to a table of one of the languages {device.languages}",
        )


def check_dtypes(entry: Entry, device: Device) -> None:
    """Raises: DTypeError if the device does not compute one of the types."""
    supported = device.capabilities.dtypes
    for spec in (*entry.in_specs, *entry.specs):
        if spec.dtype not in supported:
            names = ", ".join(sorted(d.name for d in supported))
            raise DTypeError(entry.op.name, f"a dtype of {device} ({names})", spec.dtype)


def keep_position(op: Operation, name: str) -> tuple[bool, int]:
    """Where a name in `keeps` points: (is an output, position)."""
    if name in op.inputs:
        return False, op.inputs.index(name)
    if name == "y" or (name[0] == "y" and name[1:].isdecimal()):
        return True, int(name[1:] or 0)
    raise ArgumentError(
        f"operation {op.name}", "keeps that name inputs of infer, or y, y0, y1", name
    )


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
        else:
            out.append(tensor(value, device=device))
    return out


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
    first = tensors[0].device.name
    operands = dict(zip(names, tensors, strict=False))
    return DeviceError(
        op.name, "all tensors on one device", got, hint=f".to({first!r})", **operands
    )


__all__ = ["Entry", "Needs", "Operation", "apply", "find_entry", "resolve"]
