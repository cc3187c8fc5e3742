"""Groups of operations in the `array` language."""

import numpy as np

from singa_core.dtype import as_dtype
from singa_core.kernels.array import array
from singa_core.spec import Spec

F32, BOOL = as_dtype("float32"), as_dtype("bool")


def prepared(steps, results, *shapes):
    ins = [Spec(shape, F32) for shape in shapes]
    kernel = array.find("fused", [F32] * len(ins), [F32])
    return kernel.prepare(np, ins, (), steps=steps, results=results)


def test_steps_take_what_is_there_and_add_a_value():
    steps = (("mul", (), (0, 1), F32), ("less", (), (2, 0), BOOL), ("where", (), (3, 2, 0), F32))
    launch = prepared(steps, (4, 3), (2, 2), (2,))
    y, low = launch(np.float32([[1, 2], [3, -4]]), np.float32([2, 0.5]))
    assert y.tolist() == [[1, 1], [3, -4]]
    assert low.tolist() == [[False, True], [False, False]]
    assert (y.dtype, low.dtype) == (np.float32, np.bool_)


def test_a_step_without_a_kernel_declines():
    assert prepared((("no such op", (), (0,), F32),), (1,), (2,)) is None


def test_operations_together_take_their_own_inputs():
    specs = [Spec((2,), F32), Spec((), F32), Spec((3,), F32)]
    outs = [specs[0], specs[2], Spec((3,), BOOL)]
    kernel = array.find("together", [F32] * 3, [F32, F32, BOOL])
    steps = (("neg", (), (0,), F32), ("less", (), (2, 0), BOOL))
    parts = (
        ("mul", (), (0, 1), 1),
        ("fused", (("steps", steps), ("results", (2, 3))), (2, 1), 2),
    )
    launch = kernel.prepare(np, specs, outs, parts=parts)
    made = launch(np.float32([1, 2]), np.float32(3), np.float32([1, -1, 0]))
    assert [m.tolist() for m in made] == [[3, 6], [-1, 1, 0], [True, False, False]]


def test_a_part_without_a_kernel_declines():
    kernel = array.find("together", [F32], [F32])
    spec = Spec((2,), F32)
    assert kernel.prepare(np, [spec], [spec], parts=(("no such op", (), (0,), 1),)) is None
