"""Curves: what is drawn, where, and what is told where nothing can be drawn."""

import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from singa_core import plot
from singa_core.errors import ArgumentError
from singa_core.plot import PlotMissing, curves
from singa_core.training import History

ROWS = [
    {"epoch": 1, "loss": 0.9, "top_5": 0.5, "val_loss": 1.0, "val_top_5": 0.75, "lr": 9.125},
    {"epoch": 2, "loss": 0.6, "top_5": 0.7, "val_loss": 0.8, "val_top_5": 0.85, "lr": 9.125},
    {"epoch": 4, "loss": 0.5, "top_5": 0.8, "val_loss": 0.9, "val_top_5": 0.65, "ms_per_step": 7.5},
]


@pytest.fixture
def draw(tmp_path):
    """A function that draws, and gives the SVG as a tree."""
    pytest.importorskip("matplotlib", reason="matplotlib, which draws (extra `plot`)")

    def call(rows, **options):
        path = tmp_path / "curves.svg"
        curves(rows, path, **options)
        return ElementTree.fromstring(path.read_bytes())

    return call


def texts(tree):
    return ["".join(text.itertext()).strip() for text in tree.iterfind(".//{*}text")]


def points(tree, name):
    """The corners of a curve, in the picture's units; y grows downwards."""
    (group,) = [g for g in tree.iterfind(".//{*}g") if g.get("id") == name]
    words = group.find("{*}path").get("d").replace("M", " ").replace("L", " ").split()
    return np.array(words, dtype=float).reshape(-1, 2)


def test_every_curve_goes_through_its_numbers(draw):
    tree = draw(ROWS)
    epochs = np.array([1, 2, 4])
    for measure in ("loss", "top_5"):
        both = [points(tree, measure), points(tree, f"val_{measure}")]
        x, y = np.concatenate(both).T
        wanted = [row[name] for name in (measure, f"val_{measure}") for row in ROWS]
        slope, offset = np.polyfit(wanted, y, 1)  # one scale for both curves
        np.testing.assert_allclose(y, slope * np.array(wanted) + offset, atol=1e-3)
        assert slope < 0
        np.testing.assert_allclose(x[1] - x[0], (x[2] - x[0]) / 3, atol=1e-3)
        np.testing.assert_allclose(x[:3], x[3:])
    assert len(epochs) == len(points(tree, "loss"))


def test_axes_are_labelled_and_the_last_numbers_shown(draw):
    found = texts(draw(ROWS, title="A net", names=("train", "test"), labels={"loss": "loss, nats"}))
    for text in ("A net", "epoch", "loss, nats", "top 5"):
        assert text in found
    for text in ("train 0.5", "test 0.9", "train 0.8", "test 0.65"):
        assert text in [" ".join(label.split()) for label in found]
    assert found.count("epoch") == 2
    assert not any("lr" in text or "9.1" in text or "step" in text for text in found)


def test_one_epoch_and_no_validation(draw):
    tree = draw([{"epoch": 1, "loss": 2.0, "lr": 1.0}])
    assert points(tree, "loss").shape == (1, 2)
    assert "validation" not in " ".join(texts(tree))


def test_a_wide_range_has_a_logarithmic_axis(draw):
    rows = [{"epoch": e, "loss": 10.0**-e} for e in (1, 2, 3)]
    heights = np.diff(points(draw(rows), "loss")[:, 1])
    np.testing.assert_allclose(heights[0], heights[1], rtol=1e-3)


def test_numbers_that_are_none_leave_a_gap(draw):
    rows = [{"epoch": e, "loss": x} for e, x in enumerate((1.0, np.nan, np.inf, 2.0), 1)]
    assert "train nan" not in texts(draw(rows))
    rows.append({"epoch": 5, "loss": np.nan})
    assert "train nan" in [" ".join(text.split()) for text in texts(draw(rows))]


def test_the_same_curves_are_the_same_bytes_and_a_history_does_as_well(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib, which draws (extra `plot`)")
    history = History()
    history.rows = ROWS
    for name, given in (("a.svg", ROWS), ("b.svg", history)):
        curves(given, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_other_formats(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib, which draws (extra `plot`)")
    curves(ROWS, str(tmp_path / "curves.PNG"))
    assert (tmp_path / "curves.PNG").read_bytes().startswith(b"\x89PNG")
    for name in ("curves.docx", "curves"):
        with pytest.raises(ArgumentError, match=r"^curves: needs a path that ends in one of .*svg"):
            curves(ROWS, tmp_path / name)
    with pytest.raises(FileNotFoundError):
        curves(ROWS, tmp_path / "none" / "curves.svg")


@pytest.mark.parametrize("rows", [[], [{"epoch": 1, "lr": 0.1}], History()])
def test_nothing_to_draw(rows, tmp_path):
    with pytest.raises(
        ArgumentError, match=r"^curves: needs a history with a loss or a metric, got"
    ):
        curves(rows, tmp_path / "curves.svg")


@pytest.mark.parametrize(
    ("error", "got"),
    [
        (
            ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib"),
            "no package matpl",
        ),
        (ImportError("a broken library", name="kiwisolver"), "a broken library"),
    ],
)
def test_without_the_library(monkeypatch, tmp_path, error, got):
    def import_module(name):
        raise error

    monkeypatch.setattr(plot, "import_module", import_module)
    with pytest.raises(
        PlotMissing, match=rf"^curves: needs matplotlib, got {got}.*\ntry: pip inst"
    ):
        curves(ROWS, tmp_path / "curves.svg")
    assert list(tmp_path.iterdir()) == []


def test_the_library_is_imported_when_a_plot_is_made():
    code = "import sys, singa_core.plot; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_settings_of_the_library_are_left_alone(draw):
    matplotlib = pytest.importorskip("matplotlib")
    before = matplotlib.rcParams.copy()
    draw(ROWS)
    assert matplotlib.rcParams.copy() == before
    assert "matplotlib.pyplot" not in sys.modules  # it would open a display
