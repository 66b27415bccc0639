"""Estimated noise rates are compared with the true rate."""

import numpy as np
import pytest
from synthetic_results import write_cell

from errata.bench.evaluation.rate_estimates import rate_cells, rate_summary
from errata.bench.evaluation.table_registry import build
from errata.bench.results import Results
from errata.bench.running.benchmark_run import rate_numbers
from errata.dynamics.ranking import analyse, noise_rates
from errata.dynamics.store import Dynamics
from errata.errors import StoreError

WORSE, PAIRFLIP = "cifar10n-worse", "cifar10-pairflip-20"
TRUTH = np.arange(10) < 2  # a rate of 0.2


@pytest.fixture
def results(tmp_path):
    """`sign` is 0.1 too high, 0.1 too low, and correct; only the last interval contains the true rate."""
    cells = [
        (WORSE, 0, {"sign": (0.3, 0.25, 0.35), "mixture": (0.25, 0.2, 0.4)}),
        (WORSE, 1, {"sign": (0.1, 0.05, 0.15), "mixture": (0.25, 0.15, 0.4)}),
        (PAIRFLIP, 0, {"sign": (0.2, 0.1, 0.3)}),
    ]
    for setting, seed, rates in cells:
        write_cell(tmp_path, setting, seed, {"Mean-CE": 0.1}, truth=TRUTH, rates=rates, complete=setting == WORSE)
    options = {"gathering": "out-of-sample", "truth": TRUTH, "rates": {"sign": (0.4, 0.3, 0.5)}}
    write_cell(tmp_path, WORSE, 0, {"Mean-LM (OOS)": 0.1}, **options)
    return write_cell(
        tmp_path, "digits-symmetric-20", 0, {"Mean-CE": 0.1}, truth=TRUTH
    )  # an older cell without estimates


def test_bias_error_coverage_and_width_are_means_over_all_cells(results):
    summary = rate_summary(rate_cells(results)).set_index(["gathering", "estimate"])
    columns = ["settings", "cells", "bias", "absolute_error", "coverage", "width"]
    assert summary.loc[("in-sample", "sign"), columns].tolist() == pytest.approx([2, 3, 0, 0.2 / 3, 1 / 3, 0.4 / 3])
    assert summary.loc[("in-sample", "mixture"), columns].tolist() == pytest.approx([1, 2, 0.05, 0.05, 1, 0.225])
    assert summary.loc[("out-of-sample", "sign"), columns].tolist() == pytest.approx([1, 1, 0.2, 0.2, 0, 0.2])
    assert summary.loc[("in-sample", "sign"), "complete"] == False  # noqa: E712
    assert len(summary) == 3


def test_the_table_shows_points_marks_the_best_and_incomplete_data(results):
    table = build("noise-rates", results)
    shown = {(row[0].text, row[1].text): [one.text for one in row[2:]] for row in table.rows}
    assert shown["in-sample", "sign"] == ["2 †", "3", "+0.00", "6.67", "33", "13.33"]
    assert shown["in-sample", "mixture"] == ["1", "2", "+5.00", "5.00", "100", "22.50"]
    bold = {(row[0].text, row[1].text) for row in table.rows if row[5].bold}
    assert bold == {("in-sample", "mixture"), ("out-of-sample", "sign")}
    assert table.group_starts == {2}
    assert any("†" in note and PAIRFLIP in note for note in table.notes)
    numbers = table.numbers
    assert len(numbers) == 6
    assert set(numbers["true_rate"]) == {0.2}
    assert not set(numbers["setting"]) & {"digits-symmetric-20"}


def test_settings_can_be_chosen_and_cells_without_estimates_are_no_table(results, tmp_path):
    assert set(rate_cells(results, [PAIRFLIP])["setting"]) == {PAIRFLIP}
    with pytest.raises(StoreError, match="No noise-rate estimates"):
        rate_cells(results, ["digits-symmetric-20"])
    with pytest.raises(StoreError, match="No results in"):
        rate_cells(Results(tmp_path / "nothing"))


def test_a_cell_keeps_rate_low_and_high_of_every_estimate_that_there_is(curves):
    logits, labels, _ = curves(0)
    numbers = rate_numbers(analyse(Dynamics.from_arrays(logits, labels)))
    made = noise_rates(Dynamics.from_arrays(logits, labels)).set_index("kind")
    assert {row["method"] for row in numbers} == {"together", "confident joint", "mixture", "sign"}
    for row in numbers:
        column = {"noise_rate": "rate", "noise_rate_low": "low", "noise_rate_high": "high"}[row["metric"]]
        assert row["value"] == made.loc[row["method"], column]
    # One sample has no mixture of two groups: that estimate is not stored.
    single = rate_numbers(analyse(Dynamics.from_arrays(logits[:, :1], labels[:1])))
    assert {row["method"] for row in single} == {"together", "confident joint", "sign"}
    assert np.isfinite([row["value"] for row in single]).all()
