"""Scenes for the group `graph`: functions with state, run by hand, eagerly and replayed.

A scene is told in NumPy too, so that it does not take eager's word for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from singa_core.conformance.oracles.common import HostArray
from singa_core.conformance.tolerances import differs, expect
from singa_core.device import Device
from singa_core.engine import GraphFunction
from singa_core.errors import OutOfRange, StateLost
from singa_core.mode import no_grad
from singa_core.optable import OPS
from singa_core.scalars import Counter, scalar
from singa_core.tensor import Tensor, tensor

Scene = Callable[[Device, str], None]
SCENES: Final[dict[str, Scene]] = {}


def scene(function: Scene) -> Scene:
    """Register a scene."""
    SCENES[function.__name__] = function
    return function


def equal(what: str, got: Any, wanted: Any) -> None:
    """Raises: Mismatch unless the values are these; they are small whole numbers or halves."""
    differs(what, got.numpy(), np.asarray(wanted, got.dtype.numpy), 1e-6, 1e-6)


def numbers(*shape: int, start: int = 0) -> HostArray:
    """0, 1, 2 ... as float32."""
    return (np.arange(int(np.prod(shape))) + start).reshape(shape).astype(np.float32)


@scene
def new_inputs(device: Device, alg: str) -> None:
    """Each replay reads the buffers it is given now, not those it was recorded with."""
    step = GraphFunction(lambda x, y: x * 2.0 - y, device=device, graph_alg=alg)
    for n in range(5):
        x, y = numbers(3, 4, start=n), numbers(4, start=10 * n)
        got = step(tensor(x, device=device), tensor(y, device=device))
        equal(f"replay {n}", got, x * 2 - y)
    put = tensor(numbers(3, 4), device=device)
    equal("one buffer twice", step(put, put[0]), numbers(3, 4) * 2 - numbers(4))
    turned = tensor(numbers(4, 3), device=device).T
    equal("a view", step(turned, turned[1]), numbers(4, 3).T * 2 - numbers(4, 3).T[1])


@scene
def new_shapes(device: Device, alg: str) -> None:
    """Another shape or dtype is another recording; the old one stays good."""
    step = GraphFunction(lambda x: (x * x).sum(axis=0), device=device, graph_alg=alg)
    for shape in ((2, 3), (5, 3), (2, 3), (1, 7), (0, 4), (5, 3)):
        x = numbers(*shape, start=1)
        equal(f"shape {shape}", step(tensor(x, device=device)), (x * x).sum(axis=0))
    expect(step.records == 4, f"recorded {step.records} times, needs 4")


@scene
def static_arguments(device: Device, alg: str) -> None:
    """Python arguments and flags are part of the key."""

    def function(x: Tensor, flag: bool, *, power: int = 1) -> Tensor:
        y = x + 1.0 if flag else x - 1.0
        for _ in range(power):
            y = y * 2.0
        return y

    step, x = GraphFunction(function, device=device, graph_alg=alg), numbers(4)
    for flag, power in ((True, 1), (False, 1), (True, 3), (True, 1)):
        got = step(tensor(x, device=device), flag, power=power)
        equal(f"{flag}, {power}", got, (x + (1 if flag else -1)) * 2**power)


@scene
def state(device: Device, alg: str) -> None:
    """State goes from replay to replay, and changes from outside are seen."""
    w, m = (tensor(numbers(3), device=device) for _ in range(2))

    def function(x: Tensor) -> Tensor:
        m.assign(m * 0.5 + x)
        w.assign(w - m)
        return w.sum()

    step, a, b = GraphFunction(function, device=device, graph_alg=alg), numbers(3), numbers(3)
    for n in range(4):
        x = numbers(3, start=n)
        got = step(tensor(x, device=device))
        b = b * np.float32(0.5) + x
        a = a - b
        equal(f"w after {n}", w, a)
        equal(f"m after {n}", m, b)
        equal(f"sum after {n}", got, a.sum())
        if n == 1:
            w.assign(np.ones(3, np.float32))
            a = np.ones(3, np.float32)


@scene
def swaps(device: Device, alg: str) -> None:
    """Two cells exchange their values, a third keeps what was."""
    a, b, kept = (tensor(numbers(3, start=s), device=device) for s in (0, 10, 20))

    def function() -> Tensor:
        old = a.detach()
        a.assign(b.flip(0))
        kept.assign(old)
        b.assign(old + 1.0)
        return old

    step = GraphFunction(function, device=device, graph_alg=alg)
    x, y = numbers(3), numbers(3, start=10)
    for n in range(3):
        got = step()
        equal(f"result {n}", got, x)
        x, y, last = y[::-1], x + 1, x
        equal(f"a {n}", a, x)
        equal(f"b {n}", b, y)
        equal(f"kept {n}", kept, last)


@scene
def snapshots(device: Device, alg: str) -> None:
    """Whoever holds an old value, a view of it or an old result keeps it."""
    w = tensor(numbers(2, 3), device=device)

    def function(x: Tensor) -> Tensor:
        w.assign(w + x)
        return w * 2.0

    step = GraphFunction(function, device=device, graph_alg=alg)
    held: list[tuple[str, Tensor, HostArray]] = []
    value = numbers(2, 3)
    for n in range(4):
        held.append((f"snapshot {n}", w.detach(), value))
        held.append((f"view {n}", w[1:, ::2], value[1:, ::2]))
        x = numbers(3, start=n)
        got = step(tensor(x, device=device))
        value = value + x
        held.append((f"result {n}", got, value * 2))
        held.append((f"row {n}", got[0], value[0] * 2))
    for what, t, wanted in held:
        equal(what, t, wanted)


@scene
def arguments(device: Device, alg: str) -> None:
    """An argument that is assigned or returned is the caller's own tensor."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x.assign(x + y)
        return x, y, x * 1.0

    step = GraphFunction(function, device=device, graph_alg=alg)
    for n in range(3):
        x, y = (tensor(numbers(3, start=s), device=device) for s in (n, 5))
        first, second, third = step(x, y)
        expect(first is x and second is y, "a returned argument is another tensor")
        equal("x", x, numbers(3, start=n) + numbers(3, start=5))
        equal("y", y, numbers(3, start=5))
        equal("product", third, x.numpy())


