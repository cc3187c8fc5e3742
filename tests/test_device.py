"""Storage counts every byte; arrays look at it; host data of any layout arrives; memory that runs out."""

import gc

import numpy as np
import pytest

from far.device import FarDevice
from singa_core.device import Device
from singa_core.dtype import ALL
from singa_core.errors import DeviceFailure, OutOfDeviceMemory
from singa_core.registry import registry
from singa_core.spec import Spec, make_form
from singa_core.storage import (
    Array,
    allocate,
    copy_storage,
    empty_array,
    from_host,
    synchronize,
    to_host,
)
from singa_core.tensor import tensor


@pytest.fixture
def count(device):
    """A function that says by how much (bytes held, allocations) have grown."""
    gc.collect()
    memory = device.memory
    start = memory.current, memory.allocations
    return lambda: (memory.current - start[0], memory.allocations - start[1])


def look(array, shape, strides, offset):
    """A view of an array."""
    spec = array.spec.with_shape(shape)
    return array.look(spec, make_form(spec, strides), offset)


# -- counting ---------------------------------------------------------------------------------------


def test_a_storage_is_counted_from_the_first_holder_to_the_last(device, count):
    array = empty_array(device, Spec((5, 3), "float64"))
    assert count() == (120, 1)
    view = look(array, (3, 5), (1, 3), 0)
    storage = array.storage
    del array
    assert count() == (120, 1)
    del view
    assert count() == (120, 1)
    del storage
    assert count() == (0, 1)


def test_the_peak_is_the_most_that_was_held_at_once(device, count):
    memory = device.memory
    memory.reset_peak()
    base = memory.current
    assert memory.peak == base
    first = allocate(device, 1000)
    del first
    second = allocate(device, 600)
    third = allocate(device, 300)
    assert memory.peak - base == 1000
    assert count() == (900, 3)
    memory.reset_peak()
    assert memory.peak - base == 900
    del second, third
    assert memory.peak - base == 900
    assert count() == (0, 3)


def test_memory_info_is_what_was_counted(device):
    info = device.memory_info()
    assert info["current"] == device.memory.current
    assert info["peak"] == device.memory.peak
    assert info["allocations"] == device.memory.allocations
    assert info["capacity"] == device.capabilities.capacity


def test_the_count_is_that_of_the_device(far_device):
    """What core counts is what the device has given out."""
    held = [empty_array(far_device, Spec((i,), "int16")) for i in range(5)]
    assert far_device.memory.current == sum(far_device.alive)
    del held
    assert far_device.memory.current == sum(far_device.alive)


def test_operations_leave_only_their_results(array, count):
    x = array(np.ones((4, 4), np.float32))
    y = (x + x) * x - x
    assert count()[0] == 2 * 64
    del y
    assert count()[0] == 64


def test_memory_without_bytes(device, count):
    array = empty_array(device, Spec((0, 3), "float32"))
    assert count() == (0, 1)
    assert to_host(array).shape == (0, 3)
    twin = copy_storage(array.storage)
    assert twin.nbytes == 0


# -- looking ----------------------------------------------------------------------------------------


def test_a_handle_is_bound_once(device):
    array = empty_array(device, Spec((4,), "int32"))
    assert array.handle is array.handle
    view = look(array, (2,), (2,), 1)
    assert view.handle is view.handle is not array.handle
    assert array.packed
    assert not view.packed
    assert view.form is make_form(Spec((2,), "int32"), (2,))


def test_a_copied_storage_is_another_one_with_the_same_bytes(device):
    host = np.arange(6, dtype=np.int16)
    array = from_host(device, host, Spec((6,), "int16"))
    twin = Array(copy_storage(array.storage), array.spec, array.spec, 0)
    device.upload(array.storage.buffer, 0, np.zeros(12, np.uint8))
    np.testing.assert_array_equal(to_host(twin), host)
    np.testing.assert_array_equal(to_host(array), np.zeros(6))


def test_an_array_that_moves_looks_at_the_new_storage(device):
    old = from_host(device, np.array([1, 2, 3, 4], np.int32), Spec((4,), "int32"))
    tail = look(old, (2,), (1,), 2)
    handle = tail.handle
    new = from_host(device, np.array([5, 6, 7, 8], np.int32), Spec((4,), "int32"))
    tail.move_to(new.storage)
    assert tail.handle is not handle
    np.testing.assert_array_equal(to_host(tail), [7, 8])


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_of_the_device_goes_there_and_back(device, dtype):
    if dtype not in device.capabilities.dtypes:
        pytest.skip(f"{device} has no {dtype}")
    host = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype.numpy)
    back = to_host(from_host(device, host, Spec((2, 3), dtype)))
    assert back.dtype == dtype.numpy
    np.testing.assert_array_equal(back, host)


# -- host data of every layout ----------------------------------------------------------------------

