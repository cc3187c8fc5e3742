"""Callbacks that tell people and programs how it goes."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from singa_core.callbacks.base import Callback
from singa_core.checks import check_integer, check_path

if TYPE_CHECKING:
    from singa_core.training import Training


class ProgressBar(Callback):
    """A bar with loss, metrics and milliseconds a step on a terminal; a line for each epoch.

    Args:
        file: where to; by default the bar to standard error, lines to standard output.
        interval: seconds between two looks at loss and metrics, which wait for the device.
    """

    last = True

    def __init__(self, *, file: IO[str] | None = None, interval: float = 0.5) -> None:
        self.file, self.interval = file, interval
        self._bar: Any = None
        self._began = self._looked = 0.0
        self._first = 0

    def on_epoch_begin(self, training: Training) -> None:
        from tqdm import tqdm  # noqa: PLC0415  (not at import: 40 ms)

        self._bar = tqdm(
            total=training.batches, initial=training.batch, file=self.file, leave=False,
            desc=f"epoch {training.epoch + 1}/{training.epochs}", unit="step",
            disable=None,  # where there is no terminal
        )  # fmt: skip
        self._began = self._looked = time.perf_counter()
        self._first = training.batch

    def on_step_end(self, training: Training) -> None:
        if self._bar.disable:
            return
        now = time.perf_counter()
        if now - self._looked >= self.interval:
            spent = (now - self._began) / (training.batch - self._first)
            self._bar.set_postfix_str(_shown({**training.so_far(), "ms_per_step": spent * 1e3}))
            self._looked = now
        self._bar.update()

    def on_epoch_end(self, training: Training) -> None:
        self._close()
        row = dict(training.history.rows[-1])
        line = f"epoch {row.pop('epoch')}/{training.epochs}  {_shown(row)}"
        print(line, file=self.file or sys.stdout, flush=True)

    def on_interrupted(self, training: Training) -> None:
        self._close()
        epoch, batch = training.epoch + 1, training.batch
        print(f"interrupted in epoch {epoch} after batch {batch}", file=self.file or sys.stdout)

    def on_train_end(self, training: Training) -> None:
        self._close()
        if training.history.stopped and training.failure is None:
            print(f"stopped: {training.history.stopped}", file=self.file or sys.stdout)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _shown(numbers: Mapping[str, Any]) -> str:
    """Numbers by name, for people."""
    units = {"ms_per_step": "{:.2f} ms a step"}
    return "  ".join(
        units.get(name, f"{name} {{:.4g}}").format(value) for name, value in numbers.items()
    )


class JsonlLog(Callback):
    """A line of JSON for each epoch, and for every so many steps, in a file.

    A training that is resumed goes on in the same file; lines of steps that it makes again are
    removed first. Numbers that are not finite are text, for JSON has none.

    Args:
        path: of the file; one that exists is written anew unless the training is resumed.
        every: steps between two lines about steps, whose loss is read then; None for no such lines.
    """

    def __init__(self, path: str | os.PathLike[str], *, every: int | None = None) -> None:
        self.path = Path(check_path("JsonlLog", path))
        self.every = None if every is None else check_integer("JsonlLog", "every", every, 1)
        self._file: IO[str] | None = None

    def on_train_begin(self, training: Training) -> None:
        kept = self._lines(training.steps) if training.steps else []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("w", encoding="utf-8")
        for line in kept:
            self._write(line)

    def on_step_end(self, training: Training) -> None:
        if self.every is not None and training.steps % self.every == 0:
            place = {"epoch": training.epoch + 1, "step": training.steps}
            self._write({**place, "step_loss": float(training.loss)})

    def on_epoch_end(self, training: Training) -> None:
        self._write({**training.history.rows[-1], "step": training.steps})

    def on_train_end(self, training: Training) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, row: Mapping[str, Any]) -> None:
        if self._file is not None:
            line = json.dumps({name: _finite(value) for name, value in row.items()})
            print(line, file=self._file, flush=True)

    def _lines(self, steps: int) -> list[dict[str, Any]]:
        """What is in the file about steps that are made; a line cut in the middle is none."""
        if not self.path.exists():
            return []
        lines = []
        for text in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = json.loads(text)
                if line["step"] <= steps:
                    lines.append(line)
            except (ValueError, KeyError, TypeError):
                continue
        return lines


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
