"""Refuse a sample that is in two shards, without the ids of all samples in memory.

Shards whose lowest and highest ids do not overlap have no id in common. The ids of others are compared by 64-bit
hashes, HASHES_AT_ONCE of them at a time, and only ids with equal hashes are compared themselves.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.shards import ShardInfo, in_parallel
from errata.errors import StoreError

HASHES_AT_ONCE = 1 << 26
"""0.5 GB. With more ids, they are read several times."""


KINDS = {"U": "text", "S": "bytes", "f": "fractions"}
"""Of ids, by the kind of their dtype; all others are whole numbers."""


class IdRange(NamedTuple):
    """The kind of the ids of a shard, the lowest and the highest."""

    shard: ShardInfo
    kind: str
    lowest: Any
    highest: Any


def refuse_repeated_ids(shards: Sequence[ShardInfo]) -> None:
    """Refuse an id that occurs twice, with the names of its shards."""
    ranges = [found for found in in_parallel(shards[0].place, _id_range, shards) if found is not None]
    for own in ranges:
        if own.kind != ranges[0].kind:
            raise StoreError(
                f"shard {own.shard.name!r} has {own.kind} as ids, but shard {ranges[0].shard.name!r} {ranges[0].kind}"
            )
    ranges.sort(key=lambda own: own.lowest)
    if any(own.highest >= following.lowest for own, following in pairwise(ranges)):
        _compare_hashes(shards)


def _id_range(shard: ShardInfo) -> IdRange | None:
    """The range of the ids of a shard, which must be distinct; None if it has no sample."""
    ids = np.sort(_ids(shard))
    again = np.flatnonzero(ids[1:] == ids[:-1])
    if len(again):
        raise StoreError(f"sample {_plain(ids, again[0])!r} is twice in shard {shard.name!r}; write the shard again")
    kind = KINDS.get(ids.dtype.kind, "whole numbers")
    return IdRange(shard, kind, _plain(ids, 0), _plain(ids, -1)) if len(ids) else None


def _compare_hashes(shards: Sequence[ShardInfo]) -> None:
    parts = -(-sum(shard.samples for shard in shards) // HASHES_AT_ONCE)
    for part in range(parts):
        own = partial(_hashes, parts=parts, part=part)
        hashes = np.concatenate(list(in_parallel(shards[0].place, own, shards)))
        hashes.sort()
        again = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        seen: dict[Any, tuple[str, int]] = {}
        for shard in shards if len(again) else ():
            ids, labels = _ids(shard), shard.array("labels.npy")
            for row in np.flatnonzero(np.isin(_hashed(ids), again)).tolist():
                name, found = _plain(ids, row), (shard.name, int(labels[row]))
                if name in seen:
                    _refuse(name, seen[name], found)
                seen[name] = found


def _refuse(name: Any, one: tuple[str, int], other: tuple[str, int]) -> None:
    labelled = "" if one[1] == other[1] else f", with the labels {one[1]} and {other[1]}"
    raise StoreError(
        f"sample {name!r} is in the shards {one[0]!r} and {other[0]!r}{labelled}; delete the duplicate shard"
    )


def _hashes(shard: ShardInfo, parts: int, part: int) -> NDArray[np.uint64]:
    """Those of the hashes of a shard that belong to one of several parts."""
    hashes = _hashed(_ids(shard))
    return hashes if parts == 1 else hashes[hashes % np.uint64(parts) == part]


def _hashed(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """Hashes (n,) of ids, the same for every length of text and every type of number."""
    import pandas as pd

    same = ids if ids.dtype.kind in "US" else ids.astype(np.float64 if ids.dtype.kind == "f" else np.int64)
    return np.asarray(pd.util.hash_array(same), dtype=np.uint64)


def _ids(shard: ShardInfo) -> NDArray[Any]:
    ids = shard.array("ids.npy")
    if ids.shape != (shard.samples,):
        raise StoreError(f"shard {shard.name!r} is damaged: it has {len(ids)} ids for {shard.samples} samples")
    return ids


def _plain(ids: NDArray[Any], position: int) -> Any:
    return ids[position].item()
