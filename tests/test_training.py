"""fit, evaluate, predict: what they give, what they read, how they are left and resumed."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import singa_core
from house import counts
from nets import Net, Scale
from singa_core import Model, Placeholder, layers, opt, random, tensor
from singa_core.callbacks import Callback, Checkpoint, EarlyStopping, JsonlLog, ReduceOnPlateau
from singa_core.data.batches import LoaderFailed
from singa_core.data.loader import ArrayLoader
from singa_core.errors import ArgumentError, ShapeError
from singa_core.evaluation import evaluate, predict
from singa_core.io.checkpoint import CheckpointWarning
from singa_core.metric import Accuracy, Mean, TopKAccuracy, accuracy
from singa_core.training import fit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 0)


def loader(batch_size=8, n=50, **options):
    return ArrayLoader(X[:n], Y[:n], batch_size=batch_size, **options)


def model_on(device, kind=Net, use_graph=True, seed=0, p=0.3, optimizer=None):
    random.manual_seed(seed)
    model = kind(optimizer or opt.Adam(opt.WarmUp(opt.Cosine(0.05, 40), 5)), p=p)
    return model.compile([Placeholder((8, 4), device=device)], use_graph=use_graph)


def all_bits(model):
    """Everything that makes the next step what it will be."""
    slots = model.optimizer.get_states(model.get_params())
    return (
        {name: cell.numpy().tobytes() for name, cell in model.get_states().items()},
        {k: v if isinstance(v, int) else v.numpy().tobytes() for k, v in slots.items()},
        {name: stream.state() for name, stream in random.STREAMS.items()},
    )


def bits(model):
    return {name: cell.numpy().tobytes() for name, cell in model.get_states().items()}


def untimed(history):
    return [{k: v for k, v in row.items() if k != "ms_per_step"} for row in history.rows]


class Recorder(Callback):
    """What was told, in order."""

    def __init__(self):
        self.events = []

    def on_setup(self, training):
        self.events.append("setup")

    def on_train_begin(self, training):
        self.events.append("begin")

    def on_epoch_begin(self, training):
        self.events.append(f"epoch {training.epoch}")

    def on_step_end(self, training):
        self.events.append(training.batch)

    def on_epoch_end(self, training):
        self.events.append(f"end {training.epoch} {training.batch} {training.steps}")

    def on_interrupted(self, training):
        self.events.append(f"interrupted {type(training.failure).__name__}")

    def on_train_end(self, training):
        self.events.append("over")


class At(Callback):
    """Does something at a step, counted from 1."""

    def __init__(self, step, act):
        self.step, self.act = step, act

    def on_step_end(self, training):
        if training.steps == self.step:
            self.act(training)


# -- fit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_graph", [False, True])
def test_fit_is_the_loop_written_by_hand(device, use_graph):
    one, two = model_on(device, use_graph=use_graph), None
    rows, data = [], loader()
    for epoch in range(3):
        losses, right = [], 0
        for x, y in data:
            out, loss = one.train_one_batch(x, y)
            losses.append((loss.item(), len(x)))
            right += int((out.numpy().argmax(1) == y).sum())
        mean = sum(loss * n for loss, n in losses) / sum(n for _, n in losses)
        row = {"epoch": epoch + 1, "loss": mean, "accuracy": right / 50, "lr": one.optimizer.lr}
        rows.append(row)
    wanted = all_bits(one)
    two = model_on(device, use_graph=use_graph)
    history = fit(two, loader(), 3, metrics=[Accuracy()], progress=False)
    assert untimed(history) == rows
    assert all_bits(two) == wanted
    assert (len(history), history["loss"]) == (3, [row["loss"] for row in rows])
    assert not history.interrupted
    assert all(0 < ms < 1e4 for ms in history["ms_per_step"])
    with pytest.raises(KeyError, match="'val_loss': needs one of epoch, loss, accuracy, lr"):
        history["val_loss"]


def test_callbacks_are_told_everything_in_order(device):
    seen = Recorder()
    fit(model_on(device), loader(25), 2, callbacks=[seen], progress=False)
    assert seen.events == [
        "setup", "begin", "epoch 0", 1, 2, "end 1 0 2", "epoch 1", 1, 2, "end 2 0 4", "over",
    ]  # fmt: skip


@pytest.fixture
def reads(device, monkeypatch):
    seen = []
    real = device.download
    monkeypatch.setattr(device, "download", lambda *args: seen.append(1) or real(*args))
    return seen


@pytest.mark.parametrize("use_graph", [False, True])
def test_nothing_is_read_before_the_epoch_ends(device, reads, use_graph):
    model, seen = model_on(device, use_graph=use_graph), []
    model.train_one_batch(X[:5], Y[:5])  # what recording reads is another matter
    del reads[:]

    class Look(Callback):
        def on_step_end(self, training):
            seen.append(len(reads))

    fit(model, loader(5), 3, metrics=[Accuracy(), TopKAccuracy(2)], callbacks=[Look()], progress=False)  # fmt: skip
    assert [a - b for a, b in zip(seen[1:], seen, strict=False)].count(0) == 27
    assert seen[:10] == [0] * 10
    assert len(reads) == 3 * 10 * 3  # one loss and two counts for each of 10 steps, in 3 epochs
    fit(model, loader(5), 1, callbacks=[At(3, lambda t: float(t.loss))], progress=False)
    assert len(reads) == 90 + 11  # who asks, reads


def test_validation_is_evaluate_after_each_epoch(device):
    model = model_on(device)
    found = []

    class Check(Callback):
        def on_epoch_end(self, training):
            found.append(evaluate(model, loader(16, shuffle=False), metrics=[Accuracy()]))

    history = fit(
        model, loader(), 2, validation=loader(16, shuffle=False), metrics=[Accuracy()],
        callbacks=[Check()], progress=False,
    )  # fmt: skip
    assert [{k.removeprefix("val_"): v for k, v in row.items() if k.startswith("val_")} for row in history.rows] == found  # fmt: skip
    assert history["accuracy"] != history["val_accuracy"]


@pytest.mark.parametrize("use_graph", [False, True])
def test_evaluation_draws_nothing_and_leaves_modes_alone(device, use_graph):
    model = model_on(device, use_graph=use_graph)
    model.body.steps[2].eval()  # frozen on purpose
    modes = [layer.training for layer in model.layers()]
    before = all_bits(model)
    evaluate(model, loader())
    predict(model, X)
    assert all_bits(model) == before
    assert [layer.training for layer in model.layers()] == modes
    fit(model, loader(), 1, progress=False)
    assert [layer.training for layer in model.layers()] == modes
    assert all_bits(model)[2]["train"] == before[2]["train"]  # the frozen dropout drew nothing


def test_a_model_in_evaluation_mode_is_trained_in_training_mode(device):
    model, modes = model_on(device).eval(), []
    before = all_bits(model)[2]["train"]
    fit(model, loader(), 1, progress=False, callbacks=[At(1, lambda t: modes.append(t.model.training))])  # fmt: skip
    assert modes == [True]
    assert all_bits(model)[2]["train"] != before
    assert not model.training


def test_a_batch_larger_than_the_data(device):
    model = model_on(device)
    history = fit(model, loader(1000), 2, validation=loader(1000), progress=False)
    assert len(history["loss"]) == 2
    assert predict(model, X, batch_size=1000).shape == (50, 3)
    with pytest.raises(ArgumentError, match="batch_size <= number of samples with drop_last"):
        loader(1000, drop_last=True)


def test_the_device_is_where_it_trains(device, other_device):
    one, two = model_on(device, p=0.0), model_on(other_device, p=0.0)
    fit(one, loader(), 1, progress=False)
    fit(two, loader(), 1, progress=False, device=device)
    assert two.body.steps[0].weight.device is device
    for a, b in zip(one.get_params().values(), two.get_params().values(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert predict(two, X, device=device).shape == (50, 3)


def test_a_model_that_was_never_compiled(device):
    random.manual_seed(0)
    model = Net(opt.Adam(opt.WarmUp(opt.Cosine(0.05, 40), 5)), p=0.3)
    history = fit(model, loader(), 2, progress=False, device=device)
    compiled = model_on(device)
    assert fit(compiled, loader(), 2, progress=False)["loss"] == history["loss"]


@pytest.mark.parametrize(
    ("kind", "wanted"), [("tuple", 1), ("list", 1), ("dict", 1), ("tensors", 1)]
)
def test_batches_of_all_kinds(device, kind, wanted):
    class Named(Net):
        def train_one_batch(self, x, labels):
            return self._default_step(x, labels)

        def forward(self, x):
            return self.body(x)

    batches = [(X[i : i + 10], Y[i : i + 10]) for i in range(0, 50, 10)]
    given = {
        "tuple": batches,
        "list": [list(batch) for batch in batches],
        "dict": [dict(zip(("x", "labels"), batch, strict=True)) for batch in batches],
        "tensors": [tuple(tensor(a, device=device) for a in batch) for batch in batches],
    }
    history = fit(model_on(device, Named), given[kind], 2, validation=given[kind], metrics=[Accuracy()], progress=False)  # fmt: skip
    again = fit(model_on(device), batches, 2, validation=batches, metrics=[Accuracy()], progress=False)  # fmt: skip
    assert untimed(history) == untimed(again)


def test_batches_of_other_libraries(device):
    torch = pytest.importorskip("torch")
    batches = [(torch.from_numpy(X[i : i + 10]), torch.from_numpy(Y[i : i + 10])) for i in range(0, 50, 10)]  # fmt: skip
    ours = [(x.numpy(), y.numpy()) for x, y in batches]
    histories = [fit(model_on(device), data, 1, progress=False) for data in (batches, ours)]
    assert untimed(histories[0]) == untimed(histories[1])


class Steps(Net):
    """Gives what it is told to give."""

    gives = staticmethod(lambda out, loss: loss)

    def train_one_batch(self, x, labels):
        return self.gives(*self._default_step(x, labels))


@pytest.mark.parametrize(("gives", "names"), [
    (lambda out, loss: loss, {"loss"}),
    (lambda out, loss: (out, out, loss), {"loss"}),
    (lambda out, loss: {"output": out, "loss_d": loss, "loss_g": loss * 2.0}, {"loss_d", "loss_g"}),
])  # fmt: skip
def test_what_a_step_may_give(device, gives, names):
    model = model_on(device, Steps)
    model.gives = gives
    history = fit(model, loader(), 1, progress=False)
    assert set(history.rows[0]) == {"epoch", "lr", "ms_per_step"} | names
    wanted = fit(model_on(device), loader(), 1, progress=False)["loss"]
    assert [history[min(names)], *([history["loss_g"]] if len(names) > 1 else [])] == [
        wanted, *([[2 * wanted[0]]] if len(names) > 1 else []),
    ]  # fmt: skip


@pytest.mark.parametrize(("gives", "text"), [
    (lambda out, loss: out, r"needs a train_one_batch that gives \(output, loss\), a loss, or"),
    (lambda out, loss: None, "got NoneType"), (lambda out, loss: {"output": out}, "got dict"),
    (lambda out, loss: (), "got tuple"),
])  # fmt: skip
def test_what_a_step_may_not_give(gives, text):
    model = model_on("cpu_numpy", Steps)
    model.gives = gives
    with pytest.raises(ArgumentError, match=text) as caught:
        fit(model, loader(), 1, progress=False)
    assert caught.value.__notes__ == ["  in epoch 1, batch 1 of fit"]


def test_metrics_need_an_output_and_names(device):
    with pytest.raises(ArgumentError, match=r"or a dict with 'output', for metrics, got Tensor"):
        fit(model_on(device, Steps), loader(), 1, metrics=[Accuracy()], progress=False)
    with pytest.raises(ArgumentError, match="needs names that differ, got accuracy, accuracy"):
        fit(model_on(device), loader(), 1, metrics=[Accuracy(), Accuracy()], progress=False)
    both = {"one": Accuracy(), "two": Accuracy()}
    history = fit(model_on(device), loader(), 1, metrics=both, progress=False)
    assert history["one"] == history["two"]
    with pytest.raises(ArgumentError, match="batch: needs inputs and a target, got 1 item\n"):
        evaluate(model_on(device), ArrayLoader(X, batch_size=5))


class Right:
    """A metric of one's own, whose result is whatever `kind` makes of 0.25."""

    name = "right"

    def __init__(self, kind=float):
        self.kind = kind

    def reset(self):
        pass

    def update(self, predictions, labels):
        pass

    def result(self):
        return self.kind(0.25)

    def state(self):
        return {}

    def restore(self, state):
        pass


