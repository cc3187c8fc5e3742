"""What every test shares: the devices, the seed, the leak check, and the summary of a run."""

import gc
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest

import far
from house import counts
from house.sizes import report
from singa_core import random
from singa_core.errors import PluginError
from singa_core.registry import registry
from singa_core.tensor import tensor

ROOT = Path(__file__).resolve().parent.parent
# a contributor names a backend of their own beside these
DEVICES = tuple((os.environ.get("SINGA_TEST_DEVICES") or "cpu_numpy,far").split(","))
PASSED = pytest.StashKey[bool]()
os.environ["SINGA_PLUGINS"] = "off"  # what is tested here is the house without guests

far.register()
# Examples are a function of the code, so that a red run stays red; fixtures here are harmless to share.
hypothesis.settings.register_profile(
    "house", deadline=None, derandomize=True, print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)  # fmt: skip
hypothesis.settings.load_profile("house")


def open_device(name):
    """The device, or a skip that says why not; `SINGA_REQUIRE=a,b` turns that into a failure."""
    try:
        return registry.resolve(name)
    except PluginError as error:
        if name in os.environ.get("SINGA_REQUIRE", "").split(","):
            pytest.fail(f"SINGA_REQUIRE has {name}: {error}", pytrace=False)
        pytest.skip(str(error).replace("\n", "; "))


@pytest.fixture(params=DEVICES)
def device(request):
    """Every device in turn."""
    return open_device(request.param)


@pytest.fixture
def unfused(device, monkeypatch):
    """This device, with a launch for every operation: tests count them, or take their memory."""
    apart = replace(device.capabilities, fuses=frozenset(), batches=frozenset())
    monkeypatch.setattr(device, "capabilities", apart)
    return device


@pytest.fixture
def other_device(device):
    """A device that is not the one of this test."""
    return open_device("cpu_numpy" if device.name == "far" else "far")


@pytest.fixture
def far_device():
    """The far device, for tests that limit or break it."""
    return open_device("far")


@pytest.fixture
def array(device):
    """A function that puts data on the device."""

    def make(data, dtype=None, *, requires_grad=False):
        return tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)

    return make


# A shell starts what it puts in the background with interrupts ignored; tests send some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _seed():
    random.manual_seed(0)


@pytest.fixture(autouse=True)
def _far_is_left_clean(request):
    """After a test that passed, the far device has no more buffers than before, and no secrets."""
    far_device = open_device("far")
    before = far_live(far_device)
    yield
    secret = far_device.recover()
    if not request.node.stash.get(PASSED, False):
        return  # its traceback keeps things alive
    request.node.funcargs.clear()  # what fixtures gave the test is the test's
    if far_live(far_device) > before:
        gc.collect()
    left = far_live(far_device) - before
    if left > 0:
        sizes = far_device.alive[-left:]
        pytest.fail(f"{left} buffers left on the far device, of {sizes} bytes", pytrace=False)
    if secret is not None:
        told = f"{type(secret).__name__}: {secret}"
        pytest.fail(f"nobody waited for the far device, which has {told}", pytrace=False)


def far_live(far_device):
    """How many buffers are alive, but for the caches of constants and scalars."""
    state = far_device.state
    return len(far_device.alive) - len(state.constants) - len(state.scalars)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    result = yield
    if result.when == "call":
        item.stash[PASSED] = result.passed
    return result


# -- the summary ------------------------------------------------------------------------------------


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a worker of xdist
        session.config.workeroutput["counts"] = counts.export()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    counts.merge(getattr(node, "workeroutput", {}).get("counts", {"counts": {}, "seen": {}}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("what was checked")
    for line in counts.lines():
        terminalreporter.write_line(line)
    for reason, number in sorted(skips(terminalreporter).items()):
        terminalreporter.write_line(f"skipped {number}: {reason}")
    terminalreporter.section("sizes by floor")
    for line in report(ROOT):
        terminalreporter.write_line(line)


def skips(terminalreporter):
    """Reason -> how many tests it skipped."""
    reasons = Counter()
    for skipped in terminalreporter.stats.get("skipped", []):
        where = skipped.longrepr
        reason = where[2] if isinstance(where, tuple) else str(where)
        reasons[reason.removeprefix("Skipped: ") or "NO REASON GIVEN"] += 1
    return reasons
