"""The matrix as a page: one file, nothing to load, readable on paper and in the dark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from importlib import resources
from string import Template
from typing import Any, Final

from singa_core.dtype import ALL

STATES: Final = {  # state -> (letter, word)
    "native": ("n", "native"), "lowered": ("l", "lowered"), "host": ("h", "host"),
    "known": ("k", "known failure"), "failed": ("f", "failed"), "none": ("", "not there"),
}  # fmt: skip
NARROW: Final = {
    "bool": "bool", "fixed": "other", "bfloat16": "bf16", "float16": "f16", "float32": "f32",
    "float64": "f64", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip
ORDER: Final = (
    *(d.name for d in sorted(ALL, key=lambda d: (not d.is_floating, d.kind, d.bits))), "fixed",
)  # fmt: skip
CHANCES: Final = ("passed", "known", "fixed", "failed", "unsupported")


def page(data: Mapping[str, Any]) -> str:
    """The HTML for the data of a report."""
    text = resources.files("singa_core.conformance").joinpath("page.html").read_text("utf-8")
    device = escape(str(data["device"]))
    good = data["passed"]
    return Template(text).substitute(
        device=device,
        verdict="conforms" if good else "does not conform",
        tone="good" if good else "bad",
        level=escape(data["level"] if data["complete"] else "a selection"),
        facts="".join(facts(data)),
        problems="".join(f"<li>{escape(p)}</li>" for p in data["problems"]),
        groups="".join(groups(data)),
        legend="".join(legend(data)),
        head="".join(f"<th scope=col>{NARROW[d]}</th>" for d in columns(data)),
        rows="".join(rows(data)),
        failures="".join(failures(data)),
        known="".join(known(data)),
    )


def facts(data: Mapping[str, Any]) -> Iterator[str]:
    """What ran where."""
    told = {
        "distribution": data["distribution"],
        "driver": data["driver"],
        "suite": data["suite"],
        "interface": ".".join(map(str, data["api"])),
        "core": data["core"],
        "languages": ", ".join(data["languages"]),
        "family": data["capabilities"]["family"],
        "Python": data["python"],
        "NumPy": data["numpy"],
        "platform": data["platform"],
    }
    for name, value in told.items():
        if value:
            yield f"<div><dt>{name}</dt><dd>{escape(str(value))}</dd></div>"


def groups(data: Mapping[str, Any]) -> Iterator[str]:
    """A bar for each group."""
    for name, group in data["groups"].items():
        total = sum(group[o] for o in CHANCES) or 1
        parts = "".join(
            f'<i class={o} style="flex:{group[o] / total:.4f}"></i>' for o in CHANCES if group[o]
        )
        told = ", ".join(f"{group[o]:,} {o}" for o in CHANCES if group[o]) or "nothing ran"
        bad = " class=bad" if group["failed"] or group["fixed"] or not group["ran"] else ""
        seconds = f"{group['seconds']:.1f} s" if group["ran"] else ""
        yield (
            f"<tr{bad}><th scope=row>{name}</th><td><span class=bar>{parts}</span></td>"
            f"<td>{told}</td><td class=num>{seconds}</td></tr>"
        )


def columns(data: Mapping[str, Any]) -> list[str]:
    """The dtypes that something ran in."""
    there = {dtype for row in data["ops"].values() for dtype in row}
    return [name for name in ORDER if name in there]


def legend(data: Mapping[str, Any]) -> Iterator[str]:
    """The states, with how many places of the matrix have each."""
    states = [cell["state"] for row in data["ops"].values() for cell in row.values()]
    for state, (letter, word) in STATES.items():
        count = states.count(state)
        if count:
            yield f"<span><b class={state}>{letter}</b>{word} <small>{count}</small></span>"


def rows(data: Mapping[str, Any]) -> Iterator[str]:
    """A row for each op."""
    there = columns(data)
    for op, row in data["ops"].items():
        cells = "".join(_cell(op, dtype, row.get(dtype)) for dtype in there)
        bad = any(cell["state"] in ("failed", "known") for cell in row.values())
        yield f"<tr data-op={op}{' data-bad' if bad else ''}><th scope=row>{op}</th>{cells}</tr>"


def _cell(op: str, dtype: str, cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "<td></td>"
    letter, word = STATES[cell["state"]]
    counts = ", ".join(
        f"{cell[k]} {k}" for k in ("native", "lowered", "host", "failed", "known") if cell[k]
    )
    language = f" by {', '.join(cell['languages'])}" if cell["languages"] else ""
    title = escape(f"{op} {dtype}: {word}{language}; cases: {counts}", quote=True)
    return f'<td><b class={cell["state"]} title="{title}">{letter}</b></td>'


def failures(data: Mapping[str, Any]) -> Iterator[str]:
    """What failed, with the case's id to run it again by."""
    if data["failures"]:
        yield f"<h2>Failures <small>{len(data['failures']):,}</small></h2>"
    for one in data["failures"]:
        yield (
            f"<details><summary><code>{escape(one['id'])}</code></summary>"
            f"<pre>{escape(one['message'])}</pre></details>"
        )


def known(data: Mapping[str, Any]) -> Iterator[str]:
    """Known failures and widened tolerances: what a reader should hear of a green badge."""
    if data["known_failures"]:
        yield f"<h2>Known failures <small>{len(data['known_failures']):,}</small></h2>"
    for one in data["known_failures"]:
        yield (
            f"<details><summary><code>{escape(one['id'])}</code></summary>"
            f"<pre>{escape(one['message'])}</pre></details>"
        )
    if data["tolerances"]:
        yield "<h2>Widened tolerances</h2><ul>"
        for one in data["tolerances"]:
            told = f"{one['class']} {one['dtype']} &times; {one['factor']:g}"
            yield f"<li><b>{told}</b> {escape(one['reason'])}</li>"
        yield "</ul>"