@pytest.mark.parametrize(("metrics", "text"), [
    (Accuracy(), "needs a list or dict of metrics, got <"),
    ("accuracy", "needs a list or dict of metrics, got 'accuracy'"),
    ([Accuracy], r"needs objects with the methods reset, .*, got <class .*\ntry: Accuracy\(\)"),
    (["accuracy"], "needs objects with the methods reset, update, .*, got 'accuracy'"),
    ({"accuracy": accuracy}, "needs objects with the methods reset, .*, got <function accuracy"),
    ([Mean()], r"needs a name of each, got <.*Mean.*\ntry: a dict of them"),
])  # fmt: skip
def test_metrics_that_are_none(device, metrics, text):
    for call in (fit, evaluate):
        options = {"epochs": 1, "progress": False} if call is fit else {}
        with pytest.raises(ArgumentError, match=f"^metrics: {text}"):
            call(model_on(device), loader(), metrics=metrics, **options)


@pytest.mark.parametrize("kind", [float, np.float32, np.array, tensor, lambda v: tensor([v])])
def test_results_of_metrics_are_pythons_numbers(device, tmp_path, kind):
    metrics, log = [Right(kind)], JsonlLog(tmp_path / "log")
    kept = Checkpoint(tmp_path / "run.ckpt", best="val_right")
    callbacks = [kept, log]
    fit(model_on(device), loader(), 1, metrics=metrics, validation=loader(), callbacks=callbacks,
        progress=False)  # fmt: skip
    row = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert (row["right"], row["val_right"]) == (0.25, 0.25)
    assert type(evaluate(model_on(device), loader(), metrics=metrics)["right"]) is float


