"""The options of a run: those of the command, and of pytest, where each begins with `--singa-`."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from singa_core.conformance.ledger import GROUPS, LEVELS
from singa_core.hints import nearest

# -- types of options: each gives the text, or an error that is told with the option's own name ----


def group_names(text: str) -> str:
    """Names of groups with commas between them."""
    for name in text.split(","):
        if name not in GROUPS:
            near = nearest(name, GROUPS)
            told = f"no group {name!r}; try: {near}" if near else f"no group {name!r}"
            raise ArgumentTypeError(f"{told} (there are {', '.join(GROUPS)})")
    return text


def new_file(text: str) -> str:
    """Where a file can be written: told before the run, not after it."""
    path = Path(text)
    if path.is_dir():
        raise ArgumentTypeError(f"needs the name of a file, got the folder {text!r}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ArgumentTypeError(f"needs a file that can be written, got {text!r}")
    return text


OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType({
    "level": {
        "choices": LEVELS,
        "help": "how much (default: core; after a selection, whatever it takes)",
    },
    "groups": {
        "metavar": "A,B", "type": group_names,
        "help": f"these groups only: {', '.join(GROUPS)}",
    },
    "select": {
        "metavar": "ID", "action": "append", "default": [], "help": "these cases only; * is any",
    },
    "known": {"metavar": "FILE", "help": "a conformance.toml instead of the backend's own"},
    "report": {"metavar": "FILE", "type": new_file, "help": "write the results as JSON"},
    "html": {
        "metavar": "FILE", "type": new_file,
        "help": "write the matrix of ops and dtypes as a page",
    },
    "badge": {
        "metavar": "FILE", "type": new_file,
        "help": "write a badge: .svg, or .json for shields.io",
    },
    "stop": {"action": "store_true", "help": "leave the groups above a failing one"},
})  # fmt: skip
OUTPUTS: Final = ("report", "html", "badge")


def level_of(level: str | None, groups: Sequence[str], select: Sequence[str]) -> str:
    """The level of a run: as given, or the least that has what was selected."""
    if level or not (groups or select):
        return level or LEVELS[0]
    return LEVELS[-1] if select else max((GROUPS[g] for g in groups), key=LEVELS.index)


def for_pytest(values: Mapping[str, Any]) -> Iterator[str]:
    """The options of the command, with their values, as arguments of pytest."""
    for name in OPTIONS:
        value, option = values[name], f"--singa-{name}"
        if value is True:
            yield option
        elif value:
            for one in value if isinstance(value, list) else [value]:
                yield from (option, one)
