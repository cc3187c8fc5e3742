"""Layer: names, sizes learnt from the first input, sharing, and what errors say."""

import numpy as np
import pytest

from nets import Block, Scale, contents
from singa_core import (
    Layer,
    Model,
    Parameter,
    Placeholder,
    gradients,
    graph,
    no_grad,
    ops,
    opt,
    random,
    tensor,
)
from singa_core.engine import GraphFunction
from singa_core.errors import ArgumentError, ShapeError
from singa_core.layers import Dropout, Lambda, Linear, ReLU, Sequential, Tanh


class Tree(Layer):
    def __init__(self):
        self.stem = Linear(3)
        self.blocks = [Block(), Block()]
        self.heads = {"a": Linear(1), "b": [Linear(1), ReLU()]}
        self.pair = (Scale(), 5)
        self.plain = 7

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return (
            self.heads["a"](x) + self.heads["b"][1](self.heads["b"][0](x)) + self.pair[0](x).sum()
        )


# -- names -----------------------------------------------------------------------------------------


def test_names_walk_attributes_lists_tuples_and_dicts(array):
    tree = Tree()
    names = [
        "stem.weight", "stem.bias", "blocks.0.first.factor", "blocks.0.first.offset",
        "blocks.0.second.weight", "blocks.0.second.bias", "blocks.1.first.factor",
        "blocks.1.first.offset", "blocks.1.second.weight", "blocks.1.second.bias", "heads.a.weight",
        "heads.a.bias", "heads.b.0.weight", "heads.b.0.bias", "pair.0.factor", "pair.0.offset",
    ]  # fmt: skip
    assert list(tree.get_params()) == names
    assert tree.get_params()["stem.weight"].shape == (None, 3)
    tree(array([[1.0, 2.0]]))
    assert list(tree.get_params()) == names
    assert tree.get_params()["stem.weight"].shape == (2, 3)
    states = set(tree.get_states()) - set(names)
    assert states == {"blocks.0.first.seen", "blocks.1.first.seen", "pair.0.seen"}
    assert list(tree.sublayers()) == [
        "stem", "blocks.0", "blocks.0.first", "blocks.0.second", "blocks.1", "blocks.1.first",
        "blocks.1.second", "heads.a", "heads.b.0", "heads.b.1", "pair.0",
    ]  # fmt: skip
    assert tree.layers() == [tree, *tree.sublayers().values()]


def test_a_shared_layer_and_a_tied_parameter_appear_once_and_learn_once(array):
    class Shared(Layer):
        def __init__(self):
            self.once = Linear(2)
            self.again = self.once
            self.tied = Linear(2)
            self.tied.weight = self.once.weight

        def forward(self, x):
            return self.tied(self.again(self.once(x)))

    shared, x = Shared(), array([[1.0, 2.0]])
    y = shared(x)
    assert list(shared.get_params()) == ["once.weight", "once.bias", "tied.bias"]
    assert list(shared.sublayers()) == ["once", "tied"]
    w = shared.once.weight
    assert shared.tied.weight is shared.again.weight is w
    host = w.numpy().astype(np.float64)
    np.testing.assert_allclose(y.numpy(), [[1.0, 2.0]] @ host @ host @ host, rtol=1e-5)
    (slope,) = gradients(shared(x).sum(), [w])
    sgd = opt.SGD(0.5)
    sgd(y.sum())
    np.testing.assert_allclose(w.numpy(), host - 0.5 * slope.numpy(), rtol=1e-5)


def test_the_first_path_wins_and_deleting_it_leaves_the_second():
    class Two(Layer):
        def __init__(self):
            self.first = [Linear(2)]
            self.second = self.first[0].weight  # its own parameters come before those of sublayers

    two = Two()
    assert list(two.get_params()) == ["second", "first.0.bias"]
    del two.second
    assert list(two.get_params()) == ["first.0.weight", "first.0.bias"]
    with pytest.raises(AttributeError, match="second"):
        del two.second


