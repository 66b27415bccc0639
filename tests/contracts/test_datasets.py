"""Checks that every registered dataset passes."""

import csv
import re
from importlib.resources import files
from operator import itemgetter

import pytest

from errata.core.noise import NOISE_MODELS
from errata.datasets.label_noise import TransitionNoise
from errata.datasets.registry import dataset, datasets, setting, settings
from errata.errors import InputError

EVERY = pytest.mark.parametrize("name", datasets())


def published():
    """The rows of the paper's table of training hyper-parameters."""
    text = (files("errata.bench.evaluation") / "paper" / "training_hyperparameters.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


def test_all_settings_of_the_paper_are_registered():
    assert {one.name for one in settings().values() if one.in_paper} == {row["setting"] for row in published()}
    assert len(published()) == 17


@pytest.mark.parametrize("row", published(), ids=itemgetter("setting"))
def test_recipes_match_the_paper(row):
    one = setting(row["setting"])
    recipe = one.recipe
    assert (recipe.epochs, recipe.parts) == (int(row["epochs"]), int(row["parts"]))
    assert (one.network, recipe.batch_size) == (row["network"], int(row["batch_size"]))
    assert recipe.optimizer == row["optimizer"]
    assert (recipe.learning_rate, recipe.weight_decay) == (float(row["learning_rate"]), float(row["weight_decay"]))
    assert recipe.momentum == float(row["momentum"] or 0)
    steps = [step.split(":") for step in row["schedule"].split(";")]
    assert recipe.schedule == tuple((int(start), float(factor)) for start, factor in steps)
    assert one.accuracy == float(row["test_accuracy_percent"])


@EVERY
def test_a_dataset_has_a_source_and_a_licence(name):
    one = dataset(name)
    assert one.source.startswith("https://")
    assert one.title
    assert one.licence
    assert re.match(r"@\w+\{", one.bibtex)
    assert one.downloads or one.openml or one.by_hand or any(not source.files for source in one.sources)
    assert all(url.startswith("https://") for url in one.downloads)
    assert "{folder}" in one.by_hand or not one.by_hand


@EVERY
def test_classes_sources_and_settings_are_consistent(name):
    one = dataset(name)
    assert len(set(one.classes)) == len(one.classes) >= 2
    assert one.sources[0].complete
    assert one.openml is None or set(one.openml.classes.values()) <= set(one.classes)
    assert one.openml is None or not one.downloads
    assert all(source.complete or source.remark for source in one.sources)
    assert one.paper is None or one.paper.classes == len(one.classes)
    assert not one.class_counts or len(one.class_counts) == len(one.classes)
    assert one.pixels is not None or one.kind == "table"
    for each in one.settings:
        assert each.dataset == name
        assert not isinstance(each.noise, TransitionNoise) or each.noise.kind in NOISE_MODELS
        assert not each.recipe.widths or each.network == "mlp"
        assert not each.suite or not each.in_paper
        assert not each.in_paper or each.horizon >= each.recipe.epochs


def test_names_are_unique_and_unknown_names_get_a_suggestion():
    assert len(settings()) == sum(len(one.settings) for one in datasets().values())
    with pytest.raises(InputError, match="Did you mean 'satellite'"):
        dataset("satelite")
    with pytest.raises(InputError, match="Did you mean 'letter-symmetric-20'"):
        setting("letter-symetric-20")
