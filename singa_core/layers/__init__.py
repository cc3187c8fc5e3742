"""The layers, one line per family."""

from singa_core.layers.container import Sequential as Sequential
from singa_core.layers.embedding import Embedding as Embedding
from singa_core.layers.functional import GELU as GELU
from singa_core.layers.functional import Dropout as Dropout
from singa_core.layers.functional import Flatten as Flatten
from singa_core.layers.functional import Lambda as Lambda
from singa_core.layers.functional import LeakyReLU as LeakyReLU
from singa_core.layers.functional import LogSoftmax as LogSoftmax
from singa_core.layers.functional import ReLU as ReLU
from singa_core.layers.functional import Reshape as Reshape
from singa_core.layers.functional import Sigmoid as Sigmoid
from singa_core.layers.functional import SiLU as SiLU
from singa_core.layers.functional import Softmax as Softmax
from singa_core.layers.functional import Tanh as Tanh
from singa_core.layers.linear import Linear as Linear
