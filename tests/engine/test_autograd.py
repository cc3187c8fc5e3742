"""Reverse mode: what arrives where, when, in which order, and what memory it keeps."""

import gc
import threading
import weakref

import numpy as np
import pytest

from singa_core import backward, enable_grad, gradients, no_grad, ops
from singa_core.autograd import stream
from singa_core.engine import GraphFunction
from singa_core.errors import DeviceError, DTypeError, GradientError, ShapeError
from singa_core.operation import Operation
from singa_core.optable import OPS
from singa_core.spec import Spec
from singa_core.tensor import Tensor, tensor


@pytest.fixture(params=["eager", "graph"])
def run(request):
    """Call a function of tensors as it is, or recorded and replayed: the last of two equal calls."""

    def call(function, *args):
        if request.param == "eager":
            return function(*args)
        function = GraphFunction(function)
        function(*args)
        return function(*args)

    return call


@pytest.fixture(autouse=True)
def _ops_go_with_their_test():
    known = set(OPS)
    yield
    for name in set(OPS) - known:
        del OPS[name]


# -- values -------------------------------------------------------------------------------------------


def test_the_chain_rule_by_hand(array, run):
    w = array([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

    def slope(x):
        y = (x @ w).tanh() * 2.0
        return gradients(y.sum(), w)

    x = array([[0.1, 0.2]])
    inner = np.array([[0.1, 0.2]]) @ np.array([[1.0, 2.0], [3.0, 4.0]])
    want = np.array([[0.1], [0.2]]) @ (2 * (1 - np.tanh(inner) ** 2))
    np.testing.assert_allclose(run(slope, x).numpy(), want, rtol=1e-5)


def test_several_roots_and_their_gradients(array, run):
    w = array([2.0, 3.0], requires_grad=True)

    def slopes(x):
        a, b = w * x, (w * w).sum()
        seed = x * 10.0
        return gradients([a, b], w, [seed, None]), gradients([b, a.sum()], w, retain_graph=True)

    x = array([1.0, 2.0])
    with pytest.raises(GradientError, match="tape that has not been used up"):
        slopes(x)

    def fine(x):
        a, b = w * x, (w * w).sum()
        one = gradients([a, b], w, [x * 10.0, None], retain_graph=True)
        return one, gradients([b, a.sum()], w)

    first, second = run(fine, x)
    assert first.tolist() == [10.0 + 4.0, 40.0 + 6.0]
    assert second.tolist() == [1.0 + 4.0, 2.0 + 6.0]


def test_one_root_that_lies_on_the_way_from_another(array, run):
    w = array(3.0, requires_grad=True)

    def slope(x):
        inner = w * x
        return gradients([inner * inner, inner], w), gradients([w, w * w], w)

    first, second = run(slope, array(2.0))
    assert (first.item(), second.item()) == (2 * 6 * 2 + 2, 1 + 6)


def test_a_root_that_is_a_leaf(array, run):
    w = array([1.0, 2.0], requires_grad=True)
    assert run(lambda x: gradients(w, w, x), array([3.0, 4.0])).tolist() == [3.0, 4.0]


def test_gradients_of_several_xs_leaves_and_intermediates(array, run):
    w, v = array(2.0, requires_grad=True), array(5.0, requires_grad=True)

    def slopes(x):
        h = w * x
        y = h * h * v
        return gradients(y, [w, h, v])

    assert [g.item() for g in run(slopes, array(3.0))] == [2 * 6 * 5 * 3, 2 * 6 * 5, 36]


def test_a_single_x_gives_a_single_gradient_and_a_list_a_tuple(array):
    w = array(2.0, requires_grad=True)
    assert isinstance(gradients(w * w, w), Tensor)
    assert isinstance(gradients(w * w, [w]), tuple)


def test_an_x_used_twice_is_summed(array, run):
    w = array([1.0, 2.0], requires_grad=True)

    def slope(x):
        return gradients((w * x + w * w * x + w[0] * 10.0).sum(), w)

    # d/dw0 of the last, broadcast over two: 20
    assert run(slope, array([1.0, 1.0])).tolist() == [3.0 + 20.0, 5.0]


def test_through_views_and_indexing(array, run):
    w = array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)

    def slopes(index):
        pieces = [
            w.mT[::-1][0] * 1.0, w[:, 1:].reshape(-1) * 2.0, w[1, ..., ::2] * 4.0,
            w.flip(1)[0, :1] * 8.0, w[index] * 16.0, w.broadcast_to(2, 2, 3)[:, 0, 0] * 32.0,
        ]  # fmt: skip
        return gradients(ops.concat(*[p.reshape(-1) for p in pieces], axis=0).sum(), w)

    got = run(slopes, array([0, 0])).numpy()
    want = np.zeros((2, 3))
    want[:, 2] += 1
    want[:, 1:] += 2
    want[1, ::2] += 4
    want[0, 2] += 8
    want[0] += 32
    want[0, 0] += 64
    np.testing.assert_array_equal(got, want)


def test_third_derivatives_against_closed_forms(array, run):
    x = array([0.3, 1.5], requires_grad=True)

    def three(_):
        out = []
        for f in (lambda t: t * t * t * t, ops.tanh, ops.exp, ops.sigmoid):
            y = f(x)
            for order in range(3):
                y = gradients(y.sum(), x, create_graph=order < 2)
                out.append(y)
        return out

    got = [t.numpy() for t in run(three, array(0.0))]
    v = np.array([0.3, 1.5])
    t, s = np.tanh(v), 1 / (1 + np.exp(-v))
    want = [
        4 * v**3, 12 * v**2, 24 * v,
        1 - t**2, -2 * t * (1 - t**2), (1 - t**2) * (6 * t**2 - 2),
        np.exp(v), np.exp(v), np.exp(v),
        s * (1 - s), s * (1 - s) * (1 - 2 * s), s * (1 - s) * (1 - 6 * s + 6 * s**2),
    ]  # fmt: skip
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def test_a_second_derivative_reports_each_leaf_once(array, run):
    w, v = array(2.0, requires_grad=True), array(3.0, requires_grad=True)

    def slopes(x):
        (first,) = gradients(w * w * v * x, [w], create_graph=True)
        return gradients(first, [w, v])

    assert [g.item() for g in run(slopes, array(1.0))] == [2 * 3, 2 * 2]


def test_detach_cuts_and_no_grad_makes_no_tape(array, run):
    w = array(3.0, requires_grad=True)

    @no_grad()
    def constant_part(x):
        assert not (w * x).requires_grad
        with enable_grad():
            assert (w * x).requires_grad
        return w * x

    def slope(x):
        frozen = constant_part(x)
        assert not frozen.requires_grad
        assert not (w * x).detach().requires_grad
        return gradients(w * (w * x).detach() + frozen, w)

    assert run(slope, array(2.0)).item() == 6.0


def test_backward_adds_to_grad_and_gradients_does_not_touch_it(array, run):
    w = array(3.0, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).backward()
        (w * x * x).backward()
        gradients(w * 100.0, w)
        return w.grad * 1.0

    assert run(step, array(2.0)).item() == 2.0 + 4.0
    assert w.grad.item() == 6.0
    assert not w.grad.requires_grad
    assert w.grad.is_leaf


def test_backward_with_several_roots_and_seeds(array):
    w = array([1.0, 2.0], requires_grad=True)
    backward([w * 2.0, w.sum()], [array([1.0, 10.0]), None])
    assert w.grad.tolist() == [3.0, 21.0]
    w.grad = None
    (w * 2.0).backward(array([1.0, 10.0]))
    assert w.grad.tolist() == [2.0, 20.0]
    with pytest.raises(GradientError, match="one gradient for each root, got 1 for 2"):
        backward([w * 2.0, w * 3.0], [array([1.0, 1.0])])


def test_one_gradient_of_two_leaves_is_two_cells(array, run):
    a, b = array([1.0], requires_grad=True), array([2.0], requires_grad=True)

    def step(x):
        a.grad = b.grad = None
        y = (a + b).sum()
        y.backward()
        a.grad *= 10.0
        first, second = gradients((a + b + x * 0.0).sum(), [a, b])
        first += 100.0
        again = gradients(a + b, [a, a], x)
        again[0].assign(x * 7.0)
        return first, second, *again

    got = run(step, array([5.0]))
    assert [t.item() for t in got] == [101.0, 1.0, 35.0, 5.0]
    assert (a.grad.item(), b.grad.item()) == (10.0, 1.0)
    assert a.grad is not b.grad


def test_a_seed_is_not_the_gradient(array):
    w, seed = array([1.0], requires_grad=True), array([2.0])
    w.backward(seed)
    w.grad += 1.0
    assert (w.grad.item(), seed.item()) == (3.0, 2.0)


def test_a_consumer_of_the_stream_may_change_what_it_is_given(array, run):
    a, b = array([1.0], requires_grad=True), array([2.0], requires_grad=True)

    def step(x):
        seen = []
        for _, grad in stream((a + b).sum()):
            grad *= 10.0
            seen.append(grad * x)
        return seen

    assert [t.item() for t in run(step, array([1.0]))] == [10.0, 10.0]


def test_who_holds_a_grad_sees_what_is_added_to_it(array, run):
    w = array([1.0], requires_grad=True)
    w.grad = held = array([5.0])

    def step(x):
        (w * x).backward()

    run(step, array([2.0]))
    assert w.grad is held
    assert held.item() in (7.0, 9.0)  # once eagerly, twice as a graph


def test_gradients_are_added_up_over_some_calls_in_two_graphs(array):
    w, x = array([1.0, 1.0], requires_grad=True), array([1.0, 2.0])
    function = GraphFunction(lambda x: (w * x).sum().backward())
    seen = []
    for i in range(12):
        if i % 3 == 0:
            w.grad = None
        function(x)
        seen.append((w.grad, w.grad.tolist()))
    assert [v for _, v in seen] == [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]] * 4
    assert function.records == 2
    assert seen[0][0] is seen[1][0] is seen[2][0] is not seen[3][0]
    assert seen[0][0].tolist() == [3.0, 6.0]


