"""Batches of any loader, and what a step or a model gives for one: how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, Final

import numpy as np

from singa_core.arguments import is_array, outline
from singa_core.checks import as_number
from singa_core.device import Device
from singa_core.errors import ArgumentError, SingaError
from singa_core.tensor import Tensor, tensor


class LoaderFailed(SingaError, RuntimeError):
    """A data loader raised; its own error is the cause of this one."""


def batches_of(where: str, loader: Iterable[Any], done: int = 0, skip: int = 0) -> Iterator[Any]:
    """The batches of one loop over a loader, of which `done` were made before.

    Raises: LoaderFailed, naming the batch, for whatever the loader raises; ArgumentError if there
        is none.
    """
    number = done
    try:
        iterator = iter(loader)
        for _ in range(skip):
            next(iterator, None)
        while True:
            batch = next(iterator, _OVER)
            if batch is _OVER:
                break
            yield batch
            number += 1
    except Exception as error:
        told = f"{where}, batch {number + 1}: the loader failed: {type(error).__name__}: {error}"
        raise LoaderFailed(told) from error
    if not number:
        raise ArgumentError(
            where, "a loader that gives batches", "none",
            hint="a generator is used up after one loop: give a list, or a class with __iter__",
        )  # fmt: skip


_OVER = object()
ARRAYS: Final = "ArrayLoader(x, y, batch_size=32) of singa_core.data.loader makes batches of arrays"
INPUTS: Final = "a loader whose batches have inputs alone, without the target"


def on_device(batch: Any, device: Device) -> Any:
    """The batch with arrays, also those of other libraries, as tensors."""

    def put(leaf: Any) -> Any:
        foreign = hasattr(leaf, "__dlpack__") and not isinstance(leaf, Tensor)
        return tensor(leaf, device=device) if is_array(leaf) or foreign else leaf

    return outline(batch, put)


def arguments(batch: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    """Positional and keyword arguments."""
    if isinstance(batch, Mapping):
        return (), dict(batch)
    return (batch if isinstance(batch, tuple | list) else (batch,)), {}


def split(batch: Any) -> tuple[Sequence[Any], dict[str, Any], Any]:
    """Arguments of `forward`, and the target: the last item."""
    args, options = arguments(batch)
    if options:
        *_, name = options
        return args, {k: v for k, v in options.items() if k != name}, options[name]
    if len(args) < 2:
        got = f"{len(args)} item{'s' * (len(args) != 1)}"
        raise ArgumentError("batch", "inputs and a target", got, hint=ARRAYS)
    return args[:-1], options, args[-1]


def call(
    where: str, called: Callable[..., Any], method: Callable[..., Any], batch: Any, hint: str
) -> Any:
    """`called` with a batch's arguments, which are those of `method`.

    Raises: ArgumentError, naming those of `method`, for others than it takes; whatever it raises.
    """
    args, options = batch
    try:
        return called(*args, **options)
    except TypeError as error:
        form = signature(method)
        try:
            form.bind(*args, **options)
        except TypeError:
            got = ", ".join([f"{len(args)} item{'s' * (len(args) != 1)}"] * bool(args) + [*options])
            rule = f"a batch for {method.__name__}({', '.join(form.parameters)})"
            raise ArgumentError(where, rule, got or "nothing", hint=hint) from error
        raise


def samples(batch: Any) -> int:
    """How much a batch counts: the length of its first array."""
    args, options = arguments(batch)
    for item in (*args, *options.values()):
        shape: tuple[int, ...] = getattr(item, "shape", ())
        if shape:
            return shape[0]
    return 1


# -- what is given back ---------------------------------------------------------------------------


def losses_in(result: Any) -> dict[str, Any]:
    """The losses in what a step gave, by name."""
    if isinstance(result, Mapping):
        found = {name: value for name, value in result.items() if _is_number(value)}
    else:
        last = result[-1] if isinstance(result, tuple | list) and result else result
        found = {"loss": last} if _is_number(last) else {}
    if not found:
        raise ArgumentError(
            "fit", "a train_one_batch that gives (output, loss), a loss, or a dict with losses",
            type(result).__name__,
        )  # fmt: skip
    return found


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.shape in ((), (1,))
    return as_number(value) is not None


def output_in(result: Any) -> Any:
    """What metrics compare with the target."""
    if isinstance(result, Mapping) and "output" in result:
        return result["output"]
    if isinstance(result, tuple | list) and len(result) > 1:
        return result[0]
    raise ArgumentError(
        "fit", "a train_one_batch that gives (output, loss), or a dict with 'output', for metrics",
        type(result).__name__,
    )  # fmt: skip


def joined(parts: list[Any]) -> Any:
    """Outputs of batches as outputs of all samples."""
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(parts) if first.ndim else np.stack(parts)
    if isinstance(first, dict):
        return {name: joined([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple | list):
        columns = [joined(list(column)) for column in zip(*parts, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)
    return parts
