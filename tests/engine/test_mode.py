"""Blocks that change the mode: nested, shared by threads, and interrupted."""

import threading

import pytest

from checks import Interrupted
from singa_core import mode
from singa_core.mode import MODE, Mode, enable_grad, execute_once, grad_enabled, no_grad, use_mode

BLOCKS = [no_grad, enable_grad, execute_once]


WHERE = [
    *((block, name) for block in BLOCKS for name in ("MODE", "_ENTERED")),
    (lambda: use_mode(Mode(False, None)), "MODE"),
]


@pytest.mark.parametrize(("block", "name"), WHERE)
def test_a_block_that_an_interrupt_keeps_from_being_entered_changes_nothing(
    block, name, monkeypatch
):
    before = MODE.get()
    with monkeypatch.context() as patch:
        patch.setattr(mode, name, Interrupted(getattr(mode, name)))
        with pytest.raises(KeyboardInterrupt), block():
            raise AssertionError("entered")
    assert MODE.get() is before
    assert mode._ENTERED.get() is None


def test_a_block_puts_back_what_was_outside():
    before, one = MODE.get(), no_grad()
    with one:
        outer = MODE.get()
        with one, enable_grad():
            assert grad_enabled()
            with use_mode(Mode(False, None)), enable_grad():
                assert grad_enabled()
            assert grad_enabled()
        assert MODE.get() is outer
        assert not grad_enabled()
    assert MODE.get() is before


@pytest.mark.parametrize("block", BLOCKS)
def test_two_threads_may_be_in_one_block(block):
    """The first to enter is the first to leave."""
    shared, before, told = block(), MODE.get(), []
    entered, left = threading.Event(), threading.Event()

    def other():
        try:
            own = MODE.get()
            with shared:
                entered.set()
                assert left.wait(60)
            told.append(MODE.get() is own)
        except BaseException as failure:
            told.append(failure)
            entered.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert entered.wait(60)
    with shared:
        left.set()
        thread.join()
    assert told == [True]
    assert MODE.get() is before


@pytest.mark.parametrize("inner", [*BLOCKS, lambda: use_mode(Mode(False, None))])
def test_a_block_that_an_interrupt_keeps_from_being_left_ends_with_the_one_around_it(inner):
    before = MODE.get()
    with no_grad():
        inner().__enter__()
    assert MODE.get() is before
    with no_grad():
        assert not grad_enabled()
    assert MODE.get() is before


def test_leaving_a_block_that_was_not_entered_here_changes_nothing():
    before = MODE.get()
    with no_grad():
        inside = MODE.get()
        enable_grad().__exit__(None, None, None)
        assert MODE.get() is inside
    assert MODE.get() is before


def test_a_decorated_function_may_call_itself():
    @no_grad()
    def down(n):
        return [grad_enabled(), *(down(n - 1) if n else [])]

    assert down(3) == [False] * 4
    assert grad_enabled()