@pytest.mark.parametrize("kind", [str, lambda v: None, lambda v: np.array([v, v])])
def test_results_of_metrics_that_are_no_numbers(device, kind):
    with pytest.raises(
        ArgumentError, match="metrics: needs a number as the result of 'right', got"
    ):
        evaluate(model_on(device), loader(), metrics=[Right(kind)])


def test_an_evaluation_tells_something(device):
    model = model_on(device)
    model.loss, before = None, all_bits(model)
    with pytest.raises(
        ArgumentError, match=r"evaluate: needs a loss or metrics, got neither\ntry:"
    ):
        evaluate(model, loader())
    with pytest.raises(
        ArgumentError, match="fit, validation: needs a loss or metrics, got neither"
    ):
        fit(model, loader(), 1, validation=loader(), progress=False)
    assert all_bits(model) == before
    assert list(evaluate(model, loader(), metrics=[Accuracy()])) == ["accuracy"]


@pytest.mark.parametrize("use_graph", [False, True])
@pytest.mark.parametrize(("name", "value", "text"), [
    ("loss", "mse", r"a function as the attribute 'loss', got 'mse'\ntry: singa_core.ops.mse_loss"),
    ("loss", Scale, r"an object as the attribute 'loss', got the class Scale\ntry: Scale\(\)"),
    ("optimizer", "adam", r"a function as the attribute 'optimizer', got 'adam'\ntry: .*opt.Adam\(0.001\)"),
    ("optimizer", opt.Adam, r"an object as the attribute 'optimizer', got the class Adam\ntry: Adam\(\)"),
])  # fmt: skip
def test_losses_and_optimisers_that_are_none(device, use_graph, name, value, text):
    model = model_on(device, use_graph=use_graph)
    before = bits(model)
    setattr(model, name, value)
    with pytest.raises(ArgumentError, match=f"Net: needs {text}"):
        fit(model, loader(), 1, progress=False)
    if name == "loss":
        with pytest.raises(ArgumentError, match=f"Net: needs {text}"):
            evaluate(model, loader())
    assert bits(model) == before


