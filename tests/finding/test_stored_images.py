"""Images in a folder that Hugging Face datasets saved."""

import base64
import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from PIL import Image

import errata
from errata.errors import DataError, InputError
from errata.finding.candidates import candidates_for
from errata.finding.conflicts import conflicts
from errata.finding.sources import DataSource
from errata.readers.image_files import StoredImages
from errata.report.contents import sample_contents
from errata.review.exports import label_studio_tasks, write_fiftyone

NAMES = ["dark", "bright"]


def drawn(number, width=32, height=32):
    """Pixels (H, W, 3), bright for odd numbers."""
    rng = np.random.default_rng(number)
    return np.clip(rng.normal((50, 200)[number % 2], 20, (height, width, 3)), 0, 255).astype(np.uint8)


def encoded(pixels, kind="PNG", **options):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def save(folder, images, columns=None, more=(), files=2):
    """Write what `save_to_disk` writes: images as {bytes, path}, class numbers `kind`, and other columns."""
    folder.mkdir(parents=True)
    of_images = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    columns = {"kind": [row % 2 for row in range(len(images))]} | (columns or {})
    table = pa.table({"image": pa.array(images, of_images), **columns})
    for name in more:
        table = table.append_column(name, table["image"])
    names = [f"data-{part:05}-of-{files:05}.arrow" for part in range(files)]
    size = -(-len(images) // files)
    for part, name in enumerate(names):
        rows = table.slice(part * size, size)
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, rows.schema) as to:
            to.write_table(rows)
    features = {name: {"_type": "Image"} for name in ("image", *more)}
    features["kind"] = {"names": NAMES, "_type": "ClassLabel"}
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    return folder


def stored(contents):
    return [{"bytes": content, "path": None} for content in contents]


@pytest.fixture
def small(tmp_path):
    """Twelve images of 32 x 32."""
    return save(tmp_path / "small", stored(encoded(drawn(number)) for number in range(12)))


@pytest.fixture
def mixed(tmp_path):
    """Twelve images of different sizes."""
    images = stored(encoded(drawn(number, 24 + number, 30)) for number in range(12))
    return save(tmp_path / "mixed", images, {"name": [f"n{row}" for row in range(12)]})


def opened(folder, **options):
    return DataSource(folder, **({"label": "kind"} | options)).open()


def test_small_images_of_one_size_are_kept_as_pixels(small):
    data = opened(small)
    assert (data.kind, data.classes, data.ids.tolist()) == ("images", ("bright", "dark"), list(range(12)))
    np.testing.assert_array_equal(data.inputs, np.stack([drawn(n).transpose(2, 0, 1) for n in range(12)]))
    assert [data.classes[label] for label in data.labels] == NAMES * 6
    assert data.columns["image"] == "12 images of 32 × 32 pixels"


def test_images_of_different_sizes_are_decoded_on_access(mixed):
    data = opened(mixed, id="name")
    assert data.ids.tolist() == [f"n{row}" for row in range(12)]
    assert data.columns["image"] == "12 images from 24 × 30 to 35 × 30 pixels"
    assert isinstance(data.inputs, StoredImages)
    for place in (0, 11):
        np.testing.assert_array_equal(data.inputs[place], drawn(place, 24 + place, 30).transpose(2, 0, 1))
    some = data.inputs[np.array([3, 1])]
    assert [pixels.shape for pixels in some] == [(3, 30, 27), (3, 30, 25)]


def test_the_network_depends_on_the_image_size(mixed, tmp_path, monkeypatch):
    monkeypatch.setattr("errata.training.gather.choose_device", torch.device)
    large = save(tmp_path / "large", stored(encoded(drawn(number, 90 + number, 70)) for number in range(12)))
    for folder, name in ((mixed, "cnn9"), (large, "resnet18")):
        (candidate,) = candidates_for(opened(folder), "auto", 0, "cuda")
        assert (candidate.name, len(candidate.inputs)) == (name, 12)
        (candidate,) = candidates_for(opened(folder), "auto", 0, "cpu")
        assert (candidate.name, len(candidate.inputs)) == ("cnn4", 12)


def test_images_in_separate_files_are_read(tmp_path):
    folder = save(tmp_path / "set", [{"bytes": None, "path": f"{number}.png"} for number in range(4)])
    for number in range(4):
        (folder / f"{number}.png").write_bytes(encoded(drawn(number)))
    np.testing.assert_array_equal(opened(folder).inputs[3], drawn(3).transpose(2, 0, 1))


def test_images_are_upright_with_a_white_background(tmp_path):
    sideways = Image.Exif()
    sideways[0x0112] = 6
    clear = np.zeros((20, 30, 4), dtype=np.uint8)
    turned = encoded(drawn(0, 20, 30), exif=sideways)
    data = opened(save(tmp_path / "set", stored([turned, encoded(drawn(1, 30, 20)), turned, encoded(clear)])))
    assert data.inputs.shape == (4, 3, 20, 30)
    np.testing.assert_array_equal(data.inputs[0], np.rot90(drawn(0, 20, 30), -1).transpose(2, 0, 1))
    assert (data.inputs[3] == 255).all()


