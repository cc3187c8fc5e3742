"""How wrong the scores of classes are: the operations with gradients of their own.

Each gives one number for each sample; the functions of `loss_composed` average them.
"""

from __future__ import annotations

from typing import Any

from singa_core.errors import DTypeError, ShapeError
from singa_core.indexing import signed
from singa_core.operation import Needs, Operation
from singa_core.ops.base import Grads, check_kind, wide
from singa_core.ops.creation import iota
from singa_core.ops.elementwise_pairs import equal, where
from singa_core.ops.indexing import gather
from singa_core.ops.normalization import log_softmax
from singa_core.sample import In, sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor

__all__ = [
    "negative_log_likelihood", "soft_cross_entropy", "softmax_cross_entropy",
    "softmax_cross_entropy_grad",
]  # fmt: skip

_LABELS = (
    sample((4, 3), In((4,), "int64", 0, 3)),
    sample((2, 3, 5), In((2, 3), "int32", 0, 5)),
    sample((3,), In((), "int64", 0, 3)),
    sample((4, 3), In((4,), "uint8", 0, 3)),
    sample((0, 3), In((0,), "int64")),
)
_PAIRS = (
    sample((4, 3), In((4, 3), low=0.1, high=0.9)),
    sample((3,), In((3,), low=0.1, high=0.9)),
    sample((0, 3), In((0, 3), low=0.1, high=0.9)),
)


def check_labels(name: str, scores: Spec, labels: Spec) -> Spec:
    """The spec of one number for each label.

    Raises: DTypeError unless labels are integers; ShapeError unless scores are (..., c) and labels
        (...).
    """
    operand = "logits" if name == "softmax_cross_entropy" else "log_probs"
    named: dict[str, Any] = {operand: scores, "labels": labels}
    check_kind(name, "float", **{operand: scores})
    if not labels.dtype.is_integer:
        raise DTypeError(name, "labels of an integer dtype", labels.dtype, **named)
    if not scores.ndim or labels.shape != scores.shape[:-1]:
        rule = f"labels.shape == {operand}.shape[:-1]"
        raise ShapeError(name, rule, f"{labels.shape} and {scores.shape}", **named)
    return scores.with_shape(labels.shape)


def at_label(x: Tensor, labels: Tensor) -> Tensor:
    """True at the label of each row: labels (...) -> (..., c)."""
    c = x.shape[-1]
    classes = iota(c, dtype="int64", device=x.device)
    found: Tensor = equal(signed(labels).reshape(*labels.shape, 1), classes)
    return found


def pick(name: str, x: Tensor, labels: Tensor) -> Tensor:
    """The element at each row's label: x (..., c), labels (...) -> x[..., labels[...]] (...).

    Raises: OutOfRange, in `name`'s words.
    """
    n, c = labels.size, x.shape[-1]
    # a look-up in 0, 1 ... c-1 checks the labels; a bad one would read from another row
    checked = gather(iota(c, device=x.device), labels.reshape(n), axis=0, role=f"{name}: label")
    at = iota(n, device=x.device) * c + checked
    picked: Tensor = gather(x.reshape(n * c), at, axis=0)
    return picked.reshape(labels.shape)


