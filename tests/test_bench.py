"""The bench is distrusted: things broken on purpose, each of which must be caught."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from far.device import TABLE, Handle
from house import counts
from singa_core import ops
from singa_core.conformance.cases import cases, layouts, same_bits, told
from singa_core.conformance.gradcheck import check_gradients
from singa_core.conformance.groups.autograd import against_itself, wanted_of
from singa_core.conformance.groups.graph import replays
from singa_core.conformance.groups.ops_composite import lowered
from singa_core.conformance.groups.ops_primitive import compare_layout, compare_sample
from singa_core.conformance.tolerances import Terms, compare
from singa_core.executable import LoopExecutable
from singa_core.ops.base import Unary
from singa_core.optable import OPS
from singa_core.registry import registry
from singa_core.spec import contiguous_strides

ROOT = Path(__file__).resolve().parent.parent
FAILS = (AssertionError, pytest.fail.Exception)


@pytest.fixture(autouse=True)
def _uncounted():
    with counts.paused():
        yield


@pytest.fixture
def broken(far_device, monkeypatch):
    """A function that replaces `prepare` of every far kernel of an op."""

    def break_op(op, spoil, **flags):
        kernels = {
            signature: replace(kernel, prepare=spoil(kernel.prepare), **flags)
            for signature, kernel in TABLE._kernels[op].items()
        }
        monkeypatch.setitem(TABLE._kernels, op, kernels)
        far_device.state.entries.clear()

    yield break_op
    monkeypatch.undo()
    far_device.state.entries.clear()


# -- kernels ----------------------------------------------------------------------------------------


def off_by_one(prepare):
    def spoiled(device, ins, outs, **attrs):
        launch = prepare(device, ins, outs, **attrs)

        def wrong(*handles):
            launch(*handles)
            y = device._look(handles[len(ins)])
            y.reshape(-1)[-1:] += 1

        return wrong

    return spoiled


def writes_its_input(prepare):
    def spoiled(device, ins, outs, **attrs):
        launch = prepare(device, ins, outs, **attrs)

        def wrong(*handles):
            launch(*handles)
            device._look(handles[0])[...] = 0

        return wrong

    return spoiled


def ignores_strides(prepare):
    def spoiled(device, ins, outs, **attrs):
        packed = [form.spec if hasattr(form, "spec") else form for form in ins]
        launch = prepare(device, packed, outs, **attrs)

        def wrong(*handles):
            launch(*(
                Handle(h.buffer, 0, h.shape, contiguous_strides(h.shape), h.dtype) for h in handles
            ))  # fmt: skip

        return wrong

    return spoiled


def remembers_its_first_result(prepare):
    def spoiled(device, ins, outs, **attrs):
        launch, first = prepare(device, ins, outs, **attrs), []

        def wrong(*handles):
            launch(*handles)
            y = device._look(handles[len(ins)])
            first.append(y.copy())
            y[...] = first[0]

        return wrong

    return spoiled


def does_nothing(prepare):
    return lambda device, ins, outs, **attrs: lambda *handles: None


def values(op, device):
    for case in cases(op, device):
        for variant in (0, 1):
            with told(case):
                compare_sample(case, device, variant)


def strides(op, device):
    for case in cases(op, device):
        hosts = case.hosts()
        for at, host in enumerate(hosts):
            for _, x in layouts(host, device):
                with told(case):
                    compare_layout(case, device, hosts, {at: x})


@pytest.mark.parametrize(
    ("spoil", "check", "flags"),
    [(off_by_one, values, {}), (writes_its_input, values, {}), (does_nothing, values, {}),
     (remembers_its_first_result, values, {}), (ignores_strides, strides, {"strides": True})],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_a_broken_kernel_is_caught(far_device, broken, spoil, check, flags):
    check("mul", far_device)
    broken("mul", spoil, **flags)
    with pytest.raises(FAILS) as e:
        check("mul", far_device)
    assert any("mul sample" in note for note in e.value.__notes__)


def all_replays(op, device):
    for case in cases(op, device):
        replays(case, device)


# -- the engine -------------------------------------------------------------------------------------


def test_an_executable_that_keeps_its_first_arguments_is_caught(device, monkeypatch):
    seen = set()
    original = LoopExecutable._patch

    def lazy(self, root, array):
        if (id(self), root) not in seen:
            original(self, root, array)
            seen.add((id(self), root))

    kept = []  # so that ids are not used again
    init = LoopExecutable.__init__
    monkeypatch.setattr(
        LoopExecutable,
        "__init__",
        lambda self, *a, **k: (kept.append(self), init(self, *a, **k))[1],
    )
    monkeypatch.setattr(LoopExecutable, "_patch", lazy)
    with pytest.raises((AssertionError, RuntimeError, TypeError)):
        all_replays("mul", device)


def test_a_result_that_is_overwritten_by_the_next_replay_is_caught(device, monkeypatch):
    monkeypatch.setattr(LoopExecutable, "_renew_leases", lambda self: None)
    with pytest.raises(AssertionError):
        all_replays("mul", device)


# -- gradients and compositions ---------------------------------------------------------------------


def test_a_wrong_gradient_is_caught(device, monkeypatch):
    cls = type(OPS["mul"])
    monkeypatch.setattr(cls, "backward", lambda self, grad, a, b, *, needs: (grad * b, grad * b))
    first = next(cases("mul", device, ("float64",)))
    with pytest.raises((AssertionError, RuntimeError)):
        against_itself(first, device, wanted_of(first))


def test_a_wrong_decomposition_is_caught(monkeypatch):
    device = registry.resolve("cpu_numpy")  # has a kernel for it
    cls = type(OPS["sigmoid"])
    monkeypatch.setattr(cls, "forward", lambda self, x: x.tanh())
    device.state.entries.clear()
    with pytest.raises(AssertionError):
        with lowered(device):
            values("sigmoid", device)
    device.state.entries.clear()


class Toy(Unary):
    """x * x with a backward of the test's choice."""

    keeps = ("x",)

    def infer(self, x):
        return x

    def forward(self, x):
        return x * x


