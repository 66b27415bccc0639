"""The generated Clothing1M and Food-101N have the layout of the official files and the truth they were made with."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from errata.bench.running.cell_training import network
from errata.bench.running.cell_training import test_accuracy as accuracy_of_model
from errata.datasets.loading import load_setting
from errata.training.jobs import SeedResult

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "generated_images.py"


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    for dataset, images in (("clothing1m", 200), ("food101n", 303)):
        subprocess.run([sys.executable, SCRIPT, dataset, folder, "--images", str(images)], check=True)
    return folder


@pytest.mark.parametrize(
    ("name", "sizes", "share"), [("clothing1m", (170, 30, 20), 0.38), ("food101n", (303, 75, 101), 0.18)]
)
def test_a_generated_dataset_is_read_like_the_official_one(generated, name, sizes, share):
    labelled = load_setting(name, generated)
    train, known, test = sizes
    assert (len(labelled.given), len(labelled.data.test_inputs)) == (train, test)
    assert abs(len(labelled.scored) - known) <= 20
    assert abs(np.nanmean(labelled.truth) - share) < 0.2


@pytest.mark.parametrize(("name", "sides"), [("clothing1m", {256}), ("food101n", set(range(320, 513)))])
def test_pictures_have_the_sizes_of_the_official_ones(generated, name, sides):
    labelled = load_setting(name, generated)
    for path in labelled.data.train_inputs[:20].tolist():
        with Image.open(labelled.data.root / path.decode()) as picture:
            assert set(picture.size) <= sides
            assert picture.format == "JPEG"


def test_a_network_is_tested_on_files(generated):
    labelled = load_setting("clothing1m", generated)
    result = SeedResult(0, None, (network(labelled, as_published=False)().state_dict(),))
    assert 0 <= accuracy_of_model(labelled, labelled.setting.recipe, result, "cpu", as_published=False) <= 1
