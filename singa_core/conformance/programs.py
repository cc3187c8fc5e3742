"""Random programs, run eagerly and recorded: results, state and side effects are to be equal.

A program is a list of (opcode, i, j): small numbers that pick operands among what there is, so that
every list is a valid program. `Machine.body` interprets one; it is the function that eager calls
and that the graph records. Three calls each; eager is the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from singa_core import ops, random
from singa_core.autograd import gradients
from singa_core.device import Device
from singa_core.engine import GraphFunction, graph
from singa_core.mode import no_grad
from singa_core.scalars import Counter, scalar
from singa_core.tensor import Tensor, tensor
from singa_core.update import update

Program = Sequence[tuple[int, int, int]]

SHAPE: Final = (2, 3)
CALLS: Final = 3


class Machine:
    """Cells, arguments and host state, and the interpreter of one program over them."""

    args: tuple[Tensor, ...]
    values: list[Tensor]

    def __init__(self, device: Device, program: Program, picks: Sequence[int]) -> None:
        rng = np.random.default_rng(0)
        self.device, self.program, self.picks = device, program, picks
        self.cells = [self.fresh(rng, SHAPE), self.fresh(rng, SHAPE), self.fresh(rng, SHAPE[1:])]
        self.leaf = self.fresh(rng, SHAPE, requires_grad=True)
        self.state = [*self.cells, self.leaf]
        self.count = Counter(1)
        self.index = tensor([1, 0, 0], device=device)

    def fresh(self, rng: np.random.Generator, shape: tuple[int, ...], **options: Any) -> Tensor:
        """A tensor of quarters."""
        data = rng.integers(-8, 8, shape) / 4
        return tensor(data.astype(np.float32), device=self.device, **options)

    def body(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        """What is recorded: ordinary code over tensors."""
        self.args, self.values = (x, y), [x, y]
        for opcode, i, j in self.program:
            made = OPCODES[opcode % len(OPCODES)](self, i, j)
            self.values += made if isinstance(made, list) else [made] if made is not None else []
        pool = [*self.values, *self.state]
        results = [pool[p % len(pool)] for p in self.picks]
        return {"first": results[:2], "rest": tuple(results[2:])}

    # -- operands ---------------------------------------------------------------------------------

    def value(self, i: int) -> Any:
        """Any value or cell."""
        pool = [*self.values, *self.state]
        return pool[i % len(pool)]

    def cell(self, i: int) -> Any:
        """A cell to be written, seldom an argument."""
        pool = [*self.cells, *self.cells, *self.args]
        return pool[i % len(pool)]

    def pair(self, i: int, j: int) -> tuple[Any, Any]:
        """Two values that broadcast."""
        a, b = self.value(i), self.value(j)
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            b = b.sum()
        return a, b

    def like(self, cell: Tensor, i: int) -> Any:
        """A value of the cell's spec: a view, a cell, an argument, or something computed."""
        value = self.value(i)
        if value.shape == cell.shape:
            return value
        try:
            if value.shape and np.broadcast_shapes(value.shape, cell.shape) == cell.shape:
                return value.broadcast_to(cell.shape)
        except ValueError:
            pass
        return value.sum().broadcast_to(cell.shape)


Opcode = Callable[[Machine, int, int], Any]
OPCODES: list[Opcode] = []


def opcode(times: int = 1) -> Callable[[Opcode], Opcode]:
    """Register what the interpreter knows, `times` over."""

    def add(function: Opcode) -> Opcode:
        OPCODES.extend([function] * times)
        return function

    return add


# -- pure -----------------------------------------------------------------------------------------


@opcode(2)
def unary(m: Machine, i: int, j: int) -> Any:
    """A function of one value."""
    function = [ops.neg, ops.tanh, ops.abs, ops.relu, ops.square, ops.sigmoid, ops.copy, ops.floor]
    return function[j % len(function)](m.value(i))


@opcode(3)
def binary(m: Machine, i: int, j: int) -> Any:
    """A function of two."""
    a, b = m.pair(i, j)
    return [ops.add, ops.sub, ops.mul, ops.maximum, ops.minimum, ops.div][(i + j) % 6](a, b)


@opcode()
def number(m: Machine, i: int, j: int) -> Any:
    """A value and a Python number."""
    x = m.value(i)
    return [x + 1, x * 0.5, 2.0 - x, x * -0.0, x + 0.0, x / 3, x**2, -1 * x][j % 8]


@opcode()
def select(m: Machine, i: int, j: int) -> Any:
    """One of two values."""
    a, b = m.pair(i, j)
    return ops.where(a < b, a, b * 2.0)


@opcode()
def reduce(m: Machine, i: int, j: int) -> Any:
    """Fewer elements."""
    x = m.value(i)
    if not x.shape:
        return x.sum()
    axis = j % len(x.shape)
    choices = [x.sum, x.mean, lambda **o: x.sum(keepdims=True, **o), x.cumsum]
    if x.shape[axis]:
        choices += [x.max, lambda **o: x.argmax(**o).astype("float32")]
    return choices[(i + j) % len(choices)](axis=axis)


