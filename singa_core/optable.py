"""Operations and functions by name.

Tensor methods and passes look them up here, at call time, so that neither imports the ops' floor.
`OPS` holds every Operation. `FUNCTIONS` holds what is no operation but wanted below the ops' floor:
plain functions made of several ops (`flip`, `split`), or reading on the host (`nonzero`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singa_core import kernels
from singa_core.errors import ArgumentError

if TYPE_CHECKING:
    from singa_core.operation import Operation

_F = TypeVar("_F", bound=Callable[..., Any])

OPS: Final[dict[str, Operation]] = {}
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}


def register(op: Operation) -> None:
    """Add an operation.

    Raises: ArgumentError if another class or a function has the name, if it is no part of the
        core and has no decomposition (it would be tied to the devices that have a kernel for it),
        or if a kernel was registered for another number of inputs.
    """
    where = f"operation {op.name}"
    taken: Any = OPS.get(op.name, FUNCTIONS.get(op.name))
    if taken is not None and _home(taken) != _home(op):
        rule = f"a name of its own for each operation, {op.name!r} is of {_home(taken)[0]}"
        second = " of ".join(_home(op)[::-1])
        raise ArgumentError(
            where, rule, f"a second one, {second}", hint=f"another name in {_home(op)[1]}"
        )
    ours = type(op).__module__.partition(".")[0] == __name__.partition(".")[0]
    if not (ours or op.is_composite or op.is_view):
        rule = "a decomposition, so that it runs on every device"
        hint = "def forward(self, x): ...  made of other operations"
        raise ArgumentError(where, rule, f"none in {_home(op)[1]}", hint=hint)
    kernels.know(op.name, None if op.variadic else op.inputs)
    OPS[op.name] = op


def title(name: str, options: dict[str, Any]) -> str:
    """What reports call an operation: its name, and what a group is made of: `fused[mul x2, exp]`.

    Args:
        name: of the operation.
        options: its attributes.
    """
    members = Counter(OPS[name].members(**options))
    told = ", ".join(f"{member} x{n}" if n > 1 else member for member, n in members.items())
    return f"{name}[{told}]" if told else name


def _home(thing: Any) -> tuple[str, str]:
    """Module and class of an operation, or module and name of a function."""
    made = thing if hasattr(thing, "__qualname__") else type(thing)
    return made.__module__, made.__qualname__


def function(plain: _F) -> _F:
    """Decorator: add a plain function under its own name. Raises: ArgumentError if it is taken."""
    name = plain.__name__
    taken = FUNCTIONS.get(name)
    if name in OPS or (taken is not None and taken.__module__ != plain.__module__):
        rule = "a name of its own for each function"
        raise ArgumentError(f"function {name}", rule, f"a second one, in {plain.__module__}")
    FUNCTIONS[name] = plain
    return plain
