"""Data: arrays in batches, and real digits, colours and text without a download."""

from singa_core.data.colour_digits import load_colour_digits as load_colour_digits
from singa_core.data.digits import Dataset as Dataset
from singa_core.data.digits import DatasetInfo as DatasetInfo
from singa_core.data.digits import load_mnist_5k as load_mnist_5k
from singa_core.data.loader import ArrayLoader as ArrayLoader
from singa_core.data.loader import permutation as permutation
from singa_core.data.loader import train_test_split as train_test_split
from singa_core.data.text import load_king_james as load_king_james
from singa_core.data.windows import WindowLoader as WindowLoader
