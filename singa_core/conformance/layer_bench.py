"""The bench on which `check_layer` puts a layer: one layer, its inputs, one device."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from singa_core.arguments import outline
from singa_core.autograd import gradients
from singa_core.conformance.tolerances import GRADIENT
from singa_core.device import Device
from singa_core.dtype import as_dtype
from singa_core.engine import graph
from singa_core.errors import ArgumentError, SingaError
from singa_core.layer import Layer
from singa_core.mode import execute_once, no_grad
from singa_core.model import Model, Placeholder
from singa_core.random import STREAMS, manual_seed
from singa_core.registry import registry
from singa_core.spec import Spec
from singa_core.storage import from_host
from singa_core.tensor import Tensor, tensor

Host = npt.NDArray[Any]
STEP = 1e-5  # of a difference in float64: its error is of the order of STEP**2 and 1e-16 / STEP
RTOL, ATOL = 1e-6, 1e-8  # of a gradient against a difference
ROUNDING = 1e-4  # of float32 against float64, beside the largest value
SAME = 1e-5  # of a replay against eager: the same bits, unless a backend fuses
CALLS = 3  # of a replay, each with the state that the last one has left


MODES = {  # name: (layer in training mode, a tape)
    "inference": (False, False),
    "evaluation": (False, True),
    "training": (True, True),
}


class LayerFault(SingaError, AssertionError):
    """A promise that a layer does not keep."""


@dataclass
class LayerReport:
    """What `check_layer` has checked: comparisons by kind, devices, and backends left out."""

    layer: str
    devices: tuple[str, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)
    checks: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        checks = ", ".join(f"{kind} {n}" for kind, n in self.checks.items())
        left = "".join(f"; without {name} ({why})" for name, why in self.skipped.items())
        return f"{self.layer} on {', '.join(self.devices)}: {checks}{left}"


class _Held(Model):
    """A model of nothing but the layer: what can be compiled and saved."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer

    def forward(self, *inputs: Any) -> Any:
        return self.layer(*inputs)


@dataclass
class _Run:
    """What one step gave, on the host."""

    outputs: list[Host]
    gradients: dict[str, Host | None]
    states: dict[str, Host]
    drawn: int  # blocks of random numbers


