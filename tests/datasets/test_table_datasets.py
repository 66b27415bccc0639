"""The datasets that are tables: real files, compared with the paper, and invalid files."""

import errno
import gzip
import itertools
import os
import re
import shutil
import sys
import zipfile
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import iqr, mstats

from errata.datasets import load, load_setting, table_datasets
from errata.datasets.loading import read_verified
from errata.datasets.locations import locate
from errata.datasets.registry import dataset
from errata.datasets.sets import human_activity, mushroom, trec
from errata.datasets.spec import ParsedArrays
from errata.errors import DataError, InputError, MissingDataError

# name: train, test, features, classes
TABLES = {
    "cardiotocography": (1700, 426, 21, 3),
    "credit_fraud": (1107, 369, 30, 2),
    "human_activity": (7352, 2947, None, 6),
    "letter": (15000, 5000, 16, 26),
    "mushroom": (5898, 1966, 67, 2),
    "satellite": (4435, 2000, 36, 6),
    "sensorless_drive": (None, None, 48, 11),
    "digits": (1347, 450, 64, 10),
    "trec": (5452, 500, None, 6),
}
PARTIAL = ("credit_fraud", "human_activity", "sensorless_drive")  # whose real files may be incomplete
SETTINGS = (*(f"{name}-symmetric-20" for name in TABLES), "digits-pairflip-20")
SENSORLESS, SENSORLESS_PART = "Sensorless_drive_diagnosis.txt", "Sensorless_drive_diagnosis_subset.txt"
CREDIT, CREDIT_PART = "creditcard.csv", "creditcard_subset.csv.gz"


@pytest.fixture(scope="module")
def prepared(real_data):
    """A function from a dataset's name to its parsed arrays, its prepared arrays, and the rows of its split."""

    @cache
    def make(name):
        parsed = read_verified(dataset(name), locate(dataset(name), real_data))
        return parsed, *prepare(name, parsed)

    return make


def prepare(name, parsed):
    """The prepared arrays of a dataset, and the training and test rows of its split if it is not official."""
    rows = []
    split = table_datasets.stratified_split
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_datasets, "stratified_split", lambda *values: rows.append(split(*values)) or rows[-1])
        prepared = dataset(name).prepare(parsed)
    return prepared, rows[-1] if rows else None


def put(folder, name, file, content):
    """Write a file into a dataset's folder."""
    place = folder / name / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return place


@pytest.mark.parametrize("name", TABLES)
def test_shapes_and_splits_match_the_paper(prepared, name):
    train, test, features, classes = TABLES[name]
    parsed, content, _ = prepared(name)
    if name == "sensorless_drive":
        rows = len(parsed.arrays["labels"])
        train, test = (43882, 14627) if rows == 58509 else (round(0.75 * rows), rows - round(0.75 * rows))
    arrays = content.arrays
    assert (len(arrays["train_labels"]), len(arrays["test_labels"])) == (train, test)
    columns = arrays["train_inputs"].shape[1] if features is None else features
    assert arrays["train_inputs"].shape == (train, columns)
    assert arrays["test_inputs"].shape == (test, columns)
    assert len(dataset(name).classes) == classes
    for part in ("train", "test"):
        assert arrays[f"{part}_inputs"].dtype == np.float32
        assert np.isfinite(arrays[f"{part}_inputs"]).all()
        assert set(arrays[f"{part}_labels"]) == set(range(classes))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("cardiotocography", (1655, 295, 176)),
        ("credit_fraud", (984, 492)),
        ("human_activity", (1722, 1544, 1406, 1777, 1906, 1944)),
        ("mushroom", (3976, 3888)),
        ("trec", (86 + 9, 1162 + 138, 1250 + 94, 1223 + 65, 835 + 81, 896 + 113)),
    ],
)
def test_class_counts_match_the_published_ones(prepared, name, counts):
    _, content, _ = prepared(name)
    labels = np.concatenate([content.arrays["train_labels"], content.arrays["test_labels"]])
    assert tuple(np.bincount(labels)) == counts == dataset(name).class_counts


