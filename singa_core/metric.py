"""Numbers that tell how well a model does: functions of host arrays, and running values of them.

Running values are fed with arrays or tensors. What tensors give stays on their device, as one
number for each batch, until somebody asks for the result: an `update` waits for no device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from singa_core import ops
from singa_core.checks import as_number, check_integer, check_number
from singa_core.dtype import as_dtype
from singa_core.errors import ArgumentError, ShapeError
from singa_core.host import host_data
from singa_core.tensor import Tensor, tensor

WAITING: Final = 1024  # numbers that stay on a device before they are read


def accuracy(predictions: Any, labels: Any) -> float:
    """Share of samples whose predicted class is the label.

    Shapes: predictions (n, classes), scores of which the highest counts (the first of equal ones),
        or (n,), class numbers; labels (n,), class numbers, or (n, classes), one-hot.

    Args:
        predictions: array or tensor.
        labels: array or tensor.

    Raises: ShapeError for other shapes, different n, or n = 0.

    >>> accuracy([[0.1, 0.9], [0.8, 0.2]], [1, 1])
    0.5
    """
    right = _hits(_host("accuracy", predictions), labels)
    return float(np.count_nonzero(right) / right.size)


def top_k_accuracy(predictions: Any, labels: Any, k: int = 5) -> float:
    """Share of samples whose label is among the k classes of highest score.

    Of equal scores the first counts as higher, so that k = 1 is `accuracy`.

    Shapes: predictions (n, classes), scores; labels (n,), class numbers, or (n, classes), one-hot.

    Args:
        predictions: array or tensor.
        labels: array or tensor, 0 <= label < classes.
        k: 1 <= k <= classes.

    Raises: ShapeError for other shapes, different n, or n = 0; ArgumentError for k out of range.

    >>> top_k_accuracy([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]], [2, 2], k=2)
    0.5
    """
    k = check_integer("top_k_accuracy", "k", k, 1)
    right = _high_hits(_host("top_k_accuracy", predictions), labels, k)
    return float(np.count_nonzero(right) / right.size)


class Metric(Protocol):
    """What `fit` and `evaluate` want of a metric.

    `state` and `restore` are for checkpoints in mid-epoch: plain numbers.
    """

    name: str

    def reset(self) -> None:
        """Forget everything."""

    def update(self, predictions: Any, labels: Any) -> None:
        """Add a batch."""

    def result(self) -> float:
        """The value so far."""

    def state(self) -> dict[str, float]:
        """All that was added, as numbers."""

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on where `state()` was taken."""


Metrics = Sequence[Metric] | Mapping[str, Metric]


class Mean:
    """Running weighted mean of numbers, such as the losses of batches.

    >>> loss = Mean()
    >>> loss.update(1.0, weight=3)
    >>> loss.update(5.0)
    >>> loss.result()
    2.0
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._sum = 0.0
        self._weight = 0.0

    def update(self, value: Any, weight: float = 1.0) -> None:
        """Add a number (or a tensor of one element) that counts `weight` >= 0 times.

        A last, shorter batch counts less: `update(loss, weight=len(x))`.
        """
        weight = check_number("Mean", "weight", weight, 0.0)
        self._add(value, weight)

    def _add(self, value: Any, weight: float) -> None:
        number = _host("Mean", value.tolist() if isinstance(value, Tensor) else value)
        if number.size != 1:
            raise ShapeError("Mean", "one number", number.shape)
        self._sum += float(number.reshape(())) * weight
        self._weight += weight

    def result(self) -> float:
        """The mean so far. Raises: ArgumentError before anything was added."""
        if not self._weight:
            raise ArgumentError(type(self).__name__, "an update before result()", "none")
        return self._sum / self._weight

    def state(self) -> dict[str, float]:
        """All that was added, as numbers."""
        return {"sum": self._sum, "weight": self._weight}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on where `state()` was taken."""
        self.reset()
        self._sum, self._weight = float(state["sum"]), float(state["weight"])


