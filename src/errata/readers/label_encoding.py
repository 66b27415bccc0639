"""Labels of any type as class numbers, and sample ids."""

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

Rows = NDArray[np.int64]

MAX_LEVELS = 50  # fractions with more distinct values are a measured quantity, not classes
MIN_PER_LEVEL = 5  # so are whole floats with more distinct values than that and fewer samples per value
MAX_SMALL_CLASSES = 1000  # more classes with fewer than two samples on average are names or ids
LOOKS_MISSING = frozenset({"na", "n/a", "nan", "none", "null", "nil", "unknown", "?", "-"})


@dataclass(frozen=True, eq=False)
class EncodedLabels:
    """The labels of the rows that have one.

    rows (N,): the rows of the source. labels (N,): class numbers. classes (K,): the values in the source, sorted:
    numbers by value, text alphabetically, mixed types by their text.
    """

    rows: Rows
    labels: NDArray[np.int64]
    classes: tuple[Any, ...]
    remarks: tuple[str, ...]


def encode_labels(values: Any, where: str, among: Rows | None = None) -> EncodedLabels:
    """Encode labels (n,) of any type. where: how messages name them, for example `column 'species'`.

    among: the rows to use, None for all. A class with one sample stays: it can be trained on, but not held out.
    """
    import pandas as pd

    series = as_series(values, where)
    _check_scalars(series, where)
    used = np.arange(len(series)) if among is None else among
    rows = used[~is_missing(series)[used]]
    if not len(rows):
        raise InputError(f"{where} is empty: no row has a label" if len(series) else f"{where} has no rows")
    series = series.iloc[rows]
    codes, distinct = pd.factorize(series)
    equal = _equal_values(series)
    values = [equal[value][0] if value in equal else value for value in map(_python_value, distinct)]
    classes = _sorted(values)
    number = {value: place for place, value in enumerate(classes)}
    labels = np.array([number[value] for value in values], dtype=np.int64)[codes]
    counts = np.bincount(labels, minlength=len(classes))
    _check_classes(classes, counts, where)
    unlabelled = len(used) - len(rows)
    remarks = [*_equal_remarks(list(equal.values())), *class_remarks(classes, counts)]
    if unlabelled:
        verb = "is" if unlabelled == 1 else "are"
        remarks.insert(0, f"{counted(unlabelled, 'row has', 'rows have')} no label and {verb} left out")
    return EncodedLabels(rows, labels, tuple(classes), tuple(remarks))


