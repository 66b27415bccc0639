import os
import sys

import numpy as np
import pytest
from PIL import Image

from errata.errors import DataError, InputError
from errata.readers import folders, open_data


def picture(path, size=(40, 30), mode="RGB", seed=0):
    """A file of noise; gives the pixels (H, W, channels) that were drawn."""
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
        picture(tmp_path / name, size=(100 + number, 80), seed=number)
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

    def test_their_paths_are_what_training_takes(self, photos):
        import torch

        from errata.training.model_inputs import ImageFiles

        data = open_data(photos)
        files = ImageFiles([data.root / path for path in data.inputs], [0.5] * 3, [0.2] * 3, decoded_size=16, workers=0)
        (batch,) = files.fetch([torch.arange(data.samples)])
        assert batch.shape == (6, 3, 16, 16)

    def test_what_is_no_image_is_passed_over(self, photos):
        for name in ("cat/notes.txt", "dog/LICENSE", ".DS_Store", "cat/.hidden.png", ".git/config.png", "readme.md"):
            (photos / name).parent.mkdir(exist_ok=True)
            (photos / name).write_text("no image")
        picture(photos / "loose.png")
        (photos / "empty").mkdir()
        data = open_data(photos)
        assert data.samples == 6
        assert data.classes == ("cat", "dog")
        assert "passed over: 2 files of other kinds (.txt, no ending)" in data.remarks
        assert "passed over: 1 image in no class folder" in data.remarks
        assert "passed over: 1 folder without an image ('empty')" in data.remarks

    def test_there_are_no_features_of_images(self, photos):
        with pytest.raises(InputError, match="images are trained on as they are"):
            open_data(photos).prepare()

    def test_hash_follows_the_files(self, photos):
        before = open_data(photos).content_hash
        assert open_data(photos).content_hash == before
        picture(photos / "cat/1.jpg", size=(300, 200), seed=9)
        assert open_data(photos).content_hash != before


class TestBrokenImages:
    def cut(self, path):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    @pytest.mark.parametrize("name", ["cat/1.jpg", "cat/2.PNG", "cat/deep/er/3.webp", "dog/1.bmp", "dog/2.gif"])
    def test_a_file_cut_in_half_is_named(self, photos, name):
        self.cut(photos / name)
        with pytest.raises(DataError) as caught:
            open_data(photos)
        assert str(photos / name) in str(caught.value)
        assert "skip_bad" in str(caught.value)

    def test_are_counted_and_left_out_only_when_asked(self, photos):
        (photos / "cat/1.jpg").write_text("not an image at all")
        (photos / "dog/2.gif").write_bytes(b"")
        with pytest.raises(DataError, match=r"1\.jpg \(and 1 other file\) cannot be read as an image"):
            open_data(photos)
        data = open_data(photos, skip_bad=True)
        assert data.ids.tolist() == ["cat/2.PNG", "cat/deep/er/3.webp", "dog/1.bmp", "dog/3.tif"]
        assert data.labels.tolist() == [0, 0, 1, 1]
        assert "2 files that cannot be read as images are left out: cat/1.jpg" in data.remarks[0]
        assert "dog/2.gif" in data.remarks[0]

    def test_of_many_the_first_are_listed(self, photos):
        for number in range(30):
            (photos / f"cat/bad{number:02}.png").write_text("no")
        (remark,) = open_data(photos, skip_bad=True).remarks
        assert "bad19.png" in remark
        assert "bad20.png" not in remark
        assert remark.endswith("10 more")

    def test_none_that_can_be_read(self, tmp_path):
        (tmp_path / "cat").mkdir()
        (tmp_path / "cat" / "1.png").write_text("no")
        with pytest.raises(DataError, match="no image that can be read"):
            open_data(tmp_path, skip_bad=True)

    def test_a_name_that_is_not_utf_8(self, photos, monkeypatch):
        files = folders._files  # not every system lets a file have such a name
        monkeypatch.setattr(
            folders, "_files", lambda folder: [*files(folder), folder.parent / "cat" / os.fsdecode(b"\xff.png")]
        )
        with pytest.raises(DataError, match="cannot be read as an image"):
            open_data(photos)
        data = open_data(photos, skip_bad=True)
        assert data.samples == 6
        assert "cat/\\udcff.png" in data.remarks[0]


