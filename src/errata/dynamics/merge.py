"""Put shards together: several runs that each recorded some of the samples become one."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from errata.dynamics.files import refuse_taken
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
    """One run of all samples from shards whose ids are rows of `labels` (N,).

    A sample that is in two shards, as a sampler's padding makes some, is taken from the first. With a path the merged
    run is there whole or not at all.
    """
    if path is not None:
        target = Path(path)
        refuse_taken(target)
        part = target.with_name(f".{target.name}.unmerged")
        shutil.rmtree(part, ignore_errors=True)  # what a killed process left
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
    owners = _first_owners(shards, len(labels))
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
        for shard, (positions, rows) in zip(shards, owners, strict=True):
            recorder.update(names[rows], shard.replayable().logits[epoch][positions])
        recorder.end_epoch(durable=False)
    together = {}
    for name in ("swa_logits", "features", "inputs"):
        parts = [getattr(shard, name) for shard in shards]
        if all(part is not None for part in parts):
            whole = np.empty((len(labels), parts[0].shape[1]), dtype=parts[0].dtype)
            for part, (positions, rows) in zip(parts, owners, strict=True):
                whole[rows] = part[positions]
            together[name] = whole
    return recorder.finish(**together)


def _first_owners(shards: Sequence[Dynamics], samples: int) -> list[tuple[Any, Any]]:
    """For each shard its positions that count, and the rows they are; every row counts once."""
    taken = np.zeros(samples, dtype=np.bool_)
    owners = []
    for shard in shards:
        rows = np.asarray(shard.ids)
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= samples:
            raise InputError(f"ids of a shard must be rows 0..{samples - 1}")
        positions = np.flatnonzero(~taken[rows])
        taken[rows] = True
        owners.append((positions, rows[positions]))
    if not taken.all():
        raise InputError(f"sample {int(np.argmin(taken))} is in none of the shards")
    return owners
