"""A table of a model's layers: what each gives for some inputs, and what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from singa_core.arguments import outline
from singa_core.errors import ArgumentError
from singa_core.layer import Layer
from singa_core.mode import Mode, use_mode
from singa_core.recorder import Recorder
from singa_core.spec import Spec
from singa_core.tensor import Tensor

See = Callable[[str, Layer, Any, Any], None]
HEAD: Final = ("layer", "type", "output", "parameters", "bytes")
GAP: Final = "  "


@dataclass(frozen=True)
class Row:
    """One layer: its name, what it gave at its first call, and what it holds itself.

    Attributes:
        name: dotted; empty for the model.
        kind: class of the layer.
        output: shapes and dtypes, or why there are none.
        parameters: numbers in its own parameters; those of a shared one count where it is first.
        frozen: how many of them take no gradient.
        state: numbers in its own States.
        nbytes: of all these.
        calls: how often it was called.
    """

    name: str
    kind: str
    output: str
    parameters: int
    frozen: int
    state: int
    nbytes: int
    calls: int


def summary(model: Layer, inputs: Sequence[Any] | None = None) -> str:
    """A table of all layers: name, type, output, parameters, bytes; and totals.

    Nothing is computed and nothing changes: a model that was never called is as undecided as
    before.

    Args:
        model: any layer.
        inputs: one Placeholder, tensor or array for each input of `forward`; only shape and dtype
            count. May be left out where the model was compiled and knows them.

    Raises: ArgumentError for other inputs; what the layers raise for wrong shapes.

    >>> from singa_core import layers, tensor
    >>> print(summary(layers.Sequential(layers.Linear(3), layers.ReLU()), [tensor([[1.0, 2.0]])]))
    layer    type        output          parameters  bytes
    ------------------------------------------------------
    (model)  Sequential  float32 (1, 3)
    steps.0  Linear      float32 (1, 3)           9     36
    steps.1  ReLU        float32 (1, 3)
    ------------------------------------------------------
    9 parameters, 36 bytes
    """
    found = rows(model, inputs)
    cells = [
        (
            row.name or "(model)",
            row.kind,
            row.output + (f" x {row.calls}" if row.calls > 1 else ""),
            f"{row.parameters:,}" if row.parameters else "",
            f"{row.nbytes:,}" if row.nbytes else "",
        )
        for row in found
    ]
    widths = [max(len(line[i]) for line in [HEAD, *cells]) for i in range(len(HEAD))]
    rule = "-" * (sum(widths) + len(GAP) * (len(widths) - 1))
    body = [_line(row, widths) for row in cells]
    return "\n".join([_line(HEAD, widths), rule, *body, rule, _total(found)])


def _total(found: Sequence[Row]) -> str:
    """The last line."""
    parameters, frozen = sum(row.parameters for row in found), sum(row.frozen for row in found)
    state, nbytes = sum(row.state for row in found), sum(row.nbytes for row in found)
    total = f"{parameters:,} parameters"
    total += f" ({frozen:,} frozen)" if frozen else ""
    total += f", {state:,} numbers of state" if state else ""
    return f"{total}, {nbytes:,} bytes" + (
        f" ({nbytes / 2**20:.1f} MiB)" if nbytes >= 2**20 else ""
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Text to the left, numbers to the right."""
    texts = [text.ljust(width) for text, width in zip(cells[:3], widths[:3], strict=True)]
    numbers = [text.rjust(width) for text, width in zip(cells[3:], widths[3:], strict=True)]
    return GAP.join([*texts, *numbers]).rstrip()


