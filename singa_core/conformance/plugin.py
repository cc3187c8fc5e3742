"""The pytest plugin of the kit: `pytest -p singa_core.conformance.plugin`.

It gives tests the fixtures `device` and `case`, puts the groups in order, keeps the ledgers (across
parallel workers too), and tells the verdict. It is not an entry point of pytest: only runs that
name it load it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import pytest

from singa_core import random
from singa_core.conformance import report
from singa_core.conformance.backend import describe, find_backend
from singa_core.conformance.checking import Cases
from singa_core.conformance.known import Expectations, load
from singa_core.conformance.ledger import GROUPS, Failure, Ledger, asks_for, group_of, names
from singa_core.conformance.options import OPTIONS, OUTPUTS, level_of
from singa_core.conformance.tolerances import WIDENED
from singa_core.device import Device
from singa_core.errors import SingaError
from singa_core.hints import nearest
from singa_core.registry import registry

KIT = pytest.StashKey["Kit"]()
CASES = pytest.StashKey[Cases]()
UNUSABLE = 4  # exit status: the backend cannot be opened
KEPT = "singa_conformance"  # the key under which workers send their ledgers
LEAVE_OUT = ("keyword", "markexpr", "deselect", "lf")  # options of pytest that leave tests out


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all of which begin with `--singa-`: other plugins have names too."""
    group = parser.getgroup("singa", "conformance of a singa-core backend")
    add = group.addoption
    add("--singa-backend", metavar="NAME", help="backend to test: NAME[:index], or module:manifest")
    for name, how in OPTIONS.items():
        add(f"--singa-{name}", **how)
    parser.addini("singa_backend", "the backend to test, where --singa-backend is not given")


def pytest_configure(config: pytest.Config) -> None:
    """One kit for each run. A backend that was named and cannot be opened ends it here."""
    config.stash[KIT] = kit = Kit(config)
    if kit.asked and kit.backend:
        try:
            find_backend(kit.backend)
        except SingaError as error:
            raise pytest.UsageError(str(error)) from None


class Kit:
    """The state of a run: options, ledgers by device, expectations by backend."""

    def __init__(self, config: pytest.Config) -> None:
        option = config.getoption
        self.backend: str | None = option("--singa-backend") or config.getini("singa_backend")
        self.asked = bool(option("--singa-backend"))
        self.select: list[str] = option("--singa-select")
        self.stop: bool = option("--singa-stop")
        self.known: str | None = option("--singa-known")
        self.outputs = {kind: option(f"--singa-{kind}") for kind in OUTPUTS}
        chosen = option("--singa-groups")
        self.groups: tuple[str, ...] = tuple(chosen.split(",")) if chosen else tuple(GROUPS)
        self.level = level_of(option("--singa-level"), self.groups if chosen else (), self.select)
        self.unlimited = not (self.select or any(option(name, None) for name in LEAVE_OUT))
        self.complete = False  # all tests of the suite were collected
        self.ledgers: dict[str, Ledger] = {}
        self.expectations: dict[str, Expectations] = {}
        self.session: pytest.Session | None = None
        self.crashes: list[str] = []  # tests that took their worker's process with them
        self.failing: str | None = None
        self.strange: dict[str, list[str]] = {}  # selected, but no test: what is called alike

    @property
    def entire(self) -> bool:
        """True if no case of these groups was left out, so that what did not run can be told."""
        return self.unlimited and self.complete

    def ledger(self, device: Device) -> Ledger:
        """The ledger of a device."""
        if device.name not in self.ledgers:
            ledger = self.ledgers[device.name] = Ledger(device.name)
            ledger.facts = describe(device) | {"level": self.level}
            if self.asked and self.backend:
                ledger.facts["asked"] = self.backend
            expected = self.expected(device)
            ledger.facts["tolerances"] = [list(t) for t in expected.tolerances]
            ledger.facts["known"] = [[k.id, k.level] for k in expected.known]
        return self.ledgers[device.name]

    def expected(self, device: Device) -> Expectations:
        """What the backend's conformance.toml says for this device."""
        if device.name not in self.expectations:
            found = load(registry.manifest(device.backend), self.known)
            self.expectations[device.name] = found.on(device.driver)
        return self.expectations[device.name]

    def wants(self, item: pytest.Function, group: str) -> bool:
        """True if a test belongs to this run."""
        least = getattr(item.function, "singa_level", GROUPS[group])
        if group not in self.groups or not asks_for(self.level, least):
            return False
        start = f"{group}::{subject_of(item)}"
        return not self.select or any(selects(pattern, start) for pattern in self.select)