class RunningLoss(Mean):
    """Mean of losses that stay on their device until the result is asked for.

    The numbers are added up on the host, in float64 and in order, so that the mean does not depend
    on when it was asked for.

    >>> loss = RunningLoss()
    >>> loss.update(tensor(1.0), weight=3)
    >>> loss.update(tensor(5.0))
    >>> loss.result()
    2.0
    """

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._waiting: list[tuple[Any, float]] = []

    def _add(self, value: Any, weight: float) -> None:
        self._waiting.append((value, weight))
        if len(self._waiting) >= WAITING:
            self._settle()

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        for value, weight in waiting:
            super()._add(value, weight)

    def result(self) -> float:
        """The mean so far. Raises: ArgumentError before anything was added."""
        self._settle()
        return super().result()

    def state(self) -> dict[str, float]:
        """All that was added, as numbers."""
        self._settle()
        return super().state()


class Accuracy:
    """Running accuracy over batches of any sizes.

    >>> share = Accuracy()
    >>> share.update([1, 1], [1, 0])
    >>> share.update([2, 2, 2, 2, 2, 2], [2, 2, 2, 2, 2, 2])
    >>> share.result()
    0.875
    """

    name = "accuracy"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._right = 0
        self._samples = 0
        self._waiting: list[Any] = []  # counts that are still on a device

    def update(self, predictions: Any, labels: Any) -> None:
        """Add a batch. Shapes, Raises: as `accuracy`."""
        right = self._hits(predictions, labels)
        if isinstance(right, Tensor):
            self._waiting.append(right.astype("int32").sum())
        else:
            self._right += int(np.count_nonzero(right))
        self._samples += len(right)
        if len(self._waiting) >= WAITING:
            self._settle()

    def _hits(self, predictions: Any, labels: Any) -> Any:
        return _hits(predictions, labels)

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._right += sum(int(count) for count in waiting)

    def result(self) -> float:
        """The accuracy so far. Raises: ArgumentError before anything was added."""
        if not self._samples:
            raise ArgumentError(type(self).__name__, "an update before result()", "none")
        self._settle()
        return self._right / self._samples

    def state(self) -> dict[str, float]:
        """All that was added, as numbers."""
        self._settle()
        return {"right": self._right, "samples": self._samples}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on where `state()` was taken."""
        self.reset()
        self._right, self._samples = int(state["right"]), int(state["samples"])


class TopKAccuracy(Accuracy):
    """Running top-k accuracy over batches of any sizes.

    Args:
        k: how many classes of highest score may be right.

    >>> share = TopKAccuracy(k=2)
    >>> share.update([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]], [2, 2])
    >>> share.name, share.result()
    ('top_2_accuracy', 0.5)
    """

    def __init__(self, k: int = 5) -> None:
        self.k = check_integer("TopKAccuracy", "k", k, 1)
        self.name = f"top_{k}_accuracy"
        super().__init__()

    def _hits(self, predictions: Any, labels: Any) -> Any:
        return _high_hits(predictions, labels, self.k)


# -- metrics as fit and evaluate are given them ----------------------------------------------------

_METHODS: Final = ("reset", "update", "result", "state", "restore")


def named(metrics: Metrics) -> dict[str, Metric]:
    """Metrics by name. Raises: ArgumentError for anything else among them."""
    if not isinstance(metrics, list | tuple | Mapping):
        raise ArgumentError("metrics", "a list or dict of metrics", repr(metrics))
    for metric in metrics.values() if isinstance(metrics, Mapping) else metrics:
        if isinstance(metric, type) or not all(hasattr(metric, name) for name in _METHODS):
            hint = f"{metric.__name__}()" if isinstance(metric, type) else None
            rule = f"objects with the methods {', '.join(_METHODS)}"
            raise ArgumentError("metrics", rule, repr(metric), hint=hint)
    if isinstance(metrics, Mapping):
        return dict(metrics)
    nameless = [metric for metric in metrics if not hasattr(metric, "name")]
    if nameless:
        raise ArgumentError("metrics", "a name of each", repr(nameless[0]), hint="a dict of them")
    found = {metric.name: metric for metric in metrics}
    if len(found) != len(metrics):
        names = ", ".join(metric.name for metric in metrics)
        raise ArgumentError("metrics", "names that differ", names, hint="a dict of them")
    return found


def value_of(name: str, metric: Metric) -> float:
    """What a metric comes to, as Python's own number: it goes into histories and files."""
    result: Any = metric.result()
    value = as_number(result.item() if isinstance(result, Tensor) else result)
    if value is None:
        raise ArgumentError("metrics", f"a number as the result of {name!r}", repr(result))
    return value


