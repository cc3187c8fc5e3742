"""The options of a run: those of the command, and of pytest, where each begins with `--singa-`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from singa_core.conformance.ledger import GROUPS, LEVELS

OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType({
    "level": {
        "choices": LEVELS,
        "help": "how much (default: core; after a selection, whatever it takes)",
    },
    "groups": {"metavar": "A,B", "help": f"these groups only: {', '.join(GROUPS)}"},
    "select": {
        "metavar": "ID", "action": "append", "default": [], "help": "these cases only; * is any",
    },
    "known": {"metavar": "FILE", "help": "a conformance.toml instead of the backend's own"},
    "report": {"metavar": "FILE", "help": "write the results as JSON"},
    "html": {"metavar": "FILE", "help": "write the matrix of ops and dtypes as a page"},
    "badge": {"metavar": "FILE", "help": "write a badge: .svg, or .json for shields.io"},
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
