import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from errata.bench.results import as_scores, rankings
from errata.core import metrics


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=40), st.integers(0, 40))
def test_every_metric_is_the_same_on_a_ranking_as_on_the_scores(rows, budget):
    scores, truth = np.array([row[0] for row in rows], dtype=float), np.array([row[1] for row in rows])
    table = pd.DataFrame({"id": range(len(rows)), "given": 0, "truth": truth, "Mean-CE": scores, "Mean-LM": -scores})
    kept = rankings(table)
    for method, values in (("Mean-CE", scores), ("Mean-LM", -scores)):
        again, wrong = as_scores(kept[kept["method"] == method])
        assert (len(again), wrong.sum()) == (len(scores), truth.sum())
        if not 0 < truth.sum() < len(truth):
            continue
        count = min(budget, len(rows))
        np.testing.assert_allclose(metrics.fnr(again, wrong, count), metrics.fnr(values, truth, count))
        np.testing.assert_allclose(metrics.auroc(again, wrong), metrics.auroc(values, truth))
        np.testing.assert_allclose(metrics.auprc(again, wrong), metrics.auprc(values, truth))
        pd.testing.assert_frame_equal(metrics.budget_curve(again, wrong), metrics.budget_curve(values, truth))
