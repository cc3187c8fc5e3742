"""Each pass alone, on small Programs made by hand."""

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import writes_in_place
from singa_core import graph, kernels, ops, random, tensor, update
from singa_core.executable import LoopExecutable
from singa_core.mode import Mode, use_mode
from singa_core.operation import Operation
from singa_core.optable import OPS
from singa_core.passes import cse, fold, fuse, lower, number, optimise, prune, together
from singa_core.passes.eager import eager_peak, lowered
from singa_core.passes.order import Flow, order, planned_bytes
from singa_core.passes.place import place
from singa_core.passes.plan import Piece, in_arena, in_buffers, live_bytes, plan
from singa_core.program import Instruction, Program
from singa_core.recorder import Recorder
from singa_core.spec import Spec
from singa_core.storage import from_host
from singa_core.tensor import Tensor

PLAN = importlib.import_module("singa_core.passes.plan")  # not the function of that name
FUSE = importlib.import_module(
    "singa_core.passes.fuse"
)  # the package has the function by this name
X, N = Spec((2, 3), "float32"), Spec((), "float32")


def wide(*shape):
    return Spec(shape, "float32")


@pytest.fixture
def declared():
    """Make ops of a test; they and their kernels go with the test."""
    known = set(OPS)
    yield lambda *kinds: [kind() for kind in kinds]
    for name in set(OPS) - known:
        del OPS[name]
        for table in kernels._TABLES.values():
            table._kernels.pop(name, None)


def program(*instructions, specs=None, **rest):
    """A Program whose slots are all X unless told; instructions as (op, ins, outs, attrs)."""
    made = tuple(
        Instruction(op, tuple(attrs.items()), tuple(ins), tuple(outs))
        for op, ins, outs, attrs in instructions
    )
    table = {slot: X for i in made for slot in (*i.ins, *i.outs)} | (specs or {})
    for kind in ("args", "cells", "scalars", "constants"):
        table |= {slot: table.get(slot, X) for slot in rest.get(kind, ())}
    every = tuple(table.get(slot, X) for slot in range(max(table, default=0) + 1))
    return Program(specs=every, instructions=made, **rest)


def ops_of(p):
    return [i.op for i in p.instructions]


def run(p, device, *args, cells=(), scalars=()):
    """Results of a Program on host arrays."""
    loaded = LoopExecutable(p, device, cells)
    arrays = [from_host(device, a, Spec(a.shape, a.dtype)) for a in args]
    return [Tensor(a).numpy().copy() for a in loaded.run(arrays, lambda: scalars)]


# -- number -------------------------------------------------------------------------------------------


def test_number_gives_arguments_cells_and_scalars_their_slots_first(device):
    cell = tensor(np.ones((2, 3), np.float32), device=device)
    recorder = Recorder(device)
    with use_mode(Mode(False, recorder)):
        x = recorder.placeholder(X)
        rate = recorder.scalar(lambda: 1.0, N)
        y = (x * cell) * rate + 2.0
        cell.assign(y)
        got = number(recorder, [recorder.value(y)], [(0, recorder.value(cell))])
    assert (got.args, got.cells, got.scalars) == ((0,), (1,), (2,))
    assert [c.tolist() for c in got.constants.values()] == [2.0]
    assert ops_of(got) == ["mul", "mul", "add"]
    assert got.results == (got.updates[0][1],)
    assert str(got).splitlines()[:3] == [
        "%0 = arg 0: float32 (2, 3)", "%1 = cell 0: float32 (2, 3)", "%2 = scalar 0: float32 ()",
    ]  # fmt: skip


def test_number_reads_an_assigned_leaf_as_the_value_assigned(device):
    leaf = tensor(np.ones((2, 3), np.float32), device=device, requires_grad=True)
    recorder = Recorder(device)
    with use_mode(Mode(True, recorder)):
        x = recorder.placeholder(X)
        leaf.assign(x)
        leaf.assign(leaf * 2.0)
        y = leaf + 1.0
        got = number(recorder, [recorder.value(y)], [(0, recorder.value(leaf))])
    assert ops_of(got) == ["mul", "add"]
    assert got.instructions[0].ins[0] == got.args[0]
    assert got.updates == ((0, got.instructions[0].outs[0]),)


# -- prune --------------------------------------------------------------------------------------------


def test_prune_drops_what_nobody_needs_and_keeps_what_state_needs():
    p = program(
        ("neg", [0], [2], {}), ("exp", [2], [3], {}), ("add", [0, 1], [4], {}), ("neg", [5], [6], {}),
        ("mul", [0, 7], [8], {}),
        args=(0,), cells=(1,), scalars=(9,), constants={5: np.zeros((2, 3)), 7: np.ones(())},
        results=(2,), updates=((0, 4),), arg_updates=((0, 8),), specs={7: N, 9: N},
    )  # fmt: skip
    got = prune(p)
    assert ops_of(got) == ["neg", "add", "mul"]
    assert (set(got.constants), got.scalars) == ({7}, (9,))
    assert (got.results, got.updates, got.arg_updates) == ((2,), ((0, 4),), ((0, 8),))
    assert prune(got) == got


