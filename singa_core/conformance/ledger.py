"""The ledger: what ran on one device, case by case, and what came of it.

A case has an id, `<group>::<subject>[<detail>]`: the same everywhere and at all times, so that it
can be run again alone and listed as a known failure. Plain data, which parallel workers export.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Final

SUITE: Final = "1.0"
LEVELS: Final = ("core", "train", "graph", "full")
GROUPS: Final = {  # in the order they run, each with the least level that asks for it
    "manifest": "core", "device": "core", "errors": "core", "ops.primitive": "core",
    "ops.composite": "core", "autograd": "train", "random": "train", "graph": "graph",
    "models": "train",
}  # fmt: skip
OUTCOMES: Final = ("passed", "known", "fixed", "failed", "unsupported")  # as reports tell them
WAYS: Final = ("native", "lowered", "host")


def asks_for(level: str, least: str) -> bool:
    """True if a run at `level` includes what `least` asks for."""
    return LEVELS.index(level) >= LEVELS.index(least)


def group_of(module: str) -> str | None:
    """The group of a module of `singa_core.conformance.groups`; None for any other."""
    package, _, name = module.rpartition(".")
    return name.replace("_", ".") if package == "singa_core.conformance.groups" else None


def matches(pattern: str, text: str) -> bool:
    """True if `text` is like `pattern`, in which `*` stands for anything; `[` is a plain letter."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first):
        return False
    place = len(first)
    for part in rest[:-1]:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return len(text) - place >= len(rest[-1]) and text.endswith(rest[-1])


def names(pattern: str, identity: str) -> bool:
    """True if a pattern means a case: all of it, or all of its part before the bracket."""
    return matches(pattern, identity) or (
        "[" not in pattern and matches(pattern, identity.partition("[")[0])
    )


@dataclass(frozen=True)
class Failure:
    """A case that did not do what it should: it failed, or a known failure passed."""

    id: str
    outcome: str
    message: str
    detail: str = ""


@dataclass
class Cell:
    """An op with a dtype: how many cases were served how, and how many failed."""

    native: int = 0
    lowered: int = 0
    host: int = 0
    failed: int = 0
    known: int = 0
    languages: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        """The word for it: failed, known, or the way that serves it."""
        if self.failed:
            return "failed"
        if self.known:
            return "known"
        return next((way for way in WAYS if getattr(self, way)), "none")


class Ledger:
    """What ran on one device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.counts: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}
        self.failures: list[Failure] = []
        self.knowns: list[Failure] = []
        self.cells: dict[str, dict[str, Cell]] = {}
        self.hits: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.seconds: dict[str, float] = dict.fromkeys(GROUPS, 0.0)
        self.facts: dict[str, Any] = {}

    def add(self, group: str, outcome: str, record: Failure) -> None:
        """Count a case, and keep it if there is something to say."""
        self.counts[group][outcome] += 1
        self.ids.add(record.id)
        if outcome in ("failed", "fixed"):
            self.failures.append(record)
        elif outcome == "known":
            self.knowns.append(record)

    def cell(self, op: str, dtype: str) -> Cell:
        """The place of an op and a dtype in the matrix."""
        return self.cells.setdefault(op, {}).setdefault(dtype, Cell())

    def ran(self, group: str) -> int:
        """How many cases of a group were executed."""
        return sum(self.counts[group].values()) - self.counts[group]["unsupported"]

    def lowest_failing(self) -> str | None:
        """The first group with a failure."""
        return next((g for g, c in self.counts.items() if c["failed"] or c["fixed"]), None)

    def command(self, identity: str) -> str:
        """The command that runs a case again."""
        name = self.facts.get("asked", self.device)
        return f"python -m singa_core.conformance --singa-backend {name} --select '{identity}'"

    def export(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "device": self.device,
            "counts": {group: dict(counts) for group, counts in self.counts.items()},
            "failures": [asdict(f) for f in self.failures],
            "knowns": [asdict(f) for f in self.knowns],
            "cells": {
                op: {dtype: asdict(cell) for dtype, cell in row.items()}
                for op, row in self.cells.items()
            },
            "hits": dict(self.hits),
            "ids": sorted(self.ids),
            "seconds": self.seconds,
            "facts": self.facts,
        }

    def merge(self, data: dict[str, Any]) -> None:
        """Add what a worker exported."""
        for group, counts in data["counts"].items():
            self.counts[group].update(counts)
        self.failures += [Failure(**f) for f in data["failures"]]
        self.knowns += [Failure(**f) for f in data["knowns"]]
        for op, row in data["cells"].items():
            for dtype, other in row.items():
                cell = self.cell(op, dtype)
                for name in (*WAYS, "failed", "known"):
                    setattr(cell, name, getattr(cell, name) + other[name])
                cell.languages = sorted({*cell.languages, *other["languages"]})
        self.hits.update(data["hits"])
        self.ids.update(data["ids"])
        for group, seconds in data["seconds"].items():
            self.seconds[group] += seconds
        self.facts.update(data["facts"])