def toy(name, backward):
    cls = type(name, (Toy,), {"name": f"toy_{name}", "backward": backward})
    op = cls()
    del OPS[op.name]
    return op


def right(self, grad, x, *, needs):
    return (grad * x * 2.0,)


def wrong_factor(self, grad, x, *, needs):
    return (grad * x * 2.001,)


def wrong_in_one_place(self, grad, x, *, needs):
    mask = np.ones(x.shape)
    mask.reshape(-1)[-1] = 0.999
    return (grad * x * 2.0 * ops.copy(x.detach() * 0.0 + mask),)


def without_history(self, grad, x, *, needs):
    return ((grad * x * 2.0).detach(),)


def history_of_grad_only(self, grad, x, *, needs):
    return (grad * x.detach() * 2.0,)


def test_the_gradient_check_passes_what_is_right(device):
    assert check_gradients(toy("right", right), device, [(2, 3)]) == 2
    assert check_gradients(ops.matmul, device, [(2, 3), (3, 4)]) == 2
    assert check_gradients(lambda x: x + 1.0, device, [(2,)]) == 1
    assert check_gradients(lambda x: x < 0, device, [(2,)]) == 0


@pytest.mark.parametrize("backward", [wrong_factor, wrong_in_one_place], ids=lambda b: b.__name__)
def test_the_gradient_check_catches_a_wrong_first_derivative(device, backward):
    with pytest.raises(
        AssertionError, match="^first derivative: difference .*, gradient .*, bound"
    ):
        check_gradients(toy("bad", backward), device, [(2, 3)])


@pytest.mark.parametrize(
    "backward", [without_history, history_of_grad_only], ids=lambda b: b.__name__
)
def test_the_gradient_check_catches_a_second_derivative_that_is_lost(device, backward):
    op = toy("bad", backward)
    assert check_gradients(op, device, [(2, 3)], order=1) == 1
    with pytest.raises(AssertionError, match="^second"):
        check_gradients(op, device, [(2, 3)])


# -- comparisons ------------------------------------------------------------------------------------

F32 = np.array([1.0, -2.0, np.nan, np.inf, 0.0], np.float32)


