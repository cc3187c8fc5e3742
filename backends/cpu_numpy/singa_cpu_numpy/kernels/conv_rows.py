"""Convolution as matrix products of packed rows.

A tile of x is packed as z[row][kw, c][ow, n]: for each place in a row of the kernel the elements
that windows see there, the batch innermost so that everything is copied and added in long runs. The
kh rows that a row of y needs lie one behind the other: they are the matrix (kh, kw, c) x (ow, n) of
one product, and the next row of y begins a few rows further on. So only the kernel's width is
copied out, and each element once, not its area.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels.conv_geometry import carve, scratch, seen

COLUMNS = 256  # of a product: BLAS gains little from more
PRODUCT_BYTES = 1 << 19  # of a product's right side: half of a second-level cache
WIDE = 32  # columns that one image alone may have, sparing the turning of x and y
TILE_BYTES = 1 << 21


@dataclass(frozen=True)
class Tile:
    """Images n0 ... n1, rows of windows t0 ... t1."""

    n0: int
    n1: int
    t0: int
    t1: int

    @property
    def n(self):
        return self.n1 - self.n0

    @property
    def t(self):
        return self.t1 - self.t0


def tiles(g, *, whole, least=1):
    """Tiles that fit the cache, and enough of them; `whole`: of all rows."""
    columns = max(min(COLUMNS, PRODUCT_BYTES // (g.k * g.dtype.itemsize)), COLUMNS // 4)
    images = 1 if g.ow >= WIDE else max(columns // g.ow, 1)
    n = threads.tile(g.n, images, min(least, g.n))
    row = g.kw * g.c * g.ow * n * g.dtype.itemsize
    t = max(TILE_BYTES // row - g.dilation[0] * (g.kh - 1), 2 * g.kh) // g.stride[0]
    t = g.oh if whole else min(max(t, 1), -(-g.oh // -(-least // -(-g.n // n))))
    return [
        Tile(i, min(i + n, g.n), j, min(j + t, g.oh))
        for i in range(0, g.n, n)
        for j in range(0, g.oh, t)
    ]


def pack(g, x, z, first, step, turned):
    """x (n, c, h, w) -> z (rows, kw, c, ow, n); row j is row first + j * step of x, 0 outside.

    `turned` is scratch for x as (rows, c, w, n).
    """
    (sw, dw), (_, left) = (g.stride[1], g.dilation[1]), g.before
    low, high, start = seen(g.h, len(z), step, first)
    if low or high < len(z):
        z[:low], z[high:] = 0, 0
    if high == low:
        return
    rows = x[:, :, start : start + (high - low - 1) * step + 1 : step].transpose(2, 1, 3, 0)
    if len(x) > 1 and g.kw > 1:
        memory, _ = carve(turned.reshape(-1), rows.shape)
        np.copyto(memory, rows)
        rows = memory
    for k in range(g.kw):
        a, b, i = seen(g.w, g.ow, sw, k * dw - left)
        part = z[low:high, k]
        if a or b < g.ow:
            part[:, :, :a], part[:, :, b:] = 0, 0
        if a < b:
            np.copyto(part[:, :, a:b], rows[:, :, i : i + (b - a - 1) * sw + 1 : sw])


# -- y ------------------------------------------------------------------------------------------


def spread(g, t):
    """Rows of x that t rows of windows see, as (planes, rows): every dilation-th in one plane."""
    d = g.dilation[0]
    return d, -(-((t - 1) * g.stride[0] + d * (g.kh - 1) + 1) // d)


def forward_shapes(g, t, n):
    """z, y turned, x turned."""
    d, rows = spread(g, t)
    return (d, rows, g.kw, g.c, g.ow, n), (t, g.o, g.ow, n), (rows, g.c, g.w, n)


def forward(g, turned=False):
    """launch(x, weight, [bias,] y, workspace); with a `turned` weight, the gradient of an input."""
    parts = tiles(g, whole=False, least=threads.workers(g.work, g.n * g.oh))
    workers = threads.workers(g.work, len(parts))
    each = max(scratch(*forward_shapes(g, tile.t, tile.n)) for tile in parts)
    shape = (g.groups, g.o, g.kh, g.kw, g.c)

    def launch(x, weight, *rest):
        *bias, y, workspace = rest
        packed, memory = carve(workspace.view(g.dtype), shape)
        if turned:
            per_group = weight.reshape(g.groups, g.c, g.o, g.kh, g.kw)[..., ::-1, ::-1]
            np.copyto(packed, per_group.transpose(0, 2, 3, 4, 1))
        else:
            per_group = weight.reshape(g.groups, g.o, g.c, g.kh, g.kw)
            np.copyto(packed, per_group.transpose(0, 1, 3, 4, 2))

        def part(worker):
            own = memory[worker * each : (worker + 1) * each]
            for tile in parts[worker::workers]:
                for group in range(g.groups):
                    w = packed[group].reshape(g.o, g.k)
                    ci, co = g.channels(group)
                    out = y[tile.n0 : tile.n1, co, tile.t0 : tile.t1]
                    forward_tile(g, x[tile.n0 : tile.n1, ci], w, out, tile, own)
                    if bias:
                        np.add(out, bias[0][co, None, None], out)

        threads.share(part, workers)

    return launch, (scratch(shape) + workers * each) * g.dtype.itemsize


def forward_tile(g, x, w, y, tile, memory):
    z, turned, x_turned, _ = carve(memory, *forward_shapes(g, tile.t, tile.n))
    d, top = len(z), tile.t0 * g.stride[0] - g.before[0]
    for plane in range(d):
        pack(g, x, z[plane], top + plane, d, x_turned)
    z, step, columns = z.reshape(d, -1, g.ow * tile.n), g.kw * g.c, g.ow * tile.n
    alone = tile.n == 1
    for i in range(tile.t):
        row = i * g.stride[0]
        at = row // d * step
        out = y[0, :, i] if alone else turned[i].reshape(g.o, columns)
        np.matmul(w, z[row % d, at : at + g.k], out)
    if not alone:
        np.copyto(y, turned.transpose(3, 1, 0, 2))


# -- gradient of the weight -----------------------------------------------------------------------


def grad_weight_shapes(g, t, n):
    """z, whose planes hold every stride-th row; grad turned, x turned."""
    s = g.stride[0]
    rows = t + g.dilation[0] * (g.kh - 1) // s
    return (g.kw, g.c, s, rows, g.ow, n), (t, g.ow, n, g.o), (rows, g.c, g.w, n)


def grad_weight(g):
    """launch(x, grad, y, workspace): tiles are added up by each worker, then workers in order."""
    parts = tiles(g, whole=False, least=threads.workers(g.work, g.n * g.oh))
    workers = threads.workers(g.work, len(parts))
    total = (g.groups, g.kh, g.kw * g.c, g.o)
    each = scratch(total, total[2:])
    each += max(scratch(*grad_weight_shapes(g, tile.t, tile.n)) for tile in parts)

    def launch(x, grad, y, workspace):
        memory = workspace.view(g.dtype)
        sums = [carve(memory[i * each :], total)[0] for i in range(workers)]

        def part(worker):
            whole, term, own = carve(memory[worker * each : (worker + 1) * each], total, total[2:])
            for number, tile in enumerate(parts[worker::workers]):
                for group in range(g.groups):
                    ci, co = g.channels(group)
                    seen_by = x[tile.n0 : tile.n1, ci]
                    grads = grad[tile.n0 : tile.n1, co, tile.t0 : tile.t1]
                    add = term if number else None
                    grad_weight_tile(g, seen_by, grads, whole[group], add, tile, own)

        threads.share(part, workers)
        for other in sums[1:]:
            np.add(sums[0], other, sums[0])
        per_group = sums[0].reshape(g.groups, g.kh, g.kw, g.c, g.o).transpose(0, 4, 3, 1, 2)
        np.copyto(y.reshape(per_group.shape), per_group)

    return launch, workers * each * g.dtype.itemsize


def grad_weight_tile(g, x, grad, whole, term, tile, memory):
    z, turned, x_turned, _ = carve(memory, *grad_weight_shapes(g, tile.t, tile.n))
    s, top, places = g.stride[0], tile.t0 * g.stride[0] - g.before[0], g.ow * tile.n
    np.copyto(turned, grad.transpose(2, 3, 0, 1))
    grads = turned.reshape(tile.t * places, g.o)
    rows = [divmod(k * g.dilation[0], s) for k in range(g.kh)]
    for plane in sorted({plane for _, plane in rows}):
        pack(g, x, z[:, :, plane].transpose(2, 0, 1, 3, 4), top + plane, s, x_turned)
    z = z.reshape(g.kw * g.c, s, -1)
    for k, (row, plane) in enumerate(rows):
        seen_by = z[:, plane, row * places : (row + tile.t) * places]
        if term is None:
            np.matmul(seen_by, grads, whole[k])
        else:
            np.add(whole[k], np.matmul(seen_by, grads, term), whole[k])


# -- gradient of the input ------------------------------------------------------------------------


def grad_input_shapes(g, t, n):
    """z, one row's product, grad turned, x turned."""
    d, rows = spread(g, t)
    columns = g.ow * n
    return (
        (d, rows, g.kw, g.c, g.ow, n), (g.k, columns), (t, g.o, columns), (rows * d, g.c, g.w, n),
    )  # fmt: skip