def test_prune_keeps_an_instruction_of_which_one_output_is_needed():
    p = program(("sort", [0], [1, 2], {"axis": 1, "descending": False}), args=(0,), results=(2,))
    assert ops_of(prune(p)) == ["sort"]


# -- fold ---------------------------------------------------------------------------------------------


def test_fold_computes_constants_with_the_device_s_own_bits(device):
    host = np.array([[0.1, 0.2, -0.3], [3.3, -0.0, 0.7]], np.float32)
    p = program(
        ("exp", [0], [1], {}), ("tanh", [1], [2], {}), ("add", [2, 3], [4], {}), ("mul", [4, 5], [6], {}),
        constants={0: host, 3: np.array(0.3, np.float32)}, args=(5,), results=(6,), specs={3: N},
    )  # fmt: skip
    got = fold(p, device)
    assert ops_of(got) == ["mul"]
    eager = ops.tanh(ops.exp(tensor(host, device=device))) + 0.3
    assert got.constants[4].tobytes() == eager.numpy().tobytes()
    x = np.full((2, 3), 1.7, np.float32)
    (one,), (other,) = run(p, device, x), run(prune(got), device, x)
    assert one.tobytes() == other.tobytes()


def test_fold_leaves_what_depends_on_anything_else(device):
    p = program(("add", [0, 1], [3], {}), ("mul", [3, 2], [4], {}),
                args=(0,), cells=(1,), scalars=(2,), results=(4,), specs={2: N})  # fmt: skip
    assert fold(p, device) == p


def test_fold_leaves_what_would_be_a_large_constant(device):
    for n, left in ((4096, 0), (4097, 1)):
        spec = Spec((n,), "float32")
        attrs = {"shape": (n,), "value": 1.0, "dtype": spec.dtype}
        p = program(("full", [], [0], attrs), ("add", [0, 1], [2], {}),
                    args=(1,), results=(2,), specs={0: spec, 1: spec, 2: spec})  # fmt: skip
        assert len(fold(p, device).instructions) == 1 + left


def test_fold_renames_what_does_nothing(device):
    same = {"shape": (2, 3)}
    p = program(
        ("copy", [0], [1], {}), ("detach", [1], [2], {}), ("reshape", [2], [3], same),
        ("broadcast_to", [3], [4], same), ("cast", [4], [5], {"dtype": X.dtype}), ("neg", [5], [6], {}),
        ("reshape", [6], [7], {"shape": (3, 2)}),
        args=(0,), results=(6, 5, 7), updates=((0, 4),), cells=(8,),
        specs={7: Spec((3, 2), "float32")},
    )  # fmt: skip
    got = fold(p, device)
    assert ops_of(got) == ["neg", "reshape"]
    assert got.instructions[0].ins == (0,)
    assert (got.results, got.updates) == ((6, 0, 7), ((0, 0),))


# -- cse ----------------------------------------------------------------------------------------------


def test_cse_merges_equal_instructions_and_what_follows_from_them():
    p = program(
        ("exp", [0], [1], {}), ("exp", [0], [2], {}), ("add", [1, 0], [3], {}), ("add", [2, 0], [4], {}),
        ("sub", [3, 4], [5], {}),
        args=(0,), results=(5, 2, 4), updates=((0, 4),), cells=(6,),
    )  # fmt: skip
    got = cse(p)
    assert ops_of(got) == ["exp", "add", "sub"]
    assert got.instructions[-1].ins == (3, 3)
    assert (got.results, got.updates) == ((5, 1, 3), ((0, 3),))


def test_cse_tells_attributes_dtypes_and_operand_order_apart():
    reduced = Spec((3,), "float32")
    p = program(
        ("sum", [0], [1], {"axis": (0,), "keepdims": False}),
        ("sum", [0], [2], {"axis": (0,), "keepdims": 0}),
        ("sub", [0, 3], [4], {}), ("sub", [3, 0], [5], {}),
        ("cast", [0], [6], {"dtype": Spec((), "float64").dtype}),
        ("cast", [0], [7], {"dtype": Spec((), "int64").dtype}),
        ("leaky_relu", [0], [8], {"slope": 0.0}), ("leaky_relu", [0], [9], {"slope": -0.0}),
        args=(0, 3), results=(1, 2, 4, 5, 6, 7, 8, 9),
        specs={1: reduced, 2: reduced, 6: Spec((2, 3), "float64"), 7: Spec((2, 3), "int64")},
    )  # fmt: skip
    assert cse(p) == p


def test_cse_keeps_constants_apart_that_are_equal_but_not_the_same():
    f, d, i = (Spec((), t) for t in ("float32", "float64", "int64"))
    values = [
        (f, 0.0), (f, -0.0), (f, np.nan), (d, 0.0), (i, 0), (f, 1.0), (i, 1), (Spec((), "bool"), True),
        (Spec((1,), "float32"), [0.0]),
    ]  # fmt: skip
    constants, specs, slots = {}, {}, []
    for k, (spec, value) in enumerate(values * 2):
        constants[k], specs[k] = np.array(value, spec.dtype.numpy), spec
        slots.append(k)
    p = program(constants=constants, specs=specs, results=tuple(slots))
    got = cse(p)
    assert len(got.constants) == len(values)
    assert got.results == tuple(range(len(values))) * 2


