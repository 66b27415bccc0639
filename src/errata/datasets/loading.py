"""Load a dataset: find its files, read, verify and prepare them, or take what was prepared before."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from errata.datasets.cache import Kept, PreparedCache
from errata.datasets.registry import dataset
from errata.datasets.spec import Content, Dataset, Prepared, Raw
from errata.datasets.where import Found, data_dir, locate
from errata.errors import DataError, ErrataError
from errata.readers.hashing import array_hash, content_hash


def load(name: str, folder: str | Path | None = None) -> Prepared:
    """The prepared dataset of that name, from `folder`, else $ERRATA_DATA, else the user's cache folder."""
    return _load(dataset(name), data_dir(folder))


def read_verified(dataset: Dataset, found: Found) -> Raw:
    """What the files hold; content that claims to be complete and is not the official one is refused."""
    raw = found.source.read(found.paths)
    if found.source.complete and raw.complete:
        for name, expected in dataset.hashes.items():
            actual = array_hash(raw.arrays[name])
            if actual != expected:
                where = found.paths[0] if len(found.paths) == 1 else f"the data in {found.place}"
                raise DataError(
                    f"{where} is not the official {dataset.name}: the hash of {name} is {actual[:12]}..., "
                    f"not {expected[:12]}..."
                )
    return raw


def presence(dataset: Dataset, folder: Path) -> tuple[str, Prepared | None]:
    """Whether a dataset is there: yes, in part or no; and the data where it can be loaded."""
    try:
        data = _load(dataset, folder)
    except ErrataError:
        return "no", None
    return "yes" if data.complete else "in part", data


def _load(dataset: Dataset, folder: Path) -> Prepared:
    base = load(dataset.inputs_from, folder) if dataset.inputs_from else None
    found = locate(dataset, folder)
    stamp: list[Any] = [found.stamp(), base.content_hash if base else ""]
    cache = PreparedCache(dataset.name)
    kept = cache.find(stamp)
    if kept is None:
        raw = read_verified(dataset, found)
        made = dataset.prepare(raw, base)
        kept = cache.save(stamp, Kept(made.arrays, content_hash(raw.arrays), _about(found, raw, made)))
    return _prepared(dataset, found, base, kept)


def _about(found: Found, raw: Raw, made: Content) -> dict[str, Any]:
    said = (found.source.remark, *raw.remarks, *made.remarks)
    return {
        "features": list(made.features),
        "complete": found.source.complete and raw.complete,
        "remarks": [remark for remark in said if remark],
    }


def _prepared(dataset: Dataset, found: Found, base: Prepared | None, kept: Kept) -> Prepared:
    about = kept.about
    own = {field.name for field in fields(Prepared)}
    borrowed = ("train_inputs", "train_labels", "test_inputs", "test_labels")
    held: dict[str, Any] = {name: getattr(base, name) for name in borrowed} if base else {}
    held |= {name: array for name, array in kept.arrays.items() if name in own}
    columns: dict[str, dict[str, Any]] = {"given": {}, "wrong": {}}
    for name, array in kept.arrays.items():
        kind, colon, column = name.partition(":")
        if colon:
            columns[kind][column] = array
    return Prepared(
        name=dataset.name,
        kind=dataset.kind,
        classes=dataset.classes,
        features=tuple(about["features"]),
        pixels=dataset.pixels,
        root=base.root if base else found.place,
        complete=about["complete"] and (base is None or base.complete),
        remarks=(*about["remarks"], *(base.remarks if base else ())),
        content_hash=kept.content,
        given=columns["given"],
        wrong=columns["wrong"],
        **held,
    )
