"""NaNGuard: where the first number came from that was none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from singa_core import ops
from singa_core.arguments import outline
from singa_core.callbacks.base import Callback
from singa_core.errors import SingaError
from singa_core.io.names import attributes
from singa_core.layer import Layer
from singa_core.mode import no_grad
from singa_core.opt.optimizer import Optimizer
from singa_core.random import restore_streams, stream_states
from singa_core.scalars import Counter
from singa_core.summary import observed, undecided
from singa_core.tensor import Tensor

if TYPE_CHECKING:
    from singa_core.training import Training


class NaNFound(SingaError, ArithmeticError):
    """A step gave a loss or a parameter that is not finite."""


class NaNGuard(Callback):
    """End the training at the first step that gives NaN or infinity, and say where that began.

    The step is made again from the state before it, eagerly and layer by layer; the first tensor
    that is not finite is named: an item of the batch, a layer's output, the loss, a gradient on the
    way back, or a parameter's update. The model, its optimisers and the random streams are left as
    they were before the step.

    It costs a look at the loss and all state after each step, and a copy of all state.

    Raises: NaNFound, out of `fit`.
    """

    def on_epoch_begin(self, training: Training) -> None:
        self._before = _Moment(training.model)

    def on_step_end(self, training: Training) -> None:
        if _is_finite(training.loss) and _all_finite(training.model):
            self._before = _Moment(training.model)
            return
        loss = float(training.loss)
        beside = " and parameters that are not" if math.isfinite(loss) else ""
        self._before.come_back()
        found = _Search(training).run()
        self._before.come_back()
        raise NaNFound(
            f"NaNGuard: needs finite numbers, got a loss of {loss}{beside} "
            f"in epoch {training.epoch + 1}, batch {training.batch}\n"
            f"  it begins with {found}\n"
            "  the model is as it was before that step\n"
            "try: a lower learning rate, clip_by_norm, or a look at the data"
        )


class _Moment:
    """All state of a model at some time: values cannot change, so this holds them only."""

    def __init__(self, model: Layer) -> None:
        self.model = model
        self.take_back = undecided(model)
        states = model.get_states()
        self.cells = {n: cell.detach() for n, cell in states.items() if cell.materialized}
        optimizers = attributes(model, Optimizer)  # type: ignore[type-abstract]
        self.slots = [(opt, _held(opt, model)) for opt in optimizers.values()]
        self.counts = [(counter, counter.value) for counter in attributes(model, Counter).values()]
        self.streams = stream_states()

    def come_back(self) -> None:
        """Make it so again."""
        cells = self.model.get_states()
        for name, value in self.cells.items():
            cells[name].assign(value)
        self.take_back()
        for optimizer, states in self.slots:
            optimizer.set_states(states, self.model.get_params())
        for counter, count in self.counts:
            counter.value = count
        restore_streams(self.streams)


def _held(optimizer: Optimizer, model: Layer) -> dict[str, Any]:
    states = optimizer.get_states(model.get_params())
    return {k: v.detach() if isinstance(v, Tensor) else v for k, v in states.items()}


class _Found(BaseException):
    """Ends the repeated step. No Exception, so that nobody on the way takes it for theirs."""


class _Search:
    """The step once more, with an eye on every tensor."""

    def __init__(self, training: Training) -> None:
        self.model, self.data = training.model, training.data
        self.came_from: str | None = None  # the layer of the last gradient that was finite
        self.watched: list[tuple[Any, int]] = []  # values; a layer's may be its container's too

    def run(self) -> str:
        """What the first tensor is that is not finite."""
        args, options = self.data
        for name, item in [*enumerate(args), *options.items()]:
            if isinstance(item, Tensor) and not _is_finite(item):
                return f"item {name!r} of the batch: {_count(item)}"
        for name, cell in self.model.get_states().items():
            if cell.materialized and not _is_finite(cell):
                return f"{name!r}, before the step: {_count(cell)}"
        graphs, remove = self.model._graphs, self._watch_parameters()
        object.__setattr__(self.model, "_graphs", None)
        try:
            with observed(self.model, self._see):
                self.model.train_one_batch(*args, **options)
        except _Found as found:
            return str(found)
        finally:
            object.__setattr__(self.model, "_graphs", graphs)
            for function in remove:
                function()
        for name, cell in self.model.get_states().items():
            if not _is_finite(cell):
                return f"the update of {name!r}, whose gradient is finite: {_count(cell)}"
        return "the loss: the outputs of all layers and all gradients are finite"

    def _watch_parameters(self) -> list[Callable[[], None]]:
        params = self.model.get_params().items()
        return [
            cell.register_hook(self._watcher(f"the gradient of {name!r}"))
            for name, cell in params
            if cell.materialized and cell.requires_grad
        ]

    def _see(self, path: str, layer: Layer, inputs: Any, made: Any) -> None:
        """A layer was called."""
        name = f"{path or 'the model'} ({type(layer).__name__})"

        def look(leaf: Any) -> None:
            if not isinstance(leaf, Tensor):
                return
            if not _is_finite(leaf):
                raise _Found(f"the output of {name}: {_count(leaf)}; {_told(layer, inputs)}")
            value = leaf.node, leaf.index
            if leaf.requires_grad and value not in self.watched:
                self.watched.append(value)
                leaf.register_hook(self._watcher(f"the gradient of the output of {name}", name))

        outline(made, look)

    def _watcher(self, what: str, layer: str | None = None) -> Callable[[Tensor], None]:
        def look(grad: Tensor) -> None:
            if _is_finite(grad):
                self.came_from = layer or self.came_from
            elif self.came_from is None:
                raise _Found(f"the loss, or its gradient: the outputs of all layers are finite, "
                             f"{what} is not")  # fmt: skip
            else:
                raise _Found(f"{what}, on the way back from {self.came_from}: {_count(grad)}")

        return look


def _is_finite(x: Any) -> bool:
    if not isinstance(x, Tensor):
        return math.isfinite(x)
    if not x.dtype.is_floating:
        return True
    with no_grad():
        return bool(ops.isfinite(x.detach()).all())


def _all_finite(model: Layer) -> bool:
    """One look at all state."""
    found: Tensor | None = None
    with no_grad():
        for cell in model.get_states().values():
            if cell.dtype.is_floating and cell.materialized:
                fine = ops.isfinite(cell.detach()).all()
                found = fine if found is None else ops.logical_and(found, fine)
    return found is None or bool(found)


def _count(x: Tensor) -> str:
    host = x.detach().numpy().astype(np.float64)
    nans, infinities = int(np.isnan(host).sum()), int(np.isinf(host).sum())
    return f"{nans} NaN and {infinities} infinite among {host.size}"


def _told(layer: Layer, inputs: Any) -> str:
    """The ranges of what went into a layer."""
    ranges = [f"input {_range(x)}" for x in inputs if isinstance(x, Tensor)]
    ranges += [f"{name} {_range(cell)}" for name, cell in layer._own()]
    return ", ".join(ranges)


def _range(x: Tensor) -> str:
    host = x.detach().numpy().astype(np.float64)
    return f"{host.min():.4g} to {host.max():.4g}" if host.size else "of no numbers"
