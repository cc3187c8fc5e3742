"""Layer: assigning by name, training and evaluation, moving to a device, copying."""

import copy
import pickle

import numpy as np
import pytest

from nets import Block, Scale, contents
from singa_core import Layer, State, gradients, graph, ops, opt, tensor
from singa_core.engine import GraphFunction
from singa_core.errors import ArgumentError, DeviceError, DTypeError, OutOfDeviceMemory, ShapeError
from singa_core.layers import Dropout, Linear, ReLU, Sequential

# -- assigning by name -----------------------------------------------------------------------------


def test_set_params_and_set_states(array):
    block = Block()
    block(array([[1.0, 2.0]]))
    values = {name: cell.numpy() + 1.0 for name, cell in block.get_params().items()}
    block.set_params(values)
    for name, cell in block.get_params().items():
        np.testing.assert_array_equal(cell.numpy(), values[name])
    block.set_states({"first.seen": array(5.0), "first.factor": [3.0, 4.0]})
    assert (block.first.seen.item(), block.first.factor.tolist()) == (5.0, [3.0, 4.0])


def test_states_may_be_set_before_sizes_are_known(device, array):
    block = Block().to(device)
    weight = np.arange(6, dtype=np.float64).reshape(3, 2)
    block.set_states({"second.weight": weight})
    assert block.second.weight.device is device
    assert block.second.weight.shape == (3, 2)
    with pytest.raises(
        ShapeError, match=r"Linear: needs x.shape\[-1\] == in_features == 3, got \(1, 2\)"
    ):
        block(array([[1.0, 2.0]]))
    assert block.second.weight.tolist() == weight.tolist()
    assert not block.second.bias.materialized
    assert block(array([[1.0, 1.0, 1.0]])).tolist() == [[6.0, 9.0]]
    with pytest.raises(
        ShapeError, match=r"set_states 'second.weight': needs shape \(None, 2\), got \(2, 3\)"
    ):
        Block().set_states({"second.weight": weight.T})


def test_each_value_goes_to_where_its_cell_is(device):
    net = Sequential(Linear(2), Linear(1))
    net(tensor([[1.0, 2.0]]))
    net[1].to(device)
    net.set_states({"steps.0.bias": [1.0, 2.0], "steps.1.bias": tensor([3.0])})
    assert (net[0].bias.tolist(), net[1].bias.tolist()) == ([1.0, 2.0], [3.0])
    assert (str(net[0].bias.device), net[1].bias.device) == ("cpu_numpy", device)


@pytest.mark.parametrize(("values", "error", "text"), [
    ({"first.nothing": 1.0}, ArgumentError, r"Block.set_params: needs names among \(first.factor, .*\), got 'first.nothing'"),
    ({"first.seen": 1.0}, ArgumentError, "names among"),
    ({"first.factor": np.ones(3)}, ShapeError, r"set_params 'first.factor': needs shape \(2,\), got \(3,\)"),
    ({"first.factor": 1.0}, ShapeError, r"needs shape \(2,\), got \(\)"),
    ({"first.factor": np.ones(2, np.complex64)}, DTypeError, "set_params 'first.factor': needs numbers of a supported dtype, got complex64"),
    ({"first.factor": ["a", "b"]}, DTypeError, "set_params 'first.factor': needs numbers"),
    ({"first.factor": [[1.0], 2.0]}, ShapeError, "set_params 'first.factor': needs lists of equal length"),
])  # fmt: skip
def test_set_params_that_fail_change_nothing(array, values, error, text):
    block = Block()
    block(array([[1.0, 2.0]]))
    before = contents(block)
    good = {"first.offset": np.array([8.0, 9.0], np.float32)}
    for mixed in (good | values, values | good):
        with pytest.raises(error, match=text):
            block.set_params(mixed)
        assert contents(block) == before


def test_values_that_find_no_memory_change_nothing(far_device):
    block = Block().to("far")
    block(tensor(np.ones((1, 64), np.float32), device="far"))
    before = contents(block)
    far_device.limit = sum(far_device.alive) + 300
    values = {
        "first.offset": np.ones(64, np.float32),
        "second.weight": np.ones((64, 2), np.float32),
    }
    with pytest.raises(OutOfDeviceMemory):
        block.set_params(values)
    far_device.limit = None
    assert contents(block) == before


def test_values_take_the_cell_s_dtype_unless_that_loses_their_kind(array):
    class Count(Layer):
        def __init__(self):
            self.n, self.wide = State((), dtype="int64"), State((), dtype="float64")
            self.small = State((2,), dtype="int8")

        def forward(self, x):
            return x

    layer = Count()
    layer(array(1.0))
    layer.set_states({"n": 3, "wide": 0.1, "small": np.array([True, False])})
    assert (layer.n.item(), layer.wide.item(), layer.small.tolist()) == (3, 0.1, [1, 0])
    with pytest.raises(DTypeError, match="set_states 'n': needs values of int64, got float32"):
        layer.set_states({"n": 1.5})
    with pytest.raises(
        DTypeError, match="set_states 'small': needs numbers in the range of int8, got 1 to 300"
    ):
        layer.set_states({"small": [1, 300]})
    assert (layer.n.item(), layer.small.tolist()) == (3, [1, 0])


def test_set_params_reaches_graphs(array):
    layer = Scale()
    step, x = graph(lambda x: layer(x)), array([[1.0, 2.0]])
    step(x)
    layer.set_params({"factor": np.array([10.0, 10.0], np.float32)})
    assert step(x).tolist() == [[10.0, 20.0]]
    assert step.records == 1
    assert layer.seen.item() == 2.0


# -- modes and places ------------------------------------------------------------------------------