def changed(place, value):
    other = F32.astype(np.float64)
    other[place] = value
    return other


@pytest.mark.parametrize("op", ["copy", "add", "exp", "sum"])
def test_the_comparison_passes_what_is_right(op):
    compare(op, F32, F32.astype(np.float64))


@pytest.mark.parametrize("op", ["copy", "add", "exp", "sum"])
@pytest.mark.parametrize(
    ("place", "value"),
    [(0, 1.0001), (1, 2.0), (2, 0.0), (3, -np.inf), (3, 1e30), (0, np.nan), (4, 1e-3)],
)
def test_the_comparison_catches(op, place, value):
    with pytest.raises(AssertionError):
        compare(op, F32, changed(place, value))


def test_terms_that_cancel_leave_their_errors():
    small, exact = np.float32([1e-6 + 2e-7]), [1e-6]
    compare("sum", small, exact, Terms(4, 2.0))
    for terms in (Terms(4, 0.5), Terms(4)):
        with pytest.raises(AssertionError):
            compare("sum", small, exact, terms)
    with pytest.raises(AssertionError):
        compare("add", small, exact, Terms(4, 2.0))


def test_the_comparison_catches_shapes_and_whole_numbers():
    with pytest.raises(AssertionError):
        compare("sum", F32[:1], F32[0])
    with pytest.raises(AssertionError):
        compare("sum", np.array([3]), np.array([4]))
    with pytest.raises(AssertionError):
        compare("exp", np.float16([2.0]), [2.1])
    with pytest.raises(AssertionError):
        compare("exp", np.array([1.0]), [1.0 + 1e-12])


def test_bits_tell_zeros_and_dtypes_apart():
    assert same_bits(F32, F32.copy())
    assert not same_bits(np.zeros(1), -np.zeros(1))
    assert not same_bits(np.zeros(1, np.float32), np.zeros(1, np.int32))
    assert not same_bits(np.zeros((1, 2)), np.zeros((2, 1)))
    assert not same_bits(F32, np.nextafter(F32, 9, dtype=np.float32))


# -- fixtures ---------------------------------------------------------------------------------------


def run_pytest(tmp_path, text, **env):
    """What pytest says of a file of tests under this folder's conftest, on two devices."""
    path = tmp_path / "test_it.py"
    path.write_text(text, encoding="utf-8")
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", "-rsf",
        "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(path),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests"), "SINGA_TEST_DEVICES": "cpu_numpy,far"} | env,
    )  # fmt: skip
    return done.stdout + done.stderr


LEAK = """
held = []
def test_clean(array):
    x = array([1.0]) + 1.0
def test_leak(array):
    held.append(array([1.0, 2.0]))
def test_secret(far_device):
    from singa_core.tensor import tensor
    x = tensor([1.0], device=far_device)
    far_device.fail_at(1)
    x + x
"""


def test_a_leak_and_a_swallowed_error_are_told_by_name(tmp_path):
    text = run_pytest(tmp_path, LEAK)
    assert "1 buffers left on the far device, of [8] bytes" in text
    assert (
        "nobody waited for the far device, which has RuntimeError: far: a fault was asked" in text
    )
    assert "5 passed, 2 errors" in text
    assert "test_leak[far]" in text


MISSING = """
import conftest
from singa_core.registry import Manifest, Probe, registry
registry.register(Manifest(name="cpu_numpy", api=(1, 0), device_type="host", open="no:where",
                           probe=lambda: Probe(False, "not today")))
def test_it(device):
    pass
"""


def test_a_missing_backend_skips_with_a_reason_or_fails_if_it_is_required(tmp_path):
    reason = "backend 'cpu_numpy': probe: not usable here: not today"
    text = run_pytest(tmp_path, MISSING, SINGA_REQUIRE="")
    assert "1 passed, 1 skipped" in text
    assert f"skipped 1: {reason}" in text
    text = run_pytest(tmp_path, MISSING, SINGA_REQUIRE="other,cpu_numpy")
    assert f"SINGA_REQUIRE has cpu_numpy: {reason}" in text
    assert "1 passed, 1 error" in text
