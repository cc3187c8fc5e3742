"""Ctrl-C at a good moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupts:
    """Ctrl-C waits for the end of what must be whole; a second one does not wait.

    Only in the main thread, and only where nobody else handles the signal.
    """

    def __init__(self) -> None:
        self._held = self._asked = self._mine = False

    def __enter__(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._mine = True

    def __exit__(self, *failure: object) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handle(self, number: int, frame: object) -> None:
        if self._asked or not self._held:
            raise KeyboardInterrupt
        self._asked = True

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block that is not interrupted in the middle, but after it."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._asked:
            raise KeyboardInterrupt
