import math
import re
from functools import partial

import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, random
from singa_core import ops, tensor
from singa_core.autograd import gradients
from singa_core.engine import graph
from singa_core.errors import ArgumentError, DeviceError, DTypeError, OutOfRange, ShapeError

LABELS = [((4, 3), (4,)), ((2, 3, 5), (2, 3)), ((3,), ()), ((1, 1), (1,))]
REDUCTIONS = ["mean", "sum", "none"]
PAIRS = {
    "mse_loss": {}, "l1_loss": {}, "huber_loss": {"delta": 0.7}, "smooth_l1_loss": {"beta": 0.6},
    "binary_cross_entropy": {}, "binary_cross_entropy_with_logits": {}, "kl_div": {},
}  # fmt: skip


def labels_of(shape, classes, dtype=np.int64):
    return np.random.default_rng(5).integers(0, classes, shape).astype(dtype)


# -- cross-entropy of labels ------------------------------------------------------------------------


def test_cross_entropy_by_hand(array):
    logits = array([[0.0, math.log(3.0)], [math.log(7.0), 0.0]])  # shares 1/4, 3/4 and 7/8, 1/8
    losses = both(partial(ops.cross_entropy, reduction="none"), logits, array([1, 1]))
    np.testing.assert_allclose(losses.numpy(), [math.log(4 / 3), math.log(8)], rtol=1e-6)
    mean = both(ops.cross_entropy, logits, array([1, 1]))
    assert float(mean) == pytest.approx((math.log(4 / 3) + math.log(8)) / 2, rel=1e-6)
    total = both(partial(ops.cross_entropy, reduction="sum"), logits, array([1, 1]))
    assert float(total) == pytest.approx(math.log(4 / 3) + math.log(8), rel=1e-6)


def test_the_gradient_is_the_shares_without_the_label(array):
    logits = array([[0.0, math.log(3.0)]], requires_grad=True)
    ops.cross_entropy(logits, array([1])).backward()
    np.testing.assert_allclose(logits.grad.numpy(), [[0.25, -0.25]], rtol=1e-6)


def test_cross_entropy_of_extreme_logits_is_finite(array):
    logits = array([[1e4, -1e4], [-math.inf, 0.0]], requires_grad=True)
    losses = ops.cross_entropy(logits, array([1, 1]), reduction="none")
    np.testing.assert_array_equal(losses.numpy(), [2e4, 0.0])
    losses.sum().backward()
    np.testing.assert_array_equal(logits.grad.numpy(), [[1.0, -1.0], [0.0, 0.0]])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize(("shape", "labels"), LABELS)
def test_cross_entropy_against_torch(device, shape, labels, reduction, smoothing):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")

    def peer(logits, target):
        y = torch.nn.functional.cross_entropy(
            logits.reshape(-1, shape[-1]), target.reshape(-1), reduction=reduction, label_smoothing=smoothing
        )  # fmt: skip
        return y.reshape(labels) if reduction == "none" else y

    ours = partial(ops.cross_entropy, reduction=reduction, label_smoothing=smoothing)
    check_against_torch(ours, peer, device, random(*shape), labels_of(labels, shape[-1]))


COUNTS = [  # weights of five classes, an ignored label
    ((0.5, 2.0, 0.0, 1.0, 3.0), None), (None, 2), (None, -100), ((0.5, 2.0, 0.0, 1.0, 3.0), -1),
]  # fmt: skip


def some_ignored(ignored):
    """Labels of five classes, some of them `ignored` (None: 0), and the option that says so."""
    labels = labels_of((3, 4), 5)
    labels[::2, 1:3] = 0 if ignored is None else ignored
    return labels, {} if ignored is None else {"ignore_index": ignored}


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("weight", "ignored"), COUNTS)
def test_classes_that_count_differently_against_torch(
    device, weight, ignored, reduction, smoothing
):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    labels, told = some_ignored(ignored)
    options = {"reduction": reduction, "label_smoothing": smoothing}
    ours = partial(ops.cross_entropy, weight=weight, axis=1, **told, **options)

    def peer(logits, target):
        given = None if weight is None else torch.tensor(weight)
        return torch.nn.functional.cross_entropy(logits, target, given, **told, **options)

    check_against_torch(ours, peer, device, random(3, 5, 4), labels)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("weight", "ignored"), COUNTS)
