"""A job on its way: what is recorded, averaged and kept of it, epoch by epoch, and what became of it."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from errata.dynamics.recorder import Recorder
from errata.dynamics.store import Dynamics
from errata.training.checkpoints import save_state
from errata.training.executors import Executor, evaluate, features
from errata.training.jobs import TrainingJob
from errata.training.model_inputs import TableInputs
from errata.training.provenance import provenance, refuse_another
from errata.training.swa import WeightAverage, recompute_batch_norm

When = Literal["training pass", "after epoch"]
RESULT = "trained.pt"


@dataclass(frozen=True)
class TrainingOptions:
    """What is kept of a job besides its logits, and how often it is secured.

    features: what goes into the last layer, and of a table its columns, scaled: neighbours are sought there.

    when: logits of the training pass itself, or of the watched rows evaluated after every epoch. batch_norm: recompute
    its statistics for the averaged weights. stream: keep the running sums of these methods instead of all logits, for
    runs that are held in memory.
    """

    when: When = "training pass"
    swa: bool = True
    features: bool = False
    batch_norm: bool = True
    checkpoint_seconds: float = 30.0
    stream: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Trained:
    """What became of a job: its dynamics, whose ids are rows; or why and at which epoch it stopped."""

    job: TrainingJob
    dynamics: Dynamics | None
    weights: dict[str, Tensor]
    stopped: str | None = None


class Track:
    """One job of a group: its recorder, its weight average, and whether it is still on its way."""

    def __init__(
        self,
        executor: Executor,
        number: int,
        labels: NDArray[np.int64],
        num_classes: int,
        options: TrainingOptions,
        folder: Path | None,
    ) -> None:
        self._executor, self._number, self._options, self._folder = executor, number, options, folder
        self._job = executor.jobs[number]
        rows = self._job.watched if options.when == "after epoch" else self._job.train_rows
        self._seen_in_training = bool(np.isin(rows, self._job.train_rows).any())
        self._rows = torch.from_numpy(rows).to(executor.inputs.device)
        self._labels, self._num_classes = labels[rows], num_classes
        self._provenance = provenance(self._job, labels, asdict(options))
        self._average = WeightAverage()
        self._stopped: str | None = None

    def begin(self, epoch: int, kept: dict[str, Any] | None) -> None:
        """Start, or go on after that many epochs from what was kept of them."""
        recorded = epoch
        if kept is not None:
            if self._folder is not None:
                refuse_another(self._folder, kept["provenance"], self._provenance)
            self._executor.load_state(self._number, kept["executor"])
            device = self._executor.inputs.device
            self._average.count = kept["average_count"]
            self._average.total = {name: value.to(device) for name, value in kept["average"].items()}
            self._stopped, recorded = kept["stopped"], kept["recorded"]
            if self._stopped is not None or epoch >= self._job.recipe.epochs:
                self._executor.stop(self._number)
        path = None if self._folder is None else self._folder / "dynamics"
        self._recorder = Recorder(
            path,
            labels=self._labels,
            ids=self._rows.cpu(),
            num_classes=self._num_classes,
            keep="all" if self._options.stream is None else "stream",
            methods=self._options.stream,
            gathering="in-sample" if self._seen_in_training else "out-of-sample",
            settings=asdict(self._job.recipe) | {"when": self._options.when},
            resume=recorded if path is not None and path.exists() else False,
            quiet=True,
        )

    def end_epoch(self, epoch: int, passed: Tensor) -> None:
        """Keep the epoch's logits; a job whose logits are not finite, or whose epochs are over, stands still."""
        if self._stopped is not None or epoch >= self._job.recipe.epochs:
            return
        logits = passed
        if self._options.when == "after epoch":
            logits = self._executor.evaluate(self._number, self._rows).cpu()
        kept = logits.float().numpy()  # as it is recorded: what is finite only in float64 has diverged as well
        if not np.isfinite(passed.numpy()).all() or not np.isfinite(kept).all():
            self._stopped = f"{self._job.name} diverged: its logits are not finite at epoch {epoch}"
            self._executor.stop(self._number)
            print(f"errata: {self._stopped}; the other runs go on", file=sys.stderr)
            return
        self._recorder.update_all(kept)
        self._recorder.end_epoch(durable=False)  # a killed run goes on from a checkpoint, before which all is synced
        if self._options.swa:
            self._average.add(self._executor.weights(self._number))
        if epoch + 1 == self._job.recipe.epochs:
            self._executor.stop(self._number)

    def state(self) -> dict[str, Any]:
        """All that is needed to go on from here, and what was recorded so far made durable."""
        self._recorder.sync()
        return {
            "executor": self._executor.state(self._number),
            "average_count": self._average.count,
            "average": {name: value.cpu() for name, value in self._average.total.items()},
            "stopped": self._stopped,
            "recorded": self._recorder.epoch,
            "provenance": self._provenance,
        }

    def finish(self) -> Trained:
        """Evaluate what is wanted at the end, and keep the result."""
        dynamics = self._last_words() if self._recorder.epoch else None
        weights = {name: value.detach().cpu().clone() for name, value in self._executor.weights(self._number).items()}
        if self._folder is not None:
            result = {"weights": weights, "stopped": self._stopped, "epochs": self._recorder.epoch}
            save_state(self._folder / RESULT, result | {"provenance": self._provenance})
        return Trained(self._job, dynamics, weights, self._stopped)

    def _last_words(self) -> Dynamics:
        inputs, model = self._executor.inputs, self._executor.module(self._number)
        train_rows = torch.from_numpy(self._job.train_rows).to(inputs.device)
        averaged = None
        if self._options.swa and self._stopped is None:
            mean = self._average.module(model)
            if self._options.batch_norm:
                draws = torch.Generator(inputs.device).manual_seed(self._job.recipe.seed)
                recompute_batch_norm(mean, inputs, train_rows, draws)
            averaged = evaluate(mean, inputs, self._rows)
        wanted = self._options.features and self._stopped is None
        return self._recorder.finish(
            swa_logits=averaged,
            features=features(model, inputs, self._rows) if wanted else None,
            inputs=inputs.scaled(self._rows) if wanted and isinstance(inputs, TableInputs) else None,
        )