def test_cse_merges_no_two_draws(device):
    @graph
    def two(x):
        return ops.rand((4,), device=device) + ops.rand((4,), device=device) * 2.0

    two(tensor(0.0, device=device))
    got = two.recordings[0].program
    drawn = [i for i in ops_of(got) if i in ("random_bits", "random_uniform")]
    for i in got.instructions:
        drawn += [name for name, *_ in i.options.get("steps", ()) if name == "random_bits"]
    assert len(drawn) == 2


def test_cse_keeps_nothing_alive_for_a_cheap_repeat(device):
    big = wide(8192)
    forward = [("exp", [0], [1], {}), ("neg", [1], [2], {}), ("tanh", [2], [3], {})]
    again = [("neg", [1], [4], {}), ("mul", [3, 4], [5], {}), ("mul", [5, 1], [6], {})]
    p = program(*forward, *again, specs=dict.fromkeys(range(7), big), args=(0,), results=(6,))
    assert ops_of(cse(p)) == ["exp", "neg", "tanh", "neg", "mul", "mul"]
    # where the first one is read later anyway, or only the repeat needs its input, it is kept
    read = program(*forward, *again, ("add", [6, 2], [7], {}),
                   specs=dict.fromkeys(range(8), big), args=(0,), results=(7,))  # fmt: skip
    assert ops_of(cse(read)).count("neg") == 1
    last = program(
        *forward, *again[:2], specs=dict.fromkeys(range(6), big), args=(0,), results=(5,)
    )
    assert ops_of(cse(last)).count("neg") == 1
    for q in (p, read, last):
        x = np.linspace(-1, 1, 8192, dtype=np.float32)
        (one,), (other,) = run(q, device, x), run(cse(q), device, x)
        assert one.tobytes() == other.tobytes()


def test_cse_keeps_no_copy_that_a_reshape_makes():
    x, turned, flat = wide(64, 128), wide(128, 64), wide(8192)
    turn, shape = {"axes": (1, 0)}, {"shape": (8192,)}
    p = program(
        ("exp", [0], [1], {}), ("permute_dims", [1], [2], turn), ("reshape", [2], [3], shape),
        ("neg", [3], [4], {}), ("permute_dims", [1], [5], turn), ("reshape", [5], [6], shape),
        ("mul", [4, 6], [7], {}), ("permute_dims", [1], [8], turn), ("add", [8, 9], [10], {}),
        specs={0: x, 1: x, 2: turned, 3: flat, 4: flat, 5: turned, 6: flat, 7: flat, 8: turned,
               9: turned, 10: turned}, args=(0, 9), results=(7, 10),
    )  # fmt: skip
    assert ops_of(cse(p)).count("permute_dims") == 1  # a view costs nothing
    assert ops_of(cse(p)).count("reshape") == 2


# -- lower --------------------------------------------------------------------------------------------


class Inner(Operation):
    name = "inner_op_of_a_pass_test"

    def infer(self, x: Spec, *, scale: float) -> Spec:
        return x

    def forward(self, x, *, scale):
        return x * scale + scale


class Outer(Operation):
    name = "outer_op_of_a_pass_test"

    def infer(self, x: Spec, y: Spec) -> tuple[Spec, Spec]:
        return x, y

    def forward(self, x, y):
        inner = OPS["inner_op_of_a_pass_test"]
        return inner(x, scale=2.0), inner(x, scale=2.0) - y


def test_lower_expands_composites_in_composites(device, declared):
    declared(Inner, Outer)
    p = program(("outer_op_of_a_pass_test", [0, 1], [2, 3], {}), ("neg", [3], [4], {}),
                args=(0, 1), results=(4, 2))  # fmt: skip
    got = lower(p, device)
    assert ops_of(got) == ["mul", "add", "mul", "add", "sub", "neg"]
    assert ops_of(cse(got)) == ["mul", "add", "sub", "neg"]
    assert (got.args, len(set(got.results))) == ((0, 1), 2)
    x, y = np.ones((2, 3), np.float32), np.full((2, 3), 3.0, np.float32)
    for final in (got, optimise(p, device)):
        negative, first = run(final, device, x, y)
        assert (negative[0, 0], first[0, 0]) == (-1.0, 4.0)


def test_lower_keeps_what_the_device_serves(device):
    p = program(("neg", [0], [1], {}), ("reshape", [1], [2], {"shape": (3, 2)}),
                args=(0,), results=(2,), specs={2: Spec((3, 2), "float32")})  # fmt: skip
    assert lower(p, device) == p


def test_lower_of_the_same_input_twice(device, declared):
    declared(Inner, Outer)
    p = program(("outer_op_of_a_pass_test", [0, 0], [1, 2], {}), args=(0,), results=(1, 2))
    first, second = run(lower(p, device), device, np.ones((2, 3), np.float32))
    assert (first[0, 0], second[0, 0]) == (4.0, 3.0)


# -- place --------------------------------------------------------------------------------------------


def test_place_makes_views_of_views_without_a_launch(device):
    p = program(
        ("permute_dims", [0], [1], {"axes": (1, 0)}), ("reshape", [2], [3], {"shape": (6,)}),
        ("neg", [3], [4], {}),
        args=(0, 2), results=(4,), specs={1: Spec((3, 2), "float32"), 3: Spec((6,), "float32"), 4: Spec((6,), "float32")},
    )  # fmt: skip
    placed = place(p, device)
    assert (placed.views, placed.copies, len(placed.steps)) == (2, 0, 1)
    assert placed.steps[0].ins[0].root == placed.args[1]