def test_likelihoods_that_count_differently_against_torch(device, weight, ignored, reduction):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    labels, told = some_ignored(ignored)
    ours = partial(ops.nll_loss, weight=weight, axis=1, reduction=reduction, **told)

    def peer(log_probs, target):
        given = None if weight is None else torch.tensor(weight)
        return torch.nn.functional.nll_loss(log_probs, target, given, reduction=reduction, **told)

    check_against_torch(ours, peer, device, random(3, 5, 4), labels)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weighted_shares_against_torch(device, reduction, smoothing):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    weight, options = (0.5, 2.0, 0.0), {"reduction": reduction, "label_smoothing": smoothing}
    peer = partial(torch.nn.functional.cross_entropy, weight=torch.tensor(weight), **options)
    hosts = random(4, 3), np.abs(random(4, 3))
    check_against_torch(partial(ops.cross_entropy, weight=weight, **options), peer, device, *hosts)


def test_an_ignored_sample_leaves_no_trace(array):
    """Neither an infinite loss, nor a label that no class has, nor anything in the gradient."""
    logits = array([[0.0, math.log(3.0)], [-math.inf, 0.0]], requires_grad=True)
    loss = both(partial(ops.cross_entropy, ignore_index=0), logits, array([1, 0]))
    assert float(loss) == pytest.approx(math.log(4 / 3), rel=1e-6)
    ops.cross_entropy(logits, array([1, 0]), ignore_index=0).backward()
    np.testing.assert_allclose(logits.grad.numpy(), [[0.25, -0.25], [0.0, 0.0]], rtol=1e-6)
    small = array(np.array([1, 255], np.uint8))
    assert float(ops.cross_entropy(logits, small, ignore_index=255)) == float(loss)
    none = ops.cross_entropy(logits[:1], small[:1], ignore_index=-100)  # which no uint8 can be
    assert float(none) == float(loss)
    nothing = partial(ops.cross_entropy, logits, array([7, 7]), ignore_index=7)
    assert math.isnan(float(nothing()))
    assert nothing(reduction="none").tolist() == [0, 0]


def test_a_mean_of_many_in_float16_does_not_overflow(array):
    n = 70_000  # more than the largest float16
    logits, labels = array(np.zeros((n, 2), np.float16)), array(np.arange(n) % 2)
    for options in ({"weight": [1, 1]}, {"ignore_index": 5}):
        loss = ops.cross_entropy(logits, labels, **options)
        assert loss.dtype.name == "float16"
        assert float(loss) == pytest.approx(math.log(2.0), rel=1e-3)


def test_what_classes_count_is_checked(array):
    logits, labels = array([[0.0, 1.0], [2.0, 3.0]]), array([0, 1])
    for function in (ops.cross_entropy, ops.nll_loss):
        name = function.__name__
        with pytest.raises(
            ShapeError, match=rf"{name}: needs weight.shape \(2,\), one for each class"
        ):
            function(logits, labels, weight=[1.0, 2.0, 3.0])
        with pytest.raises(DTypeError, match=f"{name}: needs a number dtype"):
            function(logits, labels, weight=[True, False])
        with pytest.raises(ArgumentError, match=f"{name}: needs .*ignore_index"):
            function(logits, labels, ignore_index=1.5)
        with pytest.raises(OutOfRange, match=r"needs .* < \d, got"):
            function(logits, array([0, 2]), ignore_index=-1, weight=[1.0, 2.0]).tolist()
    with pytest.raises(ArgumentError, match="needs labels for an ignore_index, got shares"):
        ops.cross_entropy(logits, logits, ignore_index=1)
    with pytest.raises(ShapeError, match="at least one sample for a mean"):
        ops.cross_entropy(
            array(np.zeros((0, 2), np.float32)), array(np.zeros(0, int)), weight=[1, 2]
        )


