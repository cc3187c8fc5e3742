"""Callbacks: what they show, decide, keep and find."""

import io
import json
import math
import os
import re

import numpy as np
import pytest

from nets import Net
from singa_core import Counter, Layer, Model, Parameter, Placeholder, State, opt, random
from singa_core.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    JsonlLog,
    NaNFound,
    NaNGuard,
    ProgressBar,
    ReduceOnPlateau,
)
from singa_core.data.loader import ArrayLoader
from singa_core.errors import ArgumentError
from singa_core.io import container
from singa_core.io.checkpoint import CheckpointWarning, Mismatch, load, save
from singa_core.io.container import FileDamaged, NotSaved
from singa_core.layers import Dropout, Linear, ReLU, Sequential
from singa_core.metric import Accuracy
from singa_core.training import History, fit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


def loader(**options):
    return ArrayLoader(X, Y, batch_size=8, **options)


def model_on(device, kind=Net, optimizer=None, use_graph=True, seed=0):
    random.manual_seed(seed)
    model = kind(optimizer or opt.SGD(0.1, momentum=0.5))
    return model.compile([Placeholder((8, 4), device=device)], use_graph=use_graph)


def bits(model):
    return {name: cell.numpy().tobytes() for name, cell in model.get_states().items()}


class Fake:
    """A training whose rows are written by hand."""

    def __init__(self, model=None, epochs=100):
        self.model, self.epochs, self.history = model, epochs, History()
        self.epoch = self.steps = 0
        self.validation = ()

    def run(self, callback, values, name="val_loss"):
        """Tell the callback of epochs; gives how many there were before it ended them."""
        for value in values:
            self.history.rows.append({"epoch": self.epoch + 1, name: value})
            self.epoch += 1
            callback.on_epoch_end(self)
            if self.history.stopped:
                break
        return self.epoch

    def stop(self, reason):
        self.history.stopped = reason


# -- early stopping -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "values", "epochs"), [
    ({"patience": 1}, [3, 2, 1, 1, 0], 4),
    ({"patience": 2}, [3, 2, 2, 1, 5, 1, 0], 6),
    ({"patience": 3}, [3, 4, 5, 6, 0], 4),
    ({"patience": 2, "min_delta": 0.5}, [3, 2.6, 2.5, 0], 3),
    ({"patience": 2, "min_delta": 0.5}, [3, 2.4, 2.1, 2.0, 0], 4),
    ({"patience": 1, "mode": "max"}, [1, 2, 3, 2, 9], 4),
    ({"patience": 1, "mode": "max", "min_delta": 1}, [1, 2.5, 3.0, 9], 3),
    ({"patience": 2}, [math.nan, math.nan, 1], 2),
    ({"patience": 2}, [math.inf, 1, math.nan, 0.5, 1, 1], 6),
    ({"patience": 1}, [5, 4, 3, 2, 1], 5),
    ({"patience": 1}, [-1, -2, -1.5], 3),
])  # fmt: skip
def test_early_stopping(options, values, epochs):
    training, stop = Fake(), EarlyStopping(**options)
    stop.on_setup(training)
    assert training.run(stop, values) == epochs
    assert (training.history.stopped is None) is (values[-1] == 1 and epochs == 5)


def test_why_it_was_stopped():
    training = Fake()
    training.run(EarlyStopping("loss", patience=2), [0.12345678, 1, 1], "loss")
    assert training.history.stopped == "loss has not improved for 2 epochs, 0.1235 at best"
    training = Fake()
    training.run(EarlyStopping("loss", patience=1), [math.nan], "loss")
    assert training.history.stopped == "loss has not improved for 1 epochs, never at best".replace(" at best", "")  # fmt: skip


@pytest.mark.parametrize("make", [EarlyStopping, ReduceOnPlateau])
def test_a_metric_that_there_is_not(make):
    training = Fake(Net())
    with pytest.raises(
        ArgumentError,
        match=f"{make.__name__}: needs an epoch with 'val_loss', got one with epoch, loss",
    ):
        training.run(make(), [1.0], "loss")