def test_train_and_eval_reach_all_layers_and_graphs_keep_both(array):
    net = Sequential(Linear(4), Sequential(Dropout(0.5)))
    step = graph(lambda x: net(x))
    x = array(np.ones((2, 3), np.float32))
    assert net.training
    step(x)
    assert net.eval() is net
    assert not any(layer.training for layer in net.layers())
    np.testing.assert_array_equal(step(x).numpy(), net(x).numpy())
    for _ in range(3):
        assert net.train() is net
        step(x)
        net.eval()
        step(x)
    assert step.records == 2
    net.steps[1].train()
    step(x)
    assert step.records == 3


def test_to_moves_values_gradients_and_graphs(device, other_device):
    other = other_device
    layer = Scale()
    function = GraphFunction(lambda x: layer(x))

    def call(name):
        return function(tensor([[1.0, 2.0]], device=name))

    call(device)
    layer(tensor([[1.0, 2.0]], device=device)).sum().backward()
    with pytest.raises(
        DeviceError, match=f"got inputs on {other}, a layer on {device}\\ntry: x.to"
    ):
        call(other)
    for name in (other, device, other):
        assert layer.to(name) is layer
        assert {str(cell.device) for cell in layer.get_states().values()} == {str(name)}
        assert str(layer.factor.grad.device) == str(name)
        assert call(name).tolist() == [[1.0, 2.0]]
    assert layer.seen.item() == 5.0  # every call has counted, wherever the counter was
    assert layer.factor.grad.tolist() == [1.0, 2.0]
    assert layer.factor.requires_grad
    assert layer.factor.is_leaf


def test_what_has_no_value_yet_follows_the_first_tensor(device, other_device):
    other = other_device
    net = Sequential(Linear(2), Linear(1))
    net[0](tensor([[1.0, 2.0]], device=other))
    net.to(device)
    assert net[0].weight.device is device
    assert net(tensor([[1.0, 2.0]], device=device)).device is device
    assert net[1].weight.device is device
    fresh = Linear(2).to(other)
    fresh(tensor([[1.0, 2.0]], device=device))
    assert fresh.weight.device is device
    with pytest.raises(LookupError, match="nowhere"):
        fresh.to("nowhere")


def test_moving_to_a_full_device_moves_nothing(far_device):
    block = Block()
    block(tensor(np.ones((1, 64), np.float32)))
    far_device.limit = sum(far_device.alive) + 300
    with pytest.raises(OutOfDeviceMemory):
        block.to("far")
    assert {str(cell.device) for cell in block.get_states().values()} == {"cpu_numpy"}


def test_a_hook_outlives_a_move(array):
    layer, seen = Linear(1, weight_init="ones"), []
    layer(array([[2.0]]))
    layer.weight.register_hook(lambda grad: seen.append(grad.item()))
    layer.to("far").to("cpu_numpy")
    layer(tensor([[3.0]])).sum().backward()
    assert seen == [3.0]


# -- copies ----------------------------------------------------------------------------------------


def test_a_deep_copy_is_independent(array):
    class Holder(Layer):
        def __init__(self):
            self.body, self.act, self.mask = (
                Sequential(Linear(2), ops.tanh),
                ops.relu,
                array([2.0, 3.0]),
            )
            self.tied = self.body[0].weight

        def forward(self, x):
            return self.act(self.body(x)) * self.mask

    one, x = Holder(), array([[1.0, -2.0]])
    step = graph(lambda x: one(x))
    y = step(x).tolist()
    two = copy.deepcopy(one)
    assert two(x).tolist() == y
    assert two.tied is two.body[0].weight
    assert two.tied is not one.tied
    assert two.act is one.act
    assert not {id(layer) for layer in one.layers()} & {id(layer) for layer in two.layers()}
    before = contents(one)
    opt.SGD(0.1)(two(x).sum())
    two.mask.assign(array([0.0, 0.0]))
    two.body.steps.append(ReLU())
    assert contents(one) == before != contents(two)
    assert step(x).tolist() == y
    kept = contents(two)
    one.set_states({name: np.zeros_like(cell.numpy()) for name, cell in one.get_states().items()})
    assert contents(two) == kept


def test_a_copy_made_before_the_first_call_will_have_the_same_numbers(array):
    one = Block()
    two = copy.deepcopy(one)
    one.first.fail = True
    assert not two.first.fail
    two(array([[1.0, 2.0]]))
    assert not one.second.weight.materialized
    one.first.fail = False
    one(array([[1.0, 2.0]]))
    assert contents(one) == contents(two)


def test_a_copy_of_a_frozen_layer_is_frozen(array):
    layer = Linear(1)
    layer.weight.requires_grad = False
    fresh = copy.deepcopy(layer)
    layer(array([[1.0]]))
    for twin in (fresh, copy.deepcopy(layer)):
        assert (twin.weight.requires_grad, twin.bias.requires_grad) == (False, True)
        y = twin(array([[1.0]]))
        assert gradients(y.sum(), twin.bias).item() == 1.0
        assert not twin.weight.requires_grad


@pytest.mark.parametrize("store", [pickle.dumps, copy.copy])
def test_layers_are_not_pickled(store):
    text = r"Linear: needs copy.deepcopy\(layer\), or layer.get_states\(\) to store its numbers, got pickle"
    with pytest.raises(ArgumentError, match=text):
        store(Linear(1))


def test_an_initialiser_that_raises_is_told_with_layer_and_parameter(device):
    model = Sequential(Linear(2), Linear(1, weight_init=lambda shape, draw: 1 / 0))
    told = (
        r"^parameter 'weight': needs an initialiser .*, got ZeroDivisionError: (.|\n)*1 \(Linear\)"
    )
    with pytest.raises(ArgumentError, match=told) as caught:
        model(tensor([[1.0]], device=device))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert not any(cell.materialized for cell in model.get_states().values())