def test_the_classes_may_lie_along_any_axis(device):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    hosts = random(2, 5, 3), labels_of((2, 3), 5)
    peer = torch.nn.functional.cross_entropy  # classes along axis 1
    check_against_torch(partial(ops.cross_entropy, axis=1), peer, device, *hosts)
    check_against_torch(partial(ops.cross_entropy, axis=-2), peer, device, *hosts)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("shape", "labels"), LABELS[:3])
def test_softmax_cross_entropy_gradients_through_both_outputs(device, shape, labels, order):
    hosts = random(*shape), labels_of(labels, shape[-1])
    check_gradients(ops.softmax_cross_entropy, device, *hosts, order=order)
    check_gradients(lambda x, i: ops.softmax_cross_entropy(x, i)[0], device, *hosts, order=order)
    check_gradients(lambda x, i: ops.softmax_cross_entropy(x, i)[1], device, *hosts, order=order)


def test_softmax_cross_entropy_also_gives_log_softmax(array):
    x, labels = array(random(4, 3)), array([0, 1, 2, 0])
    losses, log_probs = both(ops.softmax_cross_entropy, x, labels)
    np.testing.assert_allclose(log_probs.numpy(), ops.log_softmax(x).numpy(), rtol=1e-5, atol=1e-6)
    picked = log_probs.numpy()[np.arange(4), labels.numpy()]
    np.testing.assert_array_equal(losses.numpy(), -picked)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "uint32", "int64"])
def test_labels_of_any_integer_dtype(array, dtype):
    x = array(random(3, 200), requires_grad=True)
    labels = array([0, 127, 5], dtype)
    same = both(ops.cross_entropy, x, labels.astype("int64"))
    y = both(ops.cross_entropy, x, labels)
    assert float(y) == pytest.approx(float(same), rel=1e-6)
    np.testing.assert_allclose(gradients(y, x).numpy().sum(), 0.0, atol=1e-6)


def test_cross_entropy_in_float16_adds_in_float32(array):
    x = array(np.zeros((2, 4096)), "float16")
    y = ops.cross_entropy(x, array([0, 7]), reduction="none")
    assert y.dtype.name == "float16"
    np.testing.assert_allclose(y.numpy(), math.log(4096), rtol=1e-3)


