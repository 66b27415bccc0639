"""Features of tables, fitted on some rows and made for all: numbers scaled, a column a category and a term.

Every function takes all N rows and the rows to fit on, and hands back a matrix with the names of its columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.readers.columns import Column, as_dates, as_numbers, as_texts
from errata.readers.memory import check_fits
from errata.readers.terms import text_terms
from errata.readers.user_data import Features, Rows

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_matrix

FURTHEST = 100.0  # deviations from the mean: a number beyond, or never seen in fitting, tells a model no more
RAREST = 2  # a category seen once can only be memorised: all such share a column
MOST_CATEGORIES = 100  # a column; the less frequent ones share one
DENSE_BYTES = 1 << 30  # categories and words that take more than this are reduced to
COMPONENTS = 256  # principal directions
ROWS_AT_ONCE = 1 << 16
MICROSECONDS_A_DAY = 86_400e6


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the features: values (N, d), dense or sparse, and their names."""

    values: Any
    names: list[str]


@dataclass(frozen=True, eq=False)
class FrameFeatures:
    """Features of a data frame, from the columns that are not left out.

    vectors: what takes the place of the terms of a text column as it is, (N, d) for each that is named.
    """

    frame: "pd.DataFrame"
    columns: Sequence[Column]
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    def __call__(self, rows: Rows) -> Features:
        """Fitted on `rows` and made for all."""
        frame, columns = self.frame, self.columns
        dense = [*_numbers(frame, columns, rows), *_flags(frame, columns, rows), *_vectors(self.vectors)]
        terms = [column for column in columns if column.name not in self.vectors]
        sparse = [*_categories(frame, columns, rows), *_words(frame, terms, rows)]
        return _joined([*dense, *_dense_enough(sparse, rows, others=sum(len(part.names) for part in dense))])


def dense_features(values: NDArray[Any], used: Rows, rows: Rows) -> Features:
    """Numbers (N, D) brought to mean 0 and deviation 1, a block of rows at a time; `used` are the columns to take."""
    from sklearn.preprocessing import StandardScaler

    check_fits(4.0 * len(values) * len(used), f"a table of {len(values):,} rows and {len(used):,} columns")
    scaler = StandardScaler()
    for block in _blocks(len(rows)):
        scaler.partial_fit(values[rows[block]][:, used].astype(np.float64))
    matrix = np.empty((len(values), len(used)), dtype=np.float32)
    for block in _blocks(len(values)):
        scaled = scaler.transform(values[block][:, used].astype(np.float64))
        matrix[block] = np.clip(scaled, -FURTHEST, FURTHEST)
    return Features(matrix, tuple(f"column {column}" for column in used))


def sparse_features(values: "csr_matrix", rows: Rows) -> Features:
    """A sparse table (N, D), each column divided by its largest value so that what is zero stays zero."""
    from sklearn.preprocessing import MaxAbsScaler

    scaled = MaxAbsScaler().fit(values[rows]).transform(values)
    scaled.data = np.clip(scaled.data, -FURTHEST, FURTHEST)
    names = [f"column {column}" for column in range(values.shape[1])]
    return _joined(_dense_enough([Part(scaled, names)], rows, others=0))


