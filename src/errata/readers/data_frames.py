"""Data frames with a column of labels as user data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.readers.columns import MIN_ROWS, Column, column_remarks, inspect_columns
from errata.readers.features import FrameFeatures
from errata.readers.label_encoding import EncodedLabels, encode_labels, sample_ids
from errata.readers.number_columns import parse_number_columns
from errata.readers.user_data import UserData
from errata.wording import listed, nearest

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

LABEL_COLUMNS = ("label", "labels", "class", "target", "y", "category", "outcome", "species", "type")
MAX_SUGGESTED_CLASSES = 100
MAX_LISTED_COLUMNS = 20


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """A table with unique column names, its labels and its ids.

    roles: the columns used as label or id, by name. ids (N,): of the rows with a label. remarks: on renamed columns.
    """

    frame: "pd.DataFrame"
    roles: dict[str, str]
    encoded: EncodedLabels
    ids: NDArray[Any]
    remarks: tuple[str, ...]


def labelled_table(
    frame: "pd.DataFrame",
    label: Any,
    id: Any,  # noqa: A002
    origin: str,
    among: NDArray[np.int64] | None = None,
) -> LabelledTable:
    """Find the labels and ids of a table. origin: how messages name it. among: the rows to use, None for all."""
    names, renamed = unique_names(frame.columns)
    frame = frame.set_axis(names, axis=1).reset_index(drop=True)
    if not len(frame) or not len(frame.columns):
        raise InputError(f"{origin} has no {'columns' if len(frame) else 'rows'}")
    if label is None:
        raise InputError(f"Name the column of {origin} with the labels. {_suggestion(frame)}")
    roles: dict[str, str] = {}
    labels, where = _values(frame, label, "label", origin, roles)
    encoded = encode_labels(labels, where, among)
    id_values, id_where = (None, "") if id is None else _values(frame, id, "id", origin, roles)
    return LabelledTable(frame, roles, encoded, sample_ids(id_values, encoded.rows, id_where), tuple(renamed))


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
    """User data from a data frame. label, id: names of columns, or values (N,).

    origin: how messages name the table. remarks: of its reader. decimal_comma: whether `1,5` can be a number.
    """
    table = labelled_table(frame, label, id, origin)
    frame, roles, encoded = table.frame, table.roles, table.encoded
    texts = [_find_column(frame, name, origin, "text") for name in ([text] if is_name(text) else text or ())]
    for name in texts:
        if name in roles:
            raise InputError(f"Column {name!r} cannot be both the {roles[name]} and text")
    inputs = frame.drop(columns=[name for name, role in roles.items() if role == "label"])
    if len(encoded.rows) < len(frame):
        inputs = inputs.iloc[encoded.rows].reset_index(drop=True)
    ids = [name for name, role in roles.items() if role == "id"]
    inputs, number_remarks = parse_number_columns(inputs, {*texts, *ids}, decimal_comma)
    columns = tuple(
        Column(column.name, "left out", "like the label") if _repeats_label(inputs, column, encoded) else column
        for column in inspect_columns(inputs.drop(columns=ids), texts)
    )
    used = [column for column in columns if column.treatment != "left out"]
    if not used:
        raise InputError(f"{origin} has no column to learn from besides the labels: {_no_inputs(inputs, columns)}")
    return UserData(
        kind="text" if all(column.treatment == "text" for column in used) else "table",
        inputs=inputs,
        labels=encoded.labels,
        classes=encoded.classes,
        ids=table.ids,
        rows=encoded.rows,
        columns={**roles, **{column.name: str(column) for column in columns}},
        remarks=(*remarks, *table.remarks, *encoded.remarks, *number_remarks, *column_remarks(columns, inputs)),
        fit_features=FrameFeatures(inputs, columns),
    )


def as_frame(source: Any) -> "pd.DataFrame | None":
    """A data frame of pandas, polars or Arrow as a pandas data frame; None for anything else."""
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return source
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):  # a lazy polars frame
        source = source.collect()
    if hasattr(source, "columns") and hasattr(source, "to_arrow"):
        return frame_of(source.to_arrow())
    if type(source).__module__.startswith("pyarrow") and hasattr(source, "column_names"):
        return frame_of(source)
    converted = source.to_pandas() if hasattr(source, "to_pandas") and hasattr(source, "columns") else None
    return converted if isinstance(converted, pd.DataFrame) else None


def frame_of(table: "pa.Table") -> "pd.DataFrame":
    """An Arrow table as a data frame in which whole numbers with gaps stay whole numbers."""
    import pandas as pd
    import pyarrow as pa

    names = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    types = {getattr(pa, name.lower())(): getattr(pd, f"{name}Dtype")() for name in names}
    types[pa.bool_()] = pd.BooleanDtype()
    signed = [_with_signed_index(field) for field in table.schema]
    table = table.cast(pa.schema(signed, table.schema.metadata))
    frame: pd.DataFrame = table.to_pandas(types_mapper=types.get, date_as_object=False, ignore_metadata=True)
    return frame


def _with_signed_index(field: "pa.Field") -> "pa.Field":
    """The field of a column; categories get a signed index, because pandas before version 3 cannot hold another."""
    import pyarrow as pa

    kind = field.type
    if not pa.types.is_dictionary(kind) or not pa.types.is_unsigned_integer(kind.index_type):
        return field
    return field.with_type(pa.dictionary(pa.int64(), kind.value_type, kind.ordered))


def is_name(value: Any) -> bool:
    """Whether a value is a name or path, not an array of values."""
    if value is None or isinstance(value, list | tuple):
        return False
    return isinstance(value, str | Path | int | float) or np.ndim(value) == 0


def unique_names(columns: Iterable[Any]) -> tuple[list[str], list[str]]:
    """Unique column names as text, in order, and remarks on renamed columns."""
    names: list[str] = []
    remarks = []
    for column in columns:
        name = unique = str(column) or "unnamed"
        copies = 0
        while unique in names:
            copies += 1
            unique = f"{name}.{copies}"
        if copies:
            remarks.append(f"several columns are named {name!r}: one is renamed {unique!r}")
        names.append(unique)
    return names, remarks


def _values(frame: "pd.DataFrame", source: Any, role: str, origin: str, roles: dict[str, str]) -> tuple[Any, str]:
    """The labels or ids (n,), and how messages name them. source: a column, which is added to `roles`, or values."""
    if not is_name(source):
        if len(source) != len(frame):
            raise InputError(f"There are {len(source):,} {role}s for the {len(frame):,} rows of {origin}")
        return source, f"the list of {role}s"
    name = _find_column(frame, source, origin, role)
    if name in roles:
        raise InputError(f"Column {name!r} cannot be both the {roles[name]} and the {role}")
    roles[name] = role
    return frame[name], f"column {name!r} of {origin}"


def _find_column(frame: "pd.DataFrame", name: Any, origin: str, role: str) -> str:
    import pandas as pd

    columns = list(frame.columns)
    if str(name) in columns:
        return str(name)
    near = nearest(str(name), columns)
    hint = f"Did you mean {near!r}?" if near else f"Its columns: {listed(columns, MAX_LISTED_COLUMNS)}"
    numbers = pd.to_numeric(pd.Series(columns), errors="coerce")
    header = " (the first line of a file must name the columns)" if numbers.notna().all() else ""
    raise InputError(f"{origin} has no column {str(name)!r} for the {role}. {hint}{header}")


def _suggestion(frame: "pd.DataFrame") -> str:
    """The column that probably holds the labels: one with a usual name, else the last one with few values."""
    by_name = {name.casefold(): name for name in reversed(frame.columns)}
    usual = [by_name[name] for name in LABEL_COLUMNS if name in by_name]
    for name in (*usual, *reversed(frame.columns)):
        values = {str(value) for value in frame[name].dropna().head(10_000)}
        if 2 <= len(values) <= min(MAX_SUGGESTED_CLASSES, len(frame) // 2):
            return f"{name!r} looks like it"
    return f"Its columns: {listed(frame.columns, MAX_LISTED_COLUMNS)}"


def _repeats_label(inputs: "pd.DataFrame", column: Column, encoded: EncodedLabels) -> bool:
    """Whether a column has exactly one value per class, so that it repeats the labels with their errors."""
    import pandas as pd

    if column.treatment not in ("category", "number", "yes/no") or encoded.rows.size < MIN_ROWS:
        return False
    codes, values = pd.factorize(inputs[column.name])
    if len(values) != len(encoded.classes) or (codes < 0).any():
        return False
    return len(np.unique(codes * len(values) + encoded.labels)) == len(values)


def _no_inputs(inputs: "pd.DataFrame", columns: Sequence[Column]) -> str:
    """The columns that are left out, with the option to read one with distinct values as text."""
    left_out = [f"column {column.name!r} is {column}" for column in columns[:MAX_LISTED_COLUMNS]]
    reasons = "; ".join(left_out) or "it has no other column"
    texts = [column.name for column in columns if column.note == "like an id" and inputs[column.name].dtype.kind == "O"]
    return f"{reasons}. If {texts[0]!r} is text to learn from, pass `text={texts[0]!r}`" if texts else reasons
