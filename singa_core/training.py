"""Training loops: `fit`, over any model and any iterable of batches.

A *loader* is whatever can be looped over once for each epoch: an `ArrayLoader`, a list of batches,
a loader of another library. A batch is a tuple or list (the positional arguments of
`train_one_batch`), a dict (its keyword arguments), or one array; the last item of a batch is the
target that metrics compare with. If a loader has `state()` and `restore(state)`, its place is part
of a checkpoint; else a training that is resumed in mid-epoch passes over as many batches.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any

from singa_core.callbacks.base import Callback
from singa_core.callbacks.packs import PackEvents
from singa_core.callbacks.show import ProgressBar
from singa_core.checks import check_integer
from singa_core.data.batches import (
    ARRAYS,
    LoaderFailed,
    arguments,
    batches_of,
    call,
    losses_in,
    on_device,
    output_in,
    samples,
    split,
)
from singa_core.device import Device
from singa_core.errors import ArgumentError
from singa_core.evaluation import check_measurable, evaluate, home_of, in_mode
from singa_core.interrupts import Interrupts
from singa_core.metric import Metric, Metrics, RunningLoss, named, value_of
from singa_core.mode import no_grad
from singa_core.opt.optimizer import Optimizer
from singa_core.plugins import packs
from singa_core.tensor import Tensor

if TYPE_CHECKING:
    from singa_core.model import Model

Row = dict[str, Any]


class History:
    """What the epochs of a training gave: `history["loss"]` is a list with a number for each.

    Attributes:
        rows: a dict for each epoch: `epoch` (from 1), `loss`, metrics, the same of the validation
            with `val_` before them, `lr`, `ms_per_step`.
        interrupted: True if the training was left in mid-epoch.
        stopped: why a callback ended the training, or None.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.interrupted = False
        self.stopped: str | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> list[Any]:
        found = [row[name] for row in self.rows if name in row]
        if not found:
            known = ", ".join(dict.fromkeys(key for row in self.rows for key in row))
            raise KeyError(f"{name!r}: needs one of {known or 'nothing, since no epoch is over'}")
        return found

    def __repr__(self) -> str:
        return f"<History of {len(self.rows)} epochs>"


def fit(
    model: Model,
    loader: Iterable[Any],
    epochs: int,
    *,
    validation: Iterable[Any] | None = None,
    metrics: Metrics = (),
    callbacks: Sequence[Callback] = (),
    device: Device | str | None = None,
    progress: bool = True,
) -> History:
    """Train a model, calling its `train_one_batch` with each batch of each epoch.

    Losses stay on the device and are read when an epoch ends, unless a callback asks earlier. What
    `train_one_batch` returns may be (output, ..., loss), a loss, or a dict, whose 0-d tensors are
    all averaged and whose `output` is for metrics.

    An interrupt (Ctrl-C) waits for the end of the step, lets callbacks save, and `fit` returns; a
    second one does not wait.

    Args:
        model: compiled, or else all runs eagerly.
        loader: gives the batches of an epoch each time it is looped over.
        epochs: how many in all, those before a `Checkpoint(..., resume=True)` included.
        validation: a loader for `evaluate` after each epoch.
        metrics: objects with `update(predictions, labels)`, such as `Accuracy()`, or a dict of
            them.
        callbacks: asked in their order; see `singa_core.callbacks`.
        device: where to train; by default where the model is.
        progress: show a bar on a terminal, and a line for each epoch.

    Raises:
        LoaderFailed: if the loader raises; callbacks may save before.
        ArgumentError: for a loader without batches, batches that `train_one_batch` does not take,
            or steps that give no loss; before the first step for a `validation` of a model with
            neither `loss` nor metrics.
    """
    check_integer("fit", "epochs", epochs, 0)
    if device is not None:
        model.to(device)
    listeners = _listeners(callbacks, progress)
    judges = named(metrics)
    if validation is not None:
        check_measurable("fit, validation", model, judges)
    training = Training(model, loader, epochs, validation, judges, listeners)
    with in_mode(model, training=True):
        return training.run()


