"""Values and gradients of the samples against PyTorch, for the ops that mean the same there."""

import math

import numpy as np
import pytest

from house import counts
from singa_core.autograd import gradients
from singa_core.conformance.cases import NAMES, cases, told
from singa_core.conformance.groups.common import terms
from singa_core.conformance.tolerances import compare
from singa_core.tensor import tensor

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed (it comes with the extra 'dev')"
)
F = torch.nn.functional

# ours -> theirs, where names differ
RENAMED = {
    "bit_and": "bitwise_and", "bit_not": "bitwise_not", "bit_or": "bitwise_or", "bit_xor": "bitwise_xor",
    "equal": "eq", "less": "lt", "less_equal": "le", "not_equal": "ne", "greater": "gt",
    "greater_equal": "ge", "shift_left": "bitwise_left_shift", "shift_right": "bitwise_right_shift",
}  # fmt: skip
SAME = (
    "abs acos acosh add asin asinh atan atan2 atanh ceil cos cosh div erf exp exp2 expm1 floor "
    "floor_divide hypot isfinite isinf isnan log log10 log1p log2 logaddexp logical_and logical_not "
    "logical_or logical_xor matmul maximum minimum mul neg pow reciprocal remainder round rsqrt "
    "sigmoid sign sin sinh sqrt square sub tan tanh trunc where"
).split()


def reduced(function, identity=None):
    """A reduction over no, one or several axes."""

    def theirs(x, *, axis=None, keepdims=False, **attrs):
        dims = (
            tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        )
        return (
            function(x, dims, keepdims, **attrs)
            if dims
            else function(x[None], (0,), False, **attrs)
        )

    return theirs


def one_by_one(function):
    """A function of one axis, for several."""

    def over(x, dims, keepdims):
        for dim in sorted((d % x.ndim for d in dims), reverse=True):
            x = function(x, dim, keepdims)
        return x

    return reduced(over)


class NotThere(Exception):
    """A sample that PyTorch has no counterpart for."""


def windows(x, *, axes, size, step=None, dilation=None):
    if dilation is not None and any(d != 1 for d in dilation):
        raise NotThere
    for axis, n, s in zip(axes, size, step or (1,) * len(axes), strict=True):
        if n > x.shape[axis]:
            raise NotThere
        x = x.unfold(axis, n, s)
    return x


def scatter_add(x, index, v, *, axis=0):
    axis, index = axis % x.ndim, counted_from_the_front(x, index, axis)
    v = v.reshape((*x.shape[:axis], index.numel(), *x.shape[axis + 1 :]))
    return x.index_add(axis, index.reshape(-1), v)


def gather(x, index, *, axis=0, role=None):
    axis, index = axis % x.ndim, counted_from_the_front(x, index, axis)
    taken = x.index_select(axis, index.reshape(-1))
    return taken.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def counted_from_the_front(x, index, axis):
    return index.long() % max(x.shape[axis], 1)


def classes_second(function):
    """A loss whose classes are the last axis here and the second there."""
    return lambda x, labels: function(x.movedim(-1, 1) if x.ndim > 1 else x, labels.long())


@classes_second
def softmax_cross_entropy(x, labels):
    return F.cross_entropy(x, labels, reduction="none"), x.log_softmax(1 if x.ndim > 1 else 0)


def logs_last(made):
    losses, logs = made
    return losses, logs.movedim(1, -1) if logs.ndim > 1 else logs


def log_loss(x, target):
    return F.binary_cross_entropy(x, target, reduction="none")


