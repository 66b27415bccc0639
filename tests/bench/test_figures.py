import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import partial
from itertools import combinations

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from errata.bench.evaluation import stats
from errata.bench.evaluation.summaries import fnr_cells
from errata.bench.figures.gallery import DrawnFigure, Gallery, SkippedFigure
from errata.bench.figures.overview import critical_figure, fnr_by_setting, heat_figure, rank_comparison
from errata.bench.figures.setting_figures import (
    DEFAULT_METHODS,
    IDEAL,
    RANDOM,
    budget_figure,
    budget_numbers,
    histogram_figure,
    histogram_numbers,
    line_styles,
    stop_figure,
    stop_numbers,
)
from errata.bench.plan import Cell, suite
from errata.bench.results import Results
from errata.core import metrics
from errata.core.methods import paper_methods, parse
from errata.errors import InputError, StoreError

IN_SAMPLE = ("MeanProb-LM", "Mean-CE", "Last-CE", "LateStopping-CPD")
DIGITS, LETTER = "digits-symmetric-20", "letter-symmetric-20"


def synthetic_scores(seed, methods=IN_SAMPLE, samples=200, errors=50):
    """Synthetic scores. The first method is the best; the last has few different values."""
    rng = np.random.default_rng(seed)
    truth = np.arange(samples) < errors
    scores = {name: rng.normal(size=samples) + truth * (3 - place / 2) for place, name in enumerate(methods)}
    scores[methods[-1]] = np.round(scores[methods[-1]])
    return pd.DataFrame({"id": np.arange(samples), "given": 0, "truth": truth, **scores})


def write(results, cell, scores, complete=True, default=None):
    methods = [name for name in scores if name not in ("id", "given", "truth")]
    truth = scores["truth"].to_numpy()
    numbers = pd.DataFrame(
        {
            "method": methods,
            "metric": "fnr",
            "budget": int(truth.sum()),
            "value": [metrics.fnr(scores[name], truth) for name in methods],
            "setting": cell.setting,
            "gathering": cell.gathering,
            "seed": cell.seed,
            "complete": complete,
        }
    )
    if default is not None:
        mark = numbers.head(1).assign(method=default, metric="default", value=1.0)
        numbers = pd.concat([numbers, mark], ignore_index=True)
    results.write(cell, numbers, scores)


@pytest.fixture
def results(tmp_path):
    """Two settings with two seeds each; one of them also has an out-of-sample method."""
    found = Results(tmp_path / "results")
    for place, setting in enumerate((DIGITS, LETTER)):
        for seed in (0, 1):
            write(found, Cell(setting, "in-sample", seed), synthetic_scores(10 * place + seed))
    write(found, Cell(LETTER, "out-of-sample", 0), synthetic_scores(5, ("CL-PBNR (OOS)",)))
    return found


def write_curve(results, setting=DIGITS, **changes):
    rows = [
        {"setting": setting, "seed": seed, "epoch": epoch, "method": method, "value": (epoch + seed + place) / 100}
        for seed in (0, 1)
        for epoch in (0, 4, 9)
        for place, method in enumerate(("Last-CE", "Mean-CE"))
    ]
    curve = pd.DataFrame(rows).assign(epochs_of_recipe=5, complete=True).assign(**changes)
    path = results.folder / "tuning" / f"{setting}.curve.parquet"
    path.parent.mkdir(exist_ok=True)
    curve.to_parquet(path)
    return curve


def everything(complete=lambda setting: True):
    """Numbers of all methods on all settings of the paper."""
    rng = np.random.default_rng(0)
    rows = [
        {"setting": setting, "seed": seed, "method": method.name, "metric": "fnr", "value": rng.random()}
        for setting in suite("paper")
        for seed in range(3)
        for method in paper_methods()
    ]
    table = pd.DataFrame(rows)
    return table.assign(complete=table["setting"].map(complete))