BASE = np.arange(24, dtype=np.float32).reshape(4, 6)
READ_ONLY = BASE.copy()
READ_ONLY.flags.writeable = False
UNALIGNED = np.frombuffer(b"x" + BASE.tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 6)
HOST = {
    "C": BASE,
    "Fortran": np.asfortranarray(BASE),
    "transposed": BASE.T,
    "negative strides": BASE[::-1, ::-1],
    "gaps": BASE[::2, 1::3],
    "stride 0": np.broadcast_to(BASE[0], (3, 6)),
    "read-only": READ_ONLY,
    "big-endian": BASE.astype(">f4"),
    "unaligned": UNALIGNED,
    "0-d": np.array(3.5, np.float32),
    "empty": BASE[:0],
    "empty and turned": BASE[:, :0].T,
}


@pytest.mark.parametrize("host", HOST.values(), ids=HOST.keys())
def test_valid_host_data_gives_right_results(array, host):
    before = host.copy()
    x = array(host)
    assert (x.shape, x.dtype.name) == (host.shape, "float32")
    np.testing.assert_array_equal(x.numpy(), host)
    np.testing.assert_array_equal((x + x).numpy(), host + host)
    np.testing.assert_array_equal(host, before)


@pytest.mark.parametrize("host", HOST.values(), ids=HOST.keys())
def test_a_tensor_does_not_share_the_host_s_memory(array, host):
    host = host.copy()
    x = array(host)
    before = host.copy()
    host[...] = -1
    np.testing.assert_array_equal(x.numpy(), before)


# -- memory that runs out ---------------------------------------------------------------------------


def test_out_of_memory_is_told_and_changes_nothing(far_device):
    x = tensor(np.ones(64, np.float32), device=far_device)
    far_device.memory.reset_peak()
    held = far_device.memory.current
    far_device.limit = sum(far_device.alive) + 100
    before = far_device.memory.current, len(far_device.alive)
    text = (
        f"^far: out of memory: needs 256 bytes, {held} bytes in use, capacity {held + 100} bytes\n"
        "try: a smaller batch, or drop tensors that are no longer needed$"
    )
    with pytest.raises(OutOfDeviceMemory, match=text) as e:
        x + x
    assert isinstance(e.value, MemoryError)
    with pytest.raises(MemoryError, match=text):
        tensor(np.ones(64, np.float32), device=far_device)
    del e
    assert far_device.memory.peak == held
    with pytest.raises(MemoryError, match="needs 256 bytes"):
        x.sum(axis=0, keepdims=True) + x  # the first part fits, the second does not
    gc.collect()
    assert (far_device.memory.current, len(far_device.alive)) == before
    far_device.limit = None
    np.testing.assert_array_equal((x + x).numpy(), np.full(64, 2))


def test_an_update_that_does_not_fit_leaves_the_cell(far_device):
    x = tensor(np.ones(64, np.float32), device=far_device)
    held = x.detach()  # so that the new value needs memory
    far_device.limit = sum(far_device.alive)
    with pytest.raises(OutOfDeviceMemory):
        x += held
    far_device.limit = None
    np.testing.assert_array_equal(x.numpy(), np.ones(64))


# -- late errors ------------------------------------------------------------------------------------


def test_a_late_error_is_told_by_the_next_wait_in_core_s_words(far_device):
    x = tensor([1.0, 2.0], device=far_device)
    far_device.fail_at(1)
    y = x + x
    with pytest.raises(
        DeviceFailure, match=r"^far: \w+ failed with RuntimeError: far: a fault was asked for$"
    ):
        y.numpy()
    far_device.fail_at(1)
    y = x + x
    with pytest.raises(
        DeviceFailure, match=r"^far: \w+ failed with RuntimeError: far: a fault was asked for$"
    ):
        synchronize(far_device)
    synchronize(far_device)  # it is told once
    np.testing.assert_array_equal((x + x).numpy(), [2, 4])


def test_devices_of_one_backend_have_names_and_memory_of_their_own():
    first, second = registry.resolve("far"), registry.resolve("far:1")
    assert (first.name, second.name, repr(second)) == ("far", "far:1", "far:1")
    before = first.memory.current
    x = tensor(np.ones(8), device="far:1")
    assert first.memory.current == before
    assert second.memory.current >= 64
    assert x.device is second


@pytest.mark.parametrize("stage", ["alloc", "upload", "copy", "bind", "download", "synchronize"])
def test_what_a_memory_call_raises_names_the_device_and_the_call(stage, monkeypatch):
    device = FarDevice(7)
    x = tensor(np.arange(6.0).reshape(2, 3), device=device)
    device.synchronize()

    def broken(*args):
        raise OSError("the cable")

    tries = {
        "alloc": lambda: x + 1.0,
        "upload": lambda: tensor([1.0], device=device),
        "copy": lambda: copy_storage(x.array.storage),
        "bind": lambda: x[0].array.handle,
        "download": x.tolist,
        "synchronize": lambda: synchronize(device),
    }
    tries["alloc"]()
    monkeypatch.setattr(device, stage, broken)
    monkeypatch.setattr(device, "empty", lambda spec: Device.empty(device, spec))
    device.state.entries.clear()  # they hold what allocates
    with pytest.raises(DeviceFailure, match=f"^far:7: {stage} failed with OSError: the cable$"):
        tries[stage]()
    monkeypatch.undo()
    device.state.entries.clear()
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
