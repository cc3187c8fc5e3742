"""Resolve: everything there is to know about (op, attributes, forms) on a device, found once.

An Entry holds the settled attributes, the output specs, and who serves the op: a kernel of one of
the device's languages, a view, or the op's decomposition; or that inputs must be cast or packed
first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from singa_core import kernels
from singa_core.device import Device
from singa_core.dtype import DType, as_dtype, promote
from singa_core.errors import ArgumentError, DTypeError, KernelMissing, SingaError
from singa_core.spec import AnyForm, Spec, make_form, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from singa_core.attributes import Attrs
    from singa_core.kernels import Kernel
    from singa_core.operation import Operation

MAX_ENTRIES: Final = 16384  # shapes that keep changing must not grow the table for ever


class Entry:
    """The answer for one (op, attributes, forms) on one device."""

    __slots__ = (
        "__weakref__", "attrs", "casts", "expands", "form", "in_place", "in_specs", "kept",
        "kernel", "launch", "make", "needs", "needs_pack", "offset", "op", "options", "route",
        "specs", "trackable", "workspace",
    )  # fmt: skip

    def __init__(self, op: Operation, in_specs: tuple[Spec, ...]) -> None:
        self.op = op
        self.in_specs = in_specs
        self.specs: tuple[Spec, ...] = ()
        self.options: dict[str, Any] = {}
        self.attrs: tuple[tuple[str, Any], ...] = ()
        self.casts: tuple[DType | None, ...] | None = None
        self.route: Callable[..., Any] | None = None  # see Operation.route
        self.kernel: Kernel | None = None
        self.launch: Any = None  # kernels.Launch, or None; Any spares a check per launch
        self.workspace: Spec | None = None
        self.form: AnyForm | None = None  # of a view: how it lies over its input's bytes
        self.offset = 0
        self.needs_pack: tuple[int, ...] = ()
        self.kept: tuple[tuple[bool, int], ...] = ()  # (is an output, position)
        self.trackable = False
        self.needs: dict[tuple[bool, ...], Any] = {}  # autograd's, by which inputs want a gradient
        self.in_place = False  # an output may be written over an input
        self.expands = False  # differentiated through its decomposition
        self.make: Any = None  # allocates the output, where one plain kernel serves the op


def find_entry(device: Device, op: Operation, attrs: Attrs, forms: tuple[AnyForm, ...]) -> Entry:
    """The cached answer, resolved if it is new."""
    entry: Entry | None = device.state.entries.get((op, attrs, *forms))
    return resolve(device, op, attrs, forms) if entry is None else entry


def resolve(device: Device, op: Operation, attrs: Attrs, forms: tuple[AnyForm, ...]) -> Entry:
    """Settle, infer, and find who serves it. Raises: what `infer` raises; KernelMissing."""
    in_specs = tuple(spec_of(form) for form in forms)
    if not op.variadic and len(forms) != len(op.inputs):
        raise wrong_count(op, len(forms))
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
        if error.where == "Spec":  # a result that no value can be
            error.where = op.name
        raise
    entry.specs = inferred if isinstance(inferred, tuple) else (inferred,)
    entry.attrs = tuple(entry.options.items())
    entry.kept = tuple(keep_position(op, name) for name in op.keeps)
    differentiable = op.has_backward or op.is_composite
    entry.trackable = differentiable and any(s.dtype.is_floating for s in entry.specs)
    entry.expands = op.is_composite and not op.has_backward
    entry.route = None if entry.casts else op.route(*in_specs, **entry.options)
    if entry.casts is None and entry.route is None:
        serve(entry, device, forms)
        plain = entry.launch is not None and entry.workspace is None and len(entry.specs) == 1
        kernel = entry.kernel
        returning = kernel is not None and kernel.returning
        entry.in_place = kernel is not None and kernel.in_place and not returning
        if plain and not returning and not (entry.expands and entry.trackable):
            entry.make = device.maker(entry.specs[0])
    entries = device.state.entries
    if len(entries) >= MAX_ENTRIES:
        entries.clear()
    entries[(op, attrs, *forms)] = entry
    return entry


def wrong_count(op: Operation, got: int) -> ArgumentError:
    """The error for more or fewer tensors than `infer` has."""
    count, names = len(op.inputs), ", ".join(op.inputs)
    rule = f"{count} tensor{'s' if count != 1 else ''} ({names})"
    named = ", ".join(f"{name}=..." for name in op.attributes)
    hint = f"give attributes by name: {named}" if named and got > count else None
    return ArgumentError(op.name, rule, got, hint=hint)


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


def serve(entry: Entry, device: Device, forms: tuple[AnyForm, ...]) -> None:
    """View, kernel, packed kernel or decomposition, in this order. Raises: KernelMissing."""
    op = entry.op
    check_dtypes(entry, device)
    if op.is_view:
        lay_over(entry, forms[0])
        return
    tried: list[str] = []
    for language in device.languages:
        if is_served_by(language, entry, device, forms, tried):
            return
    if not op.is_composite:
        hint = f"add {op.name!r} to a table of one of the languages {device.languages}"
        dtypes = [s.dtype.name for s in entry.in_specs]
        raise KernelMissing(op.name, dtypes, device, tried, hint=hint)


def lay_over(entry: Entry, form: AnyForm) -> None:
    """Where a view's elements are among its input's, or that these must be packed first."""
    layout = entry.op.view(form.shape, form.strides, **entry.options)
    if layout is None:
        entry.needs_pack = (0,)
        return
    strides, offset = layout
    entry.form = make_form(entry.specs[0], strides)
    entry.offset = offset if entry.specs[0].itemcount else 0  # nothing lies at its end


def is_served_by(
    language: str, entry: Entry, device: Device, forms: tuple[AnyForm, ...], tried: list[str]
) -> bool:
    """True if a language has a kernel, or has one for packed inputs; `tried` is told why not."""
    table, ins = kernels.table(language), [s.dtype for s in entry.in_specs]
    kernel = table.find(entry.op.name, ins, [s.dtype for s in entry.specs])
    if kernel is None:
        signatures = table.signatures(entry.op.name)
        if signatures:
            tried.append(f"language {language!r} has {', '.join(signatures)}")
        return False
    if not kernel.strides:
        entry.needs_pack = tuple(i for i, f in enumerate(forms) if not isinstance(f, Spec))
        if entry.needs_pack:
            return True
    prepared = kernel.prepare(device.target(language), forms, entry.specs, **entry.options)
    if prepared is None:
        tried.append(f"language {language!r} declines these shapes")
        return False
    entry.kernel = kernel
    if isinstance(prepared, tuple):
        entry.launch, nbytes = prepared
        entry.workspace = Spec((nbytes,), "uint8")
    else:
        entry.launch = prepared
    return True


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
