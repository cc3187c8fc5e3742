"""Convolution, pooling and normalisation of a backend beside their decompositions and PyTorch.

python -m benchmarks.kernels [--device NAME] [--repeat 7] [--only WORD]

CPU time of one thread, best of several blocks; prints Markdown. A kernel that does not beat the
decomposition should not be there.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.driver import environment

# name: batch, channels, size, filters, kernel, padding, stride, groups
CONVOLUTIONS = {
    "5x5, 1 -> 20, 28x28, batch 64": (64, 1, 28, 20, 5, 0, 1, 1),
    "5x5, 20 -> 50, 12x12, batch 64": (64, 20, 12, 50, 5, 0, 1, 1),
    "3x3, 64 -> 64, 32x32, batch 32": (32, 64, 32, 64, 3, 1, 1, 1),
    "3x3, 128 -> 128, 16x16, batch 32": (32, 128, 16, 128, 3, 1, 1, 1),
    "3x3, 512 -> 512, 4x4, batch 32": (32, 512, 4, 512, 3, 1, 1, 1),
    "3x3 stride 2, 64 -> 128, 32x32, batch 32": (32, 64, 32, 128, 3, 1, 2, 1),
    "1x1, 64 -> 128, 32x32, batch 32": (32, 64, 32, 128, 1, 0, 1, 1),
    "7x7 stride 2, 3 -> 64, 224x224, batch 4": (4, 3, 224, 64, 7, 3, 2, 1),
    "3x3 depthwise, 64, 32x32, batch 32": (32, 64, 32, 64, 3, 1, 1, 64),
}
POOLS = {
    "2x2, 20 of 24x24, batch 64": ((64, 20, 24, 24), 2, 2, 0),
    "3x3 stride 2, 64 of 32x32, batch 32": ((32, 64, 32, 32), 3, 2, 1),
}
NORMS = {"64 of 32x32, batch 32": (32, 64, 32, 32), "512 of 4x4, batch 32": (32, 512, 4, 4)}
Case = tuple[str, str, tuple[Any, ...], dict[str, Any], Callable[..., Any] | None]


def milliseconds(function: Callable[[], Any], repeat: int) -> float:
    """Best over blocks of about 30 ms of the CPU time of one call."""
    function()
    start = time.process_time()
    function()
    number = max(int(0.03 / max(time.process_time() - start, 1e-6)), 1)
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        for _ in range(number):
            function()
        best = min(best, (time.process_time() - start) / number)
    return best * 1e3


def cases(torch: Any) -> Iterator[Case]:
    """(what, op, arrays, attributes, PyTorch's function of tensors)."""
    random = np.random.default_rng(0)

    def array(*shape: int) -> Any:
        return random.standard_normal(shape).astype(np.float32)

    nn = torch.nn.functional if torch else None
    for name, (n, c, size, o, k, p, s, groups) in CONVOLUTIONS.items():
        x, weight, bias = array(n, c, size, size), array(o, c // groups, k, k), array(o)
        out = (size + 2 * p - k) // s + 1
        grad = array(n, o, out, out)
        attrs = {"stride": s, "padding": p, "groups": groups}
        plain = [[s, s], [p, p], [1, 1], False, [0, 0], groups]

        def back(g: Any, x: Any, w: Any, which: tuple[bool, bool, bool], plain: Any = plain) -> Any:
            return torch.ops.aten.convolution_backward(g, x, w, [len(w)], *plain, which)

        def ahead(*xs: Any, attrs: Any = attrs) -> Any:
            return nn.conv2d(*xs, **attrs)

        def to_x(g: Any, w: Any, x: Any = x, back: Any = back) -> Any:
            return back(g, torch.from_numpy(x), w, (True, False, False))

        def to_weight(x: Any, g: Any, w: Any = weight, back: Any = back) -> Any:
            return back(g, x, torch.from_numpy(w), (False, True, False))

        yield name, "conv", (x, weight, bias), attrs, nn and ahead
        yield name, "conv_grad_input", (grad, weight), {**attrs, "size": (size, size)}, nn and to_x
        yield name, "conv_grad_weight", (x, grad), {**attrs, "kernel": k}, nn and to_weight
    for name, (shape, k, s, p) in POOLS.items():
        attrs = {"kernel": k, "stride": s, "padding": p}
        for kind in ("max_pool", "avg_pool"):

            def pool(x: Any, kind: str = kind, given: Any = (k, s, p)) -> Any:
                return getattr(nn, f"{kind}2d")(x, *given)

            yield name, kind, (array(*shape),), attrs, nn and pool
    for name, shape in NORMS.items():
        affine = array(shape[1]), array(shape[1])

        def norm(x: Any, weight: Any, bias: Any) -> Any:
            return nn.batch_norm(x, None, None, weight, bias, True)

        yield name, "batch_norm", (array(*shape), *affine), {}, nn and norm


def measure(case: Case, device: Any, repeat: int, torch: Any) -> str:
    """One line of the table."""
    from singa_core import no_grad, ops, tensor  # noqa: PLC0415  (the environment comes first)

    name, op_name, arrays, attrs, peer = case
    op, tensors = getattr(ops, op_name), [tensor(a, device=device) for a in arrays]
    settled = op.settle(*[t.spec for t in tensors], **op_attributes(op, attrs))
    with no_grad():
        ours = milliseconds(lambda: op(*tensors, **attrs), repeat)
        composed = milliseconds(lambda: op.forward(*tensors, **settled), max(repeat // 3, 1))
    line = f"| {op_name} | {name} | {ours:.2f} | {composed / ours:.1f} |"
    if peer is None:
        return f"{line} |"
    theirs = [torch.from_numpy(a) for a in arrays]
    return f"{line} {ours / milliseconds(lambda: peer(*theirs), repeat):.2f} |"


def op_attributes(op: Any, attrs: dict[str, Any]) -> dict[str, Any]:
    """All attributes, those not given as the op has them."""
    return dict(zip(op.attributes, op.pack(attrs), strict=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--only", default="", help="a word in the op's name")
    options = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # libraries read it when they are loaded
        again = [sys.executable, "-m", "benchmarks.kernels", *sys.argv[1:]]
        os.execve(sys.executable, again, environment(1))
    import singa_core  # noqa: PLC0415

    try:
        import torch  # noqa: PLC0415

        torch.set_num_threads(1)
    except ImportError:
        torch = None
    device = singa_core.device(options.device)
    print("| op | what | ms | decomposed / ours | ours / PyTorch |\n|---|---|---:|---:|---:|")
    for case in cases(torch):
        if options.only in case[1]:
            print(measure(case, device, options.repeat, torch), flush=True)


if __name__ == "__main__":
    main()
