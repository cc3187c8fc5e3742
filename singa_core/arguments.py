"""Arguments and results of recorded functions: tensors in nested tuples, lists and dicts.

`collect` finds the run-time tensors of a call and what its key has to know of everything else; it
runs at each replay. `template`, `outline` and `fill` put slots in place of tensors and back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from singa_core.device import Device
from singa_core.errors import DeviceError, GradientError, ReplayError
from singa_core.mode import MODE
from singa_core.tensor import Tensor, tensor


@dataclass(frozen=True)
class Slot:
    """Where a tensor stood in the arguments or the result: its kind and number."""

    kind: str  # "arg", "cell" or "result"
    number: int


class Arguments:
    """The leaves of one call.

    Attributes:
        tensors: run-time inputs, each once.
        parts: what the key needs to know of every leaf, in order.
        numbers: id of a tensor or array among the arguments -> its number in `tensors`.
    """

    __slots__ = ("device", "numbers", "parts", "tensors")

    def __init__(self, device: Device) -> None:
        self.device = device
        self.tensors: list[Tensor] = []
        self.parts: list[Hashable] = []
        self.numbers: dict[int, int] = {}

    def add(self, leaf: Any, path: str) -> None:
        """Collect one argument, or the leaves of a nested one.

        Raises: ReplayError for what is neither a tensor nor hashable; DeviceError for a tensor
            elsewhere; GradientError for a taped one.
        """
        if isinstance(leaf, Tensor):
            self._add_tensor(leaf, path)
        elif is_array(leaf):
            self._add_array(leaf)
        elif isinstance(leaf, tuple | list):
            self.parts.append((type(leaf), len(leaf)))
            for i, item in enumerate(leaf):
                self.add(item, f"{path}[{i}]")
        elif isinstance(leaf, dict):
            self.parts.append((dict, tuple(leaf)))
            for name, item in leaf.items():
                self.add(item, f"{path}[{name!r}]")
        else:
            self._add_static(leaf, path)

    def _add_tensor(self, t: Tensor, path: str) -> None:
        if t.home is not None:  # state: the same cell however it is reached
            # its spec too: a cell that no recording holds may go, and its id come back
            self.parts.append(("cell", id(t), t.requires_grad, t.spec, t.device.name))
            return
        if t.device is not self.device:
            hint = f".to({self.device.name!r})"
            raise DeviceError(path, f"all tensors on {self.device}", t.device, hint=hint, x=t)
        if not t.is_leaf and MODE.get().grad:
            raise GradientError(
                path, "an argument without an eager tape", "the taped result of an operation",
                hint="compute it inside the recorded function, or detach() it", x=t,
            )  # fmt: skip
        self._number(t, t, (t.spec, t.requires_grad))

    def _add_array(self, host: Any) -> None:
        if id(host) in self.numbers:
            self.parts.append(("again", self.numbers[id(host)]))
        else:
            t = tensor(host, device=self.device)
            self._number(host, t, (t.spec, False))

    def _number(self, leaf: Any, t: Tensor, part: Hashable) -> None:
        known = self.numbers.setdefault(id(leaf), len(self.tensors))
        if known < len(self.tensors):
            self.parts.append(("again", known))
        else:
            self.parts.append(part)
            self.tensors.append(t)

    def _add_static(self, leaf: Any, path: str) -> None:
        try:
            hash(leaf)
        except TypeError:
            raise ReplayError(
                path, "tensors, arrays, or hashable static values",
                f"an unhashable {type(leaf).__name__}",
            ) from None  # fmt: skip
        # the type, since 1 == 1.0 == True; the text, since 0.0 == -0.0 and NaN is not even itself
        odd = isinstance(leaf, float) and (leaf == 0 or leaf != leaf)
        self.parts.append(("static", repr(leaf) if odd else leaf, type(leaf)))

    def template(self, tree: Any) -> Any:
        """The arguments with run-time inputs as slots."""
        return outline(tree, lambda leaf: Slot("arg", n) if (n := self._of(leaf)) >= 0 else leaf)

    def _of(self, leaf: Any) -> int:
        return self.numbers.get(id(leaf), -1) if isinstance(leaf, Tensor | np.ndarray) else -1


def collect(args: Sequence[Any], options: dict[str, Any], device: Device) -> Arguments:
    """The leaves of a call. Raises: as `Arguments.add`."""
    found = Arguments(device)
    numbers, tensors, parts = found.numbers, found.tensors, found.parts
    for i, leaf in enumerate(args):
        # the common case, written out: a plain tensor on this device, met for the first time
        if (
            type(leaf) is Tensor
            and leaf.node is None
            and leaf.home is None
            and leaf.array is not None
            and leaf.array.storage.device is device
            and id(leaf) not in numbers
        ):
            numbers[id(leaf)] = len(tensors)
            parts.append((leaf.array.spec, False))
            tensors.append(leaf)
        else:
            found.add(leaf, f"argument {i}")
    for name, leaf in options.items():
        parts.append(name)
        found.add(leaf, f"argument {name!r}")
    return found


def device_of(args: tuple[Any, ...], options: dict[str, Any]) -> Device | None:
    """As `first_device` of both, with the common case written out: a tensor comes first."""
    if args and type(args[0]) is Tensor and args[0].array is not None:
        return args[0].array.storage.device
    return first_device((args, options))


def first_device(tree: Any) -> Device | None:
    """The device of the first concrete tensor in nested lists, tuples and dicts."""
    if isinstance(tree, Tensor):
        return tree.device if tree.array is not None else None
    items = tree.values() if isinstance(tree, dict) else tree
    if isinstance(tree, tuple | list | dict):
        for item in items:
            found = first_device(item)
            if found is not None:
                return found
    return None


def outline(tree: Any, replace: Callable[[Any], Any]) -> Any:
    """The tree with `replace(leaf)` for every leaf."""
    if isinstance(tree, tuple | list):
        items = [outline(item, replace) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict):
        return {key: outline(item, replace) for key, item in tree.items()}
    return replace(tree)


def is_array(leaf: Any) -> bool:
    """True for NumPy's arrays and scalars, but for float64, which is a float of Python."""
    return isinstance(leaf, np.ndarray | np.generic) and not isinstance(leaf, float | bool)


def arrays_on(device: Device, tree: Any) -> Any:
    """The tree with NumPy's arrays as tensors of a device."""
    return outline(tree, lambda leaf: tensor(leaf, device=device) if is_array(leaf) else leaf)


def fill(template: Any, pick: Callable[[Slot], Any]) -> Any:
    """A template with `pick(slot)` for every slot."""
    if type(template) is Slot:
        return pick(template)
    return outline(template, lambda leaf: pick(leaf) if type(leaf) is Slot else leaf)
