"""Numbers that tell how well a model does: functions of host arrays, and running values of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from singa_core.errors import ArgumentError, ShapeError


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
    right = _hits(predictions, labels)
    return float(np.count_nonzero(right) / right.size)


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
        if not weight >= 0.0:
            raise ArgumentError("Mean", "weight >= 0", weight)
        number = np.asarray(value)
        if number.size != 1:
            raise ShapeError("Mean", "one number", number.shape)
        self._sum += float(number.reshape(())) * weight
        self._weight += weight

    def result(self) -> float:
        """The mean so far. Raises: ArgumentError before anything was added."""
        if not self._weight:
            raise ArgumentError("Mean", "an update before result()", "none")
        return self._sum / self._weight


class Accuracy:
    """Running accuracy over batches of any sizes.

    >>> share = Accuracy()
    >>> share.update([1, 1], [1, 0])
    >>> share.update([2, 2, 2, 2, 2, 2], [2, 2, 2, 2, 2, 2])
    >>> share.result()
    0.875
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._right = 0
        self._samples = 0

    def update(self, predictions: Any, labels: Any) -> None:
        """Add a batch. Shapes, Raises: as `accuracy`."""
        right = _hits(predictions, labels)
        self._right += int(np.count_nonzero(right))
        self._samples += right.size

    def result(self) -> float:
        """The accuracy so far. Raises: ArgumentError before anything was added."""
        if not self._samples:
            raise ArgumentError("Accuracy", "an update before result()", "none")
        return self._right / self._samples


def _hits(predictions: Any, labels: Any) -> npt.NDArray[np.bool_]:
    """For each sample, whether it is right."""
    given, wanted = np.asarray(predictions), np.asarray(labels)
    operands: dict[str, Any] = {"predictions": given, "labels": wanted}
    if given.ndim not in (1, 2) or wanted.ndim not in (1, 2):
        got = f"{given.ndim} and {wanted.ndim} axes"
        raise ShapeError("accuracy", "shapes (n,) or (n, classes)", got, **operands)
    if len(given) != len(wanted) or not len(given):
        got = f"{len(given)} predictions, {len(wanted)} labels"
        raise ShapeError("accuracy", "as many predictions as labels, and some", got, **operands)
    if given.shape[1:] != wanted.shape[1:] and given.ndim == wanted.ndim:
        got = f"{given.shape[1]} and {wanted.shape[1]}"
        raise ShapeError("accuracy", "as many classes in both", got, **operands)
    hits: npt.NDArray[np.bool_] = _classes(given, operands) == _classes(wanted, operands)
    return hits


def _classes(values: npt.NDArray[Any], operands: dict[str, Any]) -> npt.NDArray[Any]:
    if values.ndim == 1:
        return values
    if not values.shape[1]:
        raise ShapeError("accuracy", "at least one class", 0, **operands)
    highest: npt.NDArray[np.intp] = values.argmax(axis=1)
    return highest
