"""What to do where a name means no backend that is there: another name, or how to install it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import resources


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like another one, whatever the case of letters; None if none is."""
    plain = {known.casefold(): known for known in names}
    close = get_close_matches(name.casefold(), plain, n=1)
    return plain[close[0]] if close else None


def known_distributions(*kinds: str) -> dict[str, str]:
    """Backend name -> what pip calls that which offers it; of kinds "host" and "gpu", or both."""
    told = _known_backends()
    return {n: owner for kind in kinds or ("host", "gpu") for n, owner in told[kind].items()}


def _known_backends() -> dict[str, dict[str, str]]:
    text = resources.files("singa_core").joinpath("known_backends.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def install_hint(name: str) -> str:
    """How a known backend is installed: from a checkout, and once it can be had by name."""
    owner = known_distributions()[name]
    folder = f"./backends/{name}{owner[len(owner.partition('[')[0]) :]}"
    checkout, released = (shlex.quote(what) for what in (folder, owner))
    return f"pip install {checkout} in a checkout (pip install {released} once released)"


def meant_hint(name: str, installed: Iterable[str], aliases: Iterable[str] = ()) -> str | None:
    """What a name that nobody has may have meant: one that is `installed`, or how to get it."""
    known, instead = known_distributions(), _known_backends()["instead"]
    close = instead.get(name.casefold())  # what others call such a device
    close = close or nearest(name, installed) or nearest(name, [*aliases, *known])
    if close in known and close not in installed:
        return install_hint(close)
    return repr(close) if close else None
