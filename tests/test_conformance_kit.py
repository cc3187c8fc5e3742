"""The kit's own machinery: ids, known failures, verdicts, reports. What it finds is in test_planted."""

import ast
import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pytest

import singa_core.conformance.groups as groups
from house import counts
from singa_core.conformance import badge, checking, page, plugin, report
from singa_core.conformance.backend import describe
from singa_core.conformance.cases import PRIMITIVES, signatures
from singa_core.conformance.claims import CLAIMS
from singa_core.conformance.edges import trials
from singa_core.conformance.groups.ops_primitive import types_of
from singa_core.conformance.known import parse
from singa_core.conformance.ledger import GROUPS, Cell, Failure, Ledger, matches, names
from singa_core.conformance.options import level_of
from singa_core.conformance.runner import arguments, main
from singa_core.conformance.small import small
from singa_core.conformance.tolerances import CLASSES, UNITS, Mismatch
from singa_core.device import Capabilities
from singa_core.dtype import ALL, float16, float32
from singa_core.errors import ArgumentError
from singa_core.optable import OPS
from singa_core.registry import registry
from test_planted import run_kit

# -- ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text", "same"),
    [
        ("a", "a", True), ("a", "ab", False), ("*", "", True), ("a*c", "abc", True),
        ("a*c", "ac", True), ("a*b*c", "a1b2c", True), ("a*b*c", "acb", False),
        ("x[float32-*]", "x[float32-1]", True), ("x[float32-*]", "x[float64-1]", False),
        ("a*a", "a", False), ("*b", "ab", True), ("", "", True),
    ],
)  # fmt: skip
def test_a_star_stands_for_anything_and_a_bracket_for_itself(pattern, text, same):
    assert matches(pattern, text) is same


def test_a_pattern_without_a_bracket_means_all_cases():
    assert names("g::add", "g::add[float32-0]")
    assert names("g::*", "g::add[float32-0]")
    assert not names("g::add", "g::add_more[float32-0]")
    assert not names("g::add[float32-1]", "g::add[float32-0]")


def modules():
    return sorted(Path(groups.__file__).parent.glob("*.py"))


def test_names_of_tests_are_unique_across_groups():
    """They meet in `suite`, where a second one would hide the first."""
    found = Counter(
        node.name
        for path in modules()
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )
    assert [name for name, times in found.items() if times > 1] == []
    suite = Path(groups.__file__).parents[1] / "suite.py"
    for path in modules():
        if f"{path.stem.replace('_', '.')}" in GROUPS:
            assert f"groups.{path.stem} import *" in suite.read_text("utf-8"), path.stem


def test_every_group_has_a_module_and_says_what_it_checks():
    stems = {path.stem.replace("_", ".") for path in modules()}
    assert set(GROUPS) <= stems
    for path in modules():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                assert ast.get_docstring(node), f"{path.stem}.{node.name}"


def test_classes_of_tolerances_name_ops_and_no_op_twice():
    named = Counter(op for ops in CLASSES.values() for op in ops)
    assert [op for op, times in named.items() if times > 1] == []
    assert sorted(set(named) - set(OPS)) == []
    assert set(CLASSES) < set(UNITS)


# -- cases ----------------------------------------------------------------------------------------


def fails():
    raise Mismatch("got 1, needs 2")


def breaks():
    raise KeyError("x")


def cases(known="", **options):
    expected = parse(f'suite = "1.0"\n{known}', "conformance.toml")
    return checking.Cases(Ledger("toy"), "device", "test", expectations=expected, **options)


def test_a_failing_case_hides_no_other_and_says_how_to_run_it_again():
    case = cases()
    for detail, function in (("a", fails), ("b", breaks), ("c", lambda: None)):
        case.check(detail, function, cell=("add", "float32", "native", "c"))
    assert dict(case.ledger.counts["device"]) == {"failed": 2, "passed": 1}
    text = case.report()
    assert "device::test[a]\n    got 1, needs 2\n    again: python -m singa_core.conf" in text
    assert "--select 'device::test[b]'" in text
    assert "KeyError: 'x'" in text
    assert case.ledger.cell("add", "float32").state == "failed"


def test_a_selection_runs_nothing_else():
    case = cases(select=["device::test[b*]"])
    ran = []
    for detail in ("a", "b", "b2"):
        case.check(detail, ran.append, detail)
    assert ran == ["b", "b2"]


KNOWN = """
[[known]]
id = "device::test[a*]"
driver = "*"
reason = "a bug of the driver"
"""


