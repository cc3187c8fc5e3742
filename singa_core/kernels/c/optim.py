"""Steps of optimisers, each in one pass over its parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from singa_core.dtype import DType, float32, float64
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import Call, Target
from singa_core.kernels.c.geometry import broadcast_walk
from singa_core.kernels.c.loops import Scalar, calls
from singa_core.spec import AnyForm, Spec

# state may be float32 where the parameter has 16 bits
SIGNATURES = ("f32 f32", "f64 f64", "f16 f16", "bf16 bf16", "f16 f32", "bf16 f32")
Lines = Callable[..., None]


class Step:
    """One step under way: its lines, and numbers as text of the type it is computed in."""

    def __init__(self, target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> None:
        self.target, self.ins, self.outs = target, ins, outs
        wide = outs[0].dtype is float64
        self.dtype: DType = float64 if wide else float32
        self.lines: list[tuple[str, str]] = []

    def number(self, value: float) -> str:
        """A constant, exactly as NumPy has it in this type."""
        exact = float(value if self.dtype is float64 else np.float32(value)).hex()
        return f"({{T}})({exact}{'' if self.dtype is float64 else 'f'})"

    def rate(self, name: str) -> str:
        """A float32 input, in the type that is computed in before anything is done to it."""
        return f"({{T}})({name})" if self.dtype is float64 else name

    def let(self, name: str, text: str) -> None:
        """Name a value."""
        self.lines.append((name, text))

    def decay(self, grad: str, rate: float) -> None:
        """Name the gradient, `slope`, with weight decay."""
        self.let("slope", f"{grad} + x0 * {self.number(rate)}" if rate else grad)

    def calls(self, name: str) -> list[Call]:
        """One call over all elements."""
        lines = tuple((variable, self.dtype, text) for variable, text in self.lines)
        ins = tuple(form.dtype.code for form in self.ins)
        outs = tuple(spec.dtype.code for spec in self.outs)
        plain = all(code in ("f32", "f16", "bf16") for code in (*ins, *outs))
        scalar = Scalar(name, ins, lines, outs, vector=plain)
        # p, state and gradient lie alike: the rates are walked in place
        path = broadcast_walk(self.outs[0].shape, [*self.ins, *self.outs[:-1]])
        return calls(self.target, scalar, path, range(len(ins) + len(outs)))


def step(op: str, state: int, rates: int) -> Callable[[Lines], Lines]:
    """Register a step for every mixture of types: `f(step, **attrs)` writes its lines."""

    def register(function: Lines) -> Lines:
        def prepare(
            target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], **attrs: Any
        ) -> list[Call]:
            made = Step(target, ins, outs)
            function(made, **attrs)
            return made.calls(op)

        for pair in SIGNATURES:
            p, s = pair.split()
            if p != s and not state:
                continue
            left = ",".join([p, *[s] * state, p, *["f32"] * rates])
            c.calls(op, f"{left}->{','.join([p, *[s] * state])}", in_place=True)(prepare)
        return function

    return register


@step("sgd_step", 0, 1)
def sgd(s: Step, *, weight_decay: float) -> None:
    s.decay("x1", weight_decay)
    s.let("y0", "x0 - x2 * slope")


@step("sgd_momentum_step", 1, 1)
def sgd_momentum(
    s: Step, *, momentum: float, dampening: float, nesterov: bool, weight_decay: float
) -> None:
    s.decay("x2", weight_decay)
    s.let("y1", f"x1 * {s.number(momentum)} + slope * {s.number(1.0 - dampening)}")
    s.let("y0", f"x0 - x3 * (slope + y1 * {s.number(momentum)})" if nesterov else "x0 - x3 * y1")


@step("adagrad_step", 1, 1)
def adagrad(s: Step, *, eps: float, weight_decay: float) -> None:
    s.decay("x2", weight_decay)
    s.let("y1", "x1 + slope * slope")
    s.let("y0", f"x0 - x3 * slope / (sqrt(y1) + {s.number(eps)})")


@step("rmsprop_step", 1, 1)
def rmsprop(s: Step, *, decay: float, eps: float, weight_decay: float) -> None:
    s.decay("x2", weight_decay)
    s.let("y1", f"x1 * {s.number(decay)} + slope * slope * {s.number(1.0 - decay)}")
    s.let("y0", f"x0 - x3 * slope / (sqrt(y1) + {s.number(eps)})")


@step("rmsprop_momentum_step", 2, 1)
def rmsprop_momentum(
    s: Step, *, decay: float, momentum: float, eps: float, weight_decay: float
) -> None:
    s.decay("x3", weight_decay)
    s.let("y1", f"x1 * {s.number(decay)} + slope * slope * {s.number(1.0 - decay)}")
    s.let("y2", f"x2 * {s.number(momentum)} + slope / (sqrt(y1) + {s.number(eps)})")
    s.let("y0", "x0 - x4 * y2")


def moments(s: Step, grad: str, rate: str, attrs: dict[str, Any]) -> None:
    """The running averages y1 and y2, and `kept`, the parameter after decoupled decay."""
    decay, apart = attrs["weight_decay"], attrs["decoupled"]
    s.decay(grad, 0.0 if apart else decay)
    s.let("kept", f"x0 - x0 * ({rate} * {s.number(decay)})" if apart and decay else "x0")
    beta1, beta2 = attrs["beta1"], attrs["beta2"]
    s.let("y1", f"x1 * {s.number(beta1)} + slope * {s.number(1.0 - beta1)}")
    s.let("y2", f"x2 * {s.number(beta2)} + slope * slope * {s.number(1.0 - beta2)}")


def root(s: Step, square: str, correction: str, eps: float) -> str:
    """sqrt(square / correction) + eps."""
    return f"(sqrt({square}) / sqrt({s.rate(correction)}) + {s.number(eps)})"


@step("adam_step", 2, 3)
def adam(s: Step, **attrs: Any) -> None:
    moments(s, "x3", "x4", attrs)
    s.let("y0", f"kept - {s.rate('x4')} / x5 * y1 / {root(s, 'y2', 'x6', attrs['eps'])}")


@step("amsgrad_step", 3, 3)
def amsgrad(s: Step, **attrs: Any) -> None:
    moments(s, "x4", "x5", attrs)
    s.let("y3", "(x3 > y2 | x3 != x3) ? x3 : y2")
    s.let("y0", f"kept - {s.rate('x5')} / x6 * y1 / {root(s, 'y3', 'x7', attrs['eps'])}")
