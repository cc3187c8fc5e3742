"""The examples: they learn what they say, print what a reader looks for, and run on any device."""

import dataclasses
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import _run
from conftest import open_device
from singa_core.callbacks import Callback
from singa_core.data.sources import DataMissing
from singa_core.data.text import Text
from singa_core.errors import ArgumentError
from singa_core.io import container

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("_"))


def images(load, train, test):
    """A function like `load`, which gives the first images of a data set."""
    data = load(0)
    cut = {
        f"{part}_{kind}": getattr(data, f"{part}_{kind}")[:count]
        for part, count in (("train", train), ("test", test))
        for kind in ("images", "labels")
    }
    return lambda seed: dataclasses.replace(data, **cut)


def text(load, train, test):
    """A function like `load`, which gives the first 50 characters for each of so many."""
    data = load()
    cut = Text(data.train[: 50 * train], data.test[: 50 * test], data.info)
    return lambda: cut


@dataclasses.dataclass(frozen=True)
class Small:
    """How an example is made small: its data, and options and constants that go with it."""

    loads: str  # name of the function that loads
    few: object  # makes another of it
    options: str  # of a training of a few seconds
    learnt: tuple[float, float]  # between which numbers it has to come
    told: str = r"test accuracy (0\.\d{4})"
    size: tuple[int, int] = (960, 400)  # samples to train and to test on
    little: tuple[int, int] = (256, 64)  # where it need not learn
    constants: dict[str, int] = dataclasses.field(default_factory=dict)


SMALL = {
    "mnist_cnn": Small("load_mnist_5k", images, "--epochs 3", (0.85, 1)),
    "mnist_mlp": Small("load_mnist_5k", images, "--epochs 3", (0.8, 1)),
    "resnet": Small(
        "load_colour_digits", images, "--epochs 3 --width 8 --rate 0.03", (0.1, 2.15),  # ln 10 = 2.3 by chance
        told=r"epoch 3/3  loss (\S+)", size=(160, 24), little=(16, 8), constants={"BATCH": 8},
    ),
    "transformer_text": Small(
        "load_king_james", text, "--epochs 3 --layers 1 --width 32 --context 16", (2, 4.2),
        told=r"test bits (\d\.\d{3}) per",  # log2(68) = 6.1 by chance
        constants={"EPOCH": 20, "SAMPLE": 20, "WARM_UP": 5, "TESTED": 32},
    ),
}  # fmt: skip


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """A function that runs an example on some of its data and gives what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SINGA_DEVICE", raising=False)
    monkeypatch.setattr(_run, "COMPARED", 1)
    monkeypatch.setattr(_run, "ROUNDS", 1)

    def call(name, *options, little=False):
        module, small = load(name), SMALL[name]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        try:
            size = small.little if little else small.size
            few = small.few(getattr(module, small.loads), *size)
        except DataMissing as error:
            pytest.skip(str(error).replace("\n", "; "))
        for constant, value in {**small.constants, small.loads: few}.items():
            monkeypatch.setattr(module, constant, value)
        capsys.readouterr()  # of a run before that ended early
        module.main([*small.options.split(), *options])
        printed = capsys.readouterr()
        assert printed.err == ""  # a progress bar is for terminals only
        return printed.out

    return call


def load(name):
    """An example as a module, without running it."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def number(text, pattern):
    (found,) = re.findall(pattern, text)
    return float(found)


def facts(text):
    """What has to be the same in every run: all but times and bytes."""
    return re.findall(r"(?:val_)?(?:loss|accuracy) \S+|test \w+ \S+|^> .*", text, re.MULTILINE)


def state_in(path):
    """The bytes of all tensors of a saved run, and its counters and streams."""
    manifest, members = container.read(path)
    kept = {key: manifest[key] for key in ("counters", "random", "optimizers")}
    rows = [
        {k: v for k, v in row.items() if k != "ms_per_step"}
        for row in manifest["state"]["training"]["history"]
    ]
    return members["state.safetensors"], json.dumps(kept), rows


# --- each example ------------------------------------------------------------------------------------


def test_no_example_is_left_out():
    assert sorted(SMALL) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_example_says_what_it_does_and_has_options(capsys, name):
    module = load(name)
    assert module.__doc__.splitlines()[0].endswith(".")
    with pytest.raises(SystemExit) as stop:
        module.main(["--help"])
    assert stop.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    assert " ".join(module.__doc__.split())[:60] in told
    for option in ("--device", "--epochs", "--seed", "--no-graph", "--save", "--resume", "--plot"):
        assert option in told


