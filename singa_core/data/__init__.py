"""Data: arrays in batches, and real digits without a download."""

from singa_core.data.digits import Dataset as Dataset
from singa_core.data.digits import DatasetInfo as DatasetInfo
from singa_core.data.digits import load_mnist_5k as load_mnist_5k
from singa_core.data.loader import ArrayLoader as ArrayLoader
from singa_core.data.loader import permutation as permutation
from singa_core.data.loader import train_test_split as train_test_split
