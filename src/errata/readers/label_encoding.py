"""Given labels of any type as class numbers, and the ids of samples."""

import numbers
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.errors import InputError
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd

Labels = NDArray[np.int64]
Rows = NDArray[np.int64]

MOST_LEVELS = 50  # fractions with more different values than this are measured, not classes
FEW_A_LEVEL = 5  # so are whole floats with more different values than that, and fewer samples for each than this
MOST_LONE_CLASSES = 1000  # more classes than this, with fewer than two samples each on average, are names or ids
LOOKS_MISSING = frozenset({"na", "n/a", "nan", "none", "null", "nil", "unknown", "?", "-"})


@dataclass(frozen=True, eq=False)
class Encoded:
    """Labels of the rows that have one.

    rows (N,): which rows of the source these are. labels (N,): class numbers. classes: the values as given, numbers by
    value, text by text, anything else by its text.
    """

    rows: Rows
    labels: Labels
    classes: tuple[Any, ...]
    remarks: tuple[str, ...]


def encode_labels(values: Any, where: str, among: Rows | None = None) -> Encoded:
    """Class numbers of labels (n,) of any type; `where` names them in messages, as in `column 'species'`.

    among: the only rows that count, None for all.
    A class with one sample is kept, with a remark: a model can be trained on it, though nothing can be held out of it.
    """
    import pandas as pd

    series = as_series(values, where)
    _refuse_nested(series, where)
    there = np.arange(len(series)) if among is None else among
    labelled = ~is_missing(series)
    rows = there[labelled[there]]
    if not len(rows):
        raise InputError(f"{where} is empty: no row has a label" if len(series) else f"{where} has no rows")
    series = series.iloc[rows]
    codes, different = pd.factorize(series)
    equal = _equal_of_several_types(series)
    found = [equal[value][0] if value in equal else value for value in map(_plain, different)]
    classes = _in_order(found)
    place = {value: number for number, value in enumerate(classes)}
    labels = np.array([place[value] for value in found], dtype=np.int64)[codes]
    counts = np.bincount(labels, minlength=len(classes))
    _refuse_what_is_no_class(classes, counts, where)
    remarks = (*_left_out(len(there) - len(rows)), *_merged(list(equal.values())), *_remarks(classes, counts))
    return Encoded(rows, labels, tuple(classes), remarks)


