"""Data frames with a column of labels as user data."""

from collections import Counter, defaultdict
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
INDEX_HINT = "Name the ids with `id=`, or number the rows with reset_index()"


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
    index = frame_index(frame) if id is None else None
    frame = frame.set_axis(names, axis=1).reset_index(drop=True)
    if not len(frame) or not len(frame.columns):
        raise InputError(f"{origin} has no {'columns' if len(frame) else 'rows'}")
    if label is None:
        raise InputError(f"Name the column of {origin} with the labels. {_suggestion(frame)}")
    roles: dict[str, str] = {}
    labels, where = _values(frame, label, "label", origin, roles)
    encoded = encode_labels(labels, where, among)
    if id is not None:
        ids = sample_ids(*_values(frame, id, "id", origin, roles), encoded.rows)
    else:
        ids = sample_ids(index, f"the index of {origin}", encoded.rows, f". {INDEX_HINT}")
    return LabelledTable(frame, roles, encoded, ids, tuple(renamed))


def from_frame(
    frame: "pd.DataFrame",
    label: Any,
    text: str | Sequence[str] | None,
    id: Any,  # noqa: A002
    ignore: str | Sequence[str] | None,
    *,
    origin: str = "the table",
    remarks: Sequence[str] = (),
    decimal_comma: bool = False,
) -> UserData:
    """User data from a data frame. label, id: names of columns, or values (N,). ignore: columns to leave out.

    origin: how messages name the table. remarks: of its reader. decimal_comma: whether `1,5` can be a number.
    """
    table = labelled_table(frame, label, id, origin)
    frame, roles, encoded = table.frame, table.roles, table.encoded
    texts = _columns_named(frame, text, "text", origin, roles)
    ignored = _columns_named(frame, ignore, "ignored", origin, {**roles, **dict.fromkeys(texts, "text")})
    inputs = frame.drop(columns=[name for name, role in roles.items() if role == "label"])
    if len(encoded.rows) < len(frame):
        inputs = inputs.iloc[encoded.rows].reset_index(drop=True)
    ids = [name for name, role in roles.items() if role == "id"]
    inputs, number_remarks = parse_number_columns(inputs, {*texts, *ids, *ignored}, decimal_comma)
    columns = tuple(
        Column(column.name, "left out", "like the label") if _repeats_label(inputs, column, encoded) else column
        for column in inspect_columns(inputs.drop(columns=ids), texts, ignored)
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


def frame_index(source: Any) -> "pd.Index[Any] | None":
    """The index of a pandas data frame whose rows are not numbered from 0; None for anything else."""
    import pandas as pd

    if not isinstance(source, pd.DataFrame) or source.index.equals(pd.RangeIndex(len(source))):
        return None
    if isinstance(source.index, pd.MultiIndex):
        raise InputError(f"The index of the table has {source.index.nlevels} levels, not one id per row. {INDEX_HINT}")
    return source.index


def frame_of(table: "pa.Table") -> "pd.DataFrame":
    """An Arrow table as a data frame in which whole numbers with gaps stay whole numbers."""
    import pandas as pd
    import pyarrow as pa

    whole = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    types = {getattr(pa, name.lower())(): getattr(pd, f"{name}Dtype")() for name in whole}
    types[pa.bool_()] = pd.BooleanDtype()
    supported = pa.schema([(str(place), _supported(kind)) for place, kind in enumerate(table.schema.types)])
    table, names = table.rename_columns(supported.names), table.column_names  # several columns can have one name
    frame: pd.DataFrame = table.cast(supported).to_pandas(types_mapper=types.get, date_as_object=False)
    return frame.set_axis(names, axis=1)


def _supported(kind: "pa.DataType") -> "pa.DataType":
    """The type of a column for pandas: categories with a signed index, no half precision, only known time zones."""
    import pyarrow as pa

    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            pa.scalar(0, kind).as_py()
        except (pa.ArrowInvalid, KeyError):  # KeyError: with pytz
            return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_dictionary(kind) and pa.types.is_unsigned_integer(kind.index_type):
        return pa.dictionary(pa.int64(), kind.value_type, kind.ordered)
    return kind


def refuse_column_names(what: str, **options: Any) -> None:
    """Refuse options that name columns of a table, since the data are no table. what: what they are."""
    for name, value in options.items():
        if value is not None and len(value):
            raise InputError(f"{name}= names a column of a table, but {what}")


def is_name(value: Any) -> bool:
    """Whether a value is a name or path, not an array of values."""
    if value is None or isinstance(value, list | tuple):
        return False
    return isinstance(value, str | Path | int | float) or np.ndim(value) == 0


def unique_names(columns: Iterable[Any]) -> tuple[list[str], list[str]]:
    """Unique column names as text, in order, and remarks on renamed columns."""
    names: dict[str, None] = {}
    copies: Counter[str] = Counter()
    renamed: dict[str, list[str]] = defaultdict(list)
    for column in columns:
        name = unique = str(column) or "unnamed"
        while unique in names:
            copies[name] += 1
            unique = f"{name}.{copies[name]}"
        if unique != name:
            renamed[name].append(unique)
        names[unique] = None
    some = {name: "one is" if len(new) == 1 else f"{len(new):,} are" for name, new in renamed.items()}
    return list(names), [
        f"several columns are named {name!r}: {some[name]} renamed {listed(new)}" for name, new in renamed.items()
    ]


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


def _columns_named(
    frame: "pd.DataFrame", source: str | Sequence[str] | None, use: str, origin: str, roles: dict[str, str]
) -> list[str]:
    """The columns that an option names for this use. roles: columns that have another use."""
    sources = [source] if is_name(source) else source or ()
    names = [_find_column(frame, name, origin, f"{use} columns") for name in sources]
    for name in names:
        if name in roles:
            raise InputError(f"Column {name!r} cannot be both the {roles[name]} and {use}")
    return names


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
