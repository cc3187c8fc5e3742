"""Models: what is refused, what it says, and that nothing has changed then."""

import gc
import warnings
import weakref

import numpy as np
import pytest

from nets import Net, batch, both_ways, contents, made
from singa_core import Placeholder, State
from singa_core.errors import ArgumentError, DTypeError, OutOfRange, ShapeError, StateLost

# -- placeholders ----------------------------------------------------------------------------------


def test_a_placeholder_shows_what_it_stands_for():
    assert repr(Placeholder((2, 3))) == "Placeholder(float32 (2, 3))"
    assert repr(Placeholder([4], "int64", device="far")) == "Placeholder(int64 (4,) far)"
    assert Placeholder((np.int64(2),)).spec.shape == (2,)


@pytest.mark.parametrize(("args", "error", "text"), [
    (((None, 4),), ShapeError, r"Placeholder: needs all sizes, got \(None, 4\)"),
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
                StateLost, match=rf"{device}: \w+ failed with OutOfRange: \w+: needs .* < 3, got "
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
    text = r"lr: needs to be set outside of the recorded function, got a change at .*test_model_errors.py:\d+\ntry: give a schedule"
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
