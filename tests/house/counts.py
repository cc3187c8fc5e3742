"""What a run has really checked, told at its end: nothing executed is not a pass.

Tests call the functions; `conftest.py` adds up what parallel workers counted and prints the lines.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_COUNTS: Counter[str] = Counter()
_SEEN: dict[str, set[str]] = {"lines": set()}


def bitwise_compared(number: int = 1) -> None:
    """Results of eager and graph were compared bit for bit."""
    _COUNTS["bitwise"] += number


def gradient_checked(order: int | str = 1) -> None:
    """A gradient was compared with a difference (order 1 or 2), or with a "peer" framework's."""
    _COUNTS[f"gradient {order}"] += 1


def counted(what: str, number: int = 1) -> None:
    """Something else worth a word in the summary was checked."""
    _COUNTS[f"also {what}"] += number


def told(line: str) -> None:
    """A line of its own for the summary."""
    _SEEN["lines"].add(line)


@contextmanager
def paused() -> Iterator[None]:
    """What is counted inside does not count: broken things are tried out."""
    before = export()
    try:
        yield
    finally:
        _COUNTS.clear()
        for seen in _SEEN.values():
            seen.clear()
        merge(before)


def export() -> dict:
    """The counts as plain data, for the trip from a worker."""
    return {"counts": dict(_COUNTS), "seen": {name: sorted(all_) for name, all_ in _SEEN.items()}}


def merge(data: dict) -> None:
    """Add what a worker exported."""
    _COUNTS.update(data["counts"])
    for name, values in data["seen"].items():
        _SEEN[name].update(values)


def lines() -> list[str]:
    """The summary."""
    first, second, peer = (_COUNTS[f"gradient {order}"] for order in (1, 2, "peer"))
    return [
        f"eager == graph, bit for bit: {_COUNTS['bitwise']} comparisons",
        f"gradients: {first} of first order, {second} of second order, {peer} against a peer",
        *(f"{what}: {n}" for what, n in _with_prefix("also ")),
        *sorted(_SEEN["lines"]),
    ]


def _with_prefix(prefix: str) -> list[tuple[str, int]]:
    return [(k.removeprefix(prefix), n) for k, n in sorted(_COUNTS.items()) if k.startswith(prefix)]
