"""Optimisers and learning-rate schedules."""

from singa_core.opt.adam import Adam as Adam
from singa_core.opt.adam import AdamW as AdamW
from singa_core.opt.adaptive import Adagrad as Adagrad
from singa_core.opt.adaptive import RMSprop as RMSprop
from singa_core.opt.clip import clip_by_norm as clip_by_norm
from singa_core.opt.clip import clip_by_value as clip_by_value
from singa_core.opt.optimizer import Optimizer as Optimizer
from singa_core.opt.schedule import Constant as Constant
from singa_core.opt.schedule import Cosine as Cosine
from singa_core.opt.schedule import Exponential as Exponential
from singa_core.opt.schedule import OneCycle as OneCycle
from singa_core.opt.schedule import Piecewise as Piecewise
from singa_core.opt.schedule import Polynomial as Polynomial
from singa_core.opt.schedule import StepDecay as StepDecay
from singa_core.opt.schedule import WarmUp as WarmUp
from singa_core.opt.sgd import SGD as SGD
