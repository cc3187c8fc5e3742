"""Bad input: whatever is raised is one of the house's errors, and its text names who complains.

Every argument of a good call of everything public (`house.calls`) is made bad, one at a time with
each of a list of oddities, and several at once with random ones.
"""

import importlib
import inspect

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import singa_core as sc
from house import calls
from singa_core import layers, ops
from singa_core.errors import (
    ArgumentError,
    DTypeError,
    OutOfDeviceMemory,
    OutOfRange,
    ShapeError,
    SingaError,
)
from singa_core.operation import Operation
from singa_core.optable import OPS
from singa_core.tensor import tensor

HUGE = 2**62  # of which nothing can be made; in between lies what would only take long
ODDITIES = {
    "None": lambda: None, "True": lambda: True, "np.True_": lambda: np.True_, "1.5": lambda: 1.5,
    "np.float64": lambda: np.float64(2.0), "nan": lambda: float("nan"), "inf": lambda: float("inf"),
    "-1": lambda: -1, "-7": lambda: -7, "0": lambda: 0, "7": lambda: 7, "huge": lambda: HUGE,
    "uint64": lambda: 2**63, "beyond": lambda: 2**70, "np.int64": lambda: np.int64(1),
    "np.uint8": lambda: np.uint8(1), "0-d": lambda: np.array(1), "array": lambda: np.array([1, 2]),
    "floats": lambda: np.array([1.5]), "texts": lambda: np.array(["a"]),
    "objects": lambda: np.array(None), "date": lambda: np.datetime64("2020"), "complex": lambda: 1j,
    "structured": lambda: np.zeros(2, "i4,f4"), "a": lambda: "a", "empty text": lambda: "",
    "bytes": lambda: b"x", "object": object, "()": tuple, "[]": list, "[1.5]": lambda: [1.5],
    "(1, -1)": lambda: (1, -1), "ragged": lambda: ((1, 2), (3,)), "{}": dict, "{1}": lambda: {1},
    "range": lambda: range(3), "slice": lambda: slice(1), "...": lambda: ..., "a type": lambda: int,
    "iterator": lambda: iter([1]), "[None]": lambda: [None], "(True,)": lambda: (True,),
    "huge shape": lambda: (HUGE, HUGE), "65 axes": lambda: (1,) * 65, "no numbers": lambda: np.zeros(0),
    "int tensor": lambda: tensor(1), "float tensor": lambda: tensor([1.0, 2.0]),
    "list of tensors": lambda: [tensor(1.0)], "nested tensors": lambda: [[tensor([1.0, 2.0])]],
}  # fmt: skip

# told of by a part that the caller knows: the path of an index, an alias, a layer's own layer
ALSO = {
    "getitem": "index", "__getitem__": "index", "__setitem__": "index", "unstack": "unbind",
    "permute": "permute_dims", "transpose": "permute_dims", "fill_": "full_like", "__pow__": "pow",
    "to": "device|backend", "astype": "dtype", "Parameter": "initializer", "State": "initializer", "Placeholder": "device",
    "TransformerEncoderLayer": "MultiHeadAttention", "glorot_normal": "variance scaling",
    "he_normal": "variance scaling", "he_uniform": "variance scaling",
}  # fmt: skip
INTERNAL = {"fused", "together"}  # made by passes, called by nobody


class Target:
    """Something public, a good call of it, and what an error's text may name."""

    def __init__(self, label, function, args, options, names=()):
        self.label, self.function, self.args, self.options = label, function, args, options
        name = label.rpartition(".")[2].removesuffix("()")
        self.names = [name, name.lower(), *ALSO.get(name, name).split("|"), *names]

    def spots(self):
        return [*range(len(self.args)), *self.options]

    def call(self, bad=None):
        """The call, with some arguments replaced; the error's text is checked."""
        args = [fresh(a) for a in self.args]
        options = {name: fresh(value) for name, value in self.options.items()}
        for spot, value in (bad or {}).items():
            (args if isinstance(spot, int) else options)[spot] = value
        return self.function(*args, **options)

    def attempt(self, bad):
        try:
            with np.errstate(all="ignore"):
                self.call(bad)
        except OutOfDeviceMemory:
            pass
        except SingaError as error:
            if not any(name in str(error) for name in self.names):
                pytest.fail(f"{self.label} with {bad} is told as: {error}")
        except Exception as error:
            error.add_note(f"{self.label} with {bad}")
            raise