@pytest.mark.parametrize("bad", [3, 7, -1, -3, -4])
@pytest.mark.parametrize("op", ["softmax_cross_entropy", "negative_log_likelihood"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])  # the NumPy kernel has no float16
def test_a_label_outside_the_classes_is_named(array, device, op, bad, dtype):
    x, labels = array(random(4, 3), dtype), array([0, 2, bad, 1])

    def losses(*args):
        y = getattr(ops, op)(*args)
        return y[0] if isinstance(y, tuple) else y

    told = rf"^{op}: needs 0 <= label < 3, got {bad}$"
    with pytest.raises(OutOfRange, match=told):
        losses(x, labels).numpy()
    with pytest.raises(OutOfRange, match=told):
        graph(losses)(x, labels).numpy()


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_an_ignored_label_hides_no_other(array, name):
    """The loss of zeros is log 3, the likelihood of zeros 0: the bad label must be told."""
    function = getattr(ops, name)
    x, large = array(np.zeros((2, 3), np.float32)), np.array([0, 2**64 - 1], np.uint64)
    for ignored in (2**63 - 1, 2**64 - 2, -1, 2**70):
        with pytest.raises(OutOfRange, match="got 18446744073709551615$"):
            function(x, array(large), ignore_index=ignored, reduction="none").numpy()
    for kind, ignored in (("uint64", 2**64 - 1), ("int64", -(2**63)), ("int8", -128)):
        labels = array(np.array([0, ignored], kind))
        y = function(x + 1.0, labels, ignore_index=ignored, reduction="none")
        expected = [math.log(3.0) if name == "cross_entropy" else -1.0, 0.0]
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_a_weight_beyond_the_scores_type_is_no_infinity(array, kind):
    """log 2 for each sample, whatever its weight; shares of (1/2, 1/2) weigh their mean."""
    x, far = array(np.zeros((2, 2)), kind), 1e5 if kind == "float16" else 1e39
    weight = array(np.array([far, far]), "float32" if kind == "float16" else "float64")
    for function, scores in ((ops.cross_entropy, x), (ops.nll_loss, x - math.log(2.0))):
        y = both(partial(function, weight=weight), scores, array([0, 1]))
        assert y.dtype.name == kind
        assert float(y) == pytest.approx(math.log(2.0), rel=1e-3)


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_a_class_loss_names_what_lies_elsewhere(array, other_device, name):
    function, x = getattr(ops, name), array(np.zeros((2, 3), np.float32))
    weight, labels = (tensor(v, device=other_device) for v in ([1.0, 1.0, 1.0], [0, 1]))
    with pytest.raises(DeviceError, match=f"^{name}: needs weight on .*, got {other_device}\n"):
        function(x, array([0, 1]), weight=weight)
    with pytest.raises(DeviceError, match=f"^{name}: needs target on .*, got {other_device}\n"):
        function(x, labels, weight=array([1.0, 1.0, 1.0]))


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_labels_of_no_classes_are_told(array, name):
    function, x = getattr(ops, name), array(np.zeros((2, 0), np.float32))
    with pytest.raises(
        ShapeError, match=rf"^{name}: needs \w+ of at least one class, got \(2, 0\)"
    ):
        function(x, array([7, 7]), ignore_index=7, reduction="sum")
    assert float(function(x[:0], array(np.zeros(0, int)), reduction="sum")) == 0.0


ENDS = [
    (kind, bad)
    for kind in ("int8", "uint8", "int32", "int64", "uint64")
    for bad in (np.iinfo(kind).min, -1, 3, np.iinfo(kind).max)
    if np.iinfo(kind).min <= bad and bad not in (0, 1)
]


@pytest.mark.parametrize(("kind", "bad"), ENDS)
@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda x, i: ops.cross_entropy(x, i), "label"),
        (lambda x, i: ops.cross_entropy(x.astype("float16"), i), "label"),
        (lambda x, i: ops.cross_entropy(x, i, weight=x[0]), "label"),
        (lambda x, i: ops.nll_loss(x, i), "label"),
        (lambda x, i: ops.embedding(i, x), "id"),
    ],
    ids=["cross_entropy", "float16", "weight", "nll_loss", "embedding"],
)
def test_any_number_out_of_range_is_told_as_it_was_given(array, call, what, kind, bad):
    x, i = array(np.ones((2, 3), np.float32)), array(np.array([0, bad], kind))
    rows = 2 if what == "id" else 3
    told = r"^(cross_entropy|softmax_cross_entropy|nll_loss|negative_log_likelihood|embedding)"
    told = rf"{told}.*: needs 0 <= {what} < {rows}, got {bad}$"
    for run in (call, graph(call)):
        with pytest.raises(OutOfRange) as caught:
            run(x, i).numpy()
        assert re.match(told, str(caught.value).splitlines()[0])


