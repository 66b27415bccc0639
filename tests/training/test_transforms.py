import numpy as np
import pytest
import torch
from PIL import Image

from errata import InputError
from errata.training.transforms import PadCropFlip, RandomResizedCrop, ResizeCentreCrop


def draws(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count, height, width, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(1, 256, (count, 3, height, width), dtype=np.uint8))


def smooth_picture(height, width):
    """(3, H, W) without sharp edges, so that two resampling methods nearly agree."""
    y, x = np.mgrid[:height, :width] / 40
    waves = [np.sin(x + y), np.cos(2 * x - y), np.sin(x * y / 2)]
    return np.round(127.5 + 120 * np.array(waves)).astype(np.uint8)


@pytest.mark.parametrize("shape", [(6, 6), (5, 8)])
def test_every_crop_is_part_of_the_padded_image_and_equally_likely(shape):
    height, width = shape
    one = pictures(1, *shape)
    count, pad = 8000, 2
    padded = np.pad(one[0].numpy(), ((0, 0), (pad, pad), (pad, pad)))
    expected = {}
    for top in range(2 * pad + 1):
        for left in range(2 * pad + 1):
            crop = padded[:, top : top + height, left : left + width]
            expected[crop.tobytes()] = (top, left, False)
            expected[crop[:, :, ::-1].tobytes()] = (top, left, True)
    given = one.expand(count, -1, -1, -1).clone()
    cropped = PadCropFlip(pad)(given, draws())
    assert cropped.dtype == torch.uint8
    assert torch.equal(given, one.expand_as(given))
    found = [expected[image.numpy().tobytes()] for image in cropped.contiguous()]
    assert len(expected) == len(set(found)) == 50
    counts = np.unique(np.array(found), axis=0, return_counts=True)[1]
    assert ((counts - count / 50) ** 2 / (count / 50)).sum() < 95  # chi-square of 49 degrees, p below 0.0001


def test_each_image_of_a_batch_is_cropped_separately():
    images = torch.arange(1, 51, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 8, 8).clone()
    cropped = PadCropFlip(3)(images, draws())
    for number, image in enumerate(cropped, start=1):
        assert set(image.unique().tolist()) <= {0, number}


@pytest.mark.parametrize("transform", [PadCropFlip(), RandomResizedCrop(12)])
def test_random_numbers_come_only_from_the_generator(transform):
    images = pictures(20, 12, 12)
    before = torch.get_rng_state()
    first = transform(images, draws(1))
    torch.rand(3)
    assert torch.equal(first, transform(images, draws(1)))
    assert not torch.equal(first, transform(images, draws(2)))
    torch.set_rng_state(before)
    transform(images, draws(1))
    assert torch.equal(before, torch.get_rng_state())


def test_a_crop_of_the_whole_area_is_the_image_or_its_mirror():
    images = pictures(600, 9, 9)
    result = RandomResizedCrop(9, scale=(1, 1), ratio=(1, 1))(images, draws())
    same = (result == images).flatten(1).all(dim=1)
    mirrored = (result == images.flip(3)).flatten(1).all(dim=1)
    assert (same ^ mirrored).all()
    assert 240 < int(same.sum()) < 360