def test_a_known_failure_is_strict():
    case = cases(KNOWN)
    case.check("a1", fails)
    assert case.ledger.counts["device"]["known"] == 1
    assert not case.failures
    case.check("a2", lambda: None)
    assert case.ledger.counts["device"]["fixed"] == 1
    assert "passes now; delete the known failure (a bug of the driver)" in case.report()
    case.check("b", fails)
    assert case.ledger.counts["device"]["failed"] == 1


def test_a_known_failure_belongs_to_a_driver():
    expected = parse(f'suite = "1.0"\n{KNOWN}'.replace('"*"', '"moonlib 3.*"'), "x")
    assert expected.on("moonlib 3.1").find("device::test[a1]")
    assert not expected.on("moonlib 4.0").known


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("suite = ", "needs TOML"),
        ("", 'needs suite = "1.0", got None'),
        ('suite = "1.0"\nxfail = 1', "needs the keys suite, known and tolerance, got xfail"),
        ('suite = "1.0"\n[[known]]\nid = "device::x"', "needs entries with id, driver, reason"),
        (f'suite = "1.0"\n{KNOWN.replace("device::", "devices::")}', "needs an id of a group"),
        (f'suite = "1.0"\n{KNOWN}{KNOWN}', "needs each id once"),
        (f'suite = "1.0"\n{KNOWN}level = "all"', "needs a level (core, train, graph, full)"),
        (
            'suite = "1.0"\n[[tolerance]]\nclass="computed"\ndtype="float32"\nfactor=11\nreason="x"',
            "needs 1 < factor <= 10, got 11",
        ),
        (
            'suite = "1.0"\n[[tolerance]]\nclass="exact"\ndtype="float32"\nfactor=2\nreason="x"',
            "needs a class",
        ),
    ],
)
def test_a_wrong_conformance_toml_says_what_is_wrong(text, rule):
    with pytest.raises(ArgumentError, match=re.escape(rule)):
        parse(text, "conformance.toml")


# -- verdicts -------------------------------------------------------------------------------------


CAN = dict.fromkeys(page.ABLE, False) | {"host": True, "fuses": ["add"], "family": "cpu"}


def ledger(**outcomes):
    made = Ledger("toy")
    made.facts = {
        "suite": "1.0", "device": "toy", "distribution": "singa-toy 1", "driver": "<toy & co>",
        "api": [1, 0], "core": "0.1", "languages": ["c"], "capabilities": CAN,
        "dtypes": [d.name for d in ALL[1:]],
        "python": "3", "numpy": "2", "platform": "x", "known": [], "tolerances": [],
    }  # fmt: skip
    for group in GROUPS:
        made.add(group, outcomes.get(group.replace(".", "_"), "passed"), Failure("id", "x", "<m>"))
    made.cells = {"add": {"float32": Cell(native=2, languages=["c"]), "int8": Cell(lowered=1)}}
    return made


def test_a_verdict_is_good_if_all_groups_of_the_level_ran_and_passed():
    verdict = report.Verdict(ledger(), "full", entire=True)
    assert verdict.passed
    assert "conforms: level full, 9 cases passed" in "\n".join(t for t, _ in report.lines(verdict))
    assert badge.words(verdict.data())[1:] == ("full: 9 pass", "brightgreen")


def test_nothing_executed_is_not_a_pass():
    made = ledger()
    made.counts["graph"].clear()
    assert report.Verdict(made, "train", entire=True).passed
    verdict = report.Verdict(made, "graph", entire=True)
    assert not verdict.passed
    assert verdict.problems == ["graph: nothing ran, which is not a pass"]
    assert badge.words(verdict.data())[1:] == ("graph: incomplete", "red")
    for chosen, entire in ((GROUPS, False), (["device"], True), (["graph"], True)):
        verdict = report.Verdict(Ledger("toy"), "core", chosen, entire=entire)
        assert verdict.problems[-1] == "nothing ran, which is not a pass"
        assert not verdict.passed


def test_what_is_unsupported_did_not_run():
    made = ledger(random="unsupported")
    assert made.ran("random") == 0


def test_the_lowest_failing_group_is_named():
    verdict = report.Verdict(ledger(graph="failed", ops_composite="failed"), "full", entire=True)
    assert verdict.ledger.lowest_failing() == "ops.composite"
    assert "lowest failing group ops.composite" in "\n".join(t for t, _ in report.lines(verdict))
    assert badge.words(verdict.data())[1:] == ("full: 2 fail", "red")


