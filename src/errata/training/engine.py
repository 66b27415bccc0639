"""The training loop: jobs side by side, epoch by epoch, each recorded, checkpointed and finished on its own."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from errata.dynamics.files import remove_unfinished
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.training.executors import Executor
from errata.training.job_runs import (
    RESULT,
    JobRun,
    drop_checkpoints,
    furthest_checkpoint,
    group_checkpoint,
    load_state,
    save_state,
)
from errata.training.jobs import JobResult, TrainingJob, TrainingOptions, check_provenance, provenance
from errata.training.models import penultimate
from errata.training.processes import in_processes

MakeExecutor = Callable[[Sequence[TrainingJob]], Executor]
Progress = Callable[[int], object]


def train(
    jobs: Sequence[TrainingJob],
    labels: NDArray[np.int64],
    make_executor: MakeExecutor,
    options: TrainingOptions,
    folder: Path | None = None,
    side_by_side: int | None = None,
    progress: Progress = lambda _: None,
) -> list[JobResult]:
    """Train all jobs, at most `side_by_side` at a time and no more than fit in GPU memory.

    With a folder, each job has its own subfolder, and jobs that were started there are resumed. `progress` is called
    with the number of epochs that one or more jobs have completed.
    """
    if side_by_side is not None and side_by_side < 1:
        raise InputError(f"side_by_side must be at least 1, not {side_by_side}")
    for name, count in Counter(job.name for job in jobs).items():
        if count > 1:
            raise InputError(f"{name} is listed twice; every run needs its own seed")
    if options.stream is not None and folder is not None:
        raise InputError("running sums cannot be resumed from a checkpoint; train without a folder to keep only these")
    engine = _Engine(labels, make_executor, options, folder, progress)
    results = engine.finished(jobs)
    progress(sum(result.job.recipe.epochs for result in results.values()))
    waiting = [job for job in jobs if job.name not in results]
    width = side_by_side or len(waiting)
    while waiting:
        group = waiting[:width]
        trained = engine.train_if_it_fits(group)
        if trained is None:
            width = (len(group) + 1) // 2
            torch.cuda.empty_cache()
            print(f"errata: out of GPU memory; continuing with {width} runs side by side", file=sys.stderr)
            continue
        results |= {result.job.name: result for result in trained}
        waiting = waiting[len(group) :]
    if folder is not None:
        drop_checkpoints(folder, results)
    return [results[job.name] for job in jobs]


@dataclass(frozen=True, eq=False)
class _Engine:
    """The arguments that all groups of one call of `train` share."""

    labels: NDArray[np.int64]
    make_executor: MakeExecutor
    options: TrainingOptions
    folder: Path | None
    progress: Progress

    def finished(self, jobs: Sequence[TrainingJob]) -> dict[str, JobResult]:
        """The jobs that are finished in the folder, by name. Incomplete files of a killed process are deleted."""
        if self.folder is None:
            return {}
        remove_unfinished(self.folder)
        results = {}
        for job in jobs:
            own = self.folder / job.name
            remove_unfinished(own)
            stored = load_state(own / RESULT)
            if stored is not None:
                check_provenance(own, stored["provenance"], provenance(job, self.labels, self.options))
                dynamics = Dynamics.open(own / "dynamics") if stored["epochs"] else None
                results[job.name] = JobResult(job, dynamics, stored["weights"], stored["stopped"])
        return results

    def train_if_it_fits(self, group: Sequence[TrainingJob]) -> list[JobResult] | None:
        """Train a group; None if it needs more memory than the GPU has and can be split."""
        reported = 0

        def progress(epochs: int) -> None:
            nonlocal reported
            reported += epochs
            self.progress(epochs)

        try:
            return self._train_group(group, progress)
        except torch.cuda.OutOfMemoryError:
            if len(group) == 1:
                raise
            self.progress(-reported)
            return None

    def _train_group(self, group: Sequence[TrainingJob], progress: Progress) -> list[JobResult]:
        executor = self.make_executor(group)
        if self.options.features:
            penultimate(executor.module(0))  # raises an error now, not after training, if the model has no features
        parts = [[group[number] for number in part] for part in executor.parts()]
        checkpoints = [self._checkpoint(part) for part in parts]
        if len(parts) == 1:
            return self._train_executor(executor, checkpoints[0], progress)
        tasks = [
            partial(self._train_part, part, checkpoint) for part, checkpoint in zip(parts, checkpoints, strict=True)
        ]
        results = {result.job.name: result for part in in_processes(tasks, progress) for result in part}
        if self.folder is not None:
            results = self.finished(group)
        return [results[job.name] for job in group]

    def _train_part(
        self, part: Sequence[TrainingJob], checkpoint: dict[str, Any] | None, progress: Progress
    ) -> list[JobResult]:
        """Train a part of a group in a process of its own. With a folder, the results are only stored there."""
        results = self._train_executor(self.make_executor(part), checkpoint, progress)
        return results if self.folder is None else []

    def _checkpoint(self, jobs: Sequence[TrainingJob]) -> dict[str, Any] | None:
        return None if self.folder is None else furthest_checkpoint(self.folder, [job.name for job in jobs])

    def _train_executor(
        self, executor: Executor, checkpoint: dict[str, Any] | None, progress: Progress
    ) -> list[JobResult]:
        group = executor.jobs
        names = [job.name for job in group]
        start = 0 if checkpoint is None else int(checkpoint["epoch"])
        runs = []
        for number, name in enumerate(names):
            own = None if self.folder is None else self.folder / name
            state = None if checkpoint is None else checkpoint["jobs"][name]
            runs.append(JobRun(executor, number, self.labels, self.options, own, start, state))
        progress(sum(min(start, job.recipe.epochs) for job in group))
        last_checkpoint = time.monotonic()
        for epoch in range(start, max(job.recipe.epochs for job in group)):
            for run, logits in zip(runs, _on_cpu(executor.train_epoch(epoch)), strict=True):
                run.end_epoch(epoch, logits)
            progress(sum(epoch < job.recipe.epochs for job in group))
            if self.folder is not None and time.monotonic() - last_checkpoint >= self.options.checkpoint_seconds:
                states = {name: run.state() for name, run in zip(names, runs, strict=True)}
                save_state(group_checkpoint(self.folder, names), {"epoch": epoch + 1, "jobs": states})
                last_checkpoint = time.monotonic()
        results = [run.finish() for run in runs]
        if self.folder is not None:
            group_checkpoint(self.folder, names).unlink(missing_ok=True)
        return results


def _on_cpu(logits_of_jobs: Sequence[Tensor]) -> list[Tensor]:
    """The logits of all jobs on the CPU, with a single synchronisation."""
    copies = [logits.to("cpu", non_blocking=True) for logits in logits_of_jobs]
    if any(logits.is_cuda for logits in logits_of_jobs):
        torch.cuda.current_stream().synchronize()
    return copies
