"""Model: compile without data, graphs on and off, and the default training step."""

import gc

import numpy as np
import pytest

from house import counts
from singa_core import Model, Parameter, Placeholder, State, no_grad, ops, opt, random, tensor
from singa_core.errors import ArgumentError, DeviceError, RecordingError, ShapeError
from singa_core.layers import Dropout, Linear, ReLU, Sequential, Tanh


class Mlp(Model):
    def __init__(self, p=0.5):
        self.body = Sequential(Linear(16), ReLU(), Dropout(p), Linear(4))
        self.loss = ops.cross_entropy

    def forward(self, x):
        return self.body(x)


TRACED = []  # not an attribute: that would be part of what a recording depends on


class Counting(Mlp):
    """Its step has several inputs and options, and state of its own."""

    def __init__(self):
        super().__init__()
        self.calls, self.mean = State((), "zeros"), State((4,), "zeros")

    def train_one_batch(self, x, labels, *, weight=1.0):
        TRACED.append(labels.shape)
        out = self.forward(x)
        self.calls.assign(self.calls + 1.0)
        self.mean.assign(self.mean * 0.5 + out.detach().mean(axis=0) * 0.5)
        loss = self.loss(out, labels) * weight
        self.optimizer(loss)
        return {"loss": loss, "out": out}


def batch(device, n=8, seed=0):
    rng = np.random.default_rng(seed)
    x = tensor(rng.normal(size=(n, 6)).astype(np.float32), device=device)
    return x, tensor(rng.integers(0, 4, n), device=device)


def states(model):
    return {name: cell.numpy().tobytes() for name, cell in model.get_states().items()}


