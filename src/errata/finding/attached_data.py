"""Recorded dynamics and the data of their samples, matched by id and checked by label."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import DYNAMICS
from errata.dynamics.ids import match_ids
from errata.dynamics.store import Dynamics
from errata.errors import ErrataError, InputError, StoreError
from errata.finding.find_options import FindOptions, changed_options
from errata.finding.found_files import SUMMARY, read_summary
from errata.finding.model_training import RunToRank
from errata.finding.sources import DataSource
from errata.readers import UserData
from errata.readers.data_frames import frame_index


def recorded_run(dynamics: Dynamics, described: DataSource, data: Any, options: FindOptions) -> RunToRank:
    """Recorded dynamics with `data`, or with the data that `find` trained them on, or without.

    described: the source of the dynamics. Its label, text, id, ignore and skip_bad describe `data`, except that a .npy
    file of logits needs `label` for its own labels.
    """
    own_label = described.path is not None and described.path.suffix.lower() == ".npy"
    data_source = replace(described, source=data, label=None if own_label else described.label)
    _refuse_unused(described, data_source, options)
    if dynamics.num_classes < 2:
        raise InputError("these dynamics have one class; label errors need at least two")
    return earlier_run(dynamics) if data is None else _with_data(dynamics, data_source)


def _refuse_unused(described: DataSource, data_source: DataSource, options: FindOptions) -> None:
    """Refuse options that have no effect on recorded dynamics."""
    recorded = f"{described.path or 'the source'} holds recorded logits"
    training = changed_options(asdict(options))
    if training:
        raise InputError(f"{_no_effect(training)}: {recorded}, which are ranked without training")
    reading = {name: getattr(data_source, name) for name in ("label", "text", "id", "ignore", "skip_bad")}
    unused = [name for name, value in reading.items() if value is not None and value is not False]
    if unused and data_source.source is None:
        raise InputError(f"{_no_effect(unused)}: {recorded}. To show its samples, pass `data=`")


def _with_data(dynamics: Dynamics, data_source: DataSource) -> RunToRank:
    """The dynamics with the data of their samples. Arrays and data frames need no label: it is recorded."""
    given = data_source.source
    index = frame_index(given[0] if isinstance(given, tuple) else given) if data_source.id is None else None
    if index is not None:  # a recorder without ids numbers the rows
        rows = np.arange(len(index))
        data_source = replace(data_source, id=rows if np.isin(dynamics.ids, rows).all() else index)
    if data_source.label is None and not isinstance(given, str | Path | tuple | Mapping):
        data_source = replace(data_source, label=_recorded_labels(dynamics, given, data_source.id))
    opened = data_source.open()
    if not isinstance(opened, UserData):
        raise InputError(f"{given} holds logits, not the samples themselves")
    return replace(_attach(dynamics, opened), source=data_source)


def earlier_run(dynamics: Dynamics) -> RunToRank:
    """Dynamics in a folder that `find` wrote, with the data they were trained on if these are unchanged."""
    path = Path() if dynamics.path is None else dynamics.path.resolve()
    folder = path.parent
    if path.name != DYNAMICS or not (folder / SUMMARY).is_file():
        return RunToRank(dynamics)
    try:
        summary = read_summary(folder)
        source = DataSource.from_summary(summary, folder)
        data = None if source is None else source.reopen()
        if not isinstance(data, UserData):
            return RunToRank(dynamics)
        return replace(_attach(dynamics, data), source=source, settings=summary.get("settings", {}))
    except ErrataError:
        return RunToRank(dynamics)


def refuse_to_lose_contents(run: RunToRank, out: Path) -> None:
    """Refuse to replace a report that shows samples with one that shows only their ids."""
    if run.data is None and (out / SUMMARY).is_file() and read_summary(out).get("kind") != "dynamics":
        raise StoreError(
            f"the report in {out} shows its samples, and this one could show only ids: "
            "pass the data with `data=`, another folder with `out=`, or `overwrite=True`"
        )


def _attach(dynamics: Dynamics, data: UserData) -> RunToRank:
    """The dynamics with the ids and class names of the data. Data of other samples are refused."""
    ids = data.ids
    numbered = dynamics.ids.dtype.kind in "iu" and ids.dtype.kind not in "iu"
    if numbered and not np.isin(dynamics.ids.astype(str), ids.astype(str)).all():
        ids = data.rows
    _refuse_missing(dynamics, ids)
    places = match_ids(ids, dynamics.ids)
    classes = _class_names(dynamics, data, places)
    if ids is data.ids and classes is dynamics.classes:
        return RunToRank(dynamics, data)
    return RunToRank(replace(dynamics, ids=data.ids[places], classes=classes, path=None), data)


def _refuse_missing(dynamics: Dynamics, ids: NDArray[Any]) -> None:
    missing = dynamics.ids[~np.isin(dynamics.ids.astype(str), ids.astype(str))]
    if len(missing):
        raise InputError(
            f"{len(missing):,} of {dynamics.samples:,} samples of the dynamics are not in the data, such as "
            f"{_first(missing)!r}; ids in the data are such as {_first(ids)!r}. Pass the data that were trained on, "
            "and as `id=` the ids that the recorder was given"
        )


def _recorded_labels(dynamics: Dynamics, data: Any, id: Any) -> list[Any]:  # noqa: A002
    """The recorded label of each row of the data; None for rows that were not recorded."""
    ids = np.arange(_number_of_rows(data)) if id is None else id
    if isinstance(id, str):
        if id not in getattr(data, "columns", ()):
            raise InputError(f"the data have no column {id!r} for the ids")
        ids = data[id]
    _refuse_missing(dynamics, np.asarray(ids))
    labels = {
        str(name): dynamics.class_name(label)
        for name, label in zip(dynamics.ids.tolist(), dynamics.labels.tolist(), strict=True)
    }
    return [labels.get(str(name)) for name in np.asarray(ids).tolist()]


def _number_of_rows(data: Any) -> int:
    shape = getattr(data, "shape", None)
    if shape is None and not hasattr(data, "__len__"):
        raise InputError(f"`data=` must be a path or rows, one per sample, not {type(data).__name__}")
    rows = int(shape[0]) if shape else len(data)
    if not rows:
        raise InputError("the data have no rows")
    return rows


def _class_names(dynamics: Dynamics, data: UserData, places: NDArray[np.int64]) -> tuple[Any, ...] | None:
    """The names of the classes. If only class numbers were recorded, these are the names in the data."""
    names = [str(dynamics.class_name(number)) for number in range(dynamics.num_classes)]
    labels = data.labels[places]
    numbers = {str(value): number for number, value in enumerate(data.classes)}
    if all(names[number] in numbers for number in np.unique(dynamics.labels).tolist()):
        expected = np.array([numbers.get(name, -1) for name in names])[dynamics.labels]
        _refuse_other_labels(dynamics, labels, expected)
        return dynamics.classes
    recorded = np.full(data.num_classes, -1)  # (K,): the recorded class of the first sample of each class in the data
    recorded[labels[::-1]] = dynamics.labels[::-1]
    _refuse_other_labels(dynamics, dynamics.labels, recorded[labels])
    present = recorded >= 0
    one_to_one = len(np.unique(recorded[present])) == present.sum() == dynamics.num_classes
    if dynamics.classes is not None or not one_to_one:
        return dynamics.classes
    return tuple(data.classes[int(np.flatnonzero(recorded == number)[0])] for number in range(dynamics.num_classes))


def _refuse_other_labels(dynamics: Dynamics, labels: NDArray[np.int64], expected: NDArray[np.int64]) -> None:
    """Refuse data with other labels than recorded: they are probably other samples."""
    differ = np.flatnonzero(labels != expected)
    if len(differ):
        row = int(differ[0])
        raise InputError(
            f"{len(differ):,} of {dynamics.samples:,} samples have another label in the data than in the dynamics, "
            f"such as {_first(dynamics.ids[row:])!r}, recorded as {dynamics.class_name(dynamics.labels[row])!r}: "
            "are the rows in another order, or are the ids those of other samples?"
        )


def _first(ids: NDArray[Any]) -> Any:
    return ids[:1].tolist()[0]


def _no_effect(names: Collection[str]) -> str:
    """`model=` and `seed=` have no effect."""
    return f"{' and '.join(f'`{name}=`' for name in names)} {'has' if len(names) == 1 else 'have'} no effect"
