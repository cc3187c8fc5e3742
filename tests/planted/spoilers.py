"""What is wrong in planted kernels: functions from a good kernel to a bad one."""

import os
from dataclasses import replace

import numpy as np

from singa_core.dtype import float16


def around(change, **flags):
    """A spoiler that makes another launch: `change(launch, ins, outs)`, told the specs."""

    def spoil(kernel):
        def prepare(target, ins, outs, **attrs):
            made = kernel.prepare(target, ins, outs, **attrs)
            if isinstance(made, tuple):  # with workspace
                return change(made[0], ins, outs), made[1]
            return None if made is None else change(made, ins, outs)

        return replace(kernel, prepare=prepare, **flags)

    return spoil


def in_memory_order(x):
    return x.ravel(order="K").reshape(x.shape)


def ignores_strides(kernel):
    def change(launch, ins, outs):
        count = len(ins)

        def wrong(*handles):
            return launch(*map(in_memory_order, handles[:count]), *handles[count:])

        return wrong

    return around(change, strides=True)(kernel)


def ignores_strides_of(signature):
    def spoil(kernel):
        return ignores_strides(kernel) if kernel.signature == signature else kernel

    return spoil


def ends_the_process(kernel):
    return around(lambda launch, ins, outs: lambda *handles: os._exit(9))(kernel)


def declines(kernel):
    return replace(kernel, prepare=lambda *forms, **attrs: None)


def forgets_to_begin(kernel):
    def change(launch, ins, outs):
        def wrong(*handles):
            made = launch(*handles)
            y = made if made is not None else handles[-1]
            return np.full_like(y, 7) if not handles[0].size else made

        return wrong

    return around(change)(kernel) if kernel.returning else kernel


def writes_its_input(kernel):
    def change(launch, ins, outs):
        def wrong(x, *outs):
            made = launch(x, *outs)
            x[...] = 0
            return made

        return wrong

    return around(change)(kernel)


def loses_nan(kernel):
    def prepare(target, ins, outs, *, axis, keepdims):
        if np.dtype(ins[0].dtype.numpy).kind != "f":
            return kernel.prepare(target, ins, outs, axis=axis, keepdims=keepdims)
        return lambda x: np.fmax.reduce(x, axis=axis, keepdims=keepdims)

    returning = kernel.signature.startswith("f")
    return replace(kernel, prepare=prepare, returning=True) if returning else kernel


def truncates_halves(kernel):
    def change(launch, ins, outs):
        def wrong(x, *ys):
            made = launch(x, *ys)
            y = made if made is not None else ys[0]
            if y.dtype == np.float16:
                with np.errstate(all="ignore"):
                    too_large = np.abs(y.astype(np.float64)) > np.abs(x.astype(np.float64))
                y[...] = np.where(too_large, np.nextafter(y, np.float16(0)), y)
            return made

        return wrong if outs[0].dtype is float16 else launch

    return around(change)(kernel)


def counts_by_thread(kernel):
    def change(launch, ins, outs):
        def wrong(state, *ys):
            made = launch(state, *ys)
            y = made if made is not None else ys[0]
            flat = y.reshape(-1)
            for start in range(4096, flat.size, 4096):
                flat[start : start + 4096] = flat[: min(4096, flat.size - start)]
            return made

        return wrong

    return around(change)(kernel)


def forgets_the_tail(kernel):
    def change(launch, ins, outs):
        def wrong(*handles):
            made = launch(*handles)
            y = made if made is not None else handles[-1]
            if y.size > 1024:
                y.reshape(-1)[y.size // 8 * 8 :] = 0
            return made

        return wrong

    return around(change)(kernel)


def prepared_once(kernel):
    kept = []

    def prepare(target, ins, outs, **attrs):
        kept.append(kernel.prepare(target, ins, outs, **attrs))
        return kept[0]

    return replace(kernel, prepare=prepare)


def pads_the_other_side(kernel):
    def prepare(target, ins, outs, *, padding, **attrs):
        turned = tuple((b, a) if isinstance(p, tuple) else p for p in padding for a, b in [p])
        return kernel.prepare(target, ins, outs, padding=turned, **attrs)

    return replace(kernel, prepare=prepare)


def scaled(factor):
    def change(launch, ins, outs):
        def wrong(*handles):
            made = launch(*handles)
            first = handles[len(ins)] if made is None else made[0] if len(outs) > 1 else made
            first *= first.dtype.type(factor)
            return made

        return wrong

    return around(change)


def clears_first(kernel):
    def change(launch, ins, outs):
        def wrong(a, b, y):
            y[...] = 0
            return launch(a, b, y)

        return wrong

    return kernel if kernel.returning else around(change, in_place=True)(kernel)
