"""conformance.toml: what a backend says of itself that the kit should know beforehand.

A `[[known]]` entry is a bug: `id` (a case, or many with `*`), `driver` (a pattern for the device's
`driver`: whose bug it is), `reason`, and `level` if only runs of that level have its cases. They
run, must be there, and must fail. A `[[tolerance]]` entry widens a place of the table: `class`,
`dtype`, `factor` (at most ten) and `reason`; every report prints it. `suite` says for which version
of the kit the file was written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from singa_core.conformance.ledger import GROUPS, LEVELS, SUITE, matches, names
from singa_core.conformance.tolerances import MOST, UNITS
from singa_core.errors import ArgumentError
from singa_core.registry import Manifest

FILE = "conformance.toml"


@dataclass(frozen=True)
class Known:
    """A failure that is expected, with the driver whose bug it is and the reason."""

    id: str
    driver: str
    reason: str
    level: str = LEVELS[0]


@dataclass(frozen=True)
class Expectations:
    """What a conformance.toml says."""

    known: tuple[Known, ...] = ()
    tolerances: tuple[tuple[str, str, float, str], ...] = ()
    source: str = ""

    def on(self, driver: str) -> Expectations:
        """Those that apply to a device's driver."""
        kept = tuple(k for k in self.known if matches(k.driver, driver))
        return Expectations(kept, self.tolerances, self.source)

    def find(self, identity: str) -> Known | None:
        """The known failure that means a case."""
        return next((k for k in self.known if names(k.id, identity)), None)

    def widened(self) -> dict[tuple[str, str], float]:
        """(class, dtype) -> factor."""
        return {(kind, dtype): factor for kind, dtype, factor, _ in self.tolerances}


def parse(text: str, source: str) -> Expectations:
    """Read a conformance.toml. Raises: ArgumentError that names the entry and the rule."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ArgumentError(source, "TOML", str(error)) from None
    unknown = sorted(set(data) - {"suite", "known", "tolerance"})
    if unknown:
        raise ArgumentError(source, "the keys suite, known and tolerance", ", ".join(unknown))
    if data.get("suite") != SUITE:
        raise ArgumentError(source, f'suite = "{SUITE}"', repr(data.get("suite")))
    known = [_known(entry, source) for entry in data.get("known", [])]
    tolerances = [_tolerance(entry, source) for entry in data.get("tolerance", [])]
    ids = [(k.id, k.driver) for k in known]
    twice = sorted({i for i, _ in ids if ids.count((i, "*")) > 1})
    if twice:
        raise ArgumentError(source, "each id once", ", ".join(twice))
    return Expectations(tuple(known), tuple(tolerances), source)


def _fields(entry: Mapping[str, Any], source: str, kinds: Mapping[str, Any]) -> list[Any]:
    wrong = [k for k, kind in kinds.items() if not isinstance(entry.get(k), kind) or not entry[k]]
    if wrong or set(entry) - set(kinds):
        raise ArgumentError(source, f"entries with {', '.join(kinds)}", dict(entry))
    return [entry[k] for k in kinds]


def _known(entry: Mapping[str, Any], source: str) -> Known:
    plain = {key: value for key, value in entry.items() if key != "level"}
    identity, driver, reason = _fields(plain, source, {"id": str, "driver": str, "reason": str})
    level = entry.get("level", LEVELS[0])
    if identity.partition("::")[0] not in GROUPS:
        raise ArgumentError(source, f"an id of a group ({', '.join(GROUPS)})", identity)
    if level not in LEVELS:
        raise ArgumentError(source, f"a level ({', '.join(LEVELS)})", level)
    return Known(identity, driver, reason, level)


def _tolerance(entry: Mapping[str, Any], source: str) -> tuple[str, str, float, str]:
    kinds = {"class": str, "dtype": str, "factor": (int, float), "reason": str}
    kind, dtype, factor, reason = _fields(entry, source, kinds)
    if dtype not in UNITS.get(kind, {}) or kind == "exact":
        classes = ", ".join(name for name in UNITS if name != "exact")
        raise ArgumentError(source, f"a class ({classes}) and a floating dtype", (kind, dtype))
    if not 1 < factor <= MOST:
        raise ArgumentError(source, f"1 < factor <= {MOST:g}", factor)
    return kind, dtype, float(factor), reason


def load(manifest: Manifest, path: str | None = None) -> Expectations:
    """The expectations of a backend: from `path`, or the file in a package of its `open` module."""
    if path is not None:
        return parse(Path(path).read_text("utf-8"), path)
    package = manifest.open.partition(":")[0]
    while package:
        module = import_module(package)
        if hasattr(module, "__path__"):
            found = resources.files(module) / FILE
            if found.is_file():
                return parse(found.read_text("utf-8"), f"{package}/{FILE}")
        package = package.rpartition(".")[0]
    return Expectations()
