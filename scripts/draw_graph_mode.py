"""Draws docs/graph-mode.svg: what becomes of a training step, with the real plan of mnist_cnn's.

    .venv/bin/python scripts/draw_graph_mode.py

Standard SVG without a style sheet, on a ground of its own: it looks the same on light and dark.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import mnist_cnn  # noqa: E402  (its folder comes first)
import singa_core as sc  # noqa: E402
from singa_core.executable import Executable  # noqa: E402
from singa_core.passes.plan import lifetimes  # noqa: E402

WIDTH, HEIGHT = 940, 400
INK, FAINT, GROUND, PANEL = "#1f2933", "#5f6b7a", "#ffffff", "#f3f5f8"
BLUE, ORANGE, GREY = "#3b7dc4", "#d97c2b", "#b4bcc8"
CENTRED = 'text-anchor="middle"'
LEGEND = {"forward": BLUE, "backward": ORANGE, "work space": GREY}
MIB = 2**20


def recorded() -> Executable:
    """The graph of a training step of mnist_cnn."""
    model = mnist_cnn.CNN(0.1, 10)
    images = np.zeros((mnist_cnn.BATCH, 1, 28, 28), np.float32)
    model.compile([sc.Placeholder(images.shape)])
    model.train_one_batch(images, np.zeros(mnist_cnn.BATCH, np.int64))
    (function,) = model._graphs.functions.values()
    return function.recordings[0].executable


# --- parts of a picture -----------------------------------------------------------------------


def text(
    x: float, y: float, words: str, *, size: float = 13, fill: str = INK, more: str = ""
) -> str:
    """A line of text."""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" {more}>{escape(words)}</text>'


def box(
    x: float, y: float, width: float, height: float, *, fill: str, round_: float = 4, more: str = ""
) -> str:
    """A rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round_}" '
        f'fill="{fill}" {more}/>'
    )


def arrow(path: str, colour: str = FAINT) -> str:
    """A line with a head at its end."""
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2" marker-end="url(#head)"/>'
    )


def panel(x: float, width: float, number: int, title: str, lines: tuple[str, str]) -> Iterator[str]:
    """The ground of a column, its title, and what happens there."""
    yield box(x, 16, width, HEIGHT - 32, fill=PANEL, round_=10)
    yield f'<circle cx="{x + 26}" cy="44" r="13" fill="{BLUE}"/>'
    yield text(x + 26, 49, str(number), fill=GROUND, more='text-anchor="middle" font-weight="bold"')
    yield text(x + 48, 49, title, size=16, more='font-weight="bold"')
    for i, line in enumerate(lines):
        yield text(x + 16, 78 + 18 * i, line, fill=FAINT)


# --- the three columns ------------------------------------------------------------------------


def record(x: float) -> Iterator[str]:
    """Operations one after the other, as the recorder meets them."""
    yield from panel(
        x, 196, 1, "Record, once", ("the step runs on symbols:", "nothing is computed")
    )
    rows = (
        ("conv", BLUE), ("max_pool", BLUE), ("relu", BLUE), ("…", BLUE),
        ("cross_entropy", BLUE), ("relu_grad", ORANGE), ("conv_grad_weight", ORANGE),
        ("…", ORANGE), ("sgd_step", GREY),
    )  # fmt: skip
    for i, (name, colour) in enumerate(rows):
        y = 116 + 28 * i
        yield box(x + 24, y, 148, 21, fill=GROUND, more=f'stroke="{colour}" stroke-width="1.5"')
        yield text(x + 98, y + 15, name, size=12, more=CENTRED)
        if i:
            yield f'<path d="M{x + 98} {y - 7}v7" stroke="{FAINT}" stroke-width="1.5"/>'


