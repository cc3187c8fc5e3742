"""check_layer: it passes good layers, and each fault that is planted in one is named."""

import re

import numpy as np
import pytest

import singa_core as sc
from singa_core import kernels, ops, random
from singa_core.conformance.layer import LayerFault, check_layer
from singa_core.errors import ArgumentError, BackendNotFound
from singa_core.layer import Layer
from singa_core.layers import (
    BatchNorm2d,
    Conv2d,
    Dropout,
    Embedding,
    Linear,
    MultiHeadAttention,
    Sequential,
    Tanh,
)
from singa_core.optable import OPS
from singa_core.parameter import Parameter, State
from singa_core.registry import registry


@pytest.mark.parametrize(
    ("make", "inputs", "output"),
    [
        (lambda: Linear(3), [(4, 5)], (4, 3)),
        (lambda: Conv2d(3, 3, padding=1), [(2, 2, 5, 5)], (2, 3, 5, 5)),
        (lambda: Sequential(BatchNorm2d(), Tanh(), Dropout(0.3)), [(3, 2, 4, 4)], None),
        (lambda: Embedding(10, 4), [np.array([[1, 2, 9]])], (1, 3, 4)),
        (lambda: MultiHeadAttention(4, 2), [(2, 3, 4)], (2, 3, 4)),
    ],
    ids=["linear", "conv", "stack", "embedding", "attention"],
)
def test_a_good_layer(make, inputs, output):
    report = check_layer(make, *inputs, output=output, devices=["cpu_numpy", "far"])
    assert report.devices == ("cpu_numpy", "far")
    counts = report.checks
    assert counts["shapes"] == counts["modes"] == counts["files"] == 2
    assert counts["eager == graph"] == 18
    assert counts["float32 == float64"] == 6
    cell = len(make().get_params()) + sum(isinstance(i, tuple) for i in inputs)
    assert counts["gradients"] >= 2 * cell
    assert str(report).startswith(f"{type(make()).__name__} on cpu_numpy, far: ")


class Slope(sc.Operation):
    """Its gradient is half of what it should be."""

    name, keeps = "op_with_half_a_gradient", ("x",)

    def infer(self, x):
        return x

    def forward(self, x):
        return x * x

    def backward(self, grad, x, *, needs):
        return grad * x


class Tilted(sc.Operation):
    """Its kernel for one type is wrong, where there is one."""

    name = "op_with_a_wrong_kernel"

    def infer(self, x):
        return x

    def forward(self, x):
        return x * 2.0


@pytest.fixture
def declared():
    """Operations for the time of a test."""
    before = dict(OPS)
    yield lambda cls: cls()
    OPS.clear()
    OPS.update(before)


class Counts(Layer):
    def __init__(self):
        self.n = State((1,), "zeros")

    def forward(self, x):
        self.n.assign(self.n + 1.0)
        return x * 1.0


class Unused(Layer):
    def __init__(self):
        self.w, self.u = Parameter((1,), "ones"), Parameter((2,), "ones")

    def forward(self, x):
        return x * self.w


class Restless(Layer):
    def forward(self, x):
        return ops.dropout(x, p=0.5, training=True)


class Hidden(Layer):
    """Its number is no state."""

    def __init__(self):
        self.k = float(random.STREAMS["init"].take(1)[2]) + float(random.STREAMS["init"].key[0])

    def forward(self, x):
        return x * (self.k / 2.0**31)


class Moody(Layer):
    def forward(self, x):
        return x.sum(axis=0) if self.training else x


class Frozen(Layer):
    """A number read by Python is frozen by a recording."""

    def __init__(self):
        object.__setattr__(self, "calls", [0])

    def forward(self, x):
        if self.training:
            self.calls[0] += 1
        return x * float(1 + self.calls[0] * self.training)


class Nothing(Layer):
    def forward(self, x):
        return None


