"""Small calls of primitives in every signature: as they lie, empty, and without axes.

Samples name sets of types, which leave out the rarer ones; a backend owes these too. Numbers are
whole and small where the type is, so that they mean the same in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from singa_core.conformance.cases import Case
from singa_core.dtype import DType
from singa_core.sample import In, Sample

Shapes = tuple[tuple[int, ...], ...]
CallShape = tuple[Shapes, dict[str, Any]]
"""The shapes of a call's inputs, and its attributes."""
WHOLE: Final = ("sum", "prod", "max", "min", "argmax", "argmin")
RUNNING: Final = ("cumsum", "cumprod")
ADDS: Final = ("sum", "prod", *RUNNING)  # an empty axis has a result: 0, 1, or nothing


def elementwise(count: int) -> dict[str, CallShape]:
    """Inputs of one shape."""
    shapes = {"packed": (3, 4), "empty": (0, 4), "0-d": ()}
    return {kind: ((shape,) * count, {}) for kind, shape in shapes.items()}


def _along_an_axis(name: str) -> dict[str, CallShape]:
    calls: dict[str, CallShape] = {
        "packed": (((3, 4),), {"axis": 1}), "empty": (((0, 4),), {"axis": 1}),
    }  # fmt: skip
    if name in WHOLE:
        calls["0-d"] = (((),), {"axis": None})
    if name in ADDS:
        calls["empty-axis"] = (((3, 0),), {"axis": 1})
    return calls


def _at_places(*, values: bool) -> dict[str, CallShape]:
    """Calls with (x, index), or with (x, index, values)."""
    indices: dict[str, tuple[int, ...]] = {"packed": (4,), "empty": (0,), "0-d": ()}
    return {
        kind: (((5, 3), index, *([(*index, 3)] if values else ())), {"axis": 0})
        for kind, index in indices.items()
    }


CALLS: Final[Mapping[str, Mapping[str, CallShape]]] = MappingProxyType({
    **{name: _along_an_axis(name) for name in (*WHOLE, *RUNNING, "sort")},
    "gather": _at_places(values=False),
    "scatter": _at_places(values=True),
    "scatter_add": _at_places(values=True),
    "concat": {
        "packed": (((3, 4), (2, 4)), {"axis": 0}), "empty": (((0, 4), (2, 4)), {"axis": 0}),
    },
    "matmul": {
        "packed": (((2, 3), (3, 4)), {}), "empty": (((0, 3), (3, 4)), {}),
        "empty-axis": (((2, 0), (0, 4)), {}),
    },
    "set_slice": {
        "packed": (((5, 4), (2, 2)), {"start": (1, 0), "step": (2, 3)}),
        "empty": (((5, 4), (0, 2)), {"start": (1, 0), "step": (2, 3)}),
        "0-d": (((), ()), {"start": (), "step": ()}),
    },
    "iota": {"packed": ((), {"size": 5}), "empty": ((), {"size": 0})},
    "full": {
        kind: ((), {"shape": shape, "value": 1})
        for kind, shape in {"packed": (3, 4), "empty": (0, 4), "0-d": ()}.items()
    },
    "random_bits": {
        kind: (((4,),), {"shape": shape}) for kind, shape in {"empty": (0, 4), "0-d": ()}.items()
    },
})  # fmt: skip
TYPED: Final = ("cast", "iota", "full")
PLACES: Final = {"gather": 5, "scatter": 5, "scatter_add": 2}
"""How many of the five rows an index names: if fewer than its numbers, values meet in a row."""


def small(name: str, ins: Sequence[DType], outs: Sequence[DType]) -> Iterator[tuple[str, Case]]:
    """(kind, call) of a primitive with these types."""
    for kind, (shapes, attrs) in CALLS.get(name, elementwise(len(ins))).items():
        types = list(ins) * len(shapes) if name == "concat" else ins
        inputs = [In(s, d.name, low=1, high=6) for s, d in zip(shapes, types, strict=True)]
        if name in PLACES:
            # every second number is negative, where one can be, and counts from the end
            numbers = np.arange(np.prod(shapes[1], dtype=int)).reshape(shapes[1])
            from_end = 0 if ins[1].kind == "uint" else 5 * (numbers % 2)
            index = numbers * 3 % PLACES[name] - from_end
            inputs[1] = In(shapes[1], ins[1].name, values=index)
        typed = {"dtype": outs[0].name} if name in TYPED else {}
        yield kind, Case(name, 0, Sample(tuple(inputs), attrs | typed), (*ins, *outs)[0].name)