def fresh(value):
    if isinstance(value, calls.Of):
        return tensor(calls.HOSTS[value.name])
    return [fresh(v) for v in value] if isinstance(value, list) else value


def targets():
    for name, (args, options) in calls.FUNCTIONS.items():
        yield Target(f"ops.{name}", getattr(ops, name), args, options)
    for name, (args, options) in calls.METHODS.items():
        yield Target(f"Tensor.{name}", method(name), args, options)
    for name, op in OPS.items():
        if name not in INTERNAL and op.samples:
            sample = op.samples[0]
            hosts = [tensor(host) for host in sample.draw(name, 0, "float32")]
            given = {k: d for k, d in op.attributes.items() if d is not inspect.Parameter.empty}
            yield Target(f"op.{name}", op, hosts, given | dict(sample.attrs))
    for name, (made, used) in calls.LAYERS.items():
        make = getattr(layers, name)
        within = ["\n  in ", "initializer"]  # told by a layer below, with its path
        yield Target(f"layers.{name}", built(make, *used), *made, within)
        yield Target(f"layers.{name}()", called(make, *made), *used, within)
    for name, (args, options) in calls.OTHERS.items():
        place, _, function = name.rpartition(".")
        module = importlib.import_module(f"singa_core.{place}" if place else "singa_core")
        yield Target(
            name,
            getattr(module, function),
            args,
            options,
            ["schedule", "parameter", "requires_grad"],
        )


def method(name):
    def call(x, *args, **options):
        return getattr(x, name)(*args, **options) if isinstance(x, sc.Tensor) else None

    return call


def built(make, args, options):
    """A layer made of arguments under test, and called."""
    return lambda *given, **named: make(*given, **named)(*map(fresh, args), **options)


def called(make, args, options):
    """A good layer, called on what is under test."""
    return lambda *given, **named: make(*args, **options)(*given, **named)


TARGETS = {target.label: target for target in targets()}


@pytest.mark.parametrize("label", TARGETS)
def test_one_argument_is_bad(label):
    target = TARGETS[label]
    target.call()
    for spot in target.spots():
        for make in ODDITIES.values():
            target.attempt({spot: make()})


@hypothesis.settings(max_examples=300)
@hypothesis.given(data=st.data())
def test_several_arguments_are_bad(data):
    target = TARGETS[data.draw(st.sampled_from(sorted(TARGETS)))]
    spots = target.spots()
    if not spots:
        return
    chosen = data.draw(st.lists(st.sampled_from(spots), min_size=1, max_size=4, unique=True))
    odd = st.sampled_from(sorted(ODDITIES)).map(lambda name: ODDITIES[name]())
    small = st.integers(-3, 9) | st.floats(width=32) | st.text(max_size=3)
    several = st.lists(small | st.none() | st.booleans(), max_size=4)
    values = odd | small | several | several.map(tuple) | st.lists(several, max_size=3)
    target.attempt({spot: data.draw(values) for spot in chosen})


def test_every_public_function_and_layer_has_a_good_call():
    public = {n for n in vars(ops) if not n.startswith("_") and callable(getattr(ops, n))}
    functions = {n for n in public if not isinstance(getattr(ops, n), Operation)}
    assert functions == set(calls.FUNCTIONS)
    kinds = {n: k for n, k in vars(layers).items() if isinstance(k, type)}
    alike = {"AvgPool1d", "MaxPool1d", "BatchNorm1d", "Conv1d", "Conv3d"}  # others' classes
    plain = {"Sequential", "Lambda", "SiLU", "Sigmoid", "Tanh"}  # of layers, functions, nothing
    assert set(kinds) - alike - plain == set(calls.LAYERS)