def test_cross_entropy_names_what_does_not_fit(array):
    x = array(np.zeros((4, 3), np.float32))
    rule = (
        r"^cross_entropy: needs target.shape \(4,\) \(labels\) or \(4, 3\) \(shares\), got \(3,\)\n"
        r"  logits: float32 \(4, 3\) \w+\n  target: int64 \(3,\) \w+$"
    )
    with pytest.raises(ShapeError, match=rule):
        ops.cross_entropy(x, array([0, 1, 2]))
    with pytest.raises(
        DTypeError, match=r"^cross_entropy: needs labels of an integer dtype, got float32"
    ):
        ops.cross_entropy(x, array([0.0, 1.0, 2.0, 0.0]))
    with pytest.raises(
        ArgumentError, match="^cross_entropy: needs a number 0 <= label_smoothing <= 1, got 1.5"
    ):
        ops.cross_entropy(x, array([0, 1, 2, 0]), label_smoothing=1.5)
    with pytest.raises(ArgumentError, match="needs reduction among mean, none, sum, got 'avg'"):
        ops.cross_entropy(x, array([0, 1, 2, 0]), reduction="avg")
    with pytest.raises(ShapeError, match=r"^cross_entropy: needs -2 <= axis < 2, got 2"):
        ops.cross_entropy(x, array([0, 1, 2, 0]), axis=2)
    with pytest.raises(
        ShapeError, match=r"needs labels.shape == logits.shape\[:-1\], got \(3,\) and \(4, 3\)"
    ):
        ops.softmax_cross_entropy(x, array([0, 1, 2]))
    with pytest.raises(
        DTypeError, match="^softmax_cross_entropy: needs labels of an integer dtype"
    ):
        ops.softmax_cross_entropy(x, array([0.0, 1.0, 2.0, 0.0]))
    with pytest.raises(
        DTypeError, match="^softmax_cross_entropy: needs a floating dtype, got int64\n  logits: "
    ):
        ops.softmax_cross_entropy(x.astype("int64"), array([0, 1, 2, 0]))


def test_nll_loss_names_what_does_not_fit(array):
    x = array(np.zeros((4, 3), np.float32))
    rule = (
        r"^nll_loss: needs target.shape \(4,\) \(labels\), got \(3,\)\n"
        r"  log_probs: float32 \(4, 3\) \w+\n  target: int64 \(3,\) \w+$"
    )
    for options in ({}, {"weight": [1, 2, 3]}, {"ignore_index": 1}):
        with pytest.raises(ShapeError, match=rule):
            ops.nll_loss(x, array([0, 1, 2]), **options)
        with pytest.raises(DTypeError, match="^nll_loss: needs labels of an integer dtype, got f"):
            ops.nll_loss(x, array([0.0, 1.0, 2.0, 0.0]), **options)


@pytest.mark.parametrize(
    ("op", "operand"), [("cross_entropy", "logits"), ("nll_loss", "log_probs")]
)
def test_scores_that_are_no_floats_are_told_by_the_function_that_was_called(array, op, operand):
    rule = rf"^{op}: needs {operand} of a floating dtype, got int64\n  {operand}: int64 \(1, 2\)"
    with pytest.raises(DTypeError, match=rule):
        getattr(ops, op)(array([[1, 2]]), array([1]))


def test_nll_loss_by_hand(array):
    log_probs = array([[-1.0, -2.0], [-3.0, -4.0]])
    assert float(both(ops.nll_loss, log_probs, array([1, 0]))) == 2.5
    along = both(partial(ops.nll_loss, axis=0, reduction="none"), log_probs, array([1, 0]))
    assert along.tolist() == [3.0, 2.0]


@pytest.mark.parametrize(("shape", "labels"), LABELS)
def test_nll_gradients(device, shape, labels):
    check_gradients(
        ops.negative_log_likelihood, device, random(*shape), labels_of(labels, shape[-1])
    )


# -- cross-entropy of shares ------------------------------------------------------------------------


def test_one_hot_targets_are_labels(array):
    x, labels = array(random(4, 3)), np.array([0, 2, 1, 2])
    wanted = ops.cross_entropy(x, array(labels), label_smoothing=0.1)
    for dtype in ("float32", "int64"):
        y = both(
            partial(ops.cross_entropy, label_smoothing=0.1), x, array(np.eye(3)[labels], dtype)
        )
        assert float(y) == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_of_shares_against_torch(device, reduction, smoothing):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    options = {"reduction": reduction, "label_smoothing": smoothing}
    peer = partial(torch.nn.functional.cross_entropy, **options)
    hosts = random(4, 3), random(4, 3, low=0.0, high=1.0, seed=1)
    check_against_torch(partial(ops.cross_entropy, **options), peer, device, *hosts)
    hosts = random(2, 5, 3), random(2, 5, 3, low=0.0, high=1.0, seed=1)
    check_against_torch(partial(ops.cross_entropy, axis=1, **options), peer, device, *hosts)