@pytest.mark.parametrize("make", [
    EarlyStopping, ReduceOnPlateau,
    lambda: Checkpoint("x.ckpt", best="val_accuracy", resume=True),
])  # fmt: skip
def test_without_validation_there_will_be_no_such_metric(device, tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    model = model_on(device)
    before = bits(model)
    with pytest.raises(
        ArgumentError, match=r"needs a validation to have 'val_.*\ntry: .*validation=loader"
    ):
        model.fit(loader(), 1, callbacks=[make()], progress=False)
    assert (bits(model), list(tmp_path.iterdir())) == (before, [])


@pytest.mark.parametrize(("make", "text"), [
    (lambda: EarlyStopping(patience=0), "EarlyStopping: needs an integer patience >= 1, got 0"),
    (lambda: EarlyStopping(mode="most"), "EarlyStopping: needs mode among min, max, got 'most'"),
    (lambda: EarlyStopping(min_delta=-1), "EarlyStopping: needs a number 0 <= min_delta < inf, got -1"),
    (lambda: ReduceOnPlateau(factor=1.0), "ReduceOnPlateau: needs a number 0 < factor < 1, got 1.0"),
    (lambda: ReduceOnPlateau(patience=-1), "an integer patience >= 0"),
    (lambda: ReduceOnPlateau(cooldown=1.5), "an integer cooldown >= 0"),
    (lambda: ReduceOnPlateau(mode=None), "got None"),
    (lambda: Checkpoint("x", every=0), "Checkpoint: needs an integer every >= 1, got 0"),
    (lambda: Checkpoint("x", keep=0), "Checkpoint: needs an integer keep >= 1, got 0"),
    (lambda: Checkpoint("x", best="loss", mode="?"), "Checkpoint: needs mode among min, max, got '?'"),
    (lambda: Checkpoint("{val_loss}.x"), r"Checkpoint: needs {epoch} or {step} in the name, got {val_loss}"),
    (lambda: Checkpoint("{step}-{epoch:03d}"), r"needs {epoch} or {step} in the name, got {epoch:03d}"),
    (lambda: JsonlLog("x", every=0), "JsonlLog: needs an integer every >= 1, got 0"),
])  # fmt: skip
def test_arguments_that_are_refused(make, text):
    with pytest.raises(ArgumentError, match=text):
        make()


@pytest.mark.parametrize("make", [
    lambda: EarlyStopping(patience=2), lambda: ReduceOnPlateau(patience=1, cooldown=1),
    lambda: Checkpoint("x", best="val_loss"),
])  # fmt: skip
def test_what_a_callback_knows_goes_through_json(make):
    model = Net()
    one, two, training = make(), make(), Fake(model)
    for callback in (one, two):
        callback.on_setup(training)
    if isinstance(one, Checkpoint):
        one._best.improves(3.0)
        one._written = ["a", "b"]
    else:
        training.run(one, [3.0, 2.0, 2.5])
    two.restore(json.loads(json.dumps(one.state())))
    assert two.state() == one.state() != make().state()
    make().restore({})


# -- a lower rate -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {"patience": 1}, {"patience": 0, "factor": 0.5}, {"patience": 0, "cooldown": 2},
    {"patience": 0, "threshold": 0.2}, {"patience": 1, "mode": "max"}, {"patience": 0, "floor": 0.02},
])  # fmt: skip
def test_the_rate_is_reduced_as_in_pytorch(options):
    torch = pytest.importorskip("torch")
    values = [5, 4, 4, 4.1, 3.99, 3.9, 3.9, 3.9, 3.9, 3.5, 3.4, 3.3, 3.3, 3.3, 3.3, 3.3, 1, 1, 1, 1]
    peer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    theirs = {"min_lr" if k == "floor" else k: v for k, v in options.items()}
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(peer, eps=0, **theirs)
    model = Net(opt.SGD(0.1))
    training, reduce = Fake(model), ReduceOnPlateau(**options)
    reduce.on_setup(training)
    rates = []
    for value in values:
        schedule.step(value)
        training.run(reduce, [value])
        rates.append(peer.param_groups[0]["lr"])
        assert model.optimizer.lr == pytest.approx(rates[-1])
    assert len(set(rates)) >= 2