def _listeners(callbacks: Sequence[Callback], progress: bool) -> list[Callback]:
    """Who is told of a training's events. Raises: ArgumentError for what is no callback."""
    if not isinstance(callbacks, list | tuple):
        raise ArgumentError("fit", "a list of callbacks", repr(callbacks))
    listeners = list(callbacks)
    for callback in listeners:
        if not isinstance(callback, Callback):
            raise ArgumentError("fit", "callbacks", f"a {type(callback).__name__} among them")
    if progress and not any(isinstance(callback, ProgressBar) for callback in listeners):
        listeners.append(ProgressBar())
    if packs.listen():
        listeners.append(PackEvents())
    return listeners


# -- a training under way --------------------------------------------------------------------------


class Training:
    """A `fit` under way, as callbacks see it.

    Attributes:
        model: what is trained.
        loader: where batches come from.
        epochs: how many in all.
        epoch: epochs that are complete.
        batch: steps that are complete in the epoch under way.
        steps: steps that are complete in all.
        batches: steps in an epoch, None if the loader does not say.
        data: arguments of the last step, on the device.
        loss: the last step's loss, on the device.
        history: rows of the complete epochs.
        failure: what ends the training early, None while all is well.
        in_step: True while parameters may be half new.
    """

    def __init__(
        self,
        model: Model,
        loader: Iterable[Any],
        epochs: int,
        validation: Iterable[Any] | None,
        metrics: dict[str, Metric],
        callbacks: Sequence[Callback],
    ) -> None:
        self.model, self.loader, self.epochs = model, loader, epochs
        self.validation, self.metrics = validation, metrics
        self.callbacks = sorted(callbacks, key=lambda callback: callback.last)
        self.epoch = self.batch = self.steps = 0
        self.batches = len(loader) if isinstance(loader, Sized) else None
        self.data: tuple[Sequence[Any], Mapping[str, Any]] = ((), {})
        self.loss: Any = None
        self.history = History()
        self.failure: BaseException | None = None
        self.in_step = False
        self.device = home_of(model, None)
        self._losses: dict[str, RunningLoss] = {}
        self._interrupts = Interrupts()
        self._skip = 0
        self._places = {"loader": _place(loader), "validation": _place(validation)}
        for metric in metrics.values():
            metric.reset()

    @property
    def finished(self) -> bool:
        """True once no more epoch is to come."""
        return self.epoch >= self.epochs or self.history.stopped is not None

    def stop(self, reason: str) -> None:
        """End the training after this epoch."""
        self.history.stopped = self.history.stopped or reason

    def so_far(self) -> dict[str, float]:
        """Means and metrics of the epoch under way; reads them from the device."""
        found = {name: loss.result() for name, loss in self._losses.items()}
        return found | {name: value_of(name, metric) for name, metric in self.metrics.items()}

    def tell(self, event: str) -> None:
        """Call `event` of every callback."""
        for callback in self.callbacks:
            getattr(callback, event)(self)

    # -- running -----------------------------------------------------------------------------------

    def run(self) -> History:
        """All epochs that are still to come."""
        try:
            with self._interrupts:
                self.tell("on_setup")
                self.tell("on_train_begin")
                while not self.finished:
                    self._run_epoch()
        except KeyboardInterrupt as interrupt:
            self.failure, self.history.interrupted = interrupt, True
            self.tell("on_interrupted")
        except LoaderFailed as failure:
            self.failure = failure
            self.tell("on_interrupted")
            raise
        except BaseException as failure:
            self.failure = failure
            raise
        finally:
            self.tell("on_train_end")
        return self.history

    def _run_epoch(self) -> None:
        self.tell("on_epoch_begin")
        start, first = time.perf_counter(), self.batch
        if not self.batch or self.batch != self.batches:  # else it was left after its last step
            name = f"fit, epoch {self.epoch + 1}"
            for batch in batches_of(name, self.loader, self.batch, self._skip):
                self._step(batch)
        self._skip = 0
        row: Row = {"epoch": self.epoch + 1, **self.so_far()}  # reading waits for the device
        spent = (time.perf_counter() - start) / max(self.batch - first, 1)
        if self.validation is not None:
            found = evaluate(self.model, self.validation, metrics=self.metrics)
            row |= {f"val_{name}": value for name, value in found.items()}
        if isinstance(self.model.optimizer, Optimizer):
            row["lr"] = self.model.optimizer.lr
        row["ms_per_step"] = spent * 1e3
        with self._interrupts.held():
            self._end_epoch(row)

    def _end_epoch(self, row: Row) -> None:
        self.history.rows.append(row)
        self.epoch, self.batch, self._losses = self.epoch + 1, 0, {}
        for metric in self.metrics.values():
            metric.reset()
        self._places["validation"] = _place(self.validation)
        self.tell("on_epoch_end")

    def _step(self, batch: Any) -> None:
        with self._interrupts.held():
            try:
                batch = on_device(batch, self.device)
                self.data = arguments(batch)
                self.in_step = True
                step = self.model.train_one_batch
                result = call("fit", step, step, self.data, ARRAYS)
                self.in_step = False
                self._count(result, batch)
            except Exception as error:
                error.add_note(f"  in epoch {self.epoch + 1}, batch {self.batch + 1} of fit")
                raise
            self.tell("on_step_end")

    def _count(self, result: Any, batch: Any) -> None:
        """Take note of what a step gave."""
        weight, losses = samples(batch), losses_in(result)
        for name, value in losses.items():
            value = value.detach() if isinstance(value, Tensor) else value
            self._losses.setdefault(name, RunningLoss()).update(value, weight)
        self.loss = losses.get("loss", next(iter(losses.values())))
        if self.metrics:
            output, (_, _, target) = output_in(result), split(batch)
            with no_grad():
                for metric in self.metrics.values():
                    metric.update(output, target)
        self.batch, self.steps = self.batch + 1, self.steps + 1
        self._places["loader"] = _place(self.loader)

    # -- for checkpoints ---------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Where this training is, as JSON; the model's own state is apart."""
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "steps": self.steps,
            "stopped": self.history.stopped,
            "history": self.history.rows,
            "losses": {name: loss.state() for name, loss in self._losses.items()},
            "metrics": {name: metric.state() for name, metric in self.metrics.items()},
            "callbacks": {name: c.state() for name, c in self._callbacks_by_name()},
            **self._places,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state()` was taken. Raises: ArgumentError if the loader is another one."""
        loaders: dict[str, Any] = {"loader": self.loader, "validation": self.validation}
        for name, loader in loaders.items():
            place = state[name]
            if place is not None and hasattr(loader, "restore"):
                loader.restore(place)
                self._places[name] = place
        self.epoch, self.batch, self.steps = state["epoch"], state["batch"], state["steps"]
        self._skip = 0 if hasattr(self.loader, "restore") else self.batch
        self.history.rows = [dict(row) for row in state["history"]]
        self.history.stopped = state["stopped"]
        self._losses = {name: RunningLoss() for name in state["losses"]}
        for name, loss in self._losses.items():
            loss.restore(state["losses"][name])
        for name, metric in self.metrics.items():
            if name in state["metrics"]:
                metric.restore(state["metrics"][name])
        for name, callback in self._callbacks_by_name():
            callback.restore(state["callbacks"].get(name, {}))

    def _callbacks_by_name(self) -> Iterator[tuple[str, Callback]]:
        """Each under its class and its number among those."""
        seen: dict[str, int] = {}
        for callback in self.callbacks:
            kind = type(callback).__name__
            seen[kind] = seen.get(kind, 0) + 1
            yield f"{kind} {seen[kind]}", callback


def _place(loader: Any) -> Any:
    """Where a loader is, as JSON; None if it does not say."""
    return loader.state() if hasattr(loader, "state") and hasattr(loader, "restore") else None
