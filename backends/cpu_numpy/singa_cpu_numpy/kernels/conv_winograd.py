"""Convolution with a kernel of 3x3 by Winograd's F(2x2, 3x3): 16 multiplications instead of 36.

Four elements of y at a time are y = A' ((G w G') * (B' x B)) A, where x are the 4x4 elements they
depend on, * multiplies element by element, and ' transposes. Summed over channels, each of the 16
products is a matrix product. The batch is innermost, and even columns of x lie apart from odd ones:
all the rest is additions of long runs. The gradient of the weight is the same turned around,
G' ((A grad A') * (B' x B)) G. Rounding errors are a little larger than those of plain sums.

Source: arXiv:1509.09308, section 4.1.
"""

from __future__ import annotations

import numpy as np

from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels.conv_geometry import carve, scratch, seen
from singa_cpu_numpy.kernels.conv_rows import Tile

COLUMNS = 128  # of a product
TILE_BYTES = 1 << 20  # of what is multiplied, for all 16 products
WEIGHT_BYTES = 1 << 18  # of the weight that is transformed at a time
LEAST_CHANNELS = 32


def fits(g):
    """True where it saves time."""
    if (g.kh, g.kw) != (3, 3) or (*g.stride, *g.dilation) != (1, 1, 1, 1):
        return False
    wasted = 4 * -(-g.oh // 2) * -(-g.ow // 2) > 1.6 * g.oh * g.ow
    return min(g.c, g.o) >= LEAST_CHANNELS and not wasted


def tiles(g):
    """Tiles whose t counts pairs of rows of y."""
    rows, pairs = -(-g.oh // 2), -(-g.ow // 2)
    least = threads.workers(g.work, g.n * rows)
    n = threads.tile(g.n, max(COLUMNS // pairs, 1), min(least, g.n))
    most = max(TILE_BYTES // (16 * g.c * pairs * n * g.dtype.itemsize), COLUMNS // (pairs * n), 1)
    t = threads.tile(rows, most, 1 if n * least <= g.n else min(least, rows))
    return [
        Tile(i, min(i + n, g.n), j, min(j + t, rows))
        for i in range(0, g.n, n)
        for j in range(0, rows, t)
    ]


def x_shapes(g, t, n):
    """x laid out, and its rows transformed; v, of columns transformed too, lies apart."""
    pairs = -(-g.ow // 2)
    return (2 * t + 2, g.c, 2, pairs + 1, n), (4, g.c, t, 2, pairs + 1, n)


def v_shape(g, t, n):
    return (4, 4, g.c, t, -(-g.ow // 2), n)


def tile_scratch(g, parts, shapes):
    """Elements for any of the tiles: v, and in one place first x and then arrays of `shapes`."""
    return max(
        scratch(v_shape(g, p.t, p.n))
        + max(scratch(*x_shapes(g, p.t, p.n)), scratch(*shapes(g, p.t, p.n)))
        for p in parts
    )


def carve_last(memory, shape, axis):
    """An array of this shape, one of whose axes is the innermost in memory; and the rest."""
    stored = (*shape[:axis], *shape[axis + 1 :], shape[axis])
    made, rest = carve(memory, stored)
    return np.moveaxis(made, -1, axis), rest


def transform_x(g, x, tile, memory, channels_last=False):
    """B' x B of every 4x4 elements, (4, 4, c, places) or (4, 4, places, c); the scratch left."""
    shapes = (v_shape(g, tile.t, tile.n), *x_shapes(g, tile.t, tile.n))
    if channels_last:
        v, rest = carve_last(memory, shapes[0], 2)
        d, free = carve_last(rest, shapes[1], 1)
        r, _ = carve_last(free, shapes[2], 1)
        made = np.moveaxis(v, 2, -1).reshape(4, 4, -1, g.c)
    else:
        v, rest = carve(memory, shapes[0])
        d, r, _ = carve(rest, *shapes[1:])
        made = v.reshape(4, 4, g.c, -1)
    lay_out(g, x, 2 * tile.t0 - g.before[0], d)
    x0, x1, x2, x3 = (d[i : i + 2 * tile.t : 2].swapaxes(0, 1) for i in range(4))
    differences(x0, x1, x2, x3, r)
    even, odd = r[:, :, :, 0], r[:, :, :, 1]
    first, after = (slice(None, -1), slice(1, None))
    columns = (even[:, :, :, first], odd[:, :, :, first], even[:, :, :, after], odd[:, :, :, after])
    differences(*columns, v.swapaxes(0, 1))
    return made, rest


def lay_out(g, x, top, d):
    """x (n, c, h, w) -> (rows, c, even or odd, pairs of columns, n), 0 outside."""
    low, high, start = seen(g.h, len(d), 1, top)
    d[:low], d[high:] = 0, 0
    rows = x[:, :, start : start + high - low].transpose(2, 1, 3, 0)
    for odd in (0, 1):
        a, b, i = seen(g.w, d.shape[3], 2, odd - g.before[1])
        own = d[low:high, :, odd]
        own[:, :, :a], own[:, :, b:] = 0, 0
        if a < b:
            np.copyto(own[:, :, a:b], rows[:, :, i : i + 2 * (b - a) - 1 : 2])


def differences(x0, x1, x2, x3, out):
    """B' x."""
    np.subtract(x0, x2, out[0])
    np.add(x1, x2, out[1])
    np.subtract(x2, x1, out[2])
    np.subtract(x1, x3, out[3])


def transform_weight(weight, out, memory):
    """G w G' of w (o, c, 3, 3), some channels of y at a time."""
    step = max(WEIGHT_BYTES // (9 * weight.shape[1] * weight.itemsize), 1)
    for start in range(0, len(weight), step):
        some = weight[start : start + step].transpose(2, 3, 0, 1)
        plain, half, _ = carve(memory, some.shape, (4, *some.shape[1:]))
        np.copyto(plain, some)
        thirds(plain, half)
        thirds(half.swapaxes(0, 1), out[:, :, start : start + step].swapaxes(0, 1))


def thirds(w, out):
    """G w."""
    out[0], out[3] = w[0], w[2]
    np.add(w[0], w[2], out[1])
    np.subtract(out[1], w[1], out[2])
    np.add(out[1], w[1], out[1])
    out[1:3] *= 0.5


# -- y ------------------------------------------------------------------------------------------


def y_shapes(g, t, n):
    """The products, and y with its rows and its columns transformed back."""
    pairs = -(-g.ow // 2)
    return (4, 4, g.o, t, pairs, n), (2, 4, g.o, t, pairs, n), (2, 2, g.o, t, pairs, n)


def forward(g, turned=False):
    """launch(x, weight, [bias,] y, workspace); with a `turned` weight, the gradient of an input."""
    parts = tiles(g)
    workers = threads.workers(g.work, len(parts))
    each = tile_scratch(g, parts, y_shapes)
    # in the order in which channels lie: BLAS transposes at less cost than a copy does
    first, second = (g.c, g.o) if turned else (g.o, g.c)
    whole_shape = (g.groups, 4, 4, first, second)
    block = min(max(WEIGHT_BYTES // (9 * second * g.dtype.itemsize), 1), first)
    more = max(workers * each, scratch((3, 3, block, second), (4, 3, block, second)))

    def launch(x, weight, *rest):
        *bias, y, workspace = rest
        whole, memory = carve(workspace.view(g.dtype), whole_shape)
        per_group = weight.reshape(g.groups, first, second, 3, 3)
        for w, out in zip(per_group, whole, strict=True):
            transform_weight(w[..., ::-1, ::-1] if turned else w, out, memory)
        matrices = whole.swapaxes(3, 4) if turned else whole

        def part(worker):
            own = memory[worker * each : (worker + 1) * each]
            for tile in parts[worker::workers]:
                for group in range(g.groups):
                    ci, co = g.channels(group)
                    out = y[tile.n0 : tile.n1, co, 2 * tile.t0 : 2 * tile.t1]
                    forward_tile(g, x[tile.n0 : tile.n1, ci], matrices[group], out, tile, own)
                    if bias:
                        np.add(out, bias[0][co, None, None], out)

        threads.share(part, workers)

    return launch, (scratch(whole_shape) + more) * g.dtype.itemsize


def forward_tile(g, x, weight, y, tile, memory):
    v, rest = transform_x(g, x, tile, memory)
    products, half, whole, _ = carve(rest, *y_shapes(g, tile.t, tile.n))
    np.matmul(weight, v, products.reshape(4, 4, g.o, -1))
    sums(products, half)
    sums(half.swapaxes(0, 1), whole.swapaxes(0, 1))
    for i in (0, 1):
        for j in (0, 1):
            out = y[:, :, i::2, j::2]
            made = whole[i, j, :, : out.shape[2], : out.shape[3]]
            np.copyto(out, made.transpose(3, 0, 1, 2))


def sums(m, out):
    """A' m."""
    np.add(m[1], m[2], out[0])
    np.add(out[0], m[0], out[0])
    np.subtract(m[1], m[2], out[1])
    np.subtract(out[1], m[3], out[1])


# -- gradient of the weight -----------------------------------------------------------------------


def grad_shapes(g, t, n):
    """The grads laid out, with their rows and with their columns transformed."""
    pairs = -(-g.ow // 2)
    return (g.o, t, 2, 2, pairs, n), (4, g.o, t, 2, pairs, n), (4, 4, g.o, t, pairs, n)


def grad_weight(g):
    """launch(x, grad, y, workspace): tiles are added up by each worker, then workers in order."""
    parts = tiles(g)
    workers = threads.workers(g.work, len(parts))
    total, term = (g.groups, 4, 4, g.o, g.c), (4, g.o, g.c)
    each = scratch(total, term) + tile_scratch(g, parts, grad_shapes)

    def launch(x, grad, y, workspace):
        memory = workspace.view(g.dtype)
        all_sums = [carve(memory[i * each :], total)[0] for i in range(workers)]

        def part(worker):
            whole, one, own = carve(memory[worker * each : (worker + 1) * each], total, term)
            whole.fill(0)
            for tile in parts[worker::workers]:
                for group in range(g.groups):
                    ci, co = g.channels(group)
                    grads = grad[tile.n0 : tile.n1, co, 2 * tile.t0 : 2 * tile.t1]
                    seen_by = x[tile.n0 : tile.n1, ci]
                    grad_weight_tile(g, seen_by, grads, whole[group], one, tile, own)

        threads.share(part, workers)
        first = all_sums[0]
        for other in all_sums[1:]:
            np.add(first, other, first)
        halves(first.swapaxes(0, 1))
        halves(first.transpose(2, 1, 0, 3, 4))
        made = first[:, :3, :3].transpose(0, 3, 4, 1, 2)
        np.copyto(y.reshape(made.shape), made)

    return launch, workers * each * g.dtype.itemsize


def grad_weight_tile(g, x, grad, total, term, tile, memory):
    v, rest = transform_x(g, x, tile, memory, channels_last=True)
    laid, half, whole, _ = carve(rest, *grad_shapes(g, tile.t, tile.n))
    for i in (0, 1):
        for j in (0, 1):
            given = grad[:, :, i::2, j::2].transpose(1, 2, 3, 0)
            own, rows, columns = laid[:, :, i, j], *given.shape[1:3]
            own[:, rows:], own[:, :, columns:] = 0, 0
            np.copyto(own[:, :rows, :columns], given)
    spread(laid.transpose(2, 0, 1, 3, 4, 5), half)
    spread(half.transpose(3, 0, 1, 2, 4, 5), whole.swapaxes(0, 1))
    for i in range(4):
        np.matmul(whole[i].reshape(4, g.o, -1), v[i], term)
        np.add(total[i], term, total[i])


def spread(m, out):
    """A m."""
    np.copyto(out[0], m[0])
    np.add(m[0], m[1], out[1])
    np.subtract(m[0], m[1], out[2])
    np.negative(m[1], out[3])


def halves(m):
    """G' m, in place of the first three."""
    m[1:3] *= 0.5
    np.add(m[0], m[1], m[0])
    np.add(m[0], m[2], m[0])
    np.add(m[3], m[1], m[3])
    np.add(m[3], m[2], m[3])
    np.subtract(m[1], m[2], m[1])
    np.copyto(m[2], m[3])