# -- hooks --------------------------------------------------------------------------------------------


def test_hooks_see_complete_gradients_and_may_replace_them(array, run):
    seen = []

    def step(x):
        w = leaf
        seen.clear()
        h = w * x
        h.register_hook(lambda g: seen.append(("h", g.shape)))
        h.register_hook(lambda g: g * 10.0)
        return gradients(h.sum() + (h * h).sum(), w)

    leaf = array([1.0, 2.0], requires_grad=True)
    # dh = 1 + 2 h, times 10 by the hook, times x
    assert run(step, array([1.0, 1.0])).tolist() == [30.0, 50.0]
    assert seen == [("h", (2,))]


def test_a_leaf_hook_holds_until_it_is_removed_in_graphs_too(array):
    w, x = array([1.0, 2.0], requires_grad=True), array([1.0, 1.0])

    def step(x):
        return gradients((w * w * x).sum(), w)

    function = GraphFunction(step)
    assert function(x).tolist() == step(x).tolist() == [2.0, 4.0]
    remove = w.register_hook(lambda g: g * 0.5)
    other = w.register_hook(lambda g: g + 1.0)
    assert step(x).tolist() == [2.0, 3.0]
    assert function(x).tolist() == [2.0, 3.0]
    remove()
    remove()
    assert step(x).tolist() == [3.0, 5.0]
    assert function(x).tolist() == [3.0, 5.0]
    other()
    assert function(x).tolist() == [2.0, 4.0]


