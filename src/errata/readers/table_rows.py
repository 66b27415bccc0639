"""A data frame with a column of labels as a user's own data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.readers.columns import ENOUGH_ROWS, Column, column_remarks, inspect_columns
from errata.readers.features import FrameFeatures
from errata.readers.label_encoding import Encoded, encode_labels, sample_ids
from errata.readers.numerals import with_numerals
from errata.readers.user_data import UserData
from errata.wording import listed, nearest

if TYPE_CHECKING:
    import pandas as pd

LIKELY_LABELS = ("label", "labels", "class", "target", "y", "category", "outcome", "species", "type")
MOST_LIKELY_CLASSES = 100
NAMED_COLUMNS = 20


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """A table with plainly named columns, whose labels and ids are known.

    taken: the columns that hold them, and as what. ids (N,): of the rows that have a label. remarks: about names.
    """

    frame: "pd.DataFrame"
    taken: dict[str, str]
    encoded: Encoded
    ids: NDArray[Any]
    remarks: tuple[str, ...]


def labelled_rows(
    frame: "pd.DataFrame",
    label: Any,
    id: Any,  # noqa: A002
    origin: str,
    among: NDArray[np.int64] | None = None,
) -> LabelledRows:
    """The labels and ids of a table, whatever else it holds.

    origin: what messages call it. among: the only rows that count, None for all.
    """
    frame, renamed = _plainly_named(frame)
    if not len(frame) or not len(frame.columns):
        raise InputError(f"{origin} has no {'columns' if len(frame) else 'rows'}")
    if label is None:
        raise InputError(f"say which column of {origin} holds the labels{_suggested(frame)}")
    taken: dict[str, str] = {}
    labels, where = _taken(frame, label, "label", origin, taken)
    encoded = encode_labels(labels, where, among)
    id_values, id_where = (None, "") if id is None else _taken(frame, id, "id", origin, taken)
    return LabelledRows(frame, taken, encoded, sample_ids(id_values, encoded.rows, id_where), tuple(renamed))


def from_frame(
    frame: "pd.DataFrame",
    label: Any,
    text: str | Sequence[str] | None,
    id: Any,  # noqa: A002
    *,
    origin: str = "the table",
    remarks: Sequence[str] = (),
    decimal_comma: bool = False,
) -> UserData:
    """A data frame whose labels are one of its columns, or given beside it.

    origin: what messages call the table. remarks: what was said when it was read. decimal_comma: whether
    `1,5` in it may be a number.
    """
    rows = labelled_rows(frame, label, id, origin)
    frame, taken, encoded = rows.frame, rows.taken, rows.encoded
    texts = [_find(frame, name, origin, "text") for name in ([text] if is_name(text) else text or ())]
    for name in texts:
        if name in taken:
            raise InputError(f"column {name!r} cannot be both the {taken[name]} and text")
    inputs = frame.drop(columns=[name for name, role in taken.items() if role == "label"])
    if len(encoded.rows) < len(frame):
        inputs = inputs.iloc[encoded.rows].reset_index(drop=True)
    ids = [name for name, role in taken.items() if role == "id"]
    inputs, numerals = with_numerals(inputs, {*texts, *ids}, decimal_comma)
    columns = _columns(inputs, texts, ids, encoded)
    used = [column for column in columns if column.treatment != "left out"]
    if not used:
        said = _understood(columns) + _text_hint(inputs, columns)
        raise InputError(f"{origin} has nothing to learn from beside the labels: {said}")
    return UserData(
        kind="text" if all(column.treatment == "text" for column in used) else "table",
        inputs=inputs,
        labels=encoded.labels,
        classes=encoded.classes,
        ids=rows.ids,
        rows=encoded.rows,
        columns={**taken, **{column.name: str(column) for column in columns}},
        remarks=(*remarks, *rows.remarks, *encoded.remarks, *numerals, *column_remarks(columns, inputs)),
        fit_features=FrameFeatures(inputs, columns),
    )


def is_name(value: Any) -> bool:
    """Whether a value names something, rather than being an array of values itself."""
    if value is None or isinstance(value, list | tuple):
        return False
    return isinstance(value, str | Path | int | float) or np.ndim(value) == 0


def _taken(frame: "pd.DataFrame", given: Any, role: str, origin: str, taken: dict[str, str]) -> tuple[Any, str]:
    """The labels or ids, from a column that is then `taken`, or as they were given; and what messages call them."""
    if not is_name(given):
        if len(given) != len(frame):
            raise InputError(f"there are {len(given):,} {role}s for the {len(frame):,} rows of {origin}")
        return given, f"the list of {role}s"
    name = _find(frame, given, origin, role)
    if name in taken:
        raise InputError(f"column {name!r} cannot be both the {taken[name]} and the {role}")
    taken[name] = role
    return frame[name], f"column {name!r} of {origin}"


def _find(frame: "pd.DataFrame", name: Any, origin: str, role: str) -> str:
    known = list(frame.columns)
    if str(name) in known:
        return str(name)
    near = nearest(str(name), known)
    hint = f"did you mean {near!r}?" if near else f"there are {listed(known, NAMED_COLUMNS)}"
    headless = all(_is_number(other) for other in known)
    first = " (the first line of a file names its columns)" if headless else ""
    raise InputError(f"{origin} has no column {str(name)!r} for the {role}; {hint}{first}")


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _suggested(frame: "pd.DataFrame") -> str:
    """The column that most likely holds the labels: one named so, else the last with few values."""
    folded = {name.casefold(): name for name in reversed(frame.columns)}
    named = [folded[name] for name in LIKELY_LABELS if name in folded]
    for name in (*named, *reversed(frame.columns)):
        values = frame[name].dropna()
        if 2 <= len({str(value) for value in values.head(10_000)}) <= min(MOST_LIKELY_CLASSES, len(frame) // 2):
            return f"; {name!r} looks like it"
    return f"; there are {listed(frame.columns, NAMED_COLUMNS)}"


def _columns(inputs: "pd.DataFrame", texts: Sequence[str], ids: Sequence[str], encoded: Encoded) -> tuple[Column, ...]:
    """How every column but that of the ids is treated."""
    columns = inspect_columns(inputs.drop(columns=list(ids)), texts)
    return tuple(
        Column(column.name, "left out", "like the label") if _copies_label(inputs, column, encoded) else column
        for column in columns
    )


def _copies_label(inputs: "pd.DataFrame", column: Column, encoded: Encoded) -> bool:
    """Whether a column has one value for each class and no other: the label in other words, errors included."""
    import pandas as pd

    if column.treatment not in ("category", "number", "yes/no") or encoded.rows.size < ENOUGH_ROWS:
        return False
    codes, values = pd.factorize(inputs[column.name])
    if len(values) != len(encoded.classes) or (codes < 0).any():
        return False
    return len(np.unique(codes * len(values) + encoded.labels)) == len(values)


def _plainly_named(frame: "pd.DataFrame") -> tuple["pd.DataFrame", list[str]]:
    """The table with rows numbered from 0 and every column named by a text of its own."""
    names, remarks = plain_names(frame.columns)
    return frame.set_axis(names, axis=1).reset_index(drop=True), remarks


def plain_names(given: Iterable[Any]) -> tuple[list[str], list[str]]:
    """A text of its own for every column, in their order, and remarks on those that are called otherwise."""
    names: list[str] = []
    remarks = []
    for name in given:
        plain = own = str(name) or "unnamed"
        again = 0
        while own in names:
            again += 1
            own = f"{plain}.{again}"
        if again:
            remarks.append(f"another column is named {plain!r} too: it is called {own!r}")
        names.append(own)
    return names, remarks


def _understood(columns: Sequence[Column]) -> str:
    said = [f"column {column.name!r} is {column}" for column in columns[:NAMED_COLUMNS]]
    return "; ".join(said) or "it has no other column"


def _text_hint(inputs: "pd.DataFrame", columns: Sequence[Column]) -> str:
    """Words that differ in every row look like ids, and may be text all the same."""
    words = [column.name for column in columns if column.note == "like an id" and inputs[column.name].dtype.kind == "O"]
    return f"; if {words[0]!r} is text to learn from, say so by --text {words[0]}" if words else ""