@pytest.mark.parametrize("make", [
    lambda: {"1": Linear(1), 1: Linear(2)}, lambda: {"a.b": Linear(1), "a": {"b": Linear(2)}},
    lambda: {"a.b": Parameter((1,)), "a": [Parameter((1,))], "a.0": Parameter((2,))},
])  # fmt: skip
def test_two_things_of_one_name_are_refused(make):
    class Clash(Layer):
        def __init__(self):
            self.table = make()

    with pytest.raises(
        ArgumentError,
        match=r"names: needs one layer or parameter for each, got 'table\.\S+'\ntry: dict keys",
    ):
        Clash().get_states()


def test_sets_have_no_order_to_name_layers_by(array):
    class Unordered(Layer):
        def __init__(self):
            self.plain = {1, 2}

        def forward(self, x):
            return x

    net = Sequential(Unordered())
    net.steps[0].plain.add(Linear(1))  # one that is set with layers in it is refused at once
    text = "attribute 'plain': needs a list, tuple or dict of layers or parameters, got a set, which has no order"
    with pytest.raises(ArgumentError, match=text):
        net.get_params()
    with pytest.raises(ArgumentError, match=text):
        net(array([1.0]))


def test_repr_shows_the_tree():
    text = repr(Sequential(Linear(3, in_features=2), Sequential(ReLU(), Dropout(0.25))))
    assert text == (
        "Sequential(\n  (steps.0): Linear(3, in_features=2, bias=True)\n  (steps.1): Sequential(\n"
        "    (steps.0): ReLU()\n    (steps.1): Dropout(p=0.25)\n  )\n)"
    )
    assert repr(Scale()) == "Scale(fail=False)"


def test_a_layer_may_know_its_parent(array):
    block = Block()
    block.first.parent = block
    assert list(block.get_params()) == [
        "first.factor",
        "first.offset",
        "second.weight",
        "second.bias",
    ]
    assert "(parent): ..." in repr(block)
    assert block(array([[1.0, 2.0]])).shape == (1, 2)
    assert graph(block.__call__)(array([[1.0, 2.0]])).shape == (1, 2)


# -- the first call --------------------------------------------------------------------------------


def test_sizes_come_with_the_first_input_and_stay(array):
    layer = Scale()
    assert not layer.factor.materialized
    assert layer(array([[1.0, 2.0]])).tolist() == [[1.0, 2.0]]
    assert layer.factor.shape == (2,)
    with pytest.raises(ShapeError, match="mul"):
        layer(array([[1.0, 2.0, 3.0]]))
    assert layer.factor.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("recorded", [False, True])
def test_a_first_call_that_fails_decides_nothing(array, recorded):
    class Net(Layer):
        def __init__(self):
            self.good, self.bad = Block(), Scale(fail=True)

        def forward(self, x):
            return self.bad(self.good(x))

    random.manual_seed(5)
    untouched = Net()
    untouched.bad.fail = False
    random.manual_seed(5)
    net = Net()
    call = GraphFunction(net.__call__) if recorded else net
    before = {name: cell.shape for name, cell in net.get_states().items()}
    with pytest.raises(ShapeError, match="a bad one"):
        call(array([[1.0, 2.0, 3.0]]))
    assert {name: cell.shape for name, cell in net.get_states().items()} == before
    assert not any(cell.materialized for cell in net.get_states().values())
    net.bad.fail = False
    assert call(array([[1.0, 2.0]])).shape == (1, 2)
    assert net.good.second.weight.shape == (2, 2)
    untouched(array([[1.0, 2.0]]))
    assert contents(net) == contents(untouched)  # the failed call has drawn no numbers


def test_a_first_call_that_fails_keeps_what_others_had_learnt(array):
    known = Linear(3)
    known(array([[1.0, 2.0]]))
    before = known.weight.tolist()
    with pytest.raises(ShapeError, match="a bad one"):
        Sequential(known, Scale(fail=True))(array([[1.0, 2.0]]))
    assert known.weight.tolist() == before
    layer = Scale()
    layer(array([[1.0, 2.0]]))
    layer.fail = True
    with pytest.raises(ShapeError):
        layer(array([[1.0, 2.0]]))
    assert layer.factor.shape == (2,)


