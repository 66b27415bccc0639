"""Rankings without the samples: all that a metric needs of scores, in a few bytes a sample.

A ranking is a sequence of groups of equal score, most suspicious first: how many samples each holds and how many are
wrong. Every metric of `errata.core.metrics` has the same value on it as on the scores.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Scores = NDArray[np.float64]
Truth = NDArray[np.bool_]


def rankings(scores: "pd.DataFrame") -> "pd.DataFrame":
    """A row a group: method, size, errors; from a table with a row a sample, `truth` and a column a method."""
    import pandas as pd

    truth = scores["truth"].to_numpy(dtype=np.bool_)
    methods = [name for name in scores.columns if name not in ("id", "given", "truth")]
    tables = []
    for method in methods:
        values, group = np.unique(scores[method].to_numpy(), return_inverse=True)
        size = np.bincount(group, minlength=len(values))[::-1]
        errors = np.bincount(group, truth, minlength=len(values))[::-1]
        tables.append(pd.DataFrame({"method": method, "size": size, "errors": errors}))
    whole = pd.concat(tables, ignore_index=True)
    return whole.astype({"method": "category", "size": np.int32, "errors": np.int32})


def as_scores(ranking: "pd.DataFrame") -> tuple[Scores, Truth]:
    """Scores and truth (N,) of made-up samples that are ranked so; the ranking of one method."""
    size, errors = ranking["size"].to_numpy(), ranking["errors"].to_numpy()
    scores = np.repeat(-np.arange(len(size), dtype=np.float64), size)
    place = np.arange(len(scores)) - np.repeat(np.cumsum(size) - size, size)
    return scores, place < np.repeat(errors, size)