def test_a_known_failure_that_matches_nothing_fails_the_run():
    made = ledger()
    made.facts["known"] = [["device::gone", "core"], ["graph::x", "core"], ["graph::y", "full"]]
    made.hits["graph::x"] = 1
    told = "known failure {!r} matches no case: delete it or correct the id".format
    for chosen in (GROUPS, ["device"]):
        verdict = report.Verdict(made, "graph", chosen, entire=True)
        assert verdict.problems == [told("device::gone")]
    assert report.Verdict(made, "graph", ["random"], entire=True).problems == []
    assert report.Verdict(made, "graph", entire=False).problems == []
    both = report.Verdict(made, "full", entire=True).problems
    assert both == [told("device::gone"), told("graph::y")]


def test_known_failures_are_told_by_the_badge():
    verdict = report.Verdict(ledger(device="known"), "core", entire=True)
    assert verdict.passed
    assert badge.words(verdict.data())[1:] == ("core: 4 pass, 1 known", "yellow")


def test_workers_add_up():
    one, other = ledger(device="failed"), ledger(graph="failed")
    other.cells["add"]["float32"].failed = 1
    whole = Ledger("toy")
    for part in (one, other):
        whole.merge(json.loads(json.dumps(part.export())))
    assert whole.counts["device"] == {"failed": 1, "passed": 1}
    assert whole.cell("add", "float32").native == 4
    assert whole.cell("add", "float32").state == "failed"
    assert len(whole.failures) == 2


# -- files ----------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a page would ask of a network, and tags that do not fit together."""

    alone = frozenset({"meta", "input"})

    def __init__(self, text):
        super().__init__()
        self.loads, self.wrong, self.ids, self.links, self.open = [], [], set(), set(), []
        self.text = []
        self.feed(text)
        self.wrong += self.open

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "href" and value.startswith("#"):
                self.links.add(value[1:])
            elif name in ("src", "href", "srcset", "data") or "url(" in (value or ""):
                self.loads.append(f"{tag} {name}={value}")
            if name == "id":
                self.wrong += [value] if value in self.ids else []
                self.ids.add(value)
        if tag not in self.alone:
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.wrong += [] if self.open and self.open.pop() == tag else [f"/{tag}"]

    def handle_data(self, data):
        (self.loads if re.search(r"@import|url\(|fetch\(|https?:", data) else self.text).append(
            data
        )


def test_the_page_is_whole_and_loads_nothing():
    made = ledger(graph="failed")
    made.facts["tolerances"] = [["computed", "float32", 2.0, "a <sine>"]]
    made.cells["add"]["float64"] = Cell(native=1, failed=1)
    failed = Failure("ops.primitive::add[float64-0]", "failed", "got <1>")
    made.add("ops.primitive", "failed", failed)
    made.add("ops.primitive", "failed", failed)
    made.add("device", "known", Failure("device::copy[1]", "known", "a bug"))
    text = page.page(report.Verdict(made, "full", entire=True).data())
    read = Page(text)
    assert (read.loads, read.wrong) == ([], [])
    assert read.links == {"add"} <= read.ids
    assert "$" not in re.sub(r"<script>.*", "", text, flags=re.DOTALL)
    assert "<toy" not in text
    assert 'title="add float32: native by c; cases: 2 native"' in text
    assert "&lt;toy &amp; co&gt;" in text
    seen = " ".join(read.text)
    again = "python -m singa_core.conformance --singa-backend toy --select"
    for word in (
        "does not conform", *GROUPS, "a <sine>", "got <1>", "elementwise", "Known failures",
        f"{again} 'ops.primitive::add[float64-0]'", f"{again} 'device::copy[1]'",
        "without bool", "host memory, fused chains",
    ):  # fmt: skip
        assert word in seen, word


def test_ops_are_told_by_family_and_those_of_a_pack_are_one():
    swirl = type("Swirl", (), {"__module__": "singa_swirl.ops.elementwise"})()
    with mock.patch.dict(OPS, swirl=swirl):
        found = report.families(["conv_transpose", "swirl", "add", "conv", "exp2"])
    assert found == {
        "conv": ["conv", "conv_transpose"], "elementwise": ["add", "exp2"], "singa_swirl": ["swirl"],
    }  # fmt: skip


def test_badges_are_what_they_should_be():
    data = report.Verdict(ledger(), "core", entire=True).data()
    assert json.loads(badge.shield(data)) == {
        "schemaVersion": 1, "label": "singa conformance 1.0", "message": "core: 5 pass",
        "color": "brightgreen",
    }  # fmt: skip
    picture = ElementTree.fromstring(badge.svg(data))
    assert "core: 5 pass" in "".join(picture.itertext())


# -- the command ----------------------------------------------------------------------------------


