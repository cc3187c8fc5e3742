"""What singa-core asks this pack; the entry point in `pyproject.toml` names this module."""

from typing import TYPE_CHECKING, cast

from singa_core.kernels import KernelTable
from singa_core.plugins import Ops, hookimpl
from singa_template_layers import kernels
from singa_template_layers.ops import snake, squash

if TYPE_CHECKING:
    from singa_core.kernels.c import CallTable

singa_api = (1, 0)  # the interface this was written for


@hookimpl
def singa_register_ops(ops: Ops) -> None:
    """Name the operations, once."""
    ops.add(snake, squash)


@hookimpl
def singa_register_kernels(language: str, table: KernelTable) -> None:
    """Add kernels, once for each language that an opened device speaks."""
    if language == "array":
        kernels.add_array_kernels(table)
    elif language == "c":
        kernels.add_c_kernels(cast("CallTable", table))
