"""References of the losses."""

from __future__ import annotations

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, on_real, real
from singa_core.conformance.oracles.normalization import log_softmax


def one_hot(labels: HostArray, classes: int) -> HostArray:
    """1 at the label of each row, by rows of the unit matrix."""
    rows: HostArray = np.eye(classes)[labels.astype(int)]
    return rows


def nll(log_probs: HostArray, labels: HostArray) -> HostArray:
    """Minus the log-probability of the label."""
    picked: HostArray = (real(log_probs) * one_hot(labels, log_probs.shape[-1])).sum(axis=-1)
    return -picked


def cross_entropy(logits: HostArray, labels: HostArray) -> tuple[HostArray, HostArray]:
    """Losses and log-probabilities."""
    log_probs = log_softmax(real(logits))
    return nll(log_probs, labels), log_probs


def cross_entropy_grad(grad: HostArray, log_probs: HostArray, labels: HostArray) -> HostArray:
    """Probabilities without the label's one."""
    rest = np.exp(real(log_probs)) - one_hot(labels, log_probs.shape[-1])
    y: HostArray = real(grad)[..., None] * rest
    return y


def soft_cross_entropy(logits: HostArray, target: HostArray) -> tuple[HostArray, HostArray]:
    """Losses and log-probabilities, for shares."""
    log_probs = log_softmax(logits)
    return -np.einsum("...c,...c->...", target, log_probs), log_probs


def log_loss(x: HostArray, target: HostArray) -> HostArray:
    """Binary cross-entropy of a probability that is neither 0 nor 1."""
    return -(target * np.log(x) + (1.0 - target) * np.log(1.0 - x))


def logistic_loss(x: HostArray, target: HostArray) -> HostArray:
    """Binary cross-entropy of a logit."""
    return target * np.logaddexp(0.0, -x) + (1.0 - target) * np.logaddexp(0.0, x)


TABLE: dict[str, Oracle] = {
    "negative_log_likelihood": nll,
    "softmax_cross_entropy": cross_entropy,
    "softmax_cross_entropy_grad": cross_entropy_grad,
    "soft_cross_entropy": on_real(soft_cross_entropy),
    "log_loss": on_real(log_loss),
    "logistic_loss": on_real(logistic_loss),
}
