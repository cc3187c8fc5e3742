"""Output that reads well in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 80


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table, aligned to the left; the last column may be long."""
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def wrapped(text: str, indent: str) -> list[str]:
    """A text in lines of at most WIDTH; those after the first are indented."""
    lines: list[str] = []
    for part in text.split("\n"):
        lines += textwrap.wrap(
            part, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
            initial_indent=indent if lines else "", drop_whitespace=True, replace_whitespace=False,
        ) or [""]  # fmt: skip
    return lines


def gibibytes(nbytes: int | None) -> str:
    """`7.6 GiB`; `?` if it is not known."""
    return "?" if nbytes is None else f"{nbytes / 2**30:.1f} GiB"
