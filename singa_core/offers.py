"""What installed distributions offer by entry points, and what is asked of each kind of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from singa_core.errors import PluginError

FAULTS: Final = (Exception, SystemExit)
"""What foreign code may raise without ending the process; an interrupt is the user's."""


class Offer:
    """What is offered under one name, as far as it has been loaded.

    Args:
        name: that of its entry points.
        points: one; several if distributions contradict each other; none if it was registered.

    Attributes:
        failure: what went wrong, for good.
    """

    what: ClassVar[str]
    """What errors call it."""
    interface: ClassVar[str]
    """What errors call the interface it is written for."""

    def __init__(self, name: str, points: Iterable[Any] = ()) -> None:
        self.name = name
        self.points = list(points)
        self.failure: PluginError | None = None

    @property
    def distribution(self) -> str | None:
        """`name version` of the distribution that offers it; None if that is not one."""
        return owner(self.points[0]) if len(self.points) == 1 else None

    def error(self, stage: str, reason: str, hint: str | None = None) -> PluginError:
        """An error about it."""
        distribution = self.distribution
        return PluginError(
            self.name, stage, reason, distribution=distribution, hint=hint, what=self.what
        )

    def raised(self, stage: str, doing: str, error: BaseException) -> PluginError:
        """An error about what its own code has raised."""
        if isinstance(error, PluginError):
            return error
        return self.error(stage, f"{doing} raised {cause(error)}")

    def load(self, stage: str) -> Any:
        """What its entry point names, imported at `stage`. Raises: PluginError."""
        if len(self.points) > 1:
            owners = ", ".join(sorted(owner(point) or "?" for point in self.points))
            reason = f"offered by {len(self.points)} distributions: {owners}"
            raise self.error("metadata", reason, "uninstall all but one of them")
        (point,) = self.points
        try:
            return point.load()
        except FAULTS as error:
            raise self.raised(stage, f"import of {point.value}", error) from error

    def check_api(self, api: tuple[int, int], ours: tuple[int, int]) -> None:
        """Raises: PluginError if it was written for an interface that this core does not speak."""
        (major, minor), (spoken, newest) = api, ours
        if major == spoken and minor <= newest:
            return
        older = self.distribution.split()[0] if self.distribution else self.name
        reason = f"written for {self.interface} {major}.{minor}"
        raise self.error(
            "handshake",
            f"{reason}, this singa-core speaks {spoken}.{newest}",
            f"pip install --upgrade {'singa-core' if api > ours else older}",
        )


def entry_points(group: str) -> list[Any]:
    """What installed distributions offer in a group of entry points."""
    import importlib_metadata  # noqa: PLC0415  (30 ms: not when core is imported)

    return list(importlib_metadata.entry_points(group=group))


def owner(point: Any) -> str | None:
    """`name version` of the distribution that an entry point is of."""
    return None if point.dist is None else f"{point.dist.name} {point.dist.version}"


def cause(error: BaseException) -> str:
    """`Type: text` of an inner error, for the outer message."""
    return f"{type(error).__name__}: {error}"
