"""Random streams: where every draw of this process gets its numbers.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) by element index:
element i of a draw is word i mod 4 of block start + i // 4, so a draw's numbers depend on nothing
but the stream's key and position, on every device. There is one stream per purpose; a stream's key
is derived from the seed and the purpose, and a draw advances it by whole blocks. The position a
draw gets is fixed when the operation is applied (or, recorded, in the host program of each replay).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from singa_core.checks import check_seed
from singa_core.device import Device
from singa_core.errors import RecordingError
from singa_core.host import user_line
from singa_core.kernels.array.random import philox
from singa_core.mode import MODE
from singa_core.recorder import symbolic_only
from singa_core.spec import Spec
from singa_core.tensor import Tensor, tensor

STATE: Final = Spec((4,), "uint32")
WORDS: Final = 4
_PURPOSES: Final = {"init": 0, "train": 1, "user": 2}


def derive_key(seed: int, purpose: int) -> tuple[int, int]:
    """The 64-bit Philox key of a stream: the first two words of block `purpose` under the seed."""
    words = philox(np, (seed & 0xFFFFFFFF, seed >> 32), purpose, 2)
    return int(words[0]), int(words[1])


class Stream:
    """A sequence of Philox blocks: a key and a position."""

    def __init__(self, purpose: str, seed: int = 0) -> None:
        self.purpose = purpose
        self._lock = threading.Lock()
        self._own = threading.local()  # .blocks: how many this thread has taken
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """Start again from a seed. Raises: RecordingError while a graph is recorded."""
        self._refuse_recording()
        self.key = derive_key(seed, _PURPOSES[self.purpose])
        self.position = 0

    def take(self, blocks: int) -> npt.NDArray[np.uint32]:
        """The 4-word state of a draw of `blocks` blocks; the stream moves past them."""
        with self._lock:
            start = self.position
            self.position += blocks
            self._own.blocks = getattr(self._own, "blocks", 0) + blocks
        return np.array([*self.key, start & 0xFFFFFFFF, start >> 32 & 0xFFFFFFFF], np.uint32)

    @contextmanager
    def unless_failed(self) -> Iterator[None]:
        """What fails in here has not drawn; unless another thread has drawn meanwhile."""
        start, before = self.position, getattr(self._own, "blocks", 0)
        try:
            yield
        except BaseException:
            with self._lock:
                taken = getattr(self._own, "blocks", 0) - before
                if self.position == start + taken:
                    self.position = start
            raise

    def draw(self, count: int, device: Device) -> Tensor:
        """The state of a draw of `count` words, as an input for `random_bits`."""
        blocks = -(-count // WORDS)
        recorder = MODE.get().recorder
        if recorder is not None:
            return recorder.scalar(lambda: self.take(blocks), STATE, moves=self)
        return tensor(self.take(blocks), device=device)

    def moment(self) -> int:
        """The position, for the engine."""
        return self.position

    def rewind(self, moment: int) -> None:
        """Draw again from a position: what a replay that failed had drawn changed nothing."""
        self.position = moment

    def _refuse_recording(self) -> None:
        """A replay would not set the stream again."""
        if MODE.get().recorder is not None:
            raise RecordingError(
                f"stream {self.purpose!r}", "to be set outside of the recorded function",
                f"a change at {user_line()}",
            )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Key and position, for checkpoints."""
        if MODE.get().recorder is not None:
            raise symbolic_only(f"stream {self.purpose!r}")
        return {"key": list(self.key), "position": self.position}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where `state()` was taken. Raises: RecordingError while a graph is recorded."""
        self._refuse_recording()
        first, second = state["key"]
        self.key, self.position = (int(first), int(second)), int(state["position"])


STREAMS: Final = {purpose: Stream(purpose) for purpose in _PURPOSES}
_seed = 0


def manual_seed(seed: int) -> None:
    """Start all streams of this process again from `seed` (0 <= seed < 2**64).

    Raises: ArgumentError outside that range.
    """
    global _seed
    _seed = seed = check_seed("manual_seed", seed)
    for stream in STREAMS.values():
        stream.reset(seed)


def stream_states() -> dict[str, Any]:
    """Where all streams are, as JSON: what `restore_streams` takes."""
    return {name: stream.state() for name, stream in STREAMS.items()}


def restore_streams(states: Mapping[str, Any]) -> None:
    """Put streams back to where `stream_states()` found them; what is no stream here is left."""
    for name in STREAMS.keys() & states.keys():
        STREAMS[name].restore(states[name])


def initial_seed() -> int:
    """The seed that `manual_seed` was last given; 0 at start."""
    return _seed
