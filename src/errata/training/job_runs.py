"""The state of a job while it is trained: recorder, averaged weights, whether it has stopped; and its checkpoints."""

import io
import math
import sys
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from errata.core.default import FROZEN_FEATURES
from errata.dynamics.files import replace_atomically
from errata.dynamics.recorder import Recorder
from errata.dynamics.store import Dynamics
from errata.errors import StoreError
from errata.training.executors import Executor, evaluate, features, forward
from errata.training.fine_tuning import FineTuned
from errata.training.jobs import JobResult, TrainingOptions, check_provenance, provenance
from errata.training.model_inputs import Inputs, TableInputs

RESULT = "trained.pt"


class JobRun:
    """One job of a group that is trained side by side."""

    def __init__(
        self,
        executor: Executor,
        number: int,
        labels: NDArray[np.int64],
        options: TrainingOptions,
        folder: Path | None,
        start: int,
        checkpoint: dict[str, Any] | None,
    ) -> None:
        """Start at epoch `start`: at 0, or at the epoch of a checkpoint."""
        self._executor, self._number, self._options, self._folder = executor, number, options, folder
        self._job = executor.jobs[number]
        rows = self._job.watched if options.when == "after epoch" else self._job.train_rows
        self._rows = torch.from_numpy(rows).to(executor.inputs.device)
        self._provenance = provenance(self._job, labels, options)
        self._average = WeightAverage()
        self._stopped: str | None = None
        recorded = start
        if checkpoint is not None:
            recorded = checkpoint["recorded"]
            self._load(checkpoint)
            if self._stopped is not None or start >= self._job.recipe.epochs:
                executor.stop(number)
        path = None if folder is None else folder / "dynamics"
        self._recorder = Recorder(
            path,
            labels=labels[rows],
            ids=rows,
            num_classes=executor.num_classes,
            keep="all" if options.stream is None else "stream",
            methods=options.stream,
            gathering="in-sample" if np.isin(rows, self._job.train_rows).any() else "out-of-sample",
            settings=asdict(self._job.recipe) | {"when": options.when} | self._features_setting(),
            resume=recorded if path is not None and path.exists() else False,
            quiet=True,
        )

    def _features_setting(self) -> dict[str, Any]:
        model = self._executor.module(self._number) if self._options.features else None
        return {FROZEN_FEATURES: True} if isinstance(model, FineTuned) and model.searches_frozen else {}

    def _load(self, checkpoint: dict[str, Any]) -> None:
        if self._folder is not None:
            check_provenance(self._folder, checkpoint["provenance"], self._provenance)
        self._executor.load_state(self._number, checkpoint["executor"])
        device = self._executor.inputs.device
        self._average.count = checkpoint["average_count"]
        self._average.total = {name: value.to(device) for name, value in checkpoint["average"].items()}
        self._stopped = checkpoint["stopped"]

    def end_epoch(self, epoch: int, train_logits: Tensor) -> None:
        """Record the epoch. The job stops after its last epoch, or when its logits are not finite."""
        if self._stopped is not None or epoch >= self._job.recipe.epochs:
            return
        logits = train_logits
        if self._options.when == "after epoch":
            logits = self._executor.evaluate(self._number, self._rows).cpu()
        recorded = logits.float().numpy()  # logits that are finite only in float64 count as diverged too
        if not np.isfinite(train_logits.numpy()).all() or not np.isfinite(recorded).all():
            self._stopped = f"{self._job.name} diverged: its logits are not finite at epoch {epoch}"
            self._executor.stop(self._number)
            print(f"errata: {self._stopped}. The other runs continue.", file=sys.stderr)
            return
        self._recorder.update_all(recorded)
        self._recorder.end_epoch(durable=False)  # a killed run resumes from a checkpoint, and `state` syncs before it
        if self._options.swa:
            self._average.add(self._executor.weights(self._number))
        if epoch + 1 == self._job.recipe.epochs:
            self._executor.stop(self._number)

    def state(self) -> dict[str, Any]:
        """All that is needed to resume from here; the recorded epochs are synced to disk first."""
        self._recorder.sync()
        return {
            "executor": self._executor.state(self._number),
            "average_count": self._average.count,
            "average": {name: value.cpu() for name, value in self._average.total.items()},
            "stopped": self._stopped,
            "recorded": self._recorder.epoch,
            "provenance": self._provenance,
        }

    def finish(self) -> JobResult:
        """Evaluate what the options ask for at the end, and store the result."""
        dynamics = self._finish_recording() if self._recorder.epoch else None
        weights = {name: value.detach().cpu().clone() for name, value in self._executor.weights(self._number).items()}
        if self._folder is not None:
            result = {"weights": weights, "stopped": self._stopped, "epochs": self._recorder.epoch}
            save_state(self._folder / RESULT, result | {"provenance": self._provenance})
        return JobResult(self._job, dynamics, weights, self._stopped)

    def _finish_recording(self) -> Dynamics:
        inputs, model = self._executor.inputs, self._executor.module(self._number)
        swa_logits = None
        if self._options.swa and self._stopped is None:
            averaged = self._average.module(model)
            train_rows = torch.from_numpy(self._job.train_rows).to(inputs.device)
            generator = Generator(inputs.device).manual_seed(self._job.recipe.seed)
            recompute_batch_norm(averaged, inputs, train_rows, generator)
            swa_logits = evaluate(averaged, inputs, self._rows)
        with_features = self._options.features and self._stopped is None
        return self._recorder.finish(
            swa_logits=swa_logits,
            features=features(model, inputs, self._rows) if with_features else None,
            inputs=inputs.scaled(self._rows) if with_features and isinstance(inputs, TableInputs) else None,
        )


