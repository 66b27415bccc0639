"""Tables of mixed columns and texts: how they are parsed, prepared, and made of downloads."""

import json
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from errata.datasets import dataset, load
from errata.datasets.column_tables import parse_columns, prepare_table, prepare_texts
from errata.datasets.dataset_checks import check_dataset
from errata.datasets.fetching import fetch
from errata.datasets.openml_tables import download_table
from errata.datasets.sets import wild
from errata.datasets.table_datasets import stratified_split
from errata.datasets.text_files import INTENTS, read_ag_news, read_clinc
from errata.errors import DataError
from errata.readers import open_data

NAMES = [one.name for one in wild.DATASETS]


def mixed(rows=40):
    """Numbers and categories with gaps, whole numbers, a constant, and two classes."""
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "blue"], rows).astype(object)
    colour[3] = None
    return pd.DataFrame(
        {
            "size": np.where(np.arange(rows) == 5, np.nan, rng.normal(size=rows)),
            "colour": colour,
            "count": rng.integers(0, 90, rows),
            "same": 1.0,
            "label": np.resize(["no", "yes"], rows),
        }
    )


def test_mixed_columns_are_prepared_as_a_users_own_table():
    frame = mixed()
    parsed = parse_columns(frame, ("no", "yes"), "the table")
    assert parsed.arrays["number_columns"].tolist() == ["size", "count", "same"]
    assert parsed.arrays["text_columns"].tolist() == ["colour"]
    assert parsed.arrays["texts"][3, 0] == ""
    prepared = prepare_table(parsed)
    assert prepared.remarks == ("column 'same' is constant and is left out",)
    train, test = stratified_split(parsed.arrays["labels"], 30)
    expected = open_data(frame, "label").prepare(np.sort(train)).matrix
    np.testing.assert_array_equal(prepared.arrays["train_inputs"], expected[train])
    np.testing.assert_array_equal(prepared.arrays["test_inputs"], expected[test])
    np.testing.assert_array_equal(prepared.arrays["test_labels"], (frame["label"] == "yes")[test])
    assert np.isfinite(expected).all()


def test_no_statistic_of_the_test_rows_is_used():
    frame = mixed()
    prepared = prepare_table(parse_columns(frame, ("no", "yes"), "the table")).arrays
    _, test = stratified_split((frame["label"] == "yes").to_numpy().astype(np.int64), 30)
    changed = frame.copy()
    changed.loc[test, "size"] = 1e6
    again = prepare_table(parse_columns(changed, ("no", "yes"), "the table")).arrays
    np.testing.assert_array_equal(prepared["train_inputs"], again["train_inputs"])


def test_texts_become_words():
    frame = pd.DataFrame(
        {"text": np.resize(["a cold beer", "one warm day", "a warm beer"], 40), "label": ["a", "b"] * 20}
    )
    arrays = prepare_texts(parse_columns(frame, ("a", "b"), "the texts")).arrays
    assert arrays["train_inputs"].shape == (30, 12)  # 6 words, 6 pairs of them
    np.testing.assert_allclose(np.linalg.norm(arrays["train_inputs"], axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (mixed().rename(columns={"label": "class"}), "has no column 'label'"),
        (mixed().replace({"label": {"yes": "maybe"}}), "row 1 has the class 'maybe'. Classes: no, yes"),
        (mixed().assign(label=None), "row 0 has the class None"),
    ],
)
def test_a_table_of_other_classes_is_refused(frame, sentence):
    with pytest.raises(DataError, match=sentence):
        parse_columns(frame, ("no", "yes"), "the table")


def openml_answer(counts):
    """What scikit-learn returns for a table of OpenML: numbers, categories with gaps, and a categorical target."""
    target = pd.Series(np.repeat(list(counts), list(counts.values())), name="class", dtype="category")
    rng = np.random.default_rng(0)
    purpose = pd.Series(rng.choice(["car", "house"], len(target)))
    purpose[::10] = None
    inputs = pd.DataFrame({"amount": rng.integers(0, 999, len(target)), "purpose": purpose.astype("category")})
    return Bunch(data=inputs, target=target, frame=inputs.assign(**{"class": target}))


@pytest.fixture
def openml(monkeypatch):
    """OpenML with one table; what it was asked for."""
    asked = []

    def serve(answer):
        def fetch_openml(**options):
            asked.append(options)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
        return asked

    return serve


