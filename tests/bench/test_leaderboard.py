"""The leaderboard compares methods on shared settings and lists what it leaves out."""

import io
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from synthetic_results import write_cell, write_seeds

from errata.bench.evaluation import stats
from errata.bench.evaluation.intervals import fnr_intervals
from errata.bench.evaluation.leaderboard import leaderboard, leaderboard_table
from errata.bench.plan import Cell
from errata.bench.results import Results
from errata.core import metrics
from errata.errors import InputError, StoreError

WORSE, PAIRFLIP, SYMMETRIC, DIGITS = (
    "cifar10n-worse",
    "cifar10-pairflip-20",
    "cifar10-symmetric-20",
    "digits-symmetric-20",
)
FNR = {
    WORSE: {"MeanProb-LM": [10, 12], "Mean-CE": [14, 14], "Last-CE": [20, 22]},
    PAIRFLIP: {"MeanProb-LM": [6, 8], "Mean-CE": [7, 7], "Last-CE": [9, 11]},
    SYMMETRIC: {"MeanProb-LM": [9, 9], "Mean-CE": [8, 8], "Last-CE": [12, 14]},
    DIGITS: {"MeanProb-LM": [2, 2], "Mean-CE": [3, 5], "Last-CE": [1, 1]},
}


@pytest.fixture
def results(tmp_path):
    for setting, methods in FNR.items():
        write_seeds(tmp_path, setting, methods)
    return Results(tmp_path)


def board_of(*args, **options):
    board = leaderboard(*args, **options)
    return board, board.numbers.set_index("method")


def texts(table):
    return {row[0].text: dict(zip(table.columns, [one.text for one in row], strict=True)) for row in table.rows}


def said(lines, *words):
    return any(all(word in line for word in words) for line in lines)


# Numbers.


def test_methods_by_mean_rank_with_wins_and_what_they_are_behind(results):
    board, numbers = board_of(results)
    assert list(numbers.index) == ["MeanProb-LM", "Mean-CE", "Last-CE"]
    assert numbers["rank_mean"].tolist() == [(1 + 1.5 + 2 + 2) / 4, (2 + 1.5 + 1 + 3) / 4, (3 + 3 + 3 + 1) / 4]
    assert numbers["wins"].tolist() == [2, 2, 1]  # both of a tie win
    assert numbers["fnr_percent_mean"].tolist() == pytest.approx([7.25, 8.25, 11.25])
    assert numbers["difference_mean"].tolist()[1:] == pytest.approx([1, 4])
    assert numbers.loc["MeanProb-LM", ["difference_mean", "p", "p_holm"]].isna().all()
    assert set(board.settings) == set(FNR)
    assert board.left_out == board.incomplete == ()


def test_p_is_wilcoxons_over_settings_after_holms_correction(results):
    _, numbers = board_of(results)
    means = {name: [np.mean(FNR[setting][name]) for setting in FNR] for name in numbers.index}
    p = []
    for name in ("Mean-CE", "Last-CE"):
        differences = [a - b for a, b in zip(means[name], means["MeanProb-LM"], strict=True) if a != b]
        p.append(scipy.stats.wilcoxon(differences).pvalue)
    assert numbers["p"].tolist()[1:] == pytest.approx(p)
    low, high = sorted(p)
    adjusted = {low: min(1, 2 * low), high: min(1, max(2 * low, high))}
    assert numbers["p_holm"].tolist()[1:] == pytest.approx([adjusted[value] for value in p])


def test_differences_have_the_interval_of_settings_and_seeds_drawn_for_both(results):
    _, numbers = board_of(results)
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(4000):
        settings = rng.choice(list(FNR), 4)
        of_settings = []
        for setting in settings:
            seeds = rng.integers(0, 2, 2)
            ours, leader = (np.array(FNR[setting][name])[seeds] for name in ("Last-CE", "MeanProb-LM"))
            of_settings.append(np.mean(ours - leader))
        drawn.append(np.mean(of_settings))
    expected = np.quantile(drawn, [0.025, 0.975])
    interval = numbers.loc["Last-CE", ["difference_low", "difference_high"]].astype(float)
    np.testing.assert_allclose(interval, expected, atol=0.35)