@pytest.mark.parametrize("name", ["letter", "digits", "satellite"])
def test_class_counts_are_those_of_the_files(prepared, name):
    _, content, _ = prepared(name)
    labels = np.concatenate([content.arrays["train_labels"], content.arrays["test_labels"]])
    assert tuple(np.bincount(labels)) == dataset(name).class_counts


def test_letters_match_their_labels(prepared):
    parsed, content, (train, _) = prepared("letter")
    assert parsed.arrays["letters"][0] == "T"
    assert parsed.arrays["inputs"][0].tolist() == [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8]
    given = [dataset("letter").classes[label] for label in content.arrays["train_labels"]]
    assert given == parsed.arrays["letters"][train].tolist()


def test_cardiotocography_uses_rates_not_counts(prepared):
    parsed, _, _ = prepared("cardiotocography")
    values = dict(
        zip(import_module("errata.datasets.sets.cardiotocography").FEATURES, parsed.arrays["inputs"].T, strict=True)
    )
    first = {name: column[0] for name, column in values.items()}
    assert (first["LB"], first["ASTV"], first["Width"], first["Tendency"]) == (120, 73, 64, 1)
    assert values["AC"][1] == pytest.approx(4 / (632 - 5))  # four accelerations between seconds 5 and 632
    assert parsed.arrays["labels"][0] == 2


def clip_and_scale(train, test, low, high):
    low, high = mstats.mquantiles(train, [low / 100, high / 100], alphap=1, betap=1)
    train, test = np.minimum(np.maximum(train, low), high), np.minimum(np.maximum(test, low), high)
    return (train - train.mean()) / train.std(), (test - train.mean()) / train.std()


