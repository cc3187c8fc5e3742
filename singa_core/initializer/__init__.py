"""Initial values of parameters: random numbers drawn on the host, and the rules that scale them.

An initialiser is `init(shape, random) -> array`. Layers take one by name ("he_normal"), made here
(`he_normal(negative_slope=0.1)`), as a function of the shape, as a number or as an array.
"""

from singa_core.initializer.draws import HostRandom as HostRandom
from singa_core.initializer.named import NAMES as NAMES
from singa_core.initializer.named import InitializerLike as InitializerLike
from singa_core.initializer.named import as_initializer as as_initializer
from singa_core.initializer.named import constant as constant
from singa_core.initializer.named import eye as eye
from singa_core.initializer.named import glorot_normal as glorot_normal
from singa_core.initializer.named import glorot_uniform as glorot_uniform
from singa_core.initializer.named import he_normal as he_normal
from singa_core.initializer.named import he_uniform as he_uniform
from singa_core.initializer.named import lecun_normal as lecun_normal
from singa_core.initializer.named import lecun_uniform as lecun_uniform
from singa_core.initializer.named import normal as normal
from singa_core.initializer.named import ones as ones
from singa_core.initializer.named import orthogonal as orthogonal
from singa_core.initializer.named import truncated_normal as truncated_normal
from singa_core.initializer.named import uniform as uniform
from singa_core.initializer.named import zeros as zeros
from singa_core.initializer.rules import Initializer as Initializer
from singa_core.initializer.rules import VarianceScaling as VarianceScaling
from singa_core.initializer.rules import fans as fans
