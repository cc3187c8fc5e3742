"""`evaluate` and `predict`, over any model and any loader; `training` says what a loader is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from singa_core.arguments import outline
from singa_core.data.batches import (
    ARRAYS,
    INPUTS,
    arguments,
    batches_of,
    call,
    joined,
    on_device,
    samples,
    split,
)
from singa_core.data.loader import ArrayLoader
from singa_core.device import Device
from singa_core.errors import ArgumentError
from singa_core.metric import Metric, Metrics, RunningLoss, named, value_of
from singa_core.mode import no_grad
from singa_core.model import Model, check_function
from singa_core.tensor import Tensor, as_device


def evaluate(
    model: Model,
    loader: Iterable[Any],
    *,
    metrics: Metrics = (),
    device: Device | str | None = None,
) -> dict[str, float]:
    """Mean loss and metrics of a model over the batches of a loader, in evaluation mode.

    The model gets all items of a batch but the last, which is the target; `model.loss` is used if
    there is one.

    Raises: LoaderFailed if the loader raises; ArgumentError for a loader without batches, batches
        that `forward` does not take, and where there is neither a loss nor a metric.
    """
    found = deepcopy(named(metrics))
    check_measurable("evaluate", model, found)
    for metric in found.values():
        metric.reset()
    loss, where = RunningLoss(), home_of(model, device)
    with in_mode(model, training=False), no_grad():
        for batch in batches_of("evaluate", loader):
            args, options, target = split(on_device(batch, where))
            output = call("evaluate", model, model.forward, (args, options), ARRAYS)
            if model.loss is not None:
                loss.update(model.loss(output, target), samples(batch))
            for metric in found.values():
                metric.update(output, target)
    means = {"loss": loss.result()} if model.loss is not None else {}
    return means | {name: value_of(name, metric) for name, metric in found.items()}


def predict(
    model: Model,
    data: Any,
    *,
    batch_size: int = 256,
    device: Device | str | None = None,
) -> Any:
    """The model's outputs for all samples, as host arrays, in evaluation mode.

    Args:
        model: what to call.
        data: an array or tensor, which is cut into batches, or a loader, all of whose items are
            inputs.
        batch_size: samples in a batch, where `data` is an array.
        device: where to compute; by default where the model is.

    Shapes: batches are joined along their first axis; tuples, lists and dicts stay what they are.
    """
    if isinstance(data, Tensor | np.ndarray):
        data = ArrayLoader(data, batch_size=batch_size, shuffle=False)
    parts, where = [], home_of(model, device)
    with in_mode(model, training=False), no_grad():
        for batch in batches_of("predict", data):
            inputs = arguments(on_device(batch, where))
            made = call("predict", model, model.forward, inputs, INPUTS)
            parts.append(outline(made, lambda x: x.numpy().copy() if isinstance(x, Tensor) else x))
    return joined(parts)


def check_measurable(where: str, model: Model, metrics: Mapping[str, Metric]) -> None:
    """Raises: ArgumentError where an evaluation would tell nothing, or has no function as loss."""
    if model.loss is None and not metrics:
        raise ArgumentError(
            where, "a loss or metrics", "neither",
            hint="model.loss = a function of (output, target), or metrics=[...]",
        )  # fmt: skip
    if model.loss is not None:
        check_function(model, "loss", model.loss)


def home_of(model: Model, device: Device | str | None) -> Device:
    """Where to compute: by default where the model is."""
    return model._where() if device is None else as_device(device)


@contextmanager
def in_mode(model: Model, *, training: bool) -> Iterator[None]:
    """Training or evaluation mode; each layer is put back into its own after.

    A model that is in training mode keeps its layers' own modes: some may be frozen on purpose.
    """
    modes = [(layer, layer.training) for layer in model.layers()]
    if not (training and model.training):
        model.train(training)
    try:
        yield
    finally:
        for layer, mode in modes:
            if layer.training != mode:
                layer.training = mode
