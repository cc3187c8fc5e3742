"""Batches: their order, their memory, where a restored loader goes on, and what is refused."""

import json
import math

import numpy as np
import pytest

from singa_core.data.loader import ArrayLoader, permutation, train_test_split
from singa_core.errors import ArgumentError, ShapeError


def numbers(loader):
    """One loop over a loader of one array, as lists."""
    return [batch.tolist() for (batch,) in loader]


def epoch(loader, number):
    return [batch.tolist() for (batch,) in loader.epoch(number)]


def flat(batches):
    return [value for batch in batches for value in batch]


# --- the order -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "epoch", "wanted"),
    [
        (7, 0, [3, 4, 5, 1, 8, 9, 2, 7, 6, 0]),
        (7, 1, [2, 4, 5, 9, 7, 8, 6, 1, 3, 0]),
        (7, 2, [4, 2, 7, 3, 0, 5, 9, 6, 8, 1]),
        (2**64 - 1, 0, [5, 8, 2, 3, 9, 1, 4, 6, 7, 0]),
    ],
)
def test_orders_never_change(seed, epoch, wanted):
    assert permutation(10, seed, epoch).tolist() == wanted


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_a_permutation_has_each_number_once(n):
    np.testing.assert_array_equal(np.sort(permutation(n, 3, 4)), np.arange(n))


def test_permutations_are_uniform():
    """All 24 orders of 4 samples, in 2400 epochs: a chi-squared with 23 degrees of freedom."""
    orders = np.array([permutation(4, 0, e) for e in range(2_400)]) @ [64, 16, 4, 1]
    counts = np.unique(orders, return_counts=True)[1]
    assert len(counts) == 24
    assert np.sum((counts - 100) ** 2 / 100) < 49.7  # exceeded by chance once in 1000 seeds


def test_neighbouring_seeds_and_epochs_have_nothing_in_common():
    base = permutation(1000, 5, 5)
    for other in (permutation(1000, 5, 6), permutation(1000, 6, 5), permutation(1000, 6, 4)):
        assert np.count_nonzero(base == other) < 10  # 1 expected


def test_batches_follow_the_permutation():
    order = permutation(10, 7, 0)
    loader = ArrayLoader(np.arange(10), batch_size=4, seed=7)
    assert numbers(loader) == [order[:4].tolist(), order[4:8].tolist(), order[8:].tolist()]


def test_each_loop_is_the_next_epoch():
    loader = ArrayLoader(np.arange(10), batch_size=4, seed=7)
    assert [flat(numbers(loader)) for _ in range(3)] == [
        permutation(10, 7, e).tolist() for e in range(3)
    ]


def test_a_loop_left_early_is_over():
    loader = ArrayLoader(np.arange(10), batch_size=4)
    for _ in loader:
        break
    assert numbers(loader) == epoch(loader, 1)


def test_looking_into_an_epoch_changes_nothing():
    loader = ArrayLoader(np.arange(10), batch_size=4)
    (sample,) = next(loader.epoch(0))
    assert epoch(loader, 5) != epoch(loader, 0)
    assert numbers(loader)[0] == sample.tolist()
    iter(loader)  # nothing was taken from it
    assert numbers(loader) == epoch(loader, 1)


def test_without_shuffling():
    loader = ArrayLoader(np.arange(5), batch_size=2, shuffle=False)
    assert numbers(loader) == numbers(loader) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("n", "size"), [(10, 1), (10, 3), (10, 5), (10, 10), (10, 99), (1, 1)])