def test_a_hook_needs_a_gradient(array):
    with pytest.raises(GradientError, match="register_hook: needs a tensor that requires grad"):
        array([1.0]).register_hook(print)


# -- errors -------------------------------------------------------------------------------------------


def test_a_second_backward_says_which_op_and_what_to_do(array):
    w = array(2.0, requires_grad=True)
    y = (w * w).tanh()
    y.backward(retain_graph=True)
    y.backward()
    text = (
        r"backward: needs a tape that has not been used up, got a second backward through tanh\n"
        r"try: retain_graph=True on the first"
    )
    with pytest.raises(GradientError, match=text):
        y.backward()


def test_a_second_backward_is_refused_while_recording_as_well(array, run):
    w = array(2.0, requires_grad=True)

    def twice(x, *, retain):
        y = (w * x).tanh()
        first = gradients(y, w, retain_graph=retain)
        return first, gradients(y, w)

    with pytest.raises(GradientError, match="second backward through tanh"):
        run(lambda x: twice(x, retain=False), array(1.0))
    first, second = run(lambda x: twice(x, retain=True), array(1.0))
    assert first.item() == second.item()


def test_a_used_up_part_is_found_before_any_gradient_is_given(array):
    w, v = array(2.0, requires_grad=True), array(3.0, requires_grad=True)
    shared = w * w
    gradients(shared * v, [w])
    y = shared * 2.0 + v * 5.0
    with pytest.raises(GradientError, match="second backward through mul"):
        y.backward()
    assert v.grad is None
    assert w.grad is None


