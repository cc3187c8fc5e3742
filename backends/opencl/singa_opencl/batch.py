"""Several kernels as one text: a driver takes far longer to begin a compilation than to go on.

Each kernel brings functions, macros and types of its own. In a batch their names get the kernel's
number, so that no two are in each other's way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from singa_core.kernels.c.dialect import Source
from singa_core.kernels.c.prelude import cl as prelude

_DEFINED = re.compile(
    r"""\bFUNCTION\b [\w\s*]*? (\w+) \s* \(          # a function
      | ^[ \t]*\#[ \t]*define [ \t]+ (\w+)           # a macro
      | \btypedef\b [^;{}]*? (\w+) \s* (?:__attribute__ \s* \(\([^;]*\)\))? \s* ;""",
    re.VERBOSE | re.MULTILINE,
)


def batch(sources: Sequence[Source], *, vectors: bool) -> tuple[str, list[str]]:
    """The text of a program with all these kernels, and the name of each in it."""
    codes = {code for source in sources for code in source.codes}
    if len(sources) == 1:
        return prelude(codes, vectors=vectors) + sources[0].text(), [sources[0].entry]
    parts, entries = [prelude(codes, vectors=vectors)], []
    for number, source in enumerate(sources):
        text, entry = renamed(source, number)
        parts.append(text)
        entries.append(entry)
    return "\n".join(parts), entries


def renamed(source: Source, number: int) -> tuple[str, str]:
    """A kernel whose own names end in a number, and its name."""
    index = "long" if source.wide else "int"
    text = source.text().replace(f"typedef {index} IDX;\n", "", 1)
    own = {name for names in _DEFINED.findall(text) for name in names if name}
    own |= {source.entry}
    pattern = re.compile(rf"\b(?:{'|'.join(sorted(own, key=len, reverse=True))})\b")
    text = pattern.sub(lambda found: f"{found[0]}_{number}", text)
    head = f"#undef IDX\n#define IDX {index}\n"
    return head + text, f"{source.entry}_{number}"