@dataclass
class Bench:
    """A layer, its inputs and a device."""

    make: Callable[[], Layer]
    hosts: list[Host]
    device: Device
    seed: int
    report: LayerReport
    seen: dict[tuple[str, str], _Run] = field(default_factory=dict)  # by mode and float

    # -- making it ---------------------------------------------------------------------------------

    def fresh(self, *, training: bool = False, wide: bool = False) -> Layer:
        """A new layer with its first weights, and streams at their start."""
        manual_seed(self.seed)
        layer = self.make()
        if not isinstance(layer, Layer):
            raise ArgumentError("check_layer", "a function that makes a Layer", repr(layer))
        self.report.layer = type(layer).__name__
        layer.to(self.device).eval()
        with no_grad():
            layer(*self.inputs())
        if wide:
            widen(layer, self.device)
        manual_seed(self.seed)
        return layer.train(training)

    def weighted(self, outputs: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Float outputs with random weights of both signs: no error of a gradient cancels out."""
        rng, pairs = np.random.default_rng(self.seed + 2), []
        for y in outputs:
            if y.dtype.is_floating:
                host = rng.uniform(0.5, 1.5, y.shape) * rng.choice([-1.0, 1.0], y.shape)
                with execute_once():  # no constant of a recording
                    pairs.append((y, tensor(host, dtype=y.dtype, device=self.device)))
        return pairs

    def inputs(self, *, wide: bool = False, track: bool = False) -> list[Tensor]:
        """The inputs on the device."""
        made = []
        for host in self.hosts:
            floating = as_dtype(host.dtype).is_floating
            values = host.astype(np.float64) if wide and floating else host
            made.append(tensor(values, device=self.device, requires_grad=track and floating))
        return made

    def fault(self, promise: str, rule: str, got: object) -> LayerFault:
        """The error for a broken promise."""
        name, where = self.report.layer, self.device
        return LayerFault(f"check_layer({name}), {promise} on {where}: needs {rule}, got {got}")

    # -- shapes, modes, files ----------------------------------------------------------------------

    def shapes(self, expected: Any) -> None:
        """The outputs' shapes, with data and without."""
        layer = self.fresh()
        with no_grad():
            made = [y.spec for y in self.outputs(layer(*self.inputs()))]
        if expected is not None:
            several = bool(expected) and isinstance(expected[0], tuple)
            wanted = [tuple(e) for e in (expected if several else [expected])]
            got = [spec.shape for spec in made]
            if got != wanted:
                told = (", ".join(map(str, shapes)) for shapes in (wanted, got))
                raise self.fault("shape of the output", *told)
        manual_seed(self.seed)
        model = _Held(self.make())
        specs = [Spec(host.shape, host.dtype) for host in self.hosts]
        model.compile([Placeholder(s.shape, s.dtype, device=self.device) for s in specs])
        self.same("first weights by compile", states(model.layer), states(layer), exact=True)
        with no_grad():
            again = [y.spec for y in self.outputs(model.eval()(*self.inputs()))]
        if again != made:
            told = (", ".join(map(str, specs)) for specs in (made, again))
            raise self.fault("output of a compiled model", *told)
        self.report.checks["shapes"] += 1

    def modes(self) -> None:
        """Evaluation changes nothing and gives the same; training gives the same shapes."""
        layer = self.fresh()
        before = states(layer)
        with no_grad():
            first, second = (self.numbers(layer(*self.inputs())) for _ in range(2))
            self.same("two calls in evaluation mode", second, first, exact=True)
            self.same("state after a call in evaluation mode", states(layer), before, exact=True)
            trained = self.numbers(layer.train()(*self.inputs()))
            layer.set_states(before)
            self.same(
                "evaluation after training", self.numbers(layer.eval()(*self.inputs())), first
            )
        for name, shape in shapes_of(first).items():
            got = shapes_of(trained).get(name)
            if got != shape:
                raise self.fault(f"{name} in training mode", f"{shape} as in evaluation", got)
        self.report.checks["modes"] += 1

    def files(self) -> None:
        """Saved and loaded, and copied."""
        model = _Held(self.fresh())
        with no_grad():
            wanted = self.numbers(model(*self.inputs()))
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "layer.singa"
                model.save(path)
                manual_seed(self.seed + 1)
                loaded = _Held(self.make()).to(self.device).eval()
                loaded.load(path)
            self.same("saved and loaded", self.numbers(loaded(*self.inputs())), wanted, exact=True)
            twin = self.make().to(self.device).eval()
            twin(*self.inputs())
            twin.set_states(model.layer.get_states())
            self.same("set_states", self.numbers(twin(*self.inputs())), wanted, exact=True)
        self.report.checks["files"] += 1

    # -- steps -------------------------------------------------------------------------------------

    def step(self, layer: Layer, tape: bool) -> Callable[..., Any]:
        """Outputs and, with a tape, gradients as a function of the inputs."""

        def run(*xs: Tensor) -> Any:
            if not tape:  # here a kernel serves what else is decomposed
                with no_grad():
                    return tuple(self.outputs(layer(*xs))), ()
            outputs = self.outputs(layer(*xs))
            loss: Any = sum((y * w).sum() for y, w in self.weighted(outputs))
            wanted = list(targets(layer, xs).values())
            tracked = isinstance(loss, Tensor) and loss.requires_grad and wanted
            slopes = gradients(loss, wanted, allow_unused=True) if tracked else []
            return tuple(outputs), tuple(slopes)

        return run

    def runs(self, layer: Layer, step: Callable[..., Any], count: int, *, wide: bool) -> list[_Run]:
        """Steps, one after the other."""
        found = []
        for _ in range(count):
            at = sum(stream.position for stream in STREAMS.values())
            xs = self.inputs(wide=wide, track=True)
            outputs, slopes = step(*xs)
            names = list(targets(layer, xs)) if slopes else []
            grads = {
                name: None if g is None else g.numpy()
                for name, g in zip(names, slopes, strict=True)
            }
            drawn = sum(stream.position for stream in STREAMS.values()) - at
            found.append(_Run([y.numpy() for y in outputs], grads, states(layer), drawn))
        return found

    def recorded(self, mode: str) -> None:
        """Eager and recorded."""
        training, tape = MODES[mode]
        eager, replayed = (self.fresh(training=training) for _ in range(2))
        wanted = self.runs(eager, self.step(eager, tape), CALLS, wide=False)
        manual_seed(self.seed)
        made = self.runs(replayed, graph(self.step(replayed, tape)), CALLS, wide=False)
        for n, (got, want) in enumerate(zip(made, wanted, strict=True), 1):
            title = f"recorded against eager, {mode}, call {n}"
            self.same(f"{title}: outputs", numbered(got.outputs), numbered(want.outputs), SAME)
            self.same(f"{title}: gradients", got.gradients, want.gradients, SAME)
            self.same(f"{title}: state", got.states, want.states, SAME)
        self.report.checks["eager == graph"] += CALLS

    def against_float64(self, mode: str) -> None:
        """Gradients against differences, and float32 against float64."""
        training, tape = MODES[mode]
        bench = self
        if as_dtype("float64") not in self.device.capabilities.dtypes:
            bench = Bench(self.make, self.hosts, registry.resolve("cpu"), self.seed, self.report)
        layer = bench.fresh(training=training, wide=True)
        (wide,) = bench.runs(layer, bench.step(layer, tape), 1, wide=True)
        bench.differences(mode, wide)
        layer = self.fresh(training=training)
        (run,) = self.runs(layer, self.step(layer, tape), 1, wide=False)
        self.seen[mode, "float32"] = run
        if bench is self:
            self.seen[mode, "float64"] = wide
        if run.drawn == wide.drawn:  # else the numbers drawn are others
            title = f"float32 against float64, {mode}"
            self.same(f"{title}: outputs", numbered(run.outputs), numbered(wide.outputs), ROUNDING)
            self.same(f"{title}: gradients", run.gradients, wide.gradients, ROUNDING)
            self.report.checks["float32 == float64"] += 1

    def against(self, other: Bench) -> None:
        """This device against another one, on what both have computed."""
        for key in [key for key in other.seen if key in self.seen]:
            (mode, dtype), got, want = key, self.seen[key], other.seen[key]
            if got.drawn != want.drawn:
                continue
            title = f"against {other.device} in {dtype}, {mode}"
            allowed = ROUNDING if dtype == "float32" else GRADIENT[dtype]
            self.same(f"{title}: outputs", numbered(got.outputs), numbered(want.outputs), allowed)
            self.same(f"{title}: gradients", got.gradients, want.gradients, allowed)
            self.same(f"{title}: state", got.states, want.states, allowed)
            self.report.checks["device == device"] += 1

    def differences(self, mode: str, run: _Run) -> None:
        """Each gradient along a random direction against a difference."""
        (training, _), rng = MODES[mode], np.random.default_rng(self.seed + 1)
        for name, slope in run.gradients.items():
            if slope is None:
                if training and not name.startswith("input "):
                    raise self.fault(f"gradient of {name}, {mode}", "one in training", "none")
                continue
            direction = rng.uniform(-1, 1, slope.shape)
            up, scale = self.value(training, name, direction * STEP)
            down, _ = self.value(training, name, direction * -STEP)
            difference, taped = (up - down) / (2 * STEP), float((slope * direction).sum())
            if abs(difference - taped) > RTOL * max(abs(difference), abs(taped)) + ATOL * scale:
                rule = f"{difference:.9g}, the difference along a random direction"
                raise self.fault(f"gradient of {name}, {mode}", rule, f"{taped:.9g}")
            self.report.checks["gradients"] += 1

    def value(self, training: bool, name: str, by: Host) -> tuple[float, float]:
        """The loss in float64 with one target moved, and the size of what is summed in it."""
        layer = self.fresh(training=training, wide=True)
        xs = self.inputs(wide=True)
        if name.startswith("input "):
            n = int(name.removeprefix("input "))
            xs[n] = tensor(np.asarray(xs[n].numpy() + by), device=self.device)
        else:
            layer.set_params({name: layer.get_params()[name].numpy() + by})
        with no_grad():
            pairs = self.weighted(self.outputs(layer(*xs)))
            terms = [y.numpy() * w.numpy() for y, w in pairs]
        return float(sum(t.sum() for t in terms)), float(sum(np.abs(t).sum() for t in terms))

    # -- comparing ---------------------------------------------------------------------------------

    def outputs(self, made: Any) -> list[Tensor]:
        """The tensors in what a layer gives."""
        found: list[Tensor] = []
        outline(made, lambda leaf: found.append(leaf) if isinstance(leaf, Tensor) else None)
        if not found:
            raise self.fault("output", "a Tensor, or a tuple, list or dict of them", repr(made))
        return found

    def numbers(self, made: Any) -> dict[str, Host]:
        """The outputs on the host."""
        return numbered([y.numpy() for y in self.outputs(made)])

    def same(
        self, promise: str, got: Any, wanted: Any, tolerance: float = SAME, *, exact: bool = False
    ) -> None:
        """Raises: LayerFault unless two dicts of arrays agree.

        A difference is measured by the largest value of all: one of them may be zero but for what
        is rounded, as the gradient of a bias before a softmax.
        """
        if list(got) != list(wanted):
            names = (", ".join(some) or "nothing" for some in (wanted, got))
            raise self.fault(promise, *names)
        scale = max([size(want) for want in wanted.values() if want is not None], default=0.0)
        for name, want in wanted.items():
            have, where = got[name], f"{promise}, {name}"
            if (have is None) != (want is None):
                raise self.fault(where, "the same", f"{have} and {want}")
            if want is None:
                continue
            if have.shape != want.shape:
                raise self.fault(where, f"shape {want.shape}", have.shape)
            far = distance(have, want, max(scale, 1e-3))
            if far > (0.0 if exact else tolerance):
                rule = "equal numbers" if exact else f"a difference of at most {tolerance:g}"
                raise self.fault(where, rule, f"{far:.3g} beside the largest value")


def size(array: Host) -> float:
    """The largest finite value."""
    wide = np.abs(array.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=0.0))


