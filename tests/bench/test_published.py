"""The published numbers in the package equal those in the paper."""

import pytest

from errata.bench.evaluation import published
from errata.bench.plan import suite
from errata.core.methods import paper_methods, parse
from errata.datasets.registry import setting

PER_SETTING = {
    published.fnr_at_noise_rate: 25,
    published.fnr_optimized: 4 * 4,
    published.detection_hyperparameters: 4 * 4,
    published.training_hyperparameters: 1,
}


@pytest.mark.parametrize(("table", "rows"), PER_SETTING.items(), ids=lambda one: getattr(one, "__name__", one))
def test_every_table_has_all_settings_of_the_paper_once(table, rows):
    assert dict(table()["setting"].value_counts()) == dict.fromkeys(suite("paper"), rows)


def test_operating_points_are_of_the_images_and_pair_a_reference_with_meanprob():
    table = published.fnr_at_operating_point()
    assert set(table["setting"]) == {name for name in suite("paper") if setting(name).network != "mlp"}
    for (_, reference), pair in table.groupby(["setting", "reference"]):
        assert sorted(pair["method"]) == sorted([reference, "MeanProb-LM"])


def test_methods_go_by_their_canonical_names():
    expected = {method.name for method in paper_methods()}
    assert set(published.fnr_at_noise_rate()["method"]) == expected == set(published.paper_method_names())
    for table in (published.fnr_at_operating_point(), published.fnr_optimized(), published.detection_hyperparameters()):
        assert set(table["method"]) <= expected


def test_numbers_read_off_the_printed_tables():
    rate = published.fnr_at_noise_rate().set_index(["setting", "method"])
    assert rate.loc[("cifar10-pairflip-20", "Last-CE"), "fnr_percent"] == 13.28
    assert tuple(rate.loc[("sensorless_drive-symmetric-20", "MeanProb-LM"), ["fnr_percent", "std_percent"]]) == (
        0.5959,
        0.019,
    )
    assert rate.loc[("food101n", "CL-PBNR (OOS)"), "gathering"] == "out-of-sample"
    tuned = published.fnr_optimized().set_index(["setting", "tuning_fraction", "method"])
    assert tuned.loc[("cifar10n-worse", 0.05, "MeanProb-LM"), "fnr_percent"] == 11.36
    point = published.fnr_at_operating_point().set_index(["setting", "reference", "method"])
    assert point.loc[("clothing1m", "CL-CYY (OOS)", "MeanProb-LM"), "fnr_percent"] == 50.05
    chosen = published.detection_hyperparameters().set_index(["setting", "tuning_fraction", "method"])["chosen"]
    assert chosen["cifar100-symmetric-20", 0.01, "CTRL-CE"] == "1,3,1"
    assert chosen["letter-symmetric-20", 0.1, "MeanProb-LM"] == "0-448"
    assert chosen["satellite-symmetric-20", 0.1, "Last-CE"] == "1236"


def test_training_is_what_the_settings_of_images_are_trained_with():
    for row in published.training_hyperparameters().to_dict("records"):
        ours = setting(row["setting"])
        assert (row["network"], row["test_accuracy_percent"]) == (ours.network, ours.accuracy)
        recipe = ours.recipe
        assert (row["batch_size"], row["epochs"], row["parts"]) == (recipe.batch_size, recipe.epochs, recipe.parts)
        assert (row["learning_rate"], row["weight_decay"]) == (recipe.learning_rate, recipe.weight_decay)
        assert (row["optimizer"], row["schedule"]) == (recipe.optimizer, recipe.schedule)


def test_the_order_is_the_papers():
    assert published.paper_settings()[:2] == ["cifar10-pairflip-20", "cifar10-symmetric-20"]
    assert published.paper_settings()[-1] == "sensorless_drive-symmetric-20"
    assert [parse(name).paper_name for name in published.paper_method_names()[:4]] == [
        "Last-CE/JS",
        "Last-LM",
        "Last-LM (OOS)",
        "Mean-CE",
    ]


def test_nobody_changes_the_numbers_of_the_next_reader():
    mine = published.fnr_optimized()
    mine["fnr_percent"] = 0
    mine.iloc[0, 0] = "mine"
    assert published.fnr_optimized()["fnr_percent"].min() > 0
    assert "mine" not in set(published.fnr_optimized()["setting"])
