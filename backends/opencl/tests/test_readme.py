"""The README: its Python runs, its commands are there, and it quotes what the code says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import open_device
from singa_core import cli

choice = pytest.importorskip("singa_opencl.choice")

FOLDER = Path(__file__).resolve().parent.parent
TEXT = (FOLDER / "README.md").read_text("utf-8")


def test_the_model_learns_its_batch_on_a_device(capsys):
    device = open_device("opencl")
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(block, {})
    loss, name, driver = capsys.readouterr().out.split(maxsplit=2)
    assert float(loss) < 1.5  # ln 10 = 2.3 at the start
    assert (name, driver.strip()) == (device.name, device.driver)


@pytest.mark.parametrize("command", re.findall(r"^singa (\w+ opencl)", TEXT, re.MULTILINE))
def test_a_command_finds_the_device(command, capsys):
    device = open_device("opencl")
    assert cli.main(command.split()) == 0
    assert device.name in capsys.readouterr().out


def test_it_quotes_what_is_said():
    said = "".join(path.read_text("utf-8") for path in (FOLDER / "singa_opencl").glob("*.py"))
    said = re.sub(r'"\n\s+f?"', "", said)  # texts that go on in another line
    said = said.replace("{DEVICE}", choice.DEVICE)
    quoted = [
        text.strip("` ")
        for row in re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)
        for text in re.findall(r"``.*?`` ?|`[^`]+`", row)
        if " " in text.strip("` ")
    ]
    assert len(quoted) >= 6
    assert [text for text in quoted if text not in said] == []


def test_its_variables_are_those_of_the_code():
    named = set(re.findall(r"`(SINGA_OPENCL_\w+)`", TEXT))
    assert named == {choice.DEVICE, choice.FAMILY}


def test_its_files_are_there():
    named = re.findall(r"^\| `(singa_opencl/[\w./]*)`", TEXT, re.MULTILINE)
    assert len(named) >= 5
    assert [name for name in named if not (FOLDER / name).exists()] == []


def test_the_default_device_may_be_this_one():
    open_device("opencl")
    code = "import singa_core as sc; print(sc.tensor([1.0]).device)"
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "SINGA_DEVICE": "opencl"},
    )  # fmt: skip
    assert made.stdout == "opencl\n"
