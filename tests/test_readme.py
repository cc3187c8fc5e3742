"""The README's Python runs, and says what it says it does."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import bootstrap
import draw_graph_mode
import singa_core as sc

README = Path(__file__).resolve().parent.parent / "README.md"
DOCS = README.parent / "docs"
TEXT = README.read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_model_learns_its_batch(capsys):
    np.random.seed(0)
    exec(BLOCKS[0], {})
    assert float(capsys.readouterr().out) < 0.1  # ln 10 = 2.3 at the start


def test_an_own_step_learns_too(capsys):
    names = {}
    np.random.seed(0)
    exec(BLOCKS[0] + BLOCKS[1], names)
    net = names["Weighted"]()
    net.compile([sc.Placeholder((32, 20))])
    losses = [float(net.train_one_batch(names["x"], names["labels"])) for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
    assert (
        f"{net.train_one_batch(names['x'], names['labels']):.1f}"
    )  # a tensor formats as its number


def test_the_gradient_is_the_one_it_shows():
    names = {"sc": sc}
    exec(BLOCKS[2], names)
    assert names["x"].grad.tolist() == [[3.0, 4.0]]  # 2 x, and 1 for x[0, 0] alone


def test_a_report_of_graphs_is_read_as_it_shows(capsys):
    names = {}
    exec(BLOCKS[0], names)
    capsys.readouterr()
    exec(BLOCKS[3], names)
    head, *rows = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"train_one_batch \d+ bytes held, in eager mode at least \d+", head)
    launches = sum(int(row.split()[0]) for row in rows)
    (report,) = names["net"].graph_report()
    assert launches == report["launches"] > 10
    assert any(row.endswith(" matmul") for row in rows)


@pytest.mark.parametrize("page", [README, *DOCS.glob("*.md")], ids=lambda path: path.name)
def test_every_link_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_design_page_names_files_that_exist():
    folders = ("singa_core", "backends", "plugins", "tests", "scripts", "examples", "benchmarks")
    there = [f"/{p.as_posix()}" for folder in folders for p in (DOCS.parent / folder).rglob("*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", (DOCS / "design.md").read_text("utf-8")))
    assert len(named) > 40
    assert {name for name in named if not any(p.endswith(f"/{name}") for p in there)} == set()


def test_it_names_every_example():
    named = re.findall(r"^\| \[(\w+)\]\(examples/\1\.py\)", TEXT, re.MULTILINE)
    assert sorted(named) == sorted(bootstrap.list_examples(README.parent / "examples"))
    assert named[0] == bootstrap.MAIN_EXAMPLE


def test_the_picture_is_of_a_plan_in_which_no_two_values_meet():
    """It is drawn anew: the one in docs may show a plan that was a little different."""
    drawn = ElementTree.fromstring(draw_graph_mode.picture())
    kept = ElementTree.parse(DOCS / "graph-mode.svg").getroot()
    assert drawn.attrib == kept.attrib
    rects = [
        [float(rect.get(name)) for name in ("x", "y", "width", "height")]
        for rect in drawn.iterfind("{*}rect")
        if rect.get("stroke-width") == "0.6"  # those of the plan
    ]
    assert len(rects) > 20
    for i, (x, y, width, height) in enumerate(rects):
        for u, v, wide, high in rects[:i]:
            beside = x + width <= u + 0.3 or u + wide <= x + 0.3  # of a unit, for rounding
            assert beside or y + height <= v + 0.3 or v + high <= y + 0.3