def test_place_shares_packed_copies(far_device):
    turned = Spec((3, 2), "float32")
    p = program(
        ("permute_dims", [0], [1], {"axes": (1, 0)}), ("neg", [1], [2], {}), ("exp", [1], [3], {}),
        args=(0,), results=(2, 3), specs={1: turned, 2: turned, 3: turned},
    )  # fmt: skip
    placed = place(p, far_device)
    assert (placed.copies, len(placed.steps)) == (1, 3)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    negative, _ = run(p, far_device, x)
    np.testing.assert_array_equal(negative, -x.T)


def test_place_writes_state_in_place_only_if_nobody_reads_it_later(device):
    before = program(("neg", [0], [2], {}), ("add", [0, 1], [3], {}),
                     args=(1,), cells=(0,), results=(2,), updates=((0, 3),))  # fmt: skip
    after = program(("add", [0, 1], [3], {}), ("neg", [0], [2], {}),
                    args=(1,), cells=(0,), results=(2,), updates=((0, 3),))  # fmt: skip
    through_a_view = program(
        ("permute_dims", [0], [4], {"axes": (1, 0)}), ("add", [0, 1], [3], {}), ("neg", [4], [5], {}),
        args=(1,), cells=(0,), results=(5,), updates=((0, 3),),
        specs={4: Spec((3, 2), "float32"), 5: Spec((3, 2), "float32")},
    )  # fmt: skip
    allowed = writes_in_place(device, ops.add, X, X)
    for p, in_place in ((before, allowed), (after, False), (through_a_view, False)):
        placed = place(p, device)
        assert (placed.writes == [(0, placed.cells[0])]) is in_place
        cell = tensor(np.ones((2, 3), np.float32), device=device)
        (result,) = run(p, device, np.full((2, 3), 4.0, np.float32), cells=[cell])
        assert set(result.ravel()) == {-1.0}
        assert cell.numpy()[0, 0] == 5.0


def test_place_gives_every_end_memory_of_its_own(device):
    p = program(
        ("neg", [0], [2], {}),
        args=(0,), cells=(1,), constants={3: np.ones((2, 3), np.float32)},
        results=(2, 2, 0, 3, 1), updates=((0, 2),), arg_updates=((0, 1),),
    )  # fmt: skip
    placed = place(p, device)
    ends = [*placed.results, placed.writes[0][1]]
    assert len(set(ends)) == len(ends) == 7
    cell = tensor(np.full((2, 3), 5.0, np.float32), device=device)
    got = run(p, device, np.full((2, 3), 4.0, np.float32), cells=[cell])
    assert [g[0, 0] for g in got] == [-4.0, -4.0, 4.0, 1.0, 5.0, 5.0]
    assert cell.numpy()[0, 0] == -4.0


class Declined(Operation):
    """Its kernel takes strides, but declines these."""

    name = "declined_op_of_a_pass_test"

    def infer(self, x: Spec) -> Spec:
        return x

    def forward(self, x):
        return x * 0.0 - 1.0


def test_a_kernel_that_declines_some_strides_is_given_a_packed_copy(device, declared):
    (op,) = declared(Declined)
    table, neg = next(
        (table, k)
        for table in map(kernels.table, device.languages)
        for k in table
        if (k.op, k.signature) == ("neg", "f32->f32")
    )

    def prepare(target, ins, outs):
        return neg.prepare(target, ins, outs) if isinstance(ins[0], Spec) else None

    table.prepared(op.name, "f32->f32", strides=True)(prepare)
    p = program(
        ("permute_dims", [0], [1], {"axes": (1, 0)}), (op.name, [1], [2], {}),
        args=(0,), results=(2,), specs={1: Spec((3, 2), "float32"), 2: Spec((3, 2), "float32")},
    )  # fmt: skip
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (got,) = run(p, device, x)
    np.testing.assert_array_equal(got, -x.T)


class Halved(Operation):
    name = "op_of_a_returning_kernel_that_may_be_in_place"

    def infer(self, x: Spec) -> Spec:
        return x

    def forward(self, x):
        return x * 0.5


def test_a_returning_kernel_is_given_no_outputs_even_if_it_may_be_in_place(device, declared):
    if "array" not in device.languages:
        pytest.skip("this device has no kernels that return")
    (op,), table = declared(Halved), kernels.table("array")
    table.prepared(op.name, "f32->f32", returning=True, in_place=True)(
        lambda target, ins, outs: lambda x: x * x.dtype.type(0.5)
    )
    cell = tensor(np.ones((2, 3), np.float32), device=device)
    update(op, (cell,), (cell,))
    step = graph(lambda x: update(op, (cell,), (cell,))[0] + x)
    zero = tensor(0.0, device=device)
    assert set([step(zero), step(zero)][1].numpy().ravel()) == {0.125}
    assert set(cell.numpy().ravel()) == {0.125}


