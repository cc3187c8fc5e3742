"""The table of layers: shapes without data, every number counted once, and nothing changed."""

import numpy as np
import pytest

from nets import Net, Scale, batch, contents, made
from singa_core import Layer, Parameter, Placeholder, random, tensor
from singa_core.errors import ArgumentError, ShapeError
from singa_core.layers import Embedding, Linear, Sequential
from singa_core.summary import observed, rows, summary

TABLE = """\
layer         type        output          parameters  bytes
-----------------------------------------------------------
(model)       Net         float32 (6, 3)
body          Sequential  float32 (6, 3)
body.steps.0  Linear      float32 (6, 8)          40    160
body.steps.1  ReLU        float32 (6, 8)
body.steps.2  Dropout     float32 (6, 8)
body.steps.3  Linear      float32 (6, 3)          27    108
-----------------------------------------------------------
67 parameters, 268 bytes"""


def test_the_table_worked_by_hand():
    assert summary(Net(), [Placeholder((6, 4))]) == TABLE


@pytest.mark.parametrize("inputs", [
    [Placeholder((6, 4))], Placeholder((6, 4)), [np.zeros((6, 4), np.float32)], (tensor(np.zeros((6, 4), np.float32)),),
], ids=["list", "alone", "array", "tensor"])  # fmt: skip
def test_inputs_are_shapes(inputs):
    assert summary(Net(p=0.5), inputs) == TABLE


def test_the_table_of_a_trained_model_on_any_device(device):
    model = made(device)
    for _ in range(2):
        model.train_one_batch(*batch(device))
    before, report = contents(model), model.graph_report()
    launches = getattr(device, "launches", None)
    streams = {name: stream.state() for name, stream in random.STREAMS.items()}
    assert summary(model, [Placeholder((6, 4))]) == TABLE
    assert getattr(device, "launches", None) == launches
    assert {name: stream.state() for name, stream in random.STREAMS.items()} == streams
    assert (contents(model), model.graph_report()) == (before, report)
    model.train_one_batch(*batch(device))
    functions = [line["function"] for line in model.graph_report()]
    assert functions == ["train_one_batch"]  # what was recorded is still valid


def test_a_model_that_was_never_called_is_as_undecided_as_before():
    model, twin = Net(), None
    shown = repr(model)
    summary(model, [Placeholder((6, 4))])
    assert repr(model) == shown
    assert set(contents(model).values()) == {None}
    assert model.body.steps[0].weight.shape == (None, 8)
    model(np.zeros((2, 7), np.float32))  # another size is welcome
    assert model.body.steps[0].weight.shape == (7, 8)
    random.manual_seed(0)
    one = made("cpu_numpy")
    random.manual_seed(0)
    twin = Net()
    summary(twin, [Placeholder((6, 4))])
    twin.compile([Placeholder((6, 4), device="cpu_numpy")])
    assert contents(twin) == contents(one)


def test_a_summary_that_fails_changes_nothing_either():
    model = Net()
    model.body.steps[3] = Linear(3, in_features=5)
    with pytest.raises(ShapeError, match=r"in body.steps.3 \(Linear\)"):
        summary(model, [Placeholder((6, 4))])
    assert model.body.steps[0].weight.shape == (None, 8)
    assert "forward" not in vars(model)
    assert "forward" not in vars(model.body.steps[0])


class Tied(Layer):
    """One layer twice, one parameter in two layers, one layer never, and state."""

    def __init__(self):
        self.twice = Linear(4, in_features=4)
        self.head, self.scale = Linear(4, in_features=4), Scale()
        self.head.weight = self.twice.weight
        self.head.bias.requires_grad = False
        self.idle = Embedding(10, 3)

    def forward(self, x):
        return {"y": self.scale(self.head(self.twice(self.twice(x)))), "n": 3}


def test_what_is_shared_counts_once_and_what_is_frozen_or_state_apart():
    found = {row.name: row for row in rows(Tied(), [Placeholder((2, 4))])}
    assert found["twice"].calls == 2
    numbers = {
        name: (row.parameters, row.frozen, row.state, row.nbytes) for name, row in found.items()
    }
    assert numbers == {
        "": (0, 0, 0, 0), "twice": (20, 0, 0, 80), "head": (4, 4, 0, 16),
        "scale": (8, 0, 1, 36), "idle": (30, 0, 0, 120),
    }  # fmt: skip
    assert found["idle"].output == "(not called)"
    text = summary(Tied(), [Placeholder((2, 4))])
    assert "twice    Linear     float32 (2, 4) x 2 " in text
    assert "(model)  Tied       {'y': float32 (2, 4), 'n': int}" in text
    assert text.endswith("\n62 parameters (4 frozen), 1 numbers of state, 252 bytes")


def test_large_numbers_are_readable():
    text = summary(Linear(1000), [Placeholder((1, 2000), "float32")])
    assert text.splitlines()[2].split()[-2:] == ["2,001,000", "8,004,000"]
    assert text.endswith("8,004,000 bytes (7.6 MiB)")


def test_sizes_that_nobody_told_are_left_out():
    class Lazy(Layer):
        def __init__(self):
            self.a, self.b = Linear(2, in_features=2), Linear(3)

        def forward(self, x):
            return self.a(x)

    assert summary(Lazy(), [Placeholder((1, 2))]).endswith("\n9 parameters, 36 bytes")


def test_inputs_of_nothing_are_refused():
    with pytest.raises(ArgumentError, match="summary: needs inputs, got a model that was not comp"):
        summary(Net())
    with pytest.raises(
        ArgumentError, match="needs placeholders, tensors or arrays, got str as input 1"
    ):
        summary(Net(), [Placeholder((6, 4)), "x"])


def test_observed_calls_are_told_in_order_and_no_longer(device):
    model, seen = Net(), []
    model.body.steps[1].forward = mine = lambda x: x * 2.0
    x, _ = batch(device)

    def see(path, layer, inputs, made):
        assert inputs[0].shape[0] == made.shape[0] == 6
        seen.append((path, type(layer).__name__))

    with observed(model, see):
        model(x)
    names = [f"body.steps.{i}" for i in range(4)]
    assert [path for path, _ in seen] == [*names, "body", ""]
    model(x)
    assert len(seen) == 6
    assert vars(model.body.steps[1])["forward"] is mine
    assert "forward" not in vars(model)


def test_a_parameter_of_the_model_itself():
    class Own(Layer):
        def __init__(self):
            self.weights = [Parameter((2,)), Parameter((3,), dtype="float16")]
            self.inner = Sequential(Linear(2))

        def forward(self, x):
            return self.inner(x)

    first, *_ = rows(Own(), [Placeholder((1, 2))])
    assert (first.parameters, first.nbytes) == (5, 14)
