"""The badge: an SVG, or the JSON from which shields.io draws one."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any, Final

COLOURS: Final = {"brightgreen": "#2e8540", "yellow": "#b8860b", "red": "#b3261e"}


def words(data: Mapping[str, Any]) -> tuple[str, str, str]:
    """(label, message, colour) for the data of a report."""
    label = f"singa conformance {data['suite']}"
    groups = data["groups"].values()
    passed, known = (sum(g[o] for g in groups) for o in ("passed", "known"))
    failed = sum(g["failed"] + g["fixed"] for g in groups)
    if data["passed"] and data["complete"]:
        more = f", {known} known" if known else ""
        return label, f"{data['level']}: {passed} pass{more}", "yellow" if known else "brightgreen"
    told = f"{failed} fail" if failed else "incomplete"
    return label, f"{data['level']}: {told}", "red"


def shield(data: Mapping[str, Any]) -> str:
    """The endpoint JSON of shields.io."""
    label, message, colour = words(data)
    return json.dumps(
        {"schemaVersion": 1, "label": label, "message": message, "color": colour}, indent=1
    )


def svg(data: Mapping[str, Any]) -> str:
    """A picture of two words, sized by a mean width of letters."""
    label, message, colour = words(data)
    left, right = (round(6.4 * len(text)) + 14 for text in (label, message))
    label, message = html.escape(label), html.escape(message)
    width = left + right
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" '
        f'aria-label="{label}: {message}"><title>{label}: {message}</title>'
        f'<clipPath id="r"><rect width="{width}" height="20" rx="4"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#3d4451"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{COLOURS[colour]}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" '
        f'font-size="11"><text x="{left / 2}" y="14">{label}</text>'
        f'<text x="{left + right / 2}" y="14">{message}</text></g></svg>\n'
    )