def test_length(n, size, shuffle, drop_last):
    if drop_last and size > n:
        return  # refused, see below
    loader = ArrayLoader(np.arange(n), batch_size=size, shuffle=shuffle, drop_last=drop_last)
    batches = numbers(loader)
    assert len(loader) == len(batches) == (n // size if drop_last else math.ceil(n / size))
    assert all(len(batch) == size for batch in batches[: n // size])
    assert len(set(flat(batches))) == len(flat(batches))


# --- what is in a batch --------------------------------------------------------------------------


def test_arrays_stay_together():
    x, y = np.arange(12).reshape(6, 2), np.arange(6) * 10
    for _ in range(2):
        for a, b in ArrayLoader(x, y, batch_size=4):
            np.testing.assert_array_equal(a[:, 0] * 5, b)


def test_dicts():
    loader = ArrayLoader({"image": np.arange(4), "label": -np.arange(4)}, batch_size=3)
    first, last = loader
    assert list(first) == ["image", "label"]
    np.testing.assert_array_equal(first["image"], -first["label"])
    assert len(last["label"]) == 1


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        np.asfortranarray(np.arange(12.0).reshape(4, 3)),
        np.arange(12.0).reshape(4, 3)[:, ::-1][:, ::-1],
        np.arange(12, dtype=">f8").reshape(4, 3),
        [[float(3 * i + j) for j in range(3)] for i in range(4)],
    ],
    ids=["fortran", "negative strides", "big-endian", "lists"],
)
def test_batches_are_native_c_ordered_copies(given, shuffle):
    wanted = np.array(given)
    for (batch,) in ArrayLoader(given, batch_size=2, shuffle=shuffle):
        assert batch.flags.c_contiguous
        assert batch.flags.owndata
        assert batch.dtype.isnative
        for row in batch:
            np.testing.assert_array_equal(row, wanted[int(row[0]) // 3])
        batch[...] = -1
    np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize("shuffle", [False, True])
def test_arrays_in_files(tmp_path, shuffle):
    path = tmp_path / "data.bin"
    np.arange(20, dtype=np.int32).tofile(path)
    mapped = np.memmap(path, np.int32, "r", shape=(10, 2))
    loader = ArrayLoader(mapped, batch_size=4, shuffle=shuffle)
    assert np.shares_memory(loader.arrays[0], mapped)
    batches = [batch for (batch,) in loader]
    assert all(type(batch) is np.ndarray and batch.flags.writeable for batch in batches)
    assert sorted(np.concatenate(batches).ravel().tolist()) == list(range(20))


def test_tensors(array):
    (batch,) = next(ArrayLoader(array([1, 2, 3]), batch_size=2, shuffle=False).epoch(0))
    assert batch.tolist() == [1, 2]


# --- state ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", range(9))
def test_a_restored_loader_goes_on_where_it_was(taken):
    def make():
        return ArrayLoader(np.arange(10), batch_size=4, seed=3)

    straight = make()
    wanted = [batch for _ in range(4) for batch in numbers(straight)]  # 12 batches
    first, got = make(), []
    while len(got) < taken:
        for (batch,) in first:
            got.append(batch.tolist())
            if len(got) == taken:
                state = json.dumps(first.state())  # while the loop runs
                break
    if not taken:
        state = json.dumps(first.state())
    second = make()
    second.restore(json.loads(state))
    assert second.state() == json.loads(state)
    while len(got) < 12:
        got += numbers(second)
    assert got == wanted


def test_state_between_epochs():
    loader = ArrayLoader(np.arange(10), batch_size=4, seed=3)
    identity = {"seed": 3, "samples": 10, "batch_size": 4, "shuffle": True}
    assert loader.state() == {"epoch": 0, "batch": 0, **identity}
    places = [(loader.state()["epoch"], loader.state()["batch"]) for _ in loader]
    assert places == [(0, 1), (0, 2), (1, 0)]  # the last batch handed out ends the epoch
    assert loader.state() == {"epoch": 1, "batch": 0, **identity}


def test_going_back_to_an_earlier_state():
    loader = ArrayLoader(np.arange(10), batch_size=4)
    batches = iter(loader)
    next(batches)
    state = loader.state()
    rest = [batch.tolist() for (batch,) in batches]
    numbers(loader)
    loader.restore(state)
    assert numbers(loader) == rest
    assert numbers(loader) == epoch(loader, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "a state of seed = 3, got 4"),
        ({"samples": 11}, "a state of samples = 10, got 11"),
        ({"batch_size": 5}, "a state of batch_size = 4, got 5"),
        ({"shuffle": False}, "a state of shuffle = True, got False"),
        ({"epoch": -1}, "an integer epoch >= 0, got -1"),
        ({"epoch": None}, "an integer epoch >= 0, got None"),
        ({"batch": 3}, "batch < 3, got 3"),
        ({"batch": 1.0}, "an integer batch >= 0, got 1.0"),
    ],
)
def test_a_state_of_another_loader(change, message):
    loader = ArrayLoader(np.arange(10), batch_size=4, seed=3)
    before = loader.state()
    with pytest.raises(ArgumentError, match=rf"^ArrayLoader.restore: needs {message}$"):
        loader.restore(before | {"epoch": 2, "batch": 1} | change)
    assert loader.state() == before


# --- splitting -----------------------------------------------------------------------------------


def test_split():
    x, y = np.arange(20).reshape(10, 2), np.arange(10)
    (x_train, y_train), (x_test, y_test) = train_test_split(x, y, test=3, seed=7)
    assert (y_train.tolist(), y_test.tolist()) == ([5, 6, 9, 4, 1, 8, 2], [0, 3, 7])
    np.testing.assert_array_equal(x_train, x[y_train])
    np.testing.assert_array_equal(x_test, x[y_test])


def test_split_by_share():
    (train,), (test,) = train_test_split(np.arange(10), test=0.3, seed=7)
    assert test.tolist() == [0, 3, 7]
    assert len(train) == 7


def test_a_split_has_an_order_unlike_that_of_epochs():
    (train,), (test,) = train_test_split(np.arange(100), test=50, seed=7)
    both = np.concatenate([test, train])
    assert all(np.count_nonzero(both == permutation(100, 7, e)) < 10 for e in range(5))


@pytest.mark.parametrize("test", [0, 10, -1, 0.0, 1.0, 0.01, 0.99, 2.5, True, None, math.nan])
def test_splits_that_leave_nothing(test):
    message = r"train_test_split: needs 0 < test < 10 samples, or a share 0.0 < test < 1.0 that"
    with pytest.raises(ArgumentError, match=message):
        train_test_split(np.arange(10), test=test)


# --- what is refused -----------------------------------------------------------------------------


def load(*arrays, **options):
    return ArrayLoader(*arrays, **({"batch_size": 2} | options))


@pytest.mark.parametrize("use", [load, lambda *arrays: train_test_split(*arrays, test=1)])
def test_arrays_that_do_not_fit(use):
    with pytest.raises(ArgumentError, match="needs one array or more, got none"):
        use()
    with pytest.raises(
        ShapeError,
        match=r"needs arrays of one length, got 4 and 5\n  arrays\[0\]: float64 \(4, 2\) cpu\n  a",
    ):
        use(np.zeros((4, 2)), np.zeros(5))
    with pytest.raises(ShapeError, match="needs at least one sample, got 0"):
        use(np.zeros((0, 3)), np.zeros(0))
    with pytest.raises(
        ShapeError, match="needs arrays with an axis of samples, got a single number"
    ):
        use(np.zeros(3), np.array(1.0))


def test_an_empty_dict():
    with pytest.raises(ArgumentError, match="^ArrayLoader: needs one array or more, got none$"):
        load({})


@pytest.mark.parametrize("size", [0, -1, 2.0, "2", None, True])
def test_batch_sizes(size):
    with pytest.raises(ArgumentError, match="^ArrayLoader: needs an integer batch_size >= 1, got "):
        load(np.arange(3), batch_size=size)


def test_a_batch_larger_than_the_data():
    assert numbers(load(np.arange(3), batch_size=5, shuffle=False)) == [[0, 1, 2]]
    message = r"ArrayLoader: needs batch_size <= number of samples with drop_last, got 5 > 3$"
    with pytest.raises(ArgumentError, match=message):
        load(np.arange(3), batch_size=5, drop_last=True)


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_seeds(seed):
    with pytest.raises(ArgumentError, match=r"needs an integer 0 <= seed < 2\*\*64, got"):
        load(np.arange(3), seed=seed)
    with pytest.raises(
        ArgumentError,
        match=r"ArrayLoader: needs an integer 0 <= seed < 2\*\*64, got 18446744073709",
    ):
        load(np.arange(3), seed=2**64)


def test_epochs():
    with pytest.raises(
        ArgumentError, match="^ArrayLoader.epoch: needs an integer epoch >= 0, got -1$"
    ):
        load(np.arange(3)).epoch(-1)