class TestSmallImages:
    def test_are_held_in_memory(self, tmp_path):
        drawn = [picture(tmp_path / f"{kind}/{n}.png", (24, 20), seed=n) for kind in "ab" for n in range(3)]
        data = open_data(tmp_path)
        assert data.kind == "images"
        assert data.root is None
        assert data.inputs.dtype == np.uint8
        np.testing.assert_array_equal(data.inputs, np.stack(drawn).transpose(0, 3, 1, 2))
        assert data.columns == {"files": "6 images of 24 × 20 pixels"}
        assert data.ids[0] == "a/0.png"

    def test_grey_and_transparent_ones_become_colour(self, tmp_path):
        grey = picture(tmp_path / "a/1.png", (16, 16), "L")
        glass = picture(tmp_path / "b/1.png", (16, 16), "RGBA")
        picture(tmp_path / "b/2.png", (16, 16))
        data = open_data(tmp_path)
        np.testing.assert_array_equal(data.inputs[0], np.stack([grey] * 3))
        np.testing.assert_array_equal(data.inputs[1], glass[..., :3].transpose(2, 0, 1))

    @pytest.mark.parametrize(("first", "second"), [((65, 20), (65, 20)), ((20, 20), (20, 21))])
    def test_larger_or_different_ones_stay_in_files(self, tmp_path, first, second):
        picture(tmp_path / "a/1.png", first)
        picture(tmp_path / "a/2.png", first)
        picture(tmp_path / "b/1.png", second)
        assert open_data(tmp_path).kind == "image files"

    def test_what_cannot_fit_is_refused(self, tmp_path, monkeypatch):
        picture(tmp_path / "a/1.png", (16, 16))
        picture(tmp_path / "a/2.png", (16, 16))
        picture(tmp_path / "b/1.png", (16, 16))
        monkeypatch.setattr("errata.readers.memory.available_memory", lambda: 100)
        with pytest.raises(InputError, match="3 images of 16 × 16 pixels would take"):
            open_data(tmp_path)


class TestOddFolders:
    def test_pillow_is_needed(self, photos, monkeypatch):
        monkeypatch.setitem(sys.modules, "PIL", None)
        with pytest.raises(InputError, match=r"reading the images in .* needs pillow: pip install 'errata\[data\]'$"):
            open_data(photos)

    def test_one_class(self, tmp_path):
        picture(tmp_path / "cat/1.png")
        with pytest.raises(InputError, match="the only label is 'cat'"):
            open_data(tmp_path)

    def test_images_without_class_folders(self, tmp_path):
        picture(tmp_path / "1.png")
        with pytest.raises(DataError, match=r"no images in class folders.*its 1 image lies in no class folder"):
            open_data(tmp_path)

    def test_an_empty_folder(self, tmp_path):
        with pytest.raises(DataError, match="no images in class folders"):
            open_data(tmp_path)

    def test_parts_of_a_dataset_are_no_classes(self, tmp_path):
        for part in ("train", "Test"):
            picture(tmp_path / part / "cat/1.png")
            picture(tmp_path / part / "cat/2.png")
            picture(tmp_path / part / "dog/1.png")
        with pytest.raises(DataError, match="'Test' and 'train', parts of a dataset"):
            open_data(tmp_path)
        assert open_data(tmp_path / "train").classes == ("cat", "dog")

    def test_labels_are_not_given_twice(self, photos):
        for arguments in ({"label": "y"}, {"id": "name"}, {"text": "caption"}):
            with pytest.raises(InputError, match="the class of an image is its folder"):
                open_data(photos, **arguments)