class WeightAverage:
    """Stochastic weight averaging: the mean of a model's weights at the end of every epoch, as a running sum."""

    def __init__(self) -> None:
        self.count = 0
        self.total: dict[str, Tensor] = {}

    def add(self, weights: dict[str, Tensor]) -> None:
        """Add the weights of one epoch."""
        self.count += 1
        wide = {
            name: value.detach().to(torch.float64 if value.dtype == torch.float64 else torch.float32)
            for name, value in weights.items()
        }
        if not self.total:
            self.total = {name: value.clone() for name, value in wide.items()}
            return
        torch._foreach_add_([self.total[name] for name in wide], list(wide.values()))

    def module(self, like: nn.Module) -> nn.Module:
        """A copy of the model with the mean weights."""
        averaged = deepcopy(like)
        current = averaged.state_dict()
        averaged.load_state_dict({name: (self.total[name] / self.count).to(current[name]) for name in current})
        return averaged


@torch.no_grad()
def recompute_batch_norm(model: nn.Module, inputs: Inputs, rows: Tensor, generator: Generator) -> None:
    """Set the batch-norm statistics of averaged weights from one pass over the training rows."""
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    model.eval()
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over batches
        layer.train()
    # Batches of equal size: in a mean over batches, a small last batch would have too much weight.
    for raw in inputs.fetch(torch.tensor_split(rows, math.ceil(len(rows) / inputs.evaluation_batch))):
        forward(model, inputs.train(raw, generator))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.eval()


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write a state (tensors, numbers, strings, lists and dicts) in place of the file."""
    content = io.BytesIO()  # on a full disk, torch.save to a file raises an error that hides the reason
    torch.save(state, content)
    replace_atomically(path, lambda file: file.write(content.getbuffer()))


def load_state(path: Path) -> dict[str, Any] | None:
    """The state that `save_state` wrote, on the CPU, or None if there is no such file."""
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types of error for a file that it did not write
        raise StoreError(f"{path} is not a complete checkpoint. Delete it to restart this run.") from error
    return state


def group_checkpoint(folder: Path, names: Sequence[str]) -> Path:
    """The checkpoint file of jobs that are trained side by side."""
    return folder / f"{names[0]}-and-{len(names) - 1}-more.checkpoint"


def furthest_checkpoint(folder: Path, names: Collection[str]) -> dict[str, Any] | None:
    """The state with the most epochs that contains all of these jobs; it may contain others too.

    States with more epochs that contain only some of the jobs are deleted, because those jobs restart before them.
    """
    states = {path: load_state(path) for path in sorted(folder.glob("*.checkpoint"))}
    touched = {path: state for path, state in states.items() if state and not state["jobs"].keys().isdisjoint(names)}
    usable = [state for state in touched.values() if state["jobs"].keys() >= set(names)]
    chosen = max(usable, key=lambda state: int(state["epoch"]), default=None)
    for path, state in touched.items():
        if state["epoch"] > (chosen["epoch"] if chosen else 0):
            path.unlink()
    return chosen


def drop_checkpoints(folder: Path, finished: Collection[str]) -> None:
    """Delete the checkpoints whose jobs are all finished."""
    for path in folder.glob("*.checkpoint"):
        state = load_state(path)
        if state is not None and state["jobs"].keys() <= set(finished):
            path.unlink()