def _numbers(frame: "pd.DataFrame", columns: Sequence[Column], rows: Rows) -> list[Part]:
    """Numbers and parts of dates: gaps filled with the median, brought to mean 0 and deviation 1."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    named = [pair for column in columns for pair in _as_named_numbers(frame, column)]
    if not named:
        return []
    names, block = [name for name, _ in named], _stacked([values for _, values in named])
    fitted = _at(block, rows)
    imputer = SimpleImputer(strategy="median", keep_empty_features=True).fit(fitted)
    scaler = StandardScaler(copy=False).fit(imputer.transform(fitted))
    scaled = scaler.transform(imputer.transform(block))
    np.clip(scaled, -FURTHEST, FURTHEST, out=scaled)
    return [Part(scaled.astype(np.float32), names), *_missing(block, names, rows)]


def _as_named_numbers(frame: "pd.DataFrame", column: Column) -> Iterator[tuple[str, NDArray[np.float64]]]:
    if column.treatment == "number":
        yield column.name, as_numbers(frame[column.name])
    elif column.treatment == "date":
        times = as_dates(frame[column.name])
        microseconds = times.to_numpy(dtype="datetime64[us]").astype(np.int64)
        yield column.name, np.where(times.isna(), np.nan, microseconds / MICROSECONDS_A_DAY)
        for part, values in (("month", times.dt.month), ("weekday", times.dt.day_of_week), ("hour", times.dt.hour)):
            if values.nunique() > 1:
                yield f"{column.name} ({part})", as_numbers(values)


def _flags(frame: "pd.DataFrame", columns: Sequence[Column], rows: Rows) -> list[Part]:
    """Yes and no as 1 and 0, gaps filled with the more frequent."""
    from sklearn.impute import SimpleImputer

    names = [column.name for column in columns if column.treatment == "yes/no"]
    if not names:
        return []
    block = _stacked([as_numbers(frame[name]) for name in names])
    imputer = SimpleImputer(strategy="most_frequent", keep_empty_features=True).fit(_at(block, rows))
    return [Part(imputer.transform(block).astype(np.float32), names), *_missing(block, names, rows)]


def _missing(block: NDArray[np.float64], names: Sequence[str], rows: Rows) -> list[Part]:
    """Where a value is missing, as a column of its own for each that has gaps in the rows fitted on."""
    from sklearn.impute import MissingIndicator

    indicator = MissingIndicator(error_on_new=False).fit(_at(block, rows))
    if not len(indicator.features_):
        return []
    gaps = indicator.transform(block).astype(np.float32)
    return [Part(gaps, [f"{names[column]} is missing" for column in indicator.features_])]


def _categories(frame: "pd.DataFrame", columns: Sequence[Column], rows: Rows) -> list[Part]:
    """A column a category; missing is a category too, rare and unseen ones share one."""
    from sklearn.preprocessing import OneHotEncoder

    parts = []
    for column in columns:
        if column.treatment == "category":
            codes, values = _coded(as_texts(frame[column.name]))
            encoder = OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                min_frequency=RAREST,
                max_categories=MOST_CATEGORIES,
                dtype=np.float32,
            )
            encoder.fit(codes[rows])
            parts.append(Part(encoder.transform(codes), _category_names(column.name, encoder, values)))
    return parts


def _coded(texts: Sequence[str | None]) -> tuple[NDArray[np.int64], list[str]]:
    """Values as numbers (N, 1), 0 for a missing one; numbers take far less time to encode than text."""
    import pandas as pd

    codes, values = pd.factorize(np.array(texts, dtype=object), sort=True)
    return (codes + 1)[:, None].astype(np.int64), ["(missing)", *map(str, values)]


def _category_names(column: str, encoder: Any, values: Sequence[str]) -> list[str]:
    rare = encoder.infrequent_categories_[0]
    pooled = set() if rare is None else set(rare.tolist())
    frequent = [f"{column} = {values[code]}" for code in encoder.categories_[0].tolist() if code not in pooled]
    return [*frequent, f"{column} = (rare)"] if pooled else frequent


def _words(frame: "pd.DataFrame", columns: Sequence[Column], rows: Rows) -> list[Part]:
    parts = []
    for column in columns:
        if column.treatment == "text":
            texts = ["" if text is None else text for text in as_texts(frame[column.name])]
            values, terms = text_terms(texts, rows)
            parts.append(Part(values, [f"{column.name}: {term}" for term in terms]))
    return parts


def _vectors(vectors: Mapping[str, NDArray[np.float32]]) -> list[Part]:
    return [
        Part(values, [f"{name}: direction {number}" for number in range(values.shape[1])])
        for name, values in vectors.items()
    ]


def _dense_enough(parts: Sequence[Part], rows: Rows, others: int) -> list[Part]:
    """Sparse parts as one dense part: as they are where that is small, else in their principal directions.

    The limit does not depend on the machine, so neither do the features.
    """
    from scipy.sparse import hstack
    from sklearn.decomposition import TruncatedSVD

    if not parts:
        return []
    names = [name for part in parts for name in part.names]
    together = hstack([part.values for part in parts], format="csr", dtype=np.float32)
    samples, width = together.shape
    if 4 * samples * width <= DENSE_BYTES:
        check_fits(4.0 * samples * (2 * width + others), f"a table of {samples:,} rows and {width + others:,} columns")
        return [Part(together.toarray(), names)]
    check_fits(8.0 * samples * (COMPONENTS + others), f"a table of {samples:,} rows and {width:,} sparse columns")
    reduction = TruncatedSVD(min(COMPONENTS, width - 1), random_state=0).fit(together[rows])
    reduced = reduction.transform(together)
    size = np.sqrt(np.mean(np.square(reduced[rows], dtype=np.float64))) or 1.0  # lengths matter, so one factor for all
    return [Part((reduced / size).astype(np.float32), [f"direction {number}" for number in range(reduced.shape[1])])]


def _joined(parts: Sequence[Part]) -> Features:
    names = tuple(name for part in parts for name in part.names)
    if not names:
        raise InputError("nothing can be learned from the rows to fit on: every column is empty there")
    values = [part.values for part in parts]
    return Features(values[0] if len(values) == 1 else np.concatenate(values, axis=1), names)


def _stacked(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Columns side by side, (N, d)."""
    rows, width = len(columns[0]), len(columns)
    check_fits(2 * 8.0 * rows * width, f"a table of {rows:,} rows and {width:,} columns")
    return np.column_stack(columns)


def _at(block: NDArray[np.float64], rows: Rows) -> NDArray[np.float64]:
    """Those rows, without a copy where they are all of them."""
    return block if np.array_equal(rows, np.arange(len(block))) else block[rows]


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(start, start + ROWS_AT_ONCE) for start in range(0, rows, ROWS_AT_ONCE))
