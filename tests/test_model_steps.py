"""Steps of a model: what they may be, what changes between them, and what goes wrong in them."""

import copy
import gc
import warnings
import weakref

import numpy as np
import pytest

from house import counts
from nets import contents
from singa_core import Model, Parameter, Placeholder, State, no_grad, ops, opt, random, tensor
from singa_core.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    OutOfRange,
    ShapeError,
    StateLost,
)
from singa_core.layers import Dropout, Linear, ReLU, Sequential


class Net(Model):
    def __init__(self, optimizer=None, p=0.0):
        self.body = Sequential(Linear(8), ReLU(), Dropout(p), Linear(3))
        self.loss = ops.cross_entropy
        self.optimizer = optimizer or opt.SGD(0.1, momentum=0.5)

    def forward(self, x):
        return self.body(x)


def batch(device, n=6, seed=0):
    rng = np.random.default_rng(seed)
    x = tensor(rng.normal(size=(n, 4)).astype(np.float32), device=device)
    return x, tensor(rng.integers(0, 3, n), device=device)


def made(device, *args, kind=Net, use_graph=True, seed=0, **options):
    random.manual_seed(seed)
    return kind(*args, **options).compile([Placeholder((6, 4), device=device)], use_graph=use_graph)


def records(model):
    """How often each of the model's functions was recorded."""
    found = model._graphs.functions.items() if model._graphs else ()
    return {name: function.records for (name, _, _), function in found}


def both_ways(run):
    """What `run(use_graph)` tells, which must be the same without and with graphs."""
    want = run(False)
    assert run(True) == want
    counts.bitwise_compared(len(want))
    return want


# -- what a step may be ----------------------------------------------------------------------------


def test_a_step_may_call_the_one_it_inherits(device):
    class Scaled(Net):
        def train_one_batch(self, x, labels, *, times=1):
            """Several updates in one graph."""
            for _ in range(times):
                out, loss = super().train_one_batch(x, labels)
            return {"loss": loss, "mean": out.mean()}

    class Louder(Scaled):
        def train_one_batch(self, x, labels):
            return super().train_one_batch(x, labels, times=2)

    def run(use_graph, kind=Louder, steps=4, **options):
        model = made(device, kind=kind, use_graph=use_graph)
        for _ in range(steps):
            facts = model.train_one_batch(*batch(device), **options)
        return model.optimizer.steps.value, contents(model), {k: v.item() for k, v in facts.items()}

    steps, weights, facts = both_ways(run)
    assert steps == 8
    plain = both_ways(lambda use_graph: run(use_graph, Scaled, 8))
    assert plain == (8, weights, facts)
    assert Louder.train_one_batch.__name__ == "train_one_batch"
    assert Scaled.train_one_batch.__doc__ == "Several updates in one graph."


def test_static_and_keyword_arguments_and_arrays(device):
    class Mixed(Net):
        def train_one_batch(self, inputs, scale, *, labels, mode="plain", smooth=None):
            out = self.forward(inputs["x"]) * scale
            loss = self.loss(out, labels, label_smoothing=0.1 if mode == "smooth" else 0.0)
            loss = loss if smooth is None else loss + smooth[0].mean()
            self.optimizer(loss)
            return loss

    def run(use_graph):
        model = made(device, kind=Mixed, use_graph=use_graph)
        x, labels = (t.numpy() for t in batch(device))  # arrays, in nests too
        losses = [
            model.train_one_batch({"x": x}, 1.0, labels=labels),
            model.train_one_batch({"x": x}, 2.0, labels=labels),
            model.train_one_batch({"x": x}, 1.0, labels=labels, mode="smooth"),
            model.train_one_batch({"x": x}, 1.0, labels=labels, smooth=[x]),
            model.train_one_batch({"x": x}, 1.0, labels=labels),
        ]
        assert {loss.device for loss in losses} == {device}
        if use_graph:
            assert records(model) == {"train_one_batch": 4}
        return [loss.item() for loss in losses], contents(model)

    both_ways(run)