@pytest.mark.parametrize("how", ["plain", "no_grad", "detached", "integer"])
def test_no_path_to_a_leaf(array, run, how):
    w = array(2.0, requires_grad=True)

    def make(x):
        if how == "no_grad":
            with no_grad():
                return w * x
        return {"plain": x * 2.0, "detached": (w * x).detach(), "integer": (w * x).astype("int64")}[
            how
        ]

    with pytest.raises(
        GradientError, match="depends on a leaf with requires_grad, got one that does not"
    ):
        run(lambda x: gradients(make(x), w), array(1.0))


def test_xs_that_are_not_tracked_or_not_reached(array, run):
    w, v = array(2.0, requires_grad=True), array(3.0, requires_grad=True)
    x = array(1.0)
    with pytest.raises(
        GradientError, match=r"xs that require grad, got xs\[1\], which does not\n  x: float32"
    ):
        run(lambda x: gradients(w * x, [w, x]), x)
    with pytest.raises(
        GradientError,
        match=r"depends on every x, got no path to xs\[1\]\n.*\ntry: allow_unused=True",
    ):
        run(lambda x: gradients(w * x, [w, v]), x)
    got = run(lambda x: gradients(w * x, [v, w], allow_unused=True), x)
    assert got[0] is None
    assert got[1].item() == 1.0


def test_roots_of_several_elements_and_seeds_of_another_kind(array, other_device, run):
    w = array([1.0, 2.0], requires_grad=True)
    x = array([1.0, 1.0])
    with pytest.raises(
        GradientError, match=r"root of several elements, got none\n  y: .*\ntry: y.sum\(\).backward"
    ):
        run(lambda x: gradients(w * x, w), x)
    with pytest.raises(
        ShapeError, match=r"backward: needs a gradient of the root's shape, got \(3,\)"
    ):
        run(
            lambda x: gradients(
                w * x, w, x.reshape(1, 2).broadcast_to(2, 2)[0, :1].broadcast_to(3)
            ),
            x,
        )
    with pytest.raises(
        DTypeError, match="backward: needs a gradient of the root's dtype, got float64"
    ):
        run(lambda x: gradients(w * x, w, x.astype("float64")), x)
    other = tensor([1.0, 1.0], device=other_device)
    with pytest.raises(DeviceError):
        run(lambda x: gradients(w * x, w, other), x)
    assert run(lambda x: gradients((w * x).sum().reshape(1, 1), w), x).tolist() == [1.0, 1.0]


def test_plus_equals_on_a_leaf_is_refused(array, run):
    w = array([1.0], requires_grad=True)

    def step(x):
        target = w
        target += x

    with pytest.raises(
        GradientError,
        match=r"add: needs a tensor that is not a leaf .*\n.*\ntry: use `with no_grad",
    ):
        run(step, array([1.0]))
    with pytest.raises(GradientError, match="in-place change of a leaf"):
        w[0] = 5.0
    assert w.tolist() == [1.0]
    with no_grad():
        w += 1.0
    assert (w.tolist(), w.requires_grad, w.is_leaf) == ([2.0], True, True)


def test_only_floating_leaves_want_gradients(array):
    with pytest.raises(GradientError, match="requires_grad: needs a floating dtype, got int64"):
        array([1]).requires_grad = True
    w = array([1.0], requires_grad=True)
    y = w * 2.0
    with pytest.raises(
        GradientError, match="requires_grad: needs a leaf, got the result of an operation"
    ):
        y.requires_grad = False
    assert y.requires_grad


class Lying(Operation):
    """An op whose backward is wrong in a way that is chosen."""

    name = "lying_op_of_a_test"
    how = ""

    def infer(self, x: Spec, y: Spec) -> Spec:
        return x

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y

    def backward(self, grad: Tensor, *, needs):
        return {"count": (grad,), "shape": (grad.sum(), grad), "fine": (grad, grad)}[self.how]


def test_a_backward_that_gives_the_wrong_thing_is_named(array, run):
    lying = Lying()
    w, v = array([1.0, 2.0], requires_grad=True), array([1.0, 2.0], requires_grad=True)
    for how, text in (
        ("count", "needs 2 gradients from backward, got 1"),
        ("shape", r"like input 0 \(float32 \(2,\)\)"),
    ):
        Lying.how = how
        with pytest.raises(
            GradientError, match=f"lying_op_of_a_test: needs .*{text.removeprefix('needs ')}"
        ):
            run(lambda x: gradients(lying(w, v).sum(), [w, v]), array(0.0))
    Lying.how = "fine"
    assert [
        g.tolist() for g in run(lambda x: gradients(lying(w, v).sum(), [w, v]), array(0.0))
    ] == [[1.0] * 2] * 2