def test_the_default_device_is_that_of_the_environment(capsys, monkeypatch):
    module = load("mnist_mlp")
    monkeypatch.setenv("SINGA_DEVICE", "nowhere:3")
    with pytest.raises(SystemExit):
        module.main(["--help"])
    assert "without it nowhere:3 (SINGA_DEVICE" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit) as stop:
        module.main([])
    assert stop.value.code == 2
    assert "argument --device: backend 'nowhere': no such backend" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_the_same_with_and_without_graphs(run, name):
    recorded = run(name)
    low, high = SMALL[name].learnt
    assert low <= number(recorded, SMALL[name].told) <= high
    assert re.search(r"\na step takes \d+\.\d\d ms recorded, \d+\.\d\d ms eager\n", recorded)
    planned = number(recorded, r"\ntemporaries of a step are planned to take (\d+\.\d) MiB\n")
    peak = number(recorded, r"\npeak memory (\d+\.\d) MiB on cpu_numpy, by core's count\n")
    assert 0.1 < planned <= peak < 200
    loaded = r"\nsaved in a file \(\d+\.\d MiB\) and loaded into a new model: the same results\n"
    assert re.search(loaded, recorded)
    eager = run(name, "--no-graph")
    assert facts(eager) == facts(recorded)
    assert len(facts(eager)) > 6  # 2 of each epoch, and what is told at the end


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_on_any_device(run, device, name):
    options = ["--device", device.name, "--epochs", "1", "--seed", "3"]
    printed = run(name, *options, little=True)
    assert f"on {device}\n" in printed.splitlines(keepends=True)[0]
    assert f"MiB on {device}, by core's count\n" in printed


@pytest.mark.parametrize("name", NAMES)
def test_eager_recorded_and_fused_are_the_same(run, name, monkeypatch):
    device = open_device("opencl")  # one that fuses
    assert device.capabilities.fuses
    options = ("--device", device.name, "--epochs", "1")
    eager = run(name, *options, "--no-graph", little=True)
    fused = run(name, *options, little=True)
    apart = dataclasses.replace(device.capabilities, fuses=frozenset(), batches=frozenset())
    monkeypatch.setattr(device, "capabilities", apart)
    recorded = run(name, *options, little=True)
    assert facts(eager) == facts(recorded) == facts(fused)
    assert len(facts(eager)) > 2


class Killed(BaseException):
    """What ends a run where nothing can be done about it any more."""


class Killer(Callback):
    """Ends a training in the middle of its last epoch but one."""

    def on_step_end(self, training):
        if training.epoch + 2 == training.epochs and training.batch == 1:
            raise Killed


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_killed_goes_on_bit_for_bit(run, name, tmp_path, monkeypatch):
    whole = run(name, "--save", "whole.singa", little=True)
    fit = _run.fit

    def doomed(*args, callbacks=(), **options):
        return fit(*args, callbacks=[Killer(), *callbacks], **options)

    with monkeypatch.context() as patch:
        patch.setattr(_run, "fit", doomed)
        with pytest.raises(Killed):
            run(name, "--save", "part.singa", little=True)
    assert state_in(tmp_path / "part.singa") != state_in(tmp_path / "whole.singa")
    rest = run(name, "--resume", "part.singa", little=True)
    assert state_in(tmp_path / "part.singa") == state_in(tmp_path / "whole.singa")
    assert facts(rest) == facts(whole)[-len(facts(rest)) :]
    assert "\nepoch 1/" not in rest
    assert "saved in part.singa (" in rest


# --- what is the same in all of them -----------------------------------------------------------------

WRONG = {
    "--epochs 0": "argument --epochs: needs an integer >= 1, got '0'",
    "--epochs 1.5": "argument --epochs: needs an integer >= 1, got '1.5'",
    "--rate -1": "argument --rate: needs a finite number > 0, got '-1'",
    "--rate nan": "argument --rate: needs a finite number > 0, got 'nan'",
    "--rate much": "argument --rate: needs a finite number > 0, got 'much'",
    "--seed -1": "argument --seed: needs an integer >= 0 and <= 18446744073709551615, got '-1'",
    "--device nowhere": "argument --device: backend 'nowhere': no such backend; installed: ",
    "--device cpu_numpy:9": "argument --device: device cpu_numpy:9: needs 0 <= index < 1, got 9",
    "--resume none": "argument --resume: needs a file that is there, got 'none'",
    "--resume .": "argument --resume: needs a file that is there, got '.'",
    "--save .": "argument --save: needs the name of a file, got the folder '.'",
    "--save none/x": "argument --save: needs a folder that can be written, got 'none'",
    "--plot x": "argument --plot: needs a name that ends in one of .svg, .png, .pdf, got 'x'",
    "--plot none/x.svg": "argument --plot: needs a folder that can be written, got 'none'",
}


@pytest.mark.parametrize("options", WRONG)
def test_a_wrong_option_is_one_line_and_no_traceback(capsys, options, monkeypatch):
    module = load("mnist_mlp")
    monkeypatch.setattr(module, "load_mnist_5k", None)  # told before anything is done
    with pytest.raises(SystemExit) as stop:
        module.main(options.split())
    assert stop.value.code == 2
    assert f"error: {WRONG[options]}" in capsys.readouterr().err


def test_a_file_that_is_no_run_is_one_line(run, tmp_path):
    Path("x.singa").write_bytes(b"nothing of that sort")
    with pytest.raises(SystemExit, match=r"^--resume: .*x\.singa"):
        run("mnist_mlp", "--resume", "x.singa")
    run("mnist_mlp", "--save", "mlp.singa")
    with pytest.raises(
        SystemExit, match=r"^--resume: .*mlp\.singa: file and model differ\n  not in"
    ):
        run("mnist_cnn", "--resume", "mlp.singa")


