"""How wrong the scores of classes are: what `loss` gives for each sample, averaged or added up."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from singa_core.checks import check_number
from singa_core.dtype import fits, promote
from singa_core.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from singa_core.ops.base import check_kind, takes_tensors, wide
from singa_core.ops.elementwise_pairs import where
from singa_core.ops.indexing import gather
from singa_core.ops.loss import (
    negative_log_likelihood,
    soft_cross_entropy,
    softmax_cross_entropy,
)
from singa_core.ops.loss_composed import Reduction, reduce
from singa_core.spec import check_axis
from singa_core.tensor import Tensor

__all__ = ["cross_entropy", "nll_loss"]


@takes_tensors
def cross_entropy(
    logits: Tensor,
    target: Tensor,
    *,
    axis: int = -1,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
    weight: Tensor | None = None,
    ignore_index: int | None = None,
) -> Tensor:
    """Cross-entropy of softmax(logits) and the target: labels, or shares (one-hot, probabilities).

    Shapes: logits with c classes along `axis`; labels without that axis, or shares of logits' shape
        -> scalar, or the labels' shape with reduction "none".
    Dtype: floats, kept; labels of an integer dtype, shares of any number dtype.

    Args:
        logits: scores of the classes.
        target: labels, 0 <= label < c, or shares.
        axis: where the classes are.
        reduction: "mean", over everything but `axis`; "sum"; or "none", a loss for each sample.
        label_smoothing: the part of each target that is spread evenly over the classes, 0 to 1.
        weight: how much each class counts, (c,); a mean is divided by the labels' weights, summed.
            One over shares is divided by their number.
        ignore_index: a label, also of no class or dtype, that counts for nothing; the mean of these
            is NaN. A tensor of one integer is read at once. Not for shares.

    Raises: ShapeError for a target or a weight of another shape, or the mean of no samples;
        DTypeError; DeviceError; OutOfRange for a label outside 0 <= label < c that is not the
        ignored one; ArgumentError for an ignored label beside shares, a label_smoothing outside 0
        to 1, or another reduction.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 4.108; smoothing:
        arXiv:1512.00567, section 7.

    >>> from singa_core import tensor
    >>> round(float(cross_entropy(tensor([[0.0, 0.0]]), tensor([1]))), 6)
    0.693147
    """
    name = "cross_entropy"
    check_number(name, "label_smoothing", label_smoothing, 0.0, 1.0)
    axis = check_axis(name, axis, logits.ndim, logits=logits)
    weight = None if weight is None else weights(name, weight, logits, axis)
    scores, count = last(logits, axis), ALIKE
    if target.shape == logits.shape:
        check_no_label(name, ignore_index)
        losses, log_probs = soft_cross_entropy(scores, times(last(target, axis), weight))
    else:
        check_labels(name, target, axis, shares=True, logits=logits)
        labels, count = counted(name, target, weight, ignore_index, scores)
        losses, log_probs = softmax_cross_entropy(scores, labels)
        losses = times(losses, count.share)
    if label_smoothing:
        losses = smoothed(losses, times(log_probs, weight), label_smoothing)
    loss = count.reduce(name, losses, reduction)
    return loss if weight is None else loss.astype(logits.dtype)


@takes_tensors
def nll_loss(
    log_probs: Tensor,
    target: Tensor,
    *,
    axis: int = -1,
    reduction: Reduction = "mean",
    weight: Tensor | None = None,
    ignore_index: int | None = None,
) -> Tensor:
    """Negative log-likelihood of labels, from log-probabilities.

    Shapes: log_probs with c classes along `axis`, target without that axis -> scalar, or target's
        shape with reduction "none".
    Dtype: floats, kept; target of an integer dtype.

    Args:
        log_probs: logarithms of the probabilities of the classes.
        target: labels, 0 <= label < c.
        axis: where the classes are.
        reduction: "mean", over everything but `axis`; "sum"; or "none", a loss for each sample.
        weight: how much each class counts, (c,); a mean is divided by the labels' weights, summed.
        ignore_index: a label, also of no class or dtype, that counts for nothing; the mean of these
            is NaN. A tensor of one integer is read at once.

    Raises: ShapeError for a target or a weight of another shape, or the mean of no samples;
        DTypeError; DeviceError; OutOfRange for a label outside 0 <= label < c that is not the
        ignored one; ArgumentError for another reduction.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 4.108.

    >>> from singa_core import tensor
    >>> float(nll_loss(tensor([[-1.0, -2.0]]), tensor([1])))
    2.0
    """
    name = "nll_loss"
    axis = check_axis(name, axis, log_probs.ndim, log_probs=log_probs)
    weight = None if weight is None else weights(name, weight, log_probs, axis)
    check_labels(name, target, axis, log_probs=log_probs)
    scores = last(log_probs, axis)
    labels, count = counted(name, target, weight, ignore_index, scores)
    losses = times(negative_log_likelihood(scores, labels), count.share)
    loss = count.reduce(name, losses, reduction)
    return loss if weight is None else loss.astype(log_probs.dtype)


def smoothed(losses: Tensor, log_probs: Tensor, part: float) -> Tensor:
    """Losses (...) of targets of which a part is spread evenly over log_probs (..., c)."""
    return losses * (1.0 - part) - log_probs.sum(axis=-1) * (part / log_probs.shape[-1])


def times(x: Tensor, factor: Tensor | None) -> Tensor:
    """The product; x if there is no factor."""
    return x if factor is None else x * factor


def last(x: Tensor, axis: int) -> Tensor:
    """The tensor with `axis` as its last one."""
    if axis == x.ndim - 1:
        return x
    return x.permute([i for i in range(x.ndim) if i != axis] + [axis])


def check_labels(
    where: str, target: Tensor, axis: int, *, shares: bool = False, **scores: Any
) -> None:
    """Check labels against the scores of the classes along `axis`: one tensor, under its name.

    Raises: ShapeError, which also tells the shape of shares if these would do; DTypeError.
    """
    ((name, x),) = scores.items()
    shape, labels = x.spec.shape, target.spec  # a property of a tensor costs a call
    without = shape[:axis] + shape[axis + 1 :]
    if labels.shape != without:
        rule = f"target.shape {without} (labels)" + (f" or {shape} (shares)" if shares else "")
        raise ShapeError(where, rule, labels.shape, **scores, target=target)
    if not labels.dtype.is_integer:
        hint, rule = "target.astype('int64')", "labels of an integer dtype"
        raise DTypeError(where, rule, labels.dtype, hint=hint, **scores, target=target)
    if not shape[axis] and labels.itemcount:
        rule = f"{name} of at least one class"
        raise ShapeError(where, rule, shape, **scores, target=target)
    if target.device is not x.device:
        check_beside(where, x, target=target)
    if not x.dtype.is_floating:
        raise DTypeError(where, f"{name} of a floating dtype", x.dtype, **scores, target=target)


def weights(where: str, weight: Tensor, scores: Tensor, axis: int) -> Tensor:
    """Weights of the classes, in a float type that holds them. Raises: as `cross_entropy`."""
    check_kind(where, "number", weight=weight)
    if weight.shape != (scores.shape[axis],):
        rule = f"weight.shape ({scores.shape[axis]},), one for each class"
        raise ShapeError(where, rule, weight.shape, weight=weight)
    check_beside(where, scores, weight=weight)
    kind = wide(scores).dtype
    return weight.astype(promote(kind, weight.dtype) if weight.dtype.is_floating else kind)


def check_beside(where: str, scores: Tensor, **others: Tensor) -> None:
    """Raises: DeviceError for tensors that are not on the scores' device."""
    for name, x in others.items():
        if x.device is not scores.device:
            hint = f"{name}.to({scores.device.name!r})"
            rule = f"{name} on {scores.device}, where the scores are"
            raise DeviceError(where, rule, x.device, hint=hint, scores=scores, **others)