def as_series(values: Any, where: str) -> "pd.Series[Any]":
    """Labels or ids as a series with rows numbered from 0; a list keeps the type of each item."""
    import pandas as pd

    if isinstance(values, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return pd.Series(values).reset_index(drop=True)
    if hasattr(values, "to_list"):  # a polars series
        values = values.to_list()
    if isinstance(values, list | tuple):
        return pd.Series(_decoded(values, where), dtype=object)
    array = plain_array(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind in "cV":
        kind = "records of several fields; pass one of the fields" if array.dtype.names else array.dtype
        raise InputError(f"{where} must be numbers or text, not {kind}")
    if array.ndim != 1:
        raise InputError(f"{where} must have one value per row, not shape {array.shape}. For one-hot, use the argmax")
    if array.dtype.kind == "S":
        array = np.array(_decoded(array.tolist(), where))
    return pd.Series(array.astype(object) if array.dtype.kind == "U" else array)


def plain_array(values: Any) -> NDArray[Any]:
    """Any array-like as a numpy array in the byte order of the machine; numbers of more than 64 bits as float64."""
    array = as_numpy(values)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # infinite numbers are refused later
            return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def is_missing(series: "pd.Series[Any]") -> NDArray[np.bool_]:
    """Mask (n,) of missing values and blank text."""
    missing = series.isna().to_numpy(dtype=np.bool_)
    if series.dtype.kind == "O" or series.dtype == "string":
        blank = [isinstance(value, str) and not value.strip() for value in series.tolist()]
        missing = missing | np.array(blank, dtype=np.bool_)
    return missing


def sample_ids(values: Any | None, where: str, rows: Rows, hint: str = "") -> NDArray[Any]:
    """Ids (N,) of the labelled rows, as numbers or text. values: one per row of the source; None for row numbers.

    where: how messages name the values. hint: what to do if an id is missing or occurs twice.
    """
    import pandas as pd

    if values is None:
        return rows
    series = as_series(values, where)
    _check_scalars(series, where)
    series = series.iloc[rows]
    missing = is_missing(series)
    if missing.any():
        raise InputError(f"{where} has no id in row {rows[np.argmax(missing)]}{hint}")
    names = [_python_value(value) for value in series.tolist()]
    whole = all(isinstance(name, int) and not isinstance(name, bool) and abs(name) < 2**63 for name in names)
    ids = np.array(names, dtype=np.int64) if whole else np.array([str(name) for name in names])
    repeated = pd.Series(ids).duplicated().to_numpy()
    if repeated.any():
        second = int(np.argmax(repeated))
        first = int(np.argmax(ids == ids[second]))
        twice = f"has the id {ids[second].item()!r} twice, in rows {rows[first]} and {rows[second]}"
        raise InputError(f"{where} {twice}{hint}")
    return ids


def _decoded(values: Sequence[Any], where: str) -> list[Any]:
    """Values with bytes decoded to text."""
    try:
        return [value.decode("utf-8") if isinstance(value, bytes) else value for value in values]
    except UnicodeDecodeError as error:
        row = next(row for row, value in enumerate(values) if value is error.object)
        raise InputError(f"{where} has bytes in row {row} that are not UTF-8. Decode them to text first") from error


def _check_scalars(series: "pd.Series[Any]", where: str) -> None:
    if series.dtype != object:
        return
    for row, value in enumerate(series.tolist()):
        if isinstance(value, list | dict | set | np.ndarray):
            raise InputError(f"{where} must have one value per row, but row {row} holds {value!r}")


def _python_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _equal_values(series: "pd.Series[Any]") -> dict[Any, list[Any]]:
    """Labels of several types that are equal, such as 1, 1.0 and True; the whole number comes first."""
    if series.dtype != object:
        return {}
    by_type: dict[Any, dict[type, Any]] = defaultdict(dict)
    for value in map(_python_value, series):
        by_type[value][type(value)] = value
    equal = {value: list(types.values()) for value, types in by_type.items() if len(types) > 1}
    return {value: sorted(same, key=lambda one: (type(one) is not int, str(one))) for value, same in equal.items()}


def _equal_remarks(equal: Sequence[Sequence[Any]]) -> list[str]:
    if not equal:
        return []
    more = f"; so are labels of {counted(len(equal) - 1, 'other class', 'other classes')}" if len(equal) > 1 else ""
    return [f"the labels {listed(equal[0])} are equal and count as one class, {equal[0][0]!r}{more}"]


def _sorted(values: Sequence[Any]) -> list[Any]:
    if all(isinstance(value, numbers.Real) for value in values) or all(isinstance(value, str) for value in values):
        return sorted(values)
    return sorted(values, key=lambda value: (str(value), type(value).__name__))


def _check_classes(classes: Sequence[Any], counts: NDArray[np.int64], where: str) -> None:
    """Raise an error if there is one class only, or if the values look like ids or a measured quantity."""
    samples, distinct = int(counts.sum()), len(classes)
    if distinct == 1:
        only = f"all {samples:,} labels are" if samples > 1 else "the only label is"
        raise InputError(f"{where} has one class ({only} {classes[0]!r}). At least two are needed")
    found = f"{where} has {distinct:,} different values in {samples:,} rows"
    if counts.max() == 1:
        raise InputError(f"{found}: no two samples have the same label, so it is an id or a quantity, not a label")
    if all(isinstance(value, float) for value in classes):
        fractions = not all(value.is_integer() for value in classes)
        many = distinct > MAX_LEVELS and (fractions or samples < MIN_PER_LEVEL * distinct)
        if many or (fractions and 2 * distinct > samples):
            raise InputError(f"{found}. It looks like a measured quantity, not a label")
    if distinct > MAX_SMALL_CLASSES and samples < 2 * distinct:
        raise InputError(f"{found}, fewer than two samples per class. It looks like an id, not a label")


def class_remarks(classes: Sequence[Any], counts: NDArray[np.int64]) -> list[str]:
    """What may be wrong with the classes. counts (K,): their samples."""
    remarks = []
    single = [name for name, count in zip(classes, counts.tolist(), strict=True) if count == 1]
    if single:
        have = "class {} has a single sample" if len(single) == 1 else "classes {} have a single sample each"
        remarks.append(f"{have.format(listed(single))}: a model is trained on it, but it cannot be held out")
    spellings: dict[str | Decimal, list[Any]] = defaultdict(list)
    for name in classes:
        spellings[spelling(name)].append(name)
    remarks += [
        f"classes {listed(names)} differ only in spaces, capitals, type or the spelling of a number, "
        f"and count as {len(names)} classes (one with --merge-labels, in Python merge_labels=True)"
        for names in spellings.values()
        if len(names) > 1
    ]
    odd = [name for name in classes if isinstance(name, str) and name.strip().casefold() in LOOKS_MISSING]
    return [*remarks, *(f"the label {name!r} counts as a class, not as a missing label" for name in odd)]


def spelling(name: Any) -> str | Decimal:
    """A class without spaces and capitals, or as a number."""
    text = "".join(str(name).split()).casefold()
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text