@pytest.mark.parametrize("use_graph", [False, True])
@pytest.mark.parametrize(("call", "batches", "text"), [
    (fit, [X[:8]], r"fit: needs a batch for train_one_batch\(x, target\), got 1 item\n"),
    (fit, [(X[:8], Y[:8], Y[:8])], r"train_one_batch\(x, target\), got 3 items\ntry: .*ArrayLoader"),
    (fit, [{"x": X[:8], "y": Y[:8]}], r"train_one_batch\(x, target\), got x, y\n"),
    (evaluate, [(X[:8], X[:8], Y[:8])], r"evaluate: needs a batch for forward\(x\), got 2 items\n"),
    (predict, [(X[:8], Y[:8])], r"forward\(x\), got 2 items\ntry: .*without the target"),
    (predict, X.tolist(), r"predict: needs a batch for forward\(x\), got 4 items\n"),
])  # fmt: skip
def test_batches_that_the_model_does_not_take(device, use_graph, call, batches, text):
    model = model_on(device, use_graph=use_graph)
    before = all_bits(model)
    options = {"epochs": 1, "progress": False} if call is fit else {}
    with pytest.raises(ArgumentError, match=text):
        call(model, batches, **options)
    assert all_bits(model) == before


def test_a_type_error_of_the_model_s_own_passes(device):
    class Odd(Net):
        def forward(self, x):
            return super().forward(x) + None

    for call in (predict, Odd.predict):
        with pytest.raises(TypeError, match="unsupported operand"):
            call(Odd().to(device), X)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda m: m.fit(X, Y, epochs=1),
            r"^fit: needs fit\(loader, epochs, validation, .*\), got multiple values for argument "
            r"'epochs'\ntry: a loader of both, such as singa_core.data.ArrayLoader",
        ),
        (
            lambda m: m.fit(X, Y, batch_size=32),
            r"got an unexpected keyword argument 'batch_size'\ntry: a loader of both",
        ),
        (
            lambda m: m.fit(loader()),
            r"fit: needs fit\(.*\), got missing a required argument: 'epochs'$",
        ),
        (lambda m: m.fit(loader(), 1, verbose=1), "got an unexpected keyword argument 'verbose'$"),
        (
            lambda m: m.evaluate(X, Y),
            r"^evaluate: needs evaluate\(loader, metrics, device\), got too many positional arguments"
            r"\ntry: a loader of both",
        ),
        (
            lambda m: m.save("x", optimizer=None),
            r"^save: needs save\(path, state\), got an unexpected keyword argument 'optimizer'$",
        ),
    ],
)
def test_a_call_with_other_arguments_says_which_there_are(call, text, device):
    model = model_on(device)
    before = {name: p.tolist() for name, p in model.get_params().items()}
    with pytest.raises(ArgumentError, match=text):
        call(model)
    assert {name: p.tolist() for name, p in model.get_params().items()} == before