@pytest.mark.parametrize(
    ("name", "column", "low", "high"),
    [
        ("cardiotocography", 0, 2, 98),
        ("cardiotocography", 6, 2, 95),
        ("cardiotocography", 7, 2, 98),
        ("letter", 0, 1, 99),
        ("letter", 15, 1, 99),
        ("sensorless_drive", 7, 2, 98),
        ("sensorless_drive", 40, 2, 98),
        ("credit_fraud", 0, 1, 99),
        ("credit_fraud", 29, 1, 99),
    ],
)
def test_columns_are_clipped_and_scaled_as_in_the_paper(prepared, name, column, low, high):
    parsed, content, (train, test) = prepared(name)
    inputs = drawn_payments(parsed) if name == "credit_fraud" else parsed.arrays["inputs"]
    expected = clip_and_scale(inputs[train, column].astype(float), inputs[test, column].astype(float), low, high)
    np.testing.assert_allclose(content.arrays["train_inputs"][:, column], expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(content.arrays["test_inputs"][:, column], expected[1], rtol=1e-5, atol=1e-6)


def drawn_payments(parsed):
    """The genuine payments that are drawn, then all frauds."""
    genuine = parsed.arrays["genuine"]
    drawn = np.random.default_rng(0).choice(len(genuine), 984, replace=False)
    return np.concatenate([genuine[np.sort(drawn)], parsed.arrays["frauds"]])


def test_every_fraud_is_used_and_genuine_payments_are_drawn_once(prepared):
    parsed, content, (train, test) = prepared("credit_fraud")
    assert len(parsed.arrays["frauds"]) == 492
    assert len(np.unique(np.concatenate([train, test]))) == 1476
    labels = np.concatenate([content.arrays["train_labels"], content.arrays["test_labels"]])
    np.testing.assert_array_equal(labels, np.concatenate([train, test]) >= 984)


def test_components_of_human_activity_are_fitted_on_the_training_rows(prepared):
    parsed = fewer_rows(prepared("human_activity")[0])
    content, _ = prepare("human_activity", parsed)
    train, test = parsed.arrays["train_inputs"], parsed.arrays["test_inputs"]
    deviation = np.where(train.std(axis=0) == 0, 1, train.std(axis=0))
    scaled, scaled_test = (train - train.mean(axis=0)) / deviation, (test - train.mean(axis=0)) / deviation
    variances, directions = np.linalg.eigh(np.cov(scaled.T))
    count = int(np.searchsorted(np.cumsum(variances[::-1]) / variances.sum(), 0.9)) + 1
    assert content.arrays["train_inputs"].shape[1] == count
    assert str(count) in content.remarks[0]
    for component in (0, 1, 5):
        direction = directions[:, -1 - component]
        column, column_test = scaled @ direction, scaled_test @ direction
        if component == 0:
            low, high = mstats.mquantiles(column, [0.01, 0.99], alphap=1, betap=1)
        else:
            low, high = mstats.mquantiles(column, [0.25, 0.75], alphap=1, betap=1) + 1.5 * iqr(column) * np.array(
                [-1, 1]
            )
        actual = content.arrays["test_inputs"][:, component]
        expected = np.minimum(np.maximum(column_test, low), high)
        sign = np.sign(actual @ expected)  # a direction and its opposite are the same component
        if sign < 0:
            expected = np.minimum(np.maximum(-column_test, -high), -low)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def fewer_rows(parsed):
    """The first 500 training and 200 test rows, for a fast decomposition."""
    sizes = {"train": 500, "test": 200}
    return ParsedArrays({name: array[: sizes[name.split("_")[0]]] for name, array in parsed.arrays.items()})


def test_no_person_of_human_activity_is_in_both_parts(prepared):
    parsed, _, _ = prepared("human_activity")
    assert not set(parsed.arrays["train_subjects"]) & set(parsed.arrays["test_subjects"])


MERGED = {
    "cap-shape": "bcs",
    "cap-surface": "fg",
    "cap-color": "bcpru",
    "odor": "cm",
    "gill-color": "eory",
    "stalk-root": "cr",
    "stalk-surface-above-ring": "fy",
    "stalk-color-above-ring": "ceoy",
    "stalk-color-below-ring": "ceoy",
    "veil-color": "noy",
    "ring-number": "nt",
    "ring-type": "fln",
    "spore-print-color": "boruy",
}


def dummies(parsed):
    """Mushrooms with pandas: rare categories merged, dummies without the first level, duplicates dropped."""
    frame = pd.DataFrame(parsed.arrays["attributes"], columns=list(mushroom.CATEGORIES)).drop(columns="veil-type")
    for attribute, rare in MERGED.items():
        frame[attribute] = frame[attribute].replace(dict.fromkeys(rare, "other"))
    many = [name for name in frame if frame[name].nunique() > 2]
    two = {name: frame[name].astype("category").cat.codes for name in frame if name not in many}
    table = pd.get_dummies(frame[many], drop_first=True, prefix_sep="=").assign(**two).astype(float)
    return table.assign(label=parsed.arrays["labels"] == "p").drop_duplicates()


def test_mushrooms_are_encoded_as_with_pandas(prepared):
    parsed, content, (train, test) = prepared("mushroom")
    table = dummies(parsed)
    assert table.shape == (7864, 67 + 1)
    names = [(attribute, f"{attribute}={level}") for attribute, levels in mushroom.LEVELS.items() for level in levels]
    columns = [name if name in table else attribute for attribute, name in names]
    assert sorted(columns) == sorted(set(table) - {"label"})
    values, labels = table[columns].to_numpy(), table["label"].to_numpy()
    np.testing.assert_array_equal(content.arrays["train_labels"], labels[train])
    expected = (values[test] - values[train].mean(axis=0)) / values[train].std(axis=0)
    np.testing.assert_allclose(content.arrays["test_inputs"], expected, rtol=1e-5, atol=1e-6)


def disturbed(name, prepared):
    """Parsed arrays, the same with some test rows changed, and the numbers of these test rows."""
    parsed, _, rows = prepared(name)
    if name == "human_activity":
        parsed = fewer_rows(parsed)
    arrays = {key: array.copy() for key, array in parsed.arrays.items()}
    if name == "trec":
        changed = np.arange(0, 500, 2)
        arrays["test_texts"][changed] = "What zebra of zanzibar zigzags ?"
    elif "test_inputs" in arrays:
        changed = np.arange(0, len(arrays["test_inputs"]), 2)
        arrays["test_inputs"][changed] = 1e6
    elif name == "credit_fraud":
        changed = np.flatnonzero(rows[1] >= 984)
        arrays["frauds"][rows[1][changed] - 984] = 1e6
    elif name == "mushroom":
        changed = np.array([change_mushroom(arrays, dummies(parsed), rows[1])])
    else:
        changed = np.arange(0, len(rows[1]), 2)
        arrays["inputs"][rows[1][changed]] = 1_000_000
    return parsed, ParsedArrays(arrays), changed


def change_mushroom(arrays, table, test):
    """Change one test mushroom that has no duplicate into one that is not in the data."""
    attributes = arrays["attributes"]
    for position, row in enumerate(table.index[test]):
        before = attributes[row].copy()
        has_double = (attributes == before).all(axis=1).sum() > 1
        attributes[row, -1] = "w" if before[-1] != "w" else "d"
        if not has_double and len(dummies(ParsedArrays(arrays))) == len(table):
            return position
        attributes[row] = before
    raise AssertionError("every mushroom has a double")


@pytest.mark.parametrize("name", TABLES)
def test_test_rows_do_not_affect_other_rows(prepared, name):
    parsed, changed_parsed, changed = disturbed(name, prepared)
    before, after = prepare(name, parsed)[0].arrays, prepare(name, changed_parsed)[0].arrays
    np.testing.assert_array_equal(before["train_inputs"], after["train_inputs"])
    np.testing.assert_array_equal(before["test_labels"], after["test_labels"])
    others = np.setdiff1d(np.arange(len(before["test_labels"])), changed)
    np.testing.assert_array_equal(before["test_inputs"][others], after["test_inputs"][others])
    assert (before["test_inputs"][changed] != after["test_inputs"][changed]).any(axis=1).all()


def test_words_of_trec_occur_in_two_training_questions(prepared):
    parsed, content, _ = prepared("trec")
    questions = [set(re.findall(r"\b\w\w+\b", text.lower())) for text in parsed.arrays["train_texts"].tolist()]
    counts = Counter(itertools.chain.from_iterable(questions))
    assert content.arrays["train_inputs"].shape[1] == sum(count >= 2 for count in counts.values())
    np.testing.assert_allclose(np.linalg.norm(content.arrays["train_inputs"][:50], axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_has_the_same_data_and_labels_on_every_load(real_data, name, monkeypatch):
    first = load_setting(name, real_data)
    monkeypatch.setattr("errata.datasets.loading.read_verified", None)  # the second load uses the cache
    second = load_setting(name, real_data)
    for field in ("train_inputs", "train_labels", "test_inputs", "test_labels"):
        np.testing.assert_array_equal(getattr(first.data, field), getattr(second.data, field))
    assert first.noise == second.noise
    assert first.data.content_hash == second.data.content_hash
    np.testing.assert_array_equal(first.given, second.given)

    true, count = np.asarray(first.data.train_labels), len(first.given)
    np.testing.assert_array_equal(first.truth, first.given != true)
    assert first.noise["count"] == first.truth.sum()
    assert abs(first.truth.sum() - 0.2 * count) < 4 * np.sqrt(0.16 * count)
    if "pairflip" in name:
        np.testing.assert_array_equal(first.given[first.truth], (true[first.truth] + 1) % first.data.num_classes)


@pytest.mark.parametrize("name", TABLES)
def test_incomplete_data_is_marked(real_data, name):
    data = load(name, real_data)
    source = locate(dataset(name), real_data).source
    if not data.complete:
        assert any(
            words in " ".join(data.remarks) for words in ("a part of the official file", "the features in X_train.txt")
        )
    if name not in PARTIAL:
        assert data.complete
        assert not data.remarks
    assert data.complete <= source.complete


def test_digits_need_no_file(tmp_path):
    data = load("digits", tmp_path / "nowhere")
    assert data.complete
    assert 0 <= data.train_inputs.min() < data.train_inputs.max() == 1


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("digits", "credit_fraud")])
def test_a_missing_dataset_names_the_fetch_command(tmp_path, name):
    with pytest.raises(MissingDataError, match=f"errata data fetch {name}"):
        load(name, tmp_path)
    assert all(url.startswith("https://") for url in dataset(name).downloads)


def test_missing_payments_come_with_instructions(tmp_path):
    with pytest.raises(MissingDataError, match=r"kaggle\.com/datasets/mlg-ulb/creditcardfraud") as caught:
        load("credit_fraud", tmp_path)
    assert str(tmp_path / "credit_fraud") in str(caught.value)


@pytest.mark.parametrize(
    ("name", "file", "keep", "message"),
    [
        ("letter", "letter-recognition.data", 0.5, "truncated|rows, not 20,000"),
        ("mushroom", "agaricus-lepiota.data", 0.7, "truncated|rows, not 8,124"),
        ("cardiotocography", "CTG.xls", 0.5, "CTG.xls cannot be read"),
        ("cardiotocography", "CTG.xls", 0.999, "CTG.xls cannot be read"),
        ("cardiotocography", "CTG.xls", 0.0, "CTG.xls cannot be read"),
        ("human_activity", "UCI HAR Dataset.zip", 0.5, "UCI HAR Dataset.zip is not a complete archive: it is"),
        ("credit_fraud", CREDIT_PART, 0.5, f"{CREDIT_PART} cannot be read"),
        ("sensorless_drive", SENSORLESS_PART, 0.5, "truncated"),
        ("letter", "letter-recognition.data", 0.0, "cannot be read"),
    ],
)
def test_a_truncated_file_is_refused(real_data, tmp_path, name, file, keep, message):
    content = (real_data / name / file).read_bytes()
    put(tmp_path, name, file, content[: int(keep * len(content))])
    with pytest.raises(DataError, match=message) as caught:
        load(name, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_file_cut_at_the_end_of_a_line_is_refused(real_data, tmp_path):
    lines = (real_data / "letter" / "letter-recognition.data").read_bytes().splitlines(keepends=True)
    put(tmp_path, "letter", "letter-recognition.data", b"".join(lines[:-1]))
    with pytest.raises(DataError, match="19,999 rows, not 20,000"):
        load("letter", tmp_path)
    for file in ("train_5500.label", "TREC_10.label"):
        lines = (real_data / "trec" / file).read_bytes().splitlines(keepends=True)
        put(tmp_path, "trec", file, b"".join(lines[:-7]))
    with pytest.raises(DataError, match=r"train_5500.label has 5,445 rows, not 5,452"):
        load("trec", tmp_path)


@pytest.mark.parametrize(("cut", "rows"), [("sat.trn", "4,434 rows, not 4,435"), ("sat.tst", "1,999 rows, not 2,000")])
def test_the_truncated_one_of_two_files_is_named(real_data, tmp_path, cut, rows):
    for file in ("sat.trn", "sat.tst"):
        lines = (real_data / "satellite" / file).read_bytes().splitlines(keepends=True)
        put(tmp_path, "satellite", file, b"".join(lines[: len(lines) - (file == cut)]))
    with pytest.raises(DataError, match=f"{cut} has {rows}. The file may be truncated"):
        load("satellite", tmp_path)


def test_a_file_without_read_permission_is_named(real_data, tmp_path, monkeypatch):
    shutil.copytree(real_data / "trec", tmp_path / "trec")

    def forbidden(path, *_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "open", forbidden)
    with pytest.raises(DataError, match=r"train_5500\.label cannot be read: Permission denied$"):
        trec.DATASET.sources[0].read(*(tmp_path / "trec" / name for name in trec.FILES))


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "message"),
    [
        ("letter", "letter-recognition.data", b"T,2,8,", b"T,3,8,", "not the official letter"),
        ("letter", "letter-recognition.data", b"I,5,12,", b"J,5,12,", "not the official letter"),
        ("letter", "letter-recognition.data", b"I,5,12,", b"I,5,x,", "line 2 has a cell that is not a number"),
        ("mushroom", "agaricus-lepiota.data", b"\ne,x,s,y", b"\ne,x,y,y", "not the official mushroom"),
        ("mushroom", "agaricus-lepiota.data", b"p,x,s,n", b"p,z,s,n", "line 1 has 'z' as cap-shape"),
        ("trec", "train_5500.label", b"DESC:manner", b"ENTY:cremat", "not the official trec"),
        ("trec", "train_5500.label", b"DESC:manner", b"description", "line 1 must hold a class"),
        ("satellite", "sat.trn", b"92 115 ", b"93 115 ", "not the official satellite"),
        ("satellite", "sat.tst", b" 3\n", b" 6\n", r"sat\.tst: line 1 has 6 as the class"),
    ],
)
def test_other_content_under_the_official_name_is_refused(real_data, tmp_path, name, file, old, new, message):
    for path in (real_data / name).iterdir():
        content = path.read_bytes()
        assert path.name != file or old in content
        put(tmp_path, name, path.name, content.replace(old, new, 1) if path.name == file else content)
    with pytest.raises(DataError, match=message):
        load(name, tmp_path)


