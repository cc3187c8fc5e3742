"""What users read when something is wrong: one template, few classes.

    <op or layer>: needs <rule as code>, got <values>
      <operand>: <dtype> <shape> <device>
    try: <one action>

Everything is checked first; a raised error has changed nothing (`StateLost` says when it has).
"""

from __future__ import annotations

from collections.abc import Sequence


class SingaError(Exception):
    """Base of every error this package raises on purpose.

    `where` is the op, function or layer that complains; `within` the path of the layer that the
    error came through, outermost first. Both are part of the message.
    """

    where: str = ""
    within: str = ""

    def text(self) -> str:
        """The message without the layer's line."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.text()}\n  in {self.within}" if self.within else self.text()


class _RuleError(SingaError):
    """A broken rule: `where` needs `rule`, got `got`; operands and a hint as extra lines."""

    def __init__(
        self, where: str, rule: str, got: object, *, hint: str | None = None, **operands: object
    ) -> None:
        self.where, self.rule, self.got, self.hint = where, rule, got, hint
        self.operands = operands
        super().__init__(where, rule, got)

    def text(self) -> str:
        lines = [f"{self.where}: needs {self.rule}, got {self.got}"]
        lines += [f"  {name}: {describe(value)}" for name, value in self.operands.items()]
        if self.hint:
            lines.append(f"try: {self.hint}")
        return "\n".join(lines)


def describe(value: object) -> str:
    """`<dtype> <shape> <device>` of a tensor or spec, else its repr."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return repr(value)
    try:
        device = getattr(value, "device", None)
    except SingaError:  # a symbolic tensor lives nowhere once its recording has ended
        device = None
    return f"{dtype} {shape}" + (f" {device}" if device is not None else "")


def told_by(error: SingaError, name: str) -> None:
    """Put the name of the function that was called before that of the one which complains."""
    if error.where and name not in error.where.split(", "):
        error.where = f"{name}, {error.where}"


class ShapeError(_RuleError, ValueError):
    """Shapes, axes or sizes that do not fit the rule."""


class DTypeError(_RuleError, TypeError):
    """An element type that the rule excludes."""


class DeviceError(_RuleError, ValueError):
    """Operands on different devices, or a device that does not exist."""


class ArgumentError(_RuleError, ValueError):
    """An argument (a rate, a name, a probability) outside what the rule allows."""


class OutOfRange(_RuleError, IndexError):
    """An index or a label outside its axis."""


class GradientError(_RuleError, RuntimeError):
    """backward() where there is no path, a freed tape, or a changed leaf."""


class RecordingError(_RuleError, RuntimeError):
    """Host code wants a value that does not exist while a graph is recorded."""


class ReplayError(_RuleError, RuntimeError):
    """Arguments that a recorded graph cannot be replayed with."""


class KernelMissing(SingaError, NotImplementedError):
    """No kernel and no decomposition for this op and these types on this device."""

    def __init__(
        self, op: str, dtypes: Sequence[str], device: object, tried: Sequence[str], hint: str = ""
    ) -> None:
        self.op, self.dtypes, self.device, self.tried, self.hint = op, dtypes, device, tried, hint
        super().__init__(op, dtypes, device, tried, hint)

    def text(self) -> str:
        tried = "; ".join(self.tried) if self.tried else "no kernel language has this op"
        text = f"{self.op}: no kernel for ({', '.join(self.dtypes)}) on {self.device}; {tried}"
        return f"{text}\ntry: {self.hint}" if self.hint else text


class PluginError(SingaError):
    """A backend or plugin that cannot be used: which one, at which stage, and why.

    `stage` is one of metadata, manifest, handshake, probe, import, init for a backend; of metadata,
    import, handshake, hooks, ops, kernels, events for a plugin.
    """

    def __init__(
        self,
        plugin: str,
        stage: str,
        reason: str,
        *,
        distribution: str | None = None,
        hint: str | None = None,
        what: str = "backend",
    ) -> None:
        self.plugin, self.stage, self.reason = plugin, stage, reason
        self.distribution, self.hint, self.what = distribution, hint, what
        super().__init__(plugin, stage, reason)

    def text(self) -> str:
        owner = f" ({self.distribution})" if self.distribution else ""
        text = f"{self.what} {self.plugin!r}{owner}: {self.stage}: {self.reason}"
        return f"{text}\ntry: {self.hint}" if self.hint else text


class BackendNotFound(PluginError, LookupError):
    """No installed backend has this name, or none is installed at all."""

    def text(self) -> str:
        text = f"backend {self.plugin!r}: {self.reason}"
        return f"{text}\ntry: {self.hint}" if self.hint else text


class OutOfDeviceMemory(SingaError, MemoryError):
    """An allocation the device cannot serve; nothing was changed.

    `requested` is 0 where a launch found no room for what the driver had promised before.
    """

    def __init__(
        self,
        device: object,
        requested: int,
        in_use: int,
        capacity: int | None,
        largest: int | None = None,
    ) -> None:
        self.device, self.requested = device, requested
        self.in_use, self.capacity, self.largest = in_use, capacity, largest
        super().__init__(device, requested, in_use, capacity, largest)

    def text(self) -> str:
        if self.largest is not None and self.requested > self.largest:
            return (
                f"{self.device}: needs {self.requested} bytes in one buffer, "
                f"{self.largest} bytes at most\ntry: smaller tensors"
            )
        limit = "unknown" if self.capacity is None else f"{self.capacity} bytes"
        needs = f"needs {self.requested} bytes" if self.requested else "needs more"
        return (
            f"{self.device}: out of memory: {needs}, "
            f"{self.in_use} bytes in use, capacity {limit}\n"
            "try: a smaller batch, or drop tensors that are no longer needed"
        )


class DeviceFailure(SingaError, RuntimeError):
    """The device or its driver failed while it worked; the message names the cause."""


class StateLost(SingaError, RuntimeError):
    """State had begun to be overwritten when something failed: it is neither old nor new."""

    def __init__(self, told: str, hint: str | None = None) -> None:
        self.told = told
        self.hint = hint or (
            "load the last checkpoint with include_state=True, or assign every parameter, every "
            "State and every slot of the optimiser again"
        )
        super().__init__(told, hint)

    def text(self) -> str:
        return f"{self.told}\ntry: {self.hint}"
