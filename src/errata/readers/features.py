"""Features of tables: scaled numbers, one column per category, and TF-IDF of texts.

Features are computed for all N rows, with statistics of the rows to fit on only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.memory import check_fits
from errata.readers.columns import Column, as_dates, as_numbers, as_texts
from errata.readers.user_data import Features, Rows

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_matrix

MAX_DEVIATIONS = 100.0  # scaled numbers are clipped here
MIN_CATEGORY_ROWS = 2  # rarer categories can only be memorised and share one column
MAX_CATEGORIES = 100  # per column; the less frequent ones share one column
MAX_DENSE_BYTES = 1 << 30  # larger blocks of categories and terms are reduced to principal components
COMPONENTS = 256
BLOCK_ROWS = 1 << 16
NamedColumn = tuple[str, NDArray[np.float64]]
MICROSECONDS_PER_DAY = 86_400e6
MAX_TERMS = 4096  # on TREC, half as many cost 1 to 2 points of accuracy; twice as many give no clear gain
MAX_SPARSE_TERMS = 20_000  # of each kind, where the matrix stays sparse
MIN_TEXTS_FOR_RARE_TERMS = 100  # with at least this many texts, terms that occur in one text only are dropped
MAX_WORD_LETTERS = 12  # on average; with longer words, the script has no spaces between words


Analyzer = Mapping[str, Any]
WORDS: Analyzer = {"token_pattern": r"(?u)\b\w+\b", "ngram_range": (1, 2)}
LETTERS: Analyzer = {"analyzer": "char", "ngram_range": (1, 3)}
PARTS: Analyzer = {"analyzer": "char_wb", "ngram_range": (3, 5)}


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """Some of the features: values (N, d), dense or sparse, and their names."""

    values: Any
    names: list[str]


@dataclass(frozen=True, eq=False)
class FrameFeatures:
    """Features of a data frame, from the columns that are not left out.

    vectors: embeddings (N, d) by text column, used in place of TF-IDF.
    """

    frame: "pd.DataFrame"
    columns: Sequence[Column]
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    def __call__(self, rows: Rows) -> Features:
        """The features of all rows, fitted on `rows`."""
        frame, columns = self.frame, self.columns
        numbers = [pair for column in columns for pair in _numbers(frame, column)]
        flags = [(column.name, as_numbers(frame[column.name])) for column in columns if column.treatment == "yes/no"]
        dense = [*_imputed(numbers, rows, "median", scale=True), *_imputed(flags, rows, "most_frequent", scale=False)]
        for name, values in self.vectors.items():
            dense.append(FeatureBlock(values, [f"{name}: direction {number}" for number in range(values.shape[1])]))
        tf_idf_columns = [column for column in columns if column.name not in self.vectors]
        sparse = [*_categories(frame, columns, rows), *_texts(frame, tf_idf_columns, rows)]
        return _joined([*dense, *_as_dense(sparse, rows, others=sum(len(block.names) for block in dense))])

    def terms(self) -> "csr_matrix":
        """TF-IDF (N, D) of the words and of the parts of words of all text columns, fitted on all rows."""
        from scipy.sparse import hstack

        texts = [as_filled_texts(self.frame[column.name]) for column in self.columns if column.treatment == "text"]
        blocks = [tf_idf(one, one, analyzer, MAX_SPARSE_TERMS) for one in texts for analyzer in (words_of(one), PARTS)]
        return hstack([values for values, _ in blocks]).tocsr()


def dense_features(values: NDArray[Any], used: Rows, rows: Rows) -> Features:
    """Numbers (N, D) scaled to mean 0 and standard deviation 1, in blocks of rows. used: the columns to use."""
    from sklearn.preprocessing import StandardScaler

    check_fits(4.0 * len(values) * len(used), f"a table of {len(values):,} rows and {len(used):,} columns")
    scaler = StandardScaler()
    for block in _blocks(len(rows)):
        scaler.partial_fit(values[rows[block]][:, used].astype(np.float64))
    matrix = np.empty((len(values), len(used)), dtype=np.float32)
    for block in _blocks(len(values)):
        scaled = scaler.transform(values[block][:, used].astype(np.float64))
        matrix[block] = np.clip(scaled, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    return Features(matrix, tuple(f"column {column}" for column in used))


def sparse_features(values: "csr_matrix", rows: Rows) -> Features:
    """A sparse table (N, D), each column divided by its largest absolute value, so that zeros stay zero."""
    from sklearn.preprocessing import MaxAbsScaler

    scaled = MaxAbsScaler().fit(values[rows]).transform(values)
    scaled.data = np.clip(scaled.data, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    names = [f"column {column}" for column in range(values.shape[1])]
    return _joined(_as_dense([FeatureBlock(scaled, names)], rows, others=0))


def text_terms(texts: Sequence[str], rows: Rows) -> "tuple[csr_matrix, list[str]]":
    """TF-IDF (N, D) of words and word pairs, or of letters in scripts without spaces, and the terms."""
    fitted = [texts[row] for row in rows.tolist()]
    return tf_idf(texts, fitted, words_of(fitted), MAX_TERMS)


def words_of(texts: Sequence[str]) -> Analyzer:
    """How texts are split into words and word pairs; in scripts without spaces, into letters."""
    letters, words = sum(map(len, texts)), sum(len(text.split()) for text in texts)
    return LETTERS if letters > MAX_WORD_LETTERS * max(words, 1) else WORDS


def tf_idf(
    texts: Sequence[str], fitted: Sequence[str], analyzer: Analyzer, max_terms: int
) -> "tuple[csr_matrix, list[str]]":
    """TF-IDF (N, D) of the most frequent terms of the texts `fitted`, and the terms."""
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        **analyzer,
        sublinear_tf=True,
        min_df=2 if len(fitted) >= MIN_TEXTS_FOR_RARE_TERMS else 1,
        max_features=max_terms,
        dtype=np.float32,
    )
    try:
        vectorizer.fit(fitted)
    except ValueError:  # no text holds a term
        return csr_matrix((len(texts), 0), dtype=np.float32), []
    return vectorizer.transform(texts), vectorizer.get_feature_names_out().tolist()


def _imputed(pairs: Sequence[NamedColumn], rows: Rows, strategy: str, *, scale: bool) -> list[FeatureBlock]:
    """Columns with gaps filled, and one column of 0 and 1 for each that has gaps in the rows to fit on.

    scale: to mean 0 and standard deviation 1.
    """
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.preprocessing import StandardScaler

    if not pairs:
        return []
    names, values = [name for name, _ in pairs], _stacked([column for _, column in pairs])
    fitted = values if np.array_equal(rows, np.arange(len(values))) else values[rows]
    imputer = SimpleImputer(strategy=strategy, keep_empty_features=True).fit(fitted)
    filled = imputer.transform(values)
    if scale:
        filled = StandardScaler(copy=False).fit(imputer.transform(fitted)).transform(filled)
        np.clip(filled, -MAX_DEVIATIONS, MAX_DEVIATIONS, out=filled)
    blocks = [FeatureBlock(filled.astype(np.float32), names)]
    indicator = MissingIndicator(error_on_new=False).fit(fitted)
    if len(indicator.features_):
        flags = indicator.transform(values).astype(np.float32)
        blocks.append(FeatureBlock(flags, [f"{names[column]} is missing" for column in indicator.features_]))
    return blocks


def _numbers(frame: "pd.DataFrame", column: Column) -> Iterator[NamedColumn]:
    """Numbers, and the parts of dates."""
    if column.treatment == "number":
        yield column.name, as_numbers(frame[column.name])
    elif column.treatment == "date":
        times = as_dates(frame[column.name])
        microseconds = times.to_numpy(dtype="datetime64[us]").astype(np.int64)
        yield column.name, np.where(times.isna(), np.nan, microseconds / MICROSECONDS_PER_DAY)
        for part, values in (("month", times.dt.month), ("weekday", times.dt.day_of_week), ("hour", times.dt.hour)):
            if values.nunique() > 1:
                yield f"{column.name} ({part})", as_numbers(values)


def _categories(frame: "pd.DataFrame", columns: Sequence[Column], rows: Rows) -> list[FeatureBlock]:
    """One column per category. A missing value is a category; rare and unseen ones share a column."""
    import pandas as pd
    from sklearn.preprocessing import OneHotEncoder

    blocks = []
    for column in columns:
        if column.treatment == "category":
            texts = np.array(as_texts(frame[column.name]), dtype=object)
            numbers, values = pd.factorize(texts, sort=True)  # numbers are much faster to encode than text
            codes = (numbers + 1)[:, None].astype(np.int64)  # 0 for a missing value
            encoder = OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                min_frequency=MIN_CATEGORY_ROWS,
                max_categories=MAX_CATEGORIES,
                dtype=np.float32,
            )
            encoder.fit(codes[rows])
            names = _category_names(column.name, encoder, ["(missing)", *map(str, values)])
            blocks.append(FeatureBlock(encoder.transform(codes), names))
    return blocks


def _category_names(column: str, encoder: Any, values: Sequence[str]) -> list[str]:
    infrequent = encoder.infrequent_categories_[0]
    rare = set() if infrequent is None else set(infrequent.tolist())
    frequent = [f"{column} = {values[code]}" for code in encoder.categories_[0].tolist() if code not in rare]
    return [*frequent, f"{column} = (rare)"] if rare else frequent


def as_filled_texts(column: "pd.Series[Any]") -> list[str]:
    """The texts of a column; missing ones are empty."""
    return [text or "" for text in as_texts(column)]


def _texts(frame: "pd.DataFrame", columns: Sequence[Column], rows: Rows) -> list[FeatureBlock]:
    blocks = []
    for column in columns:
        if column.treatment == "text":
            values, terms = text_terms(as_filled_texts(frame[column.name]), rows)
            blocks.append(FeatureBlock(values, [f"{column.name}: {term}" for term in terms]))
    return blocks


def _as_dense(blocks: Sequence[FeatureBlock], rows: Rows, others: int) -> list[FeatureBlock]:
    """Sparse blocks as one dense block; a large one is reduced to principal components.

    others: the number of dense columns. The limit does not depend on the machine, so the features do not either.
    """
    from scipy.sparse import hstack
    from sklearn.decomposition import TruncatedSVD

    if not blocks:
        return []
    names = [name for block in blocks for name in block.names]
    values = hstack([block.values for block in blocks], format="csr", dtype=np.float32)
    samples, width = values.shape
    if 4 * samples * width <= MAX_DENSE_BYTES:
        check_fits(4.0 * samples * (2 * width + others), f"a table of {samples:,} rows and {width + others:,} columns")
        return [FeatureBlock(values.toarray(), names)]
    check_fits(8.0 * samples * (COMPONENTS + others), f"a table of {samples:,} rows and {width:,} sparse columns")
    svd = TruncatedSVD(min(COMPONENTS, width - 1), random_state=0).fit(values[rows])
    reduced = svd.transform(values)
    scale = np.sqrt(np.mean(np.square(reduced[rows], dtype=np.float64))) or 1.0  # one factor, to keep relative lengths
    names = [f"direction {number}" for number in range(reduced.shape[1])]
    return [FeatureBlock((reduced / scale).astype(np.float32), names)]


def _joined(blocks: Sequence[FeatureBlock]) -> Features:
    names = tuple(name for block in blocks for name in block.names)
    if not names:
        raise InputError("Nothing can be learned from the rows to fit on: every column is empty there")
    values = [block.values for block in blocks]
    return Features(values[0] if len(values) == 1 else np.concatenate(values, axis=1), names)


def _stacked(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Columns (N,) side by side, (N, d)."""
    rows, width = len(columns[0]), len(columns)
    check_fits(2 * 8.0 * rows * width, f"a table of {rows:,} rows and {width:,} columns")
    return np.column_stack(columns)


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK_ROWS) for start in range(0, rows, BLOCK_ROWS))