def planned(x: float, width: float, executable: Executable) -> Iterator[str]:
    """The arena: which value lies where, from the kernel that writes it to the last that reads."""
    placed, plan = executable.placed, executable.plan
    pieces, workspaces = lifetimes(placed)
    whole = sum(sum(placed.roots[root].nbytes for root in piece.roots) for piece in pieces)
    whole += sum(piece.nbytes for piece in workspaces.values())
    lines = (
        "simplified, ordered, and laid out in one piece of memory:",
        f"{plan.nbytes / MIB:.1f} MiB serve values and work space of {whole / MIB:.1f} MiB",
    )
    yield from panel(x, width, 2, "Plan, once", lines)
    left, top, right, bottom = x + 40, 116, x + width - 20, HEIGHT - 66
    wide, high = (right - left) / len(placed.steps), (bottom - top) / plan.nbytes
    backward = next(i for i, step in enumerate(placed.steps) if "_grad(" in step.text)
    drawn = [
        (piece, plan.offsets[piece.roots[0]][1], BLUE if piece.first < backward else ORANGE)
        for piece in pieces
    ]
    drawn += [(piece, plan.workspaces[number][1], GREY) for number, piece in workspaces.items()]
    yield box(left, top, right - left, bottom - top, fill=GROUND, round_=0)
    for piece, offset, colour in drawn:
        last = min(piece.last, len(placed.steps) - 1)
        yield box(
            left + piece.first * wide, bottom - (offset + piece.nbytes) * high,
            (last + 1 - piece.first) * wide, piece.nbytes * high, fill=colour, round_=0,
            more=f'stroke="{GROUND}" stroke-width="0.6"',
        )  # fmt: skip
    yield f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="{INK}"/>'
    under = f"the {len(placed.steps)} kernels of a step, in order"
    yield text((left + right) / 2, bottom + 18, under, size=12, fill=FAINT, more=CENTRED)
    upright = f'{CENTRED} transform="translate({x + 28} {(top + bottom) / 2}) rotate(-90)"'
    yield text(0, 0, "memory", size=12, fill=FAINT, more=upright)
    for i, (name, colour) in enumerate(LEGEND.items()):
        yield box(left + 110 * i, bottom + 29, 11, 11, fill=colour, round_=2)
        yield text(left + 17 + 110 * i, bottom + 39, name, size=12)


def replayed(x: float, kernels: int) -> Iterator[str]:
    """A loop over kernels."""
    yield from panel(
        x, 216, 3, "Replay, each step", ("a loop over bound kernels:", "nothing is left to decide")
    )
    middle, top, bottom = x + 108, 158, 296
    for i in range(6):
        y = top + 23 * i
        words = "⋮" if i == 4 else f"kernel {kernels if i == 5 else i + 1}"
        yield box(middle - 46, y, 92, 18, fill=GREY if i == 4 else BLUE)
        yield text(middle, y + 13, words, size=11, fill=GROUND, more=CENTRED)
    yield text(middle, 128, "x, labels", more=CENTRED)
    yield arrow(f"M{middle} 134V{top - 6}")
    yield arrow(f"M{middle} {bottom}V{bottom + 22}")
    yield text(middle, bottom + 40, "output, loss", more=CENTRED)
    yield arrow(f"M{middle + 46} {bottom - 14}H{x + 182}V{top + 9}H{middle + 54}")
    yield text(middle, HEIGHT - 30, "parameters are updated in place", size=12, fill=FAINT,
               more=CENTRED)  # fmt: skip


def picture() -> str:
    """The whole of it."""
    executable = recorded()
    kernels = len(executable.placed.steps)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, '
        'sans-serif" role="img" aria-label="A training step is recorded once, planned once, and '
        'replayed at each step">',
        '<defs><marker id="head" viewBox="0 0 10 10" refX="7" refY="5" markerWidth="6" '
        'markerHeight="6" orient="auto">'
        f'<path d="M0 0L10 5L0 10z" fill="{FAINT}"/></marker></defs>',
        box(0.5, 0.5, WIDTH - 1, HEIGHT - 1, fill=GROUND, round_=14, more='stroke="#d5dae1"'),
        *record(16), arrow("M214 205H232"), *planned(236, 452, executable), arrow("M690 205H704"),
        *replayed(708, kernels), "</svg>",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "graph-mode.svg").write_text(picture(), encoding="utf-8")
