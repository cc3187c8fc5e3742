"""Launch: run what an Entry says, into new Arrays. Nothing in here is taped or recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singa_core.device import Device
from singa_core.errors import DeviceFailure, SingaError
from singa_core.optable import OPS
from singa_core.resolve import Entry, find_entry
from singa_core.storage import Array, Storage, empty_array, trouble


def run(entry: Entry, arrays: list[Array], device: Device) -> Sequence[Array]:
    """Output Arrays of an entry whose casts are done; nothing in here is taped."""
    if entry.form is not None:
        return (arrays[0].look(entry.specs[0], entry.form, entry.offset),)
    if entry.needs_pack:
        packed = list(arrays)
        for i in entry.needs_pack:
            packed[i] = pack(packed[i])
        forms = tuple(a.form for a in packed)
        again = find_entry(
            device, entry.op, entry.op.pack(entry.options) if entry.options else (), forms
        )
        return run(again, packed, device)
    if entry.launch is not None:
        return launch(entry, arrays, device)
    return entry.op.on_arrays(arrays, entry.options)


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
    if isinstance(error, SingaError | MemoryError):
        return trouble(device, entry.op.name, error, sum(spec.nbytes for spec in entry.specs))
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