def test_a_mean_over_settings_has_the_interval_of_their_samples_and_seeds(tmp_path):
    """Settings are independent: the variances of their means add up."""
    rng = np.random.default_rng(0)
    truth = np.arange(2000) % 4 == 0
    for setting in FNR:
        for seed in range(2):
            scores = {name: 2 * truth + rng.normal(size=2000) for name in ("Mean-CE", "Mean-LM")}
            fnr = {name: metrics.fnr(values, truth) for name, values in scores.items()}
            write_cell(tmp_path, setting, seed, fnr, scores=scores, truth=truth)
    _, numbers = board_of(Results(tmp_path))
    each = fnr_intervals(Results(tmp_path))
    for name, row in numbers.iterrows():
        own = 100 * each.loc[each["method"] == name, ["mean", "low", "high"]]
        width = np.sqrt(((own["high"] - own["low"]) ** 2).sum()) / len(own)
        assert row["fnr_percent_high"] - row["fnr_percent_low"] == pytest.approx(width, rel=0.12)
        assert row["fnr_percent_mean"] == pytest.approx(own["mean"].mean())


def test_groups_are_what_nemenyis_test_cannot_tell_apart(tmp_path):
    names = ["MeanProb-LM", "Mean-CE", "Mean-JS", "Mean-LM", "Last-CE", "Last-LM", "SWA-CE", "CTRL-CE", "CTRL-LM"]
    for setting in FNR:
        write_seeds(tmp_path, setting, {name: [10 + place] for place, name in enumerate(names)})
    board, numbers = board_of(Results(tmp_path))
    difference = stats.nemenyi_critical_difference(9, 4)
    ranks = numbers["rank_mean"]
    for one in names:
        for other in names:
            alike = bool(set(numbers.loc[one, "groups"].split()) & set(numbers.loc[other, "groups"].split()))
            assert alike == (abs(ranks[one] - ranks[other]) < difference)
    assert board.ranking.critical_difference == difference
    assert said(leaderboard_table(board).notes, "Groups", f"{difference:.2f}")


# Compared settings and methods.


def test_by_default_the_methods_that_were_run_on_the_most_settings(results):
    write_seeds(results.folder, WORSE, {"Mean-LM (OOS)": [10.0]})
    board, numbers = board_of(results)
    assert "Mean-LM (OOS)" not in numbers.index
    assert len(board.settings) == 4
    assert said(board.left_out, "fewer settings", "Mean-LM (OOS) (1)")
    assert (numbers["settings_run"] == 4).all()


def test_methods_that_are_named_are_compared_where_all_were_run(results):
    write_seeds(results.folder, WORSE, {"Mean-LM (OOS)": [10.0]})
    results.write_failure(Cell(DIGITS, "out-of-sample", 0), "Traceback\nMemoryError: no memory")
    board, numbers = board_of(results, methods=["meanprob-lm", "Mean-LM (OOS)"])
    assert board.settings == (WORSE,)
    assert numbers["settings_run"].to_dict() == {"MeanProb-LM": 4, "Mean-LM (OOS)": 1}
    assert said(board.left_out, DIGITS, "without Mean-LM (OOS): failed: MemoryError: no memory")
    assert said(board.left_out, PAIRFLIP, "without Mean-LM (OOS): not run")
    assert said(board.left_out, f"Left out: seed 1 of {WORSE}")
    assert numbers["fnr_percent_mean"].tolist() == [10, 10]  # the seed that both have
    assert not said(board.left_out, "Mean-CE")