@pytest.mark.parametrize(
    ("name", "counts", "size"),
    [
        ("german", {"good": 700, "bad": 300}, 1000),
        (
            "nursery",
            {"not_recom": 4320, "recommend": 2, "priority": 4266, "spec_prior": 4044, "very_recom": 328},
            12_958,
        ),
    ],
)
def test_a_table_of_openml_becomes_a_complete_file(openml, tmp_path, name, counts, size):
    asked = openml(openml_answer(counts))
    assert fetch(dataset(name), tmp_path) == [tmp_path / name / f"{name}.parquet"]
    assert [options["data_id"] for options in asked] == [dataset(name).openml.data_id]
    assert [path.name for path in (tmp_path / name).iterdir()] == [f"{name}.parquet"]
    assert not list(tmp_path.glob(".fetching-*"))
    data = load(name, tmp_path)
    assert data.complete
    assert data.remarks == ()
    assert len(data.train_labels) + len(data.test_labels) == size
    assert data.train_inputs.shape[1] == 4  # the amount, two purposes, no purpose
    assert fetch(dataset(name), tmp_path)  # nothing is downloaded again
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (URLError("no route to host"), "Table 31 of OpenML cannot be downloaded: .*no route to host"),
        (openml_answer({"good": 700, "bad": 299}), "class 2 of german.parquet has 299 rows, not 300"),
        (openml_answer({"good": 700, "worse": 300}), "row 700 has the class 'worse'"),
    ],
)
def test_a_failed_or_other_table_leaves_nothing_behind(openml, tmp_path, answer, sentence):
    openml(answer)
    with pytest.raises(DataError, match=sentence):
        fetch(dataset("german"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_download_is_used_in_place_of_a_part(openml, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "adult.parquet").write_bytes(b"not read")
    openml(openml_answer({"<=50K": 37_155, ">50K": 11_687}))
    path = tmp_path / "adult" / "adult.parquet"
    path.parent.mkdir()
    assert download_table(dataset("adult").openml, path) == path
    assert load("adult", tmp_path).complete


def test_the_command_says_how_to_get_a_table(errata_command, tmp_path):
    code, out, _ = errata_command("data", "check", "adult", "--data-dir", tmp_path)
    assert code == 0
    assert "errata data fetch adult" in out


def test_another_file_in_place_of_the_copy_is_refused(tmp_path):
    (tmp_path / "more").mkdir()
    mixed().assign(label=np.resize(["1", "2"], 40)).to_parquet(tmp_path / "more" / "german.parquet")
    with pytest.raises(DataError, match="is not the known copy of german"):
        load("german", tmp_path)
    assert [check.what for check in check_dataset(dataset("german"), tmp_path) if check.passed is False] == [
        "hash of the content"
    ]


def test_ag_news_joins_title_and_description(tmp_path):
    lines = [f'"{row % 4 + 1}","Title {row}","A ""quoted"" line, NA"' for row in range(7600)]
    path = tmp_path / "test.csv"
    path.write_text("\n".join(lines))
    arrays = read_ag_news(path).arrays
    assert arrays["texts"][5, 0] == 'Title 5 A "quoted" line, NA'
    np.testing.assert_array_equal(arrays["labels"], np.arange(7600) % 4)
    path.write_text("\n".join(lines[:-1]))
    with pytest.raises(DataError, match="7,599 rows, not 7,600"):
        read_ag_news(path)
    path.write_text("1,a title\n2,another\n")
    with pytest.raises(DataError, match="has 2 columns, not 3"):
        read_ag_news(path)


def test_clinc_has_the_questions_of_all_parts_without_those_out_of_scope(tmp_path):
    parts = {"train": 15_000, "val": 3000, "test": 4500}
    content = {part: [[f"{part} {row}", INTENTS[row % 150]] for row in range(size)] for part, size in parts.items()}
    path = tmp_path / "data_full.json"
    path.write_text(json.dumps(content | {"oos_test": [["what is love", "oos"]]}))
    arrays = read_clinc(path).arrays
    assert arrays["texts"][[0, 15_000, -1], 0].tolist() == ["train 0", "val 0", "test 4499"]
    assert set(np.bincount(arrays["labels"])) == {150}
    path.write_text(json.dumps(content | {"val": {}}))
    with pytest.raises(DataError, match="no list of pairs under 'val'"):
        read_clinc(path)
    path.write_text("[]")
    with pytest.raises(DataError, match="no list of pairs under 'train'"):
        read_clinc(path)


@pytest.mark.parametrize("name", NAMES)
def test_the_copies_have_the_sizes_of_their_list(real_data, name):
    sizes = pd.read_csv(real_data / "more" / "sizes.csv", index_col="name").loc[name]
    data = load(name, real_data)
    labels = np.concatenate([data.train_labels, data.test_labels])
    counts = np.bincount(labels)
    assert (len(labels), len(counts), counts.min(), counts.max()) == tuple(
        sizes[["rows", "classes", "smallest", "largest"]]
    )
    assert len(data.classes) == len(counts)
    assert data.complete == (name not in ("shuttle", "adult", "nursery", "clinc150"))
    assert data.complete or "a random part of the official data" in data.remarks[0]
    assert set(np.bincount(data.train_labels, minlength=len(counts)) > 1) == {True}
