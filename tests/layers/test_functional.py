import math
import re
from pathlib import Path

import numpy as np
import pytest

from checks import both, random
from singa_core import Layer, graph, layers, ops, tensor
from singa_core import random as streams
from singa_core.errors import ArgumentError, ShapeError
from singa_core.layers import (
    GELU,
    Dropout,
    Flatten,
    Lambda,
    LeakyReLU,
    Linear,
    LogSoftmax,
    ReLU,
    Reshape,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)

E = math.e
BY_HAND = {
    "relu": (ReLU(), [-2.0, 0.0, 3.0], [0.0, 0.0, 3.0]),
    "leaky": (LeakyReLU(), [-2.0, 3.0], [-0.02, 3.0]),
    "leakier": (LeakyReLU(0.5), [-2.0, 3.0], [-1.0, 3.0]),
    "sigmoid": (Sigmoid(), [0.0, 1.0], [0.5, E / (1 + E)]),
    "tanh": (Tanh(), [0.0, 1.0], [0.0, (E * E - 1) / (E * E + 1)]),
    "silu": (SiLU(), [0.0, 1.0], [0.0, E / (1 + E)]),
    "gelu": (GELU(), [0.0, 1.0], [0.0, 0.8413447460685429]),  # Phi(1)
    "gelu tanh": (GELU("tanh"), [0.0, 1.0], [0.0, 0.841191990607477]),
    "softmax": (Softmax(), [[0.0, 1.0], [2.0, 2.0]], [[1 / (1 + E), E / (1 + E)], [0.5, 0.5]]),
    "softmax of columns": (Softmax(0), [[0.0, 1.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]),
    "log softmax": (LogSoftmax(), [2.0, 2.0], [-math.log(2), -math.log(2)]),
    "flatten": (Flatten(), [[[1.0, 2.0], [3.0, 4.0]]], [[1.0, 2.0, 3.0, 4.0]]),
    "flatten late": (Flatten(2), [[[[1.0], [2.0]]]], [[[1.0, 2.0]]]),
    "reshape": (Reshape((2, -1)), [[1.0, 2.0, 3.0, 4.0]], [[[1.0, 2.0], [3.0, 4.0]]]),
    "lambda": (Lambda(lambda x: x * 2.0 + 1.0), [1.0], [3.0]),
}
REPRS = {
    ReLU(): "ReLU()", LeakyReLU(0.25): "LeakyReLU(slope=0.25)", GELU("tanh"): "GELU(approximate='tanh')",
    Softmax(1): "Softmax(axis=1)", Flatten(2): "Flatten(start_axis=2)", Reshape((2, 3)): "Reshape((2, 3))",
    Dropout(0.1): "Dropout(p=0.1)", Lambda(ops.exp): "Lambda(exp)", Lambda(len): "Lambda(len)",
    Lambda(Linear(2)): "Lambda(\n  (function): Linear(2, in_features=None, bias=True)\n)",
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_values_by_hand(array, name):
    layer, x, want = BY_HAND[name]
    y = both(layer, array(x))
    assert y.shape == np.shape(want)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", REPRS, ids=lambda layer: type(layer).__name__)
def test_reprs_show_how_it_was_made(layer):
    assert repr(layer) == REPRS[layer]


def test_layers_without_parameters_have_none():
    for layer, _, _ in BY_HAND.values():
        assert layer.get_states() == {}


def test_every_layer_of_the_package_is_tried_here_or_in_a_file_of_its_own():
    public = {v for v in vars(layers).values() if isinstance(v, type) and issubclass(v, Layer)}
    here = {type(layer) for layer, _, _ in BY_HAND.values()} | {Dropout}
    assert {layer for layer in public - here if not has_tests_of_its_own(layer)} == set()


def has_tests_of_its_own(layer):
    """True if a test file of the layer's family (`conv` has test_conv.py) makes one."""
    family = layer.__module__.rpartition(".")[2]
    files = set(Path(__file__).parent.glob("test_*.py")) - {Path(__file__)}
    texts = [
        path.read_text(encoding="utf-8")
        for path in files
        if family.startswith(path.stem.removeprefix("test_"))
    ]
    return any(re.search(rf"\b{layer.__name__}\(", text) for text in texts)


# -- dropout ---------------------------------------------------------------------------------------


def test_dropout_zeros_a_share_and_scales_the_rest(array):
    layer, x = Dropout(0.25), array(np.ones(4000, np.float32))
    y = both_draws(layer, x)
    values, numbers = np.unique(y, return_counts=True)
    np.testing.assert_allclose(values, [0.0, 4 / 3], rtol=1e-6)
    assert abs(numbers[0] / 4000 - 0.25) < 0.03
    assert layer.eval()(x).tolist() == x.tolist()


def both_draws(layer, x):
    """The mask of a seed, the same eager and recorded, and others in the next calls."""
    streams.manual_seed(5)
    eager = [layer(x).numpy() for _ in range(3)]
    streams.manual_seed(5)
    function = graph(lambda x: layer(x))
    recorded = [function(x).numpy() for _ in range(3)]
    assert [y.tobytes() for y in recorded] == [y.tobytes() for y in eager]
    assert len({y.tobytes() for y in eager}) == 3
    return eager[0]


def test_masks_are_the_same_on_every_device():
    def masks(device):
        streams.manual_seed(2)
        return Dropout(0.5)(tensor(random(33, 7), device=device)).numpy().tobytes()

    assert masks("cpu_numpy") == masks("far")


@pytest.mark.parametrize(("p", "want"), [(0.0, [1.0] * 8), (1.0, [0.0] * 8), (0, [1.0] * 8)])
def test_dropout_of_nothing_and_of_all(array, p, want):
    assert both(Dropout(p), array(np.ones(8, np.float32))).tolist() == want


def test_a_rate_set_later_is_checked_by_the_operation(array):
    layer = Dropout(0.5)
    layer.p = 1.5
    with pytest.raises(
        ArgumentError, match=r"dropout: needs a number 0 <= p <= 1, got 1.5(.*\n)*  in Dropout$"
    ):
        layer(array([1.0]))


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [-0.1, 1.5, math.nan, math.inf, True, "0.5", None])
def test_rates_that_are_none(p):
    with pytest.raises(ArgumentError, match="^Dropout: needs a number 0 <= p <= 1, got "):
        Dropout(p)
    assert Dropout(np.float64(0.5)).p == 0.5


@pytest.mark.parametrize("slope", [-0.1, math.nan, math.inf, "1", None])
def test_slopes_that_are_none(slope):
    with pytest.raises(ArgumentError, match="^LeakyReLU: needs a number 0 <= slope < inf, got "):
        LeakyReLU(slope)


@pytest.mark.parametrize(("make", "text"), [
    (lambda: Reshape(3), r"^Reshape: needs the sizes after the first axis, got 3\ntry: Reshape\(\(3,\)\)$"),
    (lambda: Reshape("ab"), r"^Reshape: needs the sizes after the first axis, got 'ab'$"),
    (lambda: Lambda(3), "^Lambda: needs a function, got 3$"),
    (lambda: Lambda(ReLU), r"^Lambda: needs a function, got the class ReLU\ntry: ReLU\(...\)$"),
])  # fmt: skip
def test_arguments_that_are_none(make, text):
    with pytest.raises(ArgumentError, match=text):
        make()


@pytest.mark.parametrize(("layer", "error", "text"), [
    (Softmax(2), ShapeError, r"softmax: needs -2 <= axis < 2, got 2"),
    (LogSoftmax(-3), ShapeError, r"log_softmax: needs -2 <= axis < 2, got -3"),
    (Flatten(2), ShapeError, r"flatten: needs -2 <= axis < 2, got 2"),
    (Reshape((5,)), ShapeError, r"reshape: needs .*, got "),
])  # fmt: skip
def test_what_an_operation_refuses_comes_with_the_layer(array, layer, error, text):
    with pytest.raises(error, match=rf"^{text}(.*\n)*  in {type(layer).__name__}$"):
        layer(array(random(2, 3)))


def test_lambda_passes_options_on(array):
    layer = Lambda(lambda x, *, by: x * by)
    assert layer(array([2.0]), by=3.0).tolist() == [6.0]
    assert Lambda(Linear(1, weight_init="ones"))(array([[2.0]])).tolist() == [[2.0]]
    assert list(Lambda(Linear(1)).get_params()) == ["function.weight", "function.bias"]


def test_formulas_that_gelu_has_not():
    with pytest.raises(ArgumentError, match="^GELU: needs approximate among none, tanh, got 'erf'"):
        GELU("erf")
