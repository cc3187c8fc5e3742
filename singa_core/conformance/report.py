"""What a run says: the verdict, its lines for the terminal, and the files that were asked for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from singa_core.conformance.badge import shield, svg
from singa_core.conformance.ledger import GROUPS, OUTCOMES, WAYS, Failure, Ledger, asks_for
from singa_core.conformance.page import page
from singa_core.optable import OPS

WORDS: Final = {
    "passed": "passed", "failed": "failed", "known": "known to fail",
    "fixed": "pass, and should not", "unsupported": "not supported",
}  # fmt: skip


class Verdict:
    """What a ledger amounts to, at a level.

    Args:
        ledger: what ran.
        level: the level that was asked for.
        groups: the groups that were asked for.
        entire: no case of these groups was left out, so that what did not run can be told.
        select: patterns of cases, if only these were asked for.

    Attributes:
        whole: these are all groups of the level.
    """

    def __init__(
        self, ledger: Ledger, level: str, groups: Sequence[str] = tuple(GROUPS), *, entire: bool,
        select: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.ledger, self.level, self.entire = ledger, level, entire
        asked = [g for g in GROUPS if asks_for(level, GROUPS[g])]
        self.groups = tuple(g for g in asked if g in groups)
        self.whole = entire and len(self.groups) == len(asked)
        self.select = tuple(select)
        self.problems = list(self._problems())

    @property
    def scope(self) -> str:
        """What was tested, in words: a level, or what was selected of it."""
        if self.whole:
            return f"level {self.level}"
        all_groups = len(self.groups) == sum(
            asks_for(self.level, least) for least in GROUPS.values()
        )
        parts = () if all_groups else self.groups
        return f"a selection ({', '.join(self.select or parts) or 'by options of pytest'})"

    @property
    def passed(self) -> bool:
        """True if everything that had to run did, and nothing failed."""
        return not self.problems

    def _problems(self) -> Iterator[str]:
        ledger = self.ledger
        for group in self.groups:
            counts = ledger.counts[group]
            if not ledger.ran(group) and self.entire:
                yield f"{group}: nothing ran, which is not a pass"
            for outcome in ("failed", "fixed"):
                if counts[outcome]:
                    yield f"{group}: {counts[outcome]} {WORDS[outcome]}"
        if not any(ledger.ran(group) for group in self.groups):
            yield "nothing ran, which is not a pass"
        if self.entire:
            for identity, least in ledger.facts.get("known", []):
                due = identity.partition("::")[0] in self.groups and asks_for(self.level, least)
                if due and not ledger.hits[identity]:
                    yield f"known failure {identity!r} matches no case: delete it or correct the id"

    def totals(self) -> Counter[str]:
        """Outcome -> how many cases."""
        total: Counter[str] = Counter()
        for group in self.groups:
            total.update(self.ledger.counts[group])
        return total

    def states(self) -> Counter[str]:
        """State -> how many places of the matrix have it."""
        return Counter(c.state for row in self.ledger.cells.values() for c in row.values())

    def data(self) -> dict[str, Any]:
        """The report as plain data; see docs/conformance.md for its fields."""
        ledger = self.ledger
        return {
            **{k: v for k, v in ledger.facts.items() if k not in ("tolerances", "known")},
            "level": self.level,
            "passed": self.passed,
            "complete": self.whole,
            "scope": self.scope,
            "problems": self.problems,
            "lowest_failing_group": ledger.lowest_failing(),
            "groups": {
                group: {outcome: ledger.counts[group][outcome] for outcome in OUTCOMES}
                | {"ran": ledger.ran(group), "seconds": round(ledger.seconds[group], 2)}
                for group in self.groups
            },
            "families": families(ledger.cells),
            "ops": {
                op: {
                    dtype: {
                        "state": cell.state,
                        **{k: getattr(cell, k) for k in (*WAYS, "failed", "known")},
                        "languages": cell.languages,
                    }
                    for dtype, cell in sorted(row.items())
                }
                for op, row in sorted(ledger.cells.items())
            },
            "failures": [self._plain(f) for f in ledger.failures],
            "known_failures": [self._plain(f) for f in ledger.knowns],
            "tolerances": [
                dict(zip(("class", "dtype", "factor", "reason"), t, strict=True))
                for t in ledger.facts.get("tolerances", [])
            ],
        }

    def _plain(self, failure: Failure) -> dict[str, str]:
        told = {"id": failure.id, "outcome": failure.outcome, "message": failure.message}
        return told | {"again": self.ledger.command(failure.id)}


def families(names: Iterable[str]) -> dict[str, list[str]]:
    """Family -> the ops of it among these; those of a pack are a family."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        package, *_, module = type(OPS.get(name)).__module__.split(".")
        ours = package == __name__.partition(".")[0]
        found.setdefault(module.partition("_")[0] if ours else package, []).append(name)
    return dict(sorted(found.items()))


def lines(verdict: Verdict) -> Iterator[tuple[str, bool]]:
    """The summary for a terminal: (line, is it good news)."""
    ledger, facts = verdict.ledger, verdict.ledger.facts
    made = ", ".join(v for v in (facts.get("distribution"), facts.get("driver")) if v)
    yield f"suite {facts.get('suite')}, level {verdict.level}: {made}", True
    for group in verdict.groups:
        counts = ledger.counts[group]
        told = ", ".join(f"{counts[o]} {WORDS[o]}" for o in OUTCOMES if counts[o])
        seconds = f"{ledger.seconds[group]:6.1f} s" if ledger.ran(group) else ""
        good = not (counts["failed"] or counts["fixed"])
        if ledger.ran(group) or verdict.entire:
            yield f"  {group:14}{told or 'nothing ran':48}{seconds}", good and bool(told)
    states = verdict.states()
    if states:
        told = ", ".join(f"{n} {state}" for state, n in sorted(states.items()))
        yield f"  {len(ledger.cells)} ops x dtypes: {told}", True
    for kind, dtype, factor, reason in facts.get("tolerances", []):
        yield f"  tolerance of {kind} {dtype} x {factor:g}: {reason}", True
    for problem in verdict.problems:
        yield f"  {problem}", False
    yield _last(verdict), verdict.passed


def _last(verdict: Verdict) -> str:
    scope = verdict.scope
    if verdict.passed:
        return f"  conforms: {scope}, {verdict.totals()['passed']} cases passed"
    lowest = verdict.ledger.lowest_failing()
    return f"  does not conform: {scope}" + (f"; lowest failing group {lowest}" if lowest else "")


def write(verdict: Verdict, outputs: Mapping[str, str | None]) -> Iterator[str]:
    """Write the files named for `report`, `html` and `badge`; a line for each."""
    data = verdict.data()
    for kind, name in outputs.items():
        if not name:
            continue
        if kind == "report":
            text = json.dumps(data, indent=1)
        elif kind == "html":
            text = page(data)
        else:
            text = shield(data) if name.endswith(".json") else svg(data)
        Path(name).write_text(text, encoding="utf-8")
        yield f"  wrote {name}"
