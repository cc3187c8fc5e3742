"""The template of messages, the classes' bases, and what an error survives."""

import copy
import pickle

import pytest

from singa_core import errors
from singa_core.errors import (
    ArgumentError,
    BackendNotFound,
    DeviceError,
    DeviceFailure,
    DTypeError,
    GradientError,
    KernelMissing,
    OutOfDeviceMemory,
    OutOfRange,
    PluginError,
    RecordingError,
    ReplayError,
    ShapeError,
    SingaError,
    StateLost,
)
from singa_core.spec import Spec

BASES = {
    ShapeError: ValueError,
    DTypeError: TypeError,
    DeviceError: ValueError,
    ArgumentError: ValueError,
    OutOfRange: IndexError,
    GradientError: RuntimeError,
    RecordingError: RuntimeError,
    ReplayError: RuntimeError,
    KernelMissing: NotImplementedError,
    BackendNotFound: LookupError,
    OutOfDeviceMemory: MemoryError,
    DeviceFailure: RuntimeError,
    StateLost: RuntimeError,
}


@pytest.mark.parametrize("error", BASES, ids=lambda e: e.__name__)
def test_an_error_is_ours_and_python_s(error):
    assert issubclass(error, SingaError)
    assert issubclass(error, BASES[error])


def test_every_class_is_in_the_list_above():
    ours = {e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)}
    ours = {e for e in ours if not issubclass(e, Warning)}
    plain = {SingaError, PluginError, errors._RuleError}
    assert ours - plain == set(BASES)


def test_the_rule_the_values_the_operands_and_an_action():
    a, b = Spec((1, 2), "int64"), Spec((3, 1), "float32")
    error = ShapeError("matmul", "a.shape[1] == b.shape[0]", "2 != 3", a=a, b=b, hint="transpose b")
    assert str(error) == (
        "matmul: needs a.shape[1] == b.shape[0], got 2 != 3\n"
        "  a: int64 (1, 2)\n"
        "  b: float32 (3, 1)\n"
        "try: transpose b"
    )


def test_one_line_is_enough_where_there_is_no_more_to_say():
    assert str(ArgumentError("dropout", "0 <= p < 1", 1.5)) == "dropout: needs 0 <= p < 1, got 1.5"


def test_operands_that_are_no_arrays_are_shown_as_they_are():
    error = ArgumentError("f", "x", "y", name="two", count=2)
    assert str(error) == "f: needs x, got y\n  name: 'two'\n  count: 2"


def test_an_operand_on_a_device_says_which(array, device):
    error = ShapeError("f", "x", "y", a=array([1, 2]))
    assert str(error) == f"f: needs x, got y\n  a: int64 (2,) {device}"


def test_a_symbolic_operand_can_be_told_after_its_recording():
    class Symbolic:
        shape, dtype = (2,), "float32"

        @property
        def device(self):
            raise RecordingError("device", "a value", "none")

    assert str(ShapeError("f", "x", "y", a=Symbolic())) == "f: needs x, got y\n  a: float32 (2,)"


def test_the_layers_an_error_came_through_are_its_last_line():
    error = ShapeError("conv", "x", "y")
    error.within = "block2.conv1 (Conv2d)"
    assert str(error) == "conv: needs x, got y\n  in block2.conv1 (Conv2d)"
    lost = StateLost("the state is lost")
    lost.within = "net (Net)"
    assert str(lost).startswith(
        "the state is lost\ntry: load the last checkpoint with include_state"
    )
    assert "every slot of the optimiser" in str(lost)
    assert str(lost).endswith("\n  in net (Net)")


def test_a_missing_kernel_says_what_was_tried():
    error = KernelMissing("sort", ["bool"], "far", ["language 'c' has f32->f32,i64"], "add it")
    assert str(error) == (
        "sort: no kernel for (bool) on far; language 'c' has f32->f32,i64\ntry: add it"
    )
    assert str(KernelMissing("f", ["int8", "int8"], "far", [])) == (
        "f: no kernel for (int8, int8) on far; no kernel language has this op"
    )


def test_a_plugin_error_says_who_at_which_stage_and_why():
    error = PluginError("x", "probe", "no driver", distribution="singa-x 1.2", hint="install one")
    assert str(error) == "backend 'x' (singa-x 1.2): probe: no driver\ntry: install one"
    assert str(BackendNotFound("x", "metadata", "gone")) == "backend 'x': gone"


def test_out_of_memory_gives_the_numbers():
    assert str(OutOfDeviceMemory("far", 400, 100, 256)) == (
        "far: out of memory: needs 400 bytes, 100 bytes in use, capacity 256 bytes\n"
        "try: a smaller batch, or drop tensors that are no longer needed"
    )
    assert str(OutOfDeviceMemory("far", 0, 100, 256)).startswith(
        "far: out of memory: needs more, 100 bytes in use, capacity 256 bytes\n"
    )
    assert "capacity unknown" in str(OutOfDeviceMemory("far", 1, 0, None))
    assert str(OutOfDeviceMemory("far", 400, 0, 1000, 300)) == (
        "far: needs 400 bytes in one buffer, 300 bytes at most\ntry: smaller tensors"
    )


EXAMPLES = [
    ShapeError("f", "x", "y", hint="h", a=Spec((2,), "int8")),
    KernelMissing("f", ["int8"], "far", ["tried"], "hint"),
    PluginError("x", "probe", "why", distribution="d 1", hint="h"),
    BackendNotFound("x", "metadata", "why", hint="h"),
    OutOfDeviceMemory("far", 4, 2, None),
    StateLost("lost"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("trip", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_an_error_reaches_another_process_with_all_its_words(error, trip):
    again = trip(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