FAULTS = {
    "counts": (Counts, "state after a call in evaluation mode, n on cpu_numpy: needs equal numbers"),
    "unused": (Unused, "gradient of u, training on cpu_numpy: needs one in training, got none"),
    "restless": (Restless, "two calls in evaluation mode, output 0 on cpu_numpy: needs equal numbers"),
    "hidden": (Hidden, "saved and loaded, output 0 on cpu_numpy: needs equal numbers"),
    "moody": (Moody, "output 0 in training mode on cpu_numpy: needs float32 (4, 5) as in evaluation, "
                     "got float32 (5,)"),
    "frozen": (Frozen, "recorded against eager, training, call 2: outputs, output 0 on cpu_numpy: "
                       "needs a difference of at most 1e-05"),
    "nothing": (Nothing, "output on cpu_numpy: needs a Tensor, or a tuple, list or dict of them, "
                         "got None"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name):
    cls, told = FAULTS[name]
    with pytest.raises(LayerFault, match=re.escape(f"check_layer({cls.__name__}), {told}")):
        check_layer(cls, (4, 5))


def test_a_wrong_gradient_is_named(declared):
    op = declared(Slope)

    class Sloped(Layer):
        def forward(self, x):
            return op(x)

    with pytest.raises(
        LayerFault,
        match=r"gradient of input 0, evaluation on cpu_numpy: needs (.*), the difference along a "
        r"random direction, got (.*)",
    ) as e:
        check_layer(Sloped, (4, 5))
    wanted, got = re.search(r"needs ([\d.e-]+), .* got ([\d.e-]+)", str(e.value)).groups()
    assert float(got) == pytest.approx(float(wanted) / 2, rel=1e-6)


@pytest.fixture
def added():
    """Kernels of the language `far` for the time of a test: `added(op, signature, function)`."""
    table, names = kernels.table("far"), []

    def add(op, signature, function):
        def prepare(device, ins, outs):
            return lambda *xs: device.launch(function, [*ins, *outs], xs)

        names.append(op.name)
        table.prepared(op.name, signature, T="f16 bf16 f32 f64")(prepare)

    yield add
    for name in names:
        table._kernels.pop(name, None)
    for device in (registry.resolve("far"), registry.resolve("cpu_numpy")):
        device.state.entries.clear()


def calling(op):
    class Calls(Layer):
        def forward(self, x):
            return op(x)

    return Calls


@pytest.mark.parametrize(
    ("signature", "by", "told"),
    [
        ("f32->f32", 2.001, r"\('far', f32->f32\), inference on far"),
        ("T->T", 2.001, r"\('far', f32->f32\), inference on far"),  # alike in float64
        (
            "f16->f16",
            2.5,
            r"\('far', f16->f16\), inference on far",
        ),  # a float that is not asked for
    ],
)
def test_a_wrong_kernel_is_named(declared, added, signature, by, told):
    op = declared(Tilted)
    added(op, signature, lambda a, b: np.multiply(a, a.dtype.type(by), out=b))
    rule = r": needs what its decomposition gives, got op_with_a_wrong_kernel: at \(0, 0\) got "
    with pytest.raises(LayerFault, match=rf"kernel of op_with_a_wrong_kernel {told}{rule}"):
        check_layer(calling(op), (4, 5))


def test_a_right_kernel_is_counted(declared, added):
    op = declared(Tilted)
    before = check_layer(calling(op), (4, 5), devices=["far"]).checks["kernel == decomposition"]
    added(op, "T->T", lambda a, b: np.multiply(a, a.dtype.type(2), out=b))
    report = check_layer(calling(op), (4, 5), devices=["far"])
    assert report.checks["kernel == decomposition"] == before + 3 * 3  # modes, floats


class Halved(sc.Operation):
    """The gradient of the next one."""

    name = "op_for_a_gradient"

    def infer(self, grad):
        return grad

    def forward(self, grad):
        return grad * 2.0


class Doubled(sc.Operation):
    name = "op_with_a_gradient_that_has_a_kernel"

    def infer(self, x):
        return x

    def forward(self, x):
        return x * 2.0

    def backward(self, grad, *, needs):
        return (OPS["op_for_a_gradient"](grad),)


def test_a_wrong_kernel_is_no_wrong_gradient(declared, added):
    declared(Halved)
    op = declared(Doubled)
    added(OPS["op_for_a_gradient"], "T->T", lambda a, b: np.multiply(a, a.dtype.type(3), out=b))
    with pytest.raises(
        LayerFault, match=r"kernel of op_for_a_gradient \(.*\), evaluation on far: "
    ):
        check_layer(calling(op), (4, 5))


def test_devices_are_compared_with_each_other():
    class Local(Layer):
        def forward(self, x):
            return x * (1.001 if x.device.name == "far" else 1.0)

    told = (
        r"against cpu_numpy in float\d\d, inference: outputs, output 0 on far: needs a difference"
    )
    with pytest.raises(LayerFault, match=told):
        check_layer(Local, (4, 5), devices=["cpu_numpy", "far"])
    report = check_layer(Tanh, (4, 5), devices=["cpu_numpy", "far"])
    assert report.checks["device == device"] == 3 * 2  # modes, floats


def test_the_shape_that_is_expected():
    with pytest.raises(
        LayerFault,
        match=r"check_layer\(Linear\), shape of the output on .*: needs \(4, 4\), got \(4, 3\)",
    ):
        check_layer(lambda: Linear(3), (4, 5), output=(4, 4))


def test_streams_are_left_as_they_were():
    random.manual_seed(7)
    random.STREAMS["user"].take(3)
    before = {name: stream.state() for name, stream in random.STREAMS.items()}
    check_layer(lambda: Dropout(0.5), (4, 5), devices=["cpu_numpy"])
    assert {name: stream.state() for name, stream in random.STREAMS.items()} == before
    assert random.initial_seed() == 7


def test_where_it_is_checked():
    device = registry.resolve("cpu_numpy")
    assert check_layer(Tanh, (2,), devices=[device]).devices == ("cpu_numpy",)
    with pytest.raises(BackendNotFound):
        check_layer(Tanh, (2,), devices=["nowhere"])
    with pytest.raises(ArgumentError, match="check_layer: needs a device to check on, got none"):
        check_layer(Tanh, (2,), devices=[])
    with pytest.raises(ArgumentError, match="check_layer: needs a function that makes a Layer"):
        check_layer(lambda: 3, (2,))


def test_a_backend_that_cannot_be_used_is_told(monkeypatch):
    monkeypatch.setattr(registry, "names", lambda: ("cpu_numpy", "opencl_that_is_not_here"))
    report = check_layer(Tanh, (2,))
    assert report.devices == ("cpu_numpy",)
    (left,) = report.skipped.items()
    assert left[0] == "opencl_that_is_not_here"
    assert "; without opencl_that_is_not_here (no such backend; " in str(report)