def test_place_makes_a_packed_copy_anew_where_the_old_one_is_long_unread(far_device):
    turned = Spec((3, 2), "float32")
    chain = [("exp", [2 + i], [3 + i], {}) for i in range(5)]
    p = program(
        ("permute_dims", [0], [1], {"axes": (1, 0)}), ("neg", [1], [2], {}), *chain, ("abs", [1], [9], {}),
        args=(0,), results=(7, 9), specs=dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 9), turned),
    )  # fmt: skip
    assert place(p, far_device, near=7).copies == 1
    assert place(p, far_device, near=6).copies == 2


# -- what eager takes -----------------------------------------------------------------------------------


def test_the_eager_peak_is_that_of_values_made_one_after_the_other(device):
    big = wide(1000)
    p = program(
        ("exp", [0], [1], {}), ("neg", [1], [2], {}), ("abs", [2], [3], {}), ("add", [1, 3], [4], {}),
        ("neg", [4], [5], {}), ("neg", [4], [6], {}),
        specs=dict.fromkeys(range(7), big), args=(0,), results=(5,),
    )  # fmt: skip
    assert eager_peak(p, device) == 3 * big.nbytes
    assert lowered(p, device) == 0


def test_lowered_counts_recorded_composites_without_a_kernel(device, declared):
    declared(Inner, Outer)
    p = program(("outer_op_of_a_pass_test", [0, 1], [2, 3], {}), ("neg", [3], [4], {}),
                args=(0, 1), results=(4, 2))  # fmt: skip
    assert lowered(p, device) == 1


# -- all together -------------------------------------------------------------------------------------


def test_programs_print_and_go_through_json(device):
    cell = tensor(np.ones((2, 3), np.float32), device=device, requires_grad=True)

    @graph
    def step(x):
        random.STREAMS["user"].draw(4, device)
        y = ops.softmax(x @ cell.mT, axis=-1)[:, ::-1]
        cell.assign(cell * 0.5)
        x += 1.0
        return y.astype("float64"), ops.where(x > 0.0, x, float("nan"))

    step(tensor(np.ones((2, 3), np.float32), device=device))
    made = step.recordings[0].program
    text = json.dumps(made.to_json())
    back = json.loads(text)
    assert len(back["instructions"]) == len(made.instructions)
    assert back["specs"][0] == ["float32", [2, 3]]
    lines = str(made).splitlines()
    assert lines[0] == "%0 = arg 0: float32 (2, 3)"
    assert any(line.startswith("cell 0 := %") for line in lines)
    assert any(line.startswith("arg 0 := %") for line in lines)
    shown = [i for i in made.instructions if str(i) in text]
    assert shown == []  # JSON has parts, not sentences


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
def test_numbers_that_json_has_not_are_written_all_the_same(value):
    p = program(constants={0: np.array(value, np.float32)}, specs={0: N}, results=(0,))
    (got,) = json.loads(json.dumps(p.to_json()))["constants"].values()
    assert str(got).lower() in ("nan", "inf", "-inf", "infinity", "-infinity", "-0.0")


def test_optimise_keeps_what_a_program_does(device):
    p = program(
        ("detach", [0], [1], {}), ("exp", [1], [2], {}), ("exp", [0], [3], {}), ("add", [2, 3], [4], {}),
        ("full", [], [5], {"shape": (2, 3), "value": 2.0, "dtype": X.dtype}), ("mul", [5, 5], [6], {}),
        ("mul", [4, 6], [7], {}), ("neg", [7], [8], {}),
        args=(0,), results=(7,),
    )  # fmt: skip
    got = optimise(p, device)
    assert ops_of(got) == (["fused"] if device.capabilities.fuses else ["exp", "add", "mul"])
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    (one,), (other,) = run(p, device, x), run(got, device, x)
    assert one.tobytes() == other.tobytes()


# -- order and plan ------------------------------------------------------------------------------------


def test_order_finishes_one_branch_before_it_starts_the_next(device):
    big, small = wide(1024), wide(1)
    p = program(
        ("exp", [0], [1], {}), ("exp", [0], [2], {}),
        ("sum", [1], [3], {"axis": (0,), "keepdims": False}),
        ("sum", [2], [4], {"axis": (0,), "keepdims": False}),
        ("add", [3, 4], [5], {}),
        specs={0: big, 1: big, 2: big, 3: small, 4: small, 5: small}, args=(0,), results=(5,),
    )  # fmt: skip
    assert bound(p, device) == 4096 + 4096 + 4
    assert ops_of(order(p, device)) == ["exp", "sum", "exp", "sum", "add"]
    assert bound(order(p, device), device) == 4096 + 4 + 4
    assert planned_bytes(order(p, device), device) < planned_bytes(p, device)


def bound(p, device):
    return plan(place(p, device), device.capabilities).bound