def test_the_same_content_in_another_form_passes(real_data, tmp_path):
    content = (real_data / "letter" / "letter-recognition.data").read_bytes()
    put(tmp_path, "letter", "letter-recognition.data", content.replace(b"\n", b"\r\n").replace(b",8,", b",08,"))
    assert load("letter", tmp_path).content_hash == load("letter", real_data).content_hash


@pytest.mark.parametrize(
    ("name", "full", "part", "message"),
    [
        ("sensorless_drive", SENSORLESS, SENSORLESS_PART, "rows, not 58,509. The file may be truncated"),
        ("credit_fraud", CREDIT, CREDIT_PART, "rows, not 284,807. The file may be truncated"),
    ],
)
def test_a_part_under_the_official_name_is_refused(real_data, tmp_path, name, full, part, message):
    content = (real_data / name / part).read_bytes()
    put(tmp_path, name, full, gzip.decompress(content) if part.endswith(".gz") else content)
    with pytest.raises(DataError, match=message):
        load(name, tmp_path)


def synthetic_drives():
    """Synthetic lines, as many as in the official file."""
    rng = np.random.default_rng(5)
    lines = [" ".join(map(str, row)) for row in rng.integers(-9, 9, size=(500, 48))]
    return "".join(f"{lines[number % 500]} {number % 11 + 1}\n" for number in range(58509)).encode()


