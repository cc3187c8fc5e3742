"""How wrong predicted values are: a loss for each element, averaged, added up, or as it is."""

from __future__ import annotations

from typing import Literal

from singa_core.checks import check_number
from singa_core.errors import ShapeError
from singa_core.ops.base import takes_tensors
from singa_core.ops.elementwise_pairs import minimum, where
from singa_core.ops.loss_binary import log_loss, logistic_loss
from singa_core.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss", "kl_div", "l1_loss",
    "mse_loss", "smooth_l1_loss",
]  # fmt: skip

Reduction = Literal["mean", "sum", "none"]


def reduce(where: str, losses: Tensor, reduction: Reduction) -> Tensor:
    """Losses averaged, summed (which gives 0 for none) or as they are.

    Raises: ShapeError for the mean of no samples, which would be NaN.
    """
    if reduction == "mean":
        if not losses.size:
            hint = "skip the empty batch, or reduction='sum'"
            raise ShapeError(where, "at least one sample for a mean", 0, hint=hint, losses=losses)
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    return losses


def same_shape(where: str, x: Tensor, target: Tensor) -> None:
    """Raises: ShapeError if shapes differ: (n, 1) and (n,) would broadcast to (n, n), silently."""
    if x.shape != target.shape:
        got = f"{x.shape} and {target.shape}"
        raise ShapeError(where, "x.shape == target.shape", got, x=x, target=target)


@takes_tensors
def mse_loss(x: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Squared error, (x - target)**2.

    Shapes: x and target of one shape -> scalar, or that shape with reduction "none".
    Args: reduction: "mean" over all elements, "sum" (of none: 0), or "none".
    Raises: ShapeError if the shapes differ, or for the mean of no elements;
        ArgumentError for another reduction.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 1.2, without its 1/2.

    >>> from singa_core import tensor
    >>> float(mse_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0])))
    2.0
    """
    same_shape("mse_loss", x, target)
    error = x - target
    return reduce("mse_loss", error * error, reduction)


@takes_tensors
def l1_loss(x: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Absolute error, |x - target|; its slope at 0 is 0.

    Shapes: x and target of one shape -> scalar, or that shape with reduction "none".
    Args: reduction: "mean" over all elements, "sum" (of none: 0), or "none".
    Raises: ShapeError if the shapes differ, or for the mean of no elements;
        ArgumentError for another reduction.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 1.91 with q = 1.
    """
    same_shape("l1_loss", x, target)
    return reduce("l1_loss", (x - target).abs(), reduction)


@takes_tensors
def huber_loss(
    x: Tensor, target: Tensor, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Squared near 0, absolute far off: e**2 / 2 if e <= delta, else delta * (e - delta / 2).

    The error e is |x - target|.

    Shapes: x and target of one shape -> scalar, or that shape with reduction "none".
    Args: reduction: "mean" over all elements, "sum" (of none: 0), or "none".
    Raises: ShapeError if the shapes differ, or for the mean of no elements; ArgumentError unless
        delta > 0, or for another reduction.
    Source: P. J. Huber, Annals of Mathematical Statistics 35 (1964), 73-101, section 4.

    >>> from singa_core import tensor
    >>> huber_loss(tensor([0.5, 3.0]), tensor([0.0, 0.0]), reduction="none").tolist()
    [0.125, 2.5]
    """
    check_number("huber_loss", "delta", delta, 0.0, ends="(]")
    same_shape("huber_loss", x, target)
    return reduce("huber_loss", huber((x - target).abs(), delta), reduction)


def huber(error: Tensor, delta: float) -> Tensor:
    """The loss of an absolute error: its slope is the error up to delta, and delta from there."""
    near = minimum(error, float(delta))
    y: Tensor = near * (error - near * 0.5)
    return y


@takes_tensors
def smooth_l1_loss(
    x: Tensor, target: Tensor, *, beta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """huber_loss(delta=beta) / beta: its slope is 1 far off; l1_loss for beta = 0.

    Shapes: x and target of one shape -> scalar, or that shape with reduction "none".
    Args: reduction: "mean" over all elements, "sum" (of none: 0), or "none".
    Raises: ShapeError if the shapes differ, or for the mean of no elements; ArgumentError unless
        beta >= 0, or for another reduction.
    Source: arXiv:1504.08083, eq. 3.
    """
    check_number("smooth_l1_loss", "beta", beta, 0.0)
    same_shape("smooth_l1_loss", x, target)
    error = (x - target).abs()
    losses = huber(error, beta) / float(beta) if beta else error
    return reduce("smooth_l1_loss", losses, reduction)


@takes_tensors
def binary_cross_entropy(x: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Cross-entropy of probabilities x of "yes" and targets in [0, 1]; see log_loss.

    Shapes: x and target of one shape -> scalar, or that shape with reduction "none".
    Args: reduction: "mean" over all elements, "sum" (of none: 0), or "none".
    Raises: ShapeError if the shapes differ, or for the mean of no elements;
        ArgumentError for another reduction.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 4.90.
    """
    same_shape("binary_cross_entropy", x, target)
    return reduce("binary_cross_entropy", log_loss(x, target), reduction)


@takes_tensors
def binary_cross_entropy_with_logits(
    x: Tensor, target: Tensor, *, reduction: Reduction = "mean"
) -> Tensor:
    """Cross-entropy of sigmoid(x) and targets in [0, 1], for any x; see logistic_loss.

    Shapes: x and target of one shape -> scalar, or that shape with reduction "none".
    Args: reduction: "mean" over all elements, "sum" (of none: 0), or "none".
    Raises: ShapeError if the shapes differ, or for the mean of no elements;
        ArgumentError for another reduction.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 4.90.
    """
    same_shape("binary_cross_entropy_with_logits", x, target)
    return reduce("binary_cross_entropy_with_logits", logistic_loss(x, target), reduction)


@takes_tensors
def kl_div(
    log_probs: Tensor,
    target: Tensor,
    *,
    log_target: bool = False,
    reduction: Reduction | Literal["batchmean"] = "mean",
) -> Tensor:
    """Kullback-Leibler divergence, t * (log(t) - log_probs) for each element.

    Shapes: log_probs and target of one shape -> scalar, or that shape with reduction "none".

    Args:
        log_probs: logarithms of the model's probabilities.
        target: t, the probabilities aimed at, or their logarithms.
        log_target: the target is log(t).
        reduction: "batchmean", the sum divided by the first axis, is the divergence of one sample;
            "mean" divides by all elements. Or "sum", or "none".

    Raises: ShapeError if the shapes differ, or for the mean of no elements;
        ArgumentError for another reduction.
    Source: S. Kullback, R. A. Leibler, Annals of Mathematical Statistics 22 (1951), 79-86, eq. 2.4.

    >>> from singa_core import tensor
    >>> round(float(kl_div(tensor([0.5, 0.5]).log(), tensor([1.0, 0.0]), reduction="sum")), 6)
    0.693147
    """
    same_shape("kl_div", log_probs, target)
    if log_target:
        losses = target.exp() * (target - log_probs)
    else:  # 0 * log(0) is 0, and so is its slope
        some = target > 0.0
        losses = where(some, target * (where(some, target, 1.0).log() - log_probs), 0.0)
    if reduction != "batchmean":
        return reduce("kl_div", losses, reduction)
    if not losses.size:
        raise ShapeError("kl_div", "at least one sample for a mean", 0, log_probs=log_probs)
    return losses.sum() / float(losses.shape[0] if losses.ndim else 1)