def selects(pattern: str, start: str) -> bool:
    """True if a pattern may mean cases whose ids begin so."""
    return names(pattern.partition("[")[0], start) or names(pattern, start)


def alike(pattern: str, starts: Sequence[str]) -> list[str]:
    """Ids without a bracket that may have been meant by a pattern which means none."""
    group, _, word = pattern.partition("[")[0].rpartition("::")
    subject = nearest(word.strip("*"), {start.rpartition("::")[2] for start in starts})
    found = [start for start in starts if start.rpartition("::")[2] == subject]
    near = nearest(group, {start.partition("::")[0] for start in found})
    return [start for start in found if start.partition("::")[0] == near] or found


def subject_of(item: pytest.Function) -> str:
    """What a test is about: an op's name, or the test's."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return str(params.get("name") or item.originalname.removeprefix("test_"))


# -- choosing and ordering ------------------------------------------------------------------------


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember the session: the verdict may change its exit status."""
    session.config.stash[KIT].session = session


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of the kit in the order of groups; those that this run does not ask for go."""
    kit, order = config.stash[KIT], list(GROUPS)
    kept, dropped, places = [], [], []
    kit.complete = tests_of_the_suite() <= {getattr(i, "originalname", i.name) for i in items}
    starts: dict[str, None] = {}
    for item in items:
        group = group_of(getattr(item, "function", kit).__module__)
        if group is not None and isinstance(item, pytest.Function):
            starts[f"{group}::{subject_of(item)}"] = None
        if group is None or not isinstance(item, pytest.Function):
            kept.append(item)
        elif kit.wants(item, group):
            places.append(len(kept))
            kept.append(item)
        else:
            dropped.append(item)
    ours = sorted((kept[i] for i in places), key=lambda item: order.index(_group(item)))
    for place, item in zip(places, ours, strict=True):
        kept[place] = item
    items[:] = kept
    for pattern in kit.select if kit.complete else ():
        if not any(selects(pattern, start) for start in starts):
            kit.strange[pattern] = alike(pattern, list(starts))
    if dropped:
        config.hook.pytest_deselected(items=dropped)


def tests_of_the_suite() -> set[str]:
    """The names of all tests of the kit."""
    suite = import_module("singa_core.conformance.suite")
    return {name for name in vars(suite) if name.startswith("test_")}


def _group(item: pytest.Item) -> str:
    group = group_of(item.function.__module__) if isinstance(item, pytest.Function) else None
    return group or ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """With --singa-stop, a failing group is the last one."""
    kit = item.config.stash[KIT]
    if kit.stop and kit.failing and _group(item) not in ("", kit.failing):
        pytest.skip(f"group {kit.failing} failed")


# -- what tests get -------------------------------------------------------------------------------


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Device:
    """The device under test; a conftest that tests several devices overrides it."""
    kit = request.config.stash[KIT]
    name = getattr(request.module, "singa_backend", None) or kit.backend
    if not name:
        pytest.fail("which backend? --singa-backend NAME", pytrace=False)
    try:
        return find_backend(name)
    except SingaError as error:
        if kit.asked:  # nothing can be tested: once is enough
            pytest.exit(str(error), returncode=UNUSABLE)
        return pytest.fail(str(error), pytrace=False)


@pytest.fixture
def case(request: pytest.FixtureRequest, device: Device) -> Iterator[Cases]:
    """Checks the cases of this test, and writes them down."""
    kit, item = request.config.stash[KIT], request.node
    expected = kit.expected(device)
    WIDENED.clear()
    WIDENED.update(expected.widened())
    random.manual_seed(0)
    cases = Cases(
        kit.ledger(device),
        _group(item),
        subject_of(item),
        device=device,
        expectations=expected,
        select=kit.select,
        full=asks_for(kit.level, "full"),
    )
    item.stash[CASES] = cases
    start = time.perf_counter()
    yield cases
    cases.ledger.seconds[cases.group] += time.perf_counter() - start
    WIDENED.clear()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """A test with failed cases fails, and tells all of them."""
    cases = pyfuncitem.stash.get(CASES, None)
    try:
        result = yield
    except Exception as error:
        if cases is None:
            raise
        cases.broke(error)
        result = None
    text = cases.report() if cases is not None else ""
    if cases is not None and text:
        pyfuncitem.config.stash[KIT].failing = cases.group
        pytest.fail(text, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """What fails around a test (its setup, a thread it has left) is a failure in the ledger too."""
    result: Any = yield
    cases = item.stash.get(CASES, None)
    if result.failed and cases is not None and not cases.failures:
        cases.broke(AssertionError(str(result.longrepr)[-2000:]))
    return result  # type: ignore[no-any-return]


# -- the end --------------------------------------------------------------------------------------


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker sends what it wrote down."""
    if hasattr(session.config, "workeroutput"):
        kit = session.config.stash[KIT]
        ledgers = [ledger.export() for ledger in kit.ledgers.values()]
        told = {"complete": kit.complete, "ledgers": ledgers, "strange": kit.strange}
        session.config.workeroutput[KEPT] = told


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker sent is added to the ledgers here."""
    kit = node.config.stash[KIT]
    sent = getattr(node, "workeroutput", {}).get(KEPT, {"complete": False, "ledgers": []})
    kit.complete |= sent["complete"]
    kit.strange |= sent.get("strange", {})
    for data in sent["ledgers"]:
        ledger = kit.ledgers.setdefault(data["device"], Ledger(data["device"]))
        ledger.merge(data)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, sched: Any) -> None:
    """A test has ended its worker's process, and what that had written down is lost."""
    sched.config.stash[KIT].crashes.append(crashitem.rpartition("::")[2])


