"""The training loop: jobs side by side, epoch after epoch, each recorded, checkpointed and finished on its own."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from errata.dynamics.files import drop_parts
from errata.dynamics.recorder import Recorder
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.training.checkpoints import (
    drop_checkpoints,
    furthest_checkpoint,
    group_checkpoint,
    load_state,
    save_state,
)
from errata.training.data import Table
from errata.training.executors import Executor, evaluate, features
from errata.training.interrupts import Interruptible
from errata.training.jobs import Job
from errata.training.models import penultimate
from errata.training.provenance import provenance, refuse_another
from errata.training.swa import WeightAverage, recompute_batch_norm

When = Literal["training pass", "after epoch"]
MakeExecutor = Callable[[Sequence[Job]], Executor]
Progress = Callable[[int], object]
RESULT = "trained.pt"


@dataclass(frozen=True)
class Options:
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

    job: Job
    dynamics: Dynamics | None
    weights: dict[str, Tensor]
    stopped: str | None = None


def train(
    jobs: Sequence[Job],
    labels: NDArray[np.int64],
    num_classes: int,
    make: MakeExecutor,
    options: Options,
    folder: Path | None = None,
    side_by_side: int | None = None,
    progress: Progress = lambda _: None,
) -> list[Trained]:
    """Train all jobs, as many side by side as asked for and as fit; `progress` is told of every job-epoch done.

    With a folder every job has a subfolder of its own, and what was trained there before is gone on with.
    """
    _check(jobs, side_by_side)
    if options.stream is not None and folder is not None:
        raise InputError("running sums cannot go back to a checkpoint: train without a folder to keep these alone")
    done: dict[str, Trained] = {}
    if folder is not None:
        done = _already_trained(jobs, labels, options, folder)
        progress(sum(trained.job.recipe.epochs for trained in done.values()))
    waiting = [job for job in jobs if job.name not in done]
    width = side_by_side or len(waiting)
    while waiting:
        group = waiting[:width]
        trained = _train_if_it_fits(group, labels, num_classes, make, options, folder, progress)
        if trained is None:
            width = (len(group) + 1) // 2
            torch.cuda.empty_cache()
            print(f"errata: out of GPU memory; going on with {width} runs side by side", file=sys.stderr)
            continue
        done |= {one.job.name: one for one in trained}
        waiting = waiting[len(group) :]
    if folder is not None:
        drop_checkpoints(folder, done)
    return [done[job.name] for job in jobs]


def _train_if_it_fits(
    group: Sequence[Job],
    labels: NDArray[np.int64],
    num_classes: int,
    make: MakeExecutor,
    options: Options,
    folder: Path | None,
    progress: Progress,
) -> list[Trained] | None:
    told = 0

    def tell(epochs: int) -> None:
        nonlocal told
        told += epochs
        progress(epochs)

    try:
        return _train_group(group, labels, num_classes, make, options, folder, tell)
    except torch.cuda.OutOfMemoryError:
        if len(group) == 1:
            raise
        progress(-told)
        return None


def _train_group(
    group: Sequence[Job],
    labels: NDArray[np.int64],
    num_classes: int,
    make: MakeExecutor,
    options: Options,
    folder: Path | None,
    progress: Progress,
) -> list[Trained]:
    executor = make(group)
    if options.features:
        penultimate(executor.module(0))  # a model that has none is refused now, not after training
    names = [job.name for job in group]
    kept = None if folder is None else furthest_checkpoint(folder, names)
    start = 0 if kept is None else int(kept["epoch"])
    tracks = [
        _Track(executor, number, labels, num_classes, options, None if folder is None else folder / job.name)
        for number, job in enumerate(group)
    ]
    for number, track in enumerate(tracks):
        track.begin(start, None if kept is None else kept["jobs"][names[number]])
    progress(sum(min(start, job.recipe.epochs) for job in group))
    secured = time.monotonic()
    with Interruptible() as interrupts:
        executor.after_step = interrupts.check
        for epoch in range(start, max(job.recipe.epochs for job in group)):
            for track, logits in zip(tracks, _on_host(executor.train_epoch(epoch)), strict=True):
                track.end_epoch(epoch, logits)
            progress(sum(epoch < job.recipe.epochs for job in group))
            if folder is not None and time.monotonic() - secured >= options.checkpoint_seconds:
                states = {name: track.state() for name, track in zip(names, tracks, strict=True)}
                save_state(group_checkpoint(folder, names), {"epoch": epoch + 1, "jobs": states})
                secured = time.monotonic()
            interrupts.check()  # what was asked for after the last step is not forgotten
    trained = [track.finish() for track in tracks]
    if folder is not None:
        group_checkpoint(folder, names).unlink(missing_ok=True)
    return trained


def _on_host(passes: Sequence[Tensor]) -> list[Tensor]:
    """The logits of all jobs on the CPU, waited for once."""
    copies = [logits.to("cpu", non_blocking=True) for logits in passes]
    if any(logits.is_cuda for logits in passes):
        torch.cuda.current_stream().synchronize()
    return copies


def _check(jobs: Sequence[Job], side_by_side: int | None) -> None:
    if side_by_side is not None and side_by_side < 1:
        raise InputError(f"side_by_side must be at least 1, not {side_by_side}")
    names = [job.name for job in jobs]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"{name} is asked for twice: every run needs a seed of its own")


def _already_trained(
    jobs: Sequence[Job], labels: NDArray[np.int64], options: Options, folder: Path
) -> dict[str, Trained]:
    """The jobs of the folder that are finished, by name; what a killed process was still writing is deleted."""
    drop_parts(folder)
    done = {}
    for job in jobs:
        own = folder / job.name
        drop_parts(own)
        result = load_state(own / RESULT)
        if result is not None:
            refuse_another(own, result["provenance"], provenance(job, labels, asdict(options)))
            dynamics = Dynamics.open(own / "dynamics") if result["epochs"] else None
            done[job.name] = Trained(job, dynamics, result["weights"], result["stopped"])
    return done


class _Track:
    """One job of a group: its recorder, its weight average, and whether it is still on its way."""

    def __init__(
        self,
        executor: Executor,
        number: int,
        labels: NDArray[np.int64],
        num_classes: int,
        options: Options,
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
            inputs=inputs.scaled(self._rows) if wanted and isinstance(inputs, Table) else None,
        )
