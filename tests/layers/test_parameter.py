"""Parameter and State: cells whose sizes come later; their first values; what may be asked early."""

import copy

import numpy as np
import pytest

from singa_core import Parameter, State, gradients, graph, initializer, no_grad, opt, random, tensor
from singa_core.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    OutOfDeviceMemory,
    RecordingError,
    ShapeError,
)
from singa_core.layers import Linear

# -- before it has a value -------------------------------------------------------------------------


def test_what_is_known_before_the_sizes_are():
    parameter = Parameter((None, 3), "ones", dtype="float64")
    assert (parameter.shape, parameter.ndim, parameter.dtype.name) == ((None, 3), 2, "float64")
    assert (parameter.requires_grad, parameter.trainable, parameter.is_leaf) == (True, True, True)
    assert (parameter.materialized, parameter.grad) == (False, None)
    assert repr(parameter) == "<Parameter float64 (None, 3), no value yet>"
    assert repr(State((), dtype="int64")) == "<State int64 (), no value yet>"
    with pytest.raises(
        ShapeError, match=r"parameter: needs known sizes, got \(None, 3\)\ntry: call its layer"
    ):
        parameter.spec  # noqa: B018  (a property that raises)
    parameter.set_shape((2, 3))
    assert repr(parameter.spec) == "float64 (2, 3)"
    assert not parameter.materialized


@pytest.mark.parametrize("use", [
    lambda p: p + 1.0, lambda p: p.numpy(), lambda p: tensor([1.0]) * p, lambda p: p.device,
    lambda p: p.assign(np.zeros((2, 3))), lambda p: graph(lambda x: x * p)(tensor([1.0])),
], ids=["op", "numpy", "right operand", "device", "assign", "recorded"])  # fmt: skip
@pytest.mark.parametrize("shape", [(None, 3), (2, 3)])
def test_using_it_before_it_has_a_value_says_what_to_do(use, shape):
    with pytest.raises(
        RecordingError,
        match=r"a parameter that has none yet, at .*\ntry: call its layer, or compile",
    ):
        use(Parameter(shape))


def test_a_wish_about_gradients_is_kept_until_there_is_a_value(device):
    frozen, count = Parameter((2,)), State((), dtype="int64")
    frozen.requires_grad = False
    for cell in (frozen, count, State((2,))):
        cell.materialize(device)
        assert not cell.requires_grad
    frozen.requires_grad = True
    assert gradients((frozen * 3.0).sum(), frozen).tolist() == [3.0, 3.0]
    with pytest.raises(DTypeError, match="requires_grad: needs a floating dtype, got int64"):
        count.requires_grad = True
    count.requires_grad = False  # as it was


def test_wishing_for_what_is_so_already_keeps_the_hooks(array):
    layer, seen = Linear(1), []
    layer(array([[1.0]]))
    layer.weight.register_hook(lambda grad: seen.append(grad.tolist()))
    layer.weight.requires_grad = True
    layer(array([[2.0]])).sum().backward()
    assert seen == [[[2.0]]]


def test_a_state_is_not_trained(array):
    mean = State((2,), "ones")
    mean.materialize(array(0.0).device)
    w = array([1.0, 2.0], requires_grad=True)
    opt.SGD(1.0)((w * mean).sum())
    assert (mean.tolist(), w.tolist()) == ([1.0, 1.0], [0.0, 1.0])
    with pytest.raises(GradientError, match="depends on a leaf"):
        (mean * 2.0).sum().backward()


# -- shapes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(-1,), (2.5,), (True,), ("a",), "ab"])
def test_shapes_are_checked(shape):
    with pytest.raises(
        ShapeError, match="parameter: needs a shape of sizes >= 0, or None where not known yet, got"
    ):
        Parameter(shape)


def test_a_number_is_no_shape():
    with pytest.raises(
        ShapeError,
        match=r"parameter: needs a shape of sizes >= 0, or None where not known yet, got 3\ntry: Parameter\(\(3,\)\)",
    ):
        Parameter(3)


def test_a_declared_size_is_not_contradicted():
    parameter = Parameter((None, 3))
    for shape in ((2, 4), (2, 3, 1), (2,), (None, 3)):
        with pytest.raises(ShapeError, match=r"the declared shape \(None, 3\), got \("):
            parameter.set_shape(shape)
        assert parameter.shape == (None, 3)
    parameter.set_shape((np.int64(2), 3))
    assert parameter.shape == (2, 3)
    assert type(parameter.shape[0]) is int
    parameter.set_shape((2, 3))
    with pytest.raises(ShapeError, match=r"the declared shape \(2, 3\), got \(5, 3\)"):
        parameter.set_shape((5, 3))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_scalars_and_empty_parameters(device, shape):
    parameter = Parameter(shape, "ones")
    parameter.materialize(device)
    assert parameter.numpy().tolist() == np.ones(shape).tolist()
    opt.SGD(0.5)((parameter * 2.0).sum())
    assert parameter.tolist() == np.zeros(shape).tolist()


# -- first values ----------------------------------------------------------------------------------


def value(device, *args, seed=0, **options):
    random.manual_seed(seed)
    parameter = Parameter(*args, **options)
    parameter.materialize(device)
    return parameter.numpy()


@pytest.mark.parametrize("name", initializer.NAMES)
def test_every_name_gives_the_same_bits_on_every_device(device, name):
    here = value(device, (4, 5), name)
    assert here.tobytes() == value("cpu_numpy", (4, 5), name).tobytes()
    drawn = name not in ("zeros", "ones", "eye", "identity")
    assert (here.tobytes() != value(device, (4, 5), name, seed=1).tobytes()) is drawn