@pytest.mark.parametrize("order", [1, 2])
def test_soft_cross_entropy_gradients(device, order):
    hosts = random(2, 3), random(2, 3, low=0.1, high=0.9, seed=1)
    check_gradients(ops.soft_cross_entropy, device, *hosts, order=order)


# -- losses of elements -----------------------------------------------------------------------------


def test_losses_of_elements_by_hand(array):
    x, target = array([1.0, 2.0, 3.0]), array([1.0, 0.0, 3.5])
    assert float(both(ops.mse_loss, x, target)) == pytest.approx((4.0 + 0.25) / 3)
    assert float(both(ops.l1_loss, x, target)) == pytest.approx(2.5 / 3)
    none = {"reduction": "none"}
    assert both(partial(ops.huber_loss, **none), x, target).tolist() == [0.0, 1.5, 0.125]
    smooth = both(partial(ops.smooth_l1_loss, beta=2.0, **none), x, target)
    assert smooth.tolist() == [0.0, 1.0, 0.0625]
    assert both(partial(ops.smooth_l1_loss, beta=0.0, **none), x, target).tolist() == [
        0.0,
        2.0,
        0.5,
    ]
    half = both(partial(ops.binary_cross_entropy, **none), array([0.5, 0.25]), array([1.0, 0.0]))
    np.testing.assert_allclose(half.numpy(), [math.log(2.0), -math.log(0.75)], rtol=1e-6)
    logit = both(partial(ops.binary_cross_entropy_with_logits, **none), array([0.0, 200.0, -200.0]), array([1.0, 1.0, 1.0]))  # fmt: skip
    np.testing.assert_allclose(logit.numpy(), [math.log(2.0), 0.0, 200.0], rtol=1e-6)
    p = array([0.5, 0.25, 0.25])
    divergence = both(partial(ops.kl_div, reduction="sum"), p.log(), array([0.5, 0.5, 0.0]))
    assert float(divergence) == pytest.approx(0.5 * math.log(2.0), rel=1e-6)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", PAIRS)
def test_losses_of_elements_against_torch(device, name, reduction):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    if name == "kl_div" and reduction == "mean":
        reduction = "batchmean"  # the peer warns of its "mean"
    options = PAIRS[name] | {"reduction": reduction}
    peer = partial(getattr(torch.nn.functional, name), **options)
    hosts = random(3, 4, low=0.05, high=0.95), random(3, 4, low=0.05, high=0.95, seed=1)
    if name in ("huber_loss", "smooth_l1_loss"):
        hosts = hosts[0] * 3, hosts[1]
    check_against_torch(partial(getattr(ops, name), **options), peer, device, *hosts)


def test_kl_div_of_logarithms_against_torch(device):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    options = {"log_target": True, "reduction": "batchmean"}
    peer = partial(torch.nn.functional.kl_div, **options)
    hosts = random(3, 4, low=-2, high=-0.1), random(3, 4, low=-2, high=-0.1, seed=1)
    check_against_torch(partial(ops.kl_div, **options), peer, device, *hosts)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_losses_of_elements(device, name, order):
    hosts = random(3, 4, low=0.1, high=0.9), random(3, 4, low=0.1, high=0.9, seed=1)
    check_gradients(partial(getattr(ops, name), **PAIRS[name]), device, *hosts, order=order)


def test_certain_probabilities_are_finite(array):
    x, target = array([0.0, 1.0, 0.0, 1.0], requires_grad=True), array([0.0, 1.0, 1.0, 0.0])
    losses = ops.binary_cross_entropy(x, target, reduction="none")
    np.testing.assert_array_equal(losses.numpy(), [0.0, 0.0, 100.0, 100.0])
    (slope,) = gradients(losses.sum(), [x])
    np.testing.assert_allclose(slope.numpy(), [0.0, 0.0, -1e12, 1e12])


