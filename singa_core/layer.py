"""Layer: parameters and sublayers under names, and a `forward` over tensors.

A layer's state is what its attributes hold: Parameters, States, other Layers, and lists, tuples and
dicts of them. Nothing is registered; names are found by walking, the first path to a cell wins, and
a cell reached by several paths is shared. Setting an attribute counts as a change, so recordings
notice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, TypeVar

from singa_core.device import Device
from singa_core.errors import ArgumentError, DTypeError, ShapeError, SingaError
from singa_core.mode import MODE, STRUCTURE, execute_once
from singa_core.parameter import Parameter
from singa_core.registry import registry
from singa_core.tensor import Tensor, as_device
from singa_core.watched import watched

L = TypeVar("L", bound="Layer")


class Layer:
    """Base of all layers and models.

    A subclass declares configuration, parameters and sublayers in `__init__`, fills unknown sizes
    in `initialize` (optional), and computes in `forward`.

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

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, watched(value))
        STRUCTURE.changed()

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        STRUCTURE.changed()

    # -- what a subclass gives ---------------------------------------------------------------------

    def initialize(self, *inputs: Any) -> None:
        """Fill unknown sizes from the first inputs' shapes; called once, never recorded."""

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The layer's output. Subclasses define it."""
        raise ArgumentError(type(self).__name__, "a forward method", "none")

    # -- calling -----------------------------------------------------------------------------------

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        recorder = MODE.get().recorder
        if recorder is not None:
            recorder.meet(self)
        try:
            if not self._ready:
                return self._first_call(inputs, options)
            return self.forward(*inputs, **options)
        except SingaError as error:
            _place(error, self)
            raise

    def _first_call(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Initialise, then run; if that fails, all below is as undecided as before."""
        device = _device_of(inputs)
        undecided = [(p, p.declared) for p in self.get_states().values() if not p.materialized]
        unready = [layer for layer in self.layers() if not layer._ready]
        try:
            with execute_once():
                self.initialize(*inputs)
                for _, parameter in self._own():
                    parameter.materialize(device)
            object.__setattr__(self, "_ready", True)
            return self.forward(*inputs, **options)
        except BaseException:
            for layer in unready:
                object.__setattr__(layer, "_ready", False)
            for parameter, declared in undecided:
                parameter.forget(declared)
            raise

    # -- names -------------------------------------------------------------------------------------

    def _items(self) -> Iterator[tuple[str, Any]]:
        """Layers and parameters directly below, with their names."""
        for name, value in self.__dict__.items():
            yield from _flatten(name, value)

    def _own(self) -> Iterator[tuple[str, Parameter]]:
        for name, item in self._items():
            if isinstance(item, Parameter):
                yield name, item

    def sublayers(self) -> dict[str, Layer]:
        """All layers below this one by dotted name; a shared layer appears once."""
        found: dict[str, Layer] = {}
        seen = {id(self)}
        _collect(self, "", found, seen)
        return found

    def layers(self) -> list[Layer]:
        """This layer and all below it."""
        return [self, *self.sublayers().values()]

    def get_states(self) -> dict[str, Parameter]:
        """Parameters and States by dotted name.

        A shared cell appears once, under its first path.
        """
        found: dict[str, Parameter] = {}
        seen: set[int] = set()
        for prefix, layer in (("", self), *self.sublayers().items()):
            for name, cell in layer._own():
                if id(cell) not in seen:
                    seen.add(id(cell))
                    found[f"{prefix}.{name}" if prefix else name] = cell
        return found

    def get_params(self) -> dict[str, Parameter]:
        """Trainable parameters by dotted name, also those whose sizes are not known yet."""
        return {name: cell for name, cell in self.get_states().items() if cell.trainable}

    def set_params(self, values: Mapping[str, Any]) -> None:
        """Assign parameters by name. Raises: as `set_states`."""
        _assign(self.get_params(), values)

    def set_states(self, values: Mapping[str, Any]) -> None:
        """Assign parameters and States by name, from arrays or tensors.

        Raises: ArgumentError for names that do not exist, ShapeError or DTypeError for values that
        do
            not fit; nothing has changed then.
        """
        _assign(self.get_states(), values)

    # -- modes and places --------------------------------------------------------------------------

    def train(self: L, training: bool = True) -> L:
        """Put this layer and all below it in training mode."""
        for layer in self.layers():
            if layer.training != training:
                layer.training = training
        return self

    def eval(self: L) -> L:
        """Put this layer and all below it in evaluation mode."""
        return self.train(False)

    def to(self: L, device: Device | str) -> L:
        """Move all parameters and States that have a value; others follow the first input."""
        target = as_device(device)
        for cell in self.get_states().values():
            if cell.materialized and cell.device is not target:
                cell.hold(target, cell.numpy())
        return self

    def fingerprint(self) -> Hashable:
        """What a recording of this layer depends on, besides its inputs."""
        return tuple(_print_layer(layer) for layer in self.layers())

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
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _flatten(f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flatten(f"{name}.{key}", item)


def _collect(layer: Layer, prefix: str, found: dict[str, Layer], seen: set[int]) -> None:
    for name, item in layer._items():
        if isinstance(item, Layer) and id(item) not in seen:
            seen.add(id(item))
            path = f"{prefix}.{name}" if prefix else name
            found[path] = item
            _collect(item, path, found, seen)


def _device_of(inputs: tuple[Any, ...]) -> Device:
    recorder = MODE.get().recorder
    if recorder is not None:
        return recorder.device
    for item in inputs:
        if isinstance(item, Tensor) and item.array is not None:
            return item.device
        if isinstance(item, list | tuple) and item:
            return _device_of(tuple(item))
    return registry.resolve()


def _place(error: SingaError, layer: Layer) -> None:
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


def _assign(cells: Mapping[str, Parameter], values: Mapping[str, Any]) -> None:
    """Check everything, then assign."""
    unknown = sorted(set(values) - set(cells))
    if unknown:
        rule = f"names among ({', '.join(cells)})"
        raise ArgumentError("set_states", rule, ", ".join(unknown))
    ready = []
    for name, value in values.items():
        cell = cells[name]
        host = value.numpy() if isinstance(value, Tensor) else value
        shape = tuple(getattr(host, "shape", ()))
        fits = len(shape) == len(cell.shape) and all(
            known in (None, size) for known, size in zip(cell.shape, shape, strict=True)
        )
        if not fits:
            raise ShapeError(f"set_states {name!r}", f"shape {cell.shape}", shape)
        if not _castable(host.dtype, cell.dtype.numpy):
            raise DTypeError(f"set_states {name!r}", f"values of {cell.dtype}", host.dtype)
        ready.append((cell, host))
    for cell, host in ready:
        if cell.materialized:
            cell.assign(host.astype(cell.dtype.numpy, copy=False))
        else:
            cell.set_shape(host.shape)
            cell.hold(registry.resolve(), host)


def _castable(given: Any, wanted: Any) -> bool:
    """Floats into floats, integers into integers or floats; never a silent loss of kind."""
    order = "buif"
    kind = {"V": "f"}  # bfloat16
    return order.index(kind.get(given.kind, given.kind)) <= order.index(
        kind.get(wanted.kind, wanted.kind)
    )


_BOOKKEEPING = frozenset({"_ready", "_graphs", "training"})


class _Same:
    """An object by its identity. It is kept alive, so that no other object gets its id."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _print_layer(layer: Layer) -> Hashable:
    values = [(k, _print_value(v)) for k, v in layer.__dict__.items() if k not in _BOOKKEEPING]
    return (type(layer), id(layer), layer.training, *values)


def _print_value(value: Any) -> Hashable:
    """Plain values by value, tensors by cell and place, everything else by identity."""
    if isinstance(value, Tensor):
        place = value.array.storage.device.name if value.array is not None else None
        return ("cell", id(value), value.requires_grad, place)
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return (type(value), value)
    if isinstance(value, list | tuple):
        return tuple(_print_value(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _print_value(item)) for key, item in value.items())
    own = getattr(type(value), "fingerprint", None)
    if own is not None and not isinstance(value, Layer):
        printed: Hashable = own(value)
        return (_Same(value), printed)
    return id(value) if isinstance(value, Layer) else _Same(value)