def boxes(texts, figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return [text.get_window_extent(canvas.get_renderer()) for text in texts]


# The numbers.


def test_cells_are_in_the_papers_order_with_holes_where_nothing_was_run(results):
    cells = fnr_cells(results.numbers())
    assert cells.index.tolist() == [(LETTER, 0), (LETTER, 1), (DIGITS, 0), (DIGITS, 1)]  # the paper's setting first
    assert set(cells.columns) == {*IN_SAMPLE, "CL-PBNR (OOS)"}
    assert cells["CL-PBNR (OOS)"].notna().tolist() == [True, False, False, False]
    scores = synthetic_scores(11)
    assert cells.loc[(LETTER, 1), "Mean-CE"] == metrics.fnr(scores["Mean-CE"], scores["truth"])


def test_settings_have_means_population_deviations_ratios_and_reasons(results):
    results.write_failure(Cell(DIGITS, "out-of-sample", 0), "Traceback\nMemoryError: too little")
    found = fnr_by_setting(results, results.numbers()).set_index(["setting", "method"])
    for setting, seeds in ((DIGITS, (0, 1)), (LETTER, (10, 11))):
        tables = [synthetic_scores(seed) for seed in seeds]
        means = {name: np.mean([metrics.fnr(one[name], one["truth"]) for one in tables]) for name in IN_SAMPLE}
        best = found.loc[setting, "fnr_percent"].min()
        for name, mean in means.items():
            row = found.loc[(setting, name)]
            assert row["fnr_percent"] == pytest.approx(100 * mean)
            assert row["std_percent"] == pytest.approx(
                100 * np.std([metrics.fnr(one[name], one["truth"]) for one in tables])
            )
            assert row["ratio_to_best"] == pytest.approx(row["fnr_percent"] / best)
            assert (row["seeds"], row["missing"]) == (2, "")
    missing = found.loc[(DIGITS, "CL-PBNR (OOS)")]
    assert (missing["seeds"], missing["missing"]) == (0, "failed: MemoryError: too little")
    assert np.isnan(missing["fnr_percent"])


def test_a_best_of_zero_is_infinitely_better_than_all_that_is_not(results):
    numbers = pd.DataFrame(
        {"setting": DIGITS, "seed": 0, "method": IN_SAMPLE, "metric": "fnr", "value": [0.0, 0.0, 0.1, 0.2]}
    ).assign(complete=True)
    found = fnr_by_setting(results, numbers)
    assert dict(zip(found["method"], found["ratio_to_best"], strict=True)) == {
        "MeanProb-LM": 1,
        "Mean-CE": 1,
        "Last-CE": np.inf,
        "LateStopping-CPD": np.inf,
    }
    heat_figure(found)


def test_a_budget_curve_is_the_mean_fnr_of_the_seeds_at_every_budget(results):
    numbers = budget_numbers(results, DIGITS, ["Mean-CE", "LateStopping-CPD", "CTRL-CE"], complete=True)
    assert numbers["method"].unique().tolist() == [IDEAL, RANDOM, "Mean-CE", "LateStopping-CPD"]
    tables = [synthetic_scores(seed) for seed in (0, 1)]
    for method in ("Mean-CE", "LateStopping-CPD"):
        curve = numbers[numbers["method"] == method]
        assert (curve["seeds"] == 2).all()
        assert 25.0 in curve["budget_percent"].to_numpy()  # the noise rate
        for row in curve.iloc[::17].itertuples():
            inspected = round(row.budget_percent / 100 * 200)
            values = [metrics.fnr(one[method], one["truth"], inspected) for one in tables]
            assert row.fnr_percent == pytest.approx(100 * np.mean(values))
            assert row.std_percent == pytest.approx(100 * np.std(values), abs=1e-9)
    ends = numbers.groupby("method")["fnr_percent"].agg(["first", "last"])
    assert (ends["first"] == 100).all()
    assert (ends["last"] == 0).all()
    ideal = numbers[numbers["method"] == IDEAL].set_index("budget_percent")["fnr_percent"]
    assert ideal[25.0] == 0
    assert (ideal[ideal.index < 25.0] > 0).all()


def test_a_curve_of_a_large_setting_is_thinned(tmp_path):
    results = Results(tmp_path)
    write(results, Cell(DIGITS, "in-sample", 0), synthetic_scores(0, samples=20_000, errors=3_333))
    numbers = budget_numbers(results, DIGITS, ["Mean-CE"], complete=True)
    assert numbers.groupby("method").size().max() <= 401
    assert np.isclose(numbers["budget_percent"], 100 * 3_333 / 20_000).any()


def test_cells_on_different_data_are_not_averaged(results):
    write(results, Cell(DIGITS, "in-sample", 2), synthetic_scores(2, samples=150))
    with pytest.raises(InputError, match=f"cells of {DIGITS} have different samples"):
        budget_numbers(results, DIGITS, IN_SAMPLE, complete=True)


def test_a_stop_curve_has_the_mean_and_population_deviation_of_the_seeds(results):
    curve = write_curve(results)
    numbers = stop_numbers(results, DIGITS)
    for row in numbers.itertuples():
        values = curve[(curve["method"] == row.method) & (curve["epoch"] == row.epochs - 1)]["value"]
        assert row.fnr_percent == pytest.approx(100 * values.mean())
        assert row.std_percent == pytest.approx(100 * values.std(ddof=0))
    assert (numbers["epochs_of_recipe"] == 5).all()
    assert sorted(numbers["epochs"].unique()) == [1, 5, 10]


def test_histograms_count_every_sample_and_the_missed_lie_below_the_threshold(results):
    methods = ["Mean-CE", "LateStopping-CPD"]
    numbers = histogram_numbers(results, DIGITS, methods, complete=True)
    table = synthetic_scores(0)
    for method in methods:
        bins = numbers[numbers["method"] == method]
        assert (bins["right"].sum(), bins["wrong"].sum()) == (150, 50)
        assert (bins["high"].to_numpy()[:-1] == bins["low"].to_numpy()[1:]).all()
        scores, wrong = table[method].to_numpy(), table["truth"].to_numpy()
        inner = bins.iloc[1:-1]
        for row in inner.itertuples():
            assert row.wrong == ((scores >= row.low) & (scores < row.high) & wrong).sum()
        threshold = bins["threshold"].iloc[0]
        assert (scores > threshold).sum() < wrong.sum() <= (scores >= threshold).sum()
        assert bins["fnr_percent"].iloc[0] == pytest.approx(100 * metrics.fnr(scores, wrong))
    few = numbers[numbers["method"] == "LateStopping-CPD"]
    assert len(few) == table["LateStopping-CPD"].nunique()  # one bin per value, no value at an edge


def test_infinite_and_constant_scores_have_a_histogram(tmp_path):
    results = Results(tmp_path)
    table = synthetic_scores(0)
    table["Mean-CE"] = np.where(table["truth"], np.inf, table["Mean-CE"])
    table["Last-CE"] = 3.0
    table["MeanProb-LM"] = np.where(table["truth"], np.inf, -np.inf)
    write(results, Cell(DIGITS, "in-sample", 0), table)
    numbers = histogram_numbers(results, DIGITS, IN_SAMPLE, complete=True)
    counts = numbers.groupby("method")[["right", "wrong"]].sum()
    assert (counts["right"] == 150).all()
    assert (counts["wrong"] == 50).all()
    FigureCanvasAgg(histogram_figure(numbers)).draw()


def test_histograms_are_of_a_seed_that_kept_its_scores_and_say_if_none_did(results):
    folder = results.folder / "cells" / DIGITS
    (folder / "in-sample-seed0.scores.parquet").unlink()
    assert set(histogram_numbers(results, DIGITS, IN_SAMPLE, complete=True)["seed"]) == {1}
    (folder / "in-sample-seed1.scores.parquet").write_bytes(b"broken")
    with pytest.raises(StoreError, match=r"Cannot read .*in-sample-seed1\.scores\.parquet"):
        histogram_numbers(results, DIGITS, IN_SAMPLE, complete=True)
    (folder / "in-sample-seed1.scores.parquet").unlink()
    with pytest.raises(InputError, match=f"scores of {DIGITS} are not stored"):
        histogram_numbers(results, DIGITS, IN_SAMPLE, complete=True)


def test_methods_stand_on_complete_settings_that_share_them(results):
    write(results, Cell("satellite-symmetric-20", "in-sample", 0), synthetic_scores(3, IN_SAMPLE[:2]), complete=False)
    numbers = results.numbers()
    found, left_out = rank_comparison(numbers)
    assert found.settings == 2
    assert left_out == {
        "not run on all settings": ["CL-PBNR (OOS)"],
        "incomplete data": ["satellite-symmetric-20"],
    }
    means = fnr_cells(numbers).loc[[LETTER, DIGITS]].groupby(level="setting").mean()[list(IN_SAMPLE)]
    rows = found.numbers.set_index("method")
    np.testing.assert_allclose(rows["rank_mean"], stats.ranks(means).mean()[rows.index])
    np.testing.assert_allclose(rows["fnr_percent_mean"], 100 * means.mean()[rows.index])
    assert rows["rank_mean"].is_monotonic_increasing
    for what in ("rank", "fnr_percent"):
        assert rows[f"{what}_mean"].between(rows[f"{what}_low"], rows[f"{what}_high"]).all()
    for name, groups in rows["groups"].items():
        assert groups.split() == [str(n) for n, clique in enumerate(found.cliques, 1) if name in clique]


def test_one_complete_setting_is_too_few_for_a_critical_difference(results):
    numbers = results.numbers()
    with pytest.raises(InputError, match="not 5 on 1"):
        rank_comparison(numbers.assign(complete=numbers["setting"] == LETTER))


# The figures.


def test_no_text_of_all_methods_on_all_settings_overlaps_another(results):
    figure = heat_figure(fnr_by_setting(results, everything(lambda setting: setting != LETTER)))
    axes = figure.axes[0]
    cells = [text for text in axes.texts if text.get_text() != "–"]
    assert len(cells) == 25 * 17
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert len(names) == 17
    assert f"{LETTER} *" in names
    for texts in (cells, axes.get_yticklabels()):
        found = boxes(texts, figure)
        assert not any(one.overlaps(other) for one, other in combinations(found, 2))


def test_the_best_of_every_setting_is_bold_and_what_is_missing_a_dash(results):
    numbers = fnr_by_setting(results, results.numbers())
    texts = heat_figure(numbers).axes[0].texts
    assert sum(text.get_text() == "–" for text in texts) == numbers["fnr_percent"].isna().sum() == 1
    bold = sorted(text.get_text() for text in texts if text.get_weight() == "bold")
    assert len(bold) == 2


def test_the_critical_difference_of_all_methods_is_drawn_with_a_bar_a_clique():
    found, _ = rank_comparison(everything())
    figure = critical_figure(found)
    left, middle, _ = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == [
        parse(name).paper_name for name in found.numbers["method"]
    ]
    places = {name: place for place, name in enumerate(found.numbers["method"])}
    bars = [line.get_ydata() for line in middle.get_lines()]
    assert [(round(low), round(high)) for low, high in bars] == [
        (places[clique[0]], places[clique[-1]]) for clique in found.cliques
    ]
    shown = boxes(left.get_yticklabels(), figure)
    assert not any(one.overlaps(other) for one, other in combinations(shown, 2))
    assert figure.get_suptitle().startswith("25 methods on 17 settings")


def test_every_method_is_marked_at_the_noise_rate(results):
    numbers = budget_numbers(results, LETTER, DEFAULT_METHODS, complete=False)
    whole, near = budget_figure(numbers).axes
    assert whole.get_title() == f"{LETTER}, incomplete data: 25.0 % wrong labels"
    labels = {line.get_label(): line for line in whole.get_lines()}
    assert {IDEAL, RANDOM, "MeanProb-LM", "Last-CE/JS", "CL-PBNR (OOS)"} <= set(labels)
    (marked,) = labels["MeanProb-LM"].get_markevery()
    assert labels["MeanProb-LM"].get_xdata()[marked] == 25
    assert near.get_xlim() == (12.5, 50)


def test_the_epochs_of_the_recipe_are_marked(results):
    write_curve(results, complete=False)
    (axes,) = stop_figure(stop_numbers(results, DIGITS)).axes
    (recipe,) = [line for line in axes.get_lines() if line.get_label() == "recipe: 5 epochs"]
    assert set(recipe.get_xdata()) == {5}
    assert len(axes.collections) == 2  # one band per method
    assert axes.get_title() == f"{DIGITS}, incomplete data"


def test_lines_are_told_apart_without_colours_and_look_the_same_everywhere():
    names = [method.name for method in paper_methods()]
    plain = [(style["dashes"], style["marker"]) for style in line_styles(names).values()]
    assert len(set(plain)) == len(names)
    assert line_styles(["Mean-JS", "CTRL-CE"])["CTRL-CE"] == line_styles(DEFAULT_METHODS)["CTRL-CE"]


# All of them.


def test_a_gallery_draws_what_it_can_and_says_why_not_the_rest(results):
    write_curve(results, DIGITS)
    gallery = Gallery(results, [DIGITS, LETTER])
    found = {one.name: one for one in gallery}
    assert len(found) == len(gallery)
    assert {name for name, one in found.items() if isinstance(one, DrawnFigure)} == {
        "heat-map",
        "critical-difference",
        f"budget-{DIGITS}",
        f"budget-{LETTER}",
        f"scores-{DIGITS}",
        f"scores-{LETTER}",
        f"stop-epoch-{DIGITS}",
        f"noise-{DIGITS}",
    }
    reasons = {name: one.reason for name, one in found.items() if isinstance(one, SkippedFigure)}
    assert reasons.pop(f"stop-epoch-{LETTER}").startswith(f"{LETTER} was not tuned")
    assert reasons.pop(f"noise-{LETTER}").startswith("letter is not in")
    assert not reasons
    assert "without CTRL-CE, CL-PBNR (OOS): not run" in found[f"budget-{DIGITS}"].caption
    confused = found[f"noise-{DIGITS}"].numbers.set_index("true class")
    assert confused.shape == (10, 10)
    assert confused.to_numpy().sum() == 1347


def test_a_drawing_is_kept_as_two_pictures_and_its_numbers(results, tmp_path):
    (drawing,) = [one for one in Gallery(results, [DIGITS]) if one.name == f"budget-{DIGITS}"]
    drawing.save(tmp_path)
    png, svg, csv = (tmp_path / f"budget-{DIGITS}{ending}" for ending in (".png", ".svg", ".csv"))
    assert matplotlib.image.imread(png).shape[1] == 1500
    assert ET.parse(svg).getroot().tag.endswith("svg")
    pd.testing.assert_frame_equal(pd.read_csv(csv), drawing.numbers, check_dtype=False)


def test_a_method_from_outside_that_is_not_loaded_is_drawn_under_its_own_name(tmp_path):
    results = Results(tmp_path)
    for seed, setting in enumerate((DIGITS, LETTER)):
        write(results, Cell(setting, "in-sample", 0), synthetic_scores(seed, (*IN_SAMPLE, "Largest-LM")))
    figure = heat_figure(fnr_by_setting(results, results.numbers()))
    assert figure.axes[0].get_yticklabels()[-1].get_text() == "Largest-LM"


def test_a_broken_curve_is_named(results):
    curve = write_curve(results)
    path = results.folder / "tuning" / f"{DIGITS}.curve.parquet"
    curve.drop(columns="epochs_of_recipe").to_parquet(path)
    with pytest.raises(StoreError, match=r"curve\.parquet has no column epochs_of_recipe"):
        stop_numbers(results, DIGITS)


def test_drawing_leaves_no_state_of_pyplot(results):
    program = (
        "import sys; from pathlib import Path; from errata.bench.figures.gallery import Gallery; "
        "from errata.bench.results import Results; "
        f"list(Gallery(Results(Path({str(results.folder)!r})), [{DIGITS!r}])); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "bench", "figures")


def test_the_command_writes_figures_beside_the_results_and_says_what_is_not_drawn(run, results):
    code, out, _ = run("--setting", DIGITS, "--methods", "Mean-CE", "--methods", "last-ce/js")
    folder = results.folder / "figures"
    assert code == 0
    assert {path.name for path in folder.iterdir()} == {
        f"{name}{ending}"
        for name in ("heat-map", f"budget-{DIGITS}", f"scores-{DIGITS}", f"noise-{DIGITS}")
        for ending in (".png", ".svg", ".csv")
    }
    assert "not drawn: critical-difference: A critical difference needs at least 3 methods on 2 settings" in out
    assert f"not drawn: stop-epoch-{DIGITS}: {DIGITS} was not tuned" in out
    assert "4 of 6 figures drawn" in out
    shown = pd.read_csv(folder / f"budget-{DIGITS}.csv")["method"].unique().tolist()
    assert shown == [IDEAL, RANDOM, "Mean-CE", "Last-CE"]


def test_the_default_is_drawn_as_one_method(run, tmp_path):
    results = Results(tmp_path / "results")
    for seed, default in enumerate(("Mean-CE", "Last-CE")):
        write(results, Cell(DIGITS, "in-sample", seed), synthetic_scores(seed), default=default)
    code, _, _ = run("--setting", DIGITS, "--methods", "Default", "--methods", "Mean-CE")
    assert code == 0
    for name in ("budget", "scores"):
        numbers = pd.read_csv(results.folder / "figures" / f"{name}-{DIGITS}.csv")
        assert set(numbers["method"]) - {IDEAL, RANDOM} == {"default", "Mean-CE"}
    assert "default" not in pd.read_csv(results.folder / "figures" / "heat-map.csv").to_string()


def test_the_command_writes_where_it_is_told(run, results):
    code, _, _ = run("--setting", DIGITS, "--out", results.folder, "--to", "elsewhere/pictures")
    assert code == 0
    assert (results.folder.parent / "elsewhere" / "pictures" / "heat-map.png").exists()
    assert not (results.folder / "figures").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--setting", "letters"), "Unknown setting 'letters'"),
        (("--methods", "Mean-XY"), "unknown method 'Mean-XY'"),
    ],
)
def test_names_that_do_not_exist_are_refused(run, results, arguments, sentence):
    code, _, error = run(*arguments)
    assert code == 2
    assert sentence in error


def test_without_results_only_the_noise_can_be_drawn(run):
    code, out, _ = run("--setting", DIGITS)
    assert code == 0
    assert "not drawn: heat-map: No results in results" in out
    assert "1 of 6 figures drawn" in out