# -- kinds, one by one ---------------------------------------------------------------------------------


INTEGERS = [np.int64(1), np.uint8(1), np.array(1), np.array(1, np.uint16)]
NONE = [True, np.True_, 1.0, np.float64(1.0), np.array(1.0), "1", None]
TAKES_AN_INTEGER = {
    "split": lambda x, n: ops.split(x, n), "chunk": lambda x, n: ops.chunk(x, n),
    "pad": lambda x, n: ops.pad(x, n), "reshape": lambda x, n: x[:1, :1].reshape(n),
    "repeat": lambda x, n: x.repeat(n, 0), "topk": lambda x, n: x.topk(n),
    "sum": lambda x, n: x.sum(axis=(n,)), "softmax": lambda x, n: x.softmax(n),
    "roll": lambda x, n: ops.roll(x, n, 0), "tile": lambda x, n: x.tile(n),
    "flip": lambda x, n: x.flip([n]), "diagonal": lambda x, n: x.diagonal(n),
    "eye": lambda x, n: ops.eye(n), "one_hot": lambda x, n: ops.one_hot(tensor([0]), n),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKES_AN_INTEGER)
def test_integers_are_what_numpy_takes_for_integers(array, name):
    f, x = TAKES_AN_INTEGER[name], array(np.arange(6.0).reshape(2, 3), "float32")

    def plain(made):
        return [part.tolist() for part in made] if isinstance(made, tuple) else made.tolist()

    for n in INTEGERS:
        assert plain(f(x, n)) == plain(f(x, 1))
    for bad in NONE:
        with pytest.raises((ArgumentError, ShapeError), match=rf"^{name}: needs .*got "):
            f(x, bad)


@pytest.mark.parametrize(
    ("key", "error", "told"),
    [
        (slice(1.5, None), DTypeError, "needs integers in a slice, got slice"),
        (slice("a", None), DTypeError, "needs integers in a slice, got slice"),
        (slice(True, None), DTypeError, "needs integers in a slice, got slice"),
        (slice(None, None, 0), ShapeError, "needs a slice with step != 0"),
        ([[1, 0], [1]], ShapeError, "needs lists of equal length"),
        ((..., ...), ShapeError, "needs at most one ..., got 2"),
        (2**63, OutOfRange, "needs -2 <= index < 2 on axis 0, got 9223372036854775808"),
        ([2**63], OutOfRange, "needs -2 <= index < 2 on axis 0, got 9223372036854775808"),
        ([2**70], DTypeError, "needs integers, slices"),
        (np.array(["a"]), DTypeError, "needs integers, slices"),
        (np.array([1j]), DTypeError, "needs integers, slices, ..., None, or arrays"),
        ([True, 1.5], DTypeError, "needs integers, slices"),
        ("a", DTypeError, "needs integers, slices, .* got str"),
        ({1}, DTypeError, "needs integers, slices, .* got set"),
    ],
)
def test_keys_that_mean_nothing(array, key, error, told):
    x = array(np.zeros((2, 3)))
    with pytest.raises(error, match=f"^index: {told}"):
        x[key]
    with pytest.raises(error, match=f"^index: {told}"):
        x[key] = 1.0
    assert x.tolist() == [[0.0] * 3] * 2


def test_an_index_beyond_int64_is_outside_and_not_negative(array, device):
    places = array(np.array([2**64 - 1], np.uint64))
    x = array([1.0, 2.0, 3.0])
    with pytest.raises(SingaError, match=r"-3 <= index < 3"):
        x[places].tolist()


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((HUGE, HUGE), r"full: needs less than 2\*\*63 bytes of float32, got"),
        ((0, HUGE, HUGE), r"full: needs less than 2\*\*63 bytes of float32, got"),
        ((1,) * 65, "full: needs at most 64 axes, got 65"),
        ((2, -1), r"full: needs a shape of integers >= 0, got \(2, -1\)"),
    ],
)
def test_shapes_that_nothing_can_have(shape, told):
    with pytest.raises(ShapeError, match=told):
        ops.zeros(shape)
    assert ops.zeros((1,) * 64).tolist() is not None