@opcode()
def product(m: Machine, i: int, j: int) -> Any:
    """A matrix product."""
    a, b = m.value(i), m.value(j)
    if a.ndim == 2 and b.ndim == 2:
        if a.shape[1] == b.shape[0]:
            return a @ b
        if a.shape[1] == b.shape[1]:
            return a @ b.mT
    return a @ a.mT if a.ndim == 2 else a * a


@opcode(3)
def view(m: Machine, i: int, j: int) -> Any:
    """Another look at a value."""
    x = m.value(i)
    if not x.shape:
        return [x.reshape(1), x.broadcast_to(3), x.expand_dims(0)][j % 3]
    choices = [
        lambda: x.T, lambda: x.flip(0), lambda: x[1:], lambda: x[..., ::2], lambda: x.reshape(-1),
        lambda: x.expand_dims(0).broadcast_to(2, *x.shape), lambda: x[..., ::-1], lambda: x[:0],
        lambda: x.reshape(*x.shape, 1), lambda: x[-1] if len(x) else x,
    ]  # fmt: skip
    return choices[j % len(choices)]()


@opcode()
def several_outputs(m: Machine, i: int, j: int) -> Any:
    """Values and their order."""
    x = m.value(i)
    if not x.shape or not x.size:
        return None
    values, order = x.sort(axis=-1)
    return [[values], [order.astype("float32")], [values, order.astype("float32")]][j % 3]


@opcode()
def gather(m: Machine, i: int, j: int) -> Any:
    """Rows by index, or joined."""
    x = m.value(i)
    if not x.size or not x.shape:
        return x
    return ops.concat(x, x, axis=0) if j % 2 else ops.gather(x, m.index % x.shape[0], axis=0)


@opcode()
def made_inside(m: Machine, i: int, j: int) -> Any:
    """A value from nothing."""
    return [
        ops.zeros(SHAPE, device=m.device), ops.full(SHAPE[1:], 1.5, device=m.device),
        ops.arange(3, dtype="float32", device=m.device) * 2.0, ops.ones((), device=m.device),
    ][j % 4]  # fmt: skip


# -- state ----------------------------------------------------------------------------------------


@opcode(4)
def assign(m: Machine, i: int, j: int) -> Any:
    """A cell names another value."""
    cell = m.cell(j)
    cell.assign(m.like(cell, i))


@opcode(2)
def in_place(m: Machine, i: int, j: int) -> Any:
    """A cell changed in place."""
    cell, how = m.cell(j), (i + j) % 4
    value = m.like(cell, i).detach()
    if how == 0:
        cell += value
    elif how == 1:
        cell *= 0.5
    elif how == 2:
        cell -= cell
    else:
        cell[..., -1] = value[..., 0]


@opcode()
def assign_leaf(m: Machine, i: int, j: int) -> Any:
    """The leaf changes."""
    if j % 2:
        m.leaf.assign(m.like(m.leaf, i))
    else:
        with no_grad():
            m.leaf.__iadd__(m.like(m.leaf, i) * 0.25)


@opcode(2)
def swap(m: Machine, i: int, j: int) -> Any:
    """Two cells change places."""
    a, b = m.cells[0], m.cells[1]
    old = a.detach() if j % 2 else a * 1.0
    a.assign(b if i % 2 else b.flip(0))
    b.assign(old)


@opcode()
def snapshot(m: Machine, i: int, j: int) -> Any:
    """The value a cell has now."""
    return m.value(i).detach()


@opcode(2)
def one_step(m: Machine, i: int, j: int) -> Any:
    """Steps with several outputs: inputs may be one cell, outputs may cross over."""
    p, q = m.cells[:2]
    grad = m.like(p, i).detach()
    rate = scalar(lambda: 0.5 / m.count.moment(), device=m.device)
    with no_grad():
        if j % 5 == 0:
            update(ops.sgd_step, (p, grad, rate), (p,), weight_decay=0.25)
        elif j % 5 == 1:
            update(ops.sgd_momentum_step, (p, q, grad, rate), (p, q))
        elif j % 5 == 2:
            update(ops.sgd_momentum_step, (p, q, q, rate), (p, q), dampening=0.5)
        elif j % 5 == 3:
            update(ops.sgd_momentum_step, (p, q, grad, rate), (q, p))
        else:
            new_p, new_q = ops.sgd_momentum_step(p, p, grad, rate)
            q.assign(new_p)
            p.assign(new_q)


# -- gradients, host state and random numbers -----------------------------------------------------


@opcode(2)
def slope(m: Machine, i: int, j: int) -> Any:
    """A gradient."""
    w = m.leaf
    inner = [w * w, ops.tanh(w), w @ w.mT, w[1:] * 2.0, ops.maximum(w, m.like(w, i)), w.sum(axis=0)]
    return gradients((inner[j % 6] * (i % 3 + 1)).sum(), w, retain_graph=True)