def check_no_label(where: str, ignore_index: int | None) -> None:
    """Raises: ArgumentError for an ignored label where the target is shares."""
    if ignore_index is not None:
        rule = "labels for an ignore_index"
        raise ArgumentError(where, rule, "shares", hint="shares of 0 in its place")


class Count(NamedTuple):
    """How much samples count.

    Attributes:
        kept: True where a sample is not ignored; None: everywhere.
        share: what it counts, 1 where that is None.
    """

    kept: Tensor | None = None
    share: Tensor | None = None

    def reduce(self, name: str, losses: Tensor, reduction: Reduction) -> Tensor:
        """Losses that have their shares, reduced."""
        kept, share = self
        if kept is not None:
            losses = where(kept, losses, 0.0)  # also what is infinite
            share = kept.astype(losses.dtype) if share is None else where(kept, share, 0.0)
        if share is None or reduction != "mean" or not losses.size:
            return reduce(name, losses, reduction)
        return (wide(losses).sum() / wide(share).sum()).astype(losses.dtype)


ALIKE: Final = Count()


def counted(
    name: str, target: Tensor, weight: Tensor | None, ignore: int | None, scores: Tensor
) -> tuple[Tensor, Count]:
    """Labels (...) with 0 in place of the ignored ones, and what they count; scores (..., c)."""
    if weight is None and ignore is None:
        return target, ALIKE
    labels, kept, share = target, None, None
    if ignore is not None and fits(ignore, target.dtype):  # another is no label of these
        kept = target != ignore
        labels = where(kept, target, 0)
    if weight is not None:
        share = gather(weight, labels, axis=0, role=f"{name}: label")
    return labels, Count(kept, share)
