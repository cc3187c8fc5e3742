"""Reverse mode: a stream of (leaf, gradient) pairs, each given out when it is complete.

The tape is the Nodes behind a tensor. Backward visits them latest first, which is a topological
order since a Node is numbered when it is applied, and calls each operation's `backward`, which is
made of operations again: so the same walk works eagerly, while recording, and for second
derivatives. A consumer may update a parameter as soon as its gradient arrives, while the rest of
the walk is still to come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from singa_core.errors import DTypeError, GradientError, ShapeError
from singa_core.mode import MODE, Mode
from singa_core.node import Node, Source, Value, collected, flows
from singa_core.operation import Needs
from singa_core.optable import OPS, function
from singa_core.tensor import Tensor, constant, own


@function
def backward(
    y: Tensor | Sequence[Tensor],
    gradient: Tensor | Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> None:
    """Add the gradient of `y` (or the sum over several) to `.grad` of every leaf.

    Args:
        y: roots. Each needs a gradient of its own shape, or to be a single element.
        gradient: gradient of each root; None stands for 1.
        retain_graph: keep what the tape saved, for another backward through it.
        create_graph: put the gradients on the tape as well, for higher derivatives; implies
            retain_graph.

    Raises: GradientError if no leaf wants a gradient, or the tape has been used up.
    """
    for leaf, grad in stream(y, gradient, retain_graph=retain_graph, create_graph=create_graph):
        held = leaf.grad
        if held is None:
            leaf.grad = grad
        else:
            held += grad
        del leaf, grad, held  # a gradient must not outlive its use while the walk goes on


def gradients(
    y: Tensor | Sequence[Tensor],
    xs: Tensor | Sequence[Tensor],
    gradient: Tensor | Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> Any:
    """Gradients of `y` with respect to `xs`, leaves or not; `.grad` is not touched.

    Shapes: each gradient has the shape of its x; a single x gives a single gradient.
    Args: as for `backward`; allow_unused: None, instead of an error, where y does not depend on x.

    Raises: GradientError if an x is not tracked or not reached; as `backward`.

    >>> from singa_core import tensor
    >>> x = tensor(3.0, requires_grad=True)
    >>> float(gradients(x * x, x))
    6.0
    """
    single = isinstance(xs, Tensor)
    listed = isinstance(xs, list | tuple)
    wanted: list[Tensor] = [xs] if isinstance(xs, Tensor) else list(xs) if listed else []
    if not wanted:
        raise GradientError("gradients", "a tensor or a list of tensors as xs", repr(xs))
    values = []
    for i, x in enumerate(wanted):
        if not isinstance(x, Tensor) or not x.requires_grad:
            rule = "xs that require grad"
            raise GradientError("gradients", rule, f"xs[{i}], which does not", x=x)
        values.append(value_of(x))
    found: dict[Value, Tensor] = {}
    walk = _Walk(y, gradient, retain_graph, create_graph, frozenset(values))
    for value, grad in walk.run():
        if value in walk.wanted:
            found[value] = grad
        del grad
    for i, value in enumerate(values):
        if value not in found and not allow_unused:
            raise GradientError(
                "gradients", "y that depends on every x", f"no path to xs[{i}]",
                hint="allow_unused=True gives None there", x=wanted[i],
            )  # fmt: skip
    # cells of their own: one value may go to several leaves, and change there
    grads = [own(found[value]) if value in found else None for value in values]
    return grads[0] if single else tuple(grads)


def stream(
    y: Tensor | Sequence[Tensor],
    gradient: Tensor | Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> Iterator[tuple[Tensor, Tensor]]:
    """(leaf, gradient) pairs, each as soon as it is complete: what optimisers consume."""
    walk = _Walk(y, gradient, retain_graph, create_graph, None)
    for (node, _), grad in walk.run():
        leaf = node.cell if isinstance(node, Source) else None
        if leaf is not None:
            yield leaf, own(grad)
        del node, grad, leaf


def value_of(x: Tensor) -> Value:
    """Where a tracked tensor's gradient arrives: its place on the tape or in the recording."""
    recorder = MODE.get().recorder
    if recorder is not None:
        return collected(recorder.value(x))
    if x.node is None:
        raise GradientError("gradient", "a tensor that requires grad", "one that does not", x=x)
    return x.node, x.index


# a Node, which inputs need a gradient, and those among them that are leaves
Step = tuple[Node, Needs, list[Value]]