def test_a_schedule_is_scaled(device):
    model = model_on(device, optimizer=opt.SGD(opt.Cosine(1.0, 20)))
    history = fit(model, loader(), 4, progress=False, callbacks=[ReduceOnPlateau("epoch", patience=0, factor=0.5, floor=0.05)])  # fmt: skip
    base = opt.Cosine(1.0, 20)
    # a row has the rate before the reduction; the schedule's own 0 is below the floor
    assert history["lr"] == pytest.approx([base(5), base(10), base(15) / 2, 0.0])
    model.optimizer.steps.value = 10
    assert model.optimizer.lr == pytest.approx(max(base(10) / 8, 0.05))


def test_a_new_rate_is_not_a_new_graph(device):
    model = model_on(device)
    fit(model, loader(), 4, progress=False, callbacks=[ReduceOnPlateau("epoch", patience=0)])
    assert model.optimizer.lr == pytest.approx(1e-4)
    assert len(model.graph_report()) == 1


def test_there_has_to_be_an_optimizer():
    model = Net()
    model.optimizer = None
    with pytest.raises(ArgumentError, match="needs an Optimizer as model.optimizer, got NoneType"):
        fit(model, loader(), 1, callbacks=[ReduceOnPlateau()], progress=False)


# -- files --------------------------------------------------------------------------------------------


def names(folder):
    return sorted(path.name for path in folder.iterdir())


class Names(Callback):
    """What is in a folder after each epoch."""

    last = True

    def __init__(self, folder):
        self.folder, self.seen = folder, []

    def on_epoch_end(self, training):
        self.seen.append(names(self.folder))


@pytest.mark.parametrize(("name", "options", "wanted"), [
    ("x", {}, [["x"]] * 5),
    ("x-{epoch}", {}, [["x-1"], ["x-2"], ["x-3"], ["x-4"], ["x-5"]]),
    ("x-{epoch}", {"keep": 2}, [["x-1"], ["x-1", "x-2"], ["x-2", "x-3"], ["x-3", "x-4"], ["x-4", "x-5"]]),
    ("x-{step}", {"keep": None, "every": 2}, [[], ["x-10"], ["x-10"], ["x-10", "x-20"], ["x-10", "x-20", "x-25"]]),
    ("{epoch}of{step}.y", {"every": 3}, [[], [], ["3of15.y"], ["3of15.y"], ["5of25.y"]]),
    ("x.ckpt", {"every": 9}, [[], [], [], [], ["x.ckpt"]]),
])  # fmt: skip
def test_which_files_there_are(tmp_path, name, options, wanted):
    seen = Names(tmp_path)
    callbacks = [Checkpoint(tmp_path / name, **options), seen]
    fit(model_on("cpu_numpy"), loader(), 5, callbacks=callbacks, progress=False)
    assert seen.seen == wanted


class Planned(Callback):
    """Puts a value of its own into each row."""

    def __init__(self, values):
        self.values = values

    def on_epoch_end(self, training):
        training.history.rows[-1]["planned"] = self.values[training.epoch - 1]


@pytest.mark.parametrize(
    ("name", "best"), [("x-{epoch}.y", "x-best.y"), ("x.y", "x-best.y"), ("x", "x-best")]
)
@pytest.mark.parametrize(("mode", "epoch"), [("min", 3), ("max", 2)])
def test_the_best_one_is_kept_apart(device, tmp_path, name, best, mode, epoch):
    model, states = model_on(device), []

    class Keep(Callback):
        def on_epoch_end(self, training):
            states.append(bits(training.model))

    keep = Checkpoint(tmp_path / name, best="planned", mode=mode)
    values = [2.0, 5.0, 1.0, math.nan, 4.0]
    fit(model, loader(), 5, callbacks=[keep, Planned(values), Keep()], progress=False)
    other = Net(opt.SGD(0.1, momentum=0.5)).to(device)
    report = load(other, tmp_path / best, include_state=True, strict=True)
    assert bits(other) == states[epoch - 1]
    assert report.state["training"]["epoch"] == epoch
    assert names(tmp_path) == sorted([best, name.replace("{epoch}", "5")])


def resumed(path, epochs=2, device="cpu_numpy", resume=True, **options):
    model = model_on(device, seed=7)
    history = fit(model, loader(), epochs, callbacks=[Checkpoint(path, resume=resume, **options)], progress=False)  # fmt: skip
    return model, history


