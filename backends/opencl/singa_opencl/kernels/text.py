"""What the kernels here are written with: parameters listed by name, and calls that fill them.

Texts are templates: `$lower` stands for other text, `$UPPER` for a number that is known when the
kernel is compiled. The values of a call go by the names in its source, so a dict may have more.
"""

from __future__ import annotations

from collections.abc import Mapping

from singa_core.kernels.c.dialect import Call, Source
from singa_core.spec import Shape


def operands(
    code: str, ins: str, out: str = "y", *, biased: bool = False
) -> tuple[tuple[str, str, str], ...]:
    """The buffers of a source: inputs (names with blanks between), a bias, and the output."""
    names = [*ins.split(), *(["bias"] if biased else [])]
    return (*((name, code, "in") for name in names), (out, code, "out"))


def numbers(ints: str, longs: str = "") -> tuple[tuple[str, str], ...]:
    """The numbers of a source: names with blanks between, those of 32 bits first."""
    return (
        *((name, "int") for name in ints.split()),
        *((name, "long") for name in longs.split()),
    )


def call(source: Source, items: Shape, where: Shape, values: Mapping[str, int]) -> Call:
    """The call of a kernel in the groups it has, or each work item alone.

    Args:
        source: the kernel.
        items: work items along each axis.
        where: the positions of its operands among those of the launch.
        values: its numbers, by name.
    """
    chosen = tuple(values[name] for name, _ in source.numbers)
    return Call(source, items, (*source.group, 1, 1, 1)[:3], where, chosen)