class _Walk:
    """One backward pass."""

    def __init__(
        self,
        y: Tensor | Sequence[Tensor],
        gradient: Tensor | Sequence[Tensor | None] | None,
        retain_graph: bool,
        create_graph: bool,
        wanted: frozenset[Value] | None,
    ) -> None:
        roots: list[Any] = list(y) if isinstance(y, list | tuple) else [y]
        grads = gradient if isinstance(gradient, list | tuple) else [gradient]
        seeds: list[Any] = list(grads)
        for given in (*roots, *[seed for seed in seeds if seed is not None]):
            if not isinstance(given, Tensor):
                raise GradientError("backward", "tensors as roots and gradients", repr(given))
        if len(seeds) == 1:
            seeds = seeds * len(roots) if seeds[0] is None else seeds
        if len(seeds) != len(roots):
            raise GradientError(
                "backward", "one gradient for each root", f"{len(seeds)} for {len(roots)}"
            )
        self.retain = retain_graph or create_graph
        self.mode = Mode(create_graph, MODE.get().recorder)
        self.wanted = wanted or frozenset()
        self.pending: dict[Value, Tensor] = {}
        for root, seed in zip(roots, seeds, strict=True):
            if not root.requires_grad:
                raise GradientError(
                    "backward", "a tensor that depends on a leaf with requires_grad",
                    "one that does not (made under no_grad, detached, or of plain data)", y=root,
                )  # fmt: skip
            self._add(value_of(root), seed_for(root, seed))
        self.order, self.uses = reachable([value[0] for value in self.pending])

    def run(self) -> Iterator[tuple[Value, Tensor]]:
        """Complete gradients, of leaves and of wanted values, in the order they are done."""
        pending, uses, order = self.pending, self.uses, self.order
        for value in list(pending):  # a root may be a leaf itself
            if isinstance(value[0], Source) and not uses.get(value[0]):
                yield value, self._take(value)
        # popping, so that the walk itself keeps no Node alive
        while order:
            node, needs, leaves = order.pop()
            inputs = node.inputs
            if inputs is None:  # by another walk, since this one began
                raise used_up(node)
            grads = self._take_all(node, len(needs.outs))
            if self.wanted:
                for i, grad in enumerate(grads):
                    if grad is not None and (node, i) in self.wanted:
                        yield (node, i), grad
                    del grad
            if grads:
                self._propagate(node, inputs, needs, grads)
            del grads
            if not self.retain:
                use_up(node)
            del node, inputs
            for leaf in leaves:
                uses[leaf[0]] -= 1
                if not uses[leaf[0]] and leaf in pending:
                    yield leaf, self._take(leaf)

    def _propagate(
        self,
        node: Node,
        inputs: tuple[Value | None, ...],
        needs: Needs,
        grads: list[Tensor | None],
    ) -> None:
        """Call the op's backward and hand its results to the inputs."""
        entry, pending = node.entry, self.pending
        before = MODE.get()
        try:  # no statement between: an interrupt must not leave the mode behind
            MODE.set(self.mode)
            saved = kept(node) if entry.kept else ()
            made = entry.op.backward(*grads, *saved, needs=needs, **entry.options)
            if type(made) is not tuple:
                made = (made,)
            if len(made) != len(needs):
                rule = f"{len(needs)} gradients from backward"
                raise GradientError(entry.op.name, rule, len(made))
            for i, grad in enumerate(made):
                value = inputs[i]
                if grad is None or not needs[i] or value is None:
                    continue
                if grad.spec is not needs.specs[i]:
                    rule = f"a gradient like input {i} ({needs.specs[i]}) from backward"
                    raise GradientError(entry.op.name, rule, grad.spec)
                if type(value[0]) is Source:
                    self._add(value, grad)
                    continue
                held = pending.get(value)  # as `_add`, written out
                pending[value] = grad if held is None else OPS["add"](held, grad)
        finally:
            MODE.set(before)

    def _add(self, value: Value, grad: Tensor) -> None:
        if type(value[0]) is Source:
            value = collected(value)
        held = self.pending.get(value)
        self.pending[value] = grad if held is None else OPS["add"](held, grad)

    def _take_all(self, node: Node, count: int) -> list[Any]:
        """The complete gradients of a Node's outputs; empty if none of them arrived."""
        if count == 1 and node.hooks is None:  # the common case, written out
            grad = self.pending.pop((node, 0), None)
            return [] if grad is None else [grad]
        grads = [self._take((node, i)) for i in range(count)]
        return grads if any(grad is not None for grad in grads) else []

    def _take(self, value: Value) -> Any:
        """The complete gradient of a value, after its hooks; None if nothing arrived."""
        grad = self.pending.pop(value, None)
        hooks = value[0].hooks
        if hooks and grad is not None:
            grad = own(grad)
            for hook in list(hooks.get(value[1], ())):
                replaced = hook(grad)
                if replaced is None:
                    continue
                if not isinstance(replaced, Tensor) or replaced.spec is not grad.spec:
                    rule = f"None or a gradient like {grad.spec} from a hook"
                    raise GradientError("hook", rule, repr(getattr(replaced, "spec", replaced)))
                grad = replaced
        return grad