class Unwilling:
    """An array of another library that will not be taken."""

    def __dlpack__(self, **options):
        raise BufferError("it wants a gradient")

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize(
    ("data", "error", "told"),
    [
        (None, DTypeError, "tensor: needs numbers of a supported dtype, got None"),
        (["a"], DTypeError, "tensor: needs numbers of a supported dtype, got <U1 data"),
        ([1, None], DTypeError, "tensor: needs numbers of a supported dtype, got None"),
        (np.array([1j]), DTypeError, "got complex128 data"),
        (np.zeros(2, "i4,f4"), DTypeError, "tensor: needs numbers of a supported dtype"),
        (np.array([1], "M8[s]"), DTypeError, r"got datetime64\[s\] data"),
        (np.ma.masked_array([1, 2], [0, 1]), DTypeError, "needs an array without a mask"),
        ([[1], [1, 2]], ShapeError, "tensor: needs lists of equal length"),
        (Unwilling(), DTypeError, "an Unwilling that raised BufferError: it wants a gradient|"
         "a Unwilling that raised BufferError: it wants a gradient"),
    ],
)  # fmt: skip
def test_data_that_are_no_numbers(data, error, told):
    with pytest.raises(error, match=told):
        tensor(data)
    with pytest.raises(error):
        tensor(data, dtype="float32")


def test_a_list_of_tensors_would_lose_its_history():
    x = tensor([1.0, 2.0], requires_grad=True)
    for wrong in ([x, x], [[x]], (1.0, x[0])):
        with pytest.raises(
            DTypeError, match=r"lists of numbers, got a list with a tensor(.|\n)*ops.stack"
        ):
            tensor(wrong)
        with pytest.raises(DTypeError, match="^add: needs b: a tensor, or lists of numbers"):
            ops.add(x, wrong)


@pytest.mark.parametrize(
    "dtype", ["a", "f4,i4", np.floating, np.dtype("M8"), object, 3, [1], "", complex]
)
def test_dtypes_that_are_none(dtype):
    with pytest.raises(DTypeError, match="^zeros: needs a dtype among bool, int8, .*, got "):
        ops.zeros(2, dtype=dtype)


def test_other_libraries_tensors_say_why_they_cannot_come():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(DTypeError, match=r"Tensor that raised \w+: .*gradient.*detach"):
        tensor(torch.ones(2, requires_grad=True))
    with pytest.raises(DTypeError, match=r"Tensor that raised \w+:"):
        tensor(torch.ones(2, dtype=torch.bfloat16))
    with pytest.raises(DTypeError, match="^tensor: needs a dtype among .*, got torch.float32"):
        tensor([1.0], dtype=torch.float32)
    assert tensor(torch.ones(2)).tolist() == [1.0, 1.0]


def test_an_input_that_is_no_tensor_names_layer_and_parameter():
    net = layers.Sequential(layers.Linear(3), layers.ReLU())
    with pytest.raises(
        ArgumentError,
        match=r"^Linear: needs a tensor or an array as x, got NoneType(.|\n)*in steps.0 \(Linear\)",
    ):
        net(None)
    assert net.get_params()["steps.0.weight"].shape == (None, 3)  # as undecided as before


class Net(sc.Model):
    def __init__(self):
        self.body = layers.Linear(2)
        self.loss, self.optimizer = ops.mse_loss, sc.opt.SGD(0.1)

    def forward(self, x):
        return self.body(x)