# -- for each sample, whether it is right ----------------------------------------------------------


def _hits(predictions: Any, labels: Any) -> Any:
    """Where the highest class is the label: a tensor if the predictions are one."""
    given, wanted, _ = _checked("accuracy", predictions, labels)
    return _classes(given) == _classes(wanted)


def _high_hits(predictions: Any, labels: Any, k: int) -> Any:
    """Where less than k classes come before the label. A score of NaN, or no such class: never."""
    where = "top_k_accuracy"
    given, wanted, operands = _checked(where, predictions, labels)
    if given.ndim != 2:
        raise ShapeError(where, "scores of shape (n, classes)", given.shape, **operands)
    n, classes = given.shape
    if k > classes:
        raise ArgumentError(where, f"k <= {classes} classes", k)
    on_device = isinstance(given, Tensor)
    numbers: Any = np.arange(classes)
    numbers = tensor(numbers, device=given.device) if on_device else numbers
    label = _classes(wanted).reshape(n, 1)
    chosen = numbers == label  # (n, classes)
    select = ops.where if on_device else np.where
    own = select(chosen, given, 0).sum(axis=1).reshape(n, 1)
    before = (given > own) | ((given == own) & (numbers < label))
    real = chosen & (given == given)
    return (before.sum(axis=1) < k) & real.any(axis=1)


def _host(where: str, data: Any) -> Any:
    """An array or a tensor as a host array of numbers."""
    host = np.asarray(data) if isinstance(data, Tensor) else host_data(where, data)
    as_dtype(host.dtype, where)
    return host


def _checked(where: str, predictions: Any, labels: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Both as arrays, or both as tensors; their shapes fit. And both for error messages."""
    given: Any
    wanted: Any
    if isinstance(predictions, Tensor):
        given = predictions.detach()
        wanted = labels.detach() if isinstance(labels, Tensor) else _host(where, labels)
    else:
        given, wanted = _host(where, predictions), _host(where, labels)
    operands: dict[str, Any] = {"predictions": given, "labels": wanted}
    if given.ndim not in (1, 2) or wanted.ndim not in (1, 2):
        got = f"{given.ndim} and {wanted.ndim} axes"
        raise ShapeError(where, "shapes (n,) or (n, classes)", got, **operands)
    if len(given) != len(wanted) or not len(given):
        got = f"{len(given)} predictions, {len(wanted)} labels"
        raise ShapeError(where, "as many predictions as labels, and some", got, **operands)
    if given.shape[1:] != wanted.shape[1:] and given.ndim == wanted.ndim:
        got = f"{given.shape[1]} and {wanted.shape[1]}"
        raise ShapeError(where, "as many classes in both", got, **operands)
    if (0,) in (given.shape[1:], wanted.shape[1:]):
        raise ShapeError(where, "at least one class", 0, **operands)
    if isinstance(given, Tensor) and not isinstance(wanted, Tensor):
        wanted = tensor(wanted, device=given.device)
    return given, wanted, operands


def _classes(values: Any) -> Any:
    """Class numbers, of scores too."""
    if isinstance(values, Tensor) and not values.dtype.is_floating:
        values = values.astype("int64")  # no type of its own holds uint64 and int64 both
    return values if values.ndim == 1 else values.argmax(axis=1)
