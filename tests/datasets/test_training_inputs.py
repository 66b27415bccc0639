import numpy as np
import pytest
import torch
from PIL import Image

from errata.datasets.spec import Pixels, PreparedData
from errata.datasets.training_inputs import inputs
from errata.errors import InputError

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def prepared(kind, train, test, **more):
    labels = [np.zeros(len(part), dtype=np.int64) for part in (train, test)]
    return PreparedData("made up", kind, ("x", "y"), train, labels[0], test, labels[1], **more)


def normalised(images):
    """Normalise images (n, 3, H, W) of bytes."""
    mean, std = (np.array(values)[None, :, None, None] for values in (MEAN, STD))
    return (images / 255 - mean) / std


def test_a_table_is_not_changed():
    train, test = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((2, 3), dtype=np.float32)
    data = prepared("table", train, test)
    raw = next(inputs(data, "train").fetch([torch.tensor([2, 0])]))
    torch.testing.assert_close(raw, torch.tensor([[6.0, 7.0, 8.0], [0.0, 1.0, 2.0]]))
    assert len(inputs(data, "test")) == 2


def test_read_only_arrays_are_accepted(tmp_path):
    np.save(tmp_path / "table.npy", np.ones((3, 2), dtype=np.float32))
    kept = np.load(tmp_path / "table.npy", mmap_mode="r")
    table = inputs(prepared("table", kept, kept), "train")
    assert next(table.fetch([torch.tensor([1])])).tolist() == [[1, 1]]


def test_images_are_augmented_for_training_and_normalised_for_both():
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 32, 32), dtype=np.uint8)
    data = prepared("images", images, images[:2], pixels=Pixels(MEAN, STD, "pad-crop-flip"))
    trained = inputs(data, "train")
    raw = next(trained.fetch([torch.arange(6)]))
    np.testing.assert_allclose(trained.test(raw).numpy(), normalised(images), rtol=1e-4, atol=1e-5)
    padded = np.pad(images, ((0, 0), (0, 0), (4, 4), (4, 4)))
    seen = trained.train(raw, torch.Generator().manual_seed(1)).numpy()
    for image, around in zip(seen, padded, strict=True):
        crops = [around[:, top : top + 32, left : left + 32] for top in range(9) for left in range(9)]
        candidates = normalised(np.stack(crops + [crop[:, :, ::-1] for crop in crops]))
        assert np.abs(candidates - image).max(axis=(1, 2, 3)).min() < 1e-4
    assert len(inputs(data, "test")) == 2


@pytest.mark.parametrize(("transforms", "size"), [("crop-flip-224", 224), ("resized-crop-128", 128)])
def test_image_files_are_resized(tmp_path, transforms, size):
    colours = [(10, 20, 30), (200, 100, 0)]
    for number, colour in enumerate(colours):
        (tmp_path / "images" / "x y").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (300 + 20 * number, 280), colour).save(tmp_path / "images" / "x y" / f"{number},ä.png")
    paths = np.array([f"images/x y/{number},ä.png".encode() for number in range(2)])
    pixels = Pixels(MEAN, STD, transforms)
    files = inputs(prepared("image files", paths, paths[:1], pixels=pixels, root=tmp_path), "train")
    raw = next(files.fetch([torch.tensor([1, 0])]))
    expected = normalised(np.array(colours[::-1])[:, :, None, None] * np.ones((1, 1, size, size)))
    for seen in (files.train(raw, torch.Generator().manual_seed(0)), files.test(raw)):
        assert seen.shape == (2, 3, size, size)
        np.testing.assert_allclose(seen.numpy(), expected, rtol=1e-4, atol=1e-5)


def inputs_of_a_wide_image(tmp_path, transforms, draws):
    """Training inputs (in some draws) and test input of an image of 400 × 200 as bytes, and the image."""
    x, y = np.meshgrid(np.arange(400) * 255 / 399, np.arange(200) * 255 / 199)
    picture = Image.fromarray(np.stack([x, y, (x + y) / 2], axis=2).round().astype(np.uint8))
    picture.save(tmp_path / "wide.png")
    paths = np.array([b"wide.png"])
    pixels = Pixels((0, 0, 0), (1 / 255, 1 / 255, 1 / 255), transforms)
    files = inputs(prepared("image files", paths, paths, pixels=pixels, root=tmp_path), "train")
    (raw,) = files.fetch([torch.zeros(draws, dtype=torch.int64)])
    trained = files.train(raw, torch.Generator().manual_seed(0)).numpy().round()
    return trained, files.test(raw[:1])[0].numpy().round(), picture


def as_array(picture):
    return np.asarray(picture).transpose(2, 0, 1).astype(float)


def test_clothing_is_squashed_and_then_cropped(tmp_path):
    trained, tested, picture = inputs_of_a_wide_image(tmp_path, "crop-flip-224", draws=5)
    squashed = as_array(picture.resize((256, 256), Image.Resampling.BILINEAR))
    np.testing.assert_allclose(tested, squashed[:, 16:240, 16:240], atol=1)
    for image in trained:
        upright = image if image[0, 0, 0] < image[0, 0, -1] else image[:, :, ::-1]
        left, top = (int(np.abs(squashed[c].mean(axis=c) - upright[c, 0, 0]).argmin()) for c in (0, 1))
        np.testing.assert_allclose(upright, squashed[:, top : top + 224, left : left + 224], atol=3)


def test_food_is_cropped_from_the_whole_image_in_its_own_shape(tmp_path):
    trained, tested, picture = inputs_of_a_wide_image(tmp_path, "resized-crop-128", draws=300)
    middle = as_array(picture.resize((256, 128), Image.Resampling.BILINEAR))[:, :, 64:192]
    np.testing.assert_allclose(tested, middle, atol=2)
    assert trained[:, 0].min() < 12
    assert trained[:, 0].max() > 243
    # A crop that is not limited by the image's height has an aspect ratio of at most 4:3 in pixels of the image.
    wide = np.abs(trained[:, 0, 64, -3] - trained[:, 0, 64, 2]) / 255 * 400 / 123 * 128
    high = np.abs(trained[:, 1, -3, 64] - trained[:, 1, 2, 64]) / 255 * 200 / 123 * 128
    free = high < 170
    assert free.sum() > 100
    assert 0.72 < (wide / high)[free].min() < 0.85
    assert 1.2 < (wide / high)[free].max() < 1.39


def test_a_missing_image_is_named(tmp_path):
    paths = np.array([b"images/1.jpg"])
    pixels = Pixels(MEAN, STD, "crop-flip-224")
    data = prepared("image files", paths, paths[:0], pixels=pixels, root=tmp_path)
    with pytest.raises(InputError, match=r"images/1\.jpg does not exist"):
        inputs(data, "train")
    assert len(inputs(data, "test")) == 0
