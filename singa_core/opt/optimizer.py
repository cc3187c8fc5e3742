"""Optimizer: ordinary code over tensors, so that an update is recorded like anything else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from singa_core import ops
from singa_core.autograd import stream
from singa_core.errors import ArgumentError, GradientError
from singa_core.mode import MODE, STRUCTURE, execute_once, no_grad
from singa_core.opt.schedule import Schedule, as_schedule
from singa_core.scalars import Counter, scalar
from singa_core.tensor import Tensor


class Optimizer(ABC):
    """Base of optimisers.

    Two ways to use one: `optimizer(loss)` runs backward and updates every parameter as soon as its
    gradient is complete (lowest memory); or `loss.backward()` and then `optimizer.step()`, with the
    parameters given to the constructor.

    Args:
        lr: learning rate >= 0, or a schedule: a function of the step number, counted from 0. May
            be set at any time; recorded graphs read it at each replay.
        params: the parameters that `step` and `zero_grad` work on.
    """

    def __init__(self, lr: float | Schedule, params: Iterable[Tensor] | None = None) -> None:
        self._schedule = as_schedule(lr)
        self.params = None if params is None else list(params)
        self.steps = Counter()
        # by identity of the cell; the cell is held, so that its id stays its own
        self._slots: dict[int, tuple[Tensor, dict[str, Tensor]]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if not name.startswith("_") and name != "lr":
            STRUCTURE.changed()

    @property
    def lr(self) -> float:
        """The learning rate of the next step."""
        return float(self._schedule(self.steps.value))

    @lr.setter
    def lr(self, value: float | Schedule) -> None:
        self._schedule = as_schedule(value)

    @abstractmethod
    def update(self, param: Tensor, grad: Tensor, rate: Tensor) -> None:
        """Assign the parameter's next value, from its gradient and what `prepare` gave."""

    def prepare(self, device: Any) -> Any:
        """What all updates of one step share, read once: the learning rate."""
        return scalar(self._rate, device=device)

    def _rate(self) -> float:
        return float(self._schedule(self.steps.value - 1))

    # -- using it ----------------------------------------------------------------------------------

    def __call__(self, loss: Tensor, *, retain_graph: bool = False) -> None:
        """Backward from `loss`, updating each parameter as its gradient is complete."""
        self._apply(stream(loss, retain_graph=retain_graph), loss)

    backward_and_update = __call__

    def step(self) -> None:
        """Update the parameters of the constructor from their `.grad`; None is passed over."""
        if self.params is None:
            raise ArgumentError(
                type(self).__name__, "params for step()", "an optimiser made without",
                hint="call optimizer(loss) instead, or give params= to the constructor",
            )  # fmt: skip
        pairs = [(p, p.grad) for p in self.params]
        self._apply(((p, g) for p, g in pairs if g is not None), None)

    def zero_grad(self) -> None:
        """Forget the gradients of the parameters given to the constructor."""
        for param in self.params or ():
            param.grad = None

    def _apply(self, pairs: Iterator[tuple[Tensor, Tensor]], loss: Tensor | None) -> None:
        shared: Any = None
        recorder = MODE.get().recorder
        if recorder is not None:
            recorder.meet(self)
        known = None if self.params is None else {id(p) for p in self.params}
        for param, grad in pairs:
            if known is not None and id(param) not in known:
                continue
            with no_grad():
                if (
                    shared is None
                ):  # after the walk's own checks: a loss without a path counts no step
                    self.steps.advance()
                    shared = self.prepare(param.device)
                self.update(param, grad, shared)
            del param, grad
        if shared is None and loss is not None:
            raise GradientError(
                type(self).__name__, "a loss that depends on a parameter", "none", loss=loss
            )

    # -- state -------------------------------------------------------------------------------------

    def slot(self, param: Tensor, name: str) -> Tensor:
        """The state tensor `name` of a parameter: zeros of its shape at first."""
        held = self._slots.get(id(param))
        if held is None:
            held = self._slots[id(param)] = (param, {})
        if name not in held[1]:
            with execute_once():
                held[1][name] = ops.zeros(param.shape, dtype=param.dtype, device=param.device)
        return held[1][name]

    def get_states(self, names: Mapping[str, Tensor]) -> dict[str, Any]:
        """State as `{slot}.{param path}` -> tensor, and the step count.

        `names`: the model's get_params().
        """
        paths = {id(param): name for name, param in names.items()}
        states: dict[str, Any] = {"steps": self.steps.value}
        for key, (_, slots) in self._slots.items():
            states.update(
                {f"{slot}.{paths[key]}": value for slot, value in slots.items() if key in paths}
            )
        return states

    def set_states(self, states: Mapping[str, Any], names: Mapping[str, Tensor]) -> None:
        """Restore what `get_states` gave. Raises: ArgumentError for a path that `names` lacks."""
        entries = [
            (key, *key.partition(".")[::2], value)
            for key, value in states.items()
            if key != "steps"
        ]
        unknown = [key for key, _, path, _ in entries if path not in names]
        if unknown:
            raise ArgumentError(
                type(self).__name__, "states of known parameters", ", ".join(unknown)
            )
        for _, slot, path, value in entries:
            host = value.numpy() if isinstance(value, Tensor) else value
            self.slot(names[path], slot).assign(host)
        self.steps.value = int(states.get("steps", self.steps.value))

    def fingerprint(self) -> Hashable:
        """Hyperparameters that are part of a recording."""
        plain = {k: v for k, v in self.__dict__.items() if isinstance(v, bool | int | float | str)}
        return tuple(plain.items())