def test_resume_begins_anew_where_there_is_nothing(tmp_path):
    model, history = resumed(tmp_path / "x")
    wanted = model_on("cpu_numpy", seed=7)
    fit(wanted, loader(), 2, progress=False)
    assert (bits(model), len(history), names(tmp_path)) == (bits(wanted), 2, ["x"])


def test_a_damaged_file_is_passed_over_aloud(tmp_path):
    model = model_on("cpu_numpy")
    wanted = fit(model, loader(), 4, callbacks=[Checkpoint(tmp_path / "x-{epoch}", keep=3)], progress=False)  # fmt: skip
    data = (tmp_path / "x-4").read_bytes()
    (tmp_path / "x-4").write_bytes(data[:-500])
    (tmp_path / "x-junk").write_bytes(b"not one of ours by its name")
    with pytest.warns(CheckpointWarning, match="passed over: .*x-4: .* is damaged"):
        again, history = resumed(tmp_path / "x-{epoch}", 4, keep=3)
    assert bits(again) == bits(model)
    assert history["loss"] == wanted["loss"]
    assert names(tmp_path) == ["x-2", "x-3", "x-4", "x-junk"]
    assert (tmp_path / "x-4").read_bytes() != data[:-500]
    for name in ("x-2", "x-3", "x-4"):
        (tmp_path / name).write_bytes(data[:-500])
    with (
        pytest.warns(CheckpointWarning),
        pytest.raises(FileDamaged),
    ):  # too many to go on in silence
        resumed(tmp_path / "x-{epoch}", 4)


def test_the_latest_file_is_the_one_written_last(tmp_path):
    fit(model_on("cpu_numpy"), loader(), 3, callbacks=[Checkpoint(tmp_path / "x-{epoch}", keep=None)], progress=False)  # fmt: skip
    for seconds, name in enumerate(("x-3", "x-1", "x-2")):
        os.utime(tmp_path / name, (10**9 + seconds,) * 2)
    (tmp_path / "x-2.part").write_bytes(b"")
    (tmp_path / "x-9").mkdir()
    _, history = resumed(tmp_path / "x-{epoch}", 2)
    assert [row["epoch"] for row in history.rows] == [1, 2]
    assert (tmp_path / "x-3").exists()


def test_a_file_that_fits_no_longer_is_not_used(tmp_path):
    fit(model_on("cpu_numpy"), loader(), 1, callbacks=[Checkpoint(tmp_path / "x")], progress=False)
    with pytest.raises(Mismatch, match="not in the model: optimizers.optimizer.momentum"):
        fit(model_on("cpu_numpy", optimizer=opt.Adam(0.1)), loader(), 2, callbacks=[Checkpoint(tmp_path / "x", resume=True)], progress=False)  # fmt: skip
    save(model_on("cpu_numpy"), tmp_path / "y")
    with pytest.raises(
        ArgumentError, match="Checkpoint: needs a file that a Checkpoint saved, got"
    ):
        resumed(tmp_path / "y")


def test_files_of_this_training_only_are_removed(tmp_path):
    (tmp_path / "x-0").write_bytes(b"somebody's")
    (tmp_path / "x-77").write_bytes(b"somebody's")
    fit(model_on("cpu_numpy"), loader(), 3, callbacks=[Checkpoint(tmp_path / "x-{epoch}")], progress=False)  # fmt: skip
    assert names(tmp_path) == ["x-0", "x-3", "x-77"]


def test_resume_from_a_file_of_another_name(tmp_path):
    whole = model_on("cpu_numpy")
    rows = fit(whole, loader(), 4, progress=False).rows
    first = tmp_path / "first"
    fit(model_on("cpu_numpy"), loader(), 2, callbacks=[Checkpoint(first)], progress=False)
    before = first.read_bytes()
    other = tmp_path / "folder" / "x-{epoch}"
    again, history = resumed(other, 4, resume=first)
    assert [row["loss"] for row in history.rows] == [row["loss"] for row in rows]
    assert bits(again) == bits(whole)
    assert first.read_bytes() == before
    assert [path.name for path in other.parent.iterdir()] == ["x-4"]  # x-3 gave way to it


