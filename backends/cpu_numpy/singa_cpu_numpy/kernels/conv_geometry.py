from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

ALIGNED = 16  # elements: scratch begins where a cache line does


@dataclass(frozen=True)
class Geometry:
    """One convolution over rows and columns; a single spatial axis counts as one row."""

    n: int
    c: int  # channels of x in a group
    h: int
    w: int
    o: int  # channels of y in a group
    kh: int
    kw: int
    oh: int
    ow: int
    stride: tuple[int, int]
    before: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    dtype: np.dtype

    @property
    def k(self):
        """Terms of one sum."""
        return self.c * self.kh * self.kw

    @property
    def work(self):
        """Floating-point operations."""
        return 2.0 * self.n * self.groups * self.o * self.oh * self.ow * self.k

    @property
    def pointwise(self):
        """True where y at a place depends on x at that place only."""
        ones = (self.kh, self.kw, *self.stride) == (1, 1, 1, 1)
        return ones and (self.h, self.w) == (self.oh, self.ow)

    def channels(self, group):
        """The slices of x's and y's channels that are in a group."""
        return (
            slice(group * self.c, (group + 1) * self.c),
            slice(group * self.o, (group + 1) * self.o),
        )


def geometry(x, y, weight, stride, padding, dilation, groups):
    """From the specs of x, y and weight; None where another way has to be found."""
    if len(x.shape) > 4 or 0 in (x.itemcount, y.itemcount, weight.itemcount):
        return None
    if len(x.shape) == 3:
        stride, dilation, padding = (1, *stride), (1, *dilation), ((0, 0), *padding)
    (n, _, h, w), (_, out, oh, ow), (_, c, kh, kw) = map(planes, (x.shape, y.shape, weight.shape))
    before = tuple(pair[0] for pair in padding)
    o, dtype = out // groups, x.dtype.numpy
    return Geometry(n, c, h, w, o, kh, kw, oh, ow, stride, before, dilation, groups, dtype)


def planes(shape):
    """A shape with two spatial axes."""
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def as_planes(handle):
    """The same for an array."""
    return handle if handle.ndim == 4 else handle.reshape(planes(handle.shape))


def scratch(*shapes):
    """Elements that arrays of these shapes take when they lie in one piece of memory."""
    return sum(-(-math.prod(shape) // ALIGNED) * ALIGNED for shape in shapes)


def carve(memory, *shapes):
    """Arrays of these shapes at the beginning of `memory`, and the rest of it."""
    made, start = [], 0
    for shape in shapes:
        made.append(memory[start : start + math.prod(shape)].reshape(shape))
        start += scratch(shape)
    return *made, memory[start:]


def seen(size, out, stride, offset):
    """The windows first ... last - 1 with i * stride + offset inside, and that of the first one."""
    first = max(-(offset // stride), 0)
    last = max(min((size - 1 - offset) // stride + 1, out), first)
    return first, last, first * stride + offset
