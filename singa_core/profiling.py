"""Where the time of a graph goes: replays with a clock around each launch, and a table of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from singa_core.checks import check_flag, check_integer
from singa_core.device import Device
from singa_core.program import Executable, Timing

PROFILES: ContextVar[tuple[Profile, ...]] = ContextVar("singa_profiles", default=())
"""Of the blocks that a thread or an asyncio task is in; the last one counts."""

HEAD: Final = ("operation", "launches", "ms", "us each", "share")
WIDEST: Final = 60
"""Characters of an operation in a table: a group may have many members."""


class Total(NamedTuple):
    """All launches of one operation.

    Attributes:
        name: as in `Timing`.
        operands: as in `Timing`; empty where launches of all shapes are counted together.
        launches: how many there were.
        seconds: that they took.
        share: of the time of all launches, 0 to 1.
    """

    name: str
    operands: str
    launches: int
    seconds: float
    share: float


class Profile:
    """What the launches of replays took, in the order of their running. See `profile`.

    Attributes:
        launches: a Timing for each launch of each replay.
        replays: how many there were.
        devices: where they ran.
    """

    def __init__(self) -> None:
        self.launches: list[Timing] = []
        self.replays = 0
        self.devices: list[str] = []

    def __enter__(self) -> Profile:
        before = PROFILES.get()
        try:
            PROFILES.set((*before, self))
        except BaseException:  # an interrupt, right after it was set
            PROFILES.set(before)
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        outer = PROFILES.get()
        while outer:
            last, outer = outer[-1], outer[:-1]
            if last is self:  # an interrupt may have kept others from being left
                PROFILES.set(outer)
                return

    def add(self, device: str, timings: Sequence[Timing]) -> None:
        """Another replay. The engine calls it."""
        self.launches += timings
        self.replays += 1
        if device not in self.devices:
            self.devices.append(device)

    @property
    def seconds(self) -> float:
        """That all launches took."""
        return sum(launch.seconds for launch in self.launches)

    def totals(self, *, by_shape: bool = False) -> list[Total]:
        """Launches of one operation together, what took longest first.

        Args: by_shape: tell launches with other operands apart.
        """
        check_flag("Profile.totals", "by_shape", by_shape)
        found: dict[tuple[str, str], list[float]] = {}
        for name, operands, seconds in self.launches:
            found.setdefault((name, operands if by_shape else ""), []).append(seconds)
        whole = self.seconds or 1.0
        made = [Total(*key, len(s), sum(s), sum(s) / whole) for key, s in found.items()]
        return sorted(made, key=lambda total: -total.seconds)

    def table(self, *, by_shape: bool = False, rows: int = 20) -> str:
        """`totals` as text.

        Args:
            by_shape: tell launches with other operands apart.
            rows: of operations; the others share a last one.
        """
        totals = self.totals(by_shape=by_shape)
        most = check_integer("Profile.table", "rows", rows, 1)
        if not totals:
            return "no graph was replayed; eager operations are not timed"
        shown, others = totals[:most], totals[most:]
        if others:
            shown.append(_sum(f"{len(others)} others", others))
        body = [_cells(total) for total in [*shown, _sum("all", totals)]]
        widths = [max(len(line[i]) for line in [HEAD, *body]) for i in range(len(HEAD))]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [_line(cells, widths) for cells in [HEAD, *body]]
        count = f"{self.replays} replay{'s' if self.replays != 1 else ''}"
        last = f"{count} on {', '.join(self.devices)}"
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1], last])

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<profile of {self.replays} replays, {len(self.launches)} launches>"


def profile() -> Profile:
    """A block in which each launch of a graph that is replayed is timed, by the device's clock.

    The replays do what they always do, only slower: the device is waited for after each launch.
    Graphs that are replayed by other threads, and operations that run eagerly, are not timed.

    >>> import singa_core as sc
    >>> double = sc.graph(lambda x: x + x)
    >>> with sc.profile() as times:
    ...     double(sc.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    >>> [(launch.name, launch.operands) for launch in times.launches]
    [('add', 'float32 (2,), float32 (2,)')]

    `print(times)` shows a table of totals, `times.table(by_shape=True)` one that tells shapes
    apart. The same block may be entered several times, also by several threads: it goes on
    counting.
    """
    return Profile()


def run(
    executable: Executable,
    device: Device,
    args: Sequence[Any],
    scalars: Callable[[], Sequence[Any]],
) -> list[Any]:
    """A run of an executable, and a profiled one in a block of `profile`."""
    asked = PROFILES.get()
    if not asked:
        return executable.run(args, scalars)
    results, timings = executable.profile(args, scalars)
    asked[-1].add(device.name, timings)
    return results


def _sum(name: str, totals: Sequence[Total]) -> Total:
    launches, seconds = sum(t.launches for t in totals), sum(t.seconds for t in totals)
    return Total(name, "", launches, seconds, sum(t.share for t in totals))


def _cells(total: Total) -> tuple[str, ...]:
    name = f"{total.name} {total.operands}".rstrip()
    return (
        name if len(name) <= WIDEST else f"{name[: WIDEST - 3]}...",
        str(total.launches),
        f"{1e3 * total.seconds:.3f}",
        f"{1e6 * total.seconds / total.launches:.1f}",
        f"{100 * total.share:.1f} %",
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The name to the left, numbers to the right."""
    numbers = [text.rjust(width) for text, width in zip(cells[1:], widths[1:], strict=True)]
    return "  ".join([cells[0].ljust(widths[0]), *numbers])