OPTIMIZERS = {
    "sgd": lambda: opt.SGD(0.1), "momentum": lambda: opt.SGD(0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda: opt.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: opt.Adam(0.01), "adamw": lambda: opt.AdamW(lambda step: 0.01 / (step + 1)),
}  # fmt: skip

# -- compile ------------------------------------------------------------------------------------------


def test_compile_needs_no_data_and_leaves_state_as_it_is(device):
    model = Counting()
    streams = {name: s.state() for name, s in random.STREAMS.items()}
    launches = getattr(device, "launches", None)
    assert model.compile([Placeholder((8, 6), device=device)]) is model
    assert {name: s.state() for name, s in random.STREAMS.items()} == streams
    assert getattr(device, "launches", None) == launches
    assert model.get_params()["body.steps.0.weight"].shape == (6, 16)
    assert str(model.calls.device) == device.name
    assert model.calls.item() == 0.0
    assert model.training


def test_compile_of_a_trained_model_changes_nothing(device):
    model = Counting()
    model.optimizer = opt.Adam(0.01)
    x, labels = batch(device)
    model.compile([x])
    model.train_one_batch(x, labels)
    before, steps = states(model), model.optimizer.steps.value
    for options in ({}, {"is_train": False}, {"use_graph": False}, {"graph_alg": "sequence"}):
        model.compile([x], **options)
        assert states(model) == before
        assert model.optimizer.steps.value == steps
        assert model.training is options.get("is_train", True)


def test_compile_takes_placeholders_tensors_and_arrays(device):
    for given in (Placeholder((2, 6), device=device), batch(device, 2)[0]):
        model = Mlp().compile([given])
        assert model.body.steps[3].weight.shape == (16, 4)
    model = Mlp().compile([np.zeros((2, 6), np.float32)])
    assert model.body.steps[0].weight.shape == (6, 16)


@pytest.mark.parametrize(("inputs", "options", "text"), [
    ([Placeholder((2, 6))], {"graph_alg": "fast"}, r"compile: needs graph_alg among memory, sequence, got 'fast'"),
    ([[1.0, 2.0]], {}, r"compile: needs placeholders, tensors or arrays, got list as input 0\ntry: Placeholder"),
    (Placeholder((2, 6)), {}, r"compile: needs a list of inputs, got Placeholder"),
])  # fmt: skip
def test_compile_refuses(inputs, options, text):
    model = Mlp()
    with pytest.raises(ArgumentError, match=text):
        model.compile(inputs, is_train=False, **options)
    assert model.training
    assert model.body.steps[0].weight.shape == (None, 16)


def test_a_compile_that_fails_decides_nothing():
    class Wrong(Mlp):
        def forward(self, x):
            return self.body(x).reshape(3, 3)

    model = Wrong()
    with pytest.raises(ShapeError, match="reshape"):
        model.compile([Placeholder((2, 6))])
    assert model.body.steps[0].weight.shape == (None, 16)
    assert not any(cell.materialized for cell in model.get_states().values())


def test_reading_a_value_while_compiling_names_the_line():
    class Reads(Mlp):
        def forward(self, x):
            return self.body(x) if x.sum() > 0 else x

    with pytest.raises(RecordingError, match=r"bool\(\) at .*test_model.py:\d+"):
        Reads().compile([Placeholder((2, 6))])


# -- graphs on and off --------------------------------------------------------------------------------


def trained(device, optimizer, *, use_graph, alg="memory", kind=Mlp, steps=10):
    """Facts of some steps: losses, outputs, evaluation, and all state at the end."""
    random.manual_seed(11)
    model = kind()
    model.optimizer = OPTIMIZERS[optimizer]()
    model.compile([Placeholder((8, 6), device=device)], use_graph=use_graph, graph_alg=alg)
    facts = []
    for step in range(steps):
        made = model.train_one_batch(*batch(device, n=5 if step == 4 else 8, seed=step))
        out, loss = (made["out"], made["loss"]) if isinstance(made, dict) else made
        facts.append((out.numpy().tobytes(), loss.numpy().tobytes()))
        if step % 3 == 0:
            with no_grad():
                facts.append(model.eval()(batch(device, seed=99)[0]).numpy().tobytes())
            model.train()
        if step == 6:
            model.optimizer.lr = 0.03
    slots = model.optimizer.get_states(model.get_params())
    slots = {k: v if isinstance(v, int) else v.numpy().tobytes() for k, v in slots.items()}
    return facts, states(model), slots, random.STREAMS["train"].state()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_gives_the_same_bits_with_and_without_graphs(device, optimizer):
    want = trained(device, optimizer, use_graph=False)
    for alg in ("memory", "sequence"):
        got = trained(device, optimizer, use_graph=True, alg=alg)
        assert got == want
        counts.bitwise_compared(len(want[0]) + len(want[1]) + len(want[2]))
    assert len({loss for _, loss in (f for f in want[0] if isinstance(f, tuple))}) == 10


def test_a_step_of_one_s_own_gives_the_same_bits_too(device):
    want = trained(device, "adam", use_graph=False, kind=Counting)
    assert trained(device, "adam", use_graph=True, kind=Counting) == want


def test_initial_weights_are_the_same_on_every_device():
    def weights(name):
        random.manual_seed(4)
        return states(Mlp().compile([Placeholder((2, 6), device=name)]))

    assert weights("cpu_numpy") == weights("far")


def test_graphs_are_recorded_once_per_kind_of_call(device):
    TRACED.clear()
    model = Counting()
    model.optimizer = opt.SGD(0.1)
    model.compile([Placeholder((8, 6), device=device)])
    for step in range(4):
        model.train_one_batch(*batch(device, seed=step))
    assert (len(TRACED), model.calls.item()) == (1, 4.0)
    model.train_one_batch(*batch(device, n=3))
    model.train_one_batch(*batch(device), weight=2.0)
    model.train_one_batch(*batch(device))
    assert len(TRACED) == 3
    model.eval()
    model.train_one_batch(*batch(device))
    model.train()
    model.train_one_batch(*batch(device))
    assert len(TRACED) == 4
    model.body.steps[2].p = 0.25
    model.train_one_batch(*batch(device))
    assert len(TRACED) == 5
    model.optimizer.weight_decay = 0.5
    model.train_one_batch(*batch(device))
    assert len(TRACED) == 6
    assert len([r for r in model.graph_report() if r["function"] == "train_one_batch"]) == 6


def test_without_compile_everything_is_eager(device):
    model = Mlp()
    model.bias = Parameter((4,), "ones")
    model.loss = lambda out, labels: ops.cross_entropy(out + model.bias, labels)
    model.optimizer = opt.SGD(0.1)
    x, labels = batch(device)
    losses = [model.train_one_batch(x, labels)[1].item() for _ in range(20)]
    assert losses[-1] < losses[0]
    assert model.bias.tolist() != [1.0] * 4
    assert model.graph_report() == []


def test_calling_the_model_has_a_history_where_one_may_be_wanted(device):
    model = Mlp(p=0.0).compile([Placeholder((8, 6), device=device)])
    x, labels = batch(device)
    y = model(x)
    assert y.requires_grad
    ops.cross_entropy(y, labels).backward()
    assert model.body.steps[0].weight.grad is not None
    assert model.graph_report() == []
    model.eval()
    assert not model(x).requires_grad
    assert len(model.graph_report()) == 1
    with no_grad():
        np.testing.assert_array_equal(model(x).numpy(), y.numpy())
    x.requires_grad = True
    assert model(x).requires_grad
    x.requires_grad = False
    model.train()
    with no_grad():
        assert not model(x).requires_grad
    assert len(model.graph_report()) == 3


def test_a_model_inside_a_model_is_inlined(device):
    class Outer(Model):
        def __init__(self):
            self.inner, self.head = Mlp(p=0.0), Linear(4)
            self.loss = ops.cross_entropy

        def forward(self, x):
            return self.head(self.inner(x))

    outer = Outer()
    outer.optimizer = opt.SGD(0.1)
    outer.inner.compile([Placeholder((8, 6), device=device)])
    outer.compile([Placeholder((8, 6), device=device)])
    for _ in range(2):
        outer.train_one_batch(*batch(device))
    outer.eval()(batch(device)[0])
    assert len(outer.graph_report()) == 2
    assert outer.inner.graph_report() == []
    names = list(outer.get_params())
    assert names[0] == "inner.body.steps.0.weight"
    assert names[-1] == "head.bias"


def test_two_models_interleaved_keep_apart(device):
    def pair():
        random.manual_seed(2)
        made = [Mlp().compile([Placeholder((8, 6), device=device)]) for _ in range(2)]
        for model, rate in zip(made, (0.1, 0.2), strict=True):
            model.optimizer = opt.SGD(rate, momentum=0.5)
        return made

    one, other = pair()
    for step in range(4):
        for model in (one, other):
            model.train_one_batch(*batch(device, seed=step))
    together = states(one), states(other)
    one, other = pair()
    for model in (one, other):
        object.__setattr__(model, "_graphs", None)
    for step in range(4):
        for model in (one, other):
            model.train_one_batch(*batch(device, seed=step))
    assert (states(one), states(other)) == together


# -- several inputs, losses, optimisers ---------------------------------------------------------------


class Adversaries(Model):
    """Two networks, two losses, two optimisers."""

    def __init__(self):
        self.maker, self.judge = Sequential(Linear(3), Tanh()), Linear(1)
        self.bias = Parameter((), "zeros")
        self.optimizers = [opt.SGD(0.1, momentum=0.5), opt.Adam(0.05, params=None)]

    def initialize(self, *inputs):
        self.optimizers[0].params = list(self.maker.get_params().values())
        self.optimizers[1].params = [*self.judge.get_params().values(), self.bias]

    def forward(self, x, noise):
        return self.judge(self.maker(noise)), self.judge(x) + self.bias

    def train_one_batch(self, x, noise):
        made, real = self.forward(x, noise)
        judged = (made * made).mean() + ((real - 1.0) * (real - 1.0)).mean()
        self.optimizers[1](judged)
        fooled = (self.judge(self.maker(noise)) - 1.0).square().mean()
        self.optimizers[0](fooled)
        return judged, [fooled]


def test_several_inputs_losses_and_optimisers(device):
    def run(use_graph):
        random.manual_seed(1)
        model = Adversaries()
        x, noise = batch(device)[0][:, :3], batch(device, seed=1)[0]
        model.compile([x, noise], use_graph=use_graph)
        losses = []
        for _ in range(6):
            judged, (fooled,) = model.train_one_batch(x, noise)
            losses.append((judged.item(), fooled.item()))
        assert [o.steps.value for o in model.optimizers] == [6, 6]
        return losses, states(model)

    want, got = run(False), run(True)
    assert got == want
    assert want[0][-1][0] != want[0][0][0]


# -- the default step ---------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("missing", ["loss", "optimizer"])
def test_the_default_step_says_what_is_missing(device, compiled, missing):
    model = Mlp()
    model.optimizer = opt.SGD(0.1)
    setattr(model, missing, None)
    x, labels = batch(device)
    if compiled:
        model.compile([x])
    text = rf"Mlp: needs the attribute '{missing}' for the default train_one_batch, got none\ntry: set model.{missing}"
    with pytest.raises(ArgumentError, match=text):
        model.train_one_batch(x, labels)


def test_the_default_step_learns(device):
    model = Mlp(p=0.0)
    model.optimizer = opt.Adam(0.05)
    x, labels = batch(device, n=16)
    model.compile([x])
    losses = [model.train_one_batch(x, labels)[1].item() for _ in range(60)]
    assert losses[-1] < 0.1 < losses[0]
    out = model.eval()(x)
    assert out.numpy().argmax(axis=1).tolist() == labels.tolist()


def test_a_loss_that_reaches_no_parameter(device):
    model = Mlp()
    model.optimizer = opt.SGD(0.1)
    model.loss = lambda out, labels: labels.astype("float32").sum()
    x, labels = batch(device)
    model.compile([x])
    with pytest.raises(RuntimeError, match="depends on a leaf with requires_grad"):
        model.train_one_batch(x, labels)
    assert model.optimizer.steps.value == 0


# -- places and memory --------------------------------------------------------------------------------


def test_an_input_elsewhere_than_the_model_is_the_one_to_move(device, other_device):
    model = Mlp(p=0.0)
    model.compile([Placeholder((8, 6), device=device)])
    x, _ = batch(other_device)
    with (
        no_grad(),
        pytest.raises(DeviceError, match=rf"a layer on {device}\ntry: x.to\('{device}'\)"),
    ):
        model(x)  # recorded
    model.compile([Placeholder((8, 6), device=device)], use_graph=False)
    with pytest.raises(DeviceError, match=rf"try: \w+.to\('{device}'\), where the layer is\n"):
        model(x)


def test_a_model_moves_to_another_device_and_trains_on(device, other_device):
    other = other_device
    random.manual_seed(0)
    model = Mlp(p=0.0)
    model.optimizer = opt.Adam(0.01)
    model.compile([Placeholder((8, 6), device=device)])
    model.train_one_batch(*batch(device))
    with pytest.raises(
        DeviceError, match=f"got inputs on {other}, a layer on {device}\\ntry: x.to"
    ):
        model.train_one_batch(*batch(other))
    model.to(other)
    losses = [model.train_one_batch(*batch(other))[1].item() for _ in range(5)]
    assert losses[-1] < losses[0]
    model.to(device)
    assert model.train_one_batch(*batch(device))[1].item() < losses[-1]
    assert model.optimizer.steps.value == 7
    slots = model.optimizer.get_states(model.get_params())
    assert {str(v.device) for v in slots.values() if not isinstance(v, int)} == {device.name}


@pytest.mark.parametrize("setter", ["set_params", "set_states"])
def test_compile_brings_what_was_set_to_its_device(device, other_device, setter):
    model = Mlp(p=0.0).to(other_device)
    name, cell = next(iter(model.get_params().items()))
    value = np.arange(96, dtype=np.float32).reshape(6, 16)
    assert cell.shape == (None, 16)
    getattr(model, setter)({name: value})
    cell.grad = tensor(value, device=other_device)
    model.compile([Placeholder((8, 6), device=device)])
    assert {c.device for c in model.get_states().values()} == {cell.grad.device} == {device}
    np.testing.assert_array_equal(cell.numpy(), value)
    np.testing.assert_array_equal(cell.grad.numpy(), value)


def test_a_compile_that_fails_moves_nothing(device, other_device):
    models = []
    for _ in range(2):
        random.manual_seed(0)
        model = Mlp(p=0.0)
        model.optimizer = opt.Adam(0.01)
        model.compile([Placeholder((8, 6), device=device)])
        model.train_one_batch(*batch(device))
        models.append(model)
    one, two = models
    with pytest.raises(ShapeError):
        one.compile([Placeholder((8, 5), device=other_device)])
    assert {c.device for c in one.get_states().values()} == {one._where()} == {device}
    for seed in range(3):
        expected = two.train_one_batch(*batch(device, seed=seed))[1].item()
        assert one.train_one_batch(*batch(device, seed=seed))[1].item() == expected


def test_a_dropped_model_frees_its_memory_at_once(device):
    x, labels = batch(device)
    gc.collect()
    before = device.memory.current
    model = Mlp()
    model.optimizer = opt.Adam(0.01)
    model.compile([x])
    model.train_one_batch(x, labels)
    model.eval()(x)
    gc.disable()
    try:
        del model
        # whatever is left are constants of the device
        assert device.memory.current - before < 64
    finally:
        gc.enable()


def test_training_steps_leave_no_garbage(device):
    for use_graph in (True, False):
        model = Mlp()
        model.optimizer = opt.SGD(0.1, momentum=0.9)
        x, labels = batch(device)
        model.compile([x], use_graph=use_graph)
        model.train_one_batch(x, labels)
        gc.collect()
        gc.disable()
        try:
            model.train_one_batch(x, labels)
            assert gc.collect() == 0
            model.train_one_batch(x[:5], labels[:5])  # a new recording
            assert gc.collect() == 0
        finally:
            gc.enable()


def test_numpy_batches_are_welcome():
    model = Mlp()
    model.optimizer = opt.SGD(0.1)
    model.compile([np.zeros((8, 6), np.float32)])
    x, labels = (t.numpy() for t in batch("cpu_numpy"))
    out, loss = model.train_one_batch(x, labels)
    assert out.shape == (8, 4)
    assert np.isfinite(loss.item())
