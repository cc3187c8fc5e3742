"""The convolutional example learns, with and without graphs alike, on any device."""

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from singa_core.data.digits import DataMissing, load_mnist_5k

PATH = Path(__file__).resolve().parent.parent / "examples" / "mnist_cnn.py"


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs the example on some of the digits and gives what it prints."""
    try:
        digits = load_mnist_5k()
    except DataMissing as error:
        pytest.skip(str(error).replace("\n", "; "))
    spec = importlib.util.spec_from_file_location("example_mnist_cnn", PATH)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)

    def call(count, tests, *arguments):
        few = dataclasses.replace(
            digits,
            train_images=digits.train_images[:count], train_labels=digits.train_labels[:count],
            test_images=digits.test_images[:tests], test_labels=digits.test_labels[:tests],
        )  # fmt: skip
        monkeypatch.setattr(module, "load_mnist_5k", lambda seed: few)
        module.main(arguments)
        return capsys.readouterr().out

    return call


def test_it_learns_the_same_with_and_without_graphs(run):
    recorded = run(960, 500, "--epochs", "3")
    (accuracy,) = re.findall(r"test accuracy (0\.\d{4}) after \d+\.\d s\n", recorded)
    assert float(accuracy) >= 0.85
    assert re.search(r"\na step takes \d+\.\d\d ms recorded, \d+\.\d\d ms eager\n", recorded)
    (peak,) = re.findall(r"\npeak memory (\d+\.\d) MiB on cpu_numpy, by core's count\n", recorded)
    assert 5 < float(peak) < 40
    eager = run(960, 500, "--epochs", "3", "--no-graph")

    def facts(text):
        return re.findall(r"loss \S+  accuracy \S+|accuracy \d\.\d{4}", text)

    assert facts(eager) == facts(recorded)
    assert len(facts(recorded)) == 4


def test_it_runs_on_any_device(run, device):
    printed = run(128, 50, "--device", device.name, "--epochs", "1", "--seed", "3")
    assert printed.startswith(f"128 digits to learn, 50 to test, on {device}\n")
    assert re.search(rf"MiB on {device}, by core's count\n$", printed)
