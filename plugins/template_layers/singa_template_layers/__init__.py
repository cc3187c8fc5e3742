"""Two layers for singa-core: `Squash` and `Snake`."""

from singa_template_layers.layers import Snake as Snake
from singa_template_layers.layers import Squash as Squash
from singa_template_layers.ops import snake as snake
from singa_template_layers.ops import squash as squash