def seed_for(root: Tensor, seed: Tensor | None) -> Tensor:
    """The gradient a walk starts with at `root`."""
    if seed is None:
        if root.spec.itemcount != 1:
            raise GradientError(
                "backward", "a gradient for a root of several elements", "none",
                hint="y.sum().backward(), or pass gradient=", y=root,
            )  # fmt: skip
        return ones_like(root)
    if seed.shape != root.shape:
        raise ShapeError("backward", "a gradient of the root's shape", seed.shape, y=root)
    if seed.dtype is not root.dtype:
        raise DTypeError("backward", "a gradient of the root's dtype", seed.dtype, y=root)
    return seed


def ones_like(x: Tensor) -> Tensor:
    """1 in the shape of x, on its device."""
    one = constant(1.0, x.dtype, x.device)
    if x.shape:
        one = OPS["broadcast_to"](one, shape=x.shape)
    # a cell of its own: the constant is shared
    return Tensor(one.array, one.node, one.index)


def reachable(roots: Sequence[Node]) -> tuple[list[Step], dict[Node, int]]:
    """Steps for the tracked op Nodes behind `roots`, earliest first; uses of each source."""
    seen: dict[Node, Step] = {}
    uses: dict[Node, int] = {}
    stack = [node for node in roots if not isinstance(node, Source)]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        inputs = node.inputs
        if inputs is None or is_spent(node):  # told before anybody has got a gradient
            raise used_up(node)
        needs = needs_of(node, inputs)
        leaves: list[Value] = []
        seen[node] = (node, needs, leaves)
        for value, need in zip(inputs, needs, strict=True):
            if not need or value is None:
                continue
            if type(value[0]) is Source:
                leaves.append(collected(value))
                source = leaves[-1][0]
                uses[source] = uses.get(source, 0) + 1
            else:
                stack.append(value[0])
    return sorted(seen.values(), key=_sequence), uses


def needs_of(node: Node, inputs: tuple[Value | None, ...]) -> Needs:
    """Which inputs want a gradient; one object for all equal applications."""
    if node.token is None:  # the eager tape has tracked inputs only
        flags = tuple([value is not None for value in inputs])
    else:
        flags = tuple([flows(value) for value in inputs])
    known = node.entry.needs
    if flags not in known:
        needs = known[flags] = Needs(flags)
        needs.specs, needs.outs = node.entry.in_specs, node.entry.specs
    found: Needs = known[flags]
    return found


def _sequence(step: Step) -> int:
    return step[0].sequence


def use_up(node: Node) -> None:
    """Free what a Node keeps. A recorded one stays, for the graph, but counts as used up too."""
    if node.token is None:
        node.strip()
        return
    recorder = MODE.get().recorder
    if recorder is not None:
        recorder.spent.add(node)


def is_spent(node: Node) -> bool:
    """True for a recorded Node that backward has been through."""
    if node.token is None:
        return False
    recorder = MODE.get().recorder
    return recorder is not None and node in recorder.spent


def used_up(node: Node) -> GradientError:
    """The error for a second backward through a Node."""
    return GradientError(
        "backward", "a tape that has not been used up",
        f"a second backward through {node.entry.op.name}", hint="retain_graph=True on the first",
    )  # fmt: skip


def kept(node: Node) -> list[Tensor]:
    """What the op's `keeps` names, as tensors whose history is the original one."""
    tensors = []
    for place, (is_out, i) in enumerate(node.entry.kept):
        if is_out:
            source, index = node, i
        else:
            value = node.inputs[i] if node.inputs else None
            source, index = value if value is not None else (None, 0)  # type: ignore[assignment]
        array = node.saved[place] if node.saved else None
        tensors.append(Tensor(array, source, index))
    return tensors


__all__ = ["backward", "gradients", "stream"]
