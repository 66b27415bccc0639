"""Dynamics that were recorded before: what can be asked of them, and the data that their samples are."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.store import Dynamics
from errata.errors import ErrataError, InputError, StoreError
from errata.finding.found import DYNAMICS, SUMMARY, read_summary
from errata.finding.model_training import FindOptions, changed_options
from errata.finding.sources import Named, open_source
from errata.readers import UserData
from errata.report.training_curves import rows_of

Spelled = Callable[[str], str]


@dataclass(frozen=True, eq=False)
class Recorded:
    """Dynamics and the data that their samples are, as far as these are at hand.

    named: where the data can be read again. settings: what the run was made with, where find itself has made it.
    """

    dynamics: Dynamics
    data: UserData | None = None
    named: Named | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def as_option(name: str) -> str:
    """A parameter as the command line has it."""
    return f"--{name.replace('_', '-')}"


def about_data(source: Any, label: Any, text: Any, id: Any, skip_bad: bool) -> dict[str, Any]:  # noqa: A002
    """What is said of the data that dynamics are of; the labels of a .npy file of logits are its own."""
    own = isinstance(source, str | Path) and Path(source).suffix.lower() == ".npy"
    return {"label": None if own else label, "text": text, "id": id, "skip_bad": skip_bad}


def refuse_unused(source: Any, wanted: FindOptions, said: Mapping[str, Any], spelled: Spelled = str) -> None:
    """Refuse what would have no effect on dynamics: wishes for a training, and words about data that are not given."""
    there = f"{source} is" if isinstance(source, str | Path) else "dynamics are"
    are = "as it is" if isinstance(source, str | Path) else "as they are"
    training = [spelled(name) for name in changed_options(asdict(wanted))]
    if training:
        raise InputError(f"{_together(training)} for a model that is trained, and {there} ranked {are}")
    unused = [spelled(name) for name, value in said.items() if value is not None and value is not False]
    if unused:
        raise InputError(
            f"{_together(unused)} for data that hold samples, and {there} ranked {are}: "
            f"give the data too, with {spelled('data')}"
        )


def recorded(
    source: Any, dynamics: Dynamics, wanted: FindOptions, data: Any, said: dict[str, Any], spelled: Spelled = str
) -> Recorded:
    """The dynamics with the data that are given, or that find itself has learned them from."""
    refuse_unused(source, wanted, said if data is None else {}, spelled)
    return of_earlier_run(dynamics) if data is None else with_data(dynamics, data, **said)


def with_data(dynamics: Dynamics, given: Any, label: Any, text: Any, id: Any, skip_bad: bool) -> Recorded:  # noqa: A002
    """The dynamics with the data that their samples are, found by id, or by row where the ids are numbers.

    Arrays and data frames need no label: that of every sample is known.
    """
    if label is None and not isinstance(given, str | Path | tuple | Mapping):
        label = _recorded_labels(dynamics, given, id)
    opened = open_source(given, label, text, id, skip_bad)
    if not isinstance(opened, UserData):
        raise InputError(f"{given} holds what a model said of samples, not the samples themselves")
    return replace(attached(dynamics, opened), named=Named.of(given, label, text, id, skip_bad))


def of_earlier_run(dynamics: Dynamics) -> Recorded:
    """The dynamics that find has written, with the data they were learned from, if these are there unchanged."""
    path = Path() if dynamics.path is None else dynamics.path.resolve()
    folder = path.parent
    if path.name != DYNAMICS or not (folder / SUMMARY).is_file():
        return Recorded(dynamics)
    try:
        summary = read_summary(folder)
        named = Named.recalled(summary, folder)
        data = None if named is None else named.open()
        if not isinstance(data, UserData):
            return Recorded(dynamics)
        return replace(attached(dynamics, data), named=named, settings=summary.get("settings", {}))
    except ErrataError:
        return Recorded(dynamics)


def refuse_to_lose_contents(out: Path) -> None:
    """Refuse to put a report of ids in the place of one that shows samples."""
    if (out / SUMMARY).is_file() and read_summary(out).get("kind") != "dynamics":
        raise StoreError(
            f"{out} holds a report that shows its samples, and here there are ids alone: "
            "name the samples with --data, or another folder with --out"
        )


def attached(dynamics: Dynamics, data: UserData) -> Recorded:
    """The dynamics under the ids, and by the class names, that the data have; what does not go together is refused."""
    ids = data.ids
    numbered = dynamics.ids.dtype.kind in "iu" and ids.dtype.kind not in "iu"
    if numbered and not np.isin(dynamics.ids.astype(str), ids.astype(str)).all():
        ids = data.rows
    _refuse_missing(dynamics, ids)
    places = rows_of(ids, dynamics.ids)
    classes = _class_names(dynamics, data, places)
    if ids is data.ids and classes is dynamics.classes:
        return Recorded(dynamics, data)
    return Recorded(replace(dynamics, ids=data.ids[places], classes=classes, path=None), data)


def _refuse_missing(dynamics: Dynamics, ids: NDArray[Any]) -> None:
    missing = dynamics.ids[~np.isin(dynamics.ids.astype(str), ids.astype(str))]
    if len(missing):
        raise InputError(
            f"{len(missing):,} of {dynamics.samples:,} samples of the dynamics are not in the data, such as "
            f"{_first(missing)!r}; the ids there are such as {_first(ids)!r}: give the data that were trained on, and "
            "as id what the recorder was given as ids"
        )


def _recorded_labels(dynamics: Dynamics, given: Any, id: Any) -> list[Any]:  # noqa: A002
    """The label of each row of the data, None of those that were not recorded."""
    ids = np.arange(_length(given)) if id is None else id
    if isinstance(id, str):
        if id not in getattr(given, "columns", ()):
            raise InputError(f"the data have no column {id!r} for the id")
        ids = given[id]
    _refuse_missing(dynamics, np.asarray(ids))
    labels = {
        str(name): dynamics.class_name(label)
        for name, label in zip(dynamics.ids.tolist(), dynamics.labels.tolist(), strict=True)
    }
    return [labels.get(str(name)) for name in np.asarray(ids).tolist()]


def _length(given: Any) -> int:
    shape = getattr(given, "shape", None)
    if shape is None and not hasattr(given, "__len__"):
        raise InputError(f"data must be rows, one a sample, or a path, not one {type(given).__name__}")
    length = int(shape[0]) if shape else len(given)
    if not length:
        raise InputError("the data have no rows")
    return length


def _class_names(dynamics: Dynamics, data: UserData, places: NDArray[np.int64]) -> tuple[Any, ...] | None:
    """The names of the classes; where only their numbers were recorded, those that they have in the data."""
    names = [str(dynamics.class_name(number)) for number in range(dynamics.num_classes)]
    given = data.labels[places]
    same = {str(value): number for number, value in enumerate(data.classes)}
    if all(names[number] in same for number in np.unique(dynamics.labels).tolist()):
        expected = np.array([same.get(name, -1) for name in names])[dynamics.labels]
        _refuse_other_labels(dynamics, data, given, expected)
        return dynamics.classes
    first = np.full(data.num_classes, -1)
    first[given[::-1]] = dynamics.labels[::-1]  # the class that the first sample of each was recorded with
    _refuse_other_labels(dynamics, data, dynamics.labels, first[given])
    seen = np.unique(first[first >= 0])
    one_to_one = len(seen) == (first >= 0).sum() == dynamics.num_classes
    if dynamics.classes is not None or not one_to_one:
        return dynamics.classes
    return tuple(data.classes[int(np.flatnonzero(first == number)[0])] for number in range(dynamics.num_classes))


def _refuse_other_labels(
    dynamics: Dynamics, data: UserData, given: NDArray[np.int64], expected: NDArray[np.int64]
) -> None:
    """Refuse data in which samples have other labels than were recorded: probably they are other samples."""
    differ = np.flatnonzero(given != expected)
    if len(differ):
        row = int(differ[0])
        raise InputError(
            f"{len(differ):,} of {dynamics.samples:,} samples have another label in the data than in the dynamics, "
            f"such as {_first(dynamics.ids[row:])!r}, which was {dynamics.class_name(dynamics.labels[row])!r}: "
            "are the rows in another order, or do the ids name other samples?"
        )


def _first(ids: NDArray[Any]) -> Any:
    return ids[:1].tolist()[0]


def _together(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]} are" if len(names) > 1 else f"{names[0]} is"
