"""Gradients against differences, in float64: `check_gradients(function, device, inputs)`.

Along one random direction v the derivative of L(x) = sum of w * f(x), for random weights w, is
taken twice: from the tape, as the sum of gradient * v, and from five values of L. One number tells
of every element of every gradient, and a wrong one does not cancel but by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from singa_core.autograd import gradients
from singa_core.conformance.oracles.common import HostArray
from singa_core.conformance.tolerances import expect
from singa_core.device import Device
from singa_core.mode import no_grad
from singa_core.tensor import Tensor, tensor

STEP: Final = 1e-3  # error about STEP**4 of the fifth derivative, and 1e-16 / STEP of the value
RTOL: Final = 1e-7
ATOL: Final = 1e-8


def check_gradients(
    function: Callable[..., Any],
    device: Device,
    inputs: Sequence[Any],
    *,
    wanted: Sequence[int] | None = None,
    order: int = 2,
) -> int:
    """Raises: Mismatch unless gradients of `function` are its derivatives.

    Args:
        device: where to compute.
        function: of tensors; gives a tensor or a tuple of them, smooth within STEP of the inputs.
        inputs: arrays (floats are differentiated, in float64), or shapes to be filled at random.
        wanted: which inputs to differentiate; by default all floats.
        order: 2 checks the second derivative as well.

    Returns the highest order that was there to check; 0 if no output depends on a float.
    """
    rng = np.random.default_rng(7)
    hosts = [rng.uniform(-2, 2, i) if isinstance(i, tuple) else np.asarray(i) for i in inputs]
    hosts = [h.astype(np.float64) if h.dtype.kind == "f" else h for h in hosts]
    if wanted is None:
        wanted = [i for i, h in enumerate(hosts) if h.dtype == np.float64]
    check = _Check(function, device, hosts, list(wanted), rng)
    if not check.weights or not wanted:
        return 0
    check.first()
    return 2 if order > 1 and check.second() else 1


class _Check:
    """One function at one point, and the directions and weights that make a number of it."""

    def __init__(
        self,
        function: Callable[..., Any],
        device: Device,
        hosts: list[HostArray],
        wanted: list[int],
        rng: np.random.Generator,
    ) -> None:
        self.function, self.device, self.hosts, self.wanted = function, device, hosts, wanted
        self.direction = {i: np.asarray(rng.uniform(-1, 1, hosts[i].shape)) for i in wanted}
        self.other = {i: np.asarray(rng.uniform(-1, 1, hosts[i].shape)) for i in wanted}
        with no_grad():
            outs = self.outputs(self.inputs(0.0))
        self.weights = [
            np.asarray(rng.uniform(0.5, 1.5, y.shape) * rng.choice([-1, 1], y.shape)) for y in outs
        ]
        values = [np.abs(w * y.numpy()).sum() for w, y in zip(self.weights, outs, strict=True)]
        self.scale = max(1.0, *values) if values else 1.0

    def inputs(self, t: float, *, track: bool = False) -> list[Tensor]:
        """The inputs, moved by t along the direction."""
        made = []
        for i, host in enumerate(self.hosts):
            moved = np.asarray(host + t * self.direction[i]) if i in self.direction else host
            made.append(
                tensor(moved, device=self.device, requires_grad=track and i in self.direction)
            )
        return made

    def outputs(self, inputs: list[Tensor]) -> list[Tensor]:
        """The floating results."""
        made = self.function(*inputs)
        made = made if isinstance(made, tuple | list) else (made,)
        return [y for y in made if y.dtype.is_floating]

    def seeds(self) -> list[Tensor]:
        """The weights of the results."""
        return [tensor(w, device=self.device) for w in self.weights]

    def gradients(self, t: float, **options: Any) -> tuple[list[Tensor], list[Tensor | None]]:
        """Gradients of L at t, None where L does not depend on an input."""
        inputs = self.inputs(t, track=True)
        outs = self.outputs(inputs)
        tracked = [(y, s) for y, s in zip(outs, self.seeds(), strict=True) if y.requires_grad]
        xs = [inputs[i] for i in self.wanted]
        if not tracked:
            return xs, [None] * len(xs)
        ys, seeds = zip(*tracked, strict=True)
        return xs, list(gradients(ys, xs, seeds, allow_unused=True, **options))

    def first(self) -> None:
        """Compare the first derivative."""

        def value(t: float) -> float:
            with no_grad():
                outs = self.outputs(self.inputs(t))
                pairs = zip(self.weights, outs, strict=True)
                return float(sum((w * y.numpy()).sum() for w, y in pairs))

        _, grads = self.gradients(0.0)
        for i, grad in zip(self.wanted, grads, strict=True):
            if grad is not None:
                shape = self.hosts[i].shape
                expect(grad.shape == shape, f"gradient {i}: shape {grad.shape}, needs {shape}")
                name = grad.dtype.name
                expect(name == "float64", f"gradient {i}: {name}, needs float64")
        self.agree("first", derivative(value), self.along(grads, self.direction), self.scale)

    def second(self) -> bool:
        """Compare the second derivative; False if the first is a constant for the tape."""

        def slope(t: float) -> float:
            _, grads = self.gradients(t)
            return self.along(grads, self.other)

        xs, grads = self.gradients(0.0, create_graph=True)
        tracked = [
            (g, tensor(self.other[i], device=self.device))
            for i, g in zip(self.wanted, grads, strict=True)
            if g is not None and g.requires_grad
        ]
        numeric = derivative(slope)
        if not tracked:
            self.agree("second (the tape says 0)", numeric, 0.0, self.scale)
            return False
        firsts, seeds = zip(*tracked, strict=True)
        seconds = gradients(firsts, xs, seeds, allow_unused=True)
        self.agree("second", numeric, self.along(seconds, self.direction), self.scale)
        return True

    def along(self, grads: Sequence[Tensor | None], direction: Mapping[int, HostArray]) -> float:
        """The sum of gradient * direction."""
        pairs = zip(self.wanted, grads, strict=True)
        parts = [float((g.numpy() * direction[i]).sum()) for i, g in pairs if g is not None]
        return sum(parts, 0.0)

    def agree(self, order: str, numeric: float, taped: float, scale: float) -> None:
        """Raises: Mismatch unless difference and gradient are one number."""
        bound = ATOL * scale + RTOL * max(abs(numeric), abs(taped))
        expect(
            abs(numeric - taped) <= bound,
            f"{order} derivative: difference {numeric!r}, gradient {taped!r}, bound {bound:.1e}",
        )


def derivative(f: Callable[[float], float]) -> float:
    """f'(0) from five points, of fourth order."""
    near, far = f(STEP) - f(-STEP), f(2 * STEP) - f(-2 * STEP)
    return (8 * near - far) / (12 * STEP)