def test_a_step_without_inputs_runs_where_the_model_is(device):
    class Shrinks(Model):
        def __init__(self):
            self.w = Parameter((2,), [4.0, 8.0])
            self.optimizer = opt.SGD(0.25)

        def forward(self, x):
            return x * self.w

        def train_one_batch(self):
            loss = self.w.square().sum()
            self.optimizer(loss)
            return loss

    def run(use_graph):
        model = Shrinks().compile([Placeholder((2,), device=device)], use_graph=use_graph)
        return [model.train_one_batch().item() for _ in range(3)], contents(model)

    assert both_ways(run) == ([80.0, 20.0, 5.0], {"w": [0.5, 1.0]})


def test_a_model_s_own_parameters_work_without_compile(array):
    class Own(Model):
        def __init__(self):
            self.w = Parameter((None,), "ones")
            self.loss, self.optimizer = (lambda y, t: (y - t).square().sum()), opt.SGD(0.5)

        def initialize(self, x):
            self.w.set_shape(x.shape)

        def forward(self, x):
            return x * self.w

    model = Own()
    model.train_one_batch(array([1.0, 1.0]), array([3.0, 2.0]))
    assert model.w.tolist() == [3.0, 2.0]


@pytest.mark.parametrize("graph_alg", ["memory", "sequence"])
def test_the_report_tells_what_was_recorded(device, graph_alg):
    model = Net(p=0.5)
    assert model.graph_report() == []
    model.compile([Placeholder((6, 4), device=device)], graph_alg=graph_alg)
    assert model.graph_report() == []
    model.train_one_batch(*batch(device))
    model.eval()(batch(device)[0])
    step, forward = model.graph_report()
    assert (step["function"], forward["function"]) == ("train_one_batch", "forward")
    assert step["device"] == forward["device"] == device.name
    assert step["updates"] == step["in_place_updates"] == 8  # four parameters and their momenta
    linear = 1 if device.name == "cpu_numpy" else 2  # without a kernel: matmul, add
    assert (forward["updates"], forward["launches"]) == (0, 2 * linear + 1)
    assert step["launches"] == len(step["served"]) > 10
    assert step["bytes"] > forward["bytes"] > 0
    texts, languages = zip(*step["served"], strict=True)
    assert any("random_bits" in text for text in texts)
    assert all(isinstance(language, str) for language in languages)
    model.compile([Placeholder((6, 4), device=device)])
    assert model.graph_report() == []  # what was recorded before is dropped


# -- what changes between steps --------------------------------------------------------------------


def test_a_learning_rate_is_read_at_each_step_and_records_nothing(device):
    rate = opt.WarmUp(opt.Cosine(0.2, steps=6), steps=2)

    def run(use_graph):
        model = made(device, opt.Adam(rate), use_graph=use_graph)
        losses = []
        for step in range(10):
            if step == 8:
                model.optimizer.lr = 0.5
            losses.append(model.train_one_batch(*batch(device, seed=step))[1].item())
        if use_graph:
            assert records(model) == {"train_one_batch": 1}
        return losses, contents(model)

    both_ways(run)
    slow = made(device, opt.Adam(0.0))
    before = contents(slow)
    slow.train_one_batch(*batch(device))
    assert contents(slow) == before
    slow.optimizer.lr = 0.1
    slow.train_one_batch(*batch(device))
    assert contents(slow) != before


def test_other_settings_record_anew(device):
    def run(use_graph):
        model = made(device, use_graph=use_graph)
        for momentum in (0.5, 0.9, 0.0, 0.5):
            model.optimizer.momentum = momentum
            for _ in range(2):
                model.train_one_batch(*batch(device))
        if use_graph:
            assert records(model) == {"train_one_batch": 3}  # 0.5 was found again
        return contents(model)

    both_ways(run)


