"""The three operations of a convolution on numbers of their own, for the tests of backends."""

import numpy as np

from singa_core.conformance.oracles import ORACLES


def array(shape, seed):
    """Normal numbers, the same for the same shape and seed."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def calls(x, weight, attrs):
    """(op, inputs, attributes) of the three operations."""
    x, weight, bias = array(x, 0), array(weight, 1), array(weight[:1], 2)
    y = ORACLES["conv"](x, weight, bias, **attrs)
    grad = array(y.shape, 3)
    yield "conv", (x, weight, bias), attrs
    yield "conv", (x, weight), attrs
    yield "conv_grad_input", (grad, weight), {"size": x.shape[2:], **attrs}
    yield "conv_grad_weight", (x, grad), {"kernel": weight.shape[2:], **attrs}
