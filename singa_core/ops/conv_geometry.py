"""Where windows stand: stride, padding and dilation in the form kernels see.

Settled, a stride and a dilation are one integer for each spatial axis, and a padding is a pair
(before, after) for each: what `conv` and pooling hand to every kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from singa_core.checks import as_integer, as_integers
from singa_core.errors import ArgumentError, ShapeError
from singa_core.operation import Operation
from singa_core.ops.base import check_kind
from singa_core.spec import Shape, window_count

PerAxis = int | Sequence[int]
MAX_STEP = 2**31  # elements: no window reaches as far, and products stay within 64 bits
Pairs = tuple[tuple[int, int], ...]
Padding = int | str | Sequence[int | Sequence[int]]


def per_axis(where: str, name: str, value: Any, rank: int, least: int = 1) -> Shape:
    """One integer for each of `rank` axes, from one for all or a sequence.

    Raises: ArgumentError for another number of them, or one below `least`.
    """
    number = as_integer(value)
    found = as_integers(value) if number is None else (number,) * rank
    if found is None or len(found) != rank or not all(least <= n < MAX_STEP for n in found):
        rule = f"{name}: an integer >= {least}, or one for each of {rank} spatial axes"
        raise ArgumentError(where, rule, repr(value))
    return found


def reach(kernel: Sequence[int], dilation: Sequence[int]) -> Shape:
    """How many elements a window spans on each axis: dilation * (kernel - 1) + 1."""
    return tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))


def settle_padding(where: str, padding: Any, size: Shape, spans: Shape, stride: Shape) -> Pairs:
    """A pair (before, after) for each axis.

    `padding` is elements on both sides; or one number or pair for each axis; or "valid" (none); or
    "same", which gives ceil(size / stride) windows, an odd element at the end.

    Raises: ArgumentError for anything else.
    """
    rank = len(size)
    if isinstance(padding, str) and padding == "valid":
        return ((0, 0),) * rank
    if isinstance(padding, str) and padding == "same":
        totals = [
            max((-(-n // s) - 1) * s + span - n, 0)
            for n, span, s in zip(size, spans, stride, strict=True)
        ]
        return tuple((total // 2, total - total // 2) for total in totals)
    number = as_integer(padding)
    given = list(padding) if number is None and _is_list(padding) else [number] * rank
    pairs = [_pair(entry) for entry in given]
    found = tuple(pair for pair in pairs if pair is not None)
    if len(pairs) != rank or len(found) != rank:
        rule = f"padding >= 0, one or a pair for each of {rank} spatial axes, 'same' or 'valid'"
        hint = "((before, after), ...), a pair for each axis" if len(given) == 2 * rank else None
        raise ArgumentError(where, rule, repr(padding), hint=hint)
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def _pair(entry: Any) -> tuple[int, int] | None:
    """Before and after, of one number or two; None for anything else."""
    number = as_integer(entry)
    both = as_integers(entry) if number is None else (number, number)
    return (
        (both[0], both[1])
        if both is not None and len(both) == 2 and 0 <= min(both) and max(both) < MAX_STEP
        else None
    )


def window_counts(
    where: str, size: Shape, spans: Shape, stride: Shape, padding: Pairs, **operands: Any
) -> Shape:
    """How many windows stand on each axis: floor((n + before + after - span) / stride) + 1.

    Raises: ShapeError where not even one does.
    """
    counts = []
    for axis, (n, span, s, (before, after)) in enumerate(
        zip(size, spans, stride, padding, strict=True)
    ):
        if n + before + after < span:
            rule = "size + padding >= dilation * (kernel - 1) + 1 on every spatial axis"
            got = f"{n} + {before + after} < {span} on spatial axis {axis}"
            raise ShapeError(where, rule, got, **operands)
        counts.append(window_count(n, span, s, before + after, 1))
    return tuple(counts)


def more_windows(size: Shape, spans: Shape, stride: Shape, padding: Pairs) -> Shape:
    """Elements of padding to add at the end, for a last window where rounding up allows one.

    It has to begin inside of x, or of the padding before it.
    """
    more = []
    for n, span, s, (before, after) in zip(size, spans, stride, padding, strict=True):
        count = -((span - n - before - after) // s) + 1
        if (count - 1) * s >= n + before:
            count -= 1
        more.append(max((count - 1) * s + span - n - before - after, 0))
    return tuple(more)


class Convolution(Operation):
    """What the three have in common: operands (n, c, *spatial), and how windows are placed."""

    promotes = True
    heavy = True

    def placed(
        self, size: Shape, kernel: Shape, stride: Any, padding: Any, dilation: Any, groups: Any
    ) -> dict[str, Any]:
        """The settled attributes that say where windows stand."""
        rank = len(size)
        stride = per_axis(self.name, "stride", stride, rank)
        dilation = per_axis(self.name, "dilation", dilation, rank)
        spans = reach(kernel, dilation)
        return {
            "stride": stride,
            "padding": settle_padding(self.name, padding, size, spans, stride),
            "dilation": dilation,
            "groups": per_axis(self.name, "groups", groups, 1)[0],
        }

    def check_ranks(self, **named: Any) -> None:
        """Raises: ShapeError unless all have as many axes, at least three; DTypeError."""
        check_kind(self.name, "float", **named)
        ranks = [spec.ndim for spec in named.values()]
        if min(ranks) < 3 or len(set(ranks)) > 1:
            rule = " and ".join(named) + " with the same number of axes, at least 3"
            raise ShapeError(self.name, rule, " and ".join(map(str, ranks)), **named)

    def check_channels(self, channels: int, shape: Shape, groups: int, **named: Any) -> None:
        """Raises: ShapeError unless a weight (out, in/groups, *kernel) fits the channels."""
        out, per_group, *kernel = shape
        if channels != per_group * groups:
            rule = "x.shape[1] == weight.shape[1] * groups (in_channels)"
            got = f"{channels} != {per_group} * {groups}"
            raise ShapeError(self.name, rule, got, **named)
        if out % groups:
            rule = "weight.shape[0] % groups == 0 (out_channels)"
            raise ShapeError(self.name, rule, f"{out} % {groups} = {out % groups}", **named)
        if 0 in kernel:
            raise ShapeError(self.name, "kernel sizes >= 1", tuple(kernel), **named)