def test_a_parameter_whose_size_nobody_fills_is_named(array):
    class Lazy(Layer):
        def __init__(self):
            self.weight = Parameter((None, 2))

        def forward(self, x):
            return x @ self.weight

    text = (
        r"^parameter 'weight': needs known sizes after initialize\(\), got \(None, 2\)\n"
        r"try: self.weight.set_shape\(...\) in initialize\n  in steps.0 \(Lazy\)$"
    )
    with pytest.raises(ShapeError, match=text):
        Sequential(Lazy())(array([[1.0]]))


@pytest.mark.parametrize("order", ["call", "compile", "recorded"])
def test_initial_values_depend_on_the_seed_and_the_order_of_making_alone(device, order):
    class Net(Model):
        def __init__(self):
            self.late, self.early = Linear(3), Sequential(Linear(4), Tanh())

        def forward(self, x):
            return self.late(self.early(x))

    def weights(order, device, width=5):
        random.manual_seed(3)
        net = Net()
        if order == "compile":
            net.compile([Placeholder((2, width), device=device)])
        else:
            call = GraphFunction(net.__call__) if order == "recorded" else net
            call(tensor(np.ones((2, width), np.float32), device=device))
        return {name: cell.numpy().tobytes() for name, cell in net.get_params().items()}

    here = weights(order, device)
    assert here == weights("call", "cpu_numpy")
    other = weights(order, device, width=7)  # a size moves nothing but its own numbers
    assert [name for name in here if here[name] != other[name]] == ["early.steps.0.weight"]


def test_the_first_call_is_not_recorded(array):
    net = Sequential(Linear(3), Dropout(0.0), Linear(1))

    @graph
    def step(x):
        return net(x).sum()

    x = array([[1.0, 2.0]])
    first = step(x).item()
    assert step(x).item() == first
    assert step.records == 1
    assert net(x).item() == pytest.approx(first, rel=1e-6)
    assert not any("random" in i.op for i in step.recordings[0].program.instructions)


def test_an_attribute_set_to_a_new_parameter_is_initialised_by_the_next_call(array):
    layer, x = Linear(2), array([[1.0, 1.0, 1.0]])
    call = GraphFunction(layer.__call__)
    call(x)
    layer.weight = Parameter((None, 2), "ones")
    assert call(x).tolist() == layer(x).tolist() == [[3.0, 3.0]]
    assert layer.weight.shape == (3, 2)


def test_numpy_inputs_go_where_the_parameters_are(device):
    layer = Linear(2, weight_init="ones")
    host = np.ones((1, 3), np.float32)
    assert layer.to(device)(host).device is device
    assert layer(host).tolist() == [[3.0, 3.0]]
    net = Sequential(Lambda(lambda x: x * 2), layer)
    assert net(host).tolist() == [[6.0, 6.0]]  # the function has got a tensor


# -- other things a layer may hold -----------------------------------------------------------------


def test_a_plain_tensor_is_no_state_but_is_read(array):
    class Masked(Layer):
        def __init__(self):
            self.linear, self.mask = Linear(2, weight_init="ones"), array([1.0, 0.0])

        def forward(self, x):
            return self.linear(x) * self.mask

    layer, x = Masked(), array([[1.0, 2.0]])
    step = graph(lambda x: layer(x))
    assert step(x).tolist() == [[3.0, 0.0]]
    assert list(layer.get_states()) == ["linear.weight", "linear.bias"]
    layer.mask.assign(array([0.0, 2.0]))
    assert step(x).tolist() == [[0.0, 6.0]]
    assert step.records == 1
    layer.mask = array([5.0, 5.0])
    assert step(x).tolist() == [[15.0, 15.0]]
    assert step.records == 2


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    "kind", [tensor, np.asarray, list, lambda v: 3.0, lambda v: np.float32(2), lambda v: 1]
)
@pytest.mark.parametrize("name", ["factor", "offset", "seen"])
def test_a_value_does_not_take_a_parameter_s_place(array, name, kind, recorded):
    layer, x = Scale(), array([[1.0, 2.0]])
    before, value = contents(layer), kind([5.0, 5.0])
    for _ in range(2):  # before it has a value, and after
        cell = "State" if name == "seen" else "Parameter"
        told = f"Scale.{name}: needs a {cell} in place of a {cell}, or None, got a "
        with pytest.raises(
            ArgumentError, match=f"^{told}{type(value).__name__}\ntry: layer.{name}.assign"
        ):
            (graph(lambda: setattr(layer, name, value)) if recorded else lambda: setattr(layer, name, value))()  # fmt: skip
        assert contents(layer) == before
        layer(x)
        before = contents(layer)


