"""The examples: they learn what they say, print what a reader looks for, and run on any device."""

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from singa_core.data.digits import DataMissing, load_mnist_5k

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("_"))


@pytest.fixture
def example(monkeypatch):
    """A function that imports an example by name, without running it."""

    def load(name):
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="module")
def digits():
    try:
        return load_mnist_5k()
    except DataMissing as error:
        pytest.skip(str(error).replace("\n", "; "))


def keep(monkeypatch, module, digits, count):
    """Let an example have `count` of the digits to learn."""
    images, labels = digits.train_images[:count], digits.train_labels[:count]
    few = dataclasses.replace(digits, train_images=images, train_labels=labels)
    monkeypatch.setattr(module, "load_mnist_5k", lambda seed: few)


def run(module, capsys, *arguments):
    """What an example prints; its progress bar is for terminals only."""
    module.main(arguments)
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def number(text, pattern):
    (found,) = re.findall(pattern, text)
    return float(found)


@pytest.mark.parametrize("name", NAMES)
def test_every_example_says_what_it_does_and_has_options(example, capsys, name):
    module = example(name)
    assert module.__doc__.splitlines()[0].endswith(".")
    with pytest.raises(SystemExit) as stop:
        module.main(["--help"])
    assert stop.value.code == 0
    assert module.__doc__.strip().split()[0] in capsys.readouterr().out


def test_mnist_mlp_learns_the_same_with_and_without_graphs(example, digits, capsys, monkeypatch):
    module = example("mnist_mlp")
    keep(monkeypatch, module, digits, 1600)
    recorded = run(module, capsys, "--epochs", "2")
    assert recorded.startswith("1600 digits to learn, 1000 to test, on cpu_numpy\n")
    assert number(recorded, r"test accuracy (0\.\d{4})\n") >= 0.8
    assert re.search(r"\na step takes \d+\.\d\d ms recorded, \d+\.\d\d ms eager\n", recorded)
    assert 1 < number(recorded, r"\npeak memory (\d+\.\d) MiB on cpu_numpy, by core's count\n") < 50
    eager = run(module, capsys, "--epochs", "2", "--no-graph")

    def facts(text):
        return re.findall(r"loss \S+|accuracy \d\.\d{4}", text)

    assert facts(eager) == facts(recorded)
    assert len(facts(eager)) == 3


@pytest.mark.parametrize("options", [[], ["--no-graph"]])
def test_mnist_mlp_runs_on_any_device(example, digits, device, capsys, monkeypatch, options):
    module = example("mnist_mlp")
    keep(monkeypatch, module, digits, 320)
    printed = run(module, capsys, "--device", device.name, "--epochs", "3", "--seed", "3", *options)
    assert printed.startswith(f"320 digits to learn, 1000 to test, on {device}\n")
    assert number(printed, r"test accuracy (0\.\d{4})\n") >= 0.5
    assert re.search(rf"MiB on {device}, by core's count\n$", printed)


def test_mnist_mlp_saves_and_goes_on_with_the_same_numbers(
    example, digits, capsys, monkeypatch, tmp_path
):
    module = example("mnist_mlp")
    keep(monkeypatch, module, digits, 320)
    whole = run(module, capsys, "--epochs", "3")
    file = str(tmp_path / "mlp.singa")
    run(module, capsys, "--epochs", "2", "--save", file)
    rest = run(module, capsys, "--epochs", "3", "--save", file, "--resume")
    found = r"epoch 3/3  loss \S+|test accuracy \S+"
    assert re.findall(found, rest) == re.findall(found, whole)
    assert "epoch 2/3" not in rest


WRONG = {
    "--epochs 0": "argument --epochs: needs an integer >= 1, got '0'",
    "--epochs 1.5": "argument --epochs: needs an integer >= 1, got '1.5'",
    "--rate -1": "argument --rate: needs a finite number > 0, got '-1'",
    "--rate nan": "argument --rate: needs a finite number > 0, got 'nan'",
    "--rate much": "argument --rate: needs a finite number > 0, got 'much'",
    "--seed -1": "argument --seed: needs an integer >= 0 and <= 18446744073709551615, got '-1'",
    "--device nowhere": "argument --device: backend 'nowhere': no such backend; installed: ",
    "--device cpu_numpy:9": "argument --device: device cpu_numpy:9: needs 0 <= index < 1, got 9",
    "--resume": "argument --resume: needs --save FILE, which says from where",
    "--save .": "argument --save: needs the name of a file, got the folder '.'",
    "--save none/x": "argument --save: needs a folder that can be written, got 'none'",
}


@pytest.mark.parametrize("options", WRONG)
def test_a_wrong_option_is_one_line_and_no_traceback(example, capsys, options, monkeypatch):
    module = example("mnist_mlp")
    monkeypatch.setattr(module, "load_mnist_5k", None)  # told before anything is done
    with pytest.raises(SystemExit) as stop:
        module.main(options.split())
    assert stop.value.code == 2
    assert f"error: {WRONG[options]}" in capsys.readouterr().err
