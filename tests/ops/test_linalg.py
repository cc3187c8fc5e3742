"""Products: values worked by hand, laws, gradients, errors."""

import numpy as np
import pytest

from checks import both, check_gradients, random
from singa_core import ops
from singa_core.errors import DTypeError, ShapeError


def test_matmul_equals_the_sum_done_by_hand(array):
    y = both(ops.matmul, array([[1, 2]]), array([[3, 4], [5, 6]]))
    np.testing.assert_array_equal(y.numpy(), [[13, 16]])  # 1*3 + 2*5, 1*4 + 2*6


def test_a_vector_is_a_row_on_the_left_and_a_column_on_the_right(array):
    a, v = array([[1, 2], [3, 4]]), array([10, 1])
    assert both(ops.matmul, a, v).tolist() == [12, 34]
    assert both(ops.matmul, v, a).tolist() == [13, 24]
    assert both(ops.matmul, v, v).item() == 101
    assert ops.matmul(v, v).shape == ()
    batch = array(np.arange(12).reshape(3, 2, 2))
    np.testing.assert_array_equal(
        ops.matmul(batch, v).numpy(), np.arange(12).reshape(3, 2, 2) @ [10, 1]
    )


SHAPES = [
    ((2, 3), (3, 4)), ((1, 3), (3, 1)), ((4, 1), (1, 2)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)),
    ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 1)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
    ((2, 0, 4), (4, 3)), ((2, 3, 0), (0, 2)), ((0, 3, 4), (4, 2)), ((2, 3, 4), (4, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_values_are_numpys(array, a, b):
    a, b = random(*a), random(*b, seed=1)
    y = both(ops.matmul, array(a), array(b))
    np.testing.assert_allclose(y.numpy(), a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_gradients(device, a, b):
    check_gradients(ops.matmul, device, random(*a), random(*b, seed=1))


def test_second_derivatives(device):
    check_gradients(ops.matmul, device, random(2, 3, 4), random(4, 2, seed=1), order=2)


def test_a_transposed_operand_needs_no_copy_of_its_own(array):
    a, b = random(3, 4), random(5, 4, seed=1)
    y = both(lambda p, q: p @ q.mT, array(a), array(b))
    np.testing.assert_allclose(y.numpy(), a @ b.T, rtol=1e-5)


def test_float16_is_summed_in_float32(array):
    ones = array(np.ones((1, 4096)), "float16")
    assert (ones @ ones.mT).item() == 4096.0  # ones added in float16 stop at 2048


@pytest.mark.parametrize(
    ("a", "b", "error", "text"),
    [
        (
            (2, 3),
            (2, 3),
            ShapeError,
            r"matmul: needs a.shape\[-1\] == b.shape\[-2\], got 3 != 2\n  a: ",
        ),
        (
            (2, 3),
            (2,),
            ShapeError,
            r"matmul: needs a.shape\[-1\] == b.shape\[-1\], got 3 != 2\n  a: ",
        ),
        ((2,), (3, 2), ShapeError, r"matmul: needs a.shape\[-1\] == b.shape\[-2\], got 2 != 3"),
        ((), (2, 3), ShapeError, r"matmul: needs a.ndim >= 1 and b.ndim >= 1, got 0 and 2"),
        (
            (2, 1, 3),
            (3, 3, 1),
            ShapeError,
            r"matmul: needs equal sizes \(or 1\) at axis -1, got 2 and 3",
        ),
    ],
)
def test_a_broken_rule_is_named(array, a, b, error, text):
    with pytest.raises(error, match=text):
        array(np.zeros(a)) @ array(np.zeros(b))


def test_bool_has_no_product(array):
    with pytest.raises(DTypeError, match=r"matmul: needs a number dtype .*, got bool"):
        array([[True]]) @ array([[True]])


def test_outer_vecdot_and_tensordot(array, device):
    assert ops.outer(array([1, 2]), array([3, 4])).tolist() == [[3, 4], [6, 8]]
    assert ops.vecdot(array([[1, 2], [3, 4]]), array([10, 1])).tolist() == [12, 34]
    a, b = random(2, 3, 4), random(3, 4, 5, seed=1)
    y = both(ops.tensordot, array(a), array(b))
    np.testing.assert_allclose(y.numpy(), np.tensordot(a, b), rtol=1e-5)
    y = ops.tensordot(array(a), array(b), axes=([1], [0]))
    np.testing.assert_allclose(y.numpy(), np.tensordot(a, b, ([1], [0])), rtol=1e-5)
    y = ops.tensordot(array(a), array(b), axes=0)
    np.testing.assert_allclose(y.numpy(), np.tensordot(a, b, 0), rtol=1e-5)
    check_gradients(ops.tensordot, device, a, b)


def test_products_of_the_wrong_shapes_are_refused(array):
    with pytest.raises(ShapeError, match=r"outer: needs two vectors, got 2 and 1 axes"):
        ops.outer(array([[1]]), array([1]))
    with pytest.raises(ShapeError, match=r"tensordot: needs .* got \(3, 4\) and \(4, 3\)"):
        ops.tensordot(array(np.zeros((2, 3, 4))), array(np.zeros((4, 3, 5))))


def test_a_product_with_the_unit_matrix_is_the_matrix(array):
    x = array(random(3, 3))
    np.testing.assert_array_equal((x @ ops.eye(3, device=x.device)).numpy(), x.numpy())
