import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from torch import nn

import errata
from errata import memory
from errata.errors import InputError
from errata.finding import frozen_features as module
from errata.finding import stored_blocks as blocks_module
from errata.finding.frozen_features import frozen_features
from errata.readers import open_data
from errata.readers.image_files import StoredImages
from errata.readers.user_data import UserData
from errata.terminal import NoProgress
from errata.training.backbones import module_backbone, open_backbone

SIDE = 8


class Colours(nn.Module):
    """The mean colour at the left and at the right end: (n, 6). Counts the images it sees."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, images):
        self.seen += len(images)
        ends = images.chunk(4, dim=3)[::3]
        return torch.cat([end.mean(dim=(2, 3)) for end in ends], dim=1)


@pytest.fixture
def backbone():
    opened = module_backbone(Colours(), side=SIDE, mean=(0, 0, 0), std=(1 / 255,) * 3)
    opened.module.seen = 0
    return opened


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 10)


def two_halves(left, right, width=40, height=40):
    pixels = np.empty((height, width, 3), dtype=np.uint8)
    pixels[:, : width // 2], pixels[:, width // 2 :] = left, right
    return Image.fromarray(pixels)


def folder_of(tmp_path, images):
    for number, image in enumerate(images):
        place = tmp_path / "photos" / ("one", "two")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        image.save(place / f"{number:03}.png")
    return tmp_path / "photos"


@pytest.fixture
def colours():
    return np.random.default_rng(0).integers(0, 256, (30, 6)).astype(np.uint8)


@pytest.fixture
def photos(tmp_path, colours):
    """30 images of different sizes, each with two colours; the first folder holds the even numbers."""
    images = [two_halves(row[:3], row[3:], 70 + 2 * number, 70) for number, row in enumerate(colours)]
    return open_data(folder_of(tmp_path, images))


def in_order(colours):
    """Rows in the order of the folders."""
    return np.concatenate([colours[::2], colours[1::2]]).astype(np.float32)


def as_arrays(pixels):
    return open_data(pixels, np.arange(len(pixels)) % 2)


class Interrupted(NoProgress):
    """Progress that stops the call before a block, as Ctrl-C would."""

    def __init__(self, before):
        self.before, self.names = before, []

    def begin(self, name, epochs):
        self.names.append(name)
        if len(self.names) == self.before:
            raise KeyboardInterrupt


def test_files_are_in_the_order_of_the_data(photos, backbone, colours):
    assert photos.kind == "image files"
    features = frozen_features(photos, backbone, "cpu", None, NoProgress())
    assert features.dtype == np.float32
    assert features == pytest.approx(in_order(colours), abs=0.51)


def test_files_arrays_and_stored_images_give_the_same_features(tmp_path, backbone, colours):
    images = [two_halves(row[:3], row[3:], 70, 72) for row in colours]
    pixels = np.stack([np.asarray(image).transpose(2, 0, 1) for image in images])
    paths = sorted(folder_of(tmp_path, images).rglob("*.png"), key=lambda path: path.name)
    column = pa.chunked_array([pa.array([{"bytes": path.read_bytes(), "path": None} for path in paths])])
    inputs = StoredImages(column, tmp_path, np.arange(30), ((70, 72),) * 30)
    stored = UserData("images", inputs, np.arange(30) % 2, ("one", "two"), np.arange(30), np.arange(30), {})
    from_arrays = frozen_features(as_arrays(pixels), backbone, "cpu", None, NoProgress())
    assert np.array_equal(from_arrays, frozen_features(stored, backbone, "cpu", None, NoProgress()))
    assert from_arrays == pytest.approx(colours.astype(np.float32), abs=0.51)
    files = open_data(tmp_path / "photos")
    from_files = frozen_features(files, backbone, "cpu", None, NoProgress())
    assert np.array_equal(from_files, np.concatenate([from_arrays[::2], from_arrays[1::2]]))


def test_grey_transparent_and_16_bit_pictures(tmp_path, backbone):
    grey = np.full((50, 50), 100, dtype=np.uint8)
    images = [
        Image.fromarray(grey),
        Image.fromarray(grey.astype(np.uint16) * 257),
        Image.new("RGBA", (50, 60), (0, 0, 0, 0)),
        Image.new("P", (70, 50), 0),
        Image.new("1", (50, 50), 1),
        Image.new("RGB", (1, 1), (100, 100, 100)),
    ]
    features = frozen_features(open_data(folder_of(tmp_path, images)), backbone, "cpu", None, NoProgress())
    means = features.mean(axis=1)  # the folder `one` holds the even numbers
    assert means == pytest.approx([100, 255, 255, 100, 0, 100], abs=0.01)


def test_images_smaller_than_the_patch_of_the_network_are_enlarged():
    patches = nn.Sequential(nn.Conv2d(3, 2, 32, stride=32), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    tiny = np.random.default_rng(0).integers(0, 256, (12, 3, 16, 16)).astype(np.uint8)
    features = frozen_features(as_arrays(tiny), module_backbone(patches, side=64), "cpu", None, NoProgress())
    assert features.shape == (12, 2)
    assert np.ptp(features, axis=0).min() > 0


def test_an_interrupted_call_resumes(photos, backbone, tmp_path):
    whole = frozen_features(photos, backbone, "cpu", None, NoProgress())
    work, stopped = tmp_path / "work", Interrupted(before=3)
    backbone.module.seen = 0
    with pytest.raises(KeyboardInterrupt):
        frozen_features(photos, backbone, "cpu", work, stopped)
    assert stopped.names == [f"features of Colours: {start} of 30" for start in (0, 10, 20)]
    backbone.module.seen = 0
    resumed = Interrupted(before=-1)
    assert np.array_equal(frozen_features(photos, backbone, "cpu", work, resumed), whole)
    assert resumed.names == ["features of Colours: 20 of 30"]
    assert backbone.module.seen == 10
    assert np.array_equal(frozen_features(photos, backbone, "cpu", work, NoProgress()), whole)
    assert backbone.module.seen == 10


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_loses_only_its_block(tmp_path, photos, backbone):
    script = f"""
        import os, signal, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_frozen_features import SIDE, Colours, NoProgress, frozen_features, module, module_backbone, open_data
        module.BLOCK = 10
        class Killed(NoProgress):
            def begin(self, name, epochs):
                if ": 20 of" in name:
                    os.kill(os.getpid(), signal.SIGKILL)
        backbone = module_backbone(Colours(), side=SIDE, mean=(0, 0, 0), std=(1 / 255,) * 3)
        data = open_data({str(tmp_path / "photos")!r})
        from pathlib import Path
        frozen_features(data, backbone, "cpu", Path({str(tmp_path / "work")!r}), Killed())
    """
    environment = os.environ | {"PYTHONPATH": str(Path(errata.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    features = frozen_features(photos, backbone, "cpu", tmp_path / "work", NoProgress())
    assert backbone.module.seen == 10
    assert np.array_equal(features, frozen_features(photos, backbone, "cpu", None, NoProgress()))


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY damaged", None])
def test_a_damaged_block_is_computed_again(photos, backbone, tmp_path, content):
    whole = frozen_features(photos, backbone, "cpu", tmp_path, NoProgress())
    (block,) = tmp_path.glob("features-*/10.npy")
    if content is None:
        np.save(block, whole[:3])  # of another data
    else:
        block.write_bytes(content)
    backbone.module.seen = 0
    assert np.array_equal(frozen_features(photos, backbone, "cpu", tmp_path, NoProgress()), whole)
    assert backbone.module.seen == 10


def test_another_backbone_does_not_use_the_stored_blocks(photos, backbone, tmp_path):
    frozen_features(photos, backbone, "cpu", tmp_path, NoProgress())
    other = module_backbone(Colours(), side=SIDE)
    assert other.key != backbone.key
    features = frozen_features(photos, other, "cpu", tmp_path, NoProgress())
    assert np.abs(features).max() < 5


def test_a_file_that_becomes_unreadable_is_named(photos, backbone):
    path = photos.root / photos.inputs[12]
    path.write_bytes(b"no image")
    with pytest.raises(InputError, match=rf"image .*{path.name} cannot be read"):
        frozen_features(photos, backbone, "cpu", None, NoProgress())


def test_memory_is_checked_first(photos, backbone, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(InputError, match="the features of 30 images would take"):
        frozen_features(photos, backbone, "cpu", None, NoProgress())
    assert backbone.module.seen == 0


def test_a_table_has_no_images(backbone):
    with pytest.raises(InputError, match="features of images, but this data is table"):
        frozen_features(open_data(np.eye(12), np.arange(12) % 2), backbone, "cpu", None, NoProgress())


def test_batches_cover_all_rows_and_are_about_equal():
    assert module._batches(range(10, 20), 4) == [[10, 11, 12], [13, 14, 15], [16, 17, 18, 19]]
    assert module._batches(range(3), 8) == [[0, 1, 2]]


def test_the_time_left_is_estimated_from_this_call():
    assert blocks_module._in_words(blocks_module._seconds_left(60, 100, 300)) == ", about 3 min left"
    assert blocks_module._in_words(blocks_module._seconds_left(60, 100, 10)) == ""
    assert blocks_module._in_words(blocks_module._seconds_left(60, 0, 300)) == ""


def test_lite0_separates_30_pictures_of_two_kinds(tmp_path):
    """Stripes and blobs in random colours: the nearest neighbour of most pictures is of the same kind."""
    rng = np.random.default_rng(0)
    down, across = np.mgrid[:96, :96] / 96
    images = []
    for number in range(30):
        shape = (
            np.sin(40 * (down + rng.random())) if number % 2 else 3 * np.exp(-8 * np.hypot(down - 0.5, across - 0.5))
        )
        colour = rng.uniform(40, 200, 3)
        images.append(Image.fromarray(np.clip(colour * (1 + 0.4 * shape[:, :, None]), 0, 255).astype(np.uint8)))
    data = open_data(folder_of(tmp_path, images))
    started = time.monotonic()
    features = frozen_features(data, open_backbone("lite0"), "cpu", None, NoProgress())
    assert time.monotonic() - started < 60
    assert features.shape == (30, 1280)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    nearest = np.argmax(unit @ unit.T - 2 * np.eye(30), axis=1)
    assert (data.labels[nearest] == data.labels).mean() >= 0.9
