"""Merge shards: runs that each recorded some of the samples."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from errata.core.checks import Labels
from errata.dynamics.files import require_empty
from errata.dynamics.recorder import Recorder
from errata.dynamics.store import Dynamics
from errata.errors import InputError


def merge(
    shards: Sequence[Dynamics], labels: Labels, *, path: Path | None, fold: Labels, settings: dict[str, Any]
) -> Dynamics:
    """One run of all samples, from shards whose ids are rows of `labels` (N,). Each sample is in one shard.

    With a path, the merged run is written completely or not at all.
    """
    if len({(shard.epochs, shard.num_classes) for shard in shards}) > 1:
        raise InputError(f"shards differ in epochs or classes: {', '.join(map(str, shards))}")
    part = None
    if path is not None:
        require_empty(path)
        part = path.with_name(f".{path.name}.unmerged")
        shutil.rmtree(part, ignore_errors=True)  # left by a killed process
    classes = shards[0].num_classes
    recorder = Recorder(part, labels=labels, num_classes=classes, fold=fold, settings=settings, quiet=True)
    for epoch in range(shards[0].epochs):
        for shard in shards:
            recorder.update(shard.ids, shard.replayable().logits[epoch])
        recorder.end_epoch(durable=False)
    merged = {}
    for name in ("swa_logits", "features", "inputs", "held_out"):
        parts = [getattr(shard, name) for shard in shards]
        if all(array is not None for array in parts):
            merged[name] = np.empty((len(labels), parts[0].shape[1]), dtype=parts[0].dtype)
            for array, shard in zip(parts, shards, strict=True):
                merged[name][shard.ids] = array
    dynamics = recorder.finish(**merged)
    if path is None or part is None:
        return dynamics
    part.replace(path)
    return Dynamics.open(path)