def test_the_complete_drives_are_preferred_to_a_part(real_data, tmp_path):
    shutil.copytree(real_data / "sensorless_drive", tmp_path / "sensorless_drive")
    (tmp_path / "sensorless_drive").chmod(0o755)
    put(tmp_path, "sensorless_drive", SENSORLESS, synthetic_drives())
    data = load("sensorless_drive", tmp_path)
    assert (len(data.train_labels), len(data.test_labels)) == (43882, 14627)
    assert data.complete
    assert not data.remarks


def test_drives_with_other_class_counts_are_refused(tmp_path):
    put(tmp_path, "sensorless_drive", SENSORLESS, synthetic_drives().replace(b" 3\n", b" 4\n", 1))
    with pytest.raises(DataError, match="5,318 rows of condition 3, not 5,319"):
        load("sensorless_drive", tmp_path)
    put(tmp_path, "sensorless_drive", SENSORLESS, synthetic_drives().replace(b" 3\n", b" 12\n", 1))
    with pytest.raises(DataError, match="line 3 has 12 as the condition"):
        load("sensorless_drive", tmp_path)


def test_a_part_with_too_few_drives_of_a_condition_is_refused(real_data, tmp_path):
    lines = (real_data / "sensorless_drive" / SENSORLESS_PART).read_bytes().splitlines(keepends=True)
    third = [line for line in lines if line.split()[-1] == b"3"]
    others = [line for line in lines if line.split()[-1] != b"3"]
    for rows in (0, 1, 3):
        put(tmp_path, "sensorless_drive", SENSORLESS_PART, b"".join([*others, *third[:rows]]))
        with pytest.raises(DataError, match=f"has {rows} rows of condition 3; at least 4 are needed"):
            load("sensorless_drive", tmp_path)
    few = [[line for line in lines if line.split()[-1] == b"%d" % condition][:4] for condition in range(1, 12)]
    put(tmp_path, "sensorless_drive", SENSORLESS_PART, b"".join(itertools.chain.from_iterable(few)))
    data = load("sensorless_drive", tmp_path)
    assert len(np.unique(data.train_labels)) == len(np.unique(data.test_labels)) == 11