def test_arguments_of_nothing(device):
    model = model_on(device)
    for epochs in (-1, 1.5, None):
        with pytest.raises(ArgumentError, match="fit: needs an integer epochs >= 0, got"):
            fit(model, loader(), epochs)
    with pytest.raises(ArgumentError, match="fit: needs callbacks, got a function among them"):
        fit(model, loader(), 1, callbacks=[lambda training: None])
    assert fit(model, loader(), 0, progress=False).rows == []


@pytest.mark.parametrize("make", [lambda: [], lambda: iter([]), lambda: (b for b in ())])
def test_a_loader_without_batches(device, make):
    for call, where in ((lambda: fit(model_on(device), make(), 2, progress=False), "fit, epoch 1"),
                        (lambda: evaluate(model_on(device), make()), "evaluate"),
                        (lambda: predict(model_on(device), make()), "predict")):  # fmt: skip
        with pytest.raises(
            ArgumentError, match=f"^{where}: needs a loader that gives batches, got"
        ):
            call()


def test_a_generator_is_used_up_after_one_epoch(device):
    batches = (batch for batch in loader())
    with pytest.raises(ArgumentError, match="fit, epoch 2: needs .* none\ntry: .* used up after"):
        fit(model_on(device), batches, 2, progress=False)


class Breaks:
    """A loader that raises in an epoch, at a batch; both counted from 0."""

    def __init__(self, epoch, batch, error):
        self.epoch, self.batch, self.error, self.loops = epoch, batch, error, 0

    def __len__(self):
        return 5

    def __iter__(self):
        self.loops += 1
        for i in range(5):
            if (self.loops - 1, i) == (self.epoch, self.batch):
                raise self.error
            yield X[i * 10 : i * 10 + 10], Y[i * 10 : i * 10 + 10]


def test_a_loader_that_raises_is_named_with_epoch_and_batch(device, tmp_path):
    seen, model = Recorder(), model_on(device)
    text = "^fit, epoch 2, batch 4: the loader failed: OSError: no such image$"
    keep = Checkpoint(tmp_path / "x")
    with pytest.raises(LoaderFailed, match=text) as caught:
        fit(
            model, Breaks(1, 3, OSError("no such image")), 3, callbacks=[seen, keep], progress=False
        )
    assert isinstance(caught.value.__cause__, OSError)
    assert seen.events[-3:] == [3, "interrupted LoaderFailed", "over"]
    wanted = model_on(device)
    whole = fit(wanted, Breaks(9, 0, None), 3, progress=False)
    again = model_on(device, seed=5)  # resumed at the batch that could not be read
    history = fit(again, Breaks(9, 0, None), 3, callbacks=[Checkpoint(tmp_path / "x", resume=True)], progress=False)  # fmt: skip
    assert untimed(history) == untimed(whole)
    assert all_bits(again) == all_bits(wanted)


def test_other_ways_a_loader_fails(device):
    class NotIterable:
        def __iter__(self):
            raise ValueError("not today")

    with pytest.raises(
        LoaderFailed, match="fit, epoch 1, batch 1: the loader failed: ValueError: not"
    ):
        fit(model_on(device), NotIterable(), 1, progress=False)
    with pytest.raises(LoaderFailed, match="evaluate, batch 3: the loader failed: KeyError: 'x'"):
        evaluate(model_on(device), Breaks(0, 2, KeyError("x")))
    with pytest.raises(LoaderFailed, match="predict, batch 1: the loader failed"):
        predict(model_on(device), Breaks(0, 0, KeyError("x")))


def test_an_error_in_a_step_names_the_batch_and_cleans_up(device):
    seen, batches = Recorder(), [(X[:8], Y[:8]), (X[:8], Y[:8]), (X[:8, :3], Y[:8])]
    with pytest.raises(ShapeError, match="got 3 != 4") as caught:
        fit(model_on(device), batches, 1, callbacks=[seen], progress=False)
    assert caught.value.__notes__ == ["  in epoch 1, batch 3 of fit"]
    assert seen.events[-2:] == [2, "over"]


def test_a_callback_can_end_it(device):
    model = model_on(device)
    history = fit(model, loader(), 5, callbacks=[At(3, lambda t: t.stop("enough"))], progress=False)
    assert (len(history), history.stopped) == (1, "enough")


# -- evaluate and predict -----------------------------------------------------------------------------