THEIRS = {
    **{name: getattr(torch, name) for name in SAME},
    **{ours: getattr(torch, name) for ours, name in RENAMED.items()},
    "broadcast_to": lambda x, *, shape: x.broadcast_to(shape),
    "concat": lambda *xs, axis=0: torch.concat(xs, axis),
    "cumprod": lambda x, *, axis: x.cumprod(axis),
    "cumsum": lambda x, *, axis: x.cumsum(axis),
    "permute_dims": lambda x, *, axes: x.permute(axes),
    "reshape": lambda x, *, shape: x.reshape(shape),
    "gather": gather,
    "scatter_add": scatter_add,
    "sort": lambda x, *, axis=-1, descending=False: tuple(
        x.sort(dim=axis, descending=descending, stable=True)
    ),
    "windows": windows,
    "sum": reduced(lambda x, d, k: x.sum(d, k)),
    "mean": reduced(lambda x, d, k: x.mean(d, k)),
    "prod": one_by_one(lambda x, d, k: x.prod(d, k)),
    "max": reduced(lambda x, d, k: x.amax(d, k)),
    "min": reduced(lambda x, d, k: x.amin(d, k)),
    "all": one_by_one(lambda x, d, k: x.all(d, k)),
    "any": one_by_one(lambda x, d, k: x.any(d, k)),
    "logsumexp": reduced(lambda x, d, k: x.logsumexp(d, k)),
    "norm": reduced(lambda x, d, k: torch.linalg.vector_norm(x, 2, d, k)),
    "var": reduced(lambda x, d, k, correction=0: x.var(d, correction=correction, keepdim=k)),
    "std": reduced(lambda x, d, k, correction=0: x.std(d, correction=correction, keepdim=k)),
    "argmax": lambda x, *, axis=None, keepdims=False: x.argmax(axis, keepdims),
    "argmin": lambda x, *, axis=None, keepdims=False: x.argmin(axis, keepdims),
    "celu": lambda x, *, alpha=1.0: F.celu(x, alpha),
    "elu": lambda x, *, alpha=1.0: F.elu(x, alpha),
    "gelu": lambda x, *, approximate="none": F.gelu(x, approximate=approximate),
    "hard_sigmoid": lambda x: F.relu6(x + 3) / 6,  # the gradient of F.hardsigmoid is float32's
    "hard_swish": F.hardswish,
    "hard_tanh": lambda x, *, low=-1.0, high=1.0: F.hardtanh(x, low, high),
    "at_least": lambda a, b: a.clamp(min=b),
    "at_most": lambda a, b: a.clamp(max=b),
    "leaky_relu": lambda x, *, alpha=0.01: F.leaky_relu(x, alpha),
    "log_sigmoid": F.logsigmoid,
    "mish": F.mish,
    "relu": F.relu,
    "selu": F.selu,
    "silu": F.silu,
    "softplus": lambda x, *, beta=1.0: F.softplus(x, beta, threshold=math.inf),
    "softsign": F.softsign,
    "softmax": lambda x, *, axis=-1: x.softmax(axis),
    "log_softmax": lambda x, *, axis=-1: x.log_softmax(axis),
    "logistic_loss": lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"),
    "log_loss": log_loss,
    "softmax_cross_entropy": lambda x, labels: logs_last(softmax_cross_entropy(x, labels)),
    "negative_log_likelihood": classes_second(lambda x, i: F.nll_loss(x, i, reduction="none")),
    "embedding": lambda ids, weight, **padding: F.embedding(
        ids.long() % max(len(weight), 1), weight, **padding
    ),
    "linear": lambda x, weight, *bias: F.linear(x, weight.mT, *bias),
    "layer_norm": lambda x, w, b, *, eps=1e-5: F.layer_norm(x, w.shape, w, b, eps),
}
NO_GRADIENT = {"floor_divide", "remainder"}  # PyTorch refuses, or differentiates less of it
MAPPED = [name for name in NAMES if name in THEIRS]


def test_the_map_names_ops_that_exist():
    assert set(THEIRS) <= set(NAMES)


@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")
def test_values_and_gradients_are_theirs(name, device):
    for case in cases(name, device, ("float64", "int64", "bool")):
        with told(case):
            compare_with_torch(case, device)


def compare_with_torch(case, device):
    hosts = case.hosts()
    theirs = [torch.from_numpy(np.array(h)) for h in hosts]
    ours = case.tensors(device)
    wanted = [
        i
        for i, (x, h) in enumerate(zip(case.sample.inputs, hosts, strict=True))
        if h.dtype == np.float64 and x.grad and case.name not in NO_GRADIENT
    ]
    for i in wanted:
        theirs[i].requires_grad_()
        ours[i].requires_grad = True
    try:
        expected = THEIRS[case.name](*theirs, **case.sample.attrs)
    except NotThere:
        return
    expected = expected if isinstance(expected, tuple) else (expected,)
    got = case.call(device, *ours)
    for y, reference in zip(got, expected, strict=True):
        compare(case.name, y.detach().numpy(), reference.detach().numpy(), terms(hosts))
    pairs = [(y, r) for y, r in zip(got, expected, strict=True) if y.requires_grad]
    if not wanted or not pairs:
        return
    ys, references = zip(*pairs, strict=True)
    seeds = [np.random.default_rng(3).uniform(0.5, 1.5, r.shape) for r in references]
    weights = [tensor(np.asarray(s), device=device) for s in seeds]
    mine = gradients(ys, [ours[i] for i in wanted], weights, allow_unused=True)
    peers = torch.autograd.grad(
        references, [theirs[i] for i in wanted], [torch.from_numpy(np.asarray(s)) for s in seeds],
        allow_unused=True,
    )  # fmt: skip
    for grad, peer in zip(mine, peers, strict=True):
        a = np.zeros(()) if grad is None else grad.numpy()
        b = np.zeros(()) if peer is None else peer.numpy()
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
        counts.gradient_checked("peer")
