"""`update`: apply an operation and rebind cells to its results, in place where that is safe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singa_core import homes
from singa_core.attributes import Attrs
from singa_core.device import Device
from singa_core.errors import ArgumentError, DTypeError, ShapeError, SingaError, StateLost
from singa_core.homes import is_held
from singa_core.launch import failure, pack
from singa_core.mode import MODE
from singa_core.operation import Bound, Operation, apply, as_tensors
from singa_core.optable import function
from singa_core.resolve import Entry, find_entry
from singa_core.spec import Spec
from singa_core.storage import Array, empty_array
from singa_core.tensor import Tensor


@function
def update(
    op: Operation | Bound, inputs: Sequence[Any], cells: Sequence[Tensor], **attrs: Any
) -> Sequence[Tensor]:
    """`cells = op(*inputs, **attrs)`: output i of `op` becomes the value of `cells[i]`.

    Attributes that stay the same from call to call are cheaper as `op.bound(**attrs)`.

    An old value is overwritten where nobody else holds it and the kernel allows that, so that an
    eager step of an optimiser allocates nothing.

    Raises: ShapeError or DTypeError if an output does not fit its cell; nothing has changed then.

    >>> from singa_core import ops, tensor
    >>> t = tensor([1.0])
    >>> update(ops.add, (t, 1.0), (t,))[0].tolist()
    [2.0]
    """
    packed_attrs: Attrs
    if isinstance(op, Bound):
        packed_attrs, op = op.attrs, op.op
    elif isinstance(op, Operation):
        packed_attrs = op.pack(attrs) if attrs or op.attributes else ()
    else:
        raise ArgumentError("update", "an operation", repr(op))
    mode = MODE.get()
    if mode.recorder is None:
        try:
            # counted before anything here refers to the arrays
            free = [not is_held(c) if c.home is None else may_overwrite(c) for c in cells]
        except (AttributeError, TypeError):
            raise no_cells(op, inputs, cells) from None
        if not isinstance(inputs, list | tuple):
            raise no_cells(op, inputs, cells)
        if _update_in_place(op, inputs, cells, packed_attrs, free, mode.grad):
            return cells
    results = apply(op, inputs, packed_attrs)
    results = results if isinstance(results, tuple) else (results,)
    if len(results) != len(cells):
        got = f"{len(cells)} for {len(results)}"
        raise ArgumentError(op.name, "a cell for each result", got)
    for cell, result in zip(cells, results, strict=True):
        check_fit(op, cell, result.spec)
    for cell, result in zip(cells, results, strict=True):
        cell.assign(result)
    return cells


def no_cells(op: Operation, inputs: Any, cells: Any) -> ArgumentError:
    """The error for what is no list of inputs, or no list of tensors as cells."""
    got = f"{type(inputs).__name__} and {cells!r}"
    return ArgumentError(op.name, "a list of inputs, and a list of tensors as cells", got)


def may_overwrite(cell: Tensor) -> bool:
    """True if the cell's old value is its alone; others are moved out of a home first."""
    if cell.home is None:
        return not homes.is_held(cell)
    homes.claim(cell)
    return True


def check_fit(op: Operation, cell: Tensor, spec: Spec) -> None:
    """Raises: ShapeError or DTypeError unless a value of `spec` may be the cell's next value."""
    if cell.shape != spec.shape:
        raise ShapeError(op.name, "a result of the cell's shape", spec.shape, cell=cell)
    if cell.dtype is not spec.dtype:
        raise DTypeError(op.name, "a result of the cell's dtype", spec.dtype, cell=cell)