def test_evaluate_by_hand(device):
    model = model_on(device)
    found = evaluate(model, loader(16, shuffle=False), metrics={"right": Accuracy()})
    out = predict(model, X)
    shifted = out - out.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    assert found["right"] == accuracy(out, Y)
    assert found["loss"] == pytest.approx(-logs[np.arange(50), Y].mean(), rel=1e-5)
    model.loss = None
    assert set(evaluate(model, loader(), metrics=[Accuracy()])) == {"accuracy"}


def test_predict_gives_every_sample_in_order(device):
    model = model_on(device)
    wanted = predict(model, X, batch_size=50)
    for data in (X, tensor(X, device=device), ArrayLoader(X, batch_size=7, shuffle=False),
                 [X[:20], X[20:]], [(X[:49],), [X[49:]]], [{"x": X}]):  # fmt: skip
        got = predict(model, data, batch_size=7)
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
        assert got.dtype == np.float32
        got[0] = 0  # the caller's own


def test_predict_joins_what_a_model_gives(device):
    class Several(Model):
        def __init__(self):
            self.inner = Scale()

        def forward(self, x, y=None):
            z = self.inner(x)
            return {"pair": (z, [z.sum(axis=1)]), "number": z.sum(), "text": "t"}

    model = Several().to(device)
    found = predict(model, X, batch_size=20)
    np.testing.assert_array_equal(found["pair"][0], X)
    assert isinstance(found["pair"], tuple)
    assert found["pair"][1][0].shape == (50,)
    assert found["number"].shape == (3,)
    assert found["text"] == ["t"] * 3
    assert predict(model, [(X, X)])["pair"][0].shape == (50, 4)


# -- resumed ------------------------------------------------------------------------------------------

JOB = """
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import far
from singa_core import Placeholder, opt, random
from singa_core.callbacks import Callback, Checkpoint, EarlyStopping, JsonlLog, ReduceOnPlateau
from singa_core.metric import Accuracy
from singa_core.training import fit
from test_training import Net, all_bits, loader, model_on, untimed

far.register()
folder, epochs, dies, seed = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])

class Dies(Callback):
    def on_step_end(self, training):
        if training.steps == dies:
            import os
            os._exit(9)

for device in ("cpu_numpy", "far"):
    for use_graph in (True, False):
        name = f"{folder}/{device}-{use_graph}"
        model = model_on(device, use_graph=use_graph, seed=seed)
        callbacks = [
            ReduceOnPlateau("loss", patience=0, threshold=0.05, factor=0.5), EarlyStopping("loss", patience=9),
            Checkpoint(name + ".ckpt", resume=True, best="val_loss"), JsonlLog(name + ".jsonl", every=3),
            *([Dies()] if (device, use_graph) == ("far", False) else []),
        ]
        history = fit(
            model, loader(), epochs, validation=loader(16), metrics=[Accuracy()], callbacks=callbacks,
            progress=False,
        )
        weights, slots, streams = all_bits(model)
        digest = hashlib.sha256(repr((sorted(weights.items()), sorted(slots.items()))).encode())
        lines = [json.loads(line) for line in open(name + ".jsonl")]
        for line in lines:
            line.pop("ms_per_step", None)
        print(json.dumps([digest.hexdigest(), streams, untimed(history), lines]))
"""


def job(folder, epochs, dies=0, seed=0):
    folder.mkdir(exist_ok=True)
    arguments = [str(Path(__file__).parent), str(folder), str(epochs), str(dies), str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", JOB, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment,
    )  # fmt: skip


def result(process, code=0):
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    return [json.loads(line) for line in out.splitlines()]


def test_two_and_two_epochs_in_two_processes_are_four_in_one(tmp_path):
    """Weights, optimiser, random streams, schedule, order of data, history and log, bit for bit."""
    whole, first, killed = (
        job(tmp_path / "whole", 4), job(tmp_path / "parts", 2), job(tmp_path / "killed", 4, dies=17)
    )  # fmt: skip
    result(first)
    result(killed, 9)
    second = job(tmp_path / "parts", 4, seed=5)  # what the file holds decides, not the new seed
    again = job(tmp_path / "killed", 4, seed=5)
    whole, second, again = result(whole), result(second), result(again)
    assert len(whole) == 4
    assert second == whole
    assert again == whole
    assert (
        len({digest for digest, *_ in whole}) <= 2
    )  # one for each device: graphs give the same bits
    rates = [row["lr"] for row in whole[0][2]]
    assert len(set(rates)) == 4
    counts.bitwise_compared(8)


