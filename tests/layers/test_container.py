import pytest

from checks import both
from singa_core import graph, no_grad, ops
from singa_core.errors import ArgumentError, RecordingError, ShapeError
from singa_core.layers import Dropout, Flatten, Lambda, Linear, ReLU, Sequential


def test_sequential_by_hand(array):
    net = Sequential(Linear(2, weight_init=[[1.0, -1.0]]), ReLU(), lambda x: x * 10.0)
    assert both(net, array([[2.0], [-3.0]])).tolist() == [[20.0, 0.0], [0.0, 30.0]]


def test_an_empty_one_gives_its_input(array):
    x = array([1.0])
    assert Sequential()(x).array is x.array
    assert (len(Sequential()), list(Sequential())) == (0, [])


def test_indices_slices_and_loops():
    net = Sequential(Linear(3), ReLU(), Dropout(0.5), Linear(2))
    assert net[0] is net.steps[0]
    assert net[-1] is net.steps[3]
    assert list(net) == net.steps
    assert len(net) == 4
    head = net[:2]
    assert type(head) is Sequential
    assert list(head) == net.steps[:2]
    assert list(head.get_params()) == ["steps.0.weight", "steps.0.bias"]
    assert head.get_params()["steps.0.weight"] is net[0].weight
    with pytest.raises(IndexError, match="range"):
        net[4]


def test_a_slice_shares_its_layers(array):
    net, x = Sequential(Linear(3), ReLU(), Linear(2)), array([[1.0, 2.0]])
    hidden = net[:2](x)
    assert net[0].weight.materialized
    assert not net[2].weight.materialized
    assert net(x).tolist() == net[2](hidden).tolist()


def test_functions_become_layers(array):
    net = Sequential(ops.relu, lambda x: x + 1.0)
    assert all(isinstance(step, Lambda) for step in net)
    assert repr(net) == "Sequential(\n  (steps.0): Lambda(relu)\n  (steps.1): Lambda(<lambda>)\n)"
    assert net(array([-1.0])).tolist() == [1.0]
    with pytest.raises(ShapeError, match=r"\n  in steps.0 \(Lambda\)$"):
        Sequential(lambda x: x.reshape(7))(array([1.0]))


@pytest.mark.parametrize(("steps", "text"), [
    ((ReLU(), 3), r"Sequential: needs layers or functions, got 3 at 1$"),
    ((None,), r"got None at 0"),
    (([ReLU(), ReLU()],), r"got \[ReLU\(\), ReLU\(\)\] at 0\ntry: Sequential\(\*layers\)"),
    ((ReLU, 3), r"got the class ReLU at 0\ntry: ReLU\(...\)"),
])  # fmt: skip
def test_steps_that_are_none(steps, text):
    with pytest.raises(ArgumentError, match=text):
        Sequential(*steps)


def test_nested_ones_and_a_layer_twice(array):
    twice = Linear(2, weight_init="eye", bias_init="ones")
    net = Sequential(twice, Sequential(twice, Flatten()))
    assert both(net, array([[1.0, 2.0]])).tolist() == [[3.0, 4.0]]
    assert list(net.get_params()) == ["steps.0.weight", "steps.0.bias"]


def test_the_error_names_the_step(array):
    net = Sequential(Linear(2), Sequential(ReLU(), Linear(3, in_features=5)))
    with pytest.raises(ShapeError, match=r"\n  in steps.1.steps.1 \(Linear\)$"):
        net(array([[1.0, 2.0]]))
    assert not net[0].weight.materialized


def test_reading_a_value_between_steps_names_the_line(array):
    net = Sequential(ReLU(), lambda x: x if x.sum() > 0 else -x)
    with no_grad():
        assert net(array([2.0])).tolist() == [2.0]
    with pytest.raises(
        RecordingError,
        match=r"bool\(\) at .*test_container.py:\d+\n(.*\n)*  in steps.1 \(Lambda\)$",
    ):
        graph(lambda x: net(x))(array([2.0]))