def _update_in_place(
    op: Operation,
    inputs: Sequence[Any],
    cells: Sequence[Tensor],
    attrs: Attrs,
    free: list[bool],
    grad: bool,
) -> bool:
    """Launch straight into the cells' arrays; False, with nothing done, where that cannot be."""
    try:
        arrays: list[Any] = [t.array for t in inputs]
    except AttributeError:
        inputs = as_tensors(op, inputs)
        arrays = [t.array for t in inputs]
    if None in arrays or (grad and any(t.node is not None for t in inputs)):
        return False
    device = arrays[0].storage.device
    entry = find_entry(device, op, attrs, tuple([a.form for a in arrays]))
    if entry.needs_pack:  # a gradient may be a view; a cell in place is packed
        arrays = [a if a.packed else pack(a) for a in arrays]
        entry = find_entry(device, op, attrs, tuple([a.form for a in arrays]))
    if not entry.in_place or len(cells) != len(entry.specs):
        return False
    storages = [a.storage for a in arrays]
    for storage in storages:
        if storage.device is not device:
            return False
    outs = arrays[: len(cells)]
    in_line = _all_in_line(entry, cells, outs, storages, free)
    if not in_line:
        outs = _outputs(entry, cells, storages, free)
    written = [a.handle if a._handle is None else a._handle for a in outs]
    if entry.workspace is not None:
        scratch = empty_array(device, entry.workspace)
        written.append(scratch.handle)
    try:
        handles = [a.handle if a._handle is None else a._handle for a in arrays]
        device.call(entry.launch, *handles, *written)
    except SingaError:  # the kernel refuses its input, and has written nothing
        raise
    except Exception as error:
        raise _half_written(failure(error, entry, device), cells, outs) from error
    if not in_line or not device.capabilities.synchronous:
        _name_results(device, cells, outs)
    return True


def _name_results(device: Device, cells: Sequence[Tensor], outs: list[Array]) -> None:
    for cell, out in zip(cells, outs, strict=True):
        if out is not cell.array:
            homes.rebind(cell, out)
        elif not device.capabilities.synchronous:  # a late error may mean that it is half written
            device.state.unsettled.add(out.storage)


def _all_in_line(
    entry: Entry,
    cells: Sequence[Tensor],
    firsts: list[Any],
    storages: list[Any],
    alones: list[bool],
) -> bool:
    """True in the common case, where `_outputs` would give the first inputs, all of them cells."""
    if len(firsts) < len(cells):
        return False
    for cell, own, spec, alone in zip(cells, firsts, entry.specs, alones, strict=True):
        shared = storages.count(own.storage) > 1
        if shared or not alone or own.form is not spec or own is not cell.array:
            return False
    return True


def _outputs(
    entry: Entry, cells: Sequence[Tensor], storages: list[Any], alones: list[bool]
) -> list[Array]:
    """The cells' own arrays where they may be overwritten, else new ones.

    A kernel that reads one array twice may not write over it: it might read what it has written.
    For the same reason one of several outputs may only take the place of the input in line with it.
    """
    outs: list[Array] = []
    for cell, spec, alone in zip(cells, entry.specs, alones, strict=True):
        own = cell.array
        if own is None or own.spec is not spec:
            check_fit(entry.op, cell, spec)
        # a packed one: elements of a view may lie over each other
        if (
            alone
            and own is not None
            and own.packed
            and _in_line(own.storage, storages, len(outs), len(cells))
        ):
            outs.append(own)
        else:
            outs.append(empty_array(cell.device, spec))
    return outs


def _in_line(own: Any, storages: list[Any], output: int, outputs: int) -> bool:
    """True if `own` is read nowhere, or once and where the output may replace it."""
    uses = storages.count(own)
    return not uses or (uses == 1 and (outputs == 1 or storages.index(own) == output))


def _half_written(told: Exception, cells: Sequence[Tensor], outs: list[Array]) -> Exception:
    """The error for a launch that failed: state is lost if it was being written over."""
    torn = [cell.array for cell, out in zip(cells, outs, strict=True) if out is cell.array]
    for array in torn:
        array.storage.lose()
    if not torn:
        return told
    return StateLost(
        f"{told}\n  while it wrote over {len(torn)} cells, which are neither old nor new"
    )
