"""The same promises of every dataset there is."""

import re

import pytest

from errata.core.noise import NOISE_MODELS
from errata.datasets.registry import dataset, datasets, setting, settings
from errata.datasets.settings import Drawn
from errata.errors import InputError

IN_PAPER = {
    "cifar10-pairflip-20": 63, "cifar10-symmetric-20": 63, "cifar10-symmetric-50": 60, "cifar10n-aggregate": 100,
    "cifar10n-worse": 35, "cifar100-pairflip-20": 101, "cifar100-symmetric-20": 92, "cifar100-symmetric-50": 62,
    "clothing1m": 189, "food101n": 248, "cardiotocography-symmetric-20": 206, "credit_fraud-symmetric-20": 749,
    "human_activity-symmetric-20": 797, "letter-symmetric-20": 785, "mushroom-symmetric-20": 344,
    "satellite-symmetric-20": 722, "sensorless_drive-symmetric-20": 797,
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", datasets())


def test_the_seventeen_settings_of_the_paper_are_there_with_its_epochs():
    assert {one.name: one.recipe.epochs for one in settings().values() if one.in_paper} == IN_PAPER


@EVERY
def test_a_dataset_says_where_it_comes_from(name):
    one = dataset(name)
    assert one.source.startswith("https://")
    assert one.title
    assert one.licence
    assert re.match(r"@\w+\{", one.bibtex)
    assert one.downloads or one.by_hand or any(not source.files for source in one.sources)
    assert all(download.url.startswith("https://") for download in one.downloads)
    assert "{folder}" in one.by_hand or not one.by_hand


@EVERY
def test_a_dataset_has_classes_sources_and_settings_that_fit(name):
    one = dataset(name)
    assert len(set(one.classes)) == len(one.classes) >= 2
    assert one.sources[0].complete
    assert all(source.complete or source.remark for source in one.sources)
    assert one.paper is None or one.paper.classes == len(one.classes)
    assert not one.class_counts or len(one.class_counts) == len(one.classes)
    assert one.pixels is not None or one.kind == "table"
    for each in one.settings:
        assert each.dataset == name
        assert not isinstance(each.noise, Drawn) or each.noise.model in NOISE_MODELS
        assert bool(each.recipe.widths) == (each.network == "mlp")
        assert not each.in_paper or each.horizon >= each.recipe.epochs
        assert each.accuracy is not None or not each.in_paper


def test_names_are_unique_and_an_unknown_one_offers_the_nearest():
    assert len(settings()) == sum(len(one.settings) for one in datasets().values())
    with pytest.raises(InputError, match="did you mean 'satellite'"):
        dataset("satelite")
    with pytest.raises(InputError, match="did you mean 'letter-symmetric-20'"):
        setting("letter-symetric-20")
