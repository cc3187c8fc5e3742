"""Packs: what they may add, and that a bad one is left out with a word and harms nobody.

The packs here are real distributions, written into a temporary folder on the import path.
"""

import os
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

import singa_core as sc
from singa_core import kernels, plugins
from singa_core.callbacks.base import Callback
from singa_core.errors import ArgumentError, PluginError
from singa_core.hooks import Hooks
from singa_core.offers import entry_points
from singa_core.optable import OPS
from singa_core.plugins import Packs, PackWarning, hookimpl
from singa_core.registry import registry

OP = """
from singa_core.operation import Operation
class {cls}(Operation):
    name = "{name}"
    def infer(self, x):
        return x
    def forward(self, x):
        return x * {factor}
{name} = {cls}()
"""
PACK = """
from singa_core.plugins import hookimpl
singa_api = (1, 0)
"""
HOOK = """
@hookimpl
def singa_register_ops(ops):
    ops.add({names})
"""


def op(name, factor=2.0, cls="Toy"):
    return OP.format(name=name, factor=factor, cls=cls)


def pack(*ops, hooks=""):
    names = ", ".join(text.rpartition("\n")[0].rpartition("\n")[2].split(" ")[0] for text in ops)
    return PACK + "".join(ops) + HOOK.format(names=names) + textwrap.dedent(hooks)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs a distribution with one pack in it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("SINGA_PLUGINS", raising=False)
    before, ops = set(sys.modules), dict(OPS)

    def install(name, text, *, distribution=None, version="1.2"):
        module = f"toy_pack_{name}"
        (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
        distribution = distribution or f"singa-{name}"
        info = tmp_path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(
            f"[singa.plugins]\n{name} = {module}\n", encoding="utf-8"
        )
        return module

    def ours_only(group):
        return [point for point in entry_points(group) if point.value.startswith("toy_pack_")]

    monkeypatch.setattr(plugins, "entry_points", ours_only)
    yield install
    for module in set(sys.modules) - before:
        if module.startswith("toy_pack_"):
            del sys.modules[module]
    OPS.clear()
    OPS.update(ops)


@pytest.fixture
def tables(monkeypatch):
    """Kernel tables that the test may write to."""
    monkeypatch.setattr(kernels, "_TABLES", dict(kernels._TABLES))
    for language, table in list(kernels._TABLES.items()):
        kernels._TABLES[language] = table.draft()
        kernels._TABLES[language].take(table)
    yield kernels.table
    registry.resolve("cpu_numpy").state.entries.clear()


def left_out(packs, message):
    """The packs after a load that must warn with just this."""
    with pytest.warns(PackWarning) as caught:
        found = packs.all()
    (warning,) = caught
    assert str(warning.message) == (
        f"{message}\n  it is left out; SINGA_PLUGINS=off leaves out all packs without a word"
    )
    return {p.name: p for p in found}


# -- what a pack may add ----------------------------------------------------------------------------


def test_a_pack_s_operations_run_eager_recorded_and_with_gradients(installed, device):
    installed("alpha", pack(op("toy_double")))
    packs = Packs()
    (found,) = packs.all()
    assert (found.name, found.distribution, found.ops) == (
        "alpha", "singa-alpha 1.2", ("toy_double",)
    )  # fmt: skip
    x = sc.tensor([1.0, -2.0], device=device, requires_grad=True)
    for call in (OPS["toy_double"], sc.graph(lambda x: OPS["toy_double"](x))):
        assert call(x).tolist() == [2.0, -4.0]
    OPS["toy_double"](x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_nothing_is_imported_before_somebody_asks(installed):
    module = installed("alpha", pack(op("toy_double")))
    packs = Packs()
    assert module not in sys.modules
    packs.serve(registry.resolve("cpu_numpy"))
    assert module in sys.modules


KERNEL = """
@hookimpl
def singa_register_kernels(language, table):
    if language == "array":
        @table.kernel("toy_double", "T->T", T="f32 f64", strides=True, returning=True)
        def double(xp, x):
            return xp.add(x, x) + 0.25  # so that a test can tell it from the decomposition
"""


def test_a_pack_s_kernel_serves_devices_that_speak_its_language(installed, tables):
    installed("alpha", pack(op("toy_double"), hooks=KERNEL))
    packs, device = Packs(), registry.resolve("cpu_numpy")
    packs.serve(device)
    packs.serve(device)  # once is enough
    assert packs.all()[0].kernels["array"] == ("toy_double",)
    double = OPS["toy_double"]
    assert double(sc.tensor([1.0], device=device)).tolist() == [2.25]
    assert sc.graph(double)(sc.tensor([1.0], device=device)).tolist() == [2.25]
    ints = double(sc.tensor([1], device=device))  # no kernel for these: the decomposition
    assert ints.tolist() == [2.0]


def test_a_pack_may_add_kernels_in_a_language_of_a_backend_s_own(installed, tables):
    device = registry.resolve("cpu_numpy")
    private = device.languages[0]
    hooks = f"""
    @hookimpl
    def singa_register_kernels(language, table):
        if language == {private!r}:
            @table.kernel("toy_double", "f32->f32")
            def double(x, y):
                y[...] = 7
    """
    installed("alpha", pack(op("toy_double"), hooks=hooks))
    Packs().serve(device)
    assert OPS["toy_double"](sc.tensor([1.0], device=device)).tolist() == [7.0]


def test_a_pack_of_this_process(tables, monkeypatch, device):
    monkeypatch.setenv("SINGA_PLUGINS", "off")
    packs, module = Packs(), types.ModuleType("made_here")
    packs.serve(device)
    seen = []
    module.singa_api = (1, 0)

    @hookimpl
    def singa_register_kernels(language):
        seen.append(language)

    module.singa_register_kernels = singa_register_kernels
    packs.register("made_here", module)
    assert seen == list(device.languages)
    with pytest.raises(PluginError, match="plugin 'made_here': metadata: there is a pack"):
        packs.register("made_here", module)


def test_a_pack_that_is_installed_later_is_found_by_refresh(installed, tables):
    installed("alpha", pack(op("toy_double")))
    installed("broken", "raise ValueError('not yet')")
    packs, device = Packs(), registry.resolve("cpu_numpy")
    with pytest.warns(PackWarning):
        packs.serve(device)
    x = sc.tensor([1.0], device=device)
    assert OPS["toy_double"](x).tolist() == [2.0]
    hooks = KERNEL.replace("toy_double", "toy_triple")
    installed("beta", pack(op("toy_triple", cls="Triple"), hooks=hooks))
    assert [p.name for p in packs.all()] == ["alpha", "broken"]
    first = packs.all()[0]
    with pytest.warns(PackWarning):  # it gets another chance
        packs.refresh()
    assert {p.name for p in packs.all()} == {"alpha", "beta", "broken"}
    assert first in packs.all()
    assert OPS["toy_triple"](x).tolist() == [2.25]


# -- training events --------------------------------------------------------------------------------


def test_the_events_are_those_of_callbacks():
    events = [name for name in vars(Callback) if name.startswith("on_")]
    assert list(plugins.EVENTS) == [f"singa_{event}" for event in events]
    assert all(name in vars(Hooks) for name in plugins.HOOKS)


EVENTS = PACK + "seen = []\n" + "".join(
    f"@hookimpl\ndef {event}(training):\n    seen.append(({event!r}, training.steps))\n"
    for event in plugins.EVENTS
)  # fmt: skip


class Line(sc.Model):
    def __init__(self):
        self.linear = sc.layers.Linear(1)
        self.loss, self.optimizer = sc.ops.mse_loss, sc.opt.SGD(0.01)

    def forward(self, x):
        return self.linear(x)


@pytest.fixture
def train(monkeypatch):
    """A function that trains a little with these packs."""

    def run(packs):
        for module in ("singa_core.training", "singa_core.callbacks.packs"):
            monkeypatch.setattr(f"{module}.packs", packs)
        x = np.ones((4, 2), np.float32)
        return Line().fit([(x, x[:, :1]), (x, x[:, :1])], 2, progress=False)

    return run


def test_a_pack_hears_of_trainings(installed, train):
    module = installed("alpha", EVENTS)
    assert len(train(Packs())) == 2
    step, epoch = "singa_on_step_end", "singa_on_epoch_begin"
    assert sys.modules[module].seen == [
        ("singa_on_setup", 0), ("singa_on_train_begin", 0),
        (epoch, 0), (step, 1), (step, 2), ("singa_on_epoch_end", 2),
        (epoch, 2), (step, 3), (step, 4), ("singa_on_epoch_end", 4), ("singa_on_train_end", 4),
    ]  # fmt: skip


def test_a_pack_that_fails_in_a_training_is_left_out_and_the_training_goes_on(installed, train):
    bad = PACK + "@hookimpl\ndef singa_on_step_end(training):\n    training.nothing\n"
    installed("alpha", bad)
    good = installed("beta", EVENTS)
    with pytest.warns(PackWarning) as caught:
        assert len(train(Packs())) == 2
    (warning,) = caught
    assert str(warning.message).startswith(
        "plugin 'alpha' (singa-alpha 1.2): events: singa_on_step_end raised AttributeError: "
    )
    assert len(sys.modules[good].seen) == 11


def test_without_a_pack_that_listens_a_training_has_no_one_to_tell(installed, train):
    installed("alpha", pack(op("toy_double")))
    assert not Packs().listen()
    assert len(train(Packs())) == 2


# -- bad packs --------------------------------------------------------------------------------------


WRONG_ARGUMENT = "@hookimpl\ndef singa_register_ops(ops, registry): ...\n"
WRONG_NAME = "@hookimpl\ndef singa_register_opps(ops): ...\n"
WRAPPER = """
import pluggy
@pluggy.HookimplMarker("singa")(wrapper=True)
def singa_register_ops(ops):
    return (yield)
"""
TYPO = KERNEL.replace('"toy_double"', '"toy_dobule"')
TWICE = KERNEL.replace('"toy_double"', '"exp"')
BARE = "class Bare(__import__('singa_core').Operation):\n    name = 'toy_bare'\n"
BARE += "    def infer(self, x):\n        return x\nBare()\n"
HOOKS = ", ".join(plugins.HOOKS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import toy_library_that_is_missing",
         "import: import of toy_pack_alpha raised ModuleNotFoundError: "
         "No module named 'toy_library_that_is_missing'"),
        ("raise SystemExit('no licence')",
         "import: import of toy_pack_alpha raised SystemExit: no licence"),
        ("", "handshake: needs singa_api = (major, minor) in toy_pack_alpha, got none"),
        ("singa_api = '1.0'",
         "handshake: needs singa_api = (major, minor) in toy_pack_alpha, got '1.0'"),
        (pack(op("toy_double")).replace("(1, 0)", "(2, 0)"),
         "handshake: written for plugin interface 2.0, this singa-core speaks 1.0\n"
         "try: pip install --upgrade singa-core"),
        (pack(op("toy_double")).replace("(1, 0)", "(0, 3)"),
         "handshake: written for plugin interface 0.3, this singa-core speaks 1.0\n"
         "try: pip install --upgrade singa-alpha"),
        (PACK, f"hooks: needs a function marked with hookimpl, one of {HOOKS}"),
        (PACK + WRONG_ARGUMENT,
         "hooks: singa_register_ops(ops, registry): Argument(s) {'registry'} are declared in the "
         "hookimpl but can not be found in the hookspec"),
        (PACK + WRONG_NAME,
         "hooks: there is no hook 'singa_register_opps'\ntry: singa_register_ops"),
        (PACK + WRAPPER, "hooks: singa_register_ops is a wrapper, which no hook here takes"),
        (PACK + HOOK.format(names="3"),
         "ops: singa_register_ops raised ArgumentError: ops.add: needs an Operation, got 3"),
        (pack(op("relu")),
         "import: import of toy_pack_alpha raised ArgumentError: operation relu: needs a name of "
         "its own for each operation, 'relu' is of singa_core.ops.activation, "
         "got a second one, Toy of toy_pack_alpha\ntry: another name in Toy"),
        (pack(op("glu")),
         "import: import of toy_pack_alpha raised ArgumentError: operation glu: needs a name of "
         "its own for each operation, 'glu' is of singa_core.ops.activation_composed, "
         "got a second one, Toy of toy_pack_alpha\ntry: another name in Toy"),
        (PACK + BARE,
         "import: import of toy_pack_alpha raised ArgumentError: operation toy_bare: needs a "
         "decomposition, so that it runs on every device, got none in Bare\n"
         "try: def forward(self, x): ...  made of other operations"),
    ],
    ids=["raises", "exits", "no api", "api text", "api 2", "api 0", "no hooks", "wrong argument",
         "wrong name", "wrapper", "no operation", "name of core", "function of core", "primitive"],
)  # fmt: skip
def test_a_bad_pack_is_left_out_with_a_word(installed, text, expected):
    installed("alpha", text)
    installed("beta", pack(op("toy_triple", 3.0)))
    found = left_out(Packs(), f"plugin 'alpha' (singa-alpha 1.2): {expected}")
    assert found["alpha"].failure.stage == expected.partition(":")[0]
    assert found["beta"].failure is None
    assert OPS["toy_triple"](sc.tensor([1.0])).tolist() == [3.0]
    assert OPS["relu"] is sc.ops.relu


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        (TYPO, "kernel toy_dobule: needs the name of an operation, got toy_dobule\ntry: toy_double"),
        (TWICE, "kernel exp: needs one kernel for each signature in language 'array', "
                "got a second f32->f32"),
        (KERNEL.replace("f32 f64", "f33"), "kernel signature: needs dtype codes like "
                                           "'f32,i64->f32', got 'T->T' with f33"),
        (KERNEL.replace("T->T", "T,T->T"),
         "kernel toy_double: needs a signature of 1 input (x), the positional parameters of "
         "toy_double.infer, got 2 in 'f32,f32->f32'"),
        (KERNEL.replace("toy_double", "sort").replace("T->T", "T->T,i64,i64"),
         "kernel sort: needs a signature with as many outputs as sort has: 2, "
         "got 3 in 'f32->f32,i64,i64'"),
    ],
    ids=["unknown op", "second kernel", "signature", "inputs", "outputs"],
)  # fmt: skip
def test_kernels_of_a_bad_pack_are_added_all_or_not_at_all(installed, tables, hooks, expected):
    good = KERNEL.replace("singa_register_kernels", "first").replace("@hookimpl\n", "")
    hooks = hooks.replace("(language, table):", "(language, table):\n    first(language, table)")
    installed("alpha", pack(op("toy_double"), hooks=good + hooks))
    before, packs, device = set(tables("array").ops()), Packs(), registry.resolve("cpu_numpy")
    with pytest.warns(PackWarning, match="alpha") as caught:
        packs.serve(device)
    (warning,) = caught
    wanted = "plugin 'alpha' (singa-alpha 1.2): kernels: singa_register_kernels for 'array' raised "
    told = f"ArgumentError: {expected}"
    assert str(warning.message).partition("\n  it is left out")[0] == f"{wanted}{told}"
    assert set(tables("array").ops()) == before
    assert OPS["toy_double"](sc.tensor([1.0], device=device)).tolist() == [2.0]


