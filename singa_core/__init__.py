"""singa-core: a deep-learning framework that you can hold.

>>> import singa_core as sc
>>> x = sc.tensor([[1.0, 2.0]])
>>> (x @ x.T).tolist()
[[5.0]]

Three names here are functions, and modules too: `device`, `tensor` and `update`. The functions hide
the modules, so take what is in these with `from singa_core.device import Device`.
"""

from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import NoReturn as _NoReturn

from singa_core import layers as layers
from singa_core import ops as ops
from singa_core import opt as opt
from singa_core.autograd import backward as backward
from singa_core.autograd import gradients as gradients
from singa_core.device import Device as Device
from singa_core.dtype import ALL as _DTYPES
from singa_core.dtype import DType as DType
from singa_core.engine import graph as graph
from singa_core.layer import Layer as Layer
from singa_core.mode import enable_grad as enable_grad
from singa_core.mode import execute_once as execute_once
from singa_core.mode import grad_enabled as grad_enabled
from singa_core.mode import no_grad as no_grad
from singa_core.mode import recording as recording
from singa_core.model import Model as Model
from singa_core.model import Placeholder as Placeholder
from singa_core.operation import Operation as Operation
from singa_core.parameter import Parameter as Parameter
from singa_core.parameter import State as State
from singa_core.plugins import packs
from singa_core.profiling import profile as profile
from singa_core.random import manual_seed as manual_seed
from singa_core.registry import registry as _registry
from singa_core.scalars import Counter as Counter
from singa_core.scalars import scalar as scalar
from singa_core.spec import Spec as Spec
from singa_core.storage import synchronize as synchronize
from singa_core.tensor import Tensor as Tensor
from singa_core.tensor import as_device
from singa_core.tensor import tensor as tensor
from singa_core.update import update as update

__version__ = "0.1.0"

_registry.on_open.append(packs.serve)


def device(name: str | None = None) -> Device:
    """The device of a name: "<backend>[:index]", "cpu", "gpu", "auto", or None for the default.

    Raises: BackendNotFound, PluginError, DeviceError.
    """
    return as_device(name)


if not _TYPE_CHECKING:  # to a type checker, no name is missing where there is this function

    def __getattr__(name: str) -> _NoReturn:
        """Tell where a name is that others have at their front door: `singa_core.ops.zeros`."""
        told = f"module {__name__!r} has no attribute {name!r}"
        for home in (ops, layers, opt):
            if not isinstance(getattr(home, name, home), _ModuleType):
                told += f"; try: {home.__name__}.{name}"
        if any(name == dtype.name for dtype in _DTYPES):
            told += f"; try: dtype={name!r}"
        raise AttributeError(told, name=name)
