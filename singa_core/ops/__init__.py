"""Every operation and function of arrays: one line for each family.

A name that a family publishes in its `__all__` is public here.
"""

from singa_core.indexing import getitem as getitem  # also puts x[...] into the table of functions
from singa_core.ops.activation import *  # noqa: F403
from singa_core.ops.activation_composed import *  # noqa: F403
from singa_core.ops.activation_gelu import *  # noqa: F403
from singa_core.ops.activation_hard import *  # noqa: F403
from singa_core.ops.attention import *  # noqa: F403
from singa_core.ops.conv import *  # noqa: F403
from singa_core.ops.conv_transposed import *  # noqa: F403
from singa_core.ops.creation import *  # noqa: F403
from singa_core.ops.dropout import *  # noqa: F403
from singa_core.ops.elementwise import *  # noqa: F403
from singa_core.ops.elementwise_bounds import *  # noqa: F403
from singa_core.ops.elementwise_composed import *  # noqa: F403
from singa_core.ops.elementwise_logic import *  # noqa: F403
from singa_core.ops.elementwise_pairs import *  # noqa: F403
from singa_core.ops.elementwise_trig import *  # noqa: F403
from singa_core.ops.embedding import *  # noqa: F403
from singa_core.ops.fused import *  # noqa: F403
from singa_core.ops.indexing import *  # noqa: F403
from singa_core.ops.indexing_composed import *  # noqa: F403
from singa_core.ops.linalg import *  # noqa: F403
from singa_core.ops.linear import *  # noqa: F403
from singa_core.ops.loss import *  # noqa: F403
from singa_core.ops.loss_binary import *  # noqa: F403
from singa_core.ops.loss_classes import *  # noqa: F403
from singa_core.ops.loss_composed import *  # noqa: F403
from singa_core.ops.normalization import *  # noqa: F403
from singa_core.ops.normalization_batch import *  # noqa: F403
from singa_core.ops.normalization_layer import *  # noqa: F403
from singa_core.ops.optim import *  # noqa: F403
from singa_core.ops.optim_adam import *  # noqa: F403
from singa_core.ops.pooling import *  # noqa: F403
from singa_core.ops.pooling_mean import *  # noqa: F403
from singa_core.ops.random import *  # noqa: F403
from singa_core.ops.random_drawn import *  # noqa: F403
from singa_core.ops.reduction import *  # noqa: F403
from singa_core.ops.reduction_composed import *  # noqa: F403
from singa_core.ops.shape import *  # noqa: F403
from singa_core.ops.shape_composed import *  # noqa: F403
from singa_core.ops.shape_padding import *  # noqa: F403
from singa_core.ops.shape_regions import *  # noqa: F403
from singa_core.ops.together import *  # noqa: F403
from singa_core.optable import OPS

PRIMITIVES = tuple(sorted(n for n, op in OPS.items() if not (op.is_composite or op.is_view)))
"""What every backend owes a kernel for, in some language."""