def test_two_packs_with_one_operation(installed):
    """The first by name has it; the second is left out, and both are named."""
    first = installed("alpha", pack(op("toy_double", cls="First")))
    installed("beta", pack(op("toy_double", cls="Second")))
    found = left_out(
        Packs(),
        "plugin 'beta' (singa-beta 1.2): import: import of toy_pack_beta raised ArgumentError: "
        "operation toy_double: needs a name of its own for each operation, 'toy_double' is of "
        f"{first}, got a second one, Second of toy_pack_beta\ntry: another name in Second",
    )
    assert found["alpha"].failure is None
    assert type(OPS["toy_double"]).__name__ == "First"


def test_two_distributions_with_one_pack(installed):
    installed("alpha", pack(op("toy_double")))
    module = installed("alpha", pack(op("toy_double")), distribution="other", version="3")
    left_out(
        Packs(),
        "plugin 'alpha': metadata: offered by 2 distributions: other 3, singa-alpha 1.2\n"
        "try: uninstall all but one of them",
    )
    assert module not in sys.modules


def test_an_operation_may_be_named_once_more_by_its_own_module(installed):
    module = installed("alpha", pack(op("toy_double")))
    Packs().all()
    del sys.modules[module]
    assert Packs().all()[0].failure is None  # imported anew, as a notebook does


