"""The matrix as a page: one file, nothing to load, readable on paper and in the dark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any, Final

from singa_core.conformance.ledger import OUTCOMES
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
ABLE: Final = {  # capability -> its word
    "host": "host memory", "synchronous": "synchronous", "concurrent": "concurrent",
    "sub_buffers": "sub-buffers", "fuses": "fused chains", "batches": "joined updates",
    "capacity": "a known capacity", "largest": "a largest buffer",
}  # fmt: skip


def page(data: Mapping[str, Any]) -> str:
    """The HTML for the data of a report."""
    text = resources.files("singa_core.conformance").joinpath("page.html").read_text("utf-8")
    good = data["passed"]
    return Template(text).substitute(
        device=escape(str(data["device"])),
        verdict="conforms" if good else "does not conform",
        tone="good" if good else "bad",
        scope=escape(data["scope"]),
        totals=totals(data),
        facts="".join(facts(data)),
        problems=problems(data),
        groups="".join(groups(data)),
        legend="".join(legend(data)),
        head="".join(
            f"<th scope=col><abbr title={d}>{NARROW[d]}</abbr></th>" for d in columns(data)
        ),
        rows="".join(rows(data)),
        failures="".join(cases("Failures", data["failures"])),
        known="".join((*cases("Known failures", data["known_failures"]), *widened(data))),
    )


def totals(data: Mapping[str, Any]) -> str:
    """How many cases, and in what time."""
    groups = data["groups"].values()
    told = [f"{n:,} {o}" for o in OUTCOMES if (n := sum(g[o] for g in groups))]
    return f"{', '.join(told) or 'nothing ran'}, in {sum(g['seconds'] for g in groups):,.0f} s"


def facts(data: Mapping[str, Any]) -> Iterator[str]:
    """What ran where."""
    able = data["capabilities"]
    without = [d.name for d in ALL if d.name not in data["dtypes"]]
    versions = (data["suite"], ".".join(map(str, data["api"])), data["core"])
    told = {
        "distribution": data["distribution"],
        "driver": data["driver"],
        "suite, interface, core": ", ".join(versions),
        "kernel languages": ", ".join(data["languages"]),
        "element types": f"without {', '.join(without)}" if without else f"all {len(ALL)}",
        "family": able["family"],
        "declares": ", ".join(_names(able, there=True)),
        "denies": ", ".join(_names(able, there=False)),
        "Python, NumPy": f"{data['python']}, {data['numpy']}",
        "platform": data["platform"],
    }
    for name, value in told.items():
        if value:
            yield f"<div><dt>{name}</dt><dd>{escape(str(value))}</dd></div>"


def _names(able: Mapping[str, Any], *, there: bool) -> list[str]:
    """The words for what a device can do, or for what it denies."""
    return [word for key, word in ABLE.items() if bool(able[key]) is there]


def problems(data: Mapping[str, Any]) -> str:
    """Why it does not conform."""
    told = "".join(f"<li>{escape(p)}</li>" for p in data["problems"])
    return f"<ul class=problems>{told}</ul>" if told else ""


def groups(data: Mapping[str, Any]) -> Iterator[str]:
    """A bar for each group."""
    for name, group in data["groups"].items():
        total = sum(group[o] for o in OUTCOMES) or 1
        parts = "".join(
            f'<i class={o} style="flex:{group[o] / total:.4f}"></i>' for o in OUTCOMES if group[o]
        )
        told = ", ".join(f"{group[o]:,} {o}" for o in OUTCOMES if group[o]) or "nothing ran"
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
    """The states, with how many places of the matrix have each: each a button that filters."""
    states = [cell["state"] for row in data["ops"].values() for cell in row.values()]
    for state, (letter, word) in STATES.items():
        count = states.count(state)
        if count:
            yield (
                f"<button type=button aria-pressed=false data-state={state}>"
                f"<b class={state}>{letter}</b>{word} <small>{count}</small></button>"
            )


def rows(data: Mapping[str, Any]) -> Iterator[str]:
    """A row for each op, by family."""
    there = columns(data)
    failed = {_subject(one["id"]) for one in data["failures"]}
    for family, names in data["families"].items():
        yield (
            f"<tbody data-family={family}><tr class=family>"
            f"<th colspan={len(there) + 1} scope=rowgroup>{family}</th></tr>"
        )
        for op in names:
            row = data["ops"][op]
            cells = "".join(_cell(op, dtype, row.get(dtype), op in failed) for dtype in there)
            states = " ".join(sorted({cell["state"] for cell in row.values()}))
            yield f'<tr data-op={op} data-states="{states}"><th scope=row>{op}</th>{cells}</tr>'
        yield "</tbody>"


def _cell(op: str, dtype: str, cell: Mapping[str, Any] | None, told: bool) -> str:
    """A place of the matrix; one that failed leads to what is told of its op."""
    if cell is None:
        return "<td></td>"
    letter, word = STATES[cell["state"]]
    counts = ", ".join(
        f"{cell[k]} {k}" for k in ("native", "lowered", "host", "failed", "known") if cell[k]
    )
    language = f" by {', '.join(cell['languages'])}" if cell["languages"] else ""
    title = escape(f"{op} {dtype}: {word}{language}; cases: {counts}", quote=True)
    place = f'<b class={cell["state"]} title="{title}">{letter}</b>'
    return (
        f'<td><a href="#{op}">{place}</a></td>' if told and cell["failed"] else f"<td>{place}</td>"
    )


def _subject(identity: str) -> str:
    return identity.partition("::")[2].partition("[")[0]


def cases(title: str, told: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What there is to say of some cases, with the commands that run them again."""
    if told:
        yield f"<h2>{title} <small>{len(told):,}</small></h2>"
    marked: set[str] = set()
    for one in told:
        subject = _subject(one["id"])
        mark = "" if subject in marked else f' id="{escape(subject, quote=True)}"'
        marked.add(subject)
        yield (
            f"<details{mark}><summary><code>{escape(one['id'])}</code></summary>"
            f"<pre>{escape(one['message'])}</pre><pre class=again>{escape(one['again'])}</pre>"
            "</details>"
        )


def widened(data: Mapping[str, Any]) -> Iterator[str]:
    """Widened tolerances: what a reader should hear of a green badge."""
    if data["tolerances"]:
        yield "<h2>Widened tolerances</h2><ul>"
        for one in data["tolerances"]:
            told = f"{one['class']} {one['dtype']} &times; {one['factor']:g}"
            yield f"<li><strong>{told}</strong> {escape(one['reason'])}</li>"
        yield "</ul>"
