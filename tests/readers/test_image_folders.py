import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from errata.errors import DataError, InputError
from errata.readers import image_files, open_data


def save_image(path, size=(40, 30), mode="RGB", seed=0):
    """Save a random image and return its pixels (H, W, channels)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], len(mode))
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels, mode=None).save(path)
    return pixels


@pytest.fixture
def photos(tmp_path):
    """Images of different sizes in two class folders."""
    for number, name in enumerate(
        ["cat/1.jpg", "cat/2.PNG", "cat/deep/er/3.webp", "dog/1.bmp", "dog/2.gif", "dog/3.tif"]
    ):
        save_image(tmp_path / name, size=(100 + number, 80), seed=number)
    return tmp_path


class TestImageFiles:
    def test_the_first_folder_is_the_class(self, photos):
        data = open_data(photos)
        assert data.kind == "image files"
        assert data.classes == ("cat", "dog")
        assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
        names = ["cat/1.jpg", "cat/2.PNG", "cat/deep/er/3.webp", "dog/1.bmp", "dog/2.gif", "dog/3.tif"]
        assert data.ids.tolist() == data.inputs.tolist() == names
        assert data.root == photos
        assert all((data.root / path).is_file() for path in data.inputs)
        assert data.columns == {"files": "6 images from 100 × 80 to 105 × 80 pixels"}
        assert data.remarks == ()

    def test_their_paths_can_be_trained_on(self, photos):
        import torch

        from errata.training.model_inputs import ImageFiles

        data = open_data(photos)
        files = ImageFiles([data.root / path for path in data.inputs], [0.5] * 3, [0.2] * 3, decoded_size=16, workers=0)
        (batch,) = files.fetch([torch.arange(data.samples)])
        assert batch.shape == (6, 3, 16, 16)

    def test_other_files_are_ignored_with_a_remark(self, photos):
        for name in ("cat/notes.txt", "dog/LICENSE", ".DS_Store", "cat/.hidden.png", ".git/config.png", "readme.md"):
            (photos / name).parent.mkdir(exist_ok=True)
            (photos / name).write_text("no image")
        save_image(photos / "loose.png")
        (photos / "empty").mkdir()
        data = open_data(photos)
        assert data.samples == 6
        assert data.classes == ("cat", "dog")
        assert "ignored: 2 files of other types (.txt, no suffix)" in data.remarks
        assert "ignored: 1 image outside of class folders" in data.remarks
        assert "ignored: 1 folder without images ('empty')" in data.remarks

    def test_images_have_no_features(self, photos):
        with pytest.raises(InputError, match="Images have no features"):
            open_data(photos).prepare()

    def test_the_hash_depends_on_the_files(self, photos):
        before = open_data(photos).content_hash
        assert open_data(photos).content_hash == before
        save_image(photos / "cat/1.jpg", size=(300, 200), seed=9)
        assert open_data(photos).content_hash != before


class TestBrokenImages:
    def cut(self, path):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    @pytest.mark.parametrize("name", ["cat/1.jpg", "cat/2.PNG", "cat/deep/er/3.webp", "dog/1.bmp", "dog/2.gif"])
    def test_a_truncated_file_is_named(self, photos, name):
        self.cut(photos / name)
        with pytest.raises(DataError) as caught:
            open_data(photos)
        assert str(photos / name) in str(caught.value)
        assert "skip_bad" in str(caught.value)

    def test_unreadable_images_are_skipped_on_request(self, photos):
        (photos / "cat/1.jpg").write_text("not an image at all")
        (photos / "dog/2.gif").write_bytes(b"")
        with pytest.raises(DataError, match=r"1\.jpg \(and 1 other file\) cannot be read as an image"):
            open_data(photos)
        data = open_data(photos, skip_bad=True)
        assert data.ids.tolist() == ["cat/2.PNG", "cat/deep/er/3.webp", "dog/1.bmp", "dog/3.tif"]
        assert data.labels.tolist() == [0, 0, 1, 1]
        assert "2 files that cannot be read as images are left out: cat/1.jpg" in data.remarks[0]
        assert "dog/2.gif" in data.remarks[0]

    def test_long_lists_of_unreadable_images_are_shortened(self, photos):
        for number in range(30):
            (photos / f"cat/bad{number:02}.png").write_text("no")
        (remark,) = open_data(photos, skip_bad=True).remarks
        assert "bad19.png" in remark
        assert "bad20.png" not in remark
        assert remark.endswith("10 more")

    def test_a_folder_without_readable_image_is_refused(self, tmp_path):
        (tmp_path / "cat").mkdir()
        (tmp_path / "cat" / "1.png").write_text("no")
        with pytest.raises(DataError, match="no readable image"):
            open_data(tmp_path, skip_bad=True)

    def test_a_name_that_is_not_utf_8(self, photos, monkeypatch):
        files = image_files._files  # some systems do not allow such a name
        monkeypatch.setattr(
            image_files,
            "_files",
            lambda folder, bad: [*files(folder, bad), folder.parent / "cat" / os.fsdecode(b"\xff.png")],
        )
        with pytest.raises(DataError, match="cannot be read as an image"):
            open_data(photos)
        data = open_data(photos, skip_bad=True)
        assert data.samples == 6
        assert "cat/\\udcff.png" in data.remarks[0]

    def test_a_fifo_is_not_opened(self, photos):
        os.mkfifo(photos / "cat" / "0.png")
        with pytest.raises(DataError, match=r"0\.png cannot be read as an image: not a regular file"):
            open_data(photos)
        data = open_data(photos, skip_bad=True)
        assert data.samples == 6
        assert "cat/0.png (not a regular file)" in data.remarks[0]

    @pytest.mark.parametrize("inner", ["cat", "cat/deep"])
    def test_an_unreadable_folder_is_refused_or_left_out(self, photos, monkeypatch, inner):
        def walk(top, onerror, walk=os.walk):
            for place, folders, names in walk(top):
                if photos / inner in (Path(place), *Path(place).parents):
                    if place == str(photos / inner):
                        onerror(PermissionError(13, "Permission denied", place))
                else:
                    yield place, folders, names

        monkeypatch.setattr(image_files.os, "walk", walk)  # the superuser can read all folders
        save_image(photos / "bird/1.png")
        with pytest.raises(DataError, match=rf"The folder .*{inner} cannot be read: Permission denied\. .*skip_bad"):
            open_data(photos)
        data = open_data(photos, skip_bad=True)
        assert not any(path.startswith(inner) for path in data.ids)
        (remark,) = data.remarks[:1]
        assert f"1 folder that cannot be read is left out: {photos / inner} (Permission denied)" in remark
        assert not any("without images" in remark for remark in data.remarks)


class TestSmallImages:
    def test_small_images_are_kept_in_memory(self, tmp_path):
        drawn = [save_image(tmp_path / f"{kind}/{n}.png", (24, 20), seed=n) for kind in "ab" for n in range(3)]
        data = open_data(tmp_path)
        assert data.kind == "images"
        assert data.root is None
        assert data.inputs.dtype == np.uint8
        np.testing.assert_array_equal(data.inputs, np.stack(drawn).transpose(0, 3, 1, 2))
        assert data.columns == {"files": "6 images of 24 × 20 pixels"}
        assert data.ids[0] == "a/0.png"

    def test_grey_images_become_rgb(self, tmp_path):
        grey = save_image(tmp_path / "a/1.png", (16, 16), "L")
        save_image(tmp_path / "a/2.png", (16, 16))
        save_image(tmp_path / "b/2.png", (16, 16))
        np.testing.assert_array_equal(open_data(tmp_path).inputs[0], np.stack([grey] * 3))

    @pytest.mark.parametrize(("first", "second"), [((65, 20), (65, 20)), ((20, 20), (20, 21))])
    def test_larger_or_different_images_stay_in_files(self, tmp_path, first, second):
        save_image(tmp_path / "a/1.png", first)
        save_image(tmp_path / "a/2.png", first)
        save_image(tmp_path / "b/1.png", second)
        assert open_data(tmp_path).kind == "image files"

    def test_images_that_do_not_fit_into_memory_are_refused(self, tmp_path, monkeypatch):
        save_image(tmp_path / "a/1.png", (16, 16))
        save_image(tmp_path / "a/2.png", (16, 16))
        save_image(tmp_path / "b/1.png", (16, 16))
        monkeypatch.setattr("errata.memory.available_memory", lambda: 100)
        with pytest.raises(InputError, match="3 images of 16 × 16 pixels would take"):
            open_data(tmp_path)


class TestOddFolders:
    def test_pillow_is_needed(self, photos, monkeypatch):
        monkeypatch.setitem(sys.modules, "PIL", None)
        with pytest.raises(InputError, match=r"reading the images in .* needs pillow: pip install 'errata\[images\]'"):
            open_data(photos)

    def test_one_class(self, tmp_path):
        save_image(tmp_path / "cat/1.png")
        with pytest.raises(InputError, match="the only label is 'cat'"):
            open_data(tmp_path)

    def test_images_without_class_folders(self, tmp_path):
        save_image(tmp_path / "1.png")
        with pytest.raises(DataError, match=r"no images in class folders.* It has 1 image outside of class folders"):
            open_data(tmp_path)

    def test_an_empty_folder(self, tmp_path):
        with pytest.raises(DataError, match="no images in class folders"):
            open_data(tmp_path)

    def test_splits_of_a_dataset_are_refused(self, tmp_path):
        for part in ("train", "Test"):
            save_image(tmp_path / part / "cat/1.png")
            save_image(tmp_path / part / "cat/2.png")
            save_image(tmp_path / part / "dog/1.png")
        with pytest.raises(DataError, match="'Test' and 'train': splits"):
            open_data(tmp_path)
        assert open_data(tmp_path / "train").classes == ("cat", "dog")

    def test_labels_and_ids_of_a_folder_cannot_be_passed(self, photos):
        for arguments in ({"label": "y"}, {"id": "name"}, {"text": "caption"}):
            with pytest.raises(InputError, match="the class of an image is its folder"):
                open_data(photos, **arguments)
