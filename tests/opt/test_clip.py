"""Gradient clipping: by hand, against PyTorch, and recorded."""

import math

import numpy as np
import pytest

from house import counts
from nets import Net, batch, made
from singa_core import graph, opt, random
from singa_core.autograd import stream
from singa_core.errors import ArgumentError, DeviceError
from singa_core.opt.clip import clip_by_norm, clip_by_value, global_norm

SHAPES = ((3, 4), (4,), (), (2, 0), (1, 5, 2))


def gradients(dtype="float32", scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=shape) * scale).astype(dtype) for shape in SHAPES]


def bits(grads):
    return [(g.dtype.name, g.shape, g.numpy().tobytes()) for g in grads]


def test_the_norm_by_hand(array):
    grads = [array([3.0]), array([[0.0, 4.0]])]
    assert global_norm(grads).tolist() == 5.0
    pairs = clip_by_norm([("a", grads[0]), ("b", grads[1])], 1.0)
    assert [name for name, _ in pairs] == ["a", "b"]
    np.testing.assert_allclose(pairs[0][1].numpy(), [0.6], rtol=1e-6)
    np.testing.assert_allclose(pairs[1][1].numpy(), [[0.0, 0.8]], rtol=1e-6)
    assert [g.tolist() for g in grads] == [[3.0], [[0.0, 4.0]]]


def test_what_is_within_bounds_stays_as_it_is(array):
    grads = [array(g) for g in gradients()]
    for clipped in (clip_by_norm, clip_by_value):
        assert bits(g for _, g in clipped([(g, g) for g in grads], 100.0)) == bits(grads)
    assert clip_by_norm([], 1.0) == []


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
@pytest.mark.parametrize("limit", [1e-6, 0.5, 3.0])
def test_the_norm_as_in_pytorch(array, dtype, scale, limit):
    torch = pytest.importorskip("torch")
    hosts = gradients(dtype, scale)
    peers = [torch.zeros(host.shape, dtype=getattr(torch, dtype)) for host in hosts]
    for peer, host in zip(peers, hosts, strict=True):
        peer.grad = torch.from_numpy(host.copy())
    wanted = math.sqrt(sum(float((host.astype(np.float64) ** 2).sum()) for host in hosts))
    if dtype != "float16":  # whose norm PyTorch takes in float16: 300 * 300 is infinite there
        assert float(torch.nn.utils.clip_grad_norm_(peers, limit)) == pytest.approx(wanted)
    grads = [array(host) for host in hosts]
    assert float(global_norm(grads)) == pytest.approx(wanted, rel=1e-6)
    clipped = [g for _, g in clip_by_norm([(g, g) for g in grads], limit)]
    assert [g.dtype.name for g in clipped] == [dtype] * len(hosts)
    factor = min(1.0, limit / (wanted + 1e-6))
    for peer, host, got in zip(peers, hosts, clipped, strict=True):
        tolerance = 2e-3 if dtype == "float16" else 1e-6
        np.testing.assert_allclose(got.numpy(), host * factor, rtol=tolerance, atol=1e-7)
        if dtype != "float16":
            np.testing.assert_allclose(got.numpy(), peer.grad.numpy(), rtol=1e-6)
            counts.gradient_checked("peer")


@pytest.mark.parametrize("limit", [0.1, 1.0])
def test_values_as_in_pytorch(array, limit):
    torch = pytest.importorskip("torch")
    hosts = gradients()
    peers = [torch.zeros(host.shape) for host in hosts]
    for peer, host in zip(peers, hosts, strict=True):
        peer.grad = torch.from_numpy(host.copy())
    torch.nn.utils.clip_grad_value_(peers, limit)
    pairs = [(g, g) for g in map(array, hosts)]
    for peer, (_, got) in zip(peers, clip_by_value(pairs, limit), strict=True):
        assert got.numpy().tobytes() == peer.grad.numpy().tobytes()
        counts.gradient_checked("peer")


def test_values_between_two_bounds(array):
    (_, got), = clip_by_value([(None, array([-5.0, -1.0, 0.0, 2.0, math.nan, math.inf]))], 1.0, -2.0)  # fmt: skip
    np.testing.assert_array_equal(got.numpy(), [-2.0, -1.0, 0.0, 1.0, math.nan, 1.0])
    (_, got), = clip_by_value([(None, array([-5.0, 5.0]))], -1.0, low=-2.0)  # fmt: skip
    assert got.tolist() == [-2.0, -1.0]


@pytest.mark.parametrize(("bad", "wanted"), [
    (math.nan, [math.nan, math.nan, math.nan]), (math.inf, [math.nan, 0.0, 0.0]),
])  # fmt: skip
def test_what_is_not_finite_is_not_hidden(array, bad, wanted):
    pairs = clip_by_norm([(0, array([bad, 1.0])), (1, array([2.0]))], 1.0)
    assert np.array_equal(np.concatenate([g.numpy() for _, g in pairs]), wanted, equal_nan=True)


