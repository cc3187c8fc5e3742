"""Scalar functions of several steps: a chunk of elements goes through all of them in the cache."""

from __future__ import annotations

import numpy as np

from singa_cpu_numpy import threads

CHUNK = 1 << 15  # elements
COST = 100.0  # of one element, in floating-point operations of a matrix product


def in_chunks(step, spec, scratches=0):
    """(launch, workspace) of `step(*ins, out, *scratches)` on flat chunks, shared by threads.

    A step may be given one of its inputs as the output.
    """
    size, dtype = spec.itemcount, spec.dtype.numpy
    if not size:
        return lambda *handles: None, 0
    workers = threads.workers(COST * size, -(-size // CHUNK))
    length = threads.tile(size, CHUNK, workers)
    starts = range(0, size, length)
    rows = workers, scratches, length

    def at_once(*handles):
        *flat, memory = [h.reshape(-1) for h in handles]
        step(*flat, *memory.view(dtype).reshape(scratches, length))

    def launch(*handles):
        *flat, memory = [h.reshape(-1) for h in handles]
        scratch = memory.view(dtype).reshape(rows)

        def part(worker):
            for start in starts[worker::workers]:
                some = [h[start : start + length] for h in flat]
                step(*some, *scratch[worker, :, : some[0].size])

        threads.share(part, workers)

    return at_once if len(starts) == 1 else launch, workers * scratches * length * dtype.itemsize


def numbers(dtype, *values):
    """0-d arrays, which cost NumPy less than Python's numbers do."""
    return [np.array(value, dtype) for value in values]
