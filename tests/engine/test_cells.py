"""A result is a cell of its own, also where its value is an argument's: eager and recorded."""

import copy

import numpy as np
import pytest

from singa_core import layers, ops
from singa_core.autograd import gradients
from singa_core.conformance.cases import COMPOSITES, NAMES, cases, told, without_kernels
from singa_core.engine import graph
from singa_core.mode import no_grad
from singa_core.operation import Operation
from singa_core.optable import OPS
from singa_core.tensor import tensor

X = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
SAME = {
    "+x": lambda x: +x,
    "astype": lambda x: x.astype("float32"),
    "float": lambda x: x.float(),
    "to": lambda x: x.to(x.device),
    "clip": lambda x: x.clip(),
    "clip between": lambda x: x.clip(-9.0, 9.0),
    "dropout in evaluation": lambda x: ops.dropout(x, training=False),
    "dropout of none": lambda x: ops.dropout(x, p=0.0),
    "dropout layer": lambda x: layers.Dropout(0.5).eval()(x),
    "no layers": lambda x: layers.Sequential()(x),
    "roll": lambda x: ops.roll(x, 0, 0),
    "roll around": lambda x: ops.roll(x, (2, -3), (0, 1)),
    "sum_to": lambda x: ops.sum_to(x, (2, 3)),
    "sum over none": lambda x: x.sum(axis=()),
    "max over none": lambda x: x.max(axis=()),
    "squeeze": lambda x: x.squeeze(),
    "reshape": lambda x: x.reshape(2, 3),
    "view": lambda x: x.view(2, -1),
    "flatten": lambda x: x.flatten(0, 0),
    "unflatten": lambda x: ops.unflatten(x, 1, (3,)),
    "broadcast_to": lambda x: x.broadcast_to(2, 3),
    "permute": lambda x: x.permute(0, 1),
    "swapaxes": lambda x: x.swapaxes(1, 1),
    "moveaxis": lambda x: x.moveaxis(0, 0),
    "flip": lambda x: x.flip(()),
    "pad": lambda x: x.pad(0),
    "tile": lambda x: x.tile(1),
    "repeat": lambda x: x.repeat(1, 0),
    "x[:]": lambda x: x[:],
    "x[...]": lambda x: x[...],
    "concat": lambda x: ops.concat([x], axis=0),
    "split": lambda x: ops.split(x, 2)[0],
    "chunk": lambda x: ops.chunk(x, 1)[0],
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.contiguous(),
    "pow": lambda x: x**1,
    "tril": lambda x: ops.tril(x, k=9),
    "relu": lambda x: x.relu(),
    "where": lambda x: ops.where(tensor(True, device=x.device), x, 0.0),
    "lerp": lambda x: ops.lerp(x, x, 0.0),
    "linear": lambda x: ops.linear(x, ops.eye(3, device=x.device)),
    "avg_pool": lambda x: ops.avg_pool(x.reshape(1, 1, 2, 3), kernel=(1, 1)).reshape(2, 3),
}  # fmt: skip
OF_INTEGERS = {name: getattr(ops, name) for name in ("floor", "ceil", "round", "trunc")}
MADE = {
    "plain": lambda array, x: array(x),
    "leaf": lambda array, x: array(x, requires_grad=True),
    "taped": lambda array, x: array(x, requires_grad=True) * 1.0,
    "integer": lambda array, x: array(x, "int64"),
}


def walk(*kinds):
    """Every function of the same value, with every kind of tensor that it takes."""
    pairs = [(name, f, kind) for name, f in SAME.items() for kind in kinds]
    pairs += [(name, f, "integer") for name, f in OF_INTEGERS.items()]
    return [pytest.param(f, kind, id=f"{name}-{kind}") for name, f, kind in pairs]


@pytest.mark.parametrize(("function", "kind"), walk("plain", "leaf", "taped"))
def test_assigning_to_either_leaves_the_other_alone(array, function, kind):
    for assigned in (0, 1):
        x = MADE[kind](array, X)
        y = function(x)
        assert y is not x
        assert y.tolist() == X.tolist()
        cell, other = (x, y) if assigned == 0 else (y, x)
        with no_grad():
            cell.assign(cell * 0.0 if kind != "integer" else cell * 0)
        assert other.tolist() == X.tolist()
        assert cell.tolist() == (X * 0).tolist()


@pytest.mark.parametrize(("function", "kind"), walk("plain", "leaf"))
def test_in_a_recording_too(array, function, kind):
    def into_x(x):
        y = function(x)
        with no_grad():
            x.assign(x * 0)
        return y

    def into_y(x):
        y = function(x)
        with no_grad():
            y.assign(y * 0)
        return y

    for recorded, result, left in ((into_x, X, X * 0), (into_y, X * 0, X)):
        for through in ("argument", "cell"):
            x = MADE[kind](array, X)
            step = graph(recorded)
            if through == "cell":  # the argument only says which device
                step = graph(lambda _, f=recorded, x=x: f(x))
            for _ in range(2):
                y = step(x if through == "argument" else array(0.0))
                assert y is not x
                assert y.tolist() == result.tolist()
                assert x.tolist() == left.tolist()
                with no_grad():
                    x.assign(array(X, x.dtype))


@pytest.mark.parametrize("name", SAME)
def test_gradients_go_through(array, name):
    x = array(X, requires_grad=True)
    y = SAME[name](x)
    assert not y.is_leaf
    assert gradients((y * 2.0).sum(), x).tolist() == (np.ones_like(X) * 2.0).tolist()
    with no_grad():
        y.assign(y * 0.0)
    assert not y.requires_grad


@pytest.mark.parametrize("name", NAMES)
def test_no_op_gives_an_argument_back(device, name):
    for case in cases(name, device, only=("float32", "int64", "bool")):
        with told(case):
            for hidden in (False, True) if name in COMPOSITES else (False,):
                if hidden:
                    with without_kernels(frozenset({name}), device):
                        check_apart(case, device)
                else:
                    check_apart(case, device)


def check_apart(case, device):
    for wanted in (False, True):
        xs = case.tensors(device)
        for x in xs:
            x.requires_grad = wanted and x.dtype.is_floating
        ys = case.call(device, *xs)
        for y in ys:
            assert not any(y is x for x in xs)


def test_an_op_whose_decomposition_gives_its_argument_back(array):
    class Same(Operation):
        name = "test_same"

        def infer(self, x):
            return x, x

        def forward(self, x):
            return x, x

    try:
        same = Same()
        x = array(X, requires_grad=True)
        a, b = same(x)
        assert len({id(t) for t in (x, a, b)}) == 3
        with no_grad():
            assert same(x)[0] is not x
        a, b = graph(same)(x.detach())
        assert a.tolist() == b.tolist() == X.tolist()
    finally:
        OPS.pop("test_same")


def test_a_deep_copy_and_gradients_are_cells_of_their_own(array):
    a, b = array(X, requires_grad=True), array(X, requires_grad=True)
    seed = array(X)
    da, db = gradients(a + b, [a, b], seed)
    assert len({id(t) for t in (da, db, seed)}) == 3
    da.assign(da * 0.0)
    assert db.tolist() == seed.tolist() == X.tolist()
    twin = copy.deepcopy(a)
    with no_grad():
        twin.assign(twin * 0.0)
    assert a.tolist() == X.tolist()