def test_recorded_is_eager(array):
    grads = [array(g) for g in gradients(scale=10.0)]

    def norm(*gs):
        return [g for _, g in clip_by_norm([(g, g) for g in gs], 1.0)]

    def value(*gs):
        return [g for _, g in clip_by_value([(g, g) for g in gs], 1.0)]

    for function in (norm, value):
        eager, recorded = function(*grads), graph(function)
        for _ in range(2):
            assert bits(recorded(*grads)) == bits(eager)
            counts.bitwise_compared(len(eager))


class Clipped(Net):
    """The three ways to clip in a step of one's own."""

    way = "norm"

    def train_one_batch(self, x, labels):
        loss = self.loss(self.forward(x), labels)
        if self.way == "step":
            loss.backward()
            params = self.optimizer.params
            for param, grad in clip_by_norm([(p, p.grad) for p in params], 0.1):
                param.grad = grad
            self.optimizer.step()
            self.optimizer.zero_grad()
        else:
            clip = clip_by_norm if self.way == "norm" else clip_by_value
            self.optimizer._apply(iter(clip(stream(loss), 0.1)))
        return loss


def trained(device, way, use_graph, momentum=0.5):
    random.manual_seed(0)
    model = Clipped(opt.SGD(0.1, momentum=momentum))
    model.way = way
    model.optimizer.params = model.get_params()
    model.compile([batch(device)[0]], use_graph=use_graph)
    losses = [model.train_one_batch(*batch(device, seed=i)).item() for i in range(4)]
    return losses, bits(model.get_params().values())


@pytest.mark.parametrize("way", ["norm", "value", "step"])
def test_a_step_that_clips_gives_the_same_bits_with_and_without_graphs(device, way):
    eager = trained(device, way, use_graph=False)
    assert trained(device, way, use_graph=True) == eager
    counts.bitwise_compared(len(eager[0]) + len(eager[1]))
    if way == "step":  # where the norm is added up in another order
        assert eager[0] == pytest.approx(trained(device, "norm", use_graph=False)[0], rel=1e-5)


def test_a_clipped_step_moves_no_further_than_the_norm(device):
    model = Clipped(opt.SGD(2.0)).compile([batch(device)[0]])
    before = [p.numpy().copy() for p in model.get_params().values()]
    x, labels = batch(device)
    model.train_one_batch(x * 100.0, labels)
    after = [p.numpy() for p in model.get_params().values()]
    moved = math.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(after, before, strict=True)))
    assert moved == pytest.approx(0.2, rel=1e-4)
    plain = made(device, opt.SGD(2.0))
    plain.train_one_batch(x * 100.0, labels)
    far = [p.numpy() for p in plain.get_params().values()]
    assert math.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(far, before, strict=True))) > 10


@pytest.mark.parametrize("bad", [0, 0.0, -1, math.inf, math.nan, "1", None, True])
def test_norms_that_are_none(bad):
    with pytest.raises(
        ArgumentError, match="^clip_by_norm: needs a number 0 < max_norm < inf, got "
    ):
        clip_by_norm([], bad)


@pytest.mark.parametrize(("bounds", "text"), [
    ((-1,), "a number 0 <= limit < inf, got -1"), ((math.nan,), "got nan"), (("1",), "got '1'"),
    ((1, 2), "low <= limit, got low 2, limit 1"), ((1, math.nan), "low < inf, got nan"), ((1, "0"), "got '0'"),
])  # fmt: skip
def test_bounds_that_are_none(bounds, text):
    with pytest.raises(ArgumentError, match=f"^clip_by_value: needs .*{text}"):
        clip_by_value([], *bounds)


def test_gradients_of_nothing_and_of_two_devices(array, other_device):
    with pytest.raises(ArgumentError, match="^global_norm: needs a gradient, got none"):
        global_norm([])
    with pytest.raises(DeviceError, match=f"needs gradients on one device, got {other_device}"):
        global_norm([array([1.0]), array([1.0]).to(other_device)])


@pytest.mark.parametrize("use_graph", [True, False])
def test_an_optimiser_clips_what_it_is_told_to(device, use_graph):
    results = []
    for norm, value in ((None, None), (0.1, None), (None, 0.01)):
        random.manual_seed(0)
        model = Net(opt.SGD(1.0))
        model.optimizer.clip_norm, model.optimizer.clip_value = norm, value
        x, labels = batch(device)
        model.compile([x], use_graph=use_graph)
        before = {name: p.numpy().copy() for name, p in model.get_params().items()}
        model.train_one_batch(x, labels)
        moved = [p.numpy() - before[name] for name, p in model.get_params().items()]
        results.append(np.concatenate([m.ravel() for m in moved]))
    free, by_norm, by_value = results
    assert np.linalg.norm(free) > 0.1
    np.testing.assert_allclose(np.linalg.norm(by_norm), 0.1, rtol=1e-4)
    np.testing.assert_allclose(
        by_norm / np.linalg.norm(by_norm), free / np.linalg.norm(free), atol=1e-5
    )
    np.testing.assert_allclose(by_value, np.clip(free, -0.01, 0.01), atol=1e-7)
