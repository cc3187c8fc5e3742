"""Checkpoint: the callback that lets another process go on."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from singa_core.callbacks.base import Best, Callback
from singa_core.checks import check_flag, check_integer, check_path
from singa_core.errors import ArgumentError, StateLost
from singa_core.io.checkpoint import CheckpointWarning, load, save
from singa_core.io.container import FileDamaged, NotSaved

if TYPE_CHECKING:
    from singa_core.training import Training


_FIELDS: Final = ("{epoch}", "{step}")


class Checkpoint(Callback):
    """Save the model with all its training state, so that another process can go on.

    A training that is resumed gives the same bits as one that was never left: weights, optimiser,
    random streams, order of data and history.

    Args:
        path: of the file; `{epoch}` or `{step}` in its name stand for how many are complete.
        every: epochs between two files; after the last epoch, and when the training is interrupted,
            there is one as well.
        keep: how many files of this training stay, the latest; None for all.
        best: name of a metric; the epoch where it is best stays in a file of its own, with `best`
            in place of the number, or `-best` behind the name.
        mode: "min" if lower is better, "max" if higher is.
        resume: True to go on where the latest file was saved that is not damaged, and to begin anew
            if there is none; or the path of a file to go on from, which has to be there.

    A file that cannot be written is a warning, and the training goes on.

    Raises: ArgumentError for other things in braces. Out of `fit`, to begin with: Mismatch for a
        file of another model, FileDamaged if there is no other file, ArgumentError for one that no
        Checkpoint saved and where `path` is a folder; OSError where `resume` is a path and no such
        file is there.
    """

    last = True

    def __init__(
        self, path: str | os.PathLike[str], *, every: int = 1, keep: int | None = 1,
        best: str | None = None, mode: str = "min",
        resume: bool | str | os.PathLike[str] = False,
    ) -> None:  # fmt: skip
        self.path = Path(check_path("Checkpoint", path))
        others = [field for field in re.findall(r"\{.*?\}", self.path.name) if field not in _FIELDS]
        if others:
            raise ArgumentError("Checkpoint", f"{' or '.join(_FIELDS)} in the name", others[0])
        self.every = check_integer("Checkpoint", "every", every, 1)
        self.keep = None if keep is None else check_integer("Checkpoint", "keep", keep, 1)
        named = isinstance(resume, str | os.PathLike)
        self.resume = resume if named else check_flag("Checkpoint", "resume", resume)
        self._best = None if best is None else Best("Checkpoint", best, mode)
        self._written: list[str] = []

    def on_setup(self, training: Training) -> None:
        self._written = []
        if self._best is not None:
            self._best.begin(training)
        self.path.parent.mkdir(parents=True, exist_ok=True)  # what cannot work fails at once
        if self.path.is_dir():
            hint = f"{self.path / 'run.ckpt'}"
            raise ArgumentError("Checkpoint", "the path of a file", "that of a folder", hint=hint)
        if isinstance(self.resume, str | os.PathLike):
            self._go_on(training, Path(self.resume))
            self._written = []  # the files of another training stay
        elif self.resume:
            self._go_on_from_latest(training)

    def _go_on_from_latest(self, training: Training) -> None:
        damaged: FileDamaged | None = None
        for path in self._candidates():
            try:
                return self._go_on(training, path)
            except FileDamaged as error:
                warnings.warn(f"passed over: {error}", CheckpointWarning, stacklevel=2)
                damaged = error
        if damaged is not None:
            raise damaged
        return None

    def _go_on(self, training: Training, path: Path) -> None:
        report = load(training.model, path, include_state=True, strict=True)
        if "training" not in report.state:
            raise ArgumentError("Checkpoint", "a file that a Checkpoint saved", path)
        training.restore(report.state["training"])

    def on_epoch_end(self, training: Training) -> None:
        if self._best is not None and self._best.improves(self._best.read(training)):
            self._save(training, self._name("best"))
        if training.epoch % self.every == 0 or training.finished:
            self._save_latest(training)

    def on_interrupted(self, training: Training) -> None:
        if training.in_step:
            text = "not saved: interrupted within a step, the parameters may be half new"
            warnings.warn(text, CheckpointWarning, stacklevel=2)
        else:
            self._save_latest(training)

    def _save_latest(self, training: Training) -> None:
        path, before = self._name(training.epoch, training.steps), self._written
        names = [*(name for name in before if name != path.name), path.name]
        old = names[: -self.keep] if self.keep is not None else []
        self._written = names[len(old) :]  # before it is saved, as part of what is
        if self._save(training, path):
            for name in old:
                (path.parent / name).unlink(missing_ok=True)
        else:
            self._written = before

    def _save(self, training: Training, path: Path) -> bool:
        try:
            save(training.model, path, {"training": training.state()})
        except (NotSaved, StateLost) as error:
            warnings.warn(str(error), CheckpointWarning, stacklevel=2)
            return False
        return True

    def _name(self, epoch: int | str, step: int | str | None = None) -> Path:
        step = epoch if step is None else step
        name = self.path.name.replace("{epoch}", str(epoch)).replace("{step}", str(step))
        if epoch == "best" and name == self.path.name:
            name = f"{self.path.stem}-best{self.path.suffix}"
        return self.path.with_name(name)

    def _candidates(self) -> list[Path]:
        """The files of this name that there are, latest first."""
        parts = re.split(r"\{(?:epoch|step)\}", self.path.name)
        pattern = re.compile(r"(\d+)".join(map(re.escape, parts)))
        found = []
        for path in self.path.parent.iterdir():
            match = pattern.fullmatch(path.name)
            if match is not None and path.is_file():
                found.append((path.stat().st_mtime_ns, [int(n) for n in match.groups()], path))
        return [path for _, _, path in sorted(found, reverse=True)]

    def state(self) -> dict[str, Any]:
        return {"written": self._written, "best": self._best.value if self._best else None}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._written = list(state.get("written", []))
        if self._best is not None:
            self._best.value = state.get("best")
