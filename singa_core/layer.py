"""Layer: parameters and sublayers under names, and a `forward` over tensors.

A layer's state is what its attributes hold: Parameters, States, other Layers, and lists, tuples,
dicts and deques of them, and subclasses of these (OrderedDict, defaultdict, named tuples). Nothing
is registered; names are found by walking, the first path to a cell wins, and a cell reached by
several paths is shared. A set of layers is refused, any other object that holds some is warned
about. Setting an attribute counts as a change, and so does a change to a list or dict in one, so
recordings notice.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from inspect import signature
from reprlib import recursive_repr
from types import FunctionType, MethodType, ModuleType, NoneType
from typing import Any, NoReturn, TypeVar, get_type_hints

import numpy as np

from singa_core.arguments import arrays_on, first_device
from singa_core.checks import check_flag
from singa_core.device import Device
from singa_core.errors import ArgumentError, ShapeError, SingaError
from singa_core.fingerprint import print_value
from singa_core.mode import MODE, STRUCTURE, execute_once
from singa_core.parameter import Parameter, fitting
from singa_core.tensor import Tensor, as_device, named_device, packed, tensor
from singa_core.watched import Watched, watched

L = TypeVar("L", bound="Layer")
T = TypeVar("T")


class UnregisteredWarning(UserWarning):
    """A layer's attribute holds layers or parameters where nobody would find them."""


