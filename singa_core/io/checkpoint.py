"""Saved models: parameters, and what it takes to go on training, in one file.

`state.safetensors` holds every parameter and State under its dotted name, and the tensors of each
optimiser under `optimizers.<attribute>.<slot>.<parameter>`; the manifest holds what is no tensor:
counters, random streams, other names of shared parameters, and what the user gave. There is no
pickle, and no word about devices: what one backend wrote, any other reads.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from singa_core.errors import ArgumentError, DTypeError, ShapeError, SingaError
from singa_core.io import container
from singa_core.io.container import FileDamaged
from singa_core.io.names import aliases, attributes, canonical
from singa_core.layer import Layer
from singa_core.opt.optimizer import Optimizer
from singa_core.parameter import Parameter, fitting
from singa_core.random import restore_streams, stream_states
from singa_core.scalars import Counter
from singa_core.spec import Spec
from singa_core.tensor import Tensor

Path = str | os.PathLike[str]
Host = npt.NDArray[Any]

TENSORS: Final = "state.safetensors"
SHOWN: Final = 8  # names of one sort in a message

_DTYPES: Final[dict[str, npt.DTypeLike]] = {
    "BOOL": np.bool_, "U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64,
    "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64,
    "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32, "F64": np.float64,
}  # fmt: skip


class CheckpointWarning(UserWarning):
    """Something about a saved model that a user should know."""


@dataclass(frozen=True)
class Report:
    """What `load` found in a file.

    Attributes:
        missing: names that the model has and the file has not; they kept their values.
        unexpected: names that the file has and the model has not.
        misshapen: name -> why its value does not fit; the model kept its own.
        cast: name -> from and to which dtype its values were converted.
        state: what `save` was given as `state`.
        manifest: everything else that is not a tensor.
    """

    path: str
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    misshapen: Mapping[str, str] = field(default_factory=dict)
    cast: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def exact(self) -> bool:
        """True if file and model have the same names, shapes and dtypes."""
        return not (self.missing or self.unexpected or self.misshapen or self.cast)

    def __str__(self) -> str:
        if self.exact:
            return f"{self.path}: every name fits"
        sorts = {
            "not in the file": self.missing,
            "not in the model": self.unexpected,
            "misshapen": [f"{name} ({why})" for name, why in self.misshapen.items()],
            "converted": [f"{name} ({why})" for name, why in self.cast.items()],
        }
        lines = [f"  {sort}: {_some(names)}" for sort, names in sorts.items() if names]
        return "\n".join([f"{self.path}: file and model differ", *lines])


class Mismatch(SingaError, ValueError):
    """A file that does not fit the model, where `strict` asked for one that does."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(report)


# -- saving ----------------------------------------------------------------------------------------


def save(model: Layer, path: Path, state: Mapping[str, Any] | None = None) -> None:
    """Write a model and all its training state to a file, in place of what is there.

    Args:
        model: any layer; optimisers and counters are found among the attributes of all layers.
        path: of the file.
        state: what else is to come back: JSON, such as `{"loader": loader.state()}`. Tuples come
            back as lists.

    Raises:
        ArgumentError: for parameters without a value, or a state that JSON cannot hold.
        StateLost: if a parameter was lost.
        NotSaved: if the file cannot be written; what was there before is untouched.
    """
    cells = model.get_states()
    undecided = [name for name, cell in cells.items() if not cell.materialized]
    if undecided:
        raise ArgumentError(
            "save", "parameters that have a value", _some(undecided), hint="compile the model first"
        )
    manifest: dict[str, Any] = {"state": plain("state", state or {})}
    manifest["aliases"] = aliases(model)
    specs = getattr(model, "input_specs", None)
    if specs is not None:
        manifest["inputs"] = [{"shape": list(s.shape), "dtype": s.dtype.name} for s in specs]
    tensors: dict[str, Tensor] = dict(cells)
    manifest["optimizers"] = {}
    for name, optimizer in attributes(model, Optimizer).items():  # type: ignore[type-abstract]
        manifest["optimizers"][name] = _take_apart(name, optimizer, model, tensors)
    manifest["counters"] = {name: c.value for name, c in attributes(model, Counter).items()}
    manifest["random"] = stream_states()
    container.write(path, manifest, {TENSORS: pack(tensors)})


