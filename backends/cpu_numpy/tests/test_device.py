"""Memory, handles and launches of the NumPy device."""

import threading

import numpy as np
import pytest

from singa_core.dtype import ALL, bfloat16, float32
from singa_core.errors import DeviceError
from singa_core.spec import Spec
from singa_core.storage import as_bytes
from singa_cpu_numpy.device import open_device

DEVICE = open_device(0)


def test_there_is_one_device():
    with pytest.raises(DeviceError, match="cpu_numpy: needs device index 0, the only one, got 1"):
        open_device(1)
    assert DEVICE.capabilities.host
    assert DEVICE.capabilities.capacity > 2**20


@pytest.mark.parametrize("nbytes", [1, 100, 1 << 20])
def test_alloc_is_aligned(nbytes):
    buffer = DEVICE.alloc(nbytes)
    assert buffer.nbytes >= nbytes
    assert buffer.__array_interface__["data"][0] % DEVICE.capabilities.alignment == 0


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_bytes_go_there_and_back(dtype):
    host = np.arange(6).astype(dtype.numpy)
    for buffer in (DEVICE.alloc(host.nbytes), DEVICE.empty(Spec((2, 3), dtype))[0]):
        DEVICE.upload(buffer, 0, as_bytes(host))
        twin, back = DEVICE.alloc(host.nbytes), np.zeros_like(host)
        DEVICE.copy(buffer, 0, twin, 0, host.nbytes)
        DEVICE.download(twin, 0, as_bytes(back))
        np.testing.assert_array_equal(back, host)
        tail = np.zeros(2, dtype.numpy)
        DEVICE.download(buffer, 4 * dtype.itemsize, as_bytes(tail))
        np.testing.assert_array_equal(tail, host[4:])


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
def test_bind_takes_any_strides(dtype):
    buffer = DEVICE.alloc(6 * dtype.itemsize)
    DEVICE.bind(buffer, 0, (6,), (1,), dtype)[:] = np.arange(6)

    def seen(offset, shape, strides):
        return DEVICE.bind(buffer, offset, shape, strides, dtype).astype(float).tolist()

    assert seen(0, (2, 3), (3, 1)) == [[0, 1, 2], [3, 4, 5]]
    assert seen(1, (2, 2), (1, 2)) == [[1, 3], [2, 4]]
    assert seen(5, (2, 3), (-3, -1)) == [[5, 4, 3], [2, 1, 0]]
    assert seen(2, (3,), (0,)) == [2, 2, 2]
    assert seen(3, (), ()) == 3
    assert seen(6, (0, 2), (2, 1)) == []
    DEVICE.bind(buffer, 5, (2,), (-1,), dtype)[...] = 9  # a view, not a copy
    assert seen(0, (6,), (1,)) == [0, 1, 2, 3, 9, 9]
    assert DEVICE.bind(DEVICE.alloc(0), 0, (0, 3), (3, 1), dtype).shape == (0, 3)


def test_adopt_takes_only_what_a_kernel_owns():
    made = np.ones((2, 3))
    assert DEVICE.adopt(made) == (made, made)
    scalar = DEVICE.adopt(np.float32(2))[1]
    assert (scalar.shape, scalar.dtype, float(scalar)) == ((), np.float32, 2.0)
    frozen = np.ones(3)
    frozen.flags.writeable = False
    for other in (made[:1], made.T, made.copy(order="F"), np.broadcast_to(made, (2, 2, 3)), frozen):
        assert DEVICE.adopt(other) is None


def overflow():
    return np.full(1, 3e38, np.float32) * np.float32(10)


def test_a_call_does_not_warn_and_the_caller_still_does():
    assert np.isinf(DEVICE.call(overflow)).all()
    with pytest.raises(RuntimeWarning, match="overflow"):
        overflow()


def test_a_call_within_a_call():
    assert np.isinf(DEVICE.call(DEVICE.call, overflow)).all()


def test_errors_pass_through_a_call():
    def fail():
        raise RuntimeError("mine")

    for call in (fail, lambda: DEVICE.call(fail)):
        with pytest.raises(RuntimeError, match="^mine$"):
            DEVICE.call(call)


def test_calls_from_several_threads_at_once():
    barrier, results = threading.Barrier(4), []

    def launch():
        barrier.wait(timeout=10)  # all four are inside
        return overflow()

    def work():
        results.append(DEVICE.call(launch))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