def test_a_run_with_other_options_is_a_few_lines(run, monkeypatch):
    run("mnist_mlp", "--save", "mlp.singa", "--epochs", "1", little=True)
    message = (
        "^--resume: ArrayLoader.restore: needs a state of seed = 4, got 0\n"
        "try: the options that the run began with$"
    )
    with pytest.raises(SystemExit, match=message):
        run("mnist_mlp", "--resume", "mlp.singa", "--seed", "4", little=True)

    def fit(*args, **options):
        raise ArgumentError("fit", "a good day", "a bad one")

    monkeypatch.setattr(_run, "fit", fit)  # what is not about the file is not taken for that
    with pytest.raises(ArgumentError, match="a good day"):
        run("mnist_mlp", little=True)


def test_a_run_that_is_over_can_be_resumed_and_saved_elsewhere(run, tmp_path):
    whole = run("mnist_mlp", "--save", "a.singa")
    again = run("mnist_mlp", "--resume", "a.singa", "--save", "b.singa")
    assert facts(again) == facts(whole)[-1:]
    more = run("mnist_mlp", "--resume", "a.singa", "--save", "c.singa", "--epochs", "4")
    assert re.findall(r"^epoch \d/\d", more, re.MULTILINE) == ["epoch 4/4"]
    assert "saved in c.singa" in more


def test_a_model_that_comes_back_as_another_one_is_told(run, monkeypatch):
    monkeypatch.setattr("singa_core.Model.load", lambda *args, **options: None)
    with pytest.raises(SystemExit, match=r"model.singa: gave \{.*\} in a new model, but \{'loss"):
        run("mnist_mlp")


def test_the_curves_are_drawn(run, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib, which draws (extra `plot`)")
    assert run("mnist_mlp").endswith("\ncurves in mnist_mlp.svg\n")
    drawn = (tmp_path / "mnist_mlp.svg").read_text("utf-8")
    for word in ("mnist_mlp on cpu_numpy", ">loss<", ">accuracy<", ">epoch<", ">test ", ">train "):
        assert word in drawn
    run("mnist_mlp", "--plot", "other.png", "--epochs", "1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mnist_mlp.svg", "other.png"]


def test_without_matplotlib_one_line_says_so(run, monkeypatch, tmp_path):
    def import_module(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("singa_core.plot.import_module", import_module)
    line = run("mnist_mlp", "--epochs", "1").splitlines()[-1]
    assert re.fullmatch(
        r"no picture of the curves: \S+ -m pip install matplotlib, and there .*", line
    )
    assert (tmp_path / line.split()[5]).resolve() == Path(sys.executable).resolve()
    assert list(tmp_path.iterdir()) == []


def test_curves_that_cannot_be_written_are_one_line(run, monkeypatch):
    def curves(*args, **options):
        raise OSError("a full disk")

    monkeypatch.setattr(_run, "curves", curves)
    last = run("mnist_mlp", "--epochs", "1").splitlines()[-1]
    assert last == "no picture of the curves: a full disk"


# --- the main one, in processes of its own that are ended by signals --------------------------------

RUN = """
import os, sys
sys.path[:0] = sys.argv[1:3]
import _run, mnist_cnn, test_examples
from singa_core.callbacks import Callback

number, epoch = map(int, sys.argv[3:5])

class Signal(Callback):
    def on_step_end(self, training):
        if (training.epoch, training.batch) == (epoch, 2):
            os.kill(os.getpid(), number)

fit, _run.COMPARED = _run.fit, 1
mnist_cnn.load_mnist_5k = test_examples.images(mnist_cnn.load_mnist_5k, 256, 64)
_run.fit = lambda *args, callbacks=(), **options: fit(*args, callbacks=[Signal(), *callbacks], **options)
mnist_cnn.main(sys.argv[5:])
"""  # fmt: skip


def start(folder, number, epoch, *options):
    """The main example on some of the digits; sends itself a signal. Gives code and output."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, EXAMPLES, Path(__file__).parent, str(int(number)), str(epoch),
         "--epochs", "4", *options],
        cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.skipif(os.name == "nt", reason="signals between processes")
def test_killed_and_interrupted_the_main_example_goes_on_bit_for_bit(tmp_path, run):
    run("mnist_mlp", "--epochs", "1", little=True)  # skips without the data
    never = 99
    assert start(tmp_path, signal.SIGKILL, never, "--save", "whole.singa")[0] == 0
    code, out = start(tmp_path, signal.SIGKILL, 1, "--save", "x.singa")
    assert (code, out.count("\nepoch ")) == (-signal.SIGKILL, 1)
    code, out = start(tmp_path, signal.SIGINT, 2, "--resume", "x.singa")
    assert code == 130
    assert out.endswith("\ninterrupted in epoch 3 after batch 2\ngo on with --resume x.singa\n")
    code, out = start(tmp_path, signal.SIGINT, never, "--resume", "x.singa")
    assert (code, re.findall(r"\nepoch (\d)", out)) == (0, ["3", "4"])
    assert state_in(tmp_path / "x.singa") == state_in(tmp_path / "whole.singa")