@pytest.mark.parametrize(("frauds", "genuine"), [(492, 983), (491, 2000), (0, 50), (40, 80)])
def test_a_part_with_too_few_payments_is_refused(real_data, tmp_path, frauds, genuine):
    header, *lines = gzip.decompress((real_data / "credit_fraud" / CREDIT_PART).read_bytes()).splitlines(keepends=True)
    kept = [
        [line for line in lines if line.endswith(end)][:count] for end, count in ((b",1\n", frauds), (b",0\n", genuine))
    ]
    put(tmp_path, "credit_fraud", CREDIT_PART, gzip.compress(b"".join([header, *kept[0], *kept[1]])))
    message = f"has {frauds} frauds and {genuine:,} genuine payments. All 492 .* at least 984 .* are needed"
    with pytest.raises(DataError, match=message):
        load("credit_fraud", tmp_path)


@pytest.fixture
def all_payments(real_data):
    """The frauds in the format of Kaggle, and as many synthetic genuine payments as in the official file."""
    header, *lines = gzip.decompress((real_data / "credit_fraud" / CREDIT_PART).read_bytes()).decode().splitlines()
    frauds = [f'{line[:-1]}"1"' for line in lines if line.endswith(",1")]
    genuine = [f'{number},{",".join([f"0.{number}"] * 28)},{number}.5,"0"' for number in range(1, 1001)]
    quoted = ",".join(f'"{name}"' for name in header.split(","))
    return "\n".join([quoted, *frauds, *(genuine * 285)[:284_315], ""])


