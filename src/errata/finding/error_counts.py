"""Summaries of a ranking: how many errors to expect, and which classes are confused."""

from typing import TYPE_CHECKING

import numpy as np

from errata.core.checks import Floats

if TYPE_CHECKING:
    import pandas as pd


def expected_curve(p_wrong: Floats) -> "pd.DataFrame":
    """How many errors to expect among the first 0, 1, ... N samples of the ranking, from their p_wrong (N,)."""
    import pandas as pd

    expected = np.concatenate([[0.0], np.cumsum(np.asarray(p_wrong, dtype=np.float64))])
    return pd.DataFrame({"inspected": np.arange(len(expected)), "expected_errors_found": expected})


def confusions(ranking: "pd.DataFrame", count: int) -> "pd.DataFrame":
    """Pairs of given and suggested label among the first `count` samples, with their counts, most frequent first."""
    first = ranking.head(count)
    differ = first[first["label"] != first["suggested"]]
    pairs = differ.groupby(["label", "suggested"], sort=False).size().reset_index(name="count")
    return pairs.sort_values("count", ascending=False, kind="stable", ignore_index=True)