def grad_input(g):
    """launch(grad, weight, y, workspace)."""
    parts = tiles(g, whole=True, least=threads.workers(g.work, g.n))
    workers = threads.workers(g.work, len(parts))
    each = max(scratch(*grad_input_shapes(g, tile.t, tile.n)) for tile in parts)
    shape = (g.groups, g.kh, g.kw, g.c, g.o)

    def launch(grad, weight, y, workspace):
        packed, memory = carve(workspace.view(g.dtype), shape)
        per_group = weight.reshape(g.groups, g.o, g.c, g.kh, g.kw)
        np.copyto(packed, per_group.transpose(0, 3, 4, 2, 1))

        def part(worker):
            own = memory[worker * each : (worker + 1) * each]
            for tile in parts[worker::workers]:
                for group in range(g.groups):
                    w = packed[group].reshape(g.k, g.o)
                    ci, co = g.channels(group)
                    grads = grad[tile.n0 : tile.n1, co]
                    grad_input_tile(g, grads, w, y[tile.n0 : tile.n1, ci], tile, own)

        threads.share(part, workers)

    return launch, (scratch(shape) + workers * each) * g.dtype.itemsize


def grad_input_tile(g, grad, w, y, tile, memory):
    z, product, turned, y_turned, _ = carve(memory, *grad_input_shapes(g, tile.t, tile.n))
    d, step, columns = len(z), g.kw * g.c, g.ow * tile.n
    np.copyto(turned.reshape(tile.t, g.o, g.ow, tile.n), grad.transpose(2, 1, 3, 0))
    z.fill(0)
    rows = z.reshape(d, -1, columns)
    for i in range(tile.t):
        row = i * g.stride[0]
        at = row // d * step
        target = rows[row % d, at : at + g.k]
        np.add(target, np.matmul(w, turned[i], product), target)
    y_turned.fill(0)
    for plane in range(d):
        own = y_turned[plane::d]
        for k in range(g.kw):
            a, b, i = seen(g.w, g.ow, g.stride[1], k * g.dilation[1] - g.before[1])
            if a < b:
                out = own[:, :, i : i + (b - a - 1) * g.stride[1] + 1 : g.stride[1]]
                np.add(out, z[plane, :, k, :, a:b], out)
    first = g.before[0]  # rows of padding come before
    high = max(min(len(y_turned) - first, g.h), 0)
    np.copyto(y[:, :, :high], y_turned[first : first + high].transpose(3, 1, 0, 2))
    y[:, :, high:] = 0