@pytest.mark.parametrize(("height", "width"), [(64, 64), (50, 90)])
def test_crops_of_a_gradient_show_their_position(height, width):
    """Channel 0 grows with x and channel 1 with y: the corners of a crop show its position, size and direction."""
    count, size = 3000, 16
    x = torch.linspace(0, 255, width).round().to(torch.uint8)
    y = torch.linspace(0, 255, height).round().to(torch.uint8)
    one = torch.stack([x.expand(height, -1), y[:, None].expand(-1, width), torch.full((height, width), 77)])
    crops = RandomResizedCrop(size)(one.expand(count, -1, -1, -1).to(torch.uint8), draws())
    assert crops.shape == (count, 3, size, size)
    assert crops.dtype == torch.uint8
    assert (crops[:, 2] == 77).all()
    floats = crops.double()
    # Two pixels in from either end, where the filter does not reach over the edge of the image.
    across = (floats[:, 0, 0, -3] - floats[:, 0, 0, 2]) / 255 * size / (size - 5) * (width - 1) / width
    down = (floats[:, 1, -3, 0] - floats[:, 1, 2, 0]) / 255 * size / (size - 5) * (height - 1) / height
    assert (down > 0).all()
    assert 0.45 < float((across < 0).double().mean()) < 0.55
    area = across.abs() * down
    assert 0.06 < float(area.min()) < 0.12
    assert 0.85 < float(area.max()) <= 1.02
    shape = across.abs() * width / (down * height)
    assert 0.7 < float(shape.min()) < 0.85
    assert 1.2 < float(shape.max()) < 1.45 * max(1, width / height)
    middle = floats[:, :2].mean(dim=(2, 3)) / 255
    assert (middle.mean(dim=0) - 0.5).abs().max() < 0.02
    assert (middle.amin(dim=0) < 0.25).all()
    assert (middle.amax(dim=0) > 0.75).all()


@pytest.mark.parametrize(
    ("height", "width", "resize", "size"), [(300, 400, 256, 224), (90, 60, 32, 32), (40, 40, 64, 56)]
)
def test_the_resized_centre_equals_that_of_pillow(height, width, resize, size):
    picture = smooth_picture(height, width)
    factor = resize / min(height, width)
    target = (round(width * factor), round(height * factor))
    resized = Image.fromarray(picture.transpose(1, 2, 0)).resize(target, Image.Resampling.BILINEAR)
    left, top = (target[0] - size) // 2, (target[1] - size) // 2
    expected = np.asarray(resized.crop((left, top, left + size, top + size))).transpose(2, 0, 1)
    found = ResizeCentreCrop(resize, size)(torch.from_numpy(picture)[None])[0].numpy()
    assert found.dtype == np.uint8
    assert np.abs(found.astype(int) - expected).max() <= 1


def sharing_a_batch(pictures, side):
    """Images (3, H, W) of different shapes as (n, 4, side, side)."""
    batch = np.zeros((len(pictures), 4, side, side), dtype=np.uint8)
    for place, picture in zip(batch, pictures, strict=True):
        _, height, width = picture.shape
        place[:3, :height, :width], place[3, :height, :width] = picture, 255
    return torch.from_numpy(batch)


def test_images_of_different_shapes_are_resized_as_each_alone():
    shapes = [(256, 256), (256, 130), (97, 256), (256, 255)]
    alone = [smooth_picture(*shape) for shape in shapes]
    found = ResizeCentreCrop(128, 120)(sharing_a_batch(alone, 256))
    assert found.shape == (4, 3, 120, 120)
    for picture, one in zip(alone, found, strict=True):
        expected = ResizeCentreCrop(128, 120)(torch.from_numpy(picture)[None])[0]
        assert (one.int() - expected.int()).abs().max() <= 1


@pytest.mark.parametrize(("height", "width"), [(64, 200), (200, 150), (9, 200)])
def test_resizing_a_whole_image_equals_pillow(height, width):
    """Sharp images, which show aliasing and reads beyond the border."""
    picture = np.random.default_rng(0).integers(0, 256, (3, height, width), dtype=np.uint8)
    resized = Image.fromarray(picture.transpose(1, 2, 0)).resize((48, 48), Image.Resampling.BILINEAR)
    expected = np.asarray(resized).transpose(2, 0, 1).astype(int)
    whole = RandomResizedCrop(48, scale=(1, 1), ratio=(width / height, width / height))
    for found in whole(sharing_a_batch([picture] * 8, 200), draws()).numpy().astype(int):
        assert min(np.abs(found - expected).max(), np.abs(found[:, :, ::-1] - expected).max()) <= 1


def test_a_crop_larger_than_its_image_is_refused():
    with pytest.raises(InputError, match="a crop of 64 pixels does not fit in an image resized to 32"):
        ResizeCentreCrop(32, 64)
