"""Metrics, counted by hand."""

import math

import numpy as np
import pytest

from singa_core.errors import ArgumentError, ShapeError
from singa_core.metric import Accuracy, Mean, accuracy

SCORES = [[0.1, 0.7, 0.2], [0.9, 0.0, 0.1], [0.2, 0.3, 0.5], [0.4, 0.4, 0.2]]  # 1, 0, 2, 0


@pytest.mark.parametrize(
    ("predictions", "labels", "wanted"),
    [
        (SCORES, [1, 0, 0, 0], 0.75),
        (SCORES, [1, 0, 2, 1], 0.75),  # of equal scores the first counts
        ([1, 0, 2, 0], [1, 0, 2, 0], 1.0),
        ([1, 0, 2, 0], [0, 1, 1, 1], 0.0),
        (SCORES, np.eye(3)[[1, 0, 0, 0]], 0.75),
        ([1, 0, 2, 0], np.eye(3)[[1, 1, 1, 0]], 0.5),
        ([[math.inf, 0.0]], [0], 1.0),
    ],
)
def test_accuracy(predictions, labels, wanted):
    assert accuracy(predictions, labels) == wanted
    assert accuracy(np.array(predictions), np.array(labels)) == wanted


def test_accuracy_of_tensors(array):
    assert accuracy(array(SCORES), array([1, 0, 0, 0])) == 0.75
    assert accuracy(array(SCORES), np.array([1, 0, 0, 0], np.uint8)) == 0.75


def test_accuracy_over_batches_counts_samples_not_batches():
    running = Accuracy()
    running.update(SCORES, [1, 0, 0, 0])
    running.update([5], [4])
    assert running.result() == 3 / 5
    running.reset()
    running.update([5], [5])
    assert running.result() == 1


@pytest.mark.parametrize(
    ("predictions", "labels", "message"),
    [
        (
            SCORES,
            [1, 0],
            "accuracy: needs as many predictions as labels, and some, got 4 predictions, 2 labels\n"
            r"  predictions: float64 \(4, 3\) cpu\n  labels: int64 \(2,\) cpu$",
        ),
        ([], [], "got 0 predictions, 0 labels"),
        (np.zeros((2, 2, 2)), [0, 0], r"needs shapes \(n,\) or \(n, classes\), got 3 and 1 axes"),
        (1, 1, "got 0 and 0 axes"),
        (SCORES, np.eye(4), "needs as many classes in both, got 3 and 4"),
        (np.zeros((2, 0)), [0, 0], "needs at least one class, got 0"),
    ],
)
def test_accuracy_refuses(predictions, labels, message):
    with pytest.raises(ShapeError, match=message):
        accuracy(predictions, labels)


def test_a_refused_batch_is_not_counted():
    running = Accuracy()
    running.update([1], [1])
    with pytest.raises(ShapeError):
        running.update([1, 2], [1])
    assert running.result() == 1


def test_mean(array):
    mean = Mean()
    mean.update(1)
    mean.update(array(4.0), weight=2)
    mean.update(np.array([[7.0]]), weight=3)
    mean.update(100, weight=0)
    assert mean.result() == (1 + 8 + 21) / 6
    mean.reset()
    mean.update(2)
    assert mean.result() == 2


def test_mean_refuses():
    mean = Mean()
    mean.update(1)
    with pytest.raises(ShapeError, match=r"^Mean: needs one number, got \(2,\)$"):
        mean.update([1, 2])
    with pytest.raises(ArgumentError, match=r"^Mean: needs weight >= 0, got -1$"):
        mean.update(1, weight=-1)
    assert mean.result() == 1


@pytest.mark.parametrize("metric", [Mean, Accuracy])
def test_no_result_of_nothing(metric):
    with pytest.raises(ArgumentError, match=f"^{metric.__name__}: needs an update before result"):
        metric().result()
