"""docs/write-a-backend.md is complete: what it prints is a backend, and its list is that of the kernels."""

import ast
import dataclasses
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import toys
from singa_core import kernels as tables
from singa_core.device import Capabilities, Device
from singa_core.kernels import array as language
from singa_core.registry import Manifest, Probe, Registry
from singa_core.tensor import tensor

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "write-a-backend.md").read_text("utf-8")
FILES = dict(
    re.findall(r"```(?:python|toml)\n# (\S+(?:, in the class)?)\n(.*?)```", TEXT, re.DOTALL)
)


@pytest.fixture
def moon(tmp_path, monkeypatch):
    """The folder of the distribution that the page prints, importable."""
    device = FILES["singa_moon/device.py"]
    at = device.index("\n\ndef open_device")
    files = dict(FILES)
    files["singa_moon/device.py"] = (
        device[:at].rstrip()
        + "\n\n"
        + files.pop("singa_moon/device.py, in the class")
        + device[at:]
    )
    toys.write(tmp_path, "moon", files, "singa.backends", "singa_moon:manifest")
    monkeypatch.syspath_prepend(tmp_path)
    before = dict(tables._TABLES)
    yield tmp_path
    tables._TABLES.clear()
    tables._TABLES.update(before)
    for name in [name for name in sys.modules if name.partition(".")[0] == "singa_moon"]:
        del sys.modules[name]


def test_every_file_of_the_page_is_there():
    assert sorted(FILES) == [
        "pyproject.toml", "singa_moon/__init__.py", "singa_moon/device.py",
        "singa_moon/device.py, in the class", "singa_moon/kernels.py", "tests/test_conformance.py",
    ]  # fmt: skip
    for name, text in FILES.items():
        if name.endswith(".py"):
            ast.parse(text)


def test_the_page_s_backend_computes(moon):
    device = Registry().resolve("moon")
    x = tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=device, requires_grad=True)
    (x @ x.mT).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[6, 10, 14], [6, 10, 14]])


def test_the_page_s_own_kernels_compute(moon):
    path = moon / "singa_moon" / "device.py"
    text = path.read_text("utf-8").replace('languages=("array",)', 'languages=("moon", "array")')
    text = text.replace(
        "        return np  #",
        "        if language == 'moon':\n            return self\n        return np  #",
    )
    path.write_text(
        text.replace("\n\n\nclass", "\n\nfrom singa_moon import kernels\n\n\nclass", 1), "utf-8"
    )
    device = Registry().resolve("moon")
    a, b = (np.random.default_rng(n).normal(size=(3, 3)).astype(np.float32) for n in (0, 1))
    x, y = tensor(a, device=device), tensor(b, device=device)
    np.testing.assert_allclose(((x + y) @ y.mT).numpy(), (a + b) @ b.T, rtol=1e-5)
    served = {e.op.name: e.kernel.language for e in device.state.entries.values() if e.kernel}
    assert served["add"] == served["matmul"] == "moon"


def test_nothing_that_a_backend_may_say_is_left_out():
    for kind in (Capabilities, Manifest, Probe):
        for field in dataclasses.fields(kind):
            assert re.search(rf"\b{field.name}\b", TEXT), f"{kind.__name__}.{field.name}"
    (table,) = re.findall(r"\| fact \| default.*?\n\n", TEXT, re.DOTALL)
    rows = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))))
    assert rows == {field.name for field in dataclasses.fields(Capabilities)}
    own = {"memory_info"}  # for users
    methods = {name for name, f in vars(Device).items() if callable(f) and name[0] != "_"} - own
    assert [name for name in sorted(methods) if f"`{name}" not in TEXT] == []


def used_in_the_language():
    """What the shared kernels ask of their namespace: `xp.f`, and names looked up in it."""
    used = set()
    for path in Path(language.__file__).parent.glob("*.py"):
        text = path.read_text("utf-8")
        used |= set(re.findall(r"\bxp\.(\w+)", text))
        for table in re.findall(r"^_[A-Z_]+ = \{(.*?)\}", text, re.DOTALL | re.MULTILINE):
            used |= set(re.findall(r': "(\w+)"', table))
        for line in re.findall(r"for _names, .*?:\n", text, re.DOTALL):
            used |= set(re.findall(r'\w": "(\w+)"', line))
        for names in re.findall(r"^for _op in \((.*?)\):", text, re.MULTILINE):
            used |= set(re.findall(r'"(\w+)"', names))
    return used


def test_the_list_of_the_namespace_s_functions_is_complete():
    (listed,) = re.findall(r"with the kernels -->\n```\n(.*?)```", TEXT, re.DOTALL)
    names = set(re.findall(r"`((?:\w+ )+\w+)` as names, and `(\w+)`", TEXT)[0])
    beside = {word for text in names for word in text.split()}
    assert set(listed.split()) == used_in_the_language() - beside
    assert beside <= used_in_the_language()
    assert all(hasattr(np, name) for name in listed.split())