# -- SINGA_PLUGINS ----------------------------------------------------------------------------------


def test_packs_can_be_left_out(installed, monkeypatch):
    module = installed("alpha", "raise ValueError('no')")
    monkeypatch.setenv("SINGA_PLUGINS", "off")
    assert Packs().all() == ()
    assert module not in sys.modules


def test_packs_can_be_chosen(installed, monkeypatch):
    unwanted = installed("alpha", "raise ValueError('no')")
    installed("beta", pack(op("toy_triple")))
    monkeypatch.setenv("SINGA_PLUGINS", "beta")
    assert [p.name for p in Packs().all()] == ["beta"]
    assert unwanted not in sys.modules


def test_a_pack_that_was_named_fails_aloud(installed, monkeypatch):
    installed("alpha", "raise ValueError('no')")
    monkeypatch.setenv("SINGA_PLUGINS", "alpha")
    packs = Packs()
    for _ in range(2):
        with pytest.raises(PluginError) as e:
            packs.all()
        assert str(e.value) == (
            "plugin 'alpha' (singa-alpha 1.2): import: "
            "import of toy_pack_alpha raised ValueError: no"
        )
    monkeypatch.setenv("SINGA_PLUGINS", "alhpa")
    with pytest.raises(PluginError, match="plugin 'alhpa': metadata: named in SINGA_PLUGINS and"):
        packs.all()