def test_order_makes_nothing_before_it_is_needed(device):
    big, small = wide(1024), wide(1)
    zeros = {"shape": (1024,), "value": 0.0, "dtype": big.dtype}
    p = program(
        ("full", [], [1], zeros), ("exp", [0], [2], {}), ("exp", [2], [3], {}), ("neg", [2], [4], {}),
        ("add", [3, 4], [5], {}), ("sum", [5], [6], {"axis": (0,), "keepdims": False}),
        ("add", [1, 6], [7], {}), ("exp", [7], [8], {}),
        specs=dict.fromkeys(range(9), big) | {6: small}, args=(0,), results=(8,),
    )  # fmt: skip
    made = order(p, device)
    assert ops_of(made)[-3:] == ["full", "add", "exp"]
    assert bound(made, device) == bound(p, device) - big.nbytes
    for numbers in (Flow(p).late(range(8)), Flow(p).greedy(), Flow(p).greedy(cautious=True)):
        assert sorted(numbers) == list(range(8))
        place_of = {n: i for i, n in enumerate(numbers)}
        assert all(place_of[m] < place_of[n] for n in numbers for m in Flow(p).before[n])


def test_order_reads_an_old_value_before_the_new_one_is_made():
    p = program(
        ("neg", [0], [1], {}), ("exp", [0], [2], {}), specs={0: X, 1: X, 2: X},
        cells=(0,), results=(2,), updates=((0, 1),),
    )  # fmt: skip
    assert Flow(p).before == [{1}, set()]


def test_order_keeps_what_cannot_be_better(device):
    p = program(("exp", [0], [1], {}), ("neg", [1], [2], {}), args=(0,), results=(2,))
    assert order(p, device) is p


def test_two_cells_that_swap_keep_an_order_that_works():
    p = program(
        ("neg", [0], [2], {}), ("neg", [1], [3], {}), cells=(0, 1), updates=((0, 3), (1, 2)),
    )  # fmt: skip
    assert sorted(Flow(p).greedy()) == [0, 1]


def pieces(*spans):
    return [Piece(nbytes, first, last) for nbytes, first, last in spans]


def test_no_arena_is_larger_than_the_device_s_largest_buffer():
    made = [Piece(100, 0, 3), Piece(60, 1, 2), Piece(60, 2, 3), Piece(90, 4, 5)]
    places, buffers = in_arena(made, 16, largest=160)
    assert max(buffers) <= 160
    assert len(buffers) == 2
    assert sorted({number for number, _ in places.values()}) == [0, 1]
    one, *rest = in_arena(made, 16, largest=1000)[1]
    assert not rest
    assert one > 160  # needed at once


def test_an_arena_gives_memory_again_and_overlaps_nothing_alive():
    made = pieces((100, 0, 1), (50, 1, 2), (100, 2, 3), (10, 0, 3))
    places, buffers = in_arena(made, alignment=64)
    assert buffers == [192 + 10]  # 100 | 50 at 128 | 10 after both, at 192; the last 100 at 0 again
    assert [places[id(p)] for p in made] == [(0, 0), (0, 128), (0, 0), (0, 192)]


def test_whole_buffers_serve_several_pieces():
    made = pieces((100, 0, 1), (50, 1, 2), (80, 2, 3), (120, 3, 4))
    places, buffers = in_buffers(made)
    assert [places[id(p)][0] for p in made] == [0, 1, 0, 1]
    assert buffers == [100, 120]


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=30,
    )
)
def test_no_two_living_pieces_share_a_byte(spans):
    made = pieces(*[(n, min(a, b), max(a, b)) for n, a, b in spans])
    bound = max(live_bytes(made))
    largest = max([piece.nbytes for piece in made], default=0) + 32
    for places, buffers in (in_arena(made, 16), in_arena(made, 16, largest), in_buffers(made)):
        assert sum(buffers) >= bound
        for i, p in enumerate(made):
            for q in made[:i]:
                (b, s), (c, t) = places[id(p)], places[id(q)]
                apart = p.last < q.first or q.last < p.first or b != c
                assert apart or s + p.nbytes <= t or t + q.nbytes <= s


