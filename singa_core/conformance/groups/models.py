"""Group `models`: whole training steps, each from the parameters that the device has just then.

So errors do not pile up: at every step the oracles compute, in float64, the loss and its slopes at
the device's own parameters, and what the optimiser makes of the device's own gradients.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from singa_core import random
from singa_core.autograd import gradients
from singa_core.conformance.checking import Cases
from singa_core.conformance.gradcheck import derivative
from singa_core.conformance.groups.common import level
from singa_core.conformance.nets import PROBLEMS, Problem, Slots, trained
from singa_core.conformance.oracles.common import HostArray, wide
from singa_core.conformance.tolerances import GRADIENT, LOSS, Mismatch, differs, expect
from singa_core.device import Device
from singa_core.model import Model, Placeholder
from singa_core.ops import cross_entropy
from singa_core.tensor import tensor

STEPS = 20
NEAR = 1e-3  # of the usual step: few units of a network change sides on so short a way


def built(problem: Problem, device: Device, *, use_graph: bool) -> Model:
    """The model with the initial weights of seed 5."""
    random.manual_seed(5)
    shape, dtype = problem.inputs
    model = problem.build()
    model.compile([Placeholder(shape, dtype=dtype, device=device)], use_graph=use_graph)
    return model


def state_of_draw() -> HostArray:
    """What the next draw for training gets."""
    stream = random.STREAMS["train"]
    return np.array([*stream.key, stream.position, 0], np.uint32)


class Teacher:
    """One problem on one device, step by step."""

    def __init__(self, problem: Problem, device: Device, *, use_graph: bool) -> None:
        self.problem, self.device = problem, device
        self.model = built(problem, device, use_graph=use_graph)
        params = trained(self.model.get_params())
        self.slots: dict[str, Slots] = {
            name: [np.zeros(p.shape) for _ in range(problem.slots)] for name, p in params.items()
        }
        self.losses: list[float] = []

    def step(self, number: int, slopes: bool) -> None:
        """Raises: Mismatch if loss, gradients (if `slopes`) or update are not the oracles'."""
        x, labels = self.problem.batch(number)
        before, state = trained(self.model.get_params()), state_of_draw()
        wanted = self.problem.loss(before, x, labels, state)
        position = random.STREAMS["train"].position
        loss, grads = self.gradients(x, labels)
        close(f"loss of step {number}", loss, wanted)
        random.STREAMS["train"].position = position
        if slopes:
            self.check_slopes(before, grads, x, labels, state)
        args = (tensor(x, device=self.device), tensor(labels, device=self.device))
        _, trained_loss = self.model.train_one_batch(*args)
        close(f"loss of train_one_batch {number}", float(trained_loss), wanted)
        self.check_update(number, before, grads)
        self.losses.append(wanted)

    def gradients(self, x: HostArray, labels: HostArray) -> tuple[float, dict[str, HostArray]]:
        """Loss and gradients on the device, with no update; running statistics stay as they are."""
        model = copy.deepcopy(self.model)
        params = model.get_params()
        output = model.forward(tensor(x, device=self.device))
        loss = cross_entropy(output, tensor(labels, device=self.device))
        found = gradients(loss, list(params.values()))
        return loss.item(), {n: wide(g.numpy()) for n, g in zip(params, found, strict=True)}

    def check_slopes(
        self,
        before: dict[str, HostArray],
        grads: dict[str, HostArray],
        x: HostArray,
        labels: HostArray,
        state: HostArray,
    ) -> None:
        """Each parameter's gradient, along a random direction."""
        for number, (name, grad) in enumerate(grads.items()):
            direction = np.random.default_rng(number).uniform(-1, 1, grad.shape)

            def value(t: float, name: str = name, direction: HostArray = direction) -> float:
                moved = before | {name: before[name] + NEAR * t * direction}
                return self.problem.loss(moved, x, labels, state)

            slope, taped = derivative(value) / NEAR, float((grad * direction).sum())
            bound = GRADIENT["float32"] * max(float(np.abs(grad * direction).sum()), 1e-2)
            expect(
                abs(slope - taped) <= bound,
                f"gradient of {name}: along a direction {taped!r}, needs {slope!r}; "
                f"allowed {bound:.1e}",
            )

    def check_update(
        self, number: int, before: dict[str, HostArray], grads: dict[str, HostArray]
    ) -> None:
        """What the optimiser made of these gradients."""
        after = trained(self.model.get_params())
        for name, p in before.items():
            wanted, self.slots[name] = self.problem.rule(number, p, grads[name], self.slots[name])
            scale = float(np.abs(wanted - p).max(initial=0.0))
            differs(f"update of {name}", after[name], wanted, 1e-6, 2e-3 * scale + 1e-7)


def close(what: str, got: float, wanted: float) -> None:
    """Raises: Mismatch unless two losses are one, to 1e-5."""
    bound = LOSS * max(1.0, abs(wanted))
    expect(abs(got - wanted) <= bound, f"{what}: got {got!r}, needs {wanted!r} to {bound:.0e}")


def lesson(case: Cases, teacher: Teacher) -> Iterator[int]:
    """The steps of a training, each a case; the rest is not tried after a failure."""
    for number in range(STEPS):
        yield number
        if case.failures:
            return


@pytest.mark.parametrize("name", PROBLEMS)
def test_models_eagerly(name: str, device: Device, case: Cases) -> None:
    """Twenty steps, eager."""
    train(name, device, case, use_graph=False)


@level("graph")
@pytest.mark.parametrize("name", PROBLEMS)
def test_models_replayed(name: str, device: Device, case: Cases) -> None:
    """Twenty steps, recorded once and replayed."""
    train(name, device, case, use_graph=True)


def train(name: str, device: Device, case: Cases, *, use_graph: bool) -> None:
    """See the tests."""
    way = "graph" if use_graph else "eager"
    teacher = Teacher(PROBLEMS[name], device, use_graph=use_graph)
    for number in lesson(case, teacher):
        detail = f"{way}-{number:02}"
        if case.selected(detail):
            case.check(detail, teacher.step, number, case.full or number % 5 == 0)
        else:  # a step that was selected needs those before it
            with suppress(Mismatch):
                teacher.step(number, False)

    def learns() -> None:
        first, last = np.mean(teacher.losses[:3]), np.mean(teacher.losses[-3:])
        expect(last < first, f"the loss went from {first:.3f} to {last:.3f}")

    if len(teacher.losses) == STEPS:
        case.check(f"{way}-learns", learns)


__all__ = [name for name in dir() if name.startswith("test_")]