def test_the_two_ways_to_name_a_backend_are_one():
    one, other = (
        arguments(["toy", "--level", "full"]),
        arguments(["--singa-backend", "toy", "--level", "full"]),
    )
    assert one == other
    assert one[-2:] == ["--pyargs", "singa_core.conformance.suite"]
    assert arguments(["toy", "--", "-x"])[-3:-2] == ["-x"]
    for wrong in ([], ["a", "--singa-backend", "b"], ["toy", "--level", "all"]):
        with pytest.raises(SystemExit):
            arguments(wrong)


def test_without_pytest_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("singa_core.conformance.runner.find_spec", lambda name: None)
    assert main(["toy"]) == 3
    assert "pip install 'singa-core[conformance]'" in capsys.readouterr().err


def test_without_xdist_workers_are_told_what_to_install(monkeypatch, capsys):
    there = {"xdist": None}
    monkeypatch.setattr("singa_core.conformance.runner.find_spec", lambda n: there.get(n, n))
    assert main(["toy", "-n", "2"]) == 3
    assert "pip install pytest-xdist" in capsys.readouterr().err


WRONG = {
    "--groups device,rando": "argument --groups: no group 'rando'; try: random (there are manifest, ",
    "--html none/x.html": "argument --html: needs a file that can be written, got 'none/x.html'",
    "--report .": "argument --report: needs the name of a file, got the folder '.'",
    "--badge none/b.svg": "argument --badge: needs a file that can be written, got 'none/b.svg'",
}


@pytest.mark.parametrize("options", WRONG)
def test_a_wrong_option_is_told_before_anything_runs(options, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["toy", *options.split()])
    assert stop.value.code == 2
    assert f"error: {WRONG[options]}" in capsys.readouterr().err


STARTS = ["ops.primitive::add", "autograd::add", "autograd::matmul", "device::copy"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("ops.primitive::ad", STARTS[:1]), ("ad[float32-0]", STARTS[:2]), ("copi*", STARTS[3:]),
        ("autograt::MatMul", STARTS[2:3]), ("device::zzz", []),
    ],
)  # fmt: skip
def test_ids_that_may_have_been_meant(pattern, found):
    assert plugin.alike(pattern, STARTS) == found


def test_a_verdict_names_what_was_selected():
    made = ledger()

    def scope(*groups, select=(), entire=True):
        verdict = report.Verdict(made, "core", groups or GROUPS, entire=entire, select=select)
        assert verdict.data()["scope"] in "".join(page.page(verdict.data()).splitlines()[:6])
        assert verdict.scope in list(report.lines(verdict))[-1][0]
        return verdict.scope

    assert scope() == "level core"
    assert scope("device", "errors") == "a selection (device, errors)"
    assert scope(select=["device::a", "b*"], entire=False) == "a selection (device::a, b*)"
    assert scope(entire=False) == "a selection (by options of pytest)"


def test_a_backend_that_is_not_there_is_told_once(tmp_path):
    status, data, text = run_kit(tmp_path, "moon", "--groups", "device")
    assert (status, data) == (4, {})
    assert text.count("backend 'moon': no such backend") == 1


def test_a_run_from_an_empty_folder_writes_what_it_is_asked_for(tmp_path):
    known = tmp_path / "known.toml"
    known.write_text('suite = "1.0"\n[[known]]\nid = "device::gone"\ndriver = "*"\nreason = "x"\n')
    outputs = ["--html", "m.html", "--badge", "b.svg"]
    status, data, text = run_kit(
        tmp_path, "far:MANIFEST", "--groups", "device", "--known", str(known), *outputs
    )
    assert status == 1, text
    assert data["problems"] == [
        "known failure 'device::gone' matches no case: delete it or correct the id"
    ]
    assert not data["complete"]
    assert data["groups"]["device"]["ran"] > 50
    assert "</html>" in (tmp_path / "m.html").read_text("utf-8")
    assert "incomplete" in (tmp_path / "b.svg").read_text("utf-8")
    status, data, text = run_kit(
        tmp_path,
        "far:MANIFEST",
        "--select",
        "device::copy[7-13-100]",
        "--select",
        "device::nothing",
    )
    assert status == 0, text
    assert data["groups"]["device"]["ran"] == 1
    assert data["scope"] == "a selection (device::copy[7-13-100], device::nothing)"
    assert "no case is called 'device::nothing'" in text
    status, _, text = run_kit(tmp_path, "far:MANIFEST", "--select", "device::copi")
    assert status not in (0, 1)
    assert "no case is called 'device::copi'; try: device::copy\n" in text
    status, data, text = run_kit(tmp_path, "far:MANIFEST", "--select", "device::copy[nothing]")
    assert status == 1
    assert data["problems"] == ["nothing ran, which is not a pass"]


