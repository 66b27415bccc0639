"""Text as weighted terms (TF-IDF)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.readers.user_data import Rows

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MOST_TERMS = 4096  # on TREC, half as many lose a point or two of accuracy and twice as many win nothing clear
REPEATED_FROM = 100  # texts; in that many a term that occurs in a single one is left out
LONGEST_WORD = 12  # letters on average: beyond, the script puts no space between words


def text_terms(texts: Sequence[str], rows: Rows) -> "tuple[csr_matrix, list[str]]":
    """TF-IDF (N, D) of words and pairs of words, or of runs of letters, with terms and weights from `rows` alone."""
    from scipy.sparse import csr_matrix

    fitted = [texts[row] for row in rows.tolist()]
    vectorizer = _vectorizer(fitted)
    try:
        vectorizer.fit(fitted)
    except ValueError:  # what scikit-learn raises where no text holds a term
        return csr_matrix((len(texts), 0), dtype=np.float32), []
    return vectorizer.transform(texts), vectorizer.get_feature_names_out().tolist()


def _vectorizer(texts: Sequence[str]) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    letters, words = sum(map(len, texts)), sum(len(text.split()) for text in texts)
    unspaced = letters > LONGEST_WORD * max(words, 1)
    by: dict[str, Any] = (
        {"analyzer": "char", "ngram_range": (1, 3)}
        if unspaced
        else {"token_pattern": r"(?u)\b\w+\b", "ngram_range": (1, 2)}
    )
    return TfidfVectorizer(
        **by,
        sublinear_tf=True,
        min_df=2 if len(texts) >= REPEATED_FROM else 1,
        max_features=MOST_TERMS,
        dtype=np.float32,
    )
