"""What the parts of a model are called in a file: first paths, and other paths to the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from singa_core.layer import Layer

Kind = TypeVar("Kind")


def attributes(model: Layer, kind: type[Kind]) -> dict[str, Kind]:
    """Optimisers, or counters, among the attributes of all layers, each under its first name."""
    found: dict[int, tuple[str, Kind]] = {}
    for path, layer in {"": model, **model.sublayers()}.items():
        held: dict[str, Any] = {}
        for cls in reversed(type(layer).__mro__):
            held |= vars(cls)
        for name, value in (held | vars(layer)).items():
            for full, item in _members(f"{path}.{name}" if path else name, value, kind):
                found.setdefault(id(item), (full, item))
    return dict(found.values())


def _members(name: str, value: Any, kind: type[Kind]) -> Iterator[tuple[str, Kind]]:
    """What an attribute holds of a kind: itself, or in lists, tuples and dicts."""
    if isinstance(value, kind):
        yield name, value
    elif isinstance(value, list | tuple | dict):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _members(f"{name}.{key}", item, kind)


def aliases(model: Layer) -> dict[str, str]:
    """Other paths to shared layers and parameters -> the first one, which is the name."""
    layers = {"": model, **model.sublayers()}
    first = {id(layer): path for path, layer in layers.items()}
    first |= {id(cell): path for path, cell in model.get_states().items()}
    others = {}
    for path, layer in layers.items():
        for name, item in layer._items():
            full = f"{path}.{name}" if path else name
            if first[id(item)] != full:
                others[full] = first[id(item)]
    return others


def canonical(name: str, others: Mapping[str, str]) -> str:
    """The name that a path through shared layers leads to."""
    for _ in others:  # a shared layer may lie in a shared layer
        parts = name.split(".")
        heads = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        head = next((head for head in heads if head in others), None)
        if head is None:
            break
        name = others[head] + name[len(head) :]
    return name