def test_damaged_images_are_named_or_skipped(tmp_path):
    images = stored(encoded(drawn(number)) for number in range(12))
    images[3], images[6], images[9] = {"bytes": b"no picture", "path": None}, None, {"bytes": None, "path": "gone.png"}
    folder = save(tmp_path / "set", images)
    with pytest.raises(DataError, match=r"row 3 of column 'image' of .* \(and 2 other files\) cannot be read"):
        opened(folder)
    data = opened(folder, skip_bad=True)
    assert data.ids.tolist() == [0, 1, 2, 4, 5, 7, 8, 10, 11]
    assert data.rows.tolist() == data.ids.tolist()
    np.testing.assert_array_equal(data.inputs[3], drawn(4).transpose(2, 0, 1))
    (remark,) = data.remarks
    assert remark.startswith("3 files that cannot be read as images are left out: row 3 (")
    assert "row 6 (no image)" in remark
    with pytest.raises(DataError, match="no readable image"):
        opened(save(tmp_path / "none", [None] * 4), skip_bad=True)


def test_rows_without_a_label_are_left_out(tmp_path):
    images = stored(encoded(drawn(number, 20 + number)) for number in range(6))
    data = opened(save(tmp_path / "set", images, {"kind": [0, 1, None, 1, 0, 1]}))
    assert data.rows.tolist() == [0, 1, 3, 4, 5]
    np.testing.assert_array_equal(data.inputs[2], drawn(3, 23).transpose(2, 0, 1))
    assert data.remarks == ("1 row has no label and is left out",)


def test_other_columns_are_left_out_with_a_remark(mixed):
    assert opened(mixed).remarks == ("only the images are used; 1 other column left out: 'name'",)


def test_ambiguous_data_is_refused(mixed, tmp_path):
    with pytest.raises(InputError, match="to train on its text"):
        opened(mixed, text="name")
    twice = save(tmp_path / "twice", stored([encoded(drawn(0))] * 4), more=["mask"])
    with pytest.raises(InputError, match=r"images in the columns 'image' and 'mask'\. Keep one"):
        opened(twice)
    with pytest.raises(InputError, match="Name the column"):
        opened(mixed, label=None)
    with pytest.raises(InputError, match="has no column 'image'"):
        opened(mixed, label="image")


@pytest.mark.parametrize("width", [32, 80])
def test_the_same_image_with_another_label_is_a_conflict(tmp_path, width):
    contents = [encoded(drawn(number, width + number % 2)) for number in range(4)]
    data = opened(save(tmp_path / "set", stored([*contents, contents[1]])))
    assert conflicts(data)["id"].tolist() == [1, 4]
    other = opened(save(tmp_path / "other", stored([*contents, contents[0]])))
    assert other.content_hash != data.content_hash
    assert opened(tmp_path / "set").content_hash == data.content_hash


def picture(address):
    kind, content = address.split(",", 1)
    assert kind.startswith("data:image/")
    return Image.open(io.BytesIO(base64.b64decode(content)))


def test_the_report_shows_images_in_their_shape(mixed, small, tmp_path):
    shown = sample_contents(opened(mixed), np.array([11, 0]), 12, NAMES, tmp_path)
    assert (shown["form"], shown["pixels"], shown["files"]) == ("picture", False, None)
    assert [picture(row).size for row in shown["rows"]] == [(35, 30), (24, 30)]
    brightness = [np.asarray(picture(row).convert("L")).mean() for row in shown["rows"]]
    assert brightness == pytest.approx([200, 50], abs=10)
    assert sample_contents(opened(small), np.array([1]), 12, NAMES, tmp_path)["pixels"] is True


@pytest.fixture
def run(errata_command):
    def run(*arguments):
        code, out, err = errata_command(*arguments)
        assert (code, err) == (0, "")
        return out

    return run


@pytest.mark.parametrize("kind", ["small", "mixed"])
def test_from_the_folder_to_a_corrected_copy(run, kind, request, monkeypatch, tmp_path):
    monkeypatch.setattr("errata.finding.candidates.MAX_IMAGE_EPOCHS", 1)
    monkeypatch.setattr("errata.finding.candidates.MIN_EPOCHS", 1)
    folder = request.getfixturevalue(kind)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert "12 samples in 2 classes, 12 images" in run("find", folder, "--label", "kind")
    assert "data:image/webp" in (tmp_path / "errata-out" / "report.html").read_text(encoding="utf-8")
    decisions = pd.DataFrame({"id": [4], "label": ["dark"], "decision": ["accept"], "new_label": ["bright"]})
    decisions.to_csv("decisions.csv", index=False)
    run("apply", folder, "--decisions", "decisions.csv", "--label", "kind")
    copy = opened(folder.with_name(f"{folder.name}.corrected"))
    assert [copy.classes[label] for label in copy.labels] == [*NAMES * 2, "bright", "bright", *NAMES * 3]
    assert all((ours == theirs).all() for ours, theirs in zip(copy.inputs, opened(folder).inputs, strict=True))
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    run("export", "errata-out", "--to", "label-studio", "--data", folder, "--label", "kind", "--out", "tasks")
    assert "data:image/png" in (tmp_path / "tasks" / "tasks.json").read_text(encoding="utf-8")


def test_images_are_exported_in_full_size(mixed, monkeypatch, tmp_path):
    monkeypatch.setattr("errata.finding.candidates.MAX_IMAGE_EPOCHS", 1)
    monkeypatch.setattr("errata.finding.candidates.MIN_EPOCHS", 1)
    found = errata.find(mixed, "kind")
    first = int(found.ranking["id"].iloc[0])
    (task,) = label_studio_tasks(found, top=1)
    np.testing.assert_array_equal(np.asarray(picture(task["data"]["image"])), drawn(first, 24 + first, 30))
    write_fiftyone(found, tmp_path / "fifty", top=1)
    with Image.open(tmp_path / "fifty" / "data" / f"{first}.png") as image:
        np.testing.assert_array_equal(np.asarray(image), drawn(first, 24 + first, 30))
