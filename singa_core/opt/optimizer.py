"""Optimizer: ordinary code over tensors, so that an update is recorded like anything else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from singa_core import ops
from singa_core.autograd import stream
from singa_core.checks import check_integer, check_number
from singa_core.errors import ArgumentError, GradientError, RecordingError, StateLost
from singa_core.fingerprint import print_value
from singa_core.host import user_line
from singa_core.mode import MODE, STRUCTURE, Mode, execute_once
from singa_core.operation import Bound
from singa_core.opt.clip import Pairs, clip_by_norm, clip_by_value
from singa_core.opt.schedule import Schedule, as_schedule
from singa_core.parameter import fitting
from singa_core.scalars import Counter, scalar
from singa_core.tensor import Tensor, tensor
from singa_core.watched import watched

Params = Iterable[Tensor] | Mapping[str, Tensor]


class Optimizer(ABC):
    """Base of optimisers.

    Two ways to use one: `optimizer(loss)` runs backward and updates every parameter as soon as its
    gradient is complete (lowest memory); or `loss.backward()` and then `optimizer.step()`, with the
    parameters given to the constructor.

    Args:
        lr: learning rate >= 0, or a schedule: a function of the step number, counted from 0. May
            be set at any time; recorded graphs read it at each replay.
        params: what it works on, `model.get_params()` or some of it; by default every leaf that a
            loss depends on and that requires a gradient. `step` and `zero_grad` need it.

    Class attributes:
        slots: names of the state tensors that each parameter has, for `set_states`.

    Attributes:
        clip_value, clip_norm: bounds of gradients, None for none; see `clip_by_value` and
            `clip_by_norm`, which waits for all gradients before the first update.
    """

    clip_value: float | None = None
    clip_norm: float | None = None
    slots: ClassVar[tuple[str, ...]] = ()

    def __init__(self, lr: float | Schedule, params: Params | None = None) -> None:
        self._schedule = as_schedule(lr)
        self.params = params
        self.steps = Counter()
        self._slots: dict[Tensor, dict[str, Tensor]] = {}  # a tensor is a key by identity

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in cls.__dict__:
            cls.__init__ = rate_first(cls.__init__)  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, watched(value))
        self.__dict__.pop("_rule", None)
        if name not in _UNPRINTED:
            STRUCTURE.changed()

    @property
    def params(self) -> list[Tensor] | None:
        """What it works on, each once; None for every leaf that a loss depends on. Settable."""
        return self._params

    @params.setter
    def params(self, params: Params | None) -> None:
        self._params = None if params is None else listed(type(self).__name__, params)

    @property
    def lr(self) -> float:
        """The learning rate of the next step. Settable, but not by code that is recorded."""
        return float(self._schedule(self.steps.value))

    @lr.setter
    def lr(self, value: float | Schedule) -> None:
        if MODE.get().recorder is not None:
            raise RecordingError(
                "lr", "to be set outside of the recorded function", f"a change at {user_line()}",
                hint="give a schedule, lr=lambda step: ...",
            )  # fmt: skip
        self._schedule = as_schedule(value)

    @abstractmethod
    def update(self, param: Tensor, grad: Tensor, rate: Tensor) -> None:
        """Assign the parameter's next value, from its gradient and what `prepare` gave."""

    def rule(self) -> Bound:
        """The operation of `update` with the hyperparameters of now, for `settled_rule`."""
        raise NotImplementedError(f"{type(self).__name__} must define rule, or not ask for it")

    def settled_rule(self) -> Bound:
        """What `rule` gives, kept until an attribute is set."""
        kept: Bound | None = self.__dict__.get("_rule")
        if kept is None:
            kept = self.__dict__["_rule"] = self.rule()
        return kept

    def prepare(self, device: Any) -> Any:
        """What all updates of one step share, read once: the learning rate."""
        return scalar(self._rate, device=device)

    def _rate(self) -> float:
        rate = self._schedule(self.steps.value - 1)
        return check_number("schedule", "rate", rate, 0.0)

    # -- using it ----------------------------------------------------------------------------------

    def __call__(self, loss: Tensor, *, retain_graph: bool = False) -> None:
        """Backward from `loss`, updating each parameter as its gradient is complete.

        Raises: GradientError if the loss depends on no parameter; no step is counted then.
        """
        if not self._apply(stream(loss, retain_graph=retain_graph)):
            raise GradientError(
                type(self).__name__, "a loss that depends on a parameter", "none", loss=loss
            )

    backward_and_update = __call__

    def step(self) -> None:
        """Update the parameters of the constructor from their `.grad`; None is passed over.

        Raises: what a `.grad` that does not fit its parameter, or has no value, raises; nothing has
            changed then. StateLost if the step fails when some parameters are updated.
        """
        pairs = [(p, g) for p in self._own("step()") if (g := p.grad) is not None]
        for param, grad in pairs:
            param.fitting(f"{type(self).__name__}.step", grad)
            if MODE.get().recorder is None:
                grad._readable("step()")  # one without a value, or a lost one, is told here
        self._apply(iter(pairs))

    def zero_grad(self) -> None:
        """Forget the gradients of the parameters given to the constructor."""
        for param in self._own("zero_grad()"):
            param.grad = None

    def _own(self, where: str) -> list[Tensor]:
        if self.params is None:
            raise ArgumentError(
                type(self).__name__, f"params for {where}", "an optimiser made without",
                hint="call optimizer(loss) instead, or give params= to the constructor",
            )  # fmt: skip
        return self.params

    def _apply(self, pairs: Pairs) -> bool:
        """Update from (parameter, gradient) pairs; False if there were none."""
        recorder = MODE.get().recorder
        if recorder is not None:
            recorder.meet(self)
            return self._update_all(pairs, [])
        done: list[None] = []
        before = self.steps.moment()
        try:
            return self._update_all(pairs, done)
        except StateLost:
            raise
        except Exception as error:
            if done:
                raise StateLost(
                    f"{type(self).__name__}: the step failed when {len(done)} parameters were "
                    f"updated, the others were not\n  cause: {type(error).__name__}: {error}"
                ) from error
            self.steps.rewind(before)
            raise

    def _update_all(self, pairs: Pairs, done: list[None]) -> bool:
        """Update each; `done` grows by one for each that is new."""
        shared: Any = None
        before = MODE.get()
        untaped = Mode(False, before.recorder)
        for param, grad in self._clipped(pairs):
            try:  # no statement between: an interrupt must not leave the mode behind
                MODE.set(untaped)
                if shared is None:  # after the walk's checks: a loss without a path counts no step
                    self.steps.advance()
                    shared = self.prepare(param.device)
                self.update(param, grad, shared)
                done.append(None)
            finally:
                MODE.set(before)
            del param, grad
        return shared is not None

    def _clipped(self, pairs: Pairs) -> Pairs:
        """The pairs of its own parameters, with gradients within `clip_value` and `clip_norm`."""
        if self.params is not None:
            known = {id(p) for p in self.params}
            pairs = ((p, g) for p, g in pairs if id(p) in known)
        if self.clip_value is not None:
            pairs = clip_by_value(pairs, self.clip_value)
        return pairs if self.clip_norm is None else clip_by_norm(pairs, self.clip_norm)

    # -- state -------------------------------------------------------------------------------------

    def slot(self, param: Tensor, name: str) -> Tensor:
        """The state tensor `name` of a parameter: zeros of its shape at first.

        It follows the parameter to another device.
        """
        slots = self._slots.get(param)
        if slots is None:
            self._slots[param] = {}
            slots = self._slots[param]
        held, device = slots.get(name), param.device
        if held is not None and (held.array is None or held.array.storage.device is device):
            return held
        with execute_once():
            if held is None:
                held = ops.zeros(param.shape, dtype=param.dtype, device=device)
            slots[name] = held.to(device)
        return slots[name]

    def get_states(self, names: Mapping[str, Tensor]) -> dict[str, Any]:
        """State as `{slot}.{param path}` -> tensor, and the step count.

        `names`: the model's get_params().
        """
        paths = {id(param): name for name, param in names.items()}
        states: dict[str, Any] = {"steps": self.steps.value}
        for param, slots in self._slots.items():
            if id(param) in paths:
                states |= {f"{slot}.{paths[id(param)]}": value for slot, value in slots.items()}
        return states

    def set_states(self, states: Mapping[str, Any], names: Mapping[str, Tensor]) -> None:
        """Restore what `get_states` gave; state that is not named starts again, at zero.

        Raises: ArgumentError for a slot or a path that does not exist; ShapeError or DTypeError for
            values that do not fit. Nothing has changed then.
        """
        where = f"{type(self).__name__}.set_states"
        steps = check_integer(where, "steps", states.get("steps", self.steps.value), 0)
        ready = []
        for key, value in states.items():
            slot, _, path = key.partition(".")
            if key == "steps":
                continue
            if slot not in self.slots or path not in names:
                rule = f"names like {', '.join(f'{s}.<parameter>' for s in self.slots) or 'steps'}"
                raise ArgumentError(where, rule, repr(key))
            param = names[path]
            host = fitting(f"{where} {key!r}", value, param.shape, param.dtype)
            ready.append((param, slot, tensor(host, device=param.device)))
        for param in names.values():
            for held in self._slots.get(param, {}).values():
                held.assign(ops.zeros_like(held))
        for param, slot, given in ready:
            self.slot(param, slot).assign(given)
        self.steps.value = steps

    def fingerprint(self) -> Hashable:
        """Hyperparameters and parameters: what is part of a recording."""
        printed = [(k, print_value(v)) for k, v in self.__dict__.items() if k not in _UNPRINTED]
        return tuple(printed)


