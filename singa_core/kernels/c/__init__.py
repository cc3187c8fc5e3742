"""The `c` language: kernels in a small C dialect, for devices that compile C as they run.

A kernel is a function from forms to `Call`s: text, geometry and numbers, without memory. A device
gives a `Target` to `target("c")`, which compiles a call and makes a launch of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from singa_core.kernels import Kernel, KernelTable, Launch, add_table
from singa_core.kernels.c.dialect import Call, Target
from singa_core.kernels.c.places import check_places
from singa_core.spec import AnyForm, Spec

CallsOf = Callable[..., Sequence[Call] | tuple[Sequence[Call], int] | None]


class CallTable(KernelTable):
    """A language whose kernels say which calls they are made of."""

    def __init__(self, language: str) -> None:
        super().__init__(language)
        self._calls: dict[Any, CallsOf] = {}

    def calls_of(self, kernel: Kernel) -> CallsOf:
        """The function that was registered, for kernels that are made of others."""
        return self._calls[kernel.prepare]

    def calls(self, op: str, *signatures: str, **options: Any) -> Callable[[CallsOf], CallsOf]:
        """Register `f(target, in_forms, out_specs, **attrs)`.

        It gives calls, or calls and the bytes of workspace they need (the last operand), or None to
        decline; so does a call with more arguments than the device takes. `options` are those of
        `prepared`.
        """

        def register(function: CallsOf) -> CallsOf:
            prepare = launched(function)
            self._calls[prepare] = function
            self.prepared(op, *signatures, **options)(prepare)
            return function

        return register


def launched(function: CallsOf) -> Callable[..., Any]:
    """Calls as a launch of the device that the target belongs to."""

    def prepare(
        target: Target, in_forms: Sequence[AnyForm], out_specs: Sequence[Spec], **attrs: Any
    ) -> Launch | tuple[Launch, int] | None:
        found = function(target, in_forms, out_specs, **attrs)
        if found is None:
            return None
        count = len(in_forms) + len(out_specs)
        made, nbytes = found if isinstance(found, tuple) else (found, None)
        if any(call.parameters > target.capabilities.parameters for call in made):
            return None
        check_places(made, in_forms, out_specs, workspace=nbytes is not None)
        if nbytes is not None:
            return target.launch(made, count + 1), nbytes
        return target.launch(made, count)

    return prepare


c = CallTable("c")
add_table(c)

from singa_core.kernels.c import (  # noqa: E402  (the table must exist before its families)
    activation,
    elementwise,
    fused,
    indexing,
    linalg,
    lines,
    loss,
    normalization,
    optim,
    pooling,
    random,
    reduction,
    shape,
    sorting,
    together,
)

__all__ = [
    "CallTable",
    "activation",
    "c",
    "elementwise",
    "fused",
    "indexing",
    "linalg",
    "lines",
    "loss",
    "normalization",
    "optim",
    "pooling",
    "random",
    "reduction",
    "shape",
    "sorting",
    "together",
]