def as_series(values: Any, where: str) -> "pd.Series[Any]":
    """Labels or ids as a series numbered from 0; a list keeps the type of each item."""
    import pandas as pd

    if isinstance(values, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return pd.Series(values).reset_index(drop=True)
    if hasattr(values, "to_list"):  # a series of polars
        values = values.to_list()
    if isinstance(values, list | tuple):
        return pd.Series(_decoded(values, where), dtype=object)
    array = as_numpy(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{where} must have one value a row, not shape {array.shape}; from one-hot take the argmax")
    if array.dtype.kind == "S":
        array = np.array(_decoded(array.tolist(), where))
    return pd.Series(array.astype(object) if array.dtype.kind == "U" else array)


def _decoded(values: Sequence[Any], where: str) -> list[Any]:
    """Values with bytes as the text that they are."""
    try:
        return [value.decode("utf-8") if isinstance(value, bytes) else value for value in values]
    except UnicodeDecodeError as error:
        row = next(row for row, value in enumerate(values) if value is error.object)
        raise InputError(f"{where} has bytes in row {row} that are not UTF-8: decode them to text first") from error


def is_missing(series: "pd.Series[Any]") -> NDArray[np.bool_]:
    """Where (n,) there is no value, or text of nothing but spaces."""
    missing = series.isna().to_numpy(dtype=np.bool_)
    if series.dtype.kind == "O" or series.dtype == "string":
        blank = [isinstance(value, str) and not value.strip() for value in series.tolist()]
        missing = missing | np.array(blank, dtype=np.bool_)
    return missing


def sample_ids(values: Any | None, rows: Rows, where: str) -> NDArray[Any]:
    """Ids (N,) of the kept rows, numbers or text: their row numbers, or the values given for all rows."""
    import pandas as pd

    if values is None:
        return rows
    series = as_series(values, where)
    _refuse_nested(series, where)
    series = series.iloc[rows]
    missing = is_missing(series)
    if missing.any():
        raise InputError(f"{where} has no id in row {rows[np.argmax(missing)]}")
    names = [_plain(value) for value in series.tolist()]
    whole = all(isinstance(name, int) and not isinstance(name, bool) and abs(name) < 2**63 for name in names)
    ids = np.array(names, dtype=np.int64) if whole else np.array([str(name) for name in names])
    again = pd.Series(ids).duplicated().to_numpy()
    if again.any():
        second = int(np.argmax(again))
        first = int(np.argmax(ids == ids[second]))
        raise InputError(f"{where} has the id {ids[second].item()!r} twice, in rows {rows[first]} and {rows[second]}")
    return ids


def _refuse_nested(series: "pd.Series[Any]", where: str) -> None:
    if series.dtype != object:
        return
    for row, value in enumerate(series.tolist()):
        if isinstance(value, list | dict | set | np.ndarray):
            raise InputError(f"{where} must have one value a row, but row {row} holds {value!r}")


def _left_out(rows: int) -> list[str]:
    if not rows:
        return []
    return [f"{counted(rows, 'row has', 'rows have')} no label and {'is' if rows == 1 else 'are'} left out"]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _equal_of_several_types(series: "pd.Series[Any]") -> dict[Any, list[Any]]:
    """Labels such as 1, 1.0 and True, by what they equal; the whole number comes first."""
    if series.dtype != object:
        return {}
    alike: dict[Any, dict[type, Any]] = defaultdict(dict)
    for value in map(_plain, series):
        alike[value][type(value)] = value
    several = {value: list(by_type.values()) for value, by_type in alike.items() if len(by_type) > 1}
    return {value: sorted(same, key=lambda one: (type(one) is not int, str(one))) for value, same in several.items()}


def _merged(equal: Sequence[Sequence[Any]]) -> list[str]:
    if not equal:
        return []
    more = f"; so do labels of {counted(len(equal) - 1, 'other class', 'other classes')}" if len(equal) > 1 else ""
    return [f"the labels {listed(equal[0])} are equal, and count as the one class {equal[0][0]!r}{more}"]


def _in_order(values: Sequence[Any]) -> list[Any]:
    if all(isinstance(value, numbers.Real) for value in values) or all(isinstance(value, str) for value in values):
        return sorted(values)
    return sorted(values, key=lambda value: (str(value), type(value).__name__))


def _refuse_what_is_no_class(classes: Sequence[Any], counts: NDArray[np.int64], where: str) -> None:
    samples, kinds = int(counts.sum()), len(classes)
    if kinds == 1:
        alone = f"all {samples:,} labels are" if samples > 1 else "the only label is"
        raise InputError(f"{where} has one class ({alone} {classes[0]!r}), and label errors need at least two")
    different = f"{where} has {kinds:,} different values in {samples:,} rows"
    if counts.max() == 1:
        raise InputError(f"{different}: no two samples share a class, so it is an id or a quantity, not a label")
    if all(isinstance(value, float) for value in classes):
        fractions = not all(value.is_integer() for value in classes)
        many = kinds > MOST_LEVELS and (fractions or samples < FEW_A_LEVEL * kinds)
        if many or (fractions and 2 * kinds > samples):
            raise InputError(f"{different}, like a measured quantity: label errors are found in classes")
    if kinds > MOST_LONE_CLASSES and samples < 2 * kinds:
        raise InputError(f"{different}, fewer than two samples a class: it looks like an id, not a label")


def _remarks(classes: Sequence[Any], counts: NDArray[np.int64]) -> list[str]:
    remarks = []
    lone = [name for name, count in zip(classes, counts.tolist(), strict=True) if count == 1]
    if lone:
        have = "class {} has a single sample" if len(lone) == 1 else "classes {} have a single sample each"
        remarks.append(f"{have.format(listed(lone))}: it is trained on, but there is nothing to compare it with")
    alike: dict[str | Decimal, list[Any]] = defaultdict(list)
    for name in classes:
        alike[_spelled(name)].append(name)
    remarks += [
        f"classes {listed(names)} differ only in spaces, capitals, type or the spelling of a number, "
        f"and count as {len(names)} classes"
        for names in alike.values()
        if len(names) > 1
    ]
    odd = [name for name in classes if isinstance(name, str) and name.strip().casefold() in LOOKS_MISSING]
    return [*remarks, *(f"the label {name!r} counts as a class, not as a missing label" for name in odd)]


def _spelled(name: Any) -> str | Decimal:
    """A class but for spaces and capitals, or the number that it is."""
    text = "".join(str(name).split()).casefold()
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text
