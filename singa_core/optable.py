"""Operations and functions by name.

Tensor methods and passes look them up here, at call time, so that neither imports the ops' floor.
`OPS` holds every Operation. `FUNCTIONS` holds what is no operation but wanted below the ops' floor:
plain functions made of several ops (`flip`, `split`), or reading on the host (`nonzero`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singa_core.errors import ArgumentError

if TYPE_CHECKING:
    from singa_core.operation import Operation

_F = TypeVar("_F", bound=Callable[..., Any])

OPS: Final[dict[str, Operation]] = {}
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}


def register(op: Operation) -> None:
    """Add an operation. Raises: ArgumentError if another class has the name."""
    taken = OPS.get(op.name)
    if taken is not None and type(taken).__qualname__ != type(op).__qualname__:
        rule = "a name of its own for each operation"
        raise ArgumentError(f"operation {op.name}", rule, f"a second one, {type(op).__qualname__}")
    OPS[op.name] = op


def function(plain: _F) -> _F:
    """Decorator: add a plain function under its own name. Raises: ArgumentError if it is taken."""
    name = plain.__name__
    taken = FUNCTIONS.get(name)
    if name in OPS or (taken is not None and taken.__module__ != plain.__module__):
        rule = "a name of its own for each function"
        raise ArgumentError(f"function {name}", rule, f"a second one, in {plain.__module__}")
    FUNCTIONS[name] = plain
    return plain