def test_settings_and_gatherings_that_are_asked_for(results):
    write_seeds(results.folder, WORSE, {"Mean-LM (OOS)": [10.0], "CL-CC (OOS)": [11.0]})
    board, numbers = board_of(results, settings=[WORSE, "letter-symmetric-20"], gatherings=["out-of-sample"])
    assert board.settings == (WORSE,)
    assert list(numbers.index) == ["Mean-LM (OOS)", "CL-CC (OOS)"]
    assert set(numbers["gathering"]) == {"out-of-sample"}
    assert said(board.left_out, "letter-symmetric-20: not run")


def test_seeds_without_a_method_in_common_leave_the_setting_out(results):
    write_cell(results.folder, "letter-symmetric-20", 0, {"MeanProb-LM": 0.1})
    write_cell(results.folder, "letter-symmetric-20", 1, {"Mean-CE": 0.1})
    board, _ = board_of(results, methods=["MeanProb-LM", "Mean-CE"])
    assert "letter-symmetric-20" not in board.settings
    assert said(board.left_out, "letter-symmetric-20, no seed was run")


def test_incomplete_data_is_marked(results):
    write_seeds(results.folder, "credit_fraud-symmetric-20", FNR[WORSE], complete=False)
    board, _ = board_of(results)
    assert board.incomplete == ("credit_fraud-symmetric-20",)
    table = leaderboard_table(board)
    assert all(row["FNR (%)"].endswith("†") for row in texts(table).values())
    assert said(table.notes, "†", "credit_fraud-symmetric-20")


def test_one_setting_has_differences_but_no_interval_of_them(results):
    board, numbers = board_of(results, settings=[WORSE])
    assert board.ranking is None
    assert numbers["difference_mean"].tolist()[1:] == pytest.approx([3, 10])
    assert numbers[["difference_low", "difference_high", "p", "p_holm"]].isna().all(axis=None)
    table = leaderboard_table(board)
    shown = texts(table)["Mean-CE"]
    assert (shown["behind the leader"], shown["p"], shown["groups"]) == ("+3.00", "–", "")
    assert said(table.notes, "one setting")
    assert said(table.notes, "No groups")


def test_a_method_of_a_plugin_that_is_not_loaded_is_compared(results):
    for setting in FNR:
        write_cell(results.folder, setting, 5, {"Largest-XYZ": 0.01, "Mean-CE": 0.02})
    _, numbers = board_of(results, methods=["Largest-XYZ", "Mean-CE"])
    assert list(numbers.index) == ["Largest-XYZ", "Mean-CE"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"methods": ["Mean-CE"]}, "at least 2 methods; there is only Mean-CE"),
        ({"methods": ["Mean-CE", "SWA-LM"]}, "SWA-LM was not run on any of these settings"),
        ({"methods": ["Mean-CE", "nonsense"]}, "nonsense"),
        ({"settings": ["cifar11"]}, "Unknown setting 'cifar11'"),
        ({"settings": ["letter-symmetric-20"]}, "No results of these settings"),
        ({"gatherings": ["both"]}, "Unknown gathering 'both'"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(results, options, sentence):
    with pytest.raises(InputError, match=sentence):
        leaderboard(results, **options)


def test_methods_that_share_no_cell_are_refused(tmp_path):
    write_cell(tmp_path, WORSE, 0, {"Mean-CE": 0.1})
    results = write_cell(tmp_path, PAIRFLIP, 0, {"Mean-LM": 0.1})
    with pytest.raises(InputError, match="Use fewer methods"):
        leaderboard(results)


def test_without_results_there_is_no_leaderboard(tmp_path):
    with pytest.raises(StoreError, match="No results in"):
        leaderboard(Results(tmp_path))


# The table and the command.


def test_a_row_reads_as_its_numbers(results):
    board, numbers = board_of(results)
    row, leader = numbers.loc["Last-CE"], texts(leaderboard_table(board))["MeanProb-LM"]
    shown = texts(leaderboard_table(board))["Last-CE/JS"]
    assert shown["FNR (%)"] == f"11.25 ({row['fnr_percent_low']:.2f}–{row['fnr_percent_high']:.2f})"
    assert shown["behind the leader"] == f"+4.00 ({row['difference_low']:+.2f} to {row['difference_high']:+.2f})"
    assert (shown["run on"], shown["mean rank"], shown["wins"]) == ("4", "2.50", "1")
    assert shown["p"] == f"{row['p_holm']:.3f}"
    assert (leader["behind the leader"], leader["p"]) == ("leader", "")
    assert said(leaderboard_table(board).notes, "with 4 settings, p is at least 0.25")


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "bench", "rank")