# -- in a process of its own ------------------------------------------------------------------------


def in_a_process(code, path, **env):
    command = [sys.executable, "-W", "always", "-c", textwrap.dedent(code)]
    env = {k: v for k, v in os.environ.items() if k != "SINGA_PLUGINS"} | env
    env["PYTHONPATH"] = os.pathsep.join([str(path), *sys.path])
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_the_first_device_brings_the_packs(installed, tmp_path):
    installed("alpha", pack(op("toy_double")))
    installed("beta", "raise ValueError('no')")
    code = """
    import sys, singa_core as sc
    from singa_core.optable import OPS
    assert not [m for m in sys.modules if m.startswith("toy_pack")] and "pluggy" not in sys.modules
    x = sc.tensor([1.0], device="cpu_numpy")
    print(OPS["toy_double"](x).tolist())
    """
    out, told = in_a_process(code, tmp_path)
    assert out == "[2.0]"
    assert "PackWarning: plugin 'beta' (singa-beta 1.2): import: " in told


def test_without_packs_pluggy_is_not_imported(tmp_path):
    code = """
    import sys, singa_core as sc
    sc.tensor([1.0], device="cpu_numpy")
    print("pluggy" in sys.modules)
    """
    assert in_a_process(code, tmp_path, SINGA_PLUGINS="off") == ("False", "")


def test_a_hook_may_open_a_device(installed, tmp_path):
    hooks = "import singa_core\nx = singa_core.tensor([2.0], device='cpu_numpy')\n"
    installed("alpha", PACK + hooks + op("toy_double") + HOOK.format(names="toy_double"))
    code = "import singa_core as sc; print(sc.tensor([1.0], device='cpu_numpy').tolist())"
    assert in_a_process(code, tmp_path) == ("[1.0]", "")


def test_ops_add_wants_the_operation_of_that_name():
    ops, other = plugins.Ops(), object.__new__(type(sc.ops.exp))
    with pytest.raises(ArgumentError, match=r"ops.add: needs the operation that is registered as"):
        ops.add(other)
    with pytest.raises(ArgumentError, match=r"needs an Operation, .*\ntry: an instance of it"):
        ops.add(type(sc.ops.exp))
    ops.add(sc.ops.exp)
    assert ops.names == ["exp"]
