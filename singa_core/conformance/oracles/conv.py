"""References of convolution: one product for each place of the kernel, added up."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, on_real

Ints = Sequence[int]


def each(value: int | Ints, rank: int) -> tuple[int, ...]:
    """One number for each axis."""
    return (value,) * rank if isinstance(value, int) else tuple(value)


def pads(padding: Any, size: Ints, spans: Ints, stride: Ints) -> list[tuple[int, int]]:
    """(before, after) for each axis."""
    if isinstance(padding, str):
        out = []
        for n, span, s in zip(size, spans, stride, strict=True):
            short = 0 if padding == "valid" else max((-(-n // s) - 1) * s + span - n, 0)
            out.append((short // 2, (short + 1) // 2))
        return out
    given = (padding,) * len(size) if isinstance(padding, int) else padding
    return [(p, p) if isinstance(p, int) else tuple(p) for p in given]


class Places:
    """Where windows stand over axes of `size`, by the public attributes."""

    def __init__(
        self, size: Ints, kernel: Ints, stride: Any = 1, padding: Any = 0, dilation: Any = 1
    ) -> None:
        rank = len(size)
        self.size, self.kernel = tuple(size), tuple(kernel)
        self.stride, self.dilation = each(stride, rank), each(dilation, rank)
        spans = [d * (k - 1) + 1 for d, k in zip(self.dilation, kernel, strict=True)]
        self.pads = pads(padding, size, spans, self.stride)
        self.out = tuple(
            (n + sum(p) - span) // s + 1
            for n, p, span, s in zip(size, self.pads, spans, self.stride, strict=True)
        )

    def padded(self, x: HostArray, value: float = 0.0) -> HostArray:
        """An array (n, c, *size) with its padding."""
        return np.pad(x, [(0, 0), (0, 0), *self.pads], constant_values=value)

    def inner(self) -> tuple[slice, ...]:
        """The part of a padded array that is x."""
        pairs = zip(self.pads, self.size, strict=True)
        return (slice(None), slice(None), *(slice(a, a + n) for (a, _), n in pairs))

    def walk(self) -> Iterator[tuple[Any, Any]]:
        """(index of a place in the kernel, index of what all windows see there of padded x)."""
        for place in itertools.product(*map(range, self.kernel)):
            parts = zip(place, self.dilation, self.stride, self.out, strict=True)
            seen = (slice(j * d, j * d + (m - 1) * s + 1, s) for j, d, s, m in parts)
            yield (..., *place), (slice(None), slice(None), *seen)


def grouped(x: HostArray, groups: int, axis: int) -> HostArray:
    """One axis as (groups, rest)."""
    shape = (*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])
    return x.reshape(shape)


def conv(
    x: HostArray, weight: HostArray, *bias: HostArray, groups: int = 1, **attrs: Any
) -> HostArray:
    """The definition."""
    at = Places(x.shape[2:], weight.shape[2:], **attrs)
    padded, w = at.padded(x), grouped(weight, groups, 0)
    y = np.zeros((x.shape[0], groups, weight.shape[0] // groups, *at.out))
    for place, seen in at.walk():
        part = grouped(padded[seen], groups, 1)
        y += np.einsum("ngc...,goc->ngo...", part, w[place], optimize=False)
    y = y.reshape(x.shape[0], weight.shape[0], *at.out)
    return y + bias[0].reshape(-1, *(1 for _ in at.out)) if bias else y


def conv_grad_input(
    grad: HostArray, weight: HostArray, *, size: Ints, groups: int = 1, **attrs: Any
) -> HostArray:
    """Each grad back to what its window has seen."""
    at = Places(size, weight.shape[2:], **attrs)
    channels = weight.shape[1] * groups
    y = at.padded(np.zeros((grad.shape[0], channels, *size)))
    w, g = grouped(weight, groups, 0), grouped(grad, groups, 1)
    for place, seen in at.walk():
        part = np.einsum("ngo...,goc->ngc...", g, w[place], optimize=False)
        y[seen] += part.reshape(grad.shape[0], channels, *at.out)
    return y[at.inner()]


def conv_grad_weight(
    x: HostArray, grad: HostArray, *, kernel: Ints, groups: int = 1, **attrs: Any
) -> HostArray:
    """What each place of the kernel has seen, times the grads."""
    at = Places(x.shape[2:], kernel, **attrs)
    padded, g = at.padded(x), grouped(grad, groups, 1)
    y = np.zeros((groups, grad.shape[1] // groups, x.shape[1] // groups, *kernel))
    for place, seen in at.walk():
        part = grouped(padded[seen], groups, 1)
        terms = np.einsum("ngc...,ngo...->goc...", part, g, optimize=False)
        y[place] = terms.sum(axis=tuple(range(3, terms.ndim)))
    return y.reshape(grad.shape[1], -1 if y.size else x.shape[1] // groups, *kernel)


def conv_transpose(
    x: HostArray,
    weight: HostArray,
    *bias: HostArray,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> HostArray:
    """Each x spreads its kernel over a canvas, whose ends are then cut or grown."""
    rank = x.ndim - 2
    stride, dilation, more = each(stride, rank), each(dilation, rank), each(output_padding, rank)
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:], strict=True)]
    full = [(n - 1) * s + span for n, s, span in zip(x.shape[2:], stride, spans, strict=True)]
    canvas = conv_grad_input(x, weight, size=full, stride=stride, dilation=dilation, groups=groups)
    if padding == "same":
        wanted = [n * s for n, s in zip(x.shape[2:], stride, strict=True)]
        cut = [
            (max(f - n, 0) // 2, f - n - max(f - n, 0) // 2)
            for f, n in zip(full, wanted, strict=True)
        ]
    else:
        cut = pads(padding, x.shape[2:], spans, stride)
    y = np.pad(canvas, [(0, 0), (0, 0), *((0, s) for s in stride)])
    for axis, ((before, after), n, m) in enumerate(zip(cut, full, more, strict=True), 2):
        y = y.take(range(before, n - after + m), axis)
    return y + bias[0].reshape(-1, *(1 for _ in full)) if bias else y


TABLE: dict[str, Oracle] = {
    "conv": on_real(conv),
    "conv_grad_input": on_real(conv_grad_input),
    "conv_grad_weight": on_real(conv_grad_weight),
    "conv_transpose": on_real(conv_transpose),
}