def test_ways_to_say_what_the_first_value_is(device):
    assert value(device, (2, 2), "eye").tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert value(device, (2,), 0.5).tolist() == [0.5, 0.5]
    assert value(device, (2,), [1.0, 2.0]).tolist() == [1.0, 2.0]
    assert value(device, (2,), tensor([1.0, 2.0], device=device)).tolist() == [1.0, 2.0]
    assert value(device, (2, 3), lambda shape: np.full(shape, 7.0)).tolist() == [[7.0] * 3] * 2
    assert value(device, (2,), np.array([1, 2]), dtype="int64").tolist() == [1, 2]
    assert value(device, (3,), initializer.constant(2.0), dtype="float16").dtype == np.float16
    made = value(device, (8,), lambda shape, random: random.uniform(shape, 2.0, 3.0))
    assert ((made >= 2.0) & (made <= 3.0)).all()
    assert len(set(made.tolist())) > 4


def test_an_array_is_copied_when_it_is_given(device):
    host = np.array([1.0, 2.0], np.float32)
    parameter = Parameter((2,), host)
    host[:] = 9.0
    parameter.materialize(device)
    host[:] = 8.0
    assert parameter.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("init", "error", "text"), [
    ("glorot", ArgumentError, r"initializer: needs one of zeros, .*, got 'glorot'\ntry: \"glorot_normal\""),
    (None, ArgumentError, r"initializer: needs a name, a number, an array, or a function .*, got None"),
    ({"a": 1}, ArgumentError, "initializer: needs a name"), (True, ArgumentError, "got True"),
    (["a"], DTypeError, "dtype"),
])  # fmt: skip
def test_initialisers_that_are_none(init, error, text):
    with pytest.raises(error, match=text):
        Parameter((2,), init)


@pytest.mark.parametrize(("init", "text"), [
    (np.ones(3), r"initializer: needs shape \(2, 2\) of the array given, got \(3,\)"),
    (lambda shape: np.ones(4), r"initializer: needs shape \(2, 2\) of what <lambda> returned, got \(4,\)"),
])  # fmt: skip
def test_a_value_of_another_shape_leaves_the_parameter_undecided(array, init, text):
    layer = Linear(2, weight_init=init)
    with pytest.raises(ShapeError, match=text + r"\n  in Linear$"):
        layer(array([[1.0, 2.0]]))
    assert (layer.weight.shape, layer.weight.materialized) == ((None, 2), False)


def test_numbers_depend_on_the_order_of_making_and_on_no_size(device):
    def second(first_shape):
        random.manual_seed(9)
        one, two = Parameter(first_shape, "normal"), Parameter((3,), "normal")
        two.materialize(device)  # in any order
        one.materialize(device)
        return two.numpy().tobytes()

    assert second((1,)) == second((100, 7))
    assert second((1,)) != value(device, (3,), "normal", seed=9).tobytes()


def test_a_value_taken_from_elsewhere_is_seen_by_recordings(device):
    parameter = Parameter((2,), "ones")
    parameter.materialize(device)
    step = graph(lambda: parameter * 2.0, device=device)
    assert step().tolist() == [2.0, 2.0]
    parameter.take(tensor([3.0, 4.0], device=device).array)
    assert step().tolist() == [6.0, 8.0]


def test_materialising_again_changes_nothing(device):
    parameter = Parameter((3,), "normal")
    parameter.materialize(device)
    before = parameter.tolist()
    parameter.assign(parameter + 1.0)
    parameter.materialize(device)
    assert parameter.tolist() == [np.float32(v) + np.float32(1.0) for v in before]


def test_no_memory_for_it_leaves_it_without_a_value(far_device):
    parameter = Parameter((1024,))
    far_device.limit = sum(far_device.alive) + 100
    with pytest.raises(OutOfDeviceMemory):
        parameter.materialize(far_device)
    assert not parameter.materialized
    far_device.limit = None
    parameter.materialize(far_device)
    assert parameter.device is far_device


# -- copies ----------------------------------------------------------------------------------------


def test_a_deep_copy_is_a_cell_of_its_own(device):
    one = Parameter((2,), "ones")
    one.materialize(device)
    (one * 2.0).sum().backward()
    two = copy.deepcopy(one)
    assert type(two) is Parameter
    assert (two.tolist(), two.requires_grad, two.grad) == ([1.0, 1.0], True, None)
    two.assign(two + 1.0)
    assert (one.tolist(), two.tolist()) == ([1.0, 1.0], [2.0, 2.0])
    with no_grad():
        one += 5.0
    assert (one.tolist(), two.tolist()) == ([6.0, 6.0], [2.0, 2.0])
    assert gradients((two * 3.0).sum(), two).tolist() == [3.0, 3.0]


def test_a_copy_of_recorded_state_is_left_out_of_the_graph(device):
    one = Parameter((2,), "ones")
    one.materialize(device)
    step = graph(lambda: one.assign(one + 1.0), device=device)
    step()
    two = copy.deepcopy(one)
    step()
    assert (one.tolist(), two.tolist()) == ([3.0, 3.0], [2.0, 2.0])
    state = copy.deepcopy(State((1,), dtype="int32"))
    assert (type(state), state.dtype.name, state.shape) == (State, "int32", (1,))