def test_the_complete_payments_are_preferred_to_a_part(real_data, tmp_path, all_payments):
    put(tmp_path, "credit_fraud", CREDIT_PART, (real_data / "credit_fraud" / CREDIT_PART).read_bytes())
    put(tmp_path, "credit_fraud", CREDIT, all_payments.encode())
    data = load("credit_fraud", tmp_path)
    assert data.complete
    assert not data.remarks
    assert (len(data.train_labels), len(data.test_labels)) == (1107, 369)
    assert load("credit_fraud", real_data).content_hash != data.content_hash


def test_payments_with_changed_frauds_are_refused(tmp_path, all_payments):
    put(tmp_path, "credit_fraud", CREDIT, all_payments.replace('"1"', '"0"', 1).encode())
    with pytest.raises(DataError, match=r"491 frauds and 284,316 genuine payments\. All 492 frauds"):
        load("credit_fraud", tmp_path)
    header, fraud, rest = all_payments.split("\n", 2)
    put(tmp_path, "credit_fraud", CREDIT, "\n".join([header, fraud.replace(".", ".1", 1), rest]).encode())
    with pytest.raises(DataError, match="not the official credit_fraud: the hash of frauds"):
        load("credit_fraud", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Time,V1\n1,2\n", "has no column V2"),
        ("<html>\nno, such\nfile</html>\n", "line 2 has 2 values"),
        ("", "is empty"),
    ],
)
def test_another_table_than_payments_is_refused(tmp_path, text, message):
    put(tmp_path, "credit_fraud", CREDIT, text.encode())
    with pytest.raises(DataError, match=message):
        load("credit_fraud", tmp_path)


def test_cardiotocography_needs_xlrd(real_data, monkeypatch):
    monkeypatch.setitem(sys.modules, "xlrd", None)
    with pytest.raises(InputError, match=r"CTG.xls needs xlrd: pip install 'errata\[data\]'$"):
        load("cardiotocography", real_data)