_UNPRINTED = frozenset({"_rule", "_schedule", "_slots"})  # a cache; read by each replay


def rate_first(init: Callable[..., None]) -> Callable[..., None]:
    """The constructor, which says what to do about parameters as the first argument."""

    @wraps(init)
    def __init__(self: Optimizer, *args: Any, **options: Any) -> None:
        try:
            init(self, *args, **options)
        except (TypeError, ArgumentError):
            if not args or not _are_parameters(args[0]):
                raise
            where, rule = type(self).__name__, "the learning rate first"
            hint = f"{where}(0.1, params=model.get_params())"
            raise ArgumentError(where, rule, "parameters", hint=hint) from None

    return __init__


def _are_parameters(given: Any) -> bool:
    try:
        return bool(listed("params", given))
    except ArgumentError:
        return False


def listed(where: str, params: Params) -> list[Tensor]:
    """The parameters, each once. Raises: ArgumentError for anything else, or none."""
    got = f"a {type(params).__name__}"
    if isinstance(params, Iterable) and not isinstance(params, Tensor | str | np.ndarray):
        items = list(params.values() if isinstance(params, Mapping) else params)
        others = sorted({type(item).__name__ for item in items if not isinstance(item, Tensor)})
        if items and not others:
            return list({id(item): item for item in items}.values())
        got = f"items of {', '.join(others)}" if others else "no items"
    rule, hint = "a list or dict of tensors as params", "params=model.get_params()"
    raise ArgumentError(where, rule, got, hint=hint)