def crashed(test: str) -> tuple[str, Failure]:
    """(group, failure) for a test that has ended its process; it has no ledger to say so itself."""
    function, _, param = test.rstrip("]").partition("[")
    suite = import_module("singa_core.conformance.suite")
    group = group_of(getattr(suite, function).__module__) or ""
    identity = f"{group}::{param or function.removeprefix('test_')}"
    return group, Failure(
        identity, "failed", f"{test} ended its process, and what ran in it is lost"
    )


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The verdict, and the files that were asked for. Nothing executed is not a pass."""
    kit = terminalreporter.config.stash[KIT]
    if not kit.ledgers and not kit.asked:
        return
    problems: list[str] = []
    for ledger in kit.ledgers.values():
        if not (ledger.ids or kit.asked or kit.entire):
            continue  # a word for pytest's -k meant tests that have no case for this device
        for group, failure in map(crashed, kit.crashes):
            ledger.add(group, "failed", failure)
        verdict = report.Verdict(
            ledger, kit.level, kit.groups, entire=kit.entire, select=kit.select
        )
        terminalreporter.section(f"conformance of {ledger.device}")
        for line, good in report.lines(verdict):
            terminalreporter.write_line(line, **({} if good else {"red": True}))
        problems += verdict.problems
        if kit.asked:
            for line in report.write(verdict, kit.outputs):
                terminalreporter.write_line(line)
    for pattern, near in kit.strange.items():
        hint = f"; try: {' or '.join(near)}" if near else ""
        terminalreporter.write_line(f"no case is called {pattern!r}{hint}", red=True)
    if not kit.ledgers:
        problems.append("nothing ran")
        terminalreporter.write_line("nothing ran: that is not a pass", red=True)
    session = kit.session
    if problems and session is not None and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
