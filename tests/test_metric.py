"""Metrics, counted by hand."""

import math

import numpy as np
import pytest

from singa_core.errors import ArgumentError, ShapeError
from singa_core.metric import (
    Accuracy,
    Mean,
    RunningLoss,
    TopKAccuracy,
    accuracy,
    top_k_accuracy,
)

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
    with pytest.raises(ArgumentError, match=r"^Mean: needs a number 0 <= weight < inf, got -1$"):
        mean.update(1, weight=-1)
    assert mean.result() == 1


@pytest.mark.parametrize("metric", [Mean, Accuracy, RunningLoss])
def test_no_result_of_nothing(metric):
    with pytest.raises(ArgumentError, match=f"^{metric.__name__}: needs an update before result"):
        metric().result()


# -- top k ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "k", "wanted"),
    [
        ([1, 0, 2, 0], 1, 1.0),
        ([2, 2, 1, 1], 1, 0.0),
        ([2, 2, 1, 1], 2, 1.0),
        ([0, 1, 0, 2], 2, 0.0),
        ([0, 1, 0, 2], 3, 1.0),
        (np.eye(3)[[2, 2, 0, 0]], 2, 0.75),
        (np.array([2, 0, 255, 0], np.uint8), 2, 0.75),  # no such class: as in accuracy, no hit
        (np.array([2, 0, 1, 0], np.uint64), 2, 1.0),
    ],
)
def test_top_k(array, labels, k, wanted):
    assert top_k_accuracy(SCORES, labels, k) == wanted
    running = TopKAccuracy(k)
    running.update(SCORES, labels)
    assert running.result() == wanted
    running = TopKAccuracy(k)
    running.update(array(SCORES), array(labels))
    running.update(array(SCORES), labels)
    assert running.result() == wanted
    assert running.name == f"top_{k}_accuracy"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_top_1_is_accuracy_with_ties_too(array, dtype):
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 4, (200, 5)).astype(dtype), rng.integers(0, 5, 200)
    wanted = accuracy(scores, labels)
    assert 0.1 < wanted < 0.4
    assert top_k_accuracy(scores, labels, 1) == wanted
    one, two = TopKAccuracy(1), Accuracy()
    for metric in (one, two):
        metric.update(array(scores), array(labels))
    assert one.result() == two.result() == wanted
    share = [top_k_accuracy(scores, labels, k) for k in range(1, 6)]
    assert share == sorted(share)
    assert share[-1] == 1.0


def test_what_is_not_a_number_is_not_right(array):
    scores = np.array([[math.nan, 1.0], [1.0, math.nan], [math.inf, 1.0]], np.float32)
    assert top_k_accuracy(scores, [0, 1, 0], 2) == 1 / 3
    running = TopKAccuracy(2)
    running.update(array(scores), array([0, 1, 0]))
    assert running.result() == 1 / 3


def test_top_k_refuses():
    with pytest.raises(ShapeError, match=r"^top_k_accuracy: needs scores of shape \(n, classes\)"):
        top_k_accuracy([1, 2], [1, 2], 1)
    with pytest.raises(ArgumentError, match="^top_k_accuracy: needs k <= 3 classes, got 4"):
        top_k_accuracy(SCORES, [0, 0, 0, 0], 4)
    for k in (0, 1.5, True):
        with pytest.raises(ArgumentError, match=f"an integer k >= 1, got {k}"):
            TopKAccuracy(k)
        with pytest.raises(ArgumentError, match=f"an integer k >= 1, got {k}"):
            top_k_accuracy(SCORES, [0, 0, 0, 0], k)


# -- on a device ----------------------------------------------------------------------------------


@pytest.fixture
def downloads(device, monkeypatch):
    """How often the device was read."""
    seen = []
    real = device.download
    monkeypatch.setattr(device, "download", lambda *args: seen.append(1) or real(*args))
    return seen


@pytest.mark.parametrize("metric", [Accuracy, lambda: TopKAccuracy(1)])
def test_an_update_does_not_wait_for_the_device(array, downloads, metric):
    running, scores, labels = metric(), array(SCORES), array([1, 0, 0, 0])
    for _ in range(5):
        running.update(scores, labels)
    assert downloads == []
    assert running.result() == 0.75
    assert running.result() == 0.75
    assert len(downloads) == 5
    running.update(scores, array([0, 1, 0, 1]))
    assert running.state() == {"right": 15, "samples": 24}


def test_a_running_loss_waits_for_its_result_only(array, downloads):
    loss = RunningLoss()
    for number in range(5):
        loss.update(array(float(number)), weight=2)
    assert downloads == []
    assert loss.result() == 2.0
    assert len(downloads) == 5
    loss.reset()
    loss.update(3)
    assert loss.result() == 3


def test_what_waits_on_a_device_is_bounded(array, downloads, monkeypatch):
    monkeypatch.setattr("singa_core.metric.WAITING", 3)
    loss, share = RunningLoss(), Accuracy()
    for _ in range(7):
        loss.update(array(1.0))
        share.update(array([1]), array([1]))
    assert len(downloads) == 12
    assert (loss.result(), share.result()) == (1.0, 1.0)


def test_a_running_loss_does_not_depend_on_when_it_was_asked_for():
    losses = np.random.default_rng(0).normal(size=50)
    one, two = RunningLoss(), RunningLoss()
    for i, number in enumerate(losses):
        one.update(number, weight=0.1)
        two.update(number, weight=0.1)
        if i % 7 == 0:
            two.result()
        if i == 20:
            state, two = two.state(), RunningLoss()
            two.restore(state)
    assert one.state() == two.state()


@pytest.mark.parametrize("make", [Accuracy, lambda: TopKAccuracy(2)])
def test_a_restored_metric_goes_on(make):
    one, two = make(), make()
    one.update(SCORES, [1, 0, 0, 0])
    two.update(SCORES, [2, 2, 2, 2])
    two.restore(one.state())
    assert two.result() == one.result()
    for metric in (one, two):
        metric.update(SCORES, [1, 0, 1, 1])
    assert two.state() == one.state()


def test_a_history_of_operations_is_not_kept(array):
    scores = array(SCORES, requires_grad=True) * 2.0
    running = Accuracy()
    running.update(scores, array([1, 0, 0, 0]))
    assert not any(count.requires_grad for count in running._waiting)
    assert running.result() == 0.75