def test_what_may_take_a_parameter_s_place(array):
    layer, x = Scale(), array([[1.0, 2.0]])
    layer(x)
    with no_grad():
        layer.factor *= 2.0  # the cell itself, with a new value
    layer.offset = layer.factor
    assert layer(x).tolist() == [[4.0, 6.0]]
    layer.offset = Parameter((2,), "ones")
    assert layer(x).tolist() == [[3.0, 5.0]]
    del layer.offset
    layer.offset = array([1.0, 2.0])
    assert layer(x).tolist() == [[3.0, 6.0]]
    assert list(layer.get_params()) == ["factor"]
    layer.factor = None
    assert list(layer.get_params()) == []


def test_an_activation_kept_as_an_attribute_is_no_parameter(array):
    class Keeps(Layer):
        def __init__(self):
            self.linear = Linear(2)

        def forward(self, x):
            self.hidden = self.linear(x)
            return self.hidden * 2.0

    layer, x = Keeps(), array([[1.0, 2.0]])
    layer(x)
    assert list(layer.get_states()) == ["linear.weight", "linear.bias"]
    function = GraphFunction(lambda x: layer(x))
    function(x)
    with pytest.raises(RuntimeError, match="outside of its recording"):
        layer.hidden.numpy()
    assert function(x).shape == (1, 2)


def test_a_layer_in_two_models_is_one_layer(array):
    class Net(Model):
        def __init__(self, shared):
            self.shared, self.head = shared, Linear(1)
            self.loss, self.optimizer = ops.mse_loss, opt.SGD(0.02, momentum=0.5)

        def forward(self, x):
            return self.head(self.shared(x))

    def run(use_graph):
        random.manual_seed(0)
        shared = Linear(2)
        one, two = (Net(shared).compile([x], use_graph=use_graph) for _ in range(2))
        losses = [net.train_one_batch(x, y)[1].item() for _ in range(4) for net in (one, two)]
        assert one.shared.weight is two.shared.weight
        return losses, contents(one), contents(two)

    x, y = array([[1.0, -1.0]]), array([[1.0]])
    want = run(False)
    assert run(True) == want
    assert sum(want[0][-2:]) < sum(want[0][:2])


# -- errors ----------------------------------------------------------------------------------------


def test_errors_tell_the_path_of_the_layer(array):
    class Deep(Layer):
        def __init__(self):
            self.stages = [Block(), Block()]
            self.routes = {"left": self.stages[1]}

        def forward(self, x):
            return self.stages[1](x)

    deep, wrong = Deep(), array([[1.0, 2.0, 3.0]])
    deep(array([[1.0, 2.0]]))
    with pytest.raises(ShapeError, match=r"needs .*got .*\n(.*\n)*  in stages.1.first \(Scale\)$"):
        deep(wrong)
    with pytest.raises(ShapeError, match=r"\n  in first \(Scale\)$"):
        deep.stages[1](wrong)
    with pytest.raises(ShapeError, match=r"\n  in Scale$"):
        deep.stages[1].first(wrong)
    with pytest.raises(ShapeError, match=r"\n  in stages.1.first \(Scale\)$"):
        GraphFunction(deep.__call__)(wrong)
    assert deep(array([[1.0, 2.0]])).shape == (1, 2)


def test_other_exceptions_pass_through_as_they_are(array):
    net = Sequential(Lambda(lambda x: {}["missing"]))
    with pytest.raises(KeyError, match="missing"):
        net(array(1.0))


def test_a_layer_without_forward_says_so(array):
    with pytest.raises(ArgumentError, match="Layer: needs a forward method, got none"):
        Layer()(array(1.0))