def test_what_is_selected_is_run_whatever_its_level(tmp_path):
    """So that the command which is told with a failure runs it again."""
    assert [level_of(None, g, s) for g, s in (([], []), (["graph", "random"], []), ([], ["x"]))] == [
        "core", "graph", "full",
    ]  # fmt: skip
    assert level_of("train", ["graph"], ["x"]) == "train"
    status, data, text = run_kit(tmp_path, "far:MANIFEST", "--select", "graph::programs[7]")
    assert status == 0, text
    assert data["groups"]["graph"]["ran"] == 1


# -- edge values ----------------------------------------------------------------------------------


def test_the_judges_of_edges_want_the_right_values():
    (trial,) = trials("add", [float32, float32], [float32])
    with np.errstate(all="ignore"):
        y = np.add(*trial.inputs)
    trial.judges[0](y)
    y[500] += 1
    with pytest.raises(Mismatch, match=r"add\(.*\) as float32: got .*, needs .*; 1 of 1089"):
        trial.judges[0](y)
    (trial,) = trials("exp", [float16], [float16])
    with pytest.raises(Mismatch, match="exp"):
        trial.judges[0](trial.inputs[0])
    counts.counted("judges of edge values tried on wrong results", 2)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("cpu_numpy", "--select", "nothing::here"), 5),
        (("cpu_numpy", "--groups", "nothing"), 2),
        (("nothing",), 4),
        (("cpu_numpy", "--level", "nothing"), 2),
        ((), 2),
    ],
)
def test_what_cannot_be_found_out_has_a_status_of_its_own(tmp_path, arguments, wanted):
    status, data, text = run_kit(tmp_path, *arguments)
    assert (status, data.get("passed", False)) == (wanted, False), text
    page = (Path(__file__).parents[1] / "docs" / "conformance.md").read_text("utf-8")
    assert f"\n| {wanted} | " in page


def test_small_calls_have_the_types_of_their_signature():
    """All forms of all signatures; what each computes is the kit's to say."""
    device, seen = registry.resolve("cpu_numpy"), Counter()
    for name in PRIMITIVES:
        for ins, outs, _ in signatures(name, device):
            for kind, one in small(name, ins, outs):
                assert types_of(one) == (tuple(ins), tuple(outs)), f"{one}"
                sizes = [h.size for h in one.hosts()] + [y.nbytes for y in one.infer()]
                assert (0 in sizes) is kind.startswith("empty"), f"{kind} {one}"
                seen[name] += 1
    owed = {name for name in PRIMITIVES if not OPS[name].is_view}
    assert set(seen) == owed


def test_every_claim_is_about_a_capability():
    named = {f.name for f in dataclasses.fields(Capabilities)}
    elsewhere = {
        "dtypes",
        "alignment",
        "largest",
        "family",
    }  # undeclared types, arenas, allocations
    assert set(CLAIMS) | elsewhere == named
    assert set(page.ABLE) <= named


def test_a_report_tells_every_capability():
    able = registry.resolve("cpu_numpy").capabilities
    told = describe(registry.resolve("cpu_numpy"))
    sets = {"fuses": sorted(able.fuses), "batches": sorted(able.batches)}
    wanted = {f.name: getattr(able, f.name) for f in dataclasses.fields(able)} | sets
    assert told["capabilities"] | {"dtypes": able.dtypes} == wanted
    assert told["dtypes"] == sorted(dtype.name for dtype in able.dtypes)
    assert json.loads(json.dumps(told)) == told


def test_every_test_of_a_group_takes_a_device_and_cases():
    from singa_core.conformance import suite  # noqa: PLC0415  (its tests are not those of this file)

    for name, function in vars(suite).items():
        if name.startswith("test_"):
            assert {"device", "case"} <= set(inspect.signature(function).parameters), name


LATE = """
import threading
import pytest
from singa_core.conformance.groups import device as group

singa_backend = "far:MANIFEST"

def test_thread(device, case):
    case.check("", lambda: None)
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()

test_thread.__module__ = group.__name__
"""


def test_what_fails_around_the_cases_is_a_failure_too(tmp_path):
    (tmp_path / "test_late.py").write_text(LATE, encoding="utf-8")
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "singa_core.conformance.plugin", "-p",
        "no:cacheprovider", "-W", "error", "test_late.py",
    ]  # fmt: skip
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "SINGA"))}
    here = str(Path(__file__).parent)
    done = subprocess.run(
        command, cwd=tmp_path, env=env | {"PYTHONPATH": here}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert "device: 1 failed" in done.stdout
    assert "does not conform" in done.stdout