@pytest.mark.parametrize("use_graph", [False, True])
@pytest.mark.parametrize(("how", "step"), [
    ("signal", 1), ("signal", 6), ("signal", 7), ("signal", 14), ("raise", 7), ("raise", 8), ("raise", 14),
])  # fmt: skip
def test_interrupted_at_any_step_it_can_be_resumed(device, tmp_path, capsys, step, how, use_graph):
    acts = {
        "signal": lambda training: os.kill(os.getpid(), signal.SIGINT),
        "raise": lambda training: (_ for _ in ()).throw(KeyboardInterrupt),
    }
    options = {"validation": loader(16), "metrics": [Accuracy()]}
    wanted = model_on(device, use_graph=use_graph)
    whole = fit(wanted, loader(), 2, progress=False, **options)
    model, seen = model_on(device, use_graph=use_graph), Recorder()
    keep = Checkpoint(tmp_path / "x")
    history = fit(
        model, loader(), 2, callbacks=[seen, At(step, acts[how]), keep],
        validation=loader(16), metrics=[Accuracy()],
    )  # fmt: skip
    assert history.interrupted
    assert seen.events[-2:] == ["interrupted KeyboardInterrupt", "over"]
    epoch, batch = divmod(step, 7)
    if batch == 0:  # after the last step, before the epoch is over
        epoch, batch = epoch - 1, 7
    assert f"interrupted in epoch {epoch + 1} after batch {batch}\n" in capsys.readouterr().out
    again = model_on(device, seed=9, use_graph=use_graph)
    resumed = fit(
        again, loader(), 2, callbacks=[Checkpoint(tmp_path / "x", resume=True)], progress=False,
        validation=loader(16), metrics=[Accuracy()],
    )  # fmt: skip
    assert not resumed.interrupted
    assert untimed(resumed) == untimed(whole)
    assert all_bits(again) == all_bits(wanted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_within_a_step_waits_for_its_end(device, tmp_path):
    """A replay that is torn would lose the state."""

    class Slow(Net):
        def train_one_batch(self, x, labels):
            if self.optimizer.steps.value == 2:
                os.kill(os.getpid(), signal.SIGINT)
            return self._default_step(x, labels)

    model = model_on(device, Slow, use_graph=False)
    history = fit(model, loader(), 1, callbacks=[Checkpoint(tmp_path / "x")], progress=False)
    assert history.interrupted
    got = all_bits(model)
    wanted = model_on(device, use_graph=False)
    for batch in [*loader()][:3]:
        wanted.train_one_batch(*batch)
    assert got == all_bits(wanted)


def test_a_second_ctrl_c_does_not_wait(device, tmp_path):
    class Stuck(Net):
        def train_one_batch(self, x, labels):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("not reached")

    model = model_on(device, Stuck, use_graph=False)
    with pytest.warns(CheckpointWarning, match="not saved: interrupted within a step"):
        history = fit(model, loader(), 1, callbacks=[Checkpoint(tmp_path / "x")], progress=False)
    assert history.interrupted
    assert list(tmp_path.iterdir()) == []


class Interrupted(ArrayLoader):
    """Ctrl-C comes when a batch of an epoch is counted, but not yet given out."""

    at = None

    def _run(self, epoch, start):
        for batch in super()._run(epoch, start):
            if self.at == (self._epoch, self._batch):
                os.kill(os.getpid(), signal.SIGINT)
                raise AssertionError("not reached")
            yield batch


@pytest.mark.parametrize(("which", "at"), [("train", (1, 3)), ("test", (1, 2))])
def test_ctrl_c_while_a_loader_works_takes_effect_at_once(device, tmp_path, which, at):
    def run(seed, epochs=3, at=None, **options):
        loaders = {
            "train": Interrupted(X, Y, batch_size=8),
            "test": Interrupted(X, Y, batch_size=16),
        }
        loaders[which].at = at
        model, keep = model_on(device, seed=seed), Checkpoint(tmp_path / "x", **options)
        history = fit(model, loaders["train"], epochs, validation=loaders["test"], callbacks=[keep], progress=False)  # fmt: skip
        return history, all_bits(model)

    assert run(0, at=at)[0].interrupted
    again, bits = run(3, resume=True)
    whole, wanted = run(0)
    assert untimed(again) == untimed(whole)  # the batch that was lost on the way is made again
    assert bits == wanted


def test_someone_elses_handler_stays_in_charge(device):
    caught = []
    old = signal.signal(signal.SIGINT, lambda *args: caught.append(1))
    try:
        act = At(2, lambda training: os.kill(os.getpid(), signal.SIGINT))
        history = fit(model_on(device), loader(), 1, callbacks=[act], progress=False)
    finally:
        signal.signal(signal.SIGINT, old)
    assert (caught, history.interrupted, len(history)) == ([1], False, 1)


def test_fit_works_in_another_thread(device):
    histories = []
    model = model_on(device)
    thread = threading.Thread(
        target=lambda: histories.append(fit(model, loader(), 1, progress=False))
    )
    thread.start()
    thread.join()
    assert histories[0]["loss"] == fit(model_on(device), loader(), 1, progress=False)["loss"]


@pytest.mark.parametrize("length", [True, False])
def test_a_loader_without_a_state_is_gone_through_again(device, tmp_path, length):
    class Plain:
        def __init__(self, n):
            self.batches = [(X[i : i + 5], Y[i : i + 5]) for i in range(0, n, 5)]

        def __iter__(self):
            return iter(self.batches)

    kind = type("Sized", (Plain,), {"__len__": lambda self: len(self.batches)}) if length else Plain
    act = At(13, lambda training: (_ for _ in ()).throw(KeyboardInterrupt))
    wanted = model_on(device)
    whole = fit(wanted, kind(50), 2, progress=False)
    fit(model_on(device), kind(50), 2, callbacks=[act, Checkpoint(tmp_path / "x")], progress=False)
    again = model_on(device, seed=4)
    history = fit(again, kind(50), 2, callbacks=[Checkpoint(tmp_path / "x", resume=True)], progress=False)  # fmt: skip
    assert untimed(history) == untimed(whole)
    assert all_bits(again)[0] == all_bits(wanted)[0]


def test_another_loader_is_refused(device, tmp_path):
    fit(model_on(device), loader(), 1, callbacks=[Checkpoint(tmp_path / "x")], progress=False)
    with pytest.raises(
        ArgumentError, match="ArrayLoader.restore: needs a state of batch_size = 9, got 8"
    ):
        fit(model_on(device), loader(9), 2, callbacks=[Checkpoint(tmp_path / "x", resume=True)], progress=False)  # fmt: skip


def test_a_training_that_was_stopped_stays_so(device, tmp_path):
    def run(resume):
        stop = EarlyStopping("loss", patience=1, min_delta=10.0)
        return fit(
            model_on(device), loader(), 9, progress=False,
            callbacks=[stop, Checkpoint(tmp_path / "x", resume=resume)],
        )  # fmt: skip

    first = run(False)
    assert len(first) == 2
    again = run(True)
    assert (untimed(again), again.stopped) == (untimed(first), first.stopped)
    assert again.stopped.startswith("loss has not improved for 1 epochs, ")


def test_no_cycle_keeps_a_model_alive(far_device):
    """The leak check of conftest.py sees whatever is left on the far device."""
    model = model_on(far_device)
    fit(model, loader(), 2, metrics=[Accuracy()], validation=loader(16), progress=False)
    fit(
        model,
        loader(),
        1,
        progress=False,
        callbacks=[JsonlLog(os.devnull), ReduceOnPlateau("loss")],
    )


# -- the page about it --------------------------------------------------------------------------------


def test_every_snippet_of_the_page_runs(tmp_path, monkeypatch, capsys):
    page = Path(__file__).resolve().parent.parent / "docs" / "training.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    out = capsys.readouterr().out
    assert "body.steps.0  Linear      float32 (32, 32)         160    640" in out
    assert "anything that JSON holds True\n" in out
    assert out.count("epoch 3/4") == out.count("epoch 4/4") == 1
    assert names["scores"].shape == (100, 3)
    assert names["slowest"].slowest > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "net.sc", "run.ckpt"]
    callbacks = importlib.import_module("singa_core.callbacks")
    section = page.read_text("utf-8").split("\n## Callbacks\n")[1].split("\n## ")[0]
    shown = set(re.findall(r"^\| `(\w+)\(", section, re.MULTILINE))
    assert shown == set(vars(callbacks)) & shown
    assert len(shown) == 6