def _take_apart(
    name: str, optimizer: Optimizer, model: Layer, tensors: dict[str, Tensor]
) -> dict[str, Any]:
    """Put an optimiser's tensors among the others; give what the manifest says of it."""
    about: dict[str, Any] = {"type": type(optimizer).__name__, "numbers": {}, "tensors": {}}
    for key, value in sorted(optimizer.get_states(model.get_params()).items()):
        if not isinstance(value, Tensor):
            about["numbers"][key] = plain(f"{name}.{key}", value)
            continue
        full = f"optimizers.{name}.{key}"
        if full in tensors:
            raise ArgumentError("save", "no parameter named like an optimiser's state", full)
        tensors[full], about["tensors"][key] = value, full
    return about


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors as the bytes of a safetensors file."""
    from safetensors.numpy import save as to_bytes  # noqa: PLC0415  (only who saves needs it)

    # C order by force: the writer takes the memory as it lies, whatever its strides
    hosts = {name: np.asarray(cell.numpy(), order="C") for name, cell in tensors.items()}
    data: bytes = to_bytes(hosts)
    return data


def unpack(path: Path, data: bytes) -> dict[str, Host]:
    """The arrays in the bytes of a safetensors file. Raises: FileDamaged if they are none."""
    from safetensors import deserialize  # noqa: PLC0415  (only who loads needs it)

    try:
        found = {
            name: np.frombuffer(about["data"], _DTYPES[about["dtype"]]).reshape(about["shape"])
            for name, about in deserialize(data)  # type: ignore[no-untyped-call]
        }
    except Exception as error:  # a class of its own, and what NumPy and dict say
        raise FileDamaged(path, TENSORS, f"{type(error).__name__}: {error}") from error
    return dict(sorted(found.items()))


def plain(where: str, value: Any) -> Any:
    """A value as JSON will give it back. Raises: ArgumentError for what it cannot hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(f"{where}[{key!r}]", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(f"{where}[{i}]", item) for i, item in enumerate(value)]
    got = "keys that are no text" if isinstance(value, Mapping) else f"a {type(value).__name__}"
    raise ArgumentError("save", f"numbers, text, lists and dicts in {where}", got)


# -- loading ---------------------------------------------------------------------------------------


def load(model: Layer, path: Path, include_state: bool = False, strict: bool = False) -> Report:
    """Give a model the parameters and States of a file; before `compile` or after.

    Everything is read and checked before anything changes.

    Args:
        model: a layer like the one that was saved. Names that only one side has, and values that do
            not fit, are left alone, with a warning that lists them.
        path: of the file.
        include_state: restore optimisers, counters and random streams as well, to go on training.
        strict: raise, instead of a warning.

    Raises:
        Mismatch: if strict, and the file does not fit; nothing has changed then.
        FileDamaged, FormatTooNew: for files that cannot be used; nothing has changed then.
        OSError: where there is no such file.
    """
    manifest, members = container.read(path)
    if TENSORS not in members:
        raise FileDamaged(path, TENSORS, "it is not in the file")
    found = _Match(model, os.fspath(path), manifest, unpack(path, members[TENSORS]))
    found.states()
    if include_state:
        found.training()
    report = found.report()
    if strict and not report.exact:
        raise Mismatch(report)
    found.apply()
    if "inputs" in manifest and getattr(model, "input_specs", manifest) is None:
        specs = tuple(Spec(about["shape"], about["dtype"]) for about in manifest["inputs"])
        object.__setattr__(model, "input_specs", specs)  # known, as if it were compiled
    if not report.exact:
        warnings.warn(str(report), CheckpointWarning, stacklevel=2)
    return report


