"""What all examples do around their model: train with files, compare, load again, draw."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import singa_core as sc
from singa_core.callbacks import Checkpoint
from singa_core.errors import ArgumentError
from singa_core.evaluation import evaluate
from singa_core.io.checkpoint import Mismatch
from singa_core.io.container import FileDamaged, FormatTooNew
from singa_core.metric import Metric
from singa_core.plot import PlotMissing, curves
from singa_core.training import History, fit

MIB = 2**20
COMPARED = 8  # steps in a round of a comparison
ROUNDS = 4


@dataclass
class Run:
    """An example under way.

    Attributes:
        options: of `_options.parser`.
        make: gives a compiled model, recorded or not; the same seed gives the same weights.
        loader: batches to train on.
        tests: batches to test on, after each epoch.
        metrics: beside the loss.
        labels: what the plot calls them.
    """

    options: argparse.Namespace
    make: Callable[[bool], sc.Model]
    loader: Any
    tests: Any
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def train(self) -> tuple[sc.Model, History]:
        """`fit`, with the files of --save and --resume.

        Ends the program if it is interrupted, or if the file of --resume is not of this model.
        """
        options, tests, metrics = self.options, self.tests, self.metrics
        keep = options.save or options.resume
        files = [Checkpoint(keep, resume=options.resume or False)] if keep else []
        model = self.make(not options.no_graph)
        options.device.memory.reset_peak()
        try:
            history = fit(
                model, self.loader, options.epochs, validation=tests, metrics=metrics,
                callbacks=files,
            )  # fmt: skip
        except (FileDamaged, FormatTooNew, Mismatch) as error:
            sys.exit(f"--resume: {error}")
        except ArgumentError as error:
            if not error.where.endswith((".restore", "Checkpoint")):
                raise
            sys.exit(f"--resume: {error}\ntry: the options that the run began with")
        self.peak = options.device.memory.peak
        if history.interrupted:
            print(f"go on with --resume {shlex.quote(str(keep))}" if keep else "nothing is saved")
            sys.exit(130)
        return model, history

    def report(self, model: sc.Model, history: History) -> None:
        """Tell what it took, load the model again, draw the curves."""
        self.tell_times()
        self.tell_memory(model)
        self.check_file(model)
        self.draw(history)

    def tell_times(self) -> None:
        """Milliseconds for a step, recorded and eager: a few of each in turn, the fastest rounds.

        The first round also records and allocates; what else the machine does meets both.
        """
        batches = list(islice(self.loader.epoch(0), COMPARED))
        models = [self.make(True), self.make(False)]
        rounds = [
            [fit(model, batches, 1, progress=False)["ms_per_step"][0] for model in models]
            for _ in range(ROUNDS)
        ]
        graph, eager = map(min, zip(*rounds, strict=True))
        print(f"a step takes {graph:.2f} ms recorded, {eager:.2f} ms eager")

    def tell_memory(self, model: sc.Model) -> None:
        """What a step was planned to need between its beginning and its end, and what there was."""
        steps = [r for r in model.graph_report() if r["function"] == "train_one_batch"]
        if steps:
            planned = max(report["planned_peak"] for report in steps)
            print(f"temporaries of a step are planned to take {planned / MIB:.1f} MiB")
        print(f"peak memory {self.peak / MIB:.1f} MiB on {self.options.device}, by core's count")

    def check_file(self, model: sc.Model) -> None:
        """Load what was saved, or is saved for this, into a new model: is it the same?"""
        fresh = self.make(not self.options.no_graph)
        kept = self.options.save or self.options.resume
        with tempfile.TemporaryDirectory() as folder:
            path = kept or Path(folder) / "model.singa"
            if not path.exists():
                model.save(path)
            fresh.load(path, strict=True)
            size = path.stat().st_size / MIB
        before, after = (
            evaluate(one, self.tests, metrics=self.metrics) for one in (model, fresh)
        )  # in the order of time
        if before != after:
            sys.exit(f"{path}: gave {after} in a new model, but {before} in the one that was saved")
        where = kept or "a file"
        print(f"saved in {where} ({size:.1f} MiB) and loaded into a new model: the same results")

    def draw(self, history: History) -> None:
        """Draw loss and metrics, if that can be done here."""
        path, title = self.options.plot, f"{self.options.name} on {self.options.device}"
        try:
            curves(history, path, title=title, names=("train", "test"), labels=self.labels)
        except PlotMissing:
            python = min(sys.executable, os.path.relpath(sys.executable), key=len)
            print(f"no picture of the curves: {python} -m pip install matplotlib, and there is one")
        except OSError as error:
            print(f"no picture of the curves: {error}")
        else:
            print(f"curves in {path}")
