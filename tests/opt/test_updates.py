"""Optimisers: which parameters they update, once and in place, and what that costs."""

import gc

import numpy as np
import pytest

from singa_core import Model, graph, opt, tensor
from singa_core.engine import GraphFunction
from singa_core.errors import ArgumentError, GradientError
from singa_core.layers import Linear, Sequential

KINDS = {
    "sgd": lambda **o: opt.SGD(0.1, **o), "momentum": lambda **o: opt.SGD(0.1, momentum=0.5, **o),
    "adam": lambda **o: opt.Adam(0.1, **o), "adamw": lambda **o: opt.AdamW(0.1, **o),
    "rmsprop": lambda **o: opt.RMSprop(0.1, **o), "adagrad": lambda **o: opt.Adagrad(0.1, **o),
    "rmsprop momentum": lambda **o: opt.RMSprop(0.1, momentum=0.5, **o),
}  # fmt: skip


# -- what it works on ------------------------------------------------------------------------------


def test_only_the_given_parameters_are_updated(array):
    a, b = array([1.0], requires_grad=True), array([1.0], requires_grad=True)
    sgd = opt.SGD(0.5, params=[a])
    sgd((a * b).sum())
    assert (a.item(), b.item()) == (0.5, 1.0)
    with pytest.raises(
        GradientError, match="SGD: needs a loss that depends on a parameter, got none"
    ):
        sgd((b * 2.0).sum())
    assert sgd.steps.value == 1


def test_params_may_be_a_dict_a_generator_or_name_one_twice(array):
    net = Sequential(Linear(2), Linear(1))  # sizes not known yet
    names = net.get_params()
    for params in (names, names.values(), (p for p in names.values()), [*names.values()] * 2):
        assert list(map(id, opt.SGD(0.1, params=params).params)) == list(map(id, names.values()))
    w = array([1.0], requires_grad=True)
    sgd = opt.SGD(0.5, momentum=0.5, params=[w, w])
    w.grad = array([1.0])
    sgd.step()
    assert w.item() == 0.5


@pytest.mark.parametrize(("params", "got"), [
    (lambda w: w, "a Tensor"), (lambda w: "weights", "a str"), (lambda w: 3, "a int"),
    (lambda w: [w, "w", 3], "items of int, str"), (lambda w: [w.numpy()], "items of ndarray"),
    (lambda w: [], "no items"), (lambda w: {}, "no items"),
    (lambda w: {"w": w.numpy()}, "items of ndarray"),
])  # fmt: skip
def test_params_that_are_none(array, params, got):
    w = array([[1.0], [2.0]], requires_grad=True)
    text = rf"^Adam: needs a list or dict of tensors as params, got {got}\ntry: params=model.get_params\(\)$"
    with pytest.raises(ArgumentError, match=text):
        opt.Adam(0.1, params=params(w))
    adam = opt.Adam(0.1, params=[w])
    with pytest.raises(ArgumentError, match=text):
        adam.params = params(w)
    assert adam.params == [w]


def test_other_params_are_noticed_by_a_recording(array):
    a, b = array([0.0], requires_grad=True), array([0.0], requires_grad=True)
    sgd = opt.SGD(1.0, params=[a])

    @graph
    def step(x):
        sgd(((a + b) * x).sum())

    step(array([1.0]))
    sgd.params = [b]
    step(array([1.0]))
    sgd.params.append(a)
    step(array([1.0]))
    sgd.params = None
    step(array([1.0]))
    assert (a.item(), b.item()) == (-3.0, -3.0)
    assert step.records == 4


@pytest.mark.parametrize("recorded", [False, True])
def test_a_parameter_that_is_used_twice_is_updated_once(array, recorded):
    w = array([2.0], requires_grad=True)
    sgd = opt.SGD(0.25, momentum=0.5)

    def step(x):
        sgd((w * w * x).sum())

    call = GraphFunction(step) if recorded else step
    call(array([1.0]))
    assert w.item() == 1.0  # the gradient is 2 w = 4, and one step is made
    assert (sgd.steps.value, sgd.slot(w, "momentum").item()) == (1, 4.0)


def test_parameters_given_before_they_have_a_size(array):
    class Net(Model):
        def __init__(self):
            self.one, self.two = Linear(2), Linear(1)
            self.loss = lambda y, t: (y - t).square().mean()
            self.optimizer = opt.SGD(0.1, momentum=0.5, params=self.two.get_params())

        def forward(self, x):
            return self.two(self.one(x))

    net, x = Net(), array([[1.0, 2.0]])
    net.compile([x])
    one, two = net.one.weight.tolist(), net.two.weight.tolist()
    for _ in range(2):
        net.train_one_batch(x, array([[5.0]]))
    assert net.one.weight.tolist() == one
    assert net.two.weight.tolist() != two


def test_updated_parameters_stay_leaves_without_a_tape(array):
    w = array([1.0, 2.0], requires_grad=True)
    for make in KINDS.values():
        optimizer = make()

        def step(x, optimizer=optimizer):
            optimizer((w * x).sum())

        for call in (step, GraphFunction(step)):
            call(array([1.0, 1.0]))
            assert w.is_leaf
            assert w.requires_grad
            assert w.node.inputs == ()


def test_whoever_holds_the_old_value_keeps_it(array):
    w, sgd = array([1.0, 2.0], requires_grad=True), opt.SGD(1.0)
    for call in (lambda x: sgd((w * x).sum()), GraphFunction(lambda x: sgd((w * x).sum()))):
        start = w.tolist()
        snapshot, view, host = w.detach(), w.detach()[1:], w.numpy()
        call(array([1.0, 1.0]))
        assert snapshot.tolist() == host.tolist() == start
        assert view.tolist() == start[1:]
        assert w.tolist() == [start[0] - 1.0, start[1] - 1.0]


# -- what a step costs -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_eager_step_writes_over_the_old_values(device, kind):
    w = tensor(np.ones(5000, np.float32), device=device, requires_grad=True)
    optimizer = KINDS[kind]()
    optimizer((w * w).sum())

    def places():  # numbers only: a storage that is held is not written over
        return [id(t.array.storage) for t in (w, *optimizer._slots.get(w, {}).values())]

    before, low = places(), device.memory.current
    for _ in range(3):
        optimizer((w * w).sum())
    assert device.memory.current == low
    if device.name == "cpu_numpy" and kind in ("sgd", "momentum"):  # one kernel; else several
        assert places() == before


def test_a_step_holds_one_gradient_at_a_time(device):
    """The way `optimizer(loss)` saves memory: `.grad` of all parameters would be there at once."""

    def peak(how):
        layers = [Linear(256, bias=False, weight_init="eye") for _ in range(6)]
        net = Sequential(*layers)
        x = tensor(np.ones((1, 256), np.float32), device=device)
        net(x)
        sgd = opt.SGD(0.001, params=net.get_params())
        gc.collect()
        device.memory.reset_peak()
        start = device.memory.current
        loss = net(x).sum()
        if how == "call":
            sgd(loss)
        else:
            loss.backward()
            sgd.step()
        return device.memory.peak - start

    matrix = 256 * 256 * 4
    assert peak("call") < 3.5 * matrix
    assert peak("step") > 6 * matrix
