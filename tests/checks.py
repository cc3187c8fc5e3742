"""What tests of operations share: eager against graph, gradients against differences and a peer."""

import numpy as np
import pytest

from house import counts
from singa_core.autograd import gradients
from singa_core.engine import graph
from singa_core.resolve import find_entry
from singa_core.tensor import tensor


def outputs(result):
    """One or several results as a tuple."""
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def both(function, *xs):
    """The result of `function(*xs)`, which must be the same bits when it is recorded and replayed."""
    eager = function(*xs)
    recorded = graph(function)
    for _ in range(2):
        for a, b in zip(outputs(eager), outputs(recorded(*xs)), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            assert a.numpy().tobytes() == b.numpy().tobytes(), (a, b)
            counts.bitwise_compared()
    return eager


def kernel_of(device, op, *ins):
    """The kernel that serves `op` for packed tensors or Specs; None where it is made of other ops."""
    attrs = op.pack({}) if op.attributes else ()
    return find_entry(device, op, attrs, tuple(getattr(x, "spec", x) for x in ins)).kernel


def writes_in_place(device, op, *ins):
    """Whether the kernel that serves `op` may write over an input; see there."""
    kernel = kernel_of(device, op, *ins)
    return kernel is not None and kernel.in_place and not kernel.returning


def must_copy(executable):
    """How many updates cannot be in place: the kernel reads the old value and may not write over it."""
    placed, count = executable.placed, 0
    for cell, root in placed.writes:
        (step,) = (s for s in placed.steps if root in s.outs)
        kernel, own = step.entry.kernel, placed.cells[cell]
        refuses = kernel.returning or not kernel.in_place
        count += refuses and root != own and any(where.root == own for where in step.ins)
    return count


def put(hosts, device):
    """Host arrays on a device; floats want a gradient."""
    made = [tensor(np.asarray(host), device=device) for host in hosts]
    for x in made:
        x.requires_grad = x.dtype.is_floating
    return made


def floating(xs):
    """Those of floating dtype."""
    return [x for x in xs if x.dtype.is_floating]


def seeds_for(ys, rng):
    """A random gradient for each floating output, as host arrays."""
    return [np.asarray(rng.normal(size=y.shape)).astype(y.dtype.numpy) for y in floating(ys)]


def pulled_back(function, seeds, **options):
    """The function that gives the gradients of all floating inputs, for given ones of the outputs."""

    def run(*xs):
        ys = floating(outputs(function(*xs)))
        device = xs[0].device
        grads = [
            tensor(seed, device=device) if isinstance(seed, np.ndarray) else seed for seed in seeds
        ]
        return gradients(ys, floating(xs), grads, allow_unused=True, **options)

    return run


def check_gradients(function, device, *hosts, order=1, step=1e-6, rtol=1e-6):
    """The gradient equals a central difference along a random direction, in float64; bits as in `both`.

    `order=2` checks the gradient of the gradient.
    """
    rng = np.random.default_rng(7)
    hosts = [widened(h) for h in hosts]
    seeds = seeds_for(outputs(function(*put(hosts, device))), rng)
    if order == 2:
        slopes = pulled_back(function, seeds, create_graph=True)
        weights = [rng.normal(size=h.shape) for h in hosts if h.dtype.kind == "f"]

        def slope(*xs):
            parts = zip(slopes(*xs), weights, strict=True)
            return sum((g * tensor(w, device=device)).sum() for g, w in parts if g is not None)

        check_gradients(slope, device, *hosts, step=step, rtol=rtol * 10)
        counts.gradient_checked(2)
        return
    found = pulled_back(function, seeds)(*put(hosts, device))
    assert len(found) == sum(h.dtype.kind == "f" for h in hosts)
    directions = [rng.normal(size=h.shape) if h.dtype.kind == "f" else 0 * h for h in hosts]
    up, down = (
        [moved(h, sign * step * d) for h, d in zip(hosts, directions, strict=True)]
        for sign in (1, -1)
    )
    difference = 0.0
    for high, low, seed in zip(
        *(values(function, xs, device) for xs in (up, down)), seeds, strict=True
    ):
        difference += ((high - low) / (2 * step) * seed).sum()
    along = [d for d, h in zip(directions, hosts, strict=True) if h.dtype.kind == "f"]
    slope = sum((g.numpy() * d).sum() for g, d in zip(found, along, strict=True) if g is not None)
    assert slope == pytest.approx(difference, rel=rtol, abs=rtol)
    counts.gradient_checked(1)


def moved(host, by):
    """Floats elsewhere; integers stay."""
    return np.asarray(host + by) if host.dtype.kind == "f" else host


def widened(host):
    """Floats as float64."""
    host = np.asarray(host)
    return host.astype(np.float64) if host.dtype.kind == "f" else host


def values(function, hosts, device):
    """The floating results on the host."""
    return [y.numpy() for y in floating(outputs(function(*put(hosts, device))))]


def check_against_torch(ours, theirs, device, *hosts, rtol=1e-5, atol=1e-6):
    """Values and gradients are the peer's; `ours` gives the same bits eager and recorded."""
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    xs = put(hosts, device)
    ys = outputs(both(ours, *xs))
    peers = [
        torch.tensor(np.asarray(h), requires_grad=np.asarray(h).dtype.kind == "f") for h in hosts
    ]
    wanted = outputs(theirs(*peers))
    for y, w in zip(ys, wanted, strict=True):
        np.testing.assert_allclose(y.numpy(), w.detach().numpy(), rtol=rtol, atol=atol)
    seeds = seeds_for(ys, np.random.default_rng(11))
    inputs = [p for p in peers if p.requires_grad]
    expected = torch.autograd.grad(
        wanted, inputs, [torch.tensor(seed) for seed in seeds], allow_unused=True
    )
    found = both_gradients(ours, seeds, xs)
    for g, e in zip(found, expected, strict=True):
        assert (g is None) == (e is None)
        if g is not None:
            np.testing.assert_allclose(g.numpy(), e.numpy(), rtol=rtol, atol=atol)
    counts.gradient_checked("peer")


def both_gradients(function, seeds, xs):
    """Gradients, the same bits eager and recorded."""
    grads = [tensor(seed, device=xs[0].device) for seed in seeds]

    def run(*args):
        return tuple(pulled_back(function, args[len(xs) :])(*args[: len(xs)]))

    return outputs(both(run, *xs, *grads))


def random(*shape, low=-2.0, high=2.0, seed=0, dtype=np.float32):
    """Values from a generator of their own."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(dtype)


class Interrupted:
    """A context variable; an interrupt comes right after it was set for the first time."""

    def __init__(self, var):
        self.var, self.get, self.calls = var, var.get, 0

    def set(self, value):
        self.var.set(value)
        self.calls += 1
        if self.calls == 1:
            raise KeyboardInterrupt
