"""The matrix as a page: one file, nothing to load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def page(data: Mapping[str, Any]) -> str:
    """The HTML for the data of a report."""
    return "<pre>" + json.dumps(data, indent=1) + "</pre>"
