"""Checking cases: each is run on its own, so that one failure hides no other, and is written down.

A test of the kit gets `case`, and calls `case.check(detail, function, *args)` for every case. When
the test ends, all of its failures are told together, each with the command that runs it again.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from singa_core.conformance.known import Expectations
from singa_core.conformance.ledger import Failure, Ledger, names
from singa_core.conformance.tolerances import Mismatch, expect
from singa_core.device import Device

TOLD: Final = 8  # failures of one test that are told in full
HERE: Final = str(Path(__file__).parent)


class Unsupported(Exception):
    """Raised by a case that a capability excuses; it counts as neither passed nor failed."""


class Cases:
    """The cases of one test: it runs them, and knows what is expected of them."""

    def __init__(
        self,
        ledger: Ledger,
        group: str,
        subject: str,
        *,
        device: Device | None = None,
        expectations: Expectations | None = None,
        select: Sequence[str] = (),
        full: bool = False,
    ) -> None:
        self.ledger, self.group, self.subject = ledger, group, subject
        self.device = device
        self.full = full
        self.failures: list[Failure] = []
        self._expectations = expectations or Expectations()
        self._select = tuple(select)

    def id(self, detail: object = "") -> str:
        """The id of a case of this test."""
        text = f"[{detail}]" if detail != "" else ""
        return f"{self.group}::{self.subject}{text}"

    def selected(self, detail: object = "") -> bool:
        """True if the user did not choose other cases."""
        return not self._select or any(names(p, self.id(detail)) for p in self._select)

    def check(
        self,
        detail: object,
        function: Callable[..., object],
        *args: Any,
        cell: tuple[str, str, str, str] | None = None,
    ) -> None:
        """Run one case: `function(*args)`, which raises if something is wrong.

        Args:
            detail: what the id says in brackets; empty for the only case of a test.
            function: what to run.
            args: its arguments.
            cell: (op, dtype, way, language) in the matrix of the report.
        """
        if not self.selected(detail):
            return
        identity = self.id(detail)
        known = self._expectations.find(identity)
        if known is not None:
            self.ledger.hits[known.id] += 1
        error: BaseException | None = None
        try:
            function(*args)
        except (KeyboardInterrupt, SystemExit):
            raise
        except Unsupported:
            self.ledger.add(self.group, "unsupported", Failure(identity, "unsupported", ""))
            return
        except BaseException as raised:  # outcomes of pytest are no Exceptions
            error = raised
            self._recover()
        outcome = outcome_of(error, known is not None)
        record = Failure(identity, outcome, *told(error, known.reason if known else ""))
        self.ledger.add(self.group, outcome, record)
        if cell is not None:
            self._mark(cell, outcome)
        if outcome in ("failed", "fixed"):
            self.failures.append(record)

    def broke(self, error: Exception) -> None:
        """The test itself came to an end by an error outside of its cases."""
        self._recover()
        record = Failure(self.id(), "failed", *told(error, ""))
        self.ledger.add(self.group, "failed", record)
        self.failures.append(record)

    def _mark(self, where: tuple[str, str, str, str], outcome: str) -> None:
        op, dtype, way, language = where
        cell = self.ledger.cell(op, dtype)
        setattr(cell, way, getattr(cell, way) + 1)
        if language and language not in cell.languages:
            cell.languages = sorted([*cell.languages, language])
        if outcome in ("failed", "known"):
            setattr(cell, outcome, getattr(cell, outcome) + 1)

    def _recover(self) -> None:
        """What the failed case has left behind is not the next one's fault."""
        if self.device is not None:
            for _ in range(2):
                with suppress(Exception):
                    self.device.synchronize()
            self.device.state.unsettled.clear()

    def report(self) -> str:
        """The failures of this test as text; empty if there are none."""
        if not self.failures:
            return ""
        lines = []
        for failure in self.failures[:TOLD]:
            lines += [failure.id, *(f"    {line}" for line in failure.message.splitlines())]
            lines += [f"    | {line}" for line in failure.detail.splitlines()]
            lines.append(f"    again: {self.ledger.command(failure.id)}")
        more = len(self.failures) - TOLD
        if more > 0:
            lines.append(f"... and {more} more of {self.group}::{self.subject}")
        return "\n".join(lines)


def outcome_of(error: BaseException | None, known: bool) -> str:
    """The word for a case; a known failure is strict."""
    if error is None:
        return "fixed" if known else "passed"
    return "known" if known else "failed"


def told(error: BaseException | None, reason: str) -> tuple[str, str]:
    """(message, the frames it came through) of a failure."""
    if error is None:
        return (f"passes now; delete the known failure ({reason})" if reason else ""), ""
    kind = type(error).__name__
    message = str(error) if isinstance(error, Mismatch) else f"{kind}: {error}"
    message = "\n".join([message, *getattr(error, "__notes__", [])])
    if reason:
        message = f"{message}\nknown: {reason}"
    if isinstance(error, Mismatch):
        return message, ""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(HERE)
    ]
    shown = [f"{_short(f.filename)}:{f.lineno} in {f.name}: {f.line}" for f in frames[-4:]]
    return message, "\n".join(shown)


def _short(path: str) -> str:
    """A file's path without the folder it is installed in."""
    for folder in sorted(map(str, sys.path), key=len, reverse=True):
        if folder and path.startswith(folder):
            return path[len(folder) :].lstrip("\\/")
    return path


def raises(kind: type[BaseException], *words: str) -> Raises:
    """A context that wants an error of this kind, with these words in its message."""
    return Raises(kind, words)


class Raises:
    """See `raises`."""

    def __init__(self, kind: type[BaseException], words: tuple[str, ...]) -> None:
        self.kind, self.words = kind, words

    def __enter__(self) -> Raises:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: object) -> bool:
        expect(error is not None, f"needs {self.kind.__name__}, nothing was raised")
        if not isinstance(error, self.kind):
            return False
        missing = [word for word in self.words if word not in str(error)]
        expect(not missing, f"{self.kind.__name__} does not say {missing}: {error}")
        return True
