"""Random programs, run eagerly and recorded: results, state and side effects equal bit for bit.

Programs are those of the kit; here hypothesis makes them, and shrinks what differs.
"""

from importlib import import_module
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from house import counts
from singa_core import executable, homes, kernels
from singa_core.conformance.programs import CALLS, compare, noise
from singa_core.passes import place
from singa_core.recorder import Recorder

# their functions have the same names
fold, plan = (import_module(f"singa_core.passes.{name}") for name in ("fold", "plan"))


@pytest.fixture(autouse=True)
def _noise_ends():
    yield
    noise.clear()


STEPS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 15), st.integers(0, 15)), max_size=24)
PICKS = st.lists(st.integers(0, 30), min_size=1, max_size=6)
MANY = settings(
    max_examples=2000, phases=[Phase.generate], database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
FEW = settings(max_examples=200, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("alg", ["memory", "sequence"])
@FEW
@given(program=STEPS, picks=PICKS)
def test_random_programs_give_the_same_bits_eagerly_and_recorded(device, alg, program, picks):
    want, got, function = compare(device, program, picks, alg)
    for i, (one, other) in enumerate(zip(want, got, strict=True)):
        assert one == other, f"fact {i} of {program}, {picks}"
    assert all(want[-1]), "held results changed"
    assert function.records <= CALLS
    counts.bitwise_compared(sum(len(fact) for fact in want[2::4]))


@settings(FEW, max_examples=100)
@given(program=STEPS, picks=PICKS)
def test_where_nobody_can_count_holders_all_values_count_as_held(
    device, monkeypatch, program, picks
):
    monkeypatch.setattr(homes, "CAN_COUNT", False)
    monkeypatch.setattr(homes, "references", lambda _: -1)
    monkeypatch.setattr(homes, "ALONE", (0, 0))
    want, got, _ = compare(device, program, picks)
    assert want == got
    assert all(want[-1])
    counts.bitwise_compared(sum(len(fact) for fact in want[2::4]))


# -- the judge is no pushover ------------------------------------------------------------------------------


def caught(device):
    """A program on which eager and graph differ, or None."""

    def differs(case):
        want, got, _ = compare(device, *case)
        return want != got

    try:
        return find(st.tuples(STEPS, PICKS), differs, settings=MANY)
    except NoSuchExample:
        return None


def never(*_):
    return False


def always(*_):
    return True


def lifetimes_of_one_launch(placed, lifetimes=plan.lifetimes):
    pieces, workspaces = lifetimes(placed)
    for piece in pieces:
        piece.last = piece.first
    return pieces, workspaces


BROKEN = {
    "temporaries live for one launch": (plan, "lifetimes", lifetimes_of_one_launch),
    "writes over what is still read": (place, "_write_in_place", lambda placed: overwrite(placed)),
    "in place whatever the kernel says": (place, "may_overwrite", always),
    "results are not leased": (
        executable,
        "homes",
        SimpleNamespace(**vars(homes) | {"is_held": never}),
    ),
    "holders of old values stay where they are": (homes, "claim", lambda cell: None),
    "a negative is taken for nothing": (fold, "NOTHING", fold.NOTHING | {"neg"}),
    "scalars are read once": (Recorder, "effect", lambda self, function, moves: None),
    "assigned arguments stay as they were": (homes, "rebind", lambda cell, array: None),
}


def overwrite(placed):
    for i, (cell, root) in enumerate(placed.writes):
        own = placed.cells[cell]
        place._rename_roots(placed, {root: own})
        placed.writes[i] = cell, own


def reads_before_it_writes(device):
    """True if no kernel minds that its output is one of its inputs."""
    tables = [kernels.table(language) for language in device.languages]
    return all(kernel.in_place or kernel.returning for table in tables for kernel in table)


@pytest.mark.parametrize("how", BROKEN)
def test_random_programs_catch_an_engine_that_is_wrong(device, how, monkeypatch):
    if how == "in place whatever the kernel says" and reads_before_it_writes(device):
        pytest.skip("kernels here read all inputs before they write: any may be written over")
    monkeypatch.setattr(*BROKEN[how])
    assert caught(device) is not None
