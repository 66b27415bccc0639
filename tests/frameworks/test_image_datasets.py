"""Read and correct images saved by Hugging Face datasets, and load the copy."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import datasets
import errata
from errata.finding.sources import DataSource


def random_pixels(number, width):
    rng = np.random.default_rng(number)
    return np.clip(rng.normal((50, 200)[number % 2], 20, (30, width, 3)), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("spread", [0, 1])
@pytest.mark.parametrize("in_files", [False, True])
def test_images_are_read_and_corrected_as_datasets_stores_them(tmp_path, spread, in_files):
    images = [Image.fromarray(random_pixels(number, 32 + spread * number)) for number in range(12)]
    if in_files:
        for number, image in enumerate(images):
            image.save(tmp_path / f"{number}.png")
    features = datasets.Features({"image": datasets.Image(), "kind": datasets.ClassLabel(names=["dark", "bright"])})
    sources = [str(tmp_path / f"{number}.png") for number in range(12)] if in_files else images
    dataset = datasets.Dataset.from_dict({"image": sources, "kind": [0, 1] * 6}, features=features)
    dataset.save_to_disk(tmp_path / "set", num_shards=2)
    for file in tmp_path.glob("*.png"):
        file.unlink()
    data = DataSource(tmp_path / "set", "kind").open()
    assert isinstance(data.inputs, np.ndarray) == (spread == 0)
    for pixels, image in zip(data.inputs, images, strict=True):
        np.testing.assert_array_equal(pixels.transpose(1, 2, 0), np.asarray(image))
    decisions = pd.DataFrame({"id": [3], "label": ["bright"], "decision": ["accept"], "new_label": ["dark"]})
    corrected = datasets.load_from_disk(errata.apply(tmp_path / "set", decisions, label="kind").copy)
    assert corrected["kind"][:] == [0, 1, 0, 0, *[0, 1] * 4]
    for row, image in zip(corrected, images, strict=True):
        np.testing.assert_array_equal(np.asarray(row["image"]), np.asarray(image))
