"""Curves of a training, drawn by matplotlib (extra `plot`), which is imported when it is needed."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from singa_core.errors import ArgumentError, SingaError
from singa_core.training import History, Row

HELD_OUT: Final = "val_"
BESIDE: Final = frozenset({"epoch", "lr", "ms_per_step"})  # in a row, but no measure of success
COLOURS: Final = ("#2a6fbb", "#d1661f")  # blue and orange, which the colour-blind tell apart
DECADES: Final = 1.5  # a wider range has a logarithmic axis

STYLE: Final = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",  # text stays text: it can be searched, and the file is small
    "svg.hashsalt": "singa-core",  # the same curves are the same bytes
}


class PlotMissing(SingaError, ImportError):
    """A plot where matplotlib is not installed."""


def curves(
    history: History | Sequence[Row],
    path: str | os.PathLike[str],
    *,
    title: str = "",
    names: tuple[str, str] = ("train", "validation"),
    labels: dict[str, str] | None = None,
) -> None:
    """Draw loss and metrics over the epochs, each in a panel of its own, into a file.

    Args:
        history: what `fit` gave, or its rows.
        path: of the file; its ending tells the format: `.svg`, `.png`, `.pdf`.
        title: above all panels.
        names: what the two curves of a panel are called, the one on held-out data last.
        labels: for a name in the rows what its axis says, such as a unit; by default the name.

    Raises:
        PlotMissing: without matplotlib.
        ArgumentError: for a history without epochs, or a format that matplotlib has not.
        OSError: if the file cannot be written.
    """
    rows = history.rows if isinstance(history, History) else list(history)
    measures = _measures(rows)
    if not measures:
        raise ArgumentError("curves", "a history with a loss or a metric", f"{len(rows)} epochs")
    library, figures = _load("matplotlib"), _load("matplotlib.figure")
    with library.rc_context(STYLE):
        size = (4.8 * len(measures), 3.6)
        figure = figures.Figure(figsize=size, layout="constrained", facecolor="white")
        kind = _format(figure, path)
        panels = figure.subplots(1, len(measures), squeeze=False)[0]
        for panel, measure in zip(panels, measures, strict=True):
            _draw(panel, rows, measure, names)
            panel.set_ylabel((labels or {}).get(measure, measure.replace("_", " ")))
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        undated = {"Date": None} if kind == "svg" else None
        figure.savefig(path, format=kind, metadata=undated, dpi=150)


def _format(figure: Any, path: str | os.PathLike[str]) -> str:
    """The format that a path asks for. Raises: ArgumentError if there is none."""
    kind, known = Path(path).suffix[1:].lower(), figure.canvas.get_supported_filetypes()
    if kind not in known:
        rule = f"a path that ends in one of {', '.join(sorted(known))}"
        raise ArgumentError("curves", rule, os.fspath(path))
    return kind


def _measures(rows: Sequence[Row]) -> list[str]:
    """What there is a panel for: losses first, since they come first in a row."""
    names = dict.fromkeys(name.removeprefix(HELD_OUT) for row in rows for name in row)
    return [name for name in names if name not in BESIDE]


def _draw(panel: Any, rows: Sequence[Row], measure: str, names: tuple[str, str]) -> None:
    """The curves of one measure, with its last values in the legend."""
    shown: list[float] = []
    for name, key, colour in zip(names, (measure, HELD_OUT + measure), COLOURS, strict=True):
        points = [(row["epoch"], float(row[key])) for row in rows if key in row]
        values = [value for _, value in points]
        if not points:
            continue
        last = f"{name}  {values[-1]:.4g}"
        (line,) = panel.plot(*zip(*points, strict=True), color=colour, marker="o", label=last)
        line.set_gid(key)  # by which a program finds it in the file
        shown += [value for value in values if math.isfinite(value)]
    if shown and min(shown) > 0 and math.log10(max(shown) / min(shown)) > DECADES:
        panel.set_yscale("log")
    panel.set_xlabel("epoch")
    panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    panel.legend(title="last epoch", alignment="left")


def _load(module: str) -> Any:
    """A part of matplotlib. Raises: PlotMissing if there is none."""
    try:
        return import_module(module)
    except ImportError as error:
        missing = "no package matplotlib" if error.name == "matplotlib" else f"{error}"
        raise PlotMissing(
            f"curves: needs matplotlib, got {missing}\ntry: pip install matplotlib"
        ) from None