def distance(have: Host, want: Host, scale: float) -> float:
    """The largest difference beside `scale`, 0 for equal arrays (NaN with NaN)."""
    a, b = have.astype(np.float64), want.astype(np.float64)
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    finite = np.isfinite(b)
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / scale


def numbered(arrays: Sequence[Host]) -> dict[str, Host]:
    """Arrays under the names `output 0`, `output 1`, ..."""
    return {f"output {i}": array for i, array in enumerate(arrays)}


def shapes_of(arrays: dict[str, Host]) -> dict[str, str]:
    """Dtypes and shapes, for messages."""
    return {name: f"{array.dtype} {array.shape}" for name, array in arrays.items()}


def states(layer: Layer) -> dict[str, Host]:
    """All parameters and States on the host."""
    return {name: cell.numpy().copy() for name, cell in layer.get_states().items()}


def targets(layer: Layer, xs: Sequence[Tensor]) -> dict[str, Tensor]:
    """What may want a gradient: inputs and parameters, by name."""
    inputs = {f"input {i}": x for i, x in enumerate(xs) if x.requires_grad}
    return inputs | {n: p for n, p in layer.get_params().items() if p.requires_grad}


def widen(layer: Layer, device: Device) -> None:
    """Make all floating parameters and States float64, in place."""
    wide = as_dtype("float64")
    for cell in layer.get_states().values():
        if cell.dtype.is_floating and cell.dtype is not wide:
            host = np.asarray(cell.numpy(), np.float64)
            cell._dtype = wide
            cell.take(from_host(device, host, Spec(host.shape, wide)))
