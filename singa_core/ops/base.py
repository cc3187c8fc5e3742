"""What many operations share: one input or two that broadcast, and the kinds of numbers taken."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ClassVar, Final, Literal, TypeVar

from singa_core.errors import DTypeError
from singa_core.operation import Operation
from singa_core.sample import In, Sample, sample
from singa_core.spec import Spec, broadcast_shapes
from singa_core.tensor import Tensor, apart, beside, tensor

Accepts = Literal["any", "number", "float", "bits", "integer", "bool"]
Grads = tuple[Tensor | None, ...]
_F = TypeVar("_F", bound=Callable[..., Any])

_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "any": ("bool", "int", "uint", "float"),
    "number": ("int", "uint", "float"),
    "float": ("float",),
    "bits": ("bool", "int", "uint"),
    "integer": ("int", "uint"),
    "bool": ("bool",),
}
_RULES: Final = {
    "number": "a number dtype (an integer or a float)",
    "float": "a floating dtype",
    "bits": "bool or an integer dtype",
    "integer": "an integer dtype",
    "bool": "bool",
}


def check_kind(where: str, accepts: Accepts, /, **operands: Any) -> None:
    """Raises: DTypeError unless every operand's dtype is of an accepted kind."""
    for spec in operands.values():
        if spec.dtype.kind not in _KINDS[accepts]:
            raise DTypeError(where, _RULES[accepts], spec.dtype, **operands)


def takes_tensors(plain: _F) -> _F:
    """Decorator of a plain function: NumPy arrays, lists and numbers for its `Tensor` parameters.

    They become tensors on the device of the first argument that is a tensor, as they do for an op.
    A result that is an argument gets a cell of its own.
    """
    parameters = enumerate(signature(plain).parameters.values())
    places = [(i, p.name) for i, p in parameters if p.annotation == "Tensor"]

    @wraps(plain)
    def call(*args: Any, **options: Any) -> Any:
        for i, name in places:
            value = args[i] if i < len(args) else options.get(name)
            if value is not None and not isinstance(value, Tensor):
                args = tuple(converted(args, options))
                break
        return apart(plain(*args, **options), (*args, *options.values()))

    def converted(args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        """The arguments as tensors; those among `options` are replaced there."""
        given = [v for v in (*args, *options.values()) if isinstance(v, Tensor)]
        changed = list(args)
        for i, name in places:
            value = args[i] if i < len(args) else options.get(name)
            if value is None or isinstance(value, Tensor):
                continue
            made = beside(given[0], value) if given else tensor(value)
            if i < len(args):
                changed[i] = made
            else:
                options[name] = made
        return changed

    return call  # type: ignore[return-value]  # of the same signature


def wide(x: Tensor) -> Tensor:
    """`x` in the type that steps between are kept in: float32 for float16 and bfloat16."""
    return x.astype("float32") if x.dtype.bits == 16 and x.dtype.is_floating else x


def once_rounded(forward: _F) -> _F:
    """Decorator of a decomposition: sixteen-bit floats take the op in float32.

    Several steps in sixteen bits would round at each, and overflow on the way.
    """

    @wraps(forward)
    def call(op: Operation, *xs: Tensor, **attrs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype.bits != 16:
            return forward(op, *xs, **attrs)
        return op(*(wide(x) for x in xs), **attrs).astype(dtype)

    return call  # type: ignore[return-value]  # of the same signature


def grads_once_rounded(backward: _F) -> _F:
    """Decorator of `backward`, as `once_rounded` is of `forward`."""

    @wraps(backward)
    def call(op: Operation, grad: Tensor, *kept: Tensor, **options: Any) -> Any:
        dtype = grad.dtype
        if dtype.bits != 16:
            return backward(op, grad, *kept, **options)
        made = backward(op, wide(grad), *(wide(x) for x in kept), **options)
        return tuple(None if g is None else g.astype(dtype) for g in made)

    return call  # type: ignore[return-value]  # of the same signature


class Unary(Operation):
    """One input, an output of the same shape and dtype."""

    accepts: ClassVar[Accepts] = "number"
    samples: ClassVar[tuple[Sample, ...]] = ()

    def infer(self, x: Spec) -> Spec:
        check_kind(self.name, self.accepts, x=x)
        return x


class FloatUnary(Unary):
    """A real function: integers and bool become float32 first."""

    accepts = "float"
    promotes = True
    weak_float = True


class Pair(Operation):
    """Two inputs that broadcast and meet in one dtype, which is the output's."""

    accepts: ClassVar[Accepts] = "number"
    samples: ClassVar[tuple[Sample, ...]] = ()
    promotes = True

    def infer(self, a: Spec, b: Spec) -> Spec:
        check_kind(self.name, self.accepts, a=a, b=b)
        return Spec(broadcast_shapes(self.name, a.shape, b.shape, a=a, b=b), a.dtype)


class Compare(Pair):
    """Two inputs that broadcast and meet in one dtype; the output is bool."""

    accepts = "any"

    def infer(self, a: Spec, b: Spec) -> Spec:
        return super().infer(a, b).with_dtype("bool")


def unary_samples(low: float = -2.0, high: float = 2.0, dtype: str = "float") -> tuple[Sample, ...]:
    """A matrix, a vector, a scalar, an empty and a 3-d input with values in [low, high)."""
    shapes: tuple[tuple[int, ...], ...] = ((3, 4), (7,), (), (0, 3), (2, 1, 3))
    return tuple(sample(In(shape, dtype, low, high)) for shape in shapes)


def pair_samples(
    a: tuple[float, float] = (-2.0, 2.0), b: tuple[float, float] = (-2.0, 2.0), dtype: str = "float"
) -> tuple[Sample, ...]:
    """Equal shapes, four ways to broadcast, scalars and an empty pair; values in the two ranges."""
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((4, 1), (1, 3)),
        ((), (2, 3)),
        ((), ()),
        ((0, 3), (3,)),
    )
    return tuple(sample(In(x, dtype, *a), In(y, dtype, *b)) for x, y in shapes)


def given(*values: Any, dtype: str = "float", **attrs: Any) -> Sample:
    """A sample of written-out values: where random ones could fall on a kink."""
    inputs = []
    for value in values:
        shape: list[int] = []
        inner = value
        while isinstance(inner, list):
            shape.append(len(inner))
            inner = inner[0] if inner else None
        inputs.append(In(tuple(shape), dtype, values=value))
    return sample(*inputs, **attrs)