def test_git_blob_ids():
    assert human_activity.git_blob(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert human_activity.git_blob(b"hello world\n") == "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"


def test_human_activity_is_complete_with_the_official_features(real_data, monkeypatch):
    path = real_data / "human_activity" / "UCI HAR Dataset.zip"
    with zipfile.ZipFile(path) as archive:
        contents = {part: archive.read(f"UCI HAR Dataset/{part}/X_{part}.txt") for part in ("train", "test")}
    blobs = {"train": contents["train"], "test": contents["test"].replace(b"\r\n", b"\n")}
    for complete in (True, False):
        ids = {part: human_activity.git_blob(content if complete else b"")[:8] for part, content in blobs.items()}
        monkeypatch.setattr(human_activity, "OFFICIAL_BLOBS", ids)
        parsed = locate(human_activity.DATASET, real_data).read()
        assert (parsed.complete, not parsed.remarks) == (complete, complete)


def test_human_activity_with_other_labels_is_refused(real_data, tmp_path):
    with zipfile.ZipFile(real_data / "human_activity" / "UCI HAR Dataset.zip") as zipped:
        contents = {name: b"" if "/X_" in name else zipped.read(name) for name in human_activity.FILES}
    name = "UCI HAR Dataset/train/y_train.txt"
    place = put(tmp_path, "human_activity", "UCI HAR Dataset.zip", b"")
    with zipfile.ZipFile(place, "w") as zipped:
        for file, content in contents.items():
            zipped.writestr(file, content.replace(b"5", b"4", 1) if file == name else content)
    with pytest.raises(DataError, match="not the official human_activity: its train labels differ"):
        load("human_activity", tmp_path)
    with zipfile.ZipFile(place, "w") as zipped:
        zipped.writestr("README.txt", "nothing here")
    with pytest.raises(DataError, match=r"Dataset.zip does not contain UCI HAR Dataset/train/X_train.txt"):
        load("human_activity", tmp_path)


@pytest.fixture(scope="module")
def human_activity_data(real_data, tmp_path_factory):
    """Read once, with a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return load("human_activity", real_data)


@pytest.mark.parametrize("own_folder", [True, False])
@pytest.mark.parametrize("form", ["unpacked", "download"])
def test_human_activity_is_read_unpacked_and_from_the_zip_of_uci(
    real_data, human_activity_data, tmp_path, form, own_folder
):
    archive = real_data / "human_activity" / "UCI HAR Dataset.zip"
    folder = tmp_path / "human_activity" if own_folder else tmp_path
    folder.mkdir(exist_ok=True)
    if form == "unpacked":
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(folder)
    else:
        with zipfile.ZipFile(folder / "human+activity+recognition+using+smartphones.zip", "w") as outer:
            outer.write(archive, archive.name)
            outer.writestr("names.txt", "notes")
    data, expected = load("human_activity", tmp_path), human_activity_data
    assert data.content_hash == expected.content_hash
    np.testing.assert_array_equal(data.train_inputs, expected.train_inputs)
    assert data.remarks == expected.remarks


def test_an_error_in_a_zip_in_a_zip_names_both(tmp_path):
    inner = tmp_path / "UCI HAR Dataset.zip"
    with zipfile.ZipFile(inner, "w") as zipped:
        for name in human_activity.FILES:
            zipped.writestr(name, "1\n")
    outer = tmp_path / "human_activity" / "human+activity+recognition+using+smartphones.zip"
    outer.parent.mkdir()
    with zipfile.ZipFile(outer, "w") as zipped:
        zipped.write(inner, inner.name)
    inner.unlink()
    with pytest.raises(DataError) as caught:
        load("human_activity", tmp_path)
    file = "UCI HAR Dataset.zip: UCI HAR Dataset/train/y_train.txt"
    assert str(caught.value) == f"{outer}: {file} is not the official human_activity: its train labels differ"


@pytest.mark.parametrize("name", ["letter", "satellite", "mushroom", "cardiotocography"])
def test_tables_are_read_from_the_zip_of_uci(real_data, tmp_path, name):
    (archive,) = dataset(name).archives
    with zipfile.ZipFile(tmp_path / archive, "w") as zipped:
        for path in (real_data / name).iterdir():
            zipped.write(path, path.name)
    assert load(name, tmp_path).content_hash == load(name, real_data).content_hash