class Layer:
    """Base of all layers and models.

    A subclass declares configuration, parameters and sublayers in `__init__`, fills unknown sizes
    in `initialize` (optional), and computes in `forward`.

    `copy.deepcopy` gives an independent layer. A layer is not pickled: `get_states()` holds its
    numbers, and its code makes the rest.

    >>> from singa_core import tensor
    >>> class Scale(Layer):
    ...     def __init__(self):
    ...         self.factor = Parameter((None,), "ones")
    ...     def initialize(self, x):
    ...         self.factor.set_shape(x.shape[-1:])
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(tensor([[1.0, 2.0]])).tolist()
    [[1.0, 2.0]]
    """

    training: bool = True
    _ready: bool = False
    _device: Device | None = None  # what `to` was given: for parameters to come

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, _VALUES) and isinstance(self.__dict__.get(name), Parameter):
            check_replaced(self, name, value)
        kept = watched(value)
        if not isinstance(kept, _SEEN):
            check_registered(type(self).__name__, name, kept)
        object.__setattr__(self, name, kept)
        if isinstance(value, Parameter) and not value.materialized:
            object.__setattr__(self, "_ready", False)  # initialised by the next call
        STRUCTURE.changed()

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        STRUCTURE.changed()

    # -- what a subclass gives ---------------------------------------------------------------------

    def initialize(self, *inputs: Any) -> None:
        """Fill unknown sizes from the first inputs' shapes; not recorded.

        Called once, and again if an attribute was set to a parameter without a value.
        """

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The layer's output. Subclasses define it."""
        raise ArgumentError(type(self).__name__, "a forward method", "none")

    # -- calling -----------------------------------------------------------------------------------

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        recorder = MODE.get().recorder
        try:
            if recorder is not None:
                recorder.meet(self)
            else:
                for x in inputs:
                    if isinstance(x, np.ndarray):
                        inputs = arrays_on(first_device(inputs) or self._where(), inputs)
                        break
            if not self._ready:
                return self._first_call(inputs, options)
            return self.forward(*inputs, **options)
        except SingaError as error:
            place(error, self)
            raise
        except (AttributeError, TypeError, ValueError, IndexError) as error:
            misfit = self._misfit(inputs)
            if misfit is None:
                raise
            raise misfit from error

    def _misfit(self, inputs: Sequence[Any]) -> ArgumentError | None:
        """The error for an input that `forward` is annotated to take as a tensor, and that is none.

        Asked for when `forward` has failed: a layer of somebody else's may take what it likes.
        """
        with suppress(NameError):  # an annotation of a name that is there for type checkers only
            hints = get_type_hints(type(self).forward)
            names = list(signature(type(self).forward).parameters)[1:]
            for name, value in zip(names, inputs, strict=False):
                if hints.get(name) is Tensor and not isinstance(value, Tensor):
                    where, got = type(self).__name__, type(value).__name__
                    error = ArgumentError(where, f"a tensor or an array as {name}", got)
                    place(error, self)
                    return error
        return None

    def _first_call(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Initialise, then run; if that fails, all below is as undecided as before."""
        recorder = MODE.get().recorder
        device = recorder.device if recorder is not None else first_device((inputs, options))
        undecided = [(p, p.declared) for p in self.get_states().values() if not p.materialized]
        unready = [layer for layer in self.layers() if not layer._ready]
        try:
            with execute_once():
                self.initialize(*inputs)
                self._materialize(device or self._where())
            object.__setattr__(self, "_ready", True)
            return self.forward(*inputs, **options)
        except BaseException:
            for layer in unready:
                object.__setattr__(layer, "_ready", False)
            for parameter, declared in undecided:
                parameter.forget(declared)
            raise

    def _materialize(self, device: Device) -> None:
        """Give its own parameters their values, but for those that a sublayer has yet to size."""
        below = {id(cell) for layer in self.sublayers().values() for _, cell in layer._own()}
        for name, parameter in self._own():
            if None not in parameter.shape:
                try:
                    parameter.materialize(device)
                except (SingaError, MemoryError):
                    raise
                except Exception as error:  # of a user's initialiser
                    rule = "an initialiser that gives its first value"
                    told = f"{type(error).__name__}: {error}"
                    raise ArgumentError(f"parameter {name!r}", rule, told) from error
            elif id(parameter) not in below:
                raise ShapeError(
                    f"parameter {name!r}", "known sizes after initialize()", parameter.shape,
                    hint=f"self.{name}.set_shape(...) in initialize",
                )  # fmt: skip

    # -- names -------------------------------------------------------------------------------------

    def _items(self) -> Iterator[tuple[str, Any]]:
        """Layers and parameters directly below, with their names."""
        for name, value in self.__dict__.items():
            yield from _flatten(name, value)

    def _own(self) -> Iterator[tuple[str, Parameter]]:
        for name, item in self._items():
            if isinstance(item, Parameter):
                yield name, item

    def _walk(self) -> Iterator[tuple[str, Layer]]:
        """This layer and all below it with their paths; each once, under its first path."""
        seen: set[int] = set()
        stack: list[tuple[str, Layer]] = [("", self)]
        while stack:
            path, layer = stack.pop()
            if id(layer) in seen:
                continue
            seen.add(id(layer))
            yield path, layer
            items = [(_join(path, name), item) for name, item in layer._items()]
            stack += [(at, item) for at, item in reversed(items) if isinstance(item, Layer)]

    def sublayers(self) -> dict[str, Layer]:
        """All layers below this one by dotted name; a shared layer appears once."""
        return _named((path, layer) for path, layer in self._walk() if layer is not self)

    def layers(self) -> list[Layer]:
        """This layer and all below it."""
        return [self, *self.sublayers().values()]

    def get_states(self) -> dict[str, Parameter]:
        """Parameters and States by dotted name.

        A shared cell appears once, under its first path.
        """
        paths = [(_join(path, n), cell) for path, at in self._walk() for n, cell in at._own()]
        first = {id(cell): path for path, cell in reversed(paths)}
        return _named((path, cell) for path, cell in paths if first[id(cell)] == path)

    def get_params(self) -> dict[str, Parameter]:
        """Trainable parameters by dotted name, also those whose sizes are not known yet."""
        return {name: cell for name, cell in self.get_states().items() if cell.trainable}

    def set_params(self, values: Mapping[str, Any]) -> None:
        """Assign parameters by name. Raises: as `set_states`."""
        _assign(self, "set_params", self.get_params(), values)

    def set_states(self, values: Mapping[str, Any]) -> None:
        """Assign parameters and States by name, from arrays or tensors; others keep their values.

        Raises: ArgumentError for names that do not exist, ShapeError or DTypeError for values that
            do not fit; nothing has changed then.
        """
        _assign(self, "set_states", self.get_states(), values)

    # -- modes and places --------------------------------------------------------------------------

    def train(self: L, training: bool = True) -> L:
        """Put this layer and all below it in training mode."""
        training = check_flag("train", "training", training)
        for layer in self.layers():
            if layer.training != training:
                layer.training = training
        return self

    def eval(self: L) -> L:
        """Put this layer and all below it in evaluation mode."""
        return self.train(False)

    def to(self: L, device: Device | str) -> L:
        """Move all parameters and States that have a value, and their gradients.

        Those without one follow the first input if that is a tensor, else they come to `device`.
        Plain tensors in attributes stay where they are; a State moves along.
        """
        self._move(named_device("to", device))
        return self

    def _move(self, target: Device) -> Callable[[], None]:
        """Move to a device; what it gives moves back, to the same values in the same places."""
        away = [c for c in self.get_states().values() if c.materialized and c.device is not target]
        before = [(cell, packed(cell), cell.grad) for cell in away]
        grads = [cell.grad.to(target) if cell.grad is not None else None for cell in away]
        for cell, value, grad in zip(away, [c.to(target) for c in away], grads, strict=True):
            cell.take(packed(value))
            cell.grad = grad
        devices = [(layer, layer._device) for layer in self.layers()]
        for layer, _ in devices:
            object.__setattr__(layer, "_device", target)

        def back() -> None:
            for cell, array, grad in before:
                cell.take(array)
                cell.grad = grad
            for layer, device in devices:
                object.__setattr__(layer, "_device", device)

        return back

    def _where(self) -> Device:
        """The device of its state; before it has any, what `to` was given, else the default."""
        for _, layer in self._walk():
            for _, cell in layer._own():
                if cell.materialized:
                    return cell.device
        return as_device(self._device)

    # -- as a Python object ------------------------------------------------------------------------

    def fingerprint(self) -> Hashable:
        """What a recording of this layer depends on, besides its inputs."""
        return tuple([_print_layer(layer) for layer in self.layers()])

    def __deepcopy__(self: L, memo: dict[int, Any]) -> L:
        twin = memo[id(self)] = object.__new__(type(self))
        for name, value in self.__dict__.items():
            object.__setattr__(twin, name, deepcopy(value, memo))
        return twin

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ArgumentError(
            type(self).__name__, "copy.deepcopy(layer), or layer.get_states() to store its numbers",
            "pickle or copy.copy",
        )  # fmt: skip

    @recursive_repr("...")
    def __repr__(self) -> str:
        lines = [f"({name}): {item!r}" for name, item in self._items() if isinstance(item, Layer)]
        body = "".join("\n  " + line.replace("\n", "\n  ") for line in lines)
        return f"{type(self).__name__}({self.describe()}{body}{chr(10) if body else ''})"

    def describe(self) -> str:
        """Configuration shown by `repr`."""
        plain = {k: v for k, v in self.__dict__.items() if isinstance(v, bool | int | float | str)}
        return ", ".join(f"{k}={v!r}" for k, v in plain.items() if not k.startswith("_"))


def _flatten(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Layers and parameters in an attribute: itself, or members of lists, tuples and dicts."""
    if isinstance(value, Layer | Parameter):
        yield name, value
    elif isinstance(value, list | tuple | deque):
        for i, item in enumerate(value):
            yield from _flatten(f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flatten(f"{name}.{key}", item)
    elif isinstance(value, set | frozenset):
        if any(isinstance(item, Layer | Parameter) for item in value):
            raise ArgumentError(
                f"attribute {name!r}", "a list, tuple or dict of layers or parameters",
                f"a {'set' if isinstance(value, set) else 'frozenset'}, which has no order",
            )  # fmt: skip


# what is a layer or a parameter, or can hold none
_SEEN = (bool, int, float, str, NoneType, Tensor, Layer, FunctionType, MethodType, type, ModuleType)


# what may be meant as the next value of a parameter, where it would take its place
_VALUES = (int, float, list, np.ndarray, np.generic, Tensor)


def check_replaced(layer: Layer, name: str, value: Any) -> None:
    """Raises: ArgumentError for a value that would make an end of a parameter or State."""
    if isinstance(value, Parameter):
        return
    cell, got = layer.__dict__[name], type(value).__name__
    kind = type(cell).__name__
    raise ArgumentError(
        f"{type(layer).__name__}.{name}", f"a {kind} in place of a {kind}, or None", f"a {got}",
        hint=f"layer.{name}.assign(value), or `del layer.{name}` before",
    )  # fmt: skip


def check_registered(where: str, name: str, value: Any) -> None:
    """Look for layers and parameters in an attribute where nobody would find them.

    Raises: ArgumentError for a set of them, and for a container that cannot be watched.
    Warns: UnregisteredWarning for any other object that holds some, unless it has a `fingerprint`
        (an optimiser).
    """
    found = [item for _, item in _flatten(name, value)]
    if isinstance(value, list | dict | deque) and not isinstance(value, Watched) and found:
        rule = "a list, tuple or dict of layers or parameters that can be copied"
        raise ArgumentError(f"{where}.{name}", rule, f"a {type(value).__name__}")
    if found or isinstance(value, Watched | tuple) or hasattr(type(value), "fingerprint"):
        return
    held = list(value.values()) if isinstance(value, Mapping) else list(_attributes(value).values())
    for item in held:
        if any(True for _ in _flatten(name, item)):
            warnings.warn(
                f"{where}.{name}: a {type(value).__name__} that holds layers or parameters, which "
                "are not registered: they are not trained, saved or moved\n"
                "try: a list, tuple, dict or Layer of them",
                UnregisteredWarning, stacklevel=3,
            )  # fmt: skip
            return


def _attributes(value: Any) -> dict[str, Any]:
    """An object's own attributes by name."""
    found: dict[str, Any] = getattr(value, "__dict__", {})
    return found


def _assign(
    layer: Layer, where: str, cells: Mapping[str, Parameter], values: Mapping[str, Any]
) -> None:
    """Everything is checked and on the device before anything is changed."""
    if not isinstance(values, Mapping):
        raise ArgumentError(f"{type(layer).__name__}.{where}", "a dict of values", repr(values))
    unknown = [repr(name) for name in values if name not in cells]
    if unknown:
        rule = f"names among ({', '.join(cells)})"
        raise ArgumentError(f"{type(layer).__name__}.{where}", rule, ", ".join(unknown))
    ready = []
    for name, value in values.items():
        cell = cells[name]
        host = fitting(f"{where} {name!r}", value, cell.shape, cell.dtype)
        device = cell.device if cell.materialized else layer._where()
        ready.append((cell, tensor(host, device=device)))
    for cell, given in ready:
        if cell.materialized:
            cell.assign(given)
        else:
            cell.set_shape(given.shape)
            cell.take(packed(given))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _named(pairs: Iterator[tuple[str, T]]) -> dict[str, T]:
    """A dict of them. Raises: ArgumentError if two have the same name."""
    found: dict[str, T] = {}
    for path, item in pairs:
        if found.setdefault(path, item) is not item:
            hint = "dict keys of one type, and without dots"
            raise ArgumentError("names", "one layer or parameter for each", repr(path), hint=hint)
    return found


def place(error: SingaError, layer: Layer) -> None:
    """Add the layer to the error's path: `block2.conv1 (Conv2d)`, from the innermost outwards."""
    trail = error.__dict__.setdefault("trail", [])
    if not trail:
        trail.append(layer)
        error.within = type(layer).__name__
        return
    inner, path = trail[0], error.__dict__.get("path", "")
    for name, item in layer._items():
        if item is trail[-1]:
            error.__dict__["path"] = path = f"{name}.{path}" if path else name
            error.within = f"{path} ({type(inner).__name__})"
            trail.append(layer)
            return


_BOOKKEEPING = frozenset({"_device", "_graphs", "_ready", "input_specs", "training"})


def _print_layer(layer: Layer) -> Hashable:
    values = [(k, print_value(v)) for k, v in layer.__dict__.items() if k not in _BOOKKEEPING]
    return (type(layer), id(layer), layer.training, *values)