@opcode()
def slope_across_an_assignment(m: Machine, i: int, j: int) -> Any:
    """A gradient of what the leaf was before."""
    first = (m.leaf * m.leaf).sum()
    m.leaf.assign(m.like(m.leaf, i))
    return gradients(first + (m.leaf * 3.0).sum(), m.leaf, retain_graph=True)


@opcode()
def counter(m: Machine, i: int, j: int) -> Any:
    """A number of the host."""
    if j % 2:
        m.count.advance(i % 3)
    return scalar(lambda: m.count.moment() * 0.5, device=m.device) * m.value(i)


@opcode(2)
def draw(m: Machine, i: int, j: int) -> Any:
    """Random numbers."""
    x = m.value(i)
    if j % 3 == 0:
        ops.rand((5,), device=m.device)  # dead, and still it moves the stream
    choices: list[Callable[[], Any]] = [
        lambda: ops.dropout(x, p=0.5), lambda: ops.rand(SHAPE, device=m.device),
        lambda: x + ops.randint(-2, 3, SHAPE[1:], device=m.device).sum().astype("float32"),
    ]  # fmt: skip
    return choices[(i + j) % 3]()


# -- running one ----------------------------------------------------------------------------------


def bits(t: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    """A value as facts."""
    host = t.numpy()
    return host.dtype.str, host.shape, host.tobytes()


def flat(results: dict[str, Any]) -> list[Tensor]:
    """The results in order."""
    return [*results["first"], *results["rest"]]


def trace(machine: Machine, function: Callable[..., Any]) -> list[Any]:
    """Everything that can be observed of three calls: as text-free facts, in order."""
    random.manual_seed(7)
    rng = np.random.default_rng(1)
    args: list[Tensor] = []
    held: list[tuple[Any, Any]] = []
    facts: list[Any] = []
    for call in range(CALLS):
        if call != 1:  # the second call has the arguments of the first, as they are now
            args = [machine.fresh(rng, SHAPE), machine.fresh(rng, SHAPE[1:])]
        results = flat(function(*args))
        owners = [*machine.state, *args]
        facts.append([next((k for k, o in enumerate(owners) if o is r), None) for r in results])
        facts.append([next(k for k, o in enumerate(results) if o is r) for r in results])
        facts.append([bits(t) for t in (*results, *machine.state, *args)])
        facts.append((machine.count.moment(), [s.state() for s in random.STREAMS.values()]))
        held += [(bits(t), t) for t in results if not any(t is o for o in owners)]
        held += [(bits(t), t) for t in (r[:1] for r in results if r.shape)]
        held += [(bits(t), t) for t in (c.detach() for c in machine.state)]
        noise(tensor(np.full((4 * call + 4, 5), 9.0, np.float32), device=machine.device))
        if call == 0:  # a change from outside, between calls
            with no_grad():
                machine.cells[1].assign(machine.cells[0])
                machine.leaf *= 0.5
    facts.append([bits(t) == before for before, t in held])
    return facts


@graph
def noise(x: Tensor) -> Tensor:
    """Another graph on the same device: its temporaries lie where those of the program lie."""
    return ((x * 2.0 + 1.0) @ (x - 3.0).mT).sum() + x.exp().sum(axis=0)[0]


def compare(
    device: Device, program: Program, picks: Sequence[int], alg: str = "memory"
) -> tuple[list[Any], list[Any], GraphFunction]:
    """The facts of eager and of graph, which should be equal."""
    eager, recorded = Machine(device, program, picks), Machine(device, program, picks)
    want = trace(eager, eager.body)
    function = GraphFunction(recorded.body, device=device, graph_alg=alg)
    got = trace(recorded, function)
    return want, got, function


def agree(want: Any, got: Any) -> bool:
    """Equal facts, where values may differ in their last digits: an executable of its own fuses."""
    if isinstance(want, list | tuple) and not _is_value(want):
        same = isinstance(got, list | tuple) and len(want) == len(got)
        return same and all(agree(a, b) for a, b in zip(want, got, strict=True))
    if not _is_value(want) or want[:2] != got[:2] or np.dtype(want[0]).kind != "f":
        return bool(want == got)
    a, b = (np.frombuffer(value[2], value[0]) for value in (want, got))
    return bool(np.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True))


def _is_value(fact: Any) -> bool:
    return isinstance(fact, tuple) and len(fact) == 3 and isinstance(fact[2], bytes)


def made(seed: int) -> tuple[list[tuple[int, int, int]], list[int]]:
    """The random program of a seed, and which of its values are returned."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, (100, 16, 16), (int(rng.integers(1, 25)), 3)).tolist()
    return [(a, b, c) for a, b, c in steps], rng.integers(0, 31, rng.integers(1, 7)).tolist()
