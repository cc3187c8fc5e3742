"""Windows of a sequence: where they lie, what follows them, where a restored loader goes on."""

import json

import numpy as np
import pytest

from singa_core.data.windows import WindowLoader
from singa_core.errors import ArgumentError, ShapeError

SEQUENCE = np.arange(100) * 3


def make(**changes):
    options = {"sequence": SEQUENCE, "length": 8, "batch_size": 4, "batches": 5, "seed": 7}
    return WindowLoader(**options | changes)


def places(batches):
    """Where the windows of batches begin."""
    return [x[:, 0].tolist() for x, _ in batches]


def test_windows_never_change():
    assert places(make(batches=2, sequence=np.arange(100)).epoch(3)) == [
        [9, 51, 5, 34],
        [80, 58, 51, 91],
    ]


def test_a_target_is_what_follows():
    for x, target in make():
        assert x.shape == target.shape == (4, 8)
        np.testing.assert_array_equal(np.diff(x, axis=1), 3)  # neighbours in the sequence
        np.testing.assert_array_equal(target, x + 3)
        assert x.flags.c_contiguous
        assert target.flags.c_contiguous
        assert not np.shares_memory(x, SEQUENCE)


def test_every_place_comes_up_equally_often():
    """92 places, 9200 windows: a chi-squared with 91 degrees of freedom."""
    loader = make(batch_size=100, batches=92)
    found = np.concatenate([x[:, 0] for x, _ in loader]) // 3
    counts = np.bincount(found, minlength=92)
    assert len(counts) == 92  # up to the last that has a target
    assert np.sum((counts - 100) ** 2 / 100) < 138  # exceeded by chance once in 1000 seeds


def test_each_loop_is_the_next_epoch_and_no_epoch_is_another():
    loader = make()
    found = [places(loader) for _ in range(3)]
    assert found == [places(loader.epoch(e)) for e in range(3)]
    assert found[0] != found[1]
    assert found[0] != places(make(seed=8))


def test_the_shortest_sequence_has_one_window():
    ((x, target),) = make(sequence=[1, 2, 3], length=2, batch_size=1, batches=1)
    assert (x.tolist(), target.tolist()) == ([[1, 2]], [[2, 3]])


@pytest.mark.parametrize("taken", range(12))
def test_a_restored_loader_goes_on_where_it_was(taken):
    straight, first, second = make(), make(), make()
    wanted, got = [batch for _ in range(3) for batch in places(straight)], []
    state = json.dumps(first.state())
    while len(got) < taken:
        for x, _ in first:
            got.append(x[:, 0].tolist())
            if len(got) == taken:
                state = json.dumps(first.state())  # while the loop runs
                break
    second.restore(json.loads(state))
    while len(got) < len(wanted):
        got += places(second)
    assert got == wanted


def test_a_loop_left_early_is_over():
    loader = make()
    for _ in loader:
        break
    assert places(loader) == places(loader.epoch(1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "a state of seed = 7, got 4"),
        ({"items": 11}, "a state of items = 100, got 11"),
        ({"length": 5}, "a state of length = 8, got 5"),
        ({"batch_size": 5}, "a state of batch_size = 4, got 5"),
        ({"batches": 6}, "a state of batches = 5, got 6"),
        ({"epoch": -1}, "an integer epoch >= 0, got -1"),
        ({"batch": 5}, "batch < 5, got 5"),
        ({"batch": None}, "an integer batch >= 0, got None"),
    ],
)
def test_a_state_of_another_loader(change, message):
    loader = make()
    before = loader.state()
    with pytest.raises(ArgumentError, match=rf"^WindowLoader.restore: needs {message}$"):
        loader.restore(before | {"epoch": 2, "batch": 1} | change)
    assert loader.state() == before


@pytest.mark.parametrize("name", ["length", "batch_size", "batches"])
@pytest.mark.parametrize("value", [0, 1.5, None])
def test_sizes(name, value):
    with pytest.raises(ArgumentError, match=f"^WindowLoader: needs an integer {name} >= 1, got"):
        make(**{name: value})


@pytest.mark.parametrize("sequence", [np.zeros(8), np.zeros((20, 20)), 3.0])
def test_sequences_without_a_window(sequence):
    message = r"^WindowLoader: needs a sequence \(n,\) with n > length = 8, got \("
    with pytest.raises(ShapeError, match=message):
        make(sequence=sequence)


def test_seeds():
    for seed in (2**64, -1):
        rule = rf"^WindowLoader: needs an integer 0 <= seed < 2\*\*64, got {seed}$"
        with pytest.raises(ArgumentError, match=rule):
            make(seed=seed)
    with pytest.raises(ArgumentError, match="needs an integer epoch >= 0, got -1"):
        make().epoch(-1)
    with pytest.raises(
        ArgumentError, match="^WindowLoader.epoch: needs an integer start >= 0, got -1"
    ):
        make().epoch(0, -1)