class NegativeLogLikelihood(Operation):
    """The log-probability of the label, negated: y[...] = -log_probs[..., labels[...]].

    Shapes: log_probs (..., c), labels (...) -> y (...). Dtype: floats, kept; integers.
    Raises: OutOfRange unless 0 <= label < c; ShapeError; DTypeError.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 4.108, one term.

    >>> from singa_core import tensor
    >>> negative_log_likelihood(tensor([[-1.0, -2.0]]), tensor([1])).tolist()
    [2.0]
    """

    name = "negative_log_likelihood"
    keeps = ("labels",)
    samples = _LABELS

    def infer(self, log_probs: Spec, labels: Spec) -> Spec:
        return check_labels(self.name, log_probs, labels)

    def forward(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        return -pick(self.name, log_probs, labels)

    def backward(self, grad: Tensor, labels: Tensor, *, needs: Needs) -> Grads:
        rows = -grad.reshape(*grad.shape, 1).broadcast_to(needs.specs[0].shape)
        return where(at_label(rows, labels), rows, 0.0), None


class SoftmaxCrossEntropy(Operation):
    """Cross-entropy of softmax and a label, losses[...] = -log softmax(logits[...])[labels[...]].

    Also gives log softmax of the logits, which backward needs; gradients flow through both.

    Shapes: logits (..., c), labels (...) -> losses (...), log_probs (..., c).
    Dtype: floats, kept; integers.
    Raises: OutOfRange unless 0 <= label < c; ShapeError; DTypeError.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 4.108 and 4.109.

    >>> from singa_core import tensor
    >>> losses, _ = softmax_cross_entropy(tensor([[0.0, 0.0]]), tensor([1]))
    >>> round(losses.tolist()[0], 6)
    0.693147
    """

    name = "softmax_cross_entropy"
    keeps = ("labels", "y1")
    samples = _LABELS

    def infer(self, logits: Spec, labels: Spec) -> tuple[Spec, Spec]:
        return check_labels(self.name, logits, labels), logits

    def forward(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = log_softmax(logits, axis=-1)
        return -pick(self.name, log_probs, labels), log_probs

    def backward(
        self,
        grad: Tensor | None,
        grad_log_probs: Tensor | None,
        labels: Tensor,
        log_probs: Tensor,
        *,
        needs: Needs,
    ) -> Grads:
        dx = None
        if grad is not None:
            dx = softmax_cross_entropy_grad(grad, log_probs, labels)
        if grad_log_probs is not None:
            more = through_log_probs(grad_log_probs, log_probs)
            dx = more if dx is None else dx + more
        return dx, None


def through_log_probs(grad: Tensor, log_probs: Tensor) -> Tensor:
    """Gradient of logits from that of their log-probabilities."""
    g = wide(grad)
    dx = g - wide(log_probs).exp() * g.sum(axis=-1, keepdims=True)
    return dx.astype(log_probs.dtype)


class SoftmaxCrossEntropyGrad(Operation):
    """Gradient of softmax_cross_entropy, y = grad * (exp(log_probs) - 1 at the label).

    Shapes: grad (...), log_probs (..., c), labels (...) -> y (..., c).
    Dtype: floats, both of one; integers.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 4.109.
    """

    name = "softmax_cross_entropy_grad"
    samples = (
        sample((4,), In((4, 3), low=-3.0, high=-0.1), In((4,), "int64", 0, 3)),
        sample((2, 3), In((2, 3, 5), low=-3.0, high=-0.1), In((2, 3), "int32", 0, 5)),
        sample((), In((3,), low=-3.0, high=-0.1), In((), "int64", 0, 3)),
        sample((0,), In((0, 3), low=-3.0, high=-0.1), In((0,), "int64")),
    )

    def infer(self, grad: Spec, log_probs: Spec, labels: Spec) -> Spec:
        losses = check_labels(self.name, log_probs, labels)
        if grad is not losses:
            raise ShapeError(self.name, f"grad like the losses ({losses})", grad, grad=grad)
        return log_probs

    def forward(self, grad: Tensor, log_probs: Tensor, labels: Tensor) -> Tensor:
        probs = wide(log_probs).exp()
        off: Tensor = where(at_label(probs, labels), probs - 1.0, probs)
        return (off * grad.reshape(*grad.shape, 1)).astype(log_probs.dtype)


class SoftCrossEntropy(Operation):
    """Cross-entropy of softmax and given shares, losses = -sum over classes of target * log_probs.

    Also gives log_probs = log softmax(logits); gradients flow through both, and to the target.

    Shapes: logits (..., c), target (..., c) -> losses (...), log_probs (..., c).
    Dtype: floats; operands are promoted.
    Raises: ShapeError if the shapes differ.
    Source: C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 4.108 and 4.109.
    """

    name = "soft_cross_entropy"
    keeps = ("target", "y1")
    promotes = True
    weak_float = True
    samples = _PAIRS

    def infer(self, logits: Spec, target: Spec) -> tuple[Spec, Spec]:
        check_kind(self.name, "float", logits=logits, target=target)
        if not logits.ndim or logits.shape != target.shape:
            got = f"{target.shape} and {logits.shape}"
            rule = "target.shape == logits.shape, with at least one axis"
            raise ShapeError(self.name, rule, got, logits=logits, target=target)
        return logits.with_shape(logits.shape[:-1]), logits

    def forward(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = log_softmax(logits, axis=-1)
        return -(target * log_probs).sum(axis=-1), log_probs

    def backward(
        self,
        grad: Tensor | None,
        grad_log_probs: Tensor | None,
        target: Tensor,
        log_probs: Tensor,
        *,
        needs: Needs,
    ) -> Grads:
        dx = dtarget = None
        if grad is not None:
            column = -grad.reshape(*grad.shape, 1)
            dtarget = column * log_probs if needs[1] else None
            dx = through_log_probs(column * target, log_probs) if needs[0] else None
        if grad_log_probs is not None and needs[0]:
            more = through_log_probs(grad_log_probs, log_probs)
            dx = more if dx is None else dx + more
        return dx, dtarget


negative_log_likelihood = NegativeLogLikelihood()
softmax_cross_entropy, softmax_cross_entropy_grad = SoftmaxCrossEntropy(), SoftmaxCrossEntropyGrad()
soft_cross_entropy = SoftCrossEntropy()
