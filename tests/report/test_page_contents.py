"""What the report shows of samples: pictures, texts, rows and loss curves, compared with independent code."""

import base64
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import sparse
from scipy.special import log_softmax
from sklearn.feature_selection import mutual_info_classif

from errata.dynamics.ids import match_ids
from errata.dynamics.recorder import Recorder
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.readers import open_data
from errata.report import contents as contents_module
from errata.report.contents import loss_curves, sample_contents
from errata.report.table_contents import (
    LONGEST,
    LONGEST_EXCLUDED,
    MOST_COLUMNS,
    MOST_EXCLUDED,
    binned,
)


def contents_for(data, ids, tmp_path, listed=None):
    classes = [str(name) for name in data.classes]
    return sample_contents(data, np.asarray(ids), len(ids) if listed is None else listed, classes, tmp_path)


def pixels_of(address):
    kind, text = address.split(",", 1)
    assert kind == "data:image/webp;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))))


@pytest.fixture
def folder(tmp_path):
    """Two classes of images of different sizes; one is transparent, one has an odd name."""
    rng = np.random.default_rng(0)
    root = tmp_path / "my images"
    for number in range(6):
        own = root / ("red", "blue")[number % 2]
        own.mkdir(parents=True, exist_ok=True)
        colour = np.full((200 + number, 300, 3), (250, 20, 20) if number % 2 == 0 else (20, 20, 250), dtype=np.uint8)
        Image.fromarray(colour + rng.integers(0, 4, colour.shape, dtype=np.uint8)).save(own / f"{number} #ü.png")
    Image.new("RGBA", (300, 100), (0, 0, 0, 0)).save(root / "red" / "clear.png")
    return root


def test_image_files_become_thumbnails_with_a_link_to_the_file(folder, tmp_path):
    data = open_data(folder)
    ids = data.ids[::-1]
    shown = contents_for(data, ids, tmp_path / "errata-out")
    assert shown["form"] == "picture"
    assert shown["files"] == "../my%20images"
    for id_, address in zip(ids, shown["rows"], strict=True):
        pixels = pixels_of(address)
        assert max(pixels.shape) == 128
        wanted = (255, 255, 255) if "clear" in id_ else (251, 21, 21) if "red" in id_ else (21, 21, 251)
        assert np.abs(pixels.mean(axis=(0, 1)) - wanted).max() < 8


def test_a_missing_file_is_counted(folder, tmp_path):
    data = open_data(folder)
    (folder / data.ids[0]).unlink()
    shown = contents_for(data, data.ids, tmp_path)
    assert shown["rows"][0] == ""
    assert all(shown["rows"][1:])
    assert shown["notes"] == ["1 image file could not be read for this page."]


def test_images_in_memory_keep_their_pixels_and_colours(tmp_path):
    images = np.zeros((8, 16, 16, 3), dtype=np.uint8)
    images[:, :, :8, 0] = 240
    images[:, :, 8:, 2] = 240
    data = open_data(images, np.arange(8) % 2)
    pixels = pixels_of(contents_for(data, [3], tmp_path)["rows"][0]).astype(int)
    assert pixels.shape == (16, 16, 3)
    assert pixels[:, :6, 0].min() > 200 > 60 > pixels[:, :6, 2].max()
    assert pixels[:, 10:, 2].min() > 200 > 60 > pixels[:, 10:, 0].max()


def test_contents_are_limited_with_a_note(folder, tmp_path, monkeypatch):
    data = open_data(folder)
    one = len(contents_for(data, data.ids[:1], tmp_path)["rows"][0])
    monkeypatch.setattr(contents_module, "MOST_CHARACTERS", 3 * one)
    shown = contents_for(data, data.ids, tmp_path)
    assert 1 < len(shown["rows"]) < len(data.ids)
    assert f"Pictures are included for the first {len(shown['rows'])} samples" in shown["notes"][0]


def test_without_pillow_a_note_names_the_package(tmp_path, monkeypatch):
    data = open_data(np.zeros((4, 16, 16), dtype=np.uint8), np.arange(4) % 2)
    monkeypatch.setattr(contents_module, "find_spec", lambda name: None)
    assert "pip install 'errata[data]'" in contents_for(data, [0], tmp_path)["notes"][0]


def test_without_the_data_a_note_explains_how_to_pass_them(tmp_path):
    shown = sample_contents(None, np.arange(3), 3, ["a", "b"], tmp_path)
    assert shown["form"] == "nothing"
    assert "shown by their ids only" in shown["notes"][0]


def a_table(samples=400):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, samples)
    frame = pd.DataFrame(
        {
            "row_id": [f"r{number:04}" for number in range(samples)],
            "noise": rng.normal(size=samples),
            "weak": labels + rng.normal(scale=3, size=samples),
            "strong": labels + rng.normal(scale=0.1, size=samples),
            "colour": np.where(rng.random(samples) < 0.9, np.array(["red", "green", "blue"])[labels], "grey"),
            "remark": [f"some words about number {number}" for number in range(samples)],
        }
    )
    frame.loc[::7, "noise"] = np.nan
    return frame, np.array(["x", "y", "z"])[labels]