def test_a_chain_of_elementwise_launches_lives_in_one_piece(device):
    p = program(
        ("exp", [0], [1], {}), ("neg", [1], [2], {}), ("abs", [2], [3], {}), ("exp", [3], [4], {}),
        args=(0,), results=(4,),
    )  # fmt: skip
    made = plan(place(p, device), device.capabilities)
    if all(writes_in_place(device, op, X) for op in (ops.neg, ops.abs)):
        assert made.nbytes == made.bound == X.nbytes
    else:  # two at once, each where the device wants it to begin
        align = device.capabilities.alignment if device.capabilities.sub_buffers else 1
        assert made.bound == 2 * X.nbytes
        assert made.nbytes == -(-X.nbytes // align) * align + X.nbytes
    np.testing.assert_allclose(
        run(p, device, np.ones((2, 3), np.float32))[0], np.full((2, 3), np.exp(np.e)), rtol=1e-6
    )


@pytest.mark.parametrize(("number", "alike", "tries"), [
    (3000, True, 1),  # as good as a plan can be, pieces of 12 bytes being 64 apart
    (40, False, 3 * PLAN.TRIES), (800, False, 6), (3000, False, 3),
])  # fmt: skip
def test_many_pieces_are_not_laid_down_many_times(number, alike, tries, monkeypatch):
    laid, lay_out = [], PLAN.lay_out
    monkeypatch.setattr(PLAN, "lay_out", lambda *args: laid.append(1) or lay_out(*args))
    rng = np.random.default_rng(0)
    pieces = [PLAN.Piece(12, n, 2 * number - n) for n in range(number)]
    if not alike:  # of all sizes, so that no order is perfect
        first = rng.integers(0, number, number)
        sizes, ends = 64 * rng.integers(1, 1000, number), first + rng.integers(0, number, number)
        pieces = [PLAN.Piece(*map(int, p)) for p in zip(sizes, first, ends, strict=True)]
    places, (size,) = PLAN.in_arena(pieces, 64)
    assert len(laid) == tries
    assert len(places) == number
    assert size >= max(PLAN.live_bytes(pieces))


def test_temporaries_without_bytes_have_a_place_too(device):
    none = wide(0, 3)
    p = program(
        ("exp", [0], [1], {}), ("neg", [1], [2], {}), specs={0: none, 1: none, 2: none},
        args=(0,), results=(2,),
    )  # fmt: skip
    assert run(p, device, np.ones((0, 3), np.float32))[0].shape == (0, 3)


# -- fuse -------------------------------------------------------------------------------------------

FUSES = frozenset("add mul exp less where cast".split())


def fused(p, device, **changes):
    """The Program after the pass, on a device that fuses these."""
    kept = device.capabilities
    device.capabilities = replace(kept, **{"fuses": FUSES, **changes})
    try:
        return fuse(p, device)
    finally:
        device.capabilities = kept


def body(instruction):
    return [(name, ins) for name, _, ins, _ in instruction.options["steps"]]


def test_a_chain_becomes_one_instruction(far_device):
    p = program(
        ("mul", (0, 1), (2,), {}), ("exp", (2,), (3,), {}), ("add", (3, 0), (4,), {}),
        args=(0, 1), results=(4,),
    )  # fmt: skip
    made = fused(p, far_device)
    (one,) = made.instructions
    assert (one.op, one.ins, one.outs) == ("fused", (0, 1), (4,))
    assert body(one) == [("mul", (0, 1)), ("exp", (2,)), ("add", (3, 0))]
    assert one.options["results"] == (4,)
    x, y = np.float32([[1, 2, 3], [0, -1, 5]]), np.full((2, 3), 0.5, np.float32)
    np.testing.assert_array_equal(run(made, far_device, x, y)[0], np.exp(x * y) + x)
    json.dumps(made.to_json())


def test_a_value_that_others_read_is_a_result_too(far_device):
    p = program(
        ("mul", (0, 0), (1,), {}), ("exp", (1,), (2,), {}), ("sum", (1,), (3,), {"axis": (0, 1), "keepdims": False}),
        args=(0,), results=(2, 3), specs={3: N},
    )  # fmt: skip
    made = fused(p, far_device)
    assert ops_of(made) == ["fused", "sum"]
    assert made.instructions[0].outs == (1, 2)


def test_what_would_wait_for_itself_is_not_fused(far_device):
    """exp feeds add, but so does the sum of exp, which has to come between."""
    p = program(
        ("exp", (0,), (1,), {}), ("sum", (1,), (2,), {"axis": (0, 1), "keepdims": False}),
        ("add", (1, 2), (3,), {}), ("mul", (3, 3), (4,), {}),
        args=(0,), results=(4,), specs={2: N},
    )  # fmt: skip
    made = fused(p, far_device)
    assert ops_of(made) == ["exp", "sum", "fused"]
    assert body(made.instructions[2]) == [("add", (0, 1)), ("mul", (2, 2))]


def test_two_groups_may_not_wait_for_each_other(far_device):
    """Both pairs alone are fine; together each would need the other's result."""
    p = program(
        ("exp", (0,), (1,), {}), ("cumsum", (1,), (2,), {"axis": 0}),
        ("exp", (3,), (4,), {}), ("cumsum", (4,), (5,), {"axis": 0}),
        ("add", (1, 5), (6,), {}), ("add", (4, 2), (7,), {}),
        args=(0, 3), results=(6, 7),
    )  # fmt: skip
    made = fused(p, far_device)
    assert [i.op for i in made.instructions].count("fused") == 1
    x, y = np.float32([[1, 2, 3], [0, -1, 1]]), np.float32([[0, 1, 0], [2, 0, 1]])
    for got, want in zip(run(made, far_device, x, y), run(p, far_device, x, y), strict=True):
        np.testing.assert_array_equal(got, want)


def test_shapes_and_sixteen_bits_end_a_group(far_device):
    row, half = Spec((3,), "float32"), Spec((2, 3), "float16")
    other_shape = program(
        ("exp", (0,), (1,), {}), ("add", (1, 2), (3,), {}),
        args=(0, 2), results=(3,), specs={0: row, 1: row},
    )  # fmt: skip
    assert fused(other_shape, far_device) == other_shape
    halves = program(
        ("exp", (0,), (1,), {}), ("exp", (1,), (2,), {}), args=(0,), results=(2,),
        specs=dict.fromkeys((0, 1, 2), half),
    )  # fmt: skip
    assert fused(halves, far_device) == halves


STATE, WORDS, FLAGS = Spec((4,), "uint32"), Spec((2, 3), "uint32"), Spec((2, 3), "bool")
BITS = {"shape": (2, 3)}


def test_random_words_are_made_where_they_are_used(far_device):
    p = program(
        ("random_bits", (0,), (1,), BITS), ("less", (2, 1), (3,), {}),
        ("where", (3, 4, 5), (6,), {}), args=(0, 2, 4, 5), results=(6, 3),
        specs={0: STATE, 1: WORDS, 2: Spec((), "uint32"), 3: FLAGS, 5: N},
    )  # fmt: skip
    made = fused(p, far_device, fuses=FUSES | {"random_bits"})
    (one,) = made.instructions
    assert body(one) == [("random_bits", (0,)), ("less", (1, 4)), ("where", (5, 2, 3))]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = (np.uint32([1, 2, 3, 4]), np.uint32(1 << 31), x, np.float32(-1))
    for got, want in zip(run(made, far_device, *given), run(p, far_device, *given), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_state_of_a_draw_is_not_made_in_its_own_group(far_device):
    p = program(
        ("add", (0, 0), (1,), {}), ("random_bits", (1,), (2,), {"shape": (4,)}),
        ("add", (2, 1), (3,), {}),
        args=(0,), results=(3,), specs=dict.fromkeys(range(4), STATE),
    )  # fmt: skip
    made = fused(p, far_device, fuses=FUSES | {"random_bits"})
    assert ops_of(made) == ["add", "fused"]
    assert body(made.instructions[1]) == [("random_bits", (0,)), ("add", (1, 0))]


@pytest.mark.parametrize(("parameters", "sizes"), [(1024, [15, 6]), (640, [9, 9, 4]), (4352, [20])])
def test_groups_are_as_large_as_the_arguments_of_a_launch(far_device, parameters, sizes):
    ins = tuple(range(20))
    sums = [("add", (0, 1), (20,), {})] + [
        ("add", (n + 18, n), (n + 19,), {}) for n in range(2, 20)
    ]
    long = fused(program(*sums, args=ins, results=(38,)), far_device, parameters=parameters)
    assert [len(i.ins) for i in long.instructions] == sizes


def test_without_the_capability_nothing_changes(far_device):
    p = program(("exp", (0,), (1,), {}), ("exp", (1,), (2,), {}), args=(0,), results=(2,))
    assert fused(p, far_device, fuses=frozenset()) is p


def test_a_group_that_its_kernel_declines_stays_apart(far_device, monkeypatch):
    monkeypatch.setattr(FUSE, "has_kernel", lambda *args: False)
    p = program(("exp", (0,), (1,), {}), ("exp", (1,), (2,), {}), args=(0,), results=(2,))
    assert fused(p, far_device) == p


# -- together ---------------------------------------------------------------------------------------


def batched(p, device, *names):
    kept = device.capabilities
    device.capabilities = replace(kept, batches=frozenset(names))
    try:
        return together(p, device)
    finally:
        device.capabilities = kept


def test_small_updates_become_one_launch(far_device):
    """Cells 1 and 2 get new values; one step takes the number in 3."""
    p = program(
        ("mul", (1, 3), (4,), {}), ("exp", (0,), (5,), {}), ("add", (5, 2), (6,), {}),
        args=(0,), cells=(1, 2), scalars=(3,), specs={3: N}, results=(5,), updates=((0, 4), (1, 6)),
    )  # fmt: skip
    made = batched(p, far_device, "mul", "add")
    assert ops_of(made) == ["exp", "together"]
    one = made.instructions[1]
    assert (one.ins, one.outs) == (
        (1, 2, 3, 5),
        (4, 6),
    )  # cells first, in line with what they become
    assert one.options["parts"] == (("mul", (), (0, 2), 1), ("add", (), (3, 1), 1))
    cells = [tensor(np.full((2, 3), v, np.float32), device=far_device) for v in (1, 2)]
    (y,) = run(made, far_device, np.zeros((2, 3), np.float32), cells=cells, scalars=(4.0,))
    assert [np.unique(a).tolist() for a in (y, cells[0].numpy(), cells[1].numpy())] == [
        [1],
        [4],
        [3],
    ]


def test_what_is_read_again_large_or_no_update_stays_alone(far_device):
    def steps(**rest):
        return program(
            ("mul", (0, 1), (3,), {}), ("mul", (0, 2), (4,), {}), args=(0,), cells=(1, 2), **rest
        )

    updates = ((0, 3), (1, 4))
    assert ops_of(batched(steps(updates=updates), far_device, "mul")) == ["together"]
    for p in (
        steps(updates=updates[:1], results=(4,)),  # one result is none
        steps(updates=updates, results=(3,)),  # needed twice
        steps(updates=((1, 3), (0, 4))),  # each would be written over what the other reads
        steps(updates=updates, specs=dict.fromkeys(range(5), Spec((300, 300), "float32"))),
    ):
        assert batched(p, far_device, "mul") == p
    assert batched(steps(updates=updates), far_device, "add") == steps(updates=updates)
    assert batched(steps(updates=updates), far_device) == steps(updates=updates)


def test_many_updates_take_several_launches(far_device):
    n = 20
    cells = tuple(range(1, n + 1))
    p = program(
        *[("mul", (0, cell), (n + cell,), {}) for cell in cells],
        args=(0,), cells=cells, updates=tuple((i, n + 1 + i) for i in range(n)),
    )  # fmt: skip
    made = batched(p, far_device, "mul")
    assert [len(i.outs) for i in made.instructions] == [14, 6]