def test_resume_from_the_file_that_is_written(tmp_path):
    resumed(tmp_path / "x", 2)
    _, history = resumed(tmp_path / "x", 3, resume=tmp_path / "x")
    assert len(history) == 3
    _, history = resumed(tmp_path / "x", 4)
    assert len(history) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_file_named_to_resume_from_has_to_be_there_and_whole(tmp_path):
    resumed(tmp_path / "x-{epoch}", 2, keep=2)
    (tmp_path / "x-2").write_bytes((tmp_path / "x-2").read_bytes()[:-40])
    with pytest.raises(FileDamaged):  # x-1 was not asked for
        resumed(tmp_path / "x-{epoch}", 4, resume=str(tmp_path / "x-2"))
    with pytest.raises(FileNotFoundError):
        resumed(tmp_path / "x-{epoch}", 4, resume=str(tmp_path / "x-3"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x-1", "x-2"]


def test_a_resumed_training_still_removes_its_old_files(tmp_path):
    path = tmp_path / "x-{epoch}"
    fit(model_on("cpu_numpy"), loader(), 2, callbacks=[Checkpoint(path, keep=2)], progress=False)
    resumed(path, 4, keep=2)
    assert names(tmp_path) == ["x-3", "x-4"]
    (tmp_path / "x-1").write_bytes(b"somebody's")  # removed once, and no longer ours
    os.utime(tmp_path / "x-1", (10**9, 10**9))
    resumed(path, 5, keep=2)
    assert names(tmp_path) == ["x-1", "x-4", "x-5"]


def test_a_folder_is_no_file(device, tmp_path):
    model = model_on(device)
    before, said = (
        bits(model),
        "Checkpoint: needs the path of a file, got that of a folder\ntry: .*run.ckpt",
    )
    for path in (tmp_path, f"{tmp_path}/"):
        with pytest.raises(ArgumentError, match=said):
            model.fit(loader(), 1, callbacks=[Checkpoint(path)], progress=False)
    assert bits(model) == before


def test_folders_are_made_or_it_fails_at_once(tmp_path):
    callbacks = [Checkpoint(tmp_path / "a" / "b" / "x"), JsonlLog(tmp_path / "c" / "log")]
    fit(model_on("cpu_numpy"), loader(), 1, callbacks=callbacks, progress=False)
    assert (names(tmp_path), names(tmp_path / "a" / "b")) == (["a", "c"], ["x"])
    for make in (Checkpoint, JsonlLog):
        model = model_on("cpu_numpy")
        with pytest.raises(OSError, match="File exists|Not a directory"):
            fit(model, loader(), 1, callbacks=[make(tmp_path / "c" / "log" / "x")], progress=False)
        assert model.optimizer.steps.value == 0


def test_a_full_disk_is_told_and_training_goes_on(tmp_path, monkeypatch):
    real, calls = container.write, []

    def write(path, *args):
        calls.append(path)
        if len(calls) in (2, 3):
            raise NotSaved(path, "No space left on device")
        real(path, *args)

    monkeypatch.setattr("singa_core.io.checkpoint.container.write", write)
    seen = Names(tmp_path)
    keep = Checkpoint(tmp_path / "x-{epoch}")
    with pytest.warns(
        CheckpointWarning, match="x-[23]: not saved: No space left on device"
    ) as told:
        history = fit(model_on("cpu_numpy"), loader(), 5, callbacks=[keep, seen], progress=False)
    assert (len(history), len(told)) == (5, 2)
    assert seen.seen == [["x-1"], ["x-1"], ["x-1"], ["x-4"], ["x-5"]]


def test_other_callbacks_are_asked_before_the_file_is_written(tmp_path):
    class Late(Callback):
        told = 0

        def on_epoch_end(self, training):
            self.told += 1

        def state(self):
            return {"told": self.told}

        def restore(self, state):
            self.told = state["told"]

    one, two, three = Late(), Late(), Late()
    fit(model_on("cpu_numpy"), loader(), 2, callbacks=[Checkpoint(tmp_path / "x"), one, two], progress=False)  # fmt: skip
    two.told = 50
    fit(model_on("cpu_numpy"), loader(), 3, callbacks=[Checkpoint(tmp_path / "x", resume=True), two, three], progress=False)  # fmt: skip
    assert (one.told, two.told, three.told) == (2, 3, 3)


# -- logs ---------------------------------------------------------------------------------------------


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_for_each_epoch_and_for_some_steps(device, tmp_path):
    path = tmp_path / "log"
    path.write_text("something old\n")
    steps = []

    class Read(Callback):
        def on_step_end(self, training):
            steps.append(float(training.loss))

    history = fit(model_on(device), loader(), 2, callbacks=[JsonlLog(path, every=4), Read()], progress=False)  # fmt: skip
    found = lines(path)
    assert [line["step"] for line in found] == [4, 5, 8, 10]
    assert found[0] == {"epoch": 1, "step": 4, "step_loss": steps[3]}
    assert found[2] == {"epoch": 2, "step": 8, "step_loss": steps[7]}
    assert [found[1], found[3]] == [{**row, "step": 5 * (i + 1)} for i, row in enumerate(history.rows)]  # fmt: skip
    fit(model_on(device), loader(), 1, callbacks=[JsonlLog(path)], progress=False)
    assert [line["epoch"] for line in lines(path)] == [1]


def test_each_line_is_there_when_it_is_written(tmp_path):
    path, seen = tmp_path / "log", []

    class Look(Callback):
        last = True

        def on_epoch_end(self, training):
            seen.append(len(lines(path)))

    fit(model_on("cpu_numpy"), loader(), 3, callbacks=[JsonlLog(path), Look()], progress=False)
    assert seen == [1, 2, 3]


def test_a_resumed_log_has_each_step_once(tmp_path):
    log = JsonlLog(tmp_path / "log", every=2)
    fit(model_on("cpu_numpy"), loader(), 2, callbacks=[log, Checkpoint(tmp_path / "x")], progress=False)  # fmt: skip
    before = lines(tmp_path / "log")
    with (tmp_path / "log").open("a") as file:  # steps that were made after the file was written
        file.write('{"epoch": 3, "step": 12, "step_loss": 9.0}\n[]\n{"epoch": 3, "st')
    fit(model_on("cpu_numpy"), loader(), 3, callbacks=[JsonlLog(tmp_path / "log", every=2), Checkpoint(tmp_path / "x", resume=True)], progress=False)  # fmt: skip
    after = lines(tmp_path / "log")
    assert after[: len(before)] == before
    assert [line["step"] for line in after] == [2, 4, 5, 6, 8, 10, 10, 12, 14, 15]
    assert 9.0 not in [line.get("step_loss") for line in after]


def test_a_log_is_json_whatever_the_numbers(tmp_path):
    log = JsonlLog(tmp_path / "log")
    fit(model_on("cpu_numpy"), loader(), 3, callbacks=[Planned([math.nan, math.inf, 1.5]), log], progress=False)  # fmt: skip

    def refuse(text):
        raise AssertionError(text)

    text = (tmp_path / "log").read_text()
    found = [json.loads(line, parse_constant=refuse) for line in text.splitlines()]
    assert [line["planned"] for line in found] == ["nan", "inf", 1.5]


# -- a bar --------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_line_for_each_epoch_where_there_is_no_terminal(device, capsys):
    history = fit(model_on(device), loader(), 2, metrics=[Accuracy()], validation=loader())
    out, err = capsys.readouterr()
    assert err == ""
    first, second = out.splitlines()
    row = history.rows[1]
    assert second == (
        f"epoch 2/2  loss {row['loss']:.4g}  accuracy {row['accuracy']:.4g}  "
        f"val_loss {row['val_loss']:.4g}  val_accuracy {row['val_accuracy']:.4g}  lr 0.1  "
        f"{row['ms_per_step']:.2f} ms a step"
    )
    assert first.startswith("epoch 1/2  loss ")
    fit(model_on(device), loader(), 1, progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_bar_with_loss_metrics_and_time_on_a_terminal(device):
    file = Terminal()
    fit(model_on(device), loader(), 2, metrics=[Accuracy()], callbacks=[ProgressBar(file=file, interval=0)])  # fmt: skip
    text = file.getvalue()
    assert "epoch 1/2:" in text
    assert re.search(r"loss \d\.\d+  accuracy 0\.\d+  \d+\.\d\d ms a step", text)
    assert text.count("epoch 2/2  loss ") == 1


def test_the_bar_reads_now_and_then_only(device, monkeypatch):
    reads = []
    real = device.download
    monkeypatch.setattr(device, "download", lambda *args: reads.append(1) or real(*args))
    model = model_on(device)
    model.train_one_batch(X[:8], Y[:8])
    del reads[:]
    fit(model, loader(), 1, callbacks=[ProgressBar(file=Terminal(), interval=1e9)])
    assert len(reads) == 5


def test_the_bar_goes_on_where_a_resumed_epoch_does(tmp_path):
    class Stop(Callback):
        def on_step_end(self, training):
            if training.steps == 3:
                raise KeyboardInterrupt

    quiet, file = Terminal(), Terminal()
    fit(model_on("cpu_numpy"), loader(), 1, callbacks=[Checkpoint(tmp_path / "x"), Stop(), ProgressBar(file=quiet)])  # fmt: skip
    assert quiet.getvalue().endswith("interrupted in epoch 1 after batch 3\n")
    fit(model_on("cpu_numpy"), loader(), 1, callbacks=[Checkpoint(tmp_path / "x", resume=True), ProgressBar(file=file, interval=0)])  # fmt: skip
    assert "60%" in file.getvalue()
    assert "20%" not in file.getvalue()


def test_why_a_training_ended_is_shown(capsys):
    fit(model_on("cpu_numpy"), loader(), 9, callbacks=[EarlyStopping("epoch", patience=1)])
    assert capsys.readouterr().out.splitlines()[-1] == "stopped: epoch has not improved for 1 epochs, 1 at best"  # fmt: skip


# -- not a number -------------------------------------------------------------------------------------


class Faulty(Layer):
    """Takes a root, a logarithm or a quotient of what may be nothing."""

    def __init__(self, what="log"):
        self.what, self.inner = what, Linear(4, in_features=4)

    def forward(self, x):
        y = self.inner(x)
        if self.what == "log":
            return y.log()
        if self.what == "sqrt":  # finite, but its slope at 0 is not
            return (y * 0.0).sqrt() + y
        return y


class Watched(Model):
    def __init__(self, optimizer, what="log"):
        self.first, self.second = Sequential(Linear(4), ReLU()), Faulty(what)
        self.seen, self.count = State((), "zeros"), Counter()
        self.loss, self.optimizer = (lambda y, _: y.square().mean()), optimizer

    def forward(self, x):
        self.seen.assign(self.seen + 1.0)
        return self.second(self.first(x))


def found(model, data=None, **options):
    with pytest.raises(NaNFound) as caught:
        fit(model, data or loader(), 1, callbacks=[NaNGuard()], progress=False, **options)
    return str(caught.value)


@pytest.mark.parametrize("use_graph", [False, True])
def test_the_layer_whose_output_was_the_first(device, use_graph):
    text = found(model_on(device, Watched, use_graph=use_graph))
    assert re.match(
        r"NaNGuard: needs finite numbers, got a loss of nan in epoch 1, batch 1\n  it begins with the "
        r"output of second \(Faulty\): \d+ NaN and 0 infinite among 32; input 0 to \d\.\d+\n"
        r"  the model is as it was before that step\ntry: ",
        text,
    )


@pytest.mark.parametrize("use_graph", [False, True])
def test_the_gradient_that_was_the_first(device, use_graph):
    """The loss is finite, and the parameters are not after the step."""
    text = found(model_on(device, lambda o: Watched(o, "sqrt"), use_graph=use_graph))
    assert re.search(r"got a loss of \d\S+ and parameters that are not in epoch 1, batch 1\n", text)
    assert (
        "it begins with the gradient of the output of second.inner (Linear), on the way back from "
        "second (Faulty): "
    ) in text


def test_the_item_of_the_batch_that_was_the_first(device):
    batches = [(X[:8], X[:8]), (np.where(X[8:16] > 1, np.nan, X[8:16]), X[8:16])]
    text = found(model_on(device, lambda o: Watched(o, "none")), batches)
    assert re.search(
        "epoch 1, batch 2\n  it begins with item 0 of the batch: [1-9] NaN and 0 inf", text
    )
    named = [{"x": X[:8], "target": X[:8]}, {"x": X[:8], "target": X[:8] * np.float32(np.inf)}]

    class Named(Watched):
        def train_one_batch(self, x, target):
            loss = self.loss(self.forward(x) - target, None)
            self.optimizer(loss)
            return loss

    text = found(model_on(device, lambda o: Named(o, "none")), named)
    assert "epoch 1, batch 2\n  it begins with item 'target' of the batch: 0 NaN and 32 inf" in text


def test_a_parameter_that_was_so_before(device):
    model = model_on(device, lambda o: Watched(o, "none"))
    model.second.inner.bias.assign(np.array([0, np.inf, np.nan, 1], np.float32))
    text = found(model)
    assert (
        "it begins with 'second.inner.bias', before the step: 1 NaN and 1 infinite among 4\n"
        in text
    )


@pytest.mark.parametrize("use_graph", [False, True])
def test_an_update_that_goes_too_far(device, use_graph):
    model = model_on(device, lambda o: Watched(o, "none"), opt.SGD(3e38), use_graph)
    model.loss = lambda y, _: y.sum() * 1e3
    text = found(model)
    assert re.search(r"batch 1\n  it begins with the update of '\w+(\.\w+)*', whose gradient is finite", text)  # fmt: skip


def test_the_loss_that_was_the_first(device):
    model = model_on(device, lambda o: Watched(o, "none"))
    model.loss = lambda y, _: (y - 100.0).sqrt().mean()
    text = found(model)
    assert (
        "it begins with the loss, or its gradient: the outputs of all layers are finite, the gradient "
        "of the output of second.inner (Linear) is not\n"
    ) in text
    model.loss = lambda y, _: y.sum() * 0.0 + (y.detach() - 100.0).log().mean()
    assert "it begins with the loss: the outputs of all layers and all gradients are" in found(
        model
    )


@pytest.mark.parametrize("use_graph", [False, True])
@pytest.mark.parametrize("what", ["log", "sqrt"])
def test_the_model_is_left_as_it_was_before_the_step(device, use_graph, what):
    dropout = Dropout(0.5)

    class Late(Watched):
        """Goes wrong in the third step."""

        late = False

        def forward(self, x):
            self.count.advance()
            y = dropout(self.first(x))
            return self.second(y) if self.late else self.second.inner(y)

    model = model_on(device, lambda o: Late(o, what), opt.Adam(0.01), use_graph)
    wanted = []

    class Arm(Callback):
        last = True

        def on_step_end(self, training):
            if training.steps == 2:
                wanted.append(everything(model))
                model.late = True

    def everything(model):
        slots = model.optimizer.get_states(model.get_params())
        slots = {k: v if isinstance(v, int) else v.numpy().tobytes() for k, v in slots.items()}
        streams = {name: stream.state() for name, stream in random.STREAMS.items()}
        return bits(model), slots, streams, model.count.value

    with pytest.raises(NaNFound, match="epoch 1, batch 3"):
        fit(model, loader(), 1, callbacks=[NaNGuard(), Arm()], progress=False)
    assert everything(model) == wanted[0]
    assert "forward" not in vars(model.second)
    assert (model._graphs is not None) is use_graph
    model.late = False
    fit(model, loader(), 1, callbacks=[NaNGuard()], progress=False)  # and can go on


def test_a_model_that_was_never_compiled_is_searched_too(device):
    random.manual_seed(0)
    model = Watched(opt.SGD(0.1)).to(device)
    assert "it begins with the output of second (Faulty)" in found(model)
    assert not model.get_states()["first.steps.0.weight"].materialized


@pytest.mark.parametrize("use_graph", [False, True])
def test_the_guard_changes_nothing_while_all_is_well(device, use_graph):
    one, two = (model_on(device, use_graph=use_graph) for _ in range(2))
    histories = [fit(one, loader(), 2, callbacks=[NaNGuard()], progress=False)]
    histories.append(fit(two, loader(), 2, progress=False))
    assert histories[0]["loss"] == histories[1]["loss"]
    assert bits(one) == bits(two)


def test_integers_and_empty_states_are_no_trouble(device):
    class Odd(Net):
        def __init__(self, optimizer):
            super().__init__(optimizer)
            self.steps = State((2,), "zeros", dtype="int32")
            self.nothing = Parameter((0, 3), "zeros")

    model = model_on(device, Odd)
    model.nothing.materialize(device)
    model.steps.materialize(device)
    assert len(fit(model, loader(), 1, callbacks=[NaNGuard()], progress=False)) == 1