def test_texts_come_first_then_informative_columns_then_excluded_ones(tmp_path):
    frame, labels = a_table()
    shown = contents_for(open_data(frame, labels), np.arange(400), tmp_path)
    names = [column["name"] for column in shown["columns"]]
    assert names[0] == "remark"
    assert names[-1] == "row_id"
    information = mutual_info_classif(frame[["strong", "weak", "noise"]].fillna(0), labels, random_state=0)
    by_neighbours = np.array(["strong", "weak", "noise"])[np.argsort(-information)].tolist()
    assert [name for name in names if name in by_neighbours] == by_neighbours
    assert set(names[1:3]) == {"strong", "colour"}


@given(values=st.lists(st.one_of(st.none(), st.floats(-5, 5), st.just(1.0)), min_size=1, max_size=80))
def test_bins_of_numbers_are_ordered_and_hold_at_most_a_tenth(values):
    column = pd.Series(values, dtype=float)
    parts = binned(column)
    present = column.notna().to_numpy()
    assert (np.diff(parts[present][np.argsort(column[present], kind="stable")]) >= 0).all()
    if present.any():
        assert not set(parts[present]) & set(parts[~present])
    if column[present].is_unique:
        assert np.bincount(parts[present], minlength=1).max() <= present.sum() / 10 + 1


def test_rows_belong_to_their_samples_and_missing_values_are_empty(tmp_path):
    frame, labels = a_table()
    ids = [7, 399, 1]
    shown = contents_for(open_data(frame, labels), ids, tmp_path)
    for id_, row in zip(ids, shown["rows"], strict=True):
        for column, value in zip(shown["columns"], row, strict=True):
            original = frame[column["name"]][id_]
            if column["number"]:
                wanted = "" if np.isnan(original) else original
                assert value == "" if wanted == "" else float(value) == pytest.approx(wanted, rel=1e-5)
            else:
                assert value == original


def test_typical_is_the_median_or_the_value_of_more_than_half(tmp_path):
    frame, labels = a_table()
    shown = contents_for(open_data(frame, labels), [0], tmp_path)
    for code, own in enumerate("xyz"):
        for column, value in zip(shown["columns"], shown["typical"][code], strict=True):
            values = frame.loc[labels == own, column["name"]]
            if column["number"]:
                assert float(value) == pytest.approx(np.nanmedian(values), rel=1e-5)
            elif column["name"] == "colour":
                assert value == {"x": "red", "y": "green", "z": "blue"}[own]
            else:
                assert value == ""


def test_a_wide_sparse_array_shows_its_informative_columns(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 2
    values = sparse.random(300, 3000, density=0.01, random_state=rng, format="lil")
    values[:, 1234] = (1 + labels)[:, None]
    shown = contents_for(open_data(values.tocsr(), labels), np.arange(300), tmp_path)
    assert shown["columns"][0]["name"] == "column 1234"
    assert [row[0] for row in shown["rows"]] == [str(1 + label) for label in labels]
    assert len(shown["columns"]) == MOST_COLUMNS
    assert f"The {MOST_COLUMNS} most informative of 3,000 columns are shown." in shown["notes"][0]


def a_wide_table(samples=60, **left_out):
    """More columns of numbers than are shown, columns that are left out of the training, and labels."""
    labels = np.arange(samples) % 3
    numbers = np.random.default_rng(2).normal(size=(samples, MOST_COLUMNS + 10))
    frame = pd.DataFrame(numbers, columns=[f"n{number}" for number in range(numbers.shape[1])])
    return frame.assign(**left_out), labels


def excluded(shown):
    return {column["name"]: column["excluded"] for column in shown["columns"] if "excluded" in column}


def test_excluded_columns_come_last_with_the_reason(tmp_path):
    frame, labels = a_wide_table(
        source="web",
        nothing=None,
        passenger=[f"Smith-{number}" for number in range(60)],
        ticket=1e9 + np.arange(60),
        grade=np.array(["low", "high", "top"])[np.arange(60) % 3],
        tags=[[number, "a"] for number in range(60)],
        when=pd.Timestamp("2024-05-01"),
    )
    shown = contents_for(open_data(frame, labels), [7, 3], tmp_path)
    assert excluded(shown) == {
        "passenger": "like an id",
        "ticket": "like an id",
        "grade": "like the label",
        "tags": "nested",
        "source": "constant",
        "nothing": "empty",
        "when": "constant",
    }
    assert [column["name"] for column in shown["columns"][MOST_COLUMNS:]] == list(excluded(shown))
    values = [row[MOST_COLUMNS:] for row in shown["rows"]]
    same = ["web", "", "2024-05-01 00:00:00"]
    assert values[0] == ["Smith-7", "1000000007", "high", "[7, 'a']", *same]
    assert values[1] == ["Smith-3", "1000000003", "low", "[3, 'a']", *same]
    assert {tuple(row[MOST_COLUMNS:]) for row in shown["typical"]} == {("",) * 7}
    assert shown["notes"] == [f"The {MOST_COLUMNS} most informative of {MOST_COLUMNS + 10} columns are shown."]


def test_the_id_column_is_not_shown_again(tmp_path):
    frame, labels = a_table()
    shown = contents_for(open_data(frame.assign(kind=labels), "kind", id="row_id"), ["r0003"], tmp_path)
    assert "row_id" not in [column["name"] for column in shown["columns"]]


def test_excluded_columns_are_limited(tmp_path):
    codes = {f"code{number}": [f"{number}-{row}" for row in range(60)] for number in range(MOST_EXCLUDED)}
    frame, labels = a_wide_table(source="web", long=["x" * 3000 + str(row) for row in range(60)], **codes)
    shown = contents_for(open_data(frame, labels), [5], tmp_path)
    assert list(excluded(shown)) == ["long", *list(codes)[:-1]]
    assert shown["notes"][1] == f"{MOST_EXCLUDED} of the {MOST_EXCLUDED + 2} columns not used for training are shown."
    assert shown["rows"][0][MOST_COLUMNS] == "x" * LONGEST_EXCLUDED + " … (3,001 characters in all)"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"bytes": bytes(10**6), "path": "a.png"}, "{'bytes': 1,000,000 bytes, 'path': 'a.png'}"),
        (b"GIF89a", "6 bytes"),
        (np.arange(3.0), "[0.0, 1.0, 2.0]"),
        (list(range(1000)), f"[{', '.join(map(str, range(20)))}, ...]"),
        ({}, "{}"),
        (None, ""),
    ],
)
def test_the_first_items_of_nested_values_are_shown(tmp_path, value, wanted):
    frame, labels = a_wide_table()
    frame["nested"] = [value, *([[1], [2, 3]] * 30)][:60]
    shown = contents_for(open_data(frame, labels), [0], tmp_path)
    assert excluded(shown) == {"nested": "nested"}
    assert shown["rows"][0][-1] == wanted