def test_kl_div_of_a_target_that_is_0_has_a_finite_gradient(array):
    log_probs, target = (
        array([-1.0, -2.0], requires_grad=True),
        array([0.0, 1.0], requires_grad=True),
    )
    y = ops.kl_div(log_probs, target, reduction="sum")
    slope, by_target = gradients(y, [log_probs, target])
    assert (float(y), slope.tolist()) == (2.0, [0.0, -1.0])
    assert by_target.tolist() == [0.0, 3.0]


def test_the_slope_of_l1_at_0_is_0(array):
    x = array([1.0, 2.0], requires_grad=True)
    (slope,) = gradients(ops.l1_loss(x, array([1.0, 0.0]), reduction="sum"), [x])
    assert slope.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", PAIRS)
def test_shapes_that_would_broadcast_are_refused(array, name):
    x, target = array(np.full((3, 1), 0.5, np.float32)), array(np.full(3, 0.5, np.float32))
    rule = rf"^{name}: needs x.shape == target.shape, got \(3, 1\) and \(3,\)\n  x: .*\n  target: "
    with pytest.raises(ShapeError, match=rule):
        getattr(ops, name)(x, target)


def test_widths_are_checked(array):
    x = array([1.0])
    with pytest.raises(ArgumentError, match="^huber_loss: needs a number 0 < delta < inf, got 0.0"):
        ops.huber_loss(x, x, delta=0.0)
    with pytest.raises(
        ArgumentError, match="^smooth_l1_loss: needs a number 0 <= beta < inf, got -1.0"
    ):
        ops.smooth_l1_loss(x, x, beta=-1.0)


# -- no samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss", *PAIRS])
def test_the_mean_of_no_samples_is_refused(array, name):
    x = array(np.zeros((0, 3), np.float32))
    target = array(np.zeros(0, np.int64)) if name in ("cross_entropy", "nll_loss") else x
    loss = getattr(ops, name)
    with pytest.raises(ShapeError, match=rf"^{name}: needs at least one sample for a mean, got 0"):
        loss(x, target)
    assert float(loss(x, target, reduction="sum")) == 0.0
    assert loss(x, target, reduction="none").size == 0


def test_plain_functions_take_host_data_as_operations_do(array):
    logits, labels = array([[0.0, 0.0]]), np.array([1])
    by_tensor = ops.cross_entropy(logits, array(labels))
    assert float(ops.cross_entropy(logits, labels)) == float(by_tensor)
    assert float(ops.cross_entropy(logits=logits, target=[1])) == float(by_tensor)
    assert float(ops.mse_loss(array([1.0, 3.0]), [1.0, 1.0])) == 2.0
    assert ops.flip(np.array([1, 2])).tolist() == [2, 1]
    with pytest.raises(DTypeError, match="mse_loss: needs target: a tensor, or numbers"):
        ops.mse_loss(array([1.0]), "one")


@pytest.mark.parametrize("bound", [0.5, 1.0, 2.0])
def test_losses_of_absolute_errors_are_the_peer_s_at_their_kinks(device, bound):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    x = np.array([0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 1e38, -1e38], np.float32)
    y = np.zeros_like(x)
    peer = torch.nn.functional
    for ours, theirs in (
        (lambda a, b: ops.huber_loss(a, b, delta=bound, reduction="none"),
         lambda a, b: peer.huber_loss(a, b, delta=bound, reduction="none")),
        (lambda a, b: ops.smooth_l1_loss(a, b, beta=bound, reduction="none"),
         lambda a, b: peer.smooth_l1_loss(a, b, beta=bound, reduction="none")),
        (lambda a, b: ops.l1_loss(a, b, reduction="none"),
         lambda a, b: peer.l1_loss(a, b, reduction="none")),
    ):  # fmt: skip
        check_against_torch(ours, theirs, device, x, y)
