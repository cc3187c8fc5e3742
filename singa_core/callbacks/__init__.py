"""What happens beside the steps of a training: bars, logs, files, and reasons to end it."""

from singa_core.callbacks.base import Callback as Callback
from singa_core.callbacks.decide import EarlyStopping as EarlyStopping
from singa_core.callbacks.decide import ReduceOnPlateau as ReduceOnPlateau
from singa_core.callbacks.guard import NaNFound as NaNFound
from singa_core.callbacks.guard import NaNGuard as NaNGuard
from singa_core.callbacks.keep import Checkpoint as Checkpoint
from singa_core.callbacks.show import JsonlLog as JsonlLog
from singa_core.callbacks.show import ProgressBar as ProgressBar