def test_a_very_long_text_is_shortened(tmp_path):
    texts = [f"sample {number} has a few words" for number in range(40)]
    texts[3] = "word " * 10_000
    row = contents_for(open_data(texts, np.arange(40) % 2), [3], tmp_path)["rows"][0]
    assert row[0] == texts[3][:LONGEST] + " … (50,000 characters in all)"


def drawn(curves, samples):
    heights = np.frombuffer(base64.b64decode(curves["heights"]), dtype=np.uint8)
    return heights.reshape(samples, -1)


@given(
    samples=st.integers(1, 12),
    epochs=st.integers(1, 90),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
    seed=st.integers(0, 9),
)
def test_curves_are_the_cross_entropy_of_the_given_label(samples, epochs, scale, seed):
    rng = np.random.default_rng(seed)
    logits, labels = scale * rng.normal(size=(epochs, samples, 4)), rng.integers(0, 4, samples)
    ids = np.array([f"id {number}" for number in rng.permutation(samples)])
    order = rng.permutation(samples)
    curves = loss_curves(Dynamics.from_arrays(logits, labels, ids=ids), ids[order], ids[order])
    shown = np.array(curves["epochs"]) - 1
    assert shown[0] == 0
    assert shown[-1] == epochs - 1
    assert len(shown) <= 60
    losses = -np.take_along_axis(log_softmax(logits, axis=2), labels[None, :, None], axis=2)[shown][..., 0].T
    step = curves["top"] / 254
    near = np.abs(drawn(curves, samples) * step - np.clip(losses[order], 0, curves["top"]))
    assert near.max() <= 0.51 * step
    typical = np.clip(np.median(losses, axis=0), 0, curves["top"])
    assert np.abs(np.array(curves["typical"]) * step - typical).max() <= 0.51 * step
    middles = np.median(losses, axis=1)
    assert (middles <= curves["top"] + 1e-9).all()  # of no sample is half the curve cut off


def test_an_epoch_without_the_sample_is_a_gap():
    logits = np.zeros((3, 2, 2))
    logits[1, 0] = np.nan
    dynamics = Dynamics.from_arrays(logits, [0, 1], partial="allow")
    heights = drawn(loss_curves(dynamics, np.arange(2), np.arange(2)), 2)
    assert (heights == 255).tolist() == [[False, True, False], [False, False, False]]


def test_running_sums_have_no_curves():
    recorder = Recorder(labels=[0, 1, 0], keep="stream")
    recorder.update(np.arange(3), np.eye(3)[:, :2])
    recorder.end_epoch()
    assert loss_curves(recorder.finish(), np.arange(3), np.arange(3)) is None


def test_ids_match_as_numbers_or_text_and_an_unknown_one_is_named():
    assert match_ids(np.array([5, 7, 9]), np.array(["9", "5"])).tolist() == [2, 0]
    with pytest.raises(InputError, match="sample 8 is ranked but not in the data"):
        match_ids(np.array([5, 7, 9]), np.array([9, 8]))
