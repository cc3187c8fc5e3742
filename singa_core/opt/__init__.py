"""Optimisers and learning-rate schedules."""

from singa_core.opt.adam import Adam as Adam
from singa_core.opt.adam import AdamW as AdamW
from singa_core.opt.optimizer import Optimizer as Optimizer
from singa_core.opt.sgd import SGD as SGD
