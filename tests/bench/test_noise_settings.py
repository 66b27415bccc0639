"""A setting that uses a part of its dataset and classes, from training to numbers."""

from dataclasses import replace

import numpy as np

import errata
from errata.bench.evaluation.run_tables import datasets_table
from errata.bench.plan import suite
from errata.bench.results import Results
from errata.datasets.loading import load_setting
from errata.datasets.registry import setting

OPEN_SET = "digits-openset-20"


def test_scores_and_numbers_belong_to_the_rows_of_the_part(tmp_path, run_digits):
    results, labelled = Results(tmp_path / "results"), load_setting(OPEN_SET)
    path = results.recipe_path(OPEN_SET)
    path.parent.mkdir(parents=True)
    replace(setting(OPEN_SET).recipe, epochs=12).save(path)
    outcome, progress = run_digits(results, seeds=1, settings=(OPEN_SET,))
    assert len(outcome.done) == 2, progress.lines
    for cell in results.cells():
        scores = results.scores(cell)
        np.testing.assert_array_equal(np.sort(scores["id"]), np.arange(len(labelled.given)))
        np.testing.assert_array_equal(scores["given"], labelled.given[scores["id"]])
        np.testing.assert_array_equal(scores["truth"], labelled.truth[scores["id"]])
        method = "Last-LM" if cell.gathering == "in-sample" else "Last-LM (OOS)"
        assert errata.metrics.auroc(scores[method], scores["truth"]) > 0.7
    numbers = results.numbers()
    assert set(numbers["data_hash"]) == {labelled.data.content_hash}
    assert set(numbers["label_hash"]) == {labelled.noise["hash"]}
    assert set(numbers["samples"]) == {len(labelled.given)}
    assert set(numbers["noisy"]) == {labelled.noise["count"]}
    assert numbers.loc[numbers["metric"] == "test_accuracy", "value"].between(0.6, 1).all()
    assert any(f"use a part of it: {OPEN_SET}" in note for note in datasets_table(results).notes)


def test_the_suite_holds_four_kinds_of_three_datasets():
    kinds = ("asymmetric-40", "instance-20", "imbalanced-20", "openset-20")
    assert set(suite("noise")) == {f"{name}-{kind}" for name in ("cifar10", "letter", "digits") for kind in kinds}