# -- values are immutable, cells are not ------------------------------------------------------------------


def test_a_leaf_assigned_between_forward_and_backward_keeps_the_old_value(array, run):
    w = array([3.0], requires_grad=True)

    def step(x):
        w.assign(x * 3.0)
        loss = w * w * w
        w.assign(x * 100.0)
        slope = gradients(loss, w)
        return slope, w * 1.0

    slope, after = run(step, array([1.0]))
    assert (slope.item(), after.item()) == (27.0, 100.0)


def test_updates_in_place_do_not_reach_a_tape(array):
    w, rate = array([3.0], requires_grad=True), array(1.0)
    loss = (w * w).sum()
    held = loss * 1.0
    with no_grad():
        w -= 1.0
        w *= 2.0
    assert gradients(loss, w, retain_graph=True).item() == 6.0
    assert held.item() == 9.0
    assert (w.item(), rate.item()) == (4.0, 1.0)


def test_plus_equals_on_a_result_keeps_its_history(array, run):
    w = array([3.0], requires_grad=True)

    def step(x):
        y = w * x
        alias = y.detach()
        y += w
        y *= 2.0
        y[0] = y[0] * 3.0
        return gradients(y.sum(), w), alias

    slope, alias = run(step, array([5.0]))
    assert (slope.item(), alias.item()) == (36.0, 15.0)


# -- composites ---------------------------------------------------------------------------------------


class Expanding(Operation):
    """A composite without a gradient of its own: differentiated through its decomposition."""

    name = "expanding_op_of_a_test"

    def infer(self, x: Spec) -> Spec:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return x * x.tanh()


class Owning(Expanding):
    """The same function with a gradient of its own."""

    name, keeps = "owning_op_of_a_test", ("x",)

    def backward(self, grad: Tensor, x: Tensor, *, needs):
        t = x.tanh()
        return grad * (t + x * (1.0 - t * t))


def test_a_composite_expands_or_uses_its_own_backward(array, run):
    w = array([0.5, -1.0], requires_grad=True)
    expanding, owning = Expanding(), Owning()
    seen = {}

    def step(x):
        a, b = expanding(w), owning(w)
        seen.update(a=a.node.entry.op.name, b=b.node.entry.op.name)
        with no_grad():
            assert not expanding(w).requires_grad
        return a, b, gradients(a.sum(), w), gradients(b.sum(), w)

    a, b, slope_a, slope_b = (t.numpy() for t in run(step, array(0.0)))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(slope_a, slope_b, rtol=1e-6)
    v = np.array([0.5, -1.0])
    np.testing.assert_allclose(slope_a, np.tanh(v) + v * (1 - np.tanh(v) ** 2), rtol=1e-6)
    assert seen == {"a": "mul", "b": "owning_op_of_a_test"}


class Seeing(Operation):
    """Tells what `needs` said."""

    name = "seeing_op_of_a_test"
    seen = None

    def infer(self, x: Spec, y: Spec, n: Spec) -> tuple[Spec, Spec]:
        return x, x

    def forward(self, x, y, n):
        return x + y, x - y

    def backward(self, grad0, grad1, *, needs):
        Seeing.seen = tuple(needs), grad0 is None, grad1 is None, needs.specs[2].dtype.name
        grad = grad0 if grad1 is None else grad1
        return grad if needs[0] else None, grad if needs[1] else None, None


def test_backward_is_told_what_is_needed_and_takes_none_for_unused_outputs(array, run):
    seeing = Seeing()
    w, n = array([1.0], requires_grad=True), array([1])
    run(lambda x: gradients(seeing(w, x, n)[1].sum(), w), array([2.0]))
    assert Seeing.seen == ((True, False, False), True, False, "int64")
    run(lambda x: gradients(seeing(x, w, n)[0].sum(), w), array([2.0]))
    assert Seeing.seen == ((False, True, False), False, True, "int64")


# -- the stream ---------------------------------------------------------------------------------------


def three_layers(array):
    return [array(np.full((2, 2), i + 1.0, np.float32), requires_grad=True) for i in range(3)]


