"""Merge shards: runs that each recorded some of the samples."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from errata.dynamics.files import require_empty
from errata.dynamics.ids import SampleIds
from errata.dynamics.recorder import Recorder
from errata.dynamics.store import Dynamics
from errata.errors import InputError


def merge(
    shards: Sequence[Dynamics],
    labels: Any,
    *,
    path: str | Path | None = None,
    ids: Any | None = None,
    fold: Any | None = None,
    settings: dict[str, Any] | None = None,
) -> Dynamics:
    """One run of all samples, from shards whose ids are rows of `labels` (N,).

    A sample in two shards (the padding of a sampler) is read from the first. With a path, the merged run is written
    completely or not at all.
    """
    if path is not None:
        target = Path(path)
        require_empty(target)
        part = target.with_name(f".{target.name}.unmerged")
        shutil.rmtree(part, ignore_errors=True)  # left by a killed process
        _merge(shards, labels, part, ids, fold, settings)
        part.replace(target)
        return Dynamics.open(target)
    return _merge(shards, labels, None, ids, fold, settings)


def _merge(
    shards: Sequence[Dynamics],
    labels: Any,
    path: Path | None,
    ids: Any | None,
    fold: Any | None,
    settings: dict[str, Any] | None,
) -> Dynamics:
    first = shards[0]
    if len({(shard.epochs, shard.num_classes) for shard in shards}) > 1:
        raise InputError(f"shards differ in epochs or classes: {', '.join(map(str, shards))}")
    sources = _sources(shards, len(labels))
    recorder = Recorder(
        path,
        labels=labels,
        ids=ids,
        num_classes=first.num_classes,
        gathering=first.gathering or "in-sample",
        fold=fold,
        settings=settings,
        quiet=True,
    )
    names = SampleIds(ids, len(labels)).values
    for epoch in range(first.epochs):
        for shard, (positions, rows) in zip(shards, sources, strict=True):
            recorder.update(names[rows], shard.replayable().logits[epoch][positions])
        recorder.end_epoch(durable=False)
    merged = {}
    for name in ("swa_logits", "features", "inputs"):
        parts = [getattr(shard, name) for shard in shards]
        if all(part is not None for part in parts):
            whole = np.empty((len(labels), parts[0].shape[1]), dtype=parts[0].dtype)
            for part, (positions, rows) in zip(parts, sources, strict=True):
                whole[rows] = part[positions]
            merged[name] = whole
    return recorder.finish(**merged)


def _sources(shards: Sequence[Dynamics], samples: int) -> list[tuple[Any, Any]]:
    """For each shard, the positions that are read from it, and their rows; every row is read once."""
    assigned = np.zeros(samples, dtype=np.bool_)
    sources = []
    for shard in shards:
        rows = np.asarray(shard.ids)
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= samples:
            raise InputError(f"ids of a shard must be rows 0..{samples - 1}")
        positions = np.flatnonzero(~assigned[rows])
        assigned[rows] = True
        sources.append((positions, rows[positions]))
    if not assigned.all():
        raise InputError(f"sample {int(np.argmin(assigned))} is in none of the shards")
    return sources