def front_door(x, y, net):
    """What is called with what, and how it is told."""
    batch, place = [(np.ones((2, 3), "f"), np.ones((2, 2), "f"))], sc.Placeholder((2, 3))
    return [
        (lambda: sc.backward(None), "backward: needs tensors as roots and gradients, got None"),
        (
            lambda: sc.backward(y, gradient=3),
            "backward: needs tensors as roots and gradients, got 3",
        ),
        (
            lambda: sc.gradients(y, None),
            "gradients: needs a tensor or a list of tensors as xs, got None",
        ),
        (
            lambda: sc.gradients(y, []),
            r"gradients: needs a tensor or a list of tensors as xs, got \[\]",
        ),
        (lambda: sc.gradients(y, [None]), r"gradients: needs xs that require grad, got xs\[0\]"),
        (lambda: sc.update(None, (x,), (x,)), "update: needs an operation, got None"),
        (lambda: sc.update(ops.add, (x, 1.0), (3,)), "add: needs .*a list of tensors as cells"),
        (lambda: sc.update(ops.add, 3, (y,)), "add: needs a list of inputs, .* got int and"),
        (
            lambda: sc.update(ops.add, (y, 1.0), (y, y)),
            "add: needs a cell for each result, got 2 for 1",
        ),
        (lambda: sc.graph(3), "graph: needs a function, got 3"),
        (lambda: sc.graph(abs, device=3), "graph: needs a device, a name or None, got 3"),
        (lambda: sc.Counter("a"), "Counter: needs an integer value, got 'a'"),
        (lambda: sc.Counter(1).advance("x"), "Counter: needs an integer by, got 'x'"),
        (
            lambda: net.compile([place], is_train="x"),
            "compile: needs is_train True or False, got 'x'",
        ),
        (
            lambda: net.compile([place], use_graph=3),
            "compile: needs use_graph True or False, got 3",
        ),
        (lambda: sc.Placeholder((None, 3)), r"Placeholder: needs all sizes, got \(None, 3\)\ntry:"),
        (lambda: net.fit(batch, 1, metrics=3), "metrics: needs a list or dict of metrics, got 3"),
        (lambda: net.fit(batch, 1, callbacks=3), "fit: needs a list of callbacks, got 3"),
        (lambda: net.fit(batch, 1.5), "fit: needs an integer epochs >= 0, got 1.5"),
        (lambda: net.save(3), "save: needs the path of a file, got 3"),
        (lambda: net.load(0), "load: needs the path of a file, got 0"),
        (lambda: net.load(None), "load: needs the path of a file, got None"),
        (lambda: net.set_params(3), "Net.set_params: needs a dict of values, got 3"),
        (lambda: net.to(None), "to: needs a device or its name, got None"),
        (lambda: x.to(None), "to: needs a device or its name, got None"),
        (lambda: x.to("float64"), r"to: needs a device .* got the dtype float64\ntry: x.astype"),
        (lambda: net.to(x.dtype), "to: needs a device or its name, got the dtype float32"),
        (lambda: net.train("x"), "train: needs training True or False, got 'x'"),
        (lambda: x.register_hook(3), "register_hook: needs a function of the gradient, got 3"),
        (lambda: x.assign("a"), "assign: needs numbers of a supported dtype, got <U1 data"),
        (
            lambda: sc.device(3),
            "device: needs a name|device: needs a device, a name or None, got 3",
        ),
    ]


@pytest.mark.parametrize("number", range(31))
def test_the_front_door(number):
    x = tensor([1.0, 2.0], requires_grad=True)
    net = Net()
    net.compile([sc.Placeholder((2, 3))])
    call, told = front_door(x, (x * x).sum(), net)[number]
    with pytest.raises(SingaError, match=f"^({told})"):
        call()


@pytest.mark.parametrize(("name", "home"), [
    ("zeros", "singa_core.ops.zeros"), ("randn", "singa_core.ops.randn"),
    ("Linear", "singa_core.layers.Linear"), ("AdamW", "singa_core.opt.AdamW"),
    ("float32", "dtype='float32'"), ("bool", "dtype='bool'"),
])  # fmt: skip
def test_names_that_are_elsewhere(name, home):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; try: {home}$"):
        getattr(sc, name)


@pytest.mark.parametrize("name", ["nothing", "reduction", "__wrapped__"])  # ops.reduction: a module
def test_names_that_are_nowhere(name):
    with pytest.raises(AttributeError, match=f"^module 'singa_core' has no attribute '{name}'$"):
        getattr(sc, name)
