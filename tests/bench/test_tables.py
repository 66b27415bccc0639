"""The tables show the results, and list what is missing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_results import write_cell, write_seeds, write_tuning

from errata.bench.evaluation import published
from errata.bench.evaluation.result_table import MISSING
from errata.bench.evaluation.table_registry import TABLES, build
from errata.bench.plan import Cell
from errata.bench.results import Results
from errata.core.methods import parse
from errata.errors import InputError, StoreError

WORSE, PAIRFLIP, DIGITS = "cifar10n-worse", "cifar10-pairflip-20", "digits-symmetric-20"


def entry(table, column, *labels):
    """The entry in a column and in the row with these labels."""
    place = table.columns.index(column)
    (row,) = [row for row in table.rows if tuple(one.text for one in row[: table.labels]) == labels]
    return row[place]


def noted(table, *words):
    return any(all(word in note for word in words) for note in table.notes)


# FNR at the noise rate.


def test_the_mean_and_population_deviation_over_seeds(tmp_path):
    results = write_seeds(tmp_path, WORSE, {"Mean-CE": [10.0, 11.0, 15.0]})
    table = build("noise-rate", results)
    assert entry(table, WORSE, "Mean-CE").text == f"12.00 ± {np.std([10, 11, 15]):.2f}" == "12.00 ± 2.16"
    assert entry(table, WORSE, "Mean-CE").value == pytest.approx(12)
    assert noted(table, "over 3 seeds")


def test_rows_are_the_papers_in_its_order_with_ce_and_js_merged_and_others_after(tmp_path):
    results = write_seeds(tmp_path, WORSE, {"Last-JS": [10.0], "Last-CE": [10.0], "CL-CC (OOS)": [9.0]})
    names = [row[0].text for row in build("noise-rate", results).rows]
    assert names[:25] == [parse(name).paper_name for name in published.paper_method_names()]
    assert names[25:] == ["Last-JS"]
    assert names[0] == "Last-CE/JS"


def test_a_method_of_a_plugin_that_is_not_loaded_keeps_its_row(tmp_path):
    results = write_cell(tmp_path, WORSE, 0, {"Mean-CE": 0.1, "Largest-XYZ": 0.05})
    table = build("noise-rate", results)
    assert entry(table, WORSE, "Largest-XYZ").text == "5.00"
    assert entry(table, WORSE, "Largest-XYZ").bold


def test_the_best_of_a_setting_is_bold_and_what_reads_the_same_is_too(tmp_path):
    write_seeds(tmp_path, WORSE, {"Mean-CE": [7.001], "Mean-LM": [7.004], "Mean-JS": [7.01]})
    table = build("noise-rate", write_seeds(tmp_path, PAIRFLIP, {"Mean-CE": [9.0], "Mean-LM": [9.5]}))
    bold = {(row[0].text, name) for row in table.rows for name, one in zip(table.columns, row, strict=True) if one.bold}
    assert bold == {("Mean-CE", WORSE), ("Mean-LM", WORSE), ("Mean-CE", PAIRFLIP)}


def test_one_seed_has_no_deviation_and_is_named(tmp_path):
    write_seeds(tmp_path, WORSE, {"Mean-CE": [7.0, 8.0], "Mean-LM": [7.0, 8.0], "Mean-LM (OOS)": [9.0]})
    table = build("noise-rate", Results(tmp_path))
    assert entry(table, WORSE, "Mean-LM (OOS)").text == "9.00"
    assert noted(table, "over 2 seeds", f"1 seed: {WORSE}, out-of-sample")


def test_settings_come_in_the_papers_order_and_those_from_elsewhere_last(tmp_path):
    for name in (DIGITS, WORSE, PAIRFLIP):
        write_seeds(tmp_path, name, {"Mean-CE": [7.0]})
    table = build("noise-rate", Results(tmp_path))
    assert table.columns == ("method", PAIRFLIP, WORSE, DIGITS)
    assert noted(table, "without results", "letter-symmetric-20")


def test_what_was_not_run_failed_or_not_scored_is_a_dash_with_that_reason(tmp_path):
    write_seeds(tmp_path, WORSE, {"Mean-CE": [7.0]})
    results = write_seeds(tmp_path, PAIRFLIP, {"Mean-CE": [7.0]})
    results.write_failure(Cell(PAIRFLIP, "out-of-sample", 2), "Traceback\nMemoryError: no memory")
    results.write_failure(Cell(PAIRFLIP, "in-sample", 1), "killed")
    table = build("noise-rate", results)
    assert entry(table, PAIRFLIP, "CL-CC (OOS)").text == entry(table, WORSE, "CL-CC (OOS)").text == MISSING
    assert noted(table, "– not run", f"{WORSE}, out-of-sample")
    assert noted(table, "– failed", f"{PAIRFLIP}, out-of-sample")
    assert noted(table, f"{PAIRFLIP}/out-of-sample-seed2 failed: MemoryError: no memory")
    assert noted(table, f"{PAIRFLIP}/in-sample-seed1 failed: killed")
    assert noted(table, "– not scored", f"Mean-LM in {WORSE}")
    assert not noted(table, "Traceback")


def test_incomplete_data_has_a_dagger(tmp_path):
    write_seeds(tmp_path, WORSE, {"Mean-CE": [7.0, 9.0]})
    results = write_seeds(tmp_path, "credit_fraud-symmetric-20", {"Mean-CE": [7.0, 9.0]}, complete=False)
    table = build("noise-rate", results)
    assert entry(table, "credit_fraud-symmetric-20", "Mean-CE").text == "8.00 ± 1.00 †"
    assert entry(table, WORSE, "Mean-CE").text == "8.00 ± 1.00"
    assert noted(table, "†", "not comparable", "credit_fraud-symmetric-20")


def test_settings_that_are_asked_for_are_shown_run_or_not(tmp_path):
    results = write_seeds(tmp_path, WORSE, {"Mean-CE": [7.0]})
    table = build("noise-rate", results, [PAIRFLIP])
    assert table.columns == ("method", PAIRFLIP)
    assert {row[1].text for row in table.rows} == {MISSING}
    assert noted(table, "– not run", PAIRFLIP)
    assert not noted(table, "without results")


def test_the_numbers_are_not_rounded_and_lie_beside_the_papers(tmp_path):
    results = write_seeds(tmp_path, WORSE, {"Mean-CE": [7.123456, 8.0], "Last-JS": [7.0, 7.0]})
    numbers = build("noise-rate", results).numbers.set_index("method")
    assert numbers.loc["Mean-CE", "mean_percent"] == pytest.approx((7.123456 + 8) / 2)
    assert numbers.loc["Mean-CE", "paper_percent"] == 17.18
    assert np.isnan(numbers.loc["Last-JS", "paper_percent"])


# FNR at operating points.


def missed(scores, truth, inspected):
    """FNR at a number of inspected samples, for scores without ties."""
    return 1 - truth[np.argsort(-scores)[:inspected]].sum() / truth.sum()


@settings(max_examples=15)  # each example writes a folder
@given(st.integers(0, 1000), st.lists(st.integers(0, 12), min_size=1, max_size=3))
def test_meanprob_inspects_as_many_as_the_reference_flags_seed_by_seed(tmp_path_factory, draw, budgets):
    folder = tmp_path_factory.mktemp("results")
    rng = np.random.default_rng(draw)
    truth = rng.permutation(np.arange(12) < 4)
    expected = []
    for seed, budget in enumerate(budgets):
        scores = rng.permutation(12).astype(float)
        expected.append(100 * missed(scores, truth, budget))
        write_cell(folder, WORSE, seed, {"MeanProb-LM": 0.5}, scores={"MeanProb-LM": scores}, truth=truth)
        flagged = {"CL-PBC (OOS)": (budget, 0.25)}
        options = {"gathering": "out-of-sample", "operating_points": flagged, "truth": truth}
        write_cell(folder, WORSE, seed, {"CL-PBC (OOS)": 0.5}, **options)
    table = build("operating-point", Results(folder))
    assert entry(table, WORSE, "CL-PBC (OOS)", "CL-PBC (OOS)").value == pytest.approx(25)
    rival = entry(table, WORSE, "CL-PBC (OOS)", "MeanProb-LM")
    assert rival.value == pytest.approx(np.mean(expected))
    shown = f"{np.mean(expected):.2f}" + (f" ± {np.std(expected):.2f}" if len(budgets) > 1 else "")
    assert rival.text == shown
    assert rival.bold == (round(np.mean(expected), 2) <= 25)


def test_references_are_the_papers_with_a_rule_between_pairs(tmp_path):
    points = {"CTRL-CE": (1, 0.2)}
    table = build("operating-point", write_cell(tmp_path, WORSE, 0, {"CTRL-CE": 0.3}, operating_points=points))
    assert [row[0].text for row in table.rows] == [
        *("CTRL-CE", "CTRL-CE", "CL-CYY (OOS)", "CL-CYY (OOS)"),
        *("CL-PBC (OOS)", "CL-PBC (OOS)", "CL-PBNR (OOS)", "CL-PBNR (OOS)"),
    ]
    assert table.group_starts == {2, 4, 6}


def test_no_one_is_the_better_where_a_seed_is_missing(tmp_path):
    truth = np.array([True, False, True])
    for seed in range(2):
        options = {"gathering": "out-of-sample", "operating_points": {"CL-PBC (OOS)": (1, 0.9)}, "truth": truth}
        write_cell(tmp_path, WORSE, seed, {"CL-PBC (OOS)": 0.5}, **options)
    scores = {"MeanProb-LM": np.array([3.0, 2.0, 1.0])}
    results = write_cell(tmp_path, WORSE, 0, {"MeanProb-LM": 0.5}, truth=truth, scores=scores)
    table = build("operating-point", results)
    assert entry(table, WORSE, "CL-PBC (OOS)", "MeanProb-LM").text == "50.00"
    assert not any(one.bold for row in table.rows for one in row)


def test_a_missing_rival_is_said_to_be_the_one_that_is_missing(tmp_path):
    options = {"gathering": "out-of-sample", "operating_points": {"CL-PBC (OOS)": (1, 0.9)}}
    table = build("operating-point", write_cell(tmp_path, WORSE, 0, {"CL-PBC (OOS)": 0.5}, **options))
    assert entry(table, WORSE, "CL-PBC (OOS)", "CL-PBC (OOS)").text == "90.00"
    assert entry(table, WORSE, "CL-PBC (OOS)", "MeanProb-LM").text == MISSING
    assert noted(table, "– not run", f"{WORSE}, in-sample")


def test_cells_of_other_labels_are_not_set_beside_each_other(tmp_path):
    options = {"gathering": "out-of-sample", "operating_points": {"CL-PBC (OOS)": (1, 0.9)}, "label_hash": "other"}
    write_cell(tmp_path, WORSE, 0, {"CL-PBC (OOS)": 0.5}, **options)
    results = write_cell(tmp_path, WORSE, 0, {"MeanProb-LM": 0.5})
    with pytest.raises(StoreError, match="different labels"):
        build("operating-point", results)


def test_a_reference_that_flags_as_many_as_are_wrong_was_told(tmp_path):
    truth = np.array([True, True, False, False])
    options = {"operating_points": {"CTRL-CE": (2, 0.5)}, "truth": truth}
    results = write_cell(tmp_path, WORSE, 0, {"CTRL-CE": 0.5}, **options)
    assert noted(build("operating-point", results), "CTRL-CE received the noise rate")
    options["operating_points"] = {"CTRL-CE": (3, 0.5)}
    results = write_cell(tmp_path, PAIRFLIP, 0, {"CTRL-CE": 0.5}, **options)
    assert not noted(build("operating-point", results), "received")


def test_results_without_any_operating_point_are_all_dashes(tmp_path):
    table = build("operating-point", write_seeds(tmp_path, WORSE, {"Mean-CE": [7.0]}), [WORSE])
    assert {row[2].text for row in table.rows} == {MISSING}


# Tuning.

TUNED = [
    (seed, fraction, method, percent + seed, f"{seed}-{round(100 * fraction)}" if fraction else "0-62")
    for seed in range(2)
    for fraction, by_method in {
        0.0: {"Last-CE": 14.0, "Mean-CE": 12.0, "MeanProb-LM": 12.0},
        0.05: {"Last-CE": 13.0, "Mean-CE": 9.0, "MeanProb-LM": 8.0},
    }.items()
    for method, percent in by_method.items()
]


def test_the_best_of_a_fraction_is_bold_and_the_best_of_all_underlined(tmp_path):
    table = build("tuned", write_tuning(tmp_path, WORSE, TUNED))
    bold = {(row[0].text, row[1].text) for row in table.rows if row[2].bold}
    underlined = {(row[0].text, row[1].text) for row in table.rows if row[2].underline}
    assert bold == {("0 %", "Mean-CE"), ("0 %", "MeanProb-LM"), ("5 %", "MeanProb-LM")}
    assert underlined == {("5 %", "MeanProb-LM")}
    assert entry(table, WORSE, "5 %", "Last-CE/JS").text == "13.50 ± 0.50"
    assert entry(table, WORSE, "5 %", "CTRL-CE").text == MISSING
    assert noted(table, "– not tuned")
    assert table.group_starts == {4}
    paper = table.numbers.set_index(["tuning_fraction", "method"])["paper_percent"]
    assert paper[0.05, "MeanProb-LM"] == 11.36


def test_choices_are_shown_once_if_the_seeds_agree_else_one_a_seed_above_the_papers(tmp_path):
    table = build("chosen", write_tuning(tmp_path, WORSE, TUNED))
    assert entry(table, WORSE, "0 %", "Mean-CE", "ours").text == "0-62"
    assert entry(table, WORSE, "5 %", "Mean-CE", "ours").text == "0-5; 1-5"
    assert entry(table, WORSE, "5 %", "Mean-CE", "paper").text == "39-50"
    assert entry(table, WORSE, "5 %", "CTRL-CE", "paper").text == "4,3,2"
    assert not [row for row in table.rows if (row[0].text, row[2].text) == ("0 %", "paper")]


def test_tuning_on_incomplete_data_has_a_dagger_and_failures_are_named(tmp_path):
    results = write_tuning(tmp_path, WORSE, TUNED, complete=False)
    (tmp_path / "tuning" / f"{WORSE}.failed.json").write_text('{"2": "no memory"}')
    for name in ("tuned", "chosen"):
        table = build(name, results)
        assert noted(table, "†", WORSE)
        assert noted(table, f"{WORSE}, seed 2 failed: no memory")
    assert entry(build("tuned", results), WORSE, "5 %", "Mean-CE").text == "9.50 ± 0.50 †"
    assert entry(build("chosen", results), WORSE, "0 %", "Mean-CE", "ours").text == "0-62 †"


def test_no_tuning_is_an_error_that_says_what_makes_it(tmp_path):
    with pytest.raises(StoreError, match="errata bench tune"):
        build("tuned", Results(tmp_path))


# What was run.


def test_accuracy_beside_the_papers(tmp_path):
    for seed, accuracy in enumerate((0.80, 0.84)):
        write_cell(tmp_path, WORSE, seed, {"Mean-CE": 0.1}, accuracy=accuracy)
    write_cell(tmp_path, "credit_fraud-symmetric-20", 0, {"Mean-CE": 0.1}, accuracy=0.9, complete=False)
    results = write_cell(tmp_path, DIGITS, 0, {"Mean-CE": 0.1}, accuracy=0.9)
    table = build("accuracy", results)
    assert [one.text for one in table.rows[0]] == [WORSE, "82.00 ± 2.00", "81.57", "0.43"]
    assert [one.text for one in table.rows[1]] == ["credit_fraud-symmetric-20", "90.00 †", "94.58", "†"]
    assert [one.text for one in table.rows[2]] == [DIGITS, "90.00", MISSING, MISSING]


def test_hyper_parameters_above_the_papers_with_what_differs_underlined(tmp_path):
    write_cell(tmp_path, WORSE, 0, {"Mean-CE": 0.1}, recipe={"learning_rate": 0.001})
    recipe = {"network": "mlp", "widths": [128, 64], "batch_size": 1024, "schedule": [[0, 1.0]], "epochs": 785}
    results = write_cell(tmp_path, "letter-symmetric-20", 0, {"Mean-CE": 0.1}, recipe=recipe)
    table = build("training", results)
    ours, paper = (row for row in table.rows if row[0].text == WORSE)
    assert (ours[1].text, paper[1].text) == ("ours", "paper")
    differing = [name for name, one in zip(table.columns, ours, strict=True) if one.underline]
    assert differing == ["rate"]
    assert (entry(table, "rate", WORSE, "ours").text, entry(table, "rate", WORSE, "paper").text) == ("0.001", "0.0003")
    assert entry(table, "hidden widths", "letter-symmetric-20", "ours").text == "128-64"
    assert entry(table, "hidden widths", "letter-symmetric-20", "paper").text == MISSING
    assert entry(table, "schedule", WORSE, "paper").text == "1 from 0, 0.1 from 25"


def test_recipes_that_differ_between_gatherings_have_a_row_each(tmp_path):
    write_cell(tmp_path, WORSE, 0, {"Mean-CE": 0.1})
    write_cell(tmp_path, WORSE, 1, {"Mean-CE": 0.1})
    results = write_cell(tmp_path, WORSE, 0, {"CL-CC (OOS)": 0.1}, gathering="out-of-sample", recipe={"epochs": 10})
    table = build("training", results)
    assert entry(table, "epochs", WORSE, "ours, in-sample").text == "35"
    assert entry(table, "epochs", WORSE, "ours, out-of-sample").text == "10"


def test_mini_epochs_say_so(tmp_path):
    table = build("training", write_cell(tmp_path, WORSE, 0, {"Mean-CE": 0.1}), ["clothing1m"])
    assert entry(table, "epochs", "clothing1m", "paper").text == "189 of 1/20"
    assert entry(table, "epochs", "clothing1m", "ours").text == MISSING


def test_datasets_with_the_wrong_labels_that_were_counted(tmp_path):
    truth = np.array([True, False, False, False])
    results = write_cell(tmp_path, WORSE, 0, {"Mean-CE": 0.1}, truth=truth)
    table = build("datasets", write_cell(tmp_path, DIGITS, 0, {"Mean-CE": 0.1}, truth=truth, complete=False))
    assert [row[0].text for row in table.rows] == [*published.paper_settings(), DIGITS]
    assert entry(table, "noisy", WORSE).text == "1 of 4 (25.00%)"
    assert entry(table, "noise, paper", WORSE).text == "40.21%"
    assert entry(table, "noisy", DIGITS).text == "1 of 4 (25.00%) †"
    assert (entry(table, "rows", DIGITS).text, entry(table, "train", DIGITS).text) == ("1,797", MISSING)
    assert entry(table, "train", "letter-symmetric-20").text == "15,000"
    assert entry(table, "noisy", "letter-symmetric-20").text == MISSING
    assert noted(table, "no results", "letter-symmetric-20")
    assert len(build("datasets", Results(results.folder / "empty")).rows) == 17


# Intervals.


def test_an_interval_is_beside_its_number_and_what_is_missing_is_said_to_be(tmp_path):
    truth = np.arange(400) % 4 == 0
    scores = {"Mean-CE": truth + np.random.default_rng(0).normal(size=400)}
    for seed in range(2):
        write_cell(tmp_path, WORSE, seed, {"Mean-CE": 0.31}, scores=scores, truth=truth)
    write_cell(tmp_path, PAIRFLIP, 0, {"Mean-LM": 0.5}, truth=truth, complete=False)
    table = build("intervals", Results(tmp_path))
    assert [row[0].text for row in table.rows] == ["Mean-CE", "Mean-LM"]
    numbers = table.numbers.set_index("method").loc["Mean-CE"]
    text = f"31.00 ({numbers['low_percent']:.2f}–{numbers['high_percent']:.2f})"
    assert entry(table, WORSE, "Mean-CE").text == text
    assert entry(table, WORSE, "Mean-LM").text == MISSING
    assert entry(table, PAIRFLIP, "Mean-LM").text.endswith("†")
    assert noted(table, "One seed", f"{PAIRFLIP}, in-sample")
    assert noted(table, "not scored", f"Mean-LM in {WORSE}")
    assert build("intervals", Results(tmp_path), ["letter-symmetric-20"]).rows == []


# All of them.


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("datasets", "tuned", "chosen")])
def test_without_results_there_is_no_table(tmp_path, name):
    with pytest.raises(StoreError, match="No results in"):
        build(name, Results(tmp_path))


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_as_wide_as_its_columns_and_keeps_its_numbers(tmp_path, name):
    write_tuning(tmp_path, WORSE, TUNED)
    rates = {"sign": (0.4, 0.3, 0.5)}
    results = write_seeds(tmp_path, WORSE, {"Mean-CE": [7.0, 8.0], "CL-CC (OOS)": [9.0]}, accuracy=0.8, rates=rates)
    table = build(name, results)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert len(table.numbers) or name == "operating-point"


def test_a_table_or_setting_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InputError, match="noise-rate, operating-point"):
        build("nothing", Results(tmp_path))
    with pytest.raises(InputError, match="Unknown setting 'cifar11'"):
        build("noise-rate", Results(tmp_path), ["cifar11"])