class _Match:
    """What of a file goes where in a model: decided first, applied after."""

    def __init__(
        self, model: Layer, path: str, manifest: Mapping[str, Any], tensors: dict[str, Host]
    ) -> None:
        self.model, self.path, self.manifest = model, path, manifest
        self.optimizers = dict(manifest.get("optimizers", {}))
        apart = {name for about in self.optimizers.values() for name in about["tensors"].values()}
        self.tensors = tensors
        self.names = [name for name in tensors if name not in apart]
        self.values: dict[str, Host] = {}
        self.slots: list[tuple[Optimizer, dict[str, Any]]] = []
        self.counts: list[tuple[Counter, int]] = []
        self.streams: dict[str, Any] = {}
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.misshapen: dict[str, str] = {}
        self.cast: dict[str, str] = {}

    def states(self) -> None:
        """Parameters and States, by any of their names on either side."""
        cells = self.model.get_states()
        ours, theirs = aliases(self.model), self.manifest.get("aliases", {})
        sources: dict[str, str] = {}  # name in the model -> name in the file
        for name in self.names:
            sources.setdefault(canonical(name, ours), name)
        sources |= {name: name for name in self.names if name in cells}
        for name in cells:
            other = canonical(name, theirs)
            if name not in sources and other in self.names:
                sources[name] = other
        for name, cell in cells.items():
            if name not in sources:
                self.missing.append(name)
            elif self._fits(name, self.tensors[sources[name]], cell):
                self.values[name] = self.tensors[sources[name]]
        used = {sources[name] for name in cells if name in sources}
        for name in self.names:
            twin = sources.get(canonical(name, ours))
            if name not in used and not (twin in used and self._equal(name, str(twin))):
                self.unexpected.append(name)

    def _equal(self, a: str, b: str) -> bool:
        """True if two tensors of the file are the same bits: one parameter then, shared here."""
        x, y = self.tensors[a], self.tensors[b]
        return (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())

    def _fits(self, name: str, host: Host, cell: Parameter) -> bool:
        try:
            fitting(name, host, cell.shape, cell.dtype)
        except (ShapeError, DTypeError) as error:
            self.misshapen[name] = f"needs {error.rule}, got {error.got}"
            return False
        if host.dtype != cell.dtype.numpy:
            self.cast[name] = f"{host.dtype} to {cell.dtype}"
        return True

    def training(self) -> None:
        """Optimisers, counters and random streams."""
        for name, optimizer in attributes(self.model, Optimizer).items():  # type: ignore[type-abstract]
            if name in self.optimizers:
                self._slots(name, optimizer, self.optimizers.pop(name))
            else:
                self.missing.append(f"optimizers.{name}")
        self.unexpected += [f"optimizers.{name}" for name in self.optimizers]
        counts = dict(self.manifest.get("counters", {}))
        for name, counter in attributes(self.model, Counter).items():
            if name in counts:
                self.counts.append((counter, counts.pop(name)))
            else:
                self.missing.append(name)
        self.unexpected += counts
        self.streams = self.manifest.get("random", {})

    def _slots(self, name: str, optimizer: Optimizer, about: Mapping[str, Any]) -> None:
        """What of an optimiser's state fits one of the model's."""
        params = self.model.get_params()
        states: dict[str, Any] = dict(about["numbers"])
        ours, theirs = aliases(self.model), self.manifest.get("aliases", {})
        for key, full in about["tensors"].items():
            slot, _, path = key.partition(".")
            param = canonical(path, ours)
            if param not in params:  # by another name that it had there
                param = next((p for p in params if canonical(p, theirs) == path), path)
            known = slot in optimizer.slots and param in params
            if not known:
                self.unexpected.append(full)
            elif not params[param].materialized and param not in self.values:
                self.unexpected.append(full)  # of a parameter that will have no value
            elif self._fits(full, self.tensors[full], params[param]):
                states[f"{slot}.{param}"] = self.tensors[full]
        self.slots.append((optimizer, states))

    def report(self) -> Report:
        return Report(
            self.path,
            tuple(self.missing),
            tuple(self.unexpected),
            self.misshapen,
            self.cast,
            self.manifest.get("state", {}),
            self.manifest,
        )

    def apply(self) -> None:
        self.model.set_states(self.values)
        for optimizer, states in self.slots:
            optimizer.set_states(states, self.model.get_params())
        for counter, count in self.counts:
            counter.value = count
        restore_streams(self.streams)


def _some(names: Any) -> str:
    """The first of many names."""
    shown = list(names)
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(shown[:SHOWN]) + more
