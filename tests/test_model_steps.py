"""Steps of a model: what they may be, what changes between them, and where they run."""

import copy

import numpy as np
import pytest

from checks import kernel_of, must_copy
from nets import Net, batch, both_ways, contents, made
from singa_core import (
    Model,
    Parameter,
    Placeholder,
    grad_enabled,
    no_grad,
    ops,
    opt,
    random,
    recording,
    tensor,
)
from singa_core.errors import (
    DeviceError,
)


def records(model):
    """How often each of the model's functions was recorded."""
    found = model._graphs.functions.items() if model._graphs else ()
    return {name: function.records for (name, _, _), function in found}


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


def test_a_step_may_come_from_a_mix_in(device):
    class Counts:
        calls = 0

        def train_one_batch(self, x, labels):
            Counts.calls += 1
            return super().train_one_batch(x, labels)

    class Mixed(Counts, Net):
        pass

    class Later(Mixed):
        pass

    for kind in (Mixed, Later):
        Counts.calls = 0
        model = made(device, kind=kind)
        for _ in range(3):
            model.train_one_batch(*batch(device))
        assert (Counts.calls, records(model)) == (1, {"train_one_batch": 1})


def test_static_and_keyword_arguments_and_arrays(device):
    class Mixed(Net):
        def train_one_batch(self, inputs, scale, *, labels, mode="plain", smooth=None):
            out = self.forward(inputs["x"]) * scale
            loss = self.loss(out, labels, label_smoothing=0.1 if mode == "smooth" else 0.0)
            loss = loss if smooth is None else loss + smooth[0].square().mean()
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
    recordings = [r for f in model._graphs.functions.values() for r in f.recordings]
    assert step["updates"] == 8  # four parameters and their momenta
    assert step["in_place_updates"] == 8 - must_copy(recordings[0].executable)
    first = model.body[0]
    served = kernel_of(device, ops.linear, batch(device)[0], first.weight, first.bias)
    linear = 1 if served else 2  # without a kernel: matmul, add
    fused = 1 if not served and device.capabilities.fuses else 0  # add and relu
    assert (forward["updates"], forward["launches"]) == (0, 2 * linear + 1 - fused)
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
    one.optimizer.params = one.get_params()
    one.train_one_batch(*batch(device))
    two = copy.deepcopy(one)
    assert [id(p) for p in two.optimizer.params] == [id(p) for p in two.get_params().values()]
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


def test_a_step_that_is_interrupted_leaves_the_mode_as_it_was(device):
    """Ctrl-C may come at the end of a block, which then cannot put back what it has changed."""

    class Broken(Net):
        def train_one_batch(self, x, target):
            no_grad().__enter__()  # and no exit
            raise KeyboardInterrupt

    for use_graph in (True, False):
        model = made(device, kind=Broken, use_graph=use_graph)
        with pytest.raises(KeyboardInterrupt):
            model.train_one_batch(*batch(device))
        assert grad_enabled()
        assert not recording()
        with no_grad(), pytest.raises(KeyboardInterrupt):
            model.train_one_batch(*batch(device))
        assert grad_enabled()