def test_another_optimizer_and_other_parameters_record_anew(device):
    def run(use_graph):
        model = made(device, use_graph=use_graph)
        facts = []

        def step():
            model.train_one_batch(*batch(device))
            facts.append(contents(model))

        step()
        model.optimizer = opt.SGD(0.3, momentum=0.5)
        step()
        model.optimizer.params = list(model.body[0].get_params().values())
        step()
        model.optimizer.params.pop()
        step()
        model.optimizer.params = None
        step()
        return facts

    facts = both_ways(run)
    changed = [
        {name for name in before if before[name] != after[name]}
        for before, after in zip(facts[1:], facts[2:], strict=False)
    ]
    first, last = ({f"body.steps.{i}.{name}" for name in ("weight", "bias")} for i in (0, 3))
    assert changed == [first, {"body.steps.0.weight"}, first | last]


def test_modes_are_kept_apart_and_found_again(device):
    model = made(device, p=0.5)
    x, labels = batch(device)
    for _ in range(3):
        model.train()
        model.train_one_batch(x, labels)
        model.eval()
        one, two = model(x), model(x)
        assert one.tolist() == two.tolist()  # no dropout
        model.train_one_batch(x, labels)
        with no_grad():
            model(x)
    assert records(model) == {"train_one_batch": 2, "forward": 2}


def test_batches_of_other_sizes_are_recorded_once_each(device):
    model = made(device)
    for n in (6, 2, 6, 1, 2):
        assert model.train_one_batch(*batch(device, n))[0].shape == (n, 3)
    assert records(model) == {"train_one_batch": 3}


def test_training_that_is_resumed_goes_on_bit_for_bit(device):
    """Parameters, slots, step count and streams are all there is."""

    def run(use_graph, make):
        model = made(device, make(), p=0.5, use_graph=use_graph)

        def step(model, seed):
            return model.train_one_batch(*batch(device, seed=seed))[1].item()

        for seed in range(3):
            step(model, seed)
        slots = model.optimizer.get_states(model.get_params())
        saved = (
            {name: cell.numpy().copy() for name, cell in model.get_states().items()},
            {k: v if isinstance(v, int) else v.numpy().copy() for k, v in slots.items()},
            {name: stream.state() for name, stream in random.STREAMS.items()},
        )
        want = [step(model, seed) for seed in range(3, 6)], contents(model)
        random.manual_seed(77)
        other = Net(make(), p=0.5)
        other.to(device).set_states(saved[0])  # before its sizes are known
        other.compile([np.zeros((6, 4), np.float32)], use_graph=use_graph)
        other.optimizer.set_states(saved[1], other.get_params())
        for name, state in saved[2].items():
            random.STREAMS[name].restore(state)
        assert ([step(other, seed) for seed in range(3, 6)], contents(other)) == want
        return want

    for make in (lambda: opt.SGD(0.1, momentum=0.9), lambda: opt.Adam(opt.Exponential(0.1, 0.9))):
        both_ways(lambda use_graph, make=make: run(use_graph, make))


def test_a_copied_model_trains_on_alone(device):
    one = made(device, opt.Adam(0.05))
    one.train_one_batch(*batch(device))
    two = copy.deepcopy(one)
    assert (contents(two), two.optimizer.steps.value) == (contents(one), 1)
    before = contents(one)
    losses = [two.train_one_batch(*batch(device))[1].item() for _ in range(3)]
    assert contents(one) == before
    assert records(two) == {"train_one_batch": 1}
    assert [one.train_one_batch(*batch(device))[1].item() for _ in range(3)] == losses  # slots too
    assert contents(one) == contents(two)
    assert two.optimizer.steps.value == 4


# -- places ----------------------------------------------------------------------------------------


def test_arrays_and_placeholders_come_to_where_the_model_is(device):
    model = Net().to(device).compile([Placeholder((6, 4))])
    assert model.body[0].weight.device is device
    x, labels = (t.numpy() for t in batch(device))
    for _ in range(2):
        out, loss = model.train_one_batch(x, labels)
        assert out.device is loss.device is device
        assert model(x).device is device
    assert model.eval()(x).device is device


