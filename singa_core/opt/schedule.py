"""Learning-rate schedules: pure functions from the number of steps made so far to a rate.

Any `f(step: int) -> float` is one. Those here are values: comparable, printable, without state, so
that a checkpoint needs the step number only.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from singa_core.checks import check_integer, check_number
from singa_core.errors import ArgumentError

Schedule = Callable[[int], float]


def as_schedule(value: float | Schedule) -> Schedule:
    """The schedule that a number (the same rate at every step) or a function stands for.

    Raises: ArgumentError for anything else, and for a rate that is negative or not finite.
    """
    if isinstance(value, type):
        hint = f"{value.__name__}(...)"
        raise ArgumentError("schedule", "a schedule", f"the class {value.__name__}", hint=hint)
    if callable(value):
        return value
    return Constant(value)


@dataclass(frozen=True)
class Constant:
    """The same rate at every step."""

    rate: float

    def __post_init__(self) -> None:
        check_number("schedule", "rate", self.rate, 0.0)

    def __call__(self, step: int) -> float:
        return self.rate


@dataclass(frozen=True)
class StepDecay:
    """Times `factor` after every so many steps: rate * factor ** (step // every)."""

    rate: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        check_number("StepDecay", "rate", self.rate, 0.0)
        check_integer("StepDecay", "every", self.every, 1)
        check_number("StepDecay", "factor", self.factor, 0.0, 1.0, ends="(]")

    def __call__(self, step: int) -> float:
        return self.rate * self.factor ** (step // self.every)


@dataclass(frozen=True)
class Exponential:
    """Smooth decay by `factor` in every so many steps: rate * factor ** (step / every)."""

    rate: float
    factor: float
    every: int = 1

    def __post_init__(self) -> None:
        check_number("Exponential", "rate", self.rate, 0.0)
        check_number("Exponential", "factor", self.factor, 0.0, 1.0, ends="(]")
        check_integer("Exponential", "every", self.every, 1)

    def __call__(self, step: int) -> float:
        return self.rate * math.pow(self.factor, step / self.every)


@dataclass(frozen=True)
class Cosine:
    """Half a cosine wave from `rate` at step 0 down to `floor` at step `steps`, then `floor`.

    floor + (rate - floor) * (1 + cos(pi * step / steps)) / 2

    Source: Loshchilov & Hutter, "SGDR", arXiv:1608.03983, eq. 5, without the restarts.
    """

    rate: float
    steps: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_number("Cosine", "rate", self.rate, 0.0)
        check_integer("Cosine", "steps", self.steps, 1)
        check_number("Cosine", "floor", self.floor, 0.0)

    def __call__(self, step: int) -> float:
        return _cosine(self.rate, self.floor, min(step / self.steps, 1.0))


@dataclass(frozen=True)
class Polynomial:
    """From `rate` at step 0 to `floor` at step `steps` along a power of what is left, then `floor`.

    floor + (rate - floor) * (1 - step / steps) ** power; linear where power is 1.
    """

    rate: float
    steps: int
    floor: float = 0.0
    power: float = 1.0

    def __post_init__(self) -> None:
        check_number("Polynomial", "rate", self.rate, 0.0)
        check_integer("Polynomial", "steps", self.steps, 1)
        check_number("Polynomial", "floor", self.floor, 0.0)
        check_number("Polynomial", "power", self.power, 0.0, ends="(]")

    def __call__(self, step: int) -> float:
        left = max(1.0 - step / self.steps, 0.0)
        return self.floor + (self.rate - self.floor) * math.pow(left, self.power)


@dataclass(frozen=True, init=False)
class Piecewise:
    """rates[i] from step boundaries[i - 1] on and before boundaries[i].

    >>> rate = Piecewise([100, 200], [0.1, 0.01, 0.001])
    >>> rate(99), rate(100), rate(5000)
    (0.1, 0.01, 0.001)
    """

    boundaries: tuple[int, ...]
    rates: tuple[float, ...]

    def __init__(self, boundaries: Sequence[int], rates: Sequence[float]) -> None:
        for name, values in (("boundaries", boundaries), ("rates", rates)):
            if not isinstance(values, list | tuple):
                raise ArgumentError("Piecewise", f"a list of numbers as {name}", repr(values))
            object.__setattr__(self, name, tuple(values))
        for boundary in self.boundaries:
            check_integer("Piecewise", "boundary", boundary, 1)
        if list(self.boundaries) != sorted(set(self.boundaries)):
            raise ArgumentError("Piecewise", "boundaries that grow", self.boundaries)
        if len(self.rates) != len(self.boundaries) + 1:
            got = f"{len(self.rates)} rates, {len(self.boundaries)} boundaries"
            raise ArgumentError("Piecewise", "one rate more than boundaries", got)
        for rate in self.rates:
            check_number("Piecewise", "rate", rate, 0.0)

    def __call__(self, step: int) -> float:
        return self.rates[bisect_right(self.boundaries, step)]


@dataclass(frozen=True)
class WarmUp:
    """A straight line up to the first rate of a schedule, which then begins at its own step 0.

    Args:
        schedule: what follows after `steps` steps.
        steps: how many, >= 1.
        start: rate at step 0; by default schedule(0) / (steps + 1), so that no step is wasted on 0.

    Source: Goyal et al., arXiv:1706.02677, section 2.2.
    """

    schedule: Schedule
    steps: int
    start: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", as_schedule(self.schedule))
        check_integer("WarmUp", "steps", self.steps, 1)
        if self.start is not None:
            check_number("WarmUp", "start", self.start, 0.0)

    def __call__(self, step: int) -> float:
        if step >= self.steps:
            return self.schedule(step - self.steps)
        top = self.schedule(0)
        start = top / (self.steps + 1) if self.start is None else self.start
        return start + (top - start) * step / self.steps


@dataclass(frozen=True)
class OneCycle:
    """Half a cosine wave up from peak / rise to `peak`, then one down to peak / rise / fall.

    Args:
        peak: the highest rate, at step warm_up * steps - 1.
        steps: length of the cycle; its last step, steps - 1, has the lowest rate.
        warm_up: share of the steps that go up, 0 < warm_up < 1.
        rise: peak / first rate, >= 1.
        fall: first rate / last rate, >= 1.

    Source: Smith & Topin, "Super-convergence", arXiv:1708.07120; two phases, as in PyTorch.
    """

    peak: float
    steps: int
    warm_up: float = 0.3
    rise: float = 25.0
    fall: float = 1e4

    def __post_init__(self) -> None:
        check_number("OneCycle", "peak", self.peak, 0.0)
        check_integer("OneCycle", "steps", self.steps, 1)
        check_number("OneCycle", "warm_up", self.warm_up, 0.0, 1.0)
        if not 1.0 < self.warm_up * self.steps < self.steps:
            rule = "1 < warm_up * steps < steps"
            got = f"warm_up = {self.warm_up}, steps = {self.steps}"
            raise ArgumentError("OneCycle", rule, got)
        for name in ("rise", "fall"):
            check_number("OneCycle", name, getattr(self, name), 1.0)

    def __call__(self, step: int) -> float:
        first = self.peak / self.rise
        top = self.warm_up * self.steps - 1.0
        if step <= top:
            return _cosine(first, self.peak, step / top)
        share = (step - top) / (self.steps - 1 - top)
        return _cosine(self.peak, first / self.fall, min(share, 1.0))


def _cosine(first: float, last: float, share: float) -> float:
    return last + (first - last) * (1.0 + math.cos(math.pi * share)) / 2.0
