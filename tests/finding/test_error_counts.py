import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from errata.finding.error_counts import confusions, expected_curve


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1)))
def test_the_curve_adds_the_probabilities_up(p_wrong):
    curve = expected_curve(p_wrong)
    assert curve["inspected"].tolist() == list(range(len(p_wrong) + 1))
    for inspected, errors in curve.itertuples(index=False):
        assert errors == pytest.approx(sum(p_wrong[: int(inspected)]))


def test_confusions_are_counted_among_the_first_of_the_ranking():
    ranking = pd.DataFrame({"label": list("aabaab"), "suggested": list("bbbbba")})
    table = confusions(ranking, 4)
    assert table.to_dict("records") == [{"label": "a", "suggested": "b", "count": 3}]
    assert confusions(ranking, 0).empty
    assert list(confusions(ranking, 6)["count"]) == [4, 1]
