"""Native kernels: those that beat the shared ones, mostly by writing into a given output.

A kernel is `launch(*ins, *outs)` on ndarrays. The language `array` serves everything else.
"""

from singa_core.kernels import table

LANGUAGE = "numpy"
numpy = table(LANGUAGE)

from singa_cpu_numpy.kernels import (  # noqa: E402  (the table must exist before its families)
    activation,
    conv,
    elementwise,
    indexing,
    linalg,
    linear,
    loss,
    normalization,
    normalization_batch,
    normalization_layer,
    optim,
    pooling,
    random,
    reduction,
    shape,
)

__all__ = [
    "LANGUAGE",
    "activation",
    "conv",
    "elementwise",
    "indexing",
    "linalg",
    "linear",
    "loss",
    "normalization",
    "normalization_batch",
    "normalization_layer",
    "numpy",
    "optim",
    "pooling",
    "random",
    "reduction",
    "shape",
]