def rows(model: Layer, inputs: Sequence[Any] | None = None) -> list[Row]:
    """What `summary` shows, layer by layer in the order of their names' walk."""
    specs = _specs(model, inputs)
    outputs: dict[str, list[str]] = {}

    def see(path: str, layer: Layer, given: Any, made: Any) -> None:
        outputs.setdefault(path, []).append(_text(made))

    take_back = undecided(model)
    try:
        recorder = Recorder(model._where())
        with use_mode(Mode(False, recorder)), observed(model, see):
            model(*[recorder.placeholder(spec) for spec in specs])
        seen: set[int] = set()
        return [
            _row(path, layer, outputs.get(path, []), seen)
            for path, layer in {"": model, **model.sublayers()}.items()
        ]
    finally:
        take_back()


def _row(path: str, layer: Layer, outputs: Sequence[str], seen: set[int]) -> Row:
    own = {id(cell): cell for _, cell in layer._own() if id(cell) not in seen}
    seen.update(own)
    sized = [cell for cell in own.values() if None not in cell.shape]
    trained = [cell for cell in sized if cell.trainable]
    return Row(
        path,
        type(layer).__name__,
        outputs[0] if outputs else "(not called)",
        sum(cell.spec.itemcount for cell in trained),
        sum(cell.spec.itemcount for cell in trained if not cell.requires_grad),
        sum(cell.spec.itemcount for cell in sized if not cell.trainable),
        sum(cell.spec.nbytes for cell in sized),
        len(outputs),
    )


def _specs(model: Layer, inputs: Sequence[Any] | None) -> list[Spec]:
    """What is known of the inputs."""
    if inputs is None:
        inputs = getattr(model, "input_specs", None)
        if inputs is None:
            hint = "summary(model, [Placeholder((batch, features))])"
            raise ArgumentError("summary", "inputs", "a model that was not compiled", hint=hint)
    if not isinstance(inputs, list | tuple):
        inputs = [inputs]
    specs = []
    for i, x in enumerate(inputs):
        spec = x if isinstance(x, Spec) else getattr(x, "spec", None)
        if spec is None and hasattr(x, "shape") and hasattr(x, "dtype"):
            spec = Spec(x.shape, x.dtype)
        if spec is None:
            got = f"{type(x).__name__} as input {i}"
            raise ArgumentError("summary", "placeholders, tensors or arrays", got)
        specs.append(spec)
    return specs


def _text(made: Any) -> str:
    """Specs in place of tensors."""
    if isinstance(made, Tensor):
        return str(made.spec)
    if isinstance(made, tuple | list | dict):
        shown = outline(made, lambda leaf: _Shown(_text(leaf)))
        return repr(shown)
    return type(made).__name__


class _Shown(str):
    """Text that shows itself without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def undecided(model: Layer) -> Callable[[], None]:
    """A function that takes back what a first call decides from now on."""
    cells = [cell for cell in model.get_states().values() if not cell.materialized]
    declared = [cell.declared for cell in cells]
    unready = [layer for layer in model.layers() if not layer._ready]

    def take_back() -> None:
        for layer in unready:
            object.__setattr__(layer, "_ready", False)
        for cell, shape in zip(cells, declared, strict=True):
            cell.forget(shape)

    return take_back


@contextmanager
def observed(model: Layer, see: See) -> Iterator[None]:
    """In the block, `see(path, layer, inputs, output)` follows every `forward` of a layer.

    Not for graphs that are recorded already: a replay calls no layers.
    """
    layers = {"": model, **model.sublayers()}
    own = [(layer, vars(layer).get("forward")) for layer in layers.values()]
    for path, layer in layers.items():
        # past the layer's own __setattr__: what is recorded stays valid
        object.__setattr__(layer, "forward", _telling(path, layer, see))
    try:
        yield
    finally:
        for layer, forward in own:
            object.__delattr__(layer, "forward")
            if forward is not None:
                object.__setattr__(layer, "forward", forward)


def _telling(path: str, layer: Layer, see: See) -> Callable[..., Any]:
    forward = layer.forward

    def told(*inputs: Any, **options: Any) -> Any:
        made = forward(*inputs, **options)
        see(path, layer, inputs, made)
        return made

    return told