def test_the_stream_gives_each_leaf_once_when_it_is_complete_latest_first(array):
    for _ in range(3):
        a, b, c = three_layers(array)
        x = array(np.ones((2, 2), np.float32))
        loss = ((x @ a @ b @ a) * c).sum()
        got = [next(i for i, w in enumerate((a, b, c)) if w is leaf) for leaf, _ in stream(loss)]
        assert got == [2, 1, 0]


def test_a_leaf_may_be_changed_as_soon_as_it_is_given(array):
    a, b, c = three_layers(array)
    x = array(np.ones((2, 2), np.float32))
    want = [g.tolist() for g in gradients((x @ a @ b @ c).sum(), [a, b, c])]
    got = {}
    for leaf, grad in stream((x @ a @ b @ c).sum()):
        got[id(leaf)] = grad.tolist()
        with no_grad():
            leaf.assign(leaf * 0.0)
    assert [got[id(w)] for w in (a, b, c)] == want


def test_the_stream_holds_no_mode_between_its_pairs(array):
    a, b, c = three_layers(array)
    x = array(np.ones((2, 2), np.float32))
    walk = stream((x @ a @ b @ c).sum())
    next(walk)
    assert (a * x).requires_grad
    with no_grad():
        next(walk)
        assert not (a * x).requires_grad
    walk.close()
    assert (a * x).requires_grad


def test_an_abandoned_walk_can_be_seen_in_the_tape(array):
    a, b, c = three_layers(array)
    loss = (a @ b @ c).sum()
    next(stream(loss))
    with pytest.raises(GradientError, match="used up"):
        loss.backward()


def test_a_dead_leaf_is_passed_over(array):
    w = array([1.0], requires_grad=True)
    gone = array([2.0], requires_grad=True)
    y = (w * gone).sum()
    del gone
    assert [leaf is w for leaf, _ in stream(y)] == [True]


# -- threads ------------------------------------------------------------------------------------------


def test_grad_mode_is_local_to_a_thread(array):
    w = array([1.0], requires_grad=True)
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append((w * 2.0).requires_grad))
        thread.start()
        thread.join()
        seen.append((w * 2.0).requires_grad)
    assert seen == [True, False]


# -- memory -------------------------------------------------------------------------------------------


def test_steps_leave_no_garbage_cycles(array):
    w = array(np.ones((8, 8), np.float32), requires_grad=True)

    def step(x):
        h = (x @ w).tanh()
        h.register_hook(lambda g: g * 1.0)
        values, _ = h.sort(axis=-1)
        (values * h).sum().backward()
        with no_grad():
            w.assign(w - w.grad * 0.01)
        w.grad = None
        slope = gradients((w * w * w).sum(), w, create_graph=True)
        gradients(slope.sum(), w)

    x = array(np.ones((4, 8), np.float32))
    function = GraphFunction(step)
    for call in (step, function):
        call(x)
        gc.collect()
        gc.disable()
        try:
            call(x)
            assert gc.collect() == 0
        finally:
            gc.enable()


def test_a_tape_frees_what_it_saved_as_backward_goes(array, device):
    n, depth = 4096, 12
    w = array(np.ones(n, np.float32), requires_grad=True)
    x = array(np.ones(n, np.float32))

    def loss():
        h = x
        for _ in range(depth):
            h = (h * w).tanh()
        return h.sum()

    y = loss()
    start = device.memory.current
    device.memory.reset_peak()
    y.backward()
    extra = (device.memory.peak - start) / (4 * n)
    assert extra <= 5.5  # gradients on their way, not the tape once more
    w.grad = None
    assert device.memory.current <= start - 4 * n * (depth - 1)  # though y is still there


def test_only_what_backward_names_is_kept(array, device):
    x = array(np.ones(1024, np.float32), requires_grad=True)
    before = device.memory.current
    y = (x + 1.0) - 2.0 + x
    z = (-y).sum()
    del y
    assert device.memory.current - before < 1024 * 4  # nothing but scalars
    assert gradients(z, x).sum().item() == -2048.0


def test_a_long_chain_is_freed_without_recursion(array):
    x = array(1.0, requires_grad=True)
    y = x
    for _ in range(30_000):
        y = y * 1.0
    node = weakref.ref(y)
    del y
    assert node() is None
    y = x
    for _ in range(5_000):
        y = y + 1.0
    assert gradients(y, x).item() == 1.0
