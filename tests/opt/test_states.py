"""State of optimisers: where it starts, how it is stored and restored, where it goes."""

import copy

import numpy as np
import pytest

from singa_core import Model, Placeholder, opt, random
from singa_core.errors import ArgumentError, DTypeError, ShapeError
from singa_core.layers import Linear, Sequential, Tanh

KINDS = {
    "sgd": (lambda: opt.SGD(0.1), set()),
    "momentum": (lambda: opt.SGD(0.1, momentum=0.9), {"momentum"}),
    "adam": (lambda: opt.Adam(0.05), {"m", "v"}),
    "rmsprop": (lambda: opt.RMSprop(0.05, momentum=0.5), {"v", "m"}),
    "adagrad": (lambda: opt.Adagrad(0.05), {"v"}),
}


class Net(Model):
    def __init__(self, optimizer):
        self.body = Sequential(Linear(5), Tanh(), Linear(2))
        self.loss, self.optimizer = (lambda out, y: (out - y).square().mean()), optimizer

    def forward(self, x):
        return self.body(x)


def fresh(device, kind, use_graph=True):
    random.manual_seed(0)
    net = Net(KINDS[kind][0]())
    return net.compile([Placeholder((5, 3), device=device)], use_graph=use_graph)


def train(net, seed=0):
    rng = np.random.default_rng(seed)
    x, y = (rng.normal(size=(5, n)).astype(np.float32) for n in (3, 2))
    return net.train_one_batch(x, y)[1].item()


def stored(net):
    """What a checkpoint would hold: copies on the host."""
    states = net.optimizer.get_states(net.get_params())
    return {k: v if isinstance(v, int) else v.numpy().copy() for k, v in states.items()}


def listed(states):
    return {k: v if isinstance(v, int) else v.tolist() for k, v in states.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_graph", [False, True])
def test_states_make_the_round_trip(device, kind, use_graph):
    one = fresh(device, kind, use_graph)
    assert stored(one) == {"steps": 0}
    for _ in range(3):
        train(one)
    weights = {name: cell.numpy().copy() for name, cell in one.get_states().items()}
    slots = stored(one)
    assert slots["steps"] == 3
    names = {f"{slot}.{name}" for slot in KINDS[kind][1] for name in one.get_params()}
    assert set(slots) == {"steps"} | names
    assert set(one.optimizer.slots) >= KINDS[kind][1]
    other = fresh(device, kind, use_graph)
    train(other, seed=9)  # state is loaded into graphs that exist
    other.set_states(weights)
    other.optimizer.set_states(slots, other.get_params())
    assert listed(stored(other)) == listed(slots)
    for _ in range(3):
        assert train(one) == train(other)
    assert listed(stored(one)) == listed(stored(other))


def test_state_starts_at_zero_and_is_made_when_it_is_needed(array):
    w, adam = array([1.0, 2.0], requires_grad=True), opt.Adam(0.1)
    assert adam.get_states({"w": w}) == {"steps": 0}
    slot = adam.slot(w, "m")
    assert (slot.tolist(), slot.dtype, slot.device) == ([0.0, 0.0], w.dtype, w.device)
    assert adam.slot(w, "m") is slot
    assert list(adam.get_states({"w": w})) == ["steps", "m.w"]


def test_state_is_keyed_by_cell_so_that_ties_share_it(array):
    w = array([1.0], requires_grad=True)
    sgd = opt.SGD(0.5, momentum=0.5)
    sgd((w * w).sum())
    assert list(sgd.get_states({"a": w})) == ["steps", "momentum.a"]
    assert sgd.get_states({"other": array([1.0])}) == {"steps": 1}


@pytest.mark.parametrize("use_graph", [False, True])
def test_what_is_not_named_starts_again(device, use_graph):
    """A checkpoint from before the first step takes a trained optimiser back to its start."""
    net = fresh(device, "momentum", use_graph)
    start = {name: cell.numpy().copy() for name, cell in net.get_states().items()}
    before = stored(net)
    losses = [train(net) for _ in range(3)]
    net.set_states(start)
    net.optimizer.set_states(before, net.get_params())
    assert [train(net) for _ in range(3)] == losses
    assert net.optimizer.steps.value == 3


@pytest.mark.parametrize(("bad", "error", "text"), [
    ({"momentum.body.steps.2.bias": np.zeros(7)}, ShapeError, r"SGD.set_states 'momentum.body.steps.2.bias': needs shape \(2,\), got \(7,\)"),
    ({"momentum.body.steps.2.bias": ["a", "b"]}, DTypeError, r"SGD.set_states 'momentum.body.steps.2.bias': needs numbers"),
    ({"momentum.nowhere": np.zeros(2)}, ArgumentError, r"SGD.set_states: needs names like momentum.<parameter>, got 'momentum.nowhere'"),
    ({"m.body.steps.2.bias": np.zeros(2)}, ArgumentError, r"needs names like momentum.<parameter>, got 'm.body.steps.2.bias'"),
    ({"momentum": np.zeros(2)}, ArgumentError, "got 'momentum'"), ({"": 1}, ArgumentError, "got ''"),
    ({"steps": -1}, ArgumentError, "SGD.set_states: needs an integer steps >= 0, got -1"),
    ({"steps": 1.5}, ArgumentError, "needs an integer steps >= 0, got 1.5"),
])  # fmt: skip
def test_set_states_that_fail_change_nothing(device, bad, error, text):
    net = fresh(device, "momentum")
    train(net)
    before = listed(stored(net))
    good = {"steps": 9, "momentum.body.steps.0.bias": np.full(5, 8.0, np.float32)}
    for states in (good | bad, bad | {k: v for k, v in good.items() if k not in bad}):
        with pytest.raises(error, match=text):
            net.optimizer.set_states(states, net.get_params())
        assert listed(stored(net)) == before
    net.optimizer.set_states({"steps": np.int64(4)}, net.get_params())
    assert (net.optimizer.steps.value, type(net.optimizer.steps.value)) == (4, int)


def test_state_follows_its_parameter_to_another_device(device, other_device):
    other = other_device

    def run(places, use_graph):
        net = fresh(places[0], "adam", use_graph)
        for place in places:
            net.to(place)
            train(net)
            slots = net.optimizer.get_states(net.get_params())
            assert {str(v.device) for v in slots.values() if not isinstance(v, int)} == {str(place)}
        return {k: np.round(v, 5).tolist() for k, v in stored(net).items()}

    stays = run([device] * 4, True)
    assert run([device, other, other, device], True) == stays
    assert run([device, other, other, device], False) == stays


def test_states_of_another_device_are_taken(device):
    net = fresh("cpu_numpy", "adam")
    train(net)
    other = fresh(device, "adam")
    other.optimizer.set_states(net.optimizer.get_states(net.get_params()), other.get_params())
    assert listed(stored(other)) == listed(stored(net))
    assert other.optimizer.slot(other.body[0].weight, "m").device is device


def test_a_deep_copy_of_a_model_takes_the_state_along(device):
    one = fresh(device, "momentum")
    train(one)
    two = copy.deepcopy(one)
    assert listed(stored(two)) == listed(stored(one))
    assert two.optimizer is not one.optimizer
    before = listed(stored(one))
    train(two)
    assert listed(stored(one)) == before
    train(one)
    assert listed(stored(one)) == listed(stored(two))
