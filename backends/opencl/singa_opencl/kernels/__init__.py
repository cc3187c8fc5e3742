"""This backend's own kernels, asked before the shared ones of `singa_core.kernels.c`.

They are written like those: `@own.calls(op, "f32,f32->f32", strides=True)` over a function that
gives `Call`s (or calls and bytes of workspace, or None to decline). A call's text is OpenCL C after
the shared prelude, so it may use vectors and whatever else a driver has. Files are found by name.
"""

from __future__ import annotations

import importlib
import pkgutil

from singa_core.kernels import add_table
from singa_core.kernels.c import CallTable

LANGUAGE = "opencl"
own = CallTable(LANGUAGE)
add_table(own)

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