def test_what_the_page_says_instead_of_pytorch_s_names_works(tmp_path):
    page = Path(__file__).resolve().parent.parent / "docs" / "training.md"
    section = page.read_text("utf-8").split("\n## Coming from PyTorch\n")[1]
    rows = re.findall(r"^\| .* \| (.*) \|$", section, re.MULTILINE)[1:]
    codes = [code for row in rows for code in re.findall(r"`([^`]*\([^`]*\))`", row)]
    model = Net().compile([Placeholder((8, 4))])
    x = tensor(X[:8])
    names = (
        vars(layers) | vars(opt) | {"sc": singa_core, "ArrayLoader": ArrayLoader, "model": model}
    )
    names |= {"x": x, "xs": [x, x], "y": Y[:8], "path": tmp_path / "x", "features": 4, "heads": 2}
    names |= {"optimizer": opt.SGD(0.1), "get_states": model.get_states}
    names |= {"set_states": lambda _: model.set_states(model.get_states())}
    for code in codes:
        names["logits"] = model(x)
        names["loss"] = model.loss(names["logits"], tensor(Y[:8]))
        eval(code, names)
    assert len(codes) == 14
    assert singa_core.ops.concat([x, x], axis=1).shape == (8, 8)
    assert x.astype("float64").dtype.name == "float64"
