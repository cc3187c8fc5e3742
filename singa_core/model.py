"""Model: a Layer that can be compiled: its forward and its training step become graphs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

from singa_core.arguments import arrays_on, first_device
from singa_core.checks import check_flag
from singa_core.device import Device
from singa_core.dtype import DTypeLike, as_dtype
from singa_core.engine import GraphFunction
from singa_core.errors import ArgumentError, DeviceError, ShapeError, SingaError
from singa_core.layer import Layer, place
from singa_core.mode import MODE, Mode, use_mode
from singa_core.passes import ALGORITHMS
from singa_core.recorder import Recorder
from singa_core.spec import Spec, check_shape, check_size
from singa_core.tensor import Tensor, as_device

_PLAIN = {Tensor}


class Placeholder:
    """Shape and dtype of an input that `compile` does not need to see.

    Args:
        shape: all sizes; the batch's may be another one later, each is recorded on its own.
        dtype: element type.
        device: where the input will be; None for the model's own device, or the default.

    >>> Placeholder((64, 784))
    Placeholder(float32 (64, 784))
    """

    def __init__(
        self, shape: Sequence[int], dtype: DTypeLike = "float32", device: Device | str | None = None
    ) -> None:
        if isinstance(shape, list | tuple) and any(size is None for size in shape):
            hint = "the size of a usual batch: others are recorded on their own"
            raise ShapeError("Placeholder", "all sizes", repr(shape), hint=hint)
        sizes, kind = check_shape("Placeholder", shape), as_dtype(dtype, "Placeholder")
        check_size("Placeholder", sizes, kind)
        self.spec = Spec(sizes, kind)
        self.device = None if device is None else as_device(device)

    def __repr__(self) -> str:
        where = f" {self.device}" if self.device is not None else ""
        return f"Placeholder({self.spec}{where})"


class _Graphs:
    """How a compiled model records, and what it has recorded."""

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm
        self.functions: dict[tuple[str, Callable[..., Any], Device], GraphFunction] = {}

    def __deepcopy__(self, memo: object) -> _Graphs:
        return _Graphs(self.algorithm)  # a copy of the model records anew


class _Weakly:
    """A method of a model that does not keep the model: the model keeps its graphs."""

    def __init__(self, method: Callable[..., Any], model: Model) -> None:
        self.method, self.model = method, weakref.ref(model)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.method(self.model(), *args, **options)


LOADER = "a loader of both, such as singa_core.data.ArrayLoader(x, labels, batch_size=32)"


def late(module: str, name: str, hint: str | None = None) -> Callable[..., Any]:
    """A method that is a function of a module which nobody needs before it is called.

    It raises ArgumentError for arguments that the function does not have; `hint` is for those who
    gave arrays.
    """

    def method(self: Any, *args: Any, **options: Any) -> Any:
        function = getattr(import_module(module), name)
        try:
            return function(self, *args, **options)
        except TypeError as error:
            form = signature(function)
            try:
                form.bind(self, *args, **options)
            except TypeError as misfit:
                rule = f"{name}({', '.join([*form.parameters][1:])})"
                arrays = any(isinstance(x, np.ndarray | Tensor) for x in args)
                told = hint if arrays else None
                got = str(misfit).removeprefix("got ")
                raise ArgumentError(name, rule, got, hint=told) from error
            raise

    method.__name__, method.__doc__ = name, f"See `{module}.{name}`."
    return method


class Model(Layer):
    """A layer with a training step, whose work is recorded as graphs once `compile` was called.

    A subclass defines `forward` and, to train, `train_one_batch`: any code over tensors, with as
    many inputs, losses and optimisers as it likes. Without one of its own, a model with the
    attributes `loss` (a function of output and target) and `optimizer` uses a default step.

    Calling the model is `forward`. In evaluation mode or under `no_grad` it is replayed from a
    graph and its result has no history; otherwise it runs eagerly, so that a gradient can be taken
    outside.

    NumPy arrays among the arguments of a call or a step become tensors on the model's device.
    """

    loss: Callable[..., Tensor] | None = None
    optimizer: Callable[[Tensor], None] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        owner = next(base for base in cls.__mro__ if "train_one_batch" in base.__dict__)
        if owner is cls or not issubclass(owner, Model):  # a step of its own, or of a mix-in
            cls.train_one_batch = _through_graph(cls.train_one_batch)  # type: ignore[method-assign]

    def train_one_batch(self, x: Any, target: Any) -> Any:
        """One training step: forward, loss, backward, update. Gives (output, loss)."""
        return self._graphed("train_one_batch", Model._default_step, (x, target), {})

    def _default_step(self, x: Any, target: Any) -> Any:
        check_function(self, "loss", self.loss)
        check_function(self, "optimizer", self.optimizer)
        output = self(x)
        loss = self.loss(output, target)  # type: ignore[misc]  # functions, both
        self.optimizer(loss)  # type: ignore[misc]
        return output, loss

    # -- a training in one call, and files; each is documented where it is defined -----------------

    fit = late("singa_core.training", "fit", LOADER)
    evaluate = late("singa_core.evaluation", "evaluate", LOADER)
    predict = late("singa_core.evaluation", "predict")
    summary = late("singa_core.summary", "summary")
    save = late("singa_core.io.checkpoint", "save")
    load = late("singa_core.io.checkpoint", "load")

    # -- graphs ------------------------------------------------------------------------------------

    def compile(
        self,
        inputs: Sequence[Any],
        *,
        is_train: bool = True,
        use_graph: bool = True,
        graph_alg: str = "memory",
    ) -> Model:
        """Learn sizes from the shapes of `inputs`, initialise, switch graphs on; without data.

        Args:
            inputs: one Placeholder, tensor or array for each input of `forward`; only shape, dtype
                and device count.
            is_train: leave the model in training mode, else in evaluation mode.
            use_graph: record and replay `train_one_batch` and `forward`; else all runs eagerly.
            graph_alg: "memory" (lowest peak) or "sequence" (recorded order).

        What was recorded before is dropped. What has a value already, given or loaded, moves to the
        inputs' device as by `to`; an optimiser's state follows it.

        Raises: ArgumentError for other values of graph_alg or other inputs; DeviceError for inputs
            on several devices; what the layers raise for wrong shapes. Nothing has changed then.
        """
        if graph_alg not in ALGORITHMS:
            raise ArgumentError(
                "compile", f"graph_alg among {', '.join(ALGORITHMS)}", repr(graph_alg)
            )
        check_flag("compile", "is_train", is_train)
        check_flag("compile", "use_graph", use_graph)
        if not isinstance(inputs, list | tuple):
            raise ArgumentError("compile", "a list of inputs", type(inputs).__name__)
        specs, device = _specs(inputs)
        recorder = Recorder(device or self._where())
        back = self._move(recorder.device)
        modes = [(layer, layer.training) for layer in self.layers()]
        self.train(is_train)
        try:
            with use_mode(Mode(MODE.get().grad, recorder)):
                self(*[recorder.placeholder(spec) for spec in specs])
        except BaseException:
            back()
            for layer, training in modes:
                layer.training = training
            raise
        object.__setattr__(self, "_graphs", _Graphs(graph_alg) if use_graph else None)
        object.__setattr__(self, "input_specs", tuple(specs))
        return self

    _graphs: _Graphs | None = None
    input_specs: tuple[Spec, ...] | None = None  # what it was compiled for

    def _graphed(self, name: str, method: Callable[..., Any], args: Any, options: Any) -> Any:
        """Run a method: through its graph if graphs are on, unless something records already."""
        mode = MODE.get()
        try:
            if mode.recorder is not None:
                return method(self, *args, **options)
            if not options and {*map(type, args)} == _PLAIN:  # the common case, at each replay
                device = args[0].device
            else:
                device = first_device((args, options)) or self._where()
                args, options = arrays_on(device, (args, options))
            if self._graphs is None:
                return method(self, *args, **options)
            functions, key = self._graphs.functions, (name, method, device)
            if key not in functions:
                functions[key] = GraphFunction(
                    _Weakly(method, self),
                    device=device,
                    fingerprint=_Weakly(type(self).fingerprint, self),
                    graph_alg=self._graphs.algorithm,
                )
            return functions[key](*args, **options)
        except BaseException as error:
            # an interrupt may come where a block is left, and keep it from going back to this mode
            MODE.set(mode)
            if isinstance(error, SingaError):
                place(error, self)
            raise

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if self._graphs is None or MODE.get().recorder is not None or self._wants_history(inputs):
            return super().__call__(*inputs, **options)
        return self._graphed("forward", Layer.__call__, inputs, options)

    def _wants_history(self, inputs: Sequence[Any]) -> bool:
        """True where somebody may take a gradient of the result."""
        if not MODE.get().grad:
            return False
        return self.training or any(isinstance(x, Tensor) and x.requires_grad for x in inputs)

    def graph_report(self) -> list[Mapping[str, Any]]:
        """For each recorded graph: how its instructions are served, and what memory it takes.

        `recorded` instructions become `instructions` (`lowered`: those recorded that the device has
        no kernel for), of which `views` take no time and the others are `launches`: `native` ones
        of the device's kernels, `copies` among them, and `host` ones elsewhere. `operations` counts
        launches by operation; what was made one launch of several is told with its members:
        `fused[mul, add x2]` (scalar operations), `together[sgd_step x4]` (updates of state).
        `served` names each launch. `updates` of state are made, `in_place_updates` over the old
        values.

        Bytes: `planned_peak` of temporaries and workspaces; `live_bound`, below which no plan in
        this order can go; `eager_peak`, the least that the same operations take when each is run at
        once; `bytes`, all that the graph holds: the plan, results, constants and scalars. State is
        in none of them. The plan is shared with other graphs of the device.
        """
        functions = {} if self._graphs is None else self._graphs.functions
        return [
            {"function": name, "device": device.name, **recording.report()}
            for (name, _, device), function in functions.items()
            for recording in function.recordings
        ]


def check_function(model: Model, name: str, value: Any) -> None:
    """Raises: ArgumentError for a loss or an optimiser that is none, a name of one, or a class."""
    where, use = type(model).__name__, f"the attribute {name!r}"
    if value is None:
        raise ArgumentError(
            where, f"{use} for the default train_one_batch", "none",
            hint=f"set model.{name}, or define train_one_batch",
        )  # fmt: skip
    if isinstance(value, type):
        rule = f"an object as {use}"
        raise ArgumentError(where, rule, f"the class {value.__name__}", hint=f"{value.__name__}()")
    if not callable(value):
        hint = "singa_core.ops.mse_loss" if name == "loss" else "singa_core.opt.Adam(0.001)"
        raise ArgumentError(where, f"a function as {use}", repr(value), hint=hint)


def _through_graph(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def train_one_batch(self: Model, *args: Any, **options: Any) -> Any:
        return self._graphed("train_one_batch", method, args, options)

    return train_one_batch


def _specs(inputs: Sequence[Any]) -> tuple[list[Spec], Device | None]:
    """What compile needs to know of its inputs."""
    specs: list[Spec] = []
    devices: list[Device] = []
    for i, x in enumerate(inputs):
        if isinstance(x, Placeholder | Tensor):
            specs.append(x.spec)
            if x.device is not None:
                devices.append(x.device)
            if devices and devices[-1] is not devices[0]:
                rule = f"all inputs on {devices[0]}"
                raise DeviceError("compile", rule, f"input {i} on {devices[-1]}")
        elif hasattr(x, "shape") and hasattr(x, "dtype"):
            specs.append(Spec(x.shape, x.dtype))
        else:
            raise ArgumentError(
                "compile", "placeholders, tensors or arrays", f"{type(x).__name__} as input {i}",
                hint="Placeholder((batch, features))",
            )  # fmt: skip
    return specs, devices[0] if devices else None
