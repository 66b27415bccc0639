import gc
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from errata import InputError
from errata.training.gather import gather
from errata.training.jobs import TrainingOptions
from errata.training.model_inputs import ImageFiles, Images, TableInputs
from errata.training.recipes import Recipe
from errata.training.transforms import PadCropFlip, RandomResizedCrop, ResizeCentreCrop

MEAN, STD = [0.2, 0.5, 0.7], [0.1, 0.2, 0.4]


@pytest.fixture(autouse=True)
def no_worker_is_left_behind():
    """A worker lives as long as its error object; a forked one would keep the pipe of a browser open."""
    yield
    gc.collect()


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (11, 3, 8, 8), dtype=np.uint8)


@pytest.fixture
def paths(tmp_path, pixels):
    for number, image in enumerate(pixels):
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / f"{number}.png")
    return [tmp_path / f"{number}.png" for number in range(len(pixels))]


def network():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(), nn.Linear(144, 3)
    )


def test_images_are_normalised_per_channel(pixels):
    images = Images(pixels, MEAN, STD)
    (raw,) = images.fetch([torch.tensor([4, 2])])
    expected = (pixels[[4, 2]] / 255 - np.array(MEAN)[:, None, None]) / np.array(STD)[:, None, None]
    for seen in (images.test(raw), images.train(raw, None)):
        assert seen.dtype == torch.float32
        np.testing.assert_allclose(seen.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_training_images_are_augmented_and_test_images_prepared(pixels):
    images = Images(pixels, [0.0] * 3, [1 / 255] * 3, augment=PadCropFlip(1), prepare=ResizeCentreCrop(8, 4))
    rows = torch.arange(11)
    (raw,) = images.fetch([rows])
    seen = images.train(raw, torch.Generator().manual_seed(3)).round().to(torch.uint8)
    assert torch.equal(seen, PadCropFlip(1)(torch.from_numpy(pixels), torch.Generator().manual_seed(3)))
    np.testing.assert_allclose(images.test(raw).numpy(), pixels[:, :, 2:6, 2:6], atol=1e-3)


@pytest.mark.parametrize("workers", [0, 2])
def test_image_files_give_the_same_pixels_as_arrays(paths, pixels, workers):
    files = ImageFiles(paths, MEAN, STD, decoded_size=8, workers=workers)
    batches = [torch.tensor([3, 1, 10]), torch.tensor([0]), torch.tensor([5, 5])]
    assert len(files) == 11
    for rows, raw in zip(batches, files.fetch(batches), strict=True):
        assert raw.dtype == torch.uint8
        np.testing.assert_array_equal(raw.numpy(), pixels[rows.numpy()])


def test_training_on_files_equals_training_on_arrays(paths, pixels):
    labels = np.arange(11) % 3
    recipe = Recipe(epochs=2, batch_size=4, learning_rate=0.01)
    before = torch.get_rng_state()
    results = [
        gather(inputs, labels, 3, network, recipe, options=TrainingOptions(features=True), device="cpu")
        for inputs in (
            Images(pixels, MEAN, STD, augment=PadCropFlip(1)),
            ImageFiles(paths, MEAN, STD, augment=PadCropFlip(1), decoded_size=8, workers=1),
        )
    ]
    assert torch.equal(before, torch.get_rng_state())
    for resident, streamed in zip(*results, strict=True):
        np.testing.assert_array_equal(resident.dynamics.logits, streamed.dynamics.logits)
        np.testing.assert_array_equal(resident.dynamics.swa_logits, streamed.dynamics.swa_logits)
        np.testing.assert_array_equal(resident.dynamics.features, streamed.dynamics.features)


def test_images_of_any_shape_and_mode_become_squares(tmp_path):
    Image.new("L", (40, 20), 90).save(tmp_path / "grey.png")
    Image.new("RGBA", (7, 30), (10, 20, 30, 128)).save(tmp_path / "clear.png")
    Image.new("CMYK", (16, 16)).save(tmp_path / "print.jpg")
    files = ImageFiles(sorted(tmp_path.iterdir()), MEAN, STD, decoded_size=12, workers=0)
    (raw,) = files.fetch([torch.arange(3)])
    assert raw.shape == (3, 3, 12, 12)
    assert raw[0].unique().tolist() == [132, 137, 142]  # half transparent, on white
    assert raw[1].unique().tolist() == [90]


def test_decoding_crops_nothing(tmp_path):
    slope = np.linspace(0, 255, 90).round().astype(np.uint8)
    Image.fromarray(np.repeat(np.tile(slope, (30, 1))[:, :, None], 3, axis=2)).save(tmp_path / "wide.png")
    crops = RandomResizedCrop(8), ResizeCentreCrop(8, 8)
    for keep_shape, height in ((False, 45), (True, 15)):
        augment, prepare = crops if keep_shape else (None, None)
        files = ImageFiles(
            [tmp_path / "wide.png"], MEAN, STD, augment, prepare, decoded_size=45, keep_shape=keep_shape, workers=0
        )
        (raw,) = files.to(torch.device("cpu")).fetch([torch.tensor([0])])
        assert raw.shape == (1, 4 if keep_shape else 3, 45, 45)
        assert raw[0, 0, 0, [0, -1]].tolist() == pytest.approx([1, 254], abs=2)
        assert not keep_shape or int((raw[0, 3] > 0).sum()) == 45 * height
    with pytest.raises(InputError, match="images with keep_shape need RandomResizedCrop"):
        ImageFiles([tmp_path / "wide.png"], MEAN, STD, PadCropFlip(), crops[1], keep_shape=True)


def test_files_need_pillow(paths, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError, match=r"^reading image files needs pillow: pip install 'errata\[data\]'$"):
        ImageFiles(paths, MEAN, STD)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kept", [0, 30, 200])
def test_a_broken_file_gives_a_clear_error(paths, workers, kept):
    broken = paths[4]
    broken.write_bytes(broken.read_bytes()[:kept])
    files = ImageFiles(paths, MEAN, STD, decoded_size=8, workers=workers)
    with pytest.raises(InputError, match=r"^image .*4\.png cannot be read: ") as caught:
        list(files.fetch([torch.arange(11)]))
    assert "Traceback" not in str(caught.value)


def test_a_corrupted_file_is_decoded_or_gives_a_clear_error(paths):
    rng = np.random.default_rng(0)
    whole = paths[0].read_bytes()
    files = ImageFiles(paths[:1], MEAN, STD, decoded_size=8, workers=0)
    refused = []
    for _ in range(40):
        changed = bytearray(whole)
        for position in rng.integers(0, len(whole), 3):
            changed[position] = rng.integers(256)
        paths[0].write_bytes(changed)
        try:
            (raw,) = files.fetch([torch.tensor([0])])
        except InputError as error:
            refused.append(str(error))
        else:
            assert raw.shape == (1, 3, 8, 8)
    assert len(refused) > 10
    assert all("0.png cannot be read" in message for message in refused)


def test_a_missing_file_is_reported_before_training(paths, tmp_path):
    with pytest.raises(InputError, match=r"gone\.png does not exist"):
        ImageFiles([*paths, tmp_path / "gone.png"], MEAN, STD)


def test_data_of_the_wrong_type_is_refused(pixels):
    for values, message in (
        (np.zeros(5), r"floats of shape \(N, D\), not torch.float64 \(5,\)"),
        (np.zeros((5, 2), int), "not torch.int64"),
        (np.array([[0.0, 1.0], [1.0, np.inf]]), "row 1 of the table"),
    ):
        with pytest.raises(InputError, match=message):
            TableInputs(values)
    for values, mean, std, message in (
        (pixels.astype(np.float32), MEAN, STD, "images must be uint8"),
        (pixels[0], MEAN, STD, "images must be uint8"),
        (pixels[:, :1], MEAN, STD, "images have 1 channels, but there are 3 means"),
        (pixels, MEAN, STD[:2], "each channel needs a mean and a standard deviation"),
        (pixels, MEAN, [0.1, 0.0, 0.1], "deviation above 0"),
    ):
        with pytest.raises(InputError, match=message):
            Images(values, mean, std)


def test_inputs_and_labels_are_not_modified(pixels):
    labels = np.arange(11) % 3
    table = np.random.default_rng(0).normal(size=(11, 5)).astype(np.float32)
    kept = pixels.copy(), labels.copy(), table.copy()
    recipe = Recipe(epochs=2, batch_size=4, learning_rate=0.01)
    options = TrainingOptions(features=True)
    gather(Images(pixels, MEAN, STD, augment=PadCropFlip(1)), labels, 3, network, recipe, options=options)
    gather(TableInputs(table), labels, 3, (6,), recipe, options=options)
    for before, after in zip(kept, (pixels, labels, table), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(("side", "batch"), [(8, 2048), (32, 2048), (64, 512), (128, 128), (256, 64), (1000, 64)])
def test_large_images_are_evaluated_in_small_batches(side, batch, tmp_path):
    """Activations of 2,048 images of 256 × 256 pixels would take many gigabytes."""
    assert Images(torch.zeros(1, 3, side, side, dtype=torch.uint8), MEAN, STD).evaluation_batch == batch
    Image.new("RGB", (9, 9)).save(tmp_path / "one.png")
    assert ImageFiles([tmp_path / "one.png"], MEAN, STD, decoded_size=side).evaluation_batch == batch


def test_a_table_that_is_mostly_zeros_is_not_scaled():
    rng = np.random.default_rng(0)
    dense = rng.normal(3, 2, size=(40, 5)).astype(np.float32)
    rows = torch.arange(7)
    expected = (dense - dense.mean(axis=0)) / dense.std(axis=0)
    np.testing.assert_allclose(TableInputs(dense).scaled(rows), expected[:7], rtol=1e-4, atol=1e-5)
    sparse = np.where(rng.random((40, 50)) < 0.05, 1, 0).astype(np.float32)
    np.testing.assert_array_equal(TableInputs(sparse).scaled(rows), sparse[:7])
