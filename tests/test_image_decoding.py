"""What a decoded image shows, compared with the pixels that were written."""

import io
import os

import numpy as np
import pytest
from PIL import Image, ImageOps

from errata.errors import DataError
from errata.image_decoding import checked_size, decode_image

RAMP = np.linspace(0, 1, 16 * 12).reshape(12, 16)
GREY = np.round(RAMP * 255)


def written(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    file.seek(0)
    return file


def decoded(pixels, form="png", **options):
    return np.asarray(decode_image(written(Image.fromarray(pixels), form, **options))).astype(int)


@pytest.mark.parametrize(
    ("pixels", "form"),
    [
        (GREY.astype(np.uint8), "png"),
        ((RAMP * 65535).astype(np.uint16), "png"),
        ((RAMP * 65535).astype(np.uint16), "tiff"),
        ((RAMP * 65535).astype(">u2"), "tiff"),
        (GREY.astype(np.int32), "tiff"),
        ((RAMP * 65535).astype(np.int32), "tiff"),
        ((RAMP * 2e9 - 1e9).astype(np.int32), "tiff"),
        (RAMP.astype(np.float32), "tiff"),
        (GREY.astype(np.float32), "tiff"),
        ((RAMP * 65535).astype(np.float32), "tiff"),
        ((RAMP * 4 - 2).astype(np.float32), "tiff"),
    ],
)
def test_grey_values_of_any_type_are_scaled_to_8_bits(pixels, form):
    seen = decoded(pixels, form)
    assert seen.shape == (12, 16, 3)
    assert np.abs(seen - GREY[..., None]).max() <= 1


def test_dark_16_bit_images_stay_darker_than_bright_ones():
    assert decoded(np.full((4, 4), 1000, np.uint16)).max() < decoded(np.full((4, 4), 60000, np.uint16)).min()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_pixels_that_are_not_finite_are_black(value):
    pixels = np.full((4, 4), 0.5, np.float32)
    pixels[0, 0] = value
    assert decoded(pixels, "tiff")[0, 0].tolist() == [0, 0, 0]
    assert decoded(pixels, "tiff")[1, 1].tolist() == [128, 128, 128]


@pytest.mark.parametrize(("channels", "form"), [(2, "png"), (2, "tiff"), (4, "png"), (4, "tiff"), (4, "webp")])
def test_transparency_is_composited_on_white(channels, form):
    pixels = np.zeros((12, 16, channels), np.uint8)
    pixels[..., -1] = GREY
    options = {"lossless": True, "exact": True} if form == "webp" else {}
    assert np.abs(decoded(pixels, form, **options) - (255 - GREY)[..., None]).max() <= 1


def test_a_palette_with_transparency_is_composited_on_white():
    image = Image.fromarray(GREY.astype(np.uint8))
    image.putpalette([0] * 768)
    seen = np.asarray(decode_image(written(image, "png", transparency=bytes(range(256))))).astype(int)
    assert np.abs(seen - (255 - GREY)[..., None]).max() <= 1


@pytest.mark.parametrize("pixels", [np.array([[7, 200]], np.uint8), np.array([[7, 60000]], np.uint16)])
def test_one_grey_value_can_be_transparent(pixels):
    seen = decoded(pixels, transparency=7)
    assert seen[0, 0].tolist() == [255, 255, 255]
    assert seen[0, 1].max() < 240


@pytest.mark.parametrize("form", ["jpeg", "png", "tiff", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_upright(form, orientation):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 40, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if form == "webp" else {}
    file = written(image, form, exif=exif, **options)
    with Image.open(file) as opened:
        opened.load()
        expected = ImageOps.exif_transpose(opened).convert("RGB")
    file.seek(0)
    seen = decode_image(file)
    np.testing.assert_array_equal(np.asarray(seen), np.asarray(expected))
    file.seek(0)
    assert checked_size(file) == seen.size == ((24, 40) if orientation >= 5 else (40, 24))


def test_damaged_exif_data_does_not_matter():
    image = Image.fromarray(GREY.astype(np.uint8))
    file = written(image, "jpeg", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert checked_size(file) == (16, 12)


@pytest.mark.parametrize("mode", ["1", "P", "CMYK", "YCbCr"])
def test_other_modes_become_rgb(mode):
    image = Image.fromarray(np.full((8, 8, 3), 255, np.uint8)).convert(mode)
    seen = decode_image(written(image, {"CMYK": "tiff", "YCbCr": "jpeg"}.get(mode, "png")))
    assert np.asarray(seen).min() > 250


@pytest.mark.parametrize("form", ["EPS", "PDF", "ICO", "PPM"])
def test_other_formats_are_not_opened(form, tmp_path, monkeypatch):
    Image.new("RGB", (16, 16)).save(tmp_path / "x.png", form)
    monkeypatch.setattr("subprocess.check_call", pytest.fail)  # by which Pillow starts Ghostscript
    with pytest.raises(OSError, match="cannot identify image file"):
        decode_image(tmp_path / "x.png")


@pytest.mark.parametrize("form", ["png", "jpeg", "webp", "bmp", "gif", "tiff"])
@pytest.mark.parametrize("read", [decode_image, checked_size])
def test_a_truncated_image_is_refused(form, read):
    content = written(Image.effect_noise((64, 64), 80).convert("RGB"), form).getvalue()
    with pytest.raises((OSError, SyntaxError, ValueError, EOFError)):
        read(io.BytesIO(content[: len(content) * 2 // 3]))


def test_only_regular_files_are_opened(tmp_path):
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "fifo.png")
    for name in ("zero.png", "fifo.png"):
        with pytest.raises(DataError, match="not a regular file"):
            decode_image(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        decode_image(tmp_path / "gone.png")