@scene
def structures(device: Device, alg: str) -> None:
    """Tensors in lists, tuples and dicts go in and come out in their places."""

    def function(pair: list[Tensor], *, more: dict[str, Any]) -> dict[str, Any]:
        a, b = pair
        return {"sum": a + b, "rest": [more["x"] * 2.0, (more["deep"][0], a)], "n": 3}

    step = GraphFunction(function, device=device, graph_alg=alg)
    for n in range(3):
        a, b, x, y = (numbers(2, start=n + s) for s in range(4))
        put = [tensor(h, device=device) for h in (a, b, x, y)]
        got = step(put[:2], more={"x": put[2], "deep": (put[3],)})
        equal("sum", got["sum"], a + b)
        equal("rest", got["rest"][0], x * 2)
        equal("deep", got["rest"][1][0], y)
        expect(got["rest"][1][1] is put[0] and got["n"] == 3, "the result has another structure")


@scene
def interleaved(device: Device, alg: str) -> None:
    """Two graphs over one state, in turns: they share the scratch memory, not their results."""
    w = tensor(numbers(4, 4), device=device)

    def train(x: Tensor) -> Tensor:
        h = (x @ w + 1.0) * 2.0
        w.assign(w * 0.5)
        return h

    def look(x: Tensor) -> Tensor:
        return ((w + x) * 3.0 - x) @ w

    first, second = (GraphFunction(f, device=device, graph_alg=alg) for f in (train, look))
    value, x = numbers(4, 4), numbers(4, 4, start=1)
    results = []
    for _ in range(3):
        put = tensor(x, device=device)
        results.append((first(put), (x @ value + 1) * 2))
        value = value * np.float32(0.5)
        results.append((second(put), ((value + x) * 3 - x) @ value))
    for n, (got, wanted) in enumerate(results):
        equal(f"result {n}", got, wanted)


