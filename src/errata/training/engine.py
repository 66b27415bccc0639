"""The training loop: jobs side by side, epoch after epoch, each recorded, checkpointed and finished on its own."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from errata.dynamics.files import drop_parts
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.training.checkpoints import (
    drop_checkpoints,
    furthest_checkpoint,
    group_checkpoint,
    load_state,
    save_state,
)
from errata.training.executors import Executor
from errata.training.interrupts import Interruptible
from errata.training.jobs import TrainingJob
from errata.training.models import penultimate
from errata.training.provenance import provenance, refuse_another
from errata.training.tracks import RESULT, Track, Trained, TrainingOptions

MakeExecutor = Callable[[Sequence[TrainingJob]], Executor]
Progress = Callable[[int], object]


def train(
    jobs: Sequence[TrainingJob],
    labels: NDArray[np.int64],
    num_classes: int,
    make: MakeExecutor,
    options: TrainingOptions,
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
    group: Sequence[TrainingJob],
    labels: NDArray[np.int64],
    num_classes: int,
    make: MakeExecutor,
    options: TrainingOptions,
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
    group: Sequence[TrainingJob],
    labels: NDArray[np.int64],
    num_classes: int,
    make: MakeExecutor,
    options: TrainingOptions,
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
        Track(executor, number, labels, num_classes, options, None if folder is None else folder / job.name)
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


def _check(jobs: Sequence[TrainingJob], side_by_side: int | None) -> None:
    if side_by_side is not None and side_by_side < 1:
        raise InputError(f"side_by_side must be at least 1, not {side_by_side}")
    names = [job.name for job in jobs]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"{name} is asked for twice: every run needs a seed of its own")


def _already_trained(
    jobs: Sequence[TrainingJob], labels: NDArray[np.int64], options: TrainingOptions, folder: Path
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
