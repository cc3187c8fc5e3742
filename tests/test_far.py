"""The far device itself: that it is as unlike the host as it says. The bench rests on it."""

import threading

import numpy as np
import pytest

from far.device import GARBAGE, TABLE
from singa_core.dtype import float32, int32
from singa_core.kernels.array import array as shared
from singa_core.optable import OPS
from singa_core.resolve import find_entry
from singa_core.spec import Spec
from singa_core.storage import from_host, to_host
from singa_core.tensor import tensor

F2 = Spec((2,), "float32")


@pytest.fixture
def far(far_device):
    return far_device


def launch(device, op, forms, handles, attrs=()):
    find_entry(device, OPS[op], attrs, forms).launch(*handles)


@pytest.mark.parametrize(
    "use",
    [np.asarray, np.array, lambda h: h + 1, lambda h: np.zeros(2) + h, lambda h: np.add(h, h),
     lambda h: h[0], lambda h: h.__setitem__(..., 1), memoryview, list, float],
    ids=["asarray", "array", "plus", "reflected", "ufunc", "get", "set", "buffer", "list", "float"],
)  # fmt: skip
def test_the_host_can_do_nothing_with_a_handle_or_a_buffer(far, use):
    array = from_host(far, np.ones(2, np.float32), F2)
    with pytest.raises((TypeError, AttributeError)):
        use(array.handle)
    if use not in (np.asarray, np.array):  # NumPy wraps any object: nothing to be had from it
        with pytest.raises((TypeError, AttributeError)):
            use(array.storage.buffer)


def test_fresh_memory_holds_garbage(far):
    buffer, handle = far.empty(Spec((3,), "uint8"))
    host = np.zeros(3, np.uint8)
    far.download(buffer, 0, host)
    far.free(buffer)
    assert host.tolist() == [GARBAGE] * 3
    del handle


def test_it_speaks_the_shared_language_but_for_bfloat16():
    ours = {(k.op, k.signature) for k in TABLE}
    theirs = {(k.op, k.signature) for k in shared}
    assert ours < theirs
    assert all("bf16" in signature for _, signature in theirs - ours)
    assert {k.op for k in TABLE} == {k.op for k in shared}


def test_no_kernel_but_copy_takes_strides_or_returns():
    assert {k.op for k in TABLE if k.strides} == {"copy"}
    assert not any(k.returning for k in TABLE)


def test_a_view_may_lie_anywhere_in_its_buffer_and_not_beyond(far):
    array = from_host(far, np.arange(6, dtype=np.float32), Spec((6,), "float32"))
    buffer = array.storage.buffer
    far.bind(buffer, 5, (2, 3), (-3, -1), float32)
    far.bind(buffer, 2, (4,), (0,), float32)
    for offset, shape, strides in ((4, (3,), (1,)), (1, (3,), (-1,)), (-1, (1,), (1,))):
        with pytest.raises(ValueError):  # noqa: PT011  (NumPy's words)
            far.bind(buffer, offset, shape, strides, float32)


def test_wrong_arguments_are_refused_at_once(far):
    x = from_host(far, np.ones(2, np.float32), F2)
    y = from_host(far, np.zeros(2, np.float32), F2)
    strided = far.bind(x.storage.buffer, 1, (2,), (-1,), float32)
    ints = far.bind(x.storage.buffer, 0, (2,), (1,), int32)
    short = far.bind(x.storage.buffer, 0, (1,), (1,), float32)
    for wrong in (strided, ints, short):
        with pytest.raises(
            TypeError, match=r"^far: a kernel prepared for float32 \(2,\) was given"
        ):
            launch(far, "neg", (F2,), (wrong, y.handle))
        with pytest.raises(
            TypeError, match=r"^far: a kernel prepared for float32 \(2,\) was given"
        ):
            launch(far, "neg", (F2,), (x.handle, wrong))
    with pytest.raises(ValueError, match="shorter"):
        launch(far, "neg", (F2,), (x.handle,))
    np.testing.assert_array_equal(to_host(y), [0, 0])


def test_freed_memory_is_refused_at_once(far):
    x = from_host(far, np.ones(2, np.float32), F2)
    y, gone = from_host(far, np.ones(2, np.float32), F2), x.handle
    del x
    with pytest.raises(RuntimeError, match="freed"):
        launch(far, "neg", (F2,), (gone, y.handle))


def test_what_goes_wrong_in_a_kernel_is_told_once_and_late(far):
    x = from_host(far, np.ones(2, np.float32), F2)
    y = from_host(far, np.zeros(2, np.float32), F2)
    far.fail_at(2)
    for _ in range(3):
        launch(far, "neg", (F2,), (x.handle, y.handle))
    far.copy(x.storage.buffer, 0, y.storage.buffer, 0, 8)  # skipped, as the third launch was
    with pytest.raises(RuntimeError, match="^far: a fault was asked for$"):
        far.download(y.storage.buffer, 0, np.zeros(8, np.uint8))
    np.testing.assert_array_equal(to_host(y), [-1, -1])
    far.synchronize()


def test_one_thread_at_a_time(far):
    with far._alone():
        errors = []

        def other():
            try:
                far.upload(None, 0, np.zeros(0, np.uint8))
            except RuntimeError as error:
                errors.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert errors == ["far: used by two threads at once"]


def test_workspace_comes_from_the_core(far):
    entry = find_entry(far, OPS["matmul"], (), (Spec((2, 3), "float32"), Spec((3, 4), "float32")))
    assert entry.workspace is Spec((2 * 4 * 4,), "uint8")


def test_a_faulty_kernel_cannot_hide(far, monkeypatch):
    """A result of another dtype or shape is an error, and inputs cannot be overwritten unseen."""
    kernel = TABLE.find("neg", [float32], [float32])
    monkeypatch.setattr(np, "negative", lambda x: x.astype(np.float64))
    prepared = kernel.prepare(far, (F2,), (F2,))
    x = from_host(far, np.ones(2, np.float32), F2)
    y = from_host(far, np.ones(2, np.float32), F2)
    prepared(x.handle, y.handle)
    with pytest.raises(TypeError, match=r"^neg made float64 \(2,\)$"):
        far.synchronize()


def test_tensors_on_it_work(far):
    x = tensor([[1.0, 2.0], [3.0, 4.0]], device=far)
    np.testing.assert_array_equal((x @ x.T + x.sum()).numpy(), [[15, 21], [21, 35]])
