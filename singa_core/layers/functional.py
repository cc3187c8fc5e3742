"""Layers without parameters: an operation, with its attributes fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from singa_core import ops
from singa_core.checks import as_integers, check_choice, check_integer, check_number
from singa_core.errors import ArgumentError, ShapeError
from singa_core.layer import Layer
from singa_core.tensor import Tensor


def check_step(where: str, rule: str, step: Any, at: str = "") -> None:
    """Raises: ArgumentError for what cannot be called on tensors: a class of layers, a list."""
    if isinstance(step, type):
        name = step.__name__
        raise ArgumentError(where, rule, f"the class {name}{at}", hint=f"{name}(...)")
    if not callable(step):
        hint = f"{where}(*layers)" if isinstance(step, list | tuple) else None
        raise ArgumentError(where, rule, f"{step!r}{at}", hint=hint)


class Lambda(Layer):
    """Any function of tensors as a layer. What it reads from outside is not watched for changes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        check_step("Lambda", "a function", function)
        self.function = function

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return self.function(*inputs, **options)

    def describe(self) -> str:
        if isinstance(self.function, Layer):
            return ""
        name = getattr(self.function, "name", getattr(self.function, "__name__", None))
        return name if isinstance(name, str) else repr(self.function)


class ReLU(Layer):
    """max(x, 0). Shapes: any -> same."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.relu(x)
        return y


class LeakyReLU(Layer):
    """x where x > 0, else slope * x.

    Shapes: any -> same. Args: slope: of the negative side, >= 0.
    """

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = check_number("LeakyReLU", "slope", slope, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.leaky_relu(x, alpha=self.slope)
        return y


class Sigmoid(Layer):
    """1 / (1 + exp(-x)). Shapes: any -> same."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.sigmoid(x)
        return y


class Tanh(Layer):
    """Hyperbolic tangent. Shapes: any -> same."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.tanh(x)
        return y


class GELU(Layer):
    """x * Phi(x).

    Shapes: any -> same. Args: approximate: "none", or "tanh" for the cheaper form.
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = check_choice("GELU", "approximate", approximate, ("none", "tanh"))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.gelu(x, approximate=self.approximate)
        return y


class SiLU(Layer):
    """x * sigmoid(x), also called swish. Shapes: any -> same."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.silu(x)
        return y


class Softmax(Layer):
    """exp(x) / sum exp(x) along `axis`. Shapes: any with that axis -> same."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = check_integer("Softmax", "axis", axis)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.softmax(x, axis=self.axis)
        return y


class LogSoftmax(Layer):
    """Logarithm of softmax along `axis`, without its loss of precision. Shapes: as Softmax."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = check_integer("LogSoftmax", "axis", axis)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.log_softmax(x, axis=self.axis)
        return y


class Flatten(Layer):
    """Axes from `start_axis` on become one. Shapes: (n, ...) -> (n, product of the rest)."""

    def __init__(self, start_axis: int = 1) -> None:
        self.start_axis = check_integer("Flatten", "start_axis", start_axis)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x.flatten(self.start_axis)
        return y


class Reshape(Layer):
    """Axes after the first take a new shape, one size of which may be -1.

    Shapes: (n, ...) -> (n, *shape).
    """

    def __init__(self, shape: Sequence[int]) -> None:
        sizes = as_integers(shape)
        if sizes is None:
            hint = f"Reshape(({shape},))" if isinstance(shape, int) else None
            raise ArgumentError("Reshape", "the sizes after the first axis", repr(shape), hint=hint)
        self.shape = sizes

    def forward(self, x: Tensor) -> Tensor:
        if not x.ndim:
            raise ShapeError("Reshape", "x.ndim >= 1", 0, x=x)
        y: Tensor = x.reshape(x.shape[0], *self.shape)
        return y

    def describe(self) -> str:
        return str(self.shape)


class Dropout(Layer):
    """In training, zeros elements with probability p and scales the others by 1 / (1 - p).

    Shapes: any -> same. Args: p: probability of zero, 0 <= p <= 1.
    Source: Srivastava et al., JMLR 15, 2014.
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = check_number("Dropout", "p", p, 0.0, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.dropout(x, p=self.p, training=self.training)
        return y