def test_moving_between_steps_changes_no_number():
    def run(use_graph, places):
        model = made("cpu_numpy", opt.Adam(0.05), use_graph=use_graph)
        for seed, place in enumerate(places):
            model.to(place).train_one_batch(*batch(place, seed=seed))
        if use_graph:
            assert set(records(model).values()) == {1} or len(set(places)) > 1
        return model.optimizer.steps.value, {
            k: np.round(v, 4).tolist() for k, v in contents(model).items()
        }

    travelled = ["cpu_numpy", "far", "far", "cpu_numpy", "far"]
    assert both_ways(lambda use_graph: run(use_graph, travelled)) == run(True, ["cpu_numpy"] * 5)


def test_inputs_of_compile_on_two_devices():
    class Two(Net):
        def forward(self, x, y):
            return self.body(x + y)

    inputs = [Placeholder((6, 4), device="far"), tensor(np.zeros((6, 4), np.float32))]
    with pytest.raises(
        DeviceError, match="compile: needs all inputs on far, got input 1 on cpu_numpy"
    ):
        Two().compile(inputs)
    model = Two().compile([inputs[0], Placeholder((6, 4))])
    assert str(model.body[0].weight.device) == "far"


# -- placeholders ----------------------------------------------------------------------------------


def test_a_placeholder_shows_what_it_stands_for():
    assert repr(Placeholder((2, 3))) == "Placeholder(float32 (2, 3))"
    assert repr(Placeholder([4], "int64", device="far")) == "Placeholder(int64 (4,) far)"
    assert Placeholder((np.int64(2),)).spec.shape == (2,)


@pytest.mark.parametrize(("args", "error", "text"), [
    (((None, 4),), ShapeError, r"Placeholder: needs a shape of integers >= 0, got \(None, 4\)"),
    (((-1, 4),), ShapeError, r"Placeholder: needs a shape of integers >= 0, got \(-1, 4\)"),
    (((2.0,),), ShapeError, "Placeholder: needs a shape of integers"),
    (((2,), "float31"), DTypeError, "got 'float31'"),
    (((2,), "float32", "nowhere"), LookupError, "nowhere"),
])  # fmt: skip
def test_placeholders_of_nothing(args, error, text):
    with pytest.raises(error, match=text):
        Placeholder(*args)


def test_a_compile_that_fails_changes_nothing(device):
    model = made(device)
    model.train_one_batch(*batch(device))
    before, report = contents(model), model.graph_report()
    model.body.steps[2].eval()
    text = r"got 5 != 4\n(.*\n)*  in body.steps.0 \(Linear\)$"
    for options in ({}, {"use_graph": False}, {"is_train": False}):
        with pytest.raises(ShapeError, match=text):
            model.compile([Placeholder((6, 5), device=device)], **options)
        assert contents(model) == before
        assert model.graph_report() == report
        assert [layer.training for layer in model.body] == [True, True, False, True]
    with pytest.raises(
        TypeError, match=r"forward\(\) takes 2 positional arguments but 3 were given"
    ):
        model.compile([Placeholder((6, 4), device=device)] * 2)


# -- what goes wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize("use_graph", [False, True])
def test_labels_out_of_range_are_named_and_training_goes_on(device, use_graph):
    model, (x, labels) = made(device, use_graph=use_graph), batch(device)
    model.train_one_batch(x, labels)
    before, steps = contents(model), model.optimizer.steps.value
    for bad in (3, -1):
        wrong = labels.numpy().copy()
        wrong[2] = bad
        text = rf"softmax_cross_entropy: needs 0 <= label < 3, got {bad}"
        if device.capabilities.synchronous:
            with pytest.raises(OutOfRange, match=text + r"\n  in Net$"):
                model.train_one_batch(x, wrong)
        else:  # a late device tells when it is asked, and the updates may have begun by then
            with pytest.raises(
                StateLost, match=r"far failed with OutOfRange: \w+: needs .* < 3, got "
            ):
                model.train_one_batch(x, wrong)[1].item()
            model.set_states(before)
            slots = {name: 0 * value for name, value in slots_of(model).items()}
            model.optimizer.set_states({"steps": steps} | slots, model.get_params())
        assert contents(model) == before
        assert model.optimizer.steps.value == steps
    losses = [model.train_one_batch(x, labels)[1].item() for _ in range(5)]
    assert losses[-1] < losses[0]