@scene
def scalars(device: Device, alg: str) -> None:
    """Run-time scalars are read at each replay, in order with what changes them."""
    count, rate = Counter(1), [0.5]

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        first = x * scalar(lambda: count.moment() * rate[0], device=device)
        count.advance(2)
        return first, x * scalar(lambda: count.moment() * rate[0], device=device)

    step = GraphFunction(function, device=device, graph_alg=alg)
    now = 1
    for n in range(3):
        rate[0] = 0.5 + n
        first, second = step(tensor(numbers(3), device=device))
        equal(f"before {n}", first, numbers(3) * now * rate[0])
        now += 2
        equal(f"after {n}", second, numbers(3) * now * rate[0])
    expect(step.records == 1, f"recorded {step.records} times")


@scene
def views_out(device: Device, alg: str) -> None:
    """Results that are views, inputs, constants, or one value twice, are values of their own."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2.0
        return y.T, y[1:], y, y.reshape(-1), x.T, y

    step = GraphFunction(function, device=device, graph_alg=alg)
    held = []
    for n in range(3):
        x = numbers(2, 3, start=n)
        y = x * 2
        wanted = (y.T, y[1:], y, y.reshape(-1), x.T, y)
        held.append((step(tensor(x, device=device)), wanted))
    for n, (got, wanted) in enumerate(held):
        for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
            equal(f"result {k} of replay {n}", a, b)


@scene
def updates(device: Device, alg: str) -> None:
    """An in-place update of a parameter, whose old value the same graph still reads."""
    w = tensor(numbers(3, 3, start=1), device=device, requires_grad=True)

    def function(x: Tensor) -> Tensor:
        before = w * 1.0
        with no_grad():
            w.assign(w - x * 0.5)
            return before @ w

    step, value = GraphFunction(function, device=device, graph_alg=alg), numbers(3, 3, start=1)
    for n in range(3):
        x = numbers(3, 3, start=n)
        new = value - x * np.float32(0.5)
        equal(f"product {n}", step(tensor(x, device=device)), value @ new)
        equal(f"weight {n}", w, new)
        value = new


@scene
def chains(device: Device, alg: str) -> None:
    """Chains of scalar operations, with broadcasts, casts, choices and several readers."""
    bias, w = (tensor(numbers(65, start=s) / 65, device=device) for s in (0, 1))

    def function(x: Tensor) -> tuple[Tensor, ...]:
        h = (x * 0.5 + bias).tanh()
        y = OPS["where"](h > 0.25, h * w, (-h).exp() - x)
        whole = (y * 8.0).astype("int32") % 5
        z = y.abs().sqrt() + whole.astype("float32")
        return z, z.sum(axis=1), h.max(axis=0), (z - h) * 2.0

    step = GraphFunction(function, device=device, graph_alg=alg)
    for n in range(3):
        x = np.random.default_rng(n).uniform(-2, 2, (33, 65))
        x = (np.round(x * 16) / 16).astype(np.float32)
        put = tensor(x, device=device)
        got = step(put)
        # where a chain is cut off at a whole number, a last digit decides: eager has the same one
        eager = function(put)
        h = np.tanh(x * 0.5 + bias.numpy().astype(np.float64))
        near("largest", got[2], h.max(axis=0))
        for k, (a, b) in enumerate(zip(got, eager, strict=True)):
            near(f"result {k} of replay {n}", a, b.numpy())


def near(what: str, got: Tensor, wanted: HostArray) -> None:
    """Raises: Mismatch unless all but one in a thousand are near, and these by a whole number."""
    y = got.numpy().astype(np.float64)
    off = np.abs(y - wanted) > 1e-4 * np.maximum(1.0, np.abs(wanted))
    expect(off.mean() <= 1e-3, f"{what}: {int(off.sum())} of {off.size} elements are wrong")


@scene
def a_fault_before_state(device: Device, alg: str) -> None:
    """A bad index in a replay that writes no state is told, and the next replay is good."""
    w = tensor(numbers(4, 3), device=device)
    step = GraphFunction(lambda i: OPS["gather"](w, i, axis=0) * 2.0, device=device, graph_alg=alg)
    good, bad = (tensor(np.array(v), device=device) for v in ([0, 3], [0, 4]))
    equal("before", step(good), numbers(4, 3)[[0, 3]] * 2)
    try:
        step(bad).numpy()
    except (OutOfRange, StateLost):
        pass
    else:
        expect(False, "a bad index in a replay was not told")  # noqa: FBT003
    equal("after", step(good), numbers(4, 3)[[0, 3]] * 2)
    equal("state", w, numbers(4, 3))
