"""Small layers that several tests use."""

from singa_core import Layer, Parameter, State
from singa_core.errors import ShapeError
from singa_core.layers import Linear


class Scale(Layer):
    """x * factor + offset; the size comes with the first input."""

    def __init__(self, fail=False):
        self.factor = Parameter((None,), "ones")
        self.offset = Parameter((None,), "zeros")
        self.seen = State((), "zeros")
        self.fail = fail

    def initialize(self, x):
        self.factor.set_shape(x.shape[-1:])
        self.offset.set_shape(x.shape[-1:])

    def forward(self, x):
        if self.fail:
            raise ShapeError("scale", "a good day", "a bad one")
        self.seen.assign(self.seen + 1.0)
        return x * self.factor + self.offset


class Block(Layer):
    def __init__(self, fail=False):
        self.first, self.second = Scale(fail), Linear(2)

    def forward(self, x):
        return self.second(self.first(x))


def contents(layer):
    """Names and values of all state; None for what has no value yet."""
    states = layer.get_states()
    return {name: cell.tolist() if cell.materialized else None for name, cell in states.items()}