def slots_of(model):
    return {
        f"momentum.{name}": np.zeros(cell.shape, np.float32)
        for name, cell in model.get_params().items()
    }


@pytest.mark.parametrize("use_graph", [False, True])
@pytest.mark.parametrize(("n", "features", "labels", "error", "text"), [
    (0, 4, 0, ShapeError, r"cross_entropy: needs at least one sample for a mean, got 0\n(.*\n)*try: skip the empty batch.*\n  in Net$"),
    (6, 5, 6, ShapeError, r"linear: needs .*, got 5 != 4\n(.*\n)*  in body.steps.0 \(Linear\)$"),
    (6, 4, 5, ShapeError, r"cross_entropy: needs .*\n(.*\n)*  in Net$"),
])  # fmt: skip
def test_batches_that_do_not_fit_change_nothing(
    device, use_graph, n, features, labels, error, text
):
    model = made(device, use_graph=use_graph)
    model.train_one_batch(*batch(device))
    before = contents(model)
    x, y = np.ones((n, features), np.float32), np.zeros(labels, np.int64)
    for _ in range(2):
        with pytest.raises(error, match=text):
            model.train_one_batch(x, y)
        assert contents(model) == before
        assert model.optimizer.steps.value == 1
    model.train_one_batch(*batch(device))
    assert model.optimizer.steps.value == 2


@pytest.mark.parametrize("use_graph", [False, True])
def test_floats_as_labels_are_refused(device, use_graph):
    model, (x, labels) = made(device, use_graph=use_graph), batch(device)
    with pytest.raises((DTypeError, ShapeError), match=r"cross_entropy: needs (.*\n)*  in Net$"):
        model.train_one_batch(x, labels.astype("float32"))


def test_nan_and_infinity_pass_without_a_word(device):
    def run(use_graph):
        model = made(device, use_graph=use_graph)
        x = batch(device)[0].numpy().copy()
        x[0, 0], x[1, 1], x[2, 2] = np.nan, np.inf, 3e38
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _, loss = model.train_one_batch(x, batch(device)[1])
            model.eval()(x)
        assert np.isnan(loss.item())
        return repr(contents(model))

    assert "nan" in both_ways(run)


def test_an_error_in_a_step_of_one_s_own_leaves_everything(device):
    class Breaks(Net):
        broken = True

        def __init__(self):
            super().__init__()
            self.seen = State(())

        def train_one_batch(self, x, labels):
            self.seen.assign(self.seen + 1.0)
            self.optimizer(self.loss(self.forward(x), labels))
            if Breaks.broken:
                raise ZeroDivisionError
            return

    model = made(device, kind=Breaks)
    before = contents(model)
    with pytest.raises(ZeroDivisionError):
        model.train_one_batch(*batch(device))
    assert contents(model) == before
    assert model.optimizer.steps.value == 0
    Breaks.broken = False
    model.train_one_batch(*batch(device))
    assert (model.seen.item(), model.optimizer.steps.value) == (1.0, 1)


def test_a_recorded_step_does_not_set_the_learning_rate(device):
    class Sets(Net):
        def train_one_batch(self, x, labels):
            self.optimizer.lr = 0.5
            return super().train_one_batch(x, labels)

    model = made(device, kind=Sets)
    text = r"lr: needs to be set outside of the recorded function, got a change at .*test_model_steps.py:\d+\ntry: give a schedule"
    with pytest.raises(RuntimeError, match=text):
        model.train_one_batch(*batch(device))
    assert model.optimizer.lr == 0.1


def test_a_model_is_freed_when_it_is_dropped(device):
    gc.collect()
    gc.disable()
    try:
        for use_graph in (False, True):
            model = made(device, use_graph=use_graph)
            model.train_one_batch(*batch(device))
            model.eval()(batch(device)[0])
            with pytest.raises(ArgumentError):
                model.compile([], graph_alg="none")
            seen = weakref.ref(model)
            del model
            assert seen() is None
    finally:
        gc.enable()