def test_the_command_prints_the_leaderboard_and_draws_the_diagram(results, run, tmp_path):
    code, out, err = run("--out", results.folder, "--figure", "critical.svg")
    assert (code, err) == (0, "wrote critical.svg\n")
    assert out.index("MeanProb-LM") < out.index("Mean-CE") < out.index("Last-CE/JS")
    assert "critical difference" in (tmp_path / "critical.svg").read_text()
    code, out, err = run("--out", results.folder, "--methods", "Mean-CE", "--methods", "Last-CE", "--format", "csv")
    assert (code, err) == (0, "")
    board = leaderboard(results, methods=["Mean-CE", "Last-CE"])
    pd.testing.assert_frame_equal(
        pd.read_csv(io.StringIO(out), keep_default_na=True)[["method", "rank_mean", "p"]],
        board.numbers[["method", "rank_mean", "p"]],
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--figure", "critical.pdf"], "must end in .png or .svg"),
        (["--figure", "critical.svg", "--setting", WORSE], "needs at least 3 methods on at least 2 settings"),
        (["--figure", "critical.svg", "--format", "pdf"], "Unknown format 'pdf'"),
    ],
)
def test_the_command_refuses_in_one_line_and_writes_nothing(results, run, tmp_path, arguments, sentence):
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run("--out", results.folder, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


# The default, which differs between settings.


def test_the_default_is_compared_as_one_method(tmp_path):
    truth = np.arange(20) < 10
    good, bad = np.linspace(1, 0, 20), np.linspace(0, 1, 20)
    fnr = {"MeanProb-LM": 0.1, "Last-CE": 0.3, "Mean-CE": 0.2}
    scores = {"MeanProb-LM": good, "Last-CE": bad, "Mean-CE": bad}
    for setting, default in ((WORSE, "MeanProb-LM"), (DIGITS, "Last-CE")):
        write_cell(tmp_path, setting, 0, fnr, scores=scores, truth=truth, default=default)
    write_cell(tmp_path, PAIRFLIP, 0, fnr, scores=scores, truth=truth)
    board, numbers = board_of(Results(tmp_path), methods=["default", "MeanProb-LM", "Mean-CE"])
    assert board.settings == (WORSE, DIGITS)
    assert numbers.loc["default", "fnr_percent_mean"] == pytest.approx(100 * (0.1 + 0.3) / 2)
    # Resampled from one ranking with FNR 0 and one with FNR 1.
    assert 0 < numbers.loc["default", "fnr_percent_low"] < 50 <= numbers.loc["default", "fnr_percent_high"]
    assert numbers.loc["MeanProb-LM", "fnr_percent_low"] == 0
    assert said(board.left_out, PAIRFLIP, "without default: its cells do not record it")
    assert "default" not in board_of(Results(tmp_path))[1].index


def test_a_default_that_nobody_named_is_a_sentence(results, tmp_path):
    with pytest.raises(InputError, match="No in-sample cell of these settings records its default"):
        leaderboard(results, methods=["default", "Mean-CE"])
    held_out = {"Last-LM (OOS)": 0.1, "Mean-LM (OOS)": 0.2}
    write_cell(tmp_path, WORSE, 7, held_out, gathering="out-of-sample", default="Mean-LM (OOS)")
    with pytest.raises(InputError, match="No in-sample cell"):
        leaderboard(results, methods=["default", "Mean-LM (OOS)"])
