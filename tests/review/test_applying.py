import csv
import gzip
import hashlib
import json
import os
import zipfile
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import errata
from errata.errors import ErrataError
from errata.readers import open_data
from errata.review.correction_plan import classes_for_text, plan_corrections
from errata.review.decisions import Decisions
from errata.review.writers.text_tables import TextTable

ANT, BEE = "ant", "bee"


def decided(*rows):
    """Decisions from (id, label, decision, new label)."""
    return pd.DataFrame(rows, columns=["id", "label", "decision", "new_label"])


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def bees(tmp_path):
    """A CSV file that is written in its own way: quotes, spaces, leading zeros, blank labels, lines that are empty."""
    lines = [
        "code;text;kind;size",
        '007;"one; two";ant;1.50',
        "008;  spaced ;bee;2",
        '"009";"says ""hi""";ant;3',
        "",
        "010;no label;;4",
        '011;"two\r\nlines";bee;05.0',
        "012;last;bee;6",
    ]
    path = tmp_path / "bees.csv"
    path.write_bytes("\r\n".join(lines).encode())
    return path


# Text files.


def test_of_a_csv_file_nothing_changes_but_the_rows_that_are_relabelled(bees):
    before = bees.read_bytes()
    applied = errata.apply(
        bees, decided(("008", BEE, "accept", ANT), ("007", ANT, "keep", "")), label="kind", id="code"
    )
    assert applied.copy == bees.with_name("bees.corrected.csv")
    assert applied.copy.read_bytes() == before.replace(b"spaced ;bee", b"spaced ;ant")
    assert bees.read_bytes() == before
    assert applied.plan.counts == Counter({"kept": 1, "changed": 1, "undecided": 3})


def test_a_row_that_needs_quotes_keeps_its_values(bees):
    applied = errata.apply(bees, decided(("011", BEE, "accept", ANT)), label="kind", id="code")
    assert b'011;"two\r\nlines";ant;05.0\r\n' in applied.copy.read_bytes()
    new = errata.apply(
        bees, decided(("011", BEE, "relabel", "a;b")), label="kind", id="code", out=bees.with_name("b.csv")
    )
    assert b'011;"two\r\nlines";"a;b";05.0\r\n' in new.copy.read_bytes()


def test_a_cell_may_be_very_long(tmp_path):
    path, story = tmp_path / "long.csv", "once, " * 50_000
    path.write_text(f'text,kind\n"{story}",ant\nx,bee\ny,ant\nz,bee\n')
    applied = errata.apply(path, decided((0, ANT, "accept", BEE)), label="kind")
    assert applied.copy.read_text() == path.read_text().replace('",ant', '",bee')


def test_rows_without_a_label_keep_their_number_and_are_left_alone(bees):
    applied = errata.apply(bees, decided((4, BEE, "accept", ANT)), label="kind")
    assert applied.copy.read_bytes() == bees.read_bytes().replace(b";bee;05.0", b";ant;05.0")
    with pytest.raises(ErrataError, match=r"no labelled sample of .* has the id"):
        plan_corrections(bees, decided((3, BEE, "accept", ANT)), label="kind")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_text_stays_encoded_as_it_was(tmp_path, encoding):
    text = "name,kind\ncafé,ant\nthé,bee\n" + "x,ant\ny,bee\n" * 3
    path = tmp_path / "menu.csv.gz"
    path.write_bytes(gzip.compress(text.encode(encoding)))
    applied = errata.apply(path, decided((0, ANT, "accept", BEE)), label="kind")
    assert applied.copy.name == "menu.corrected.csv.gz"
    assert gzip.decompress(applied.copy.read_bytes()) == text.replace("café,ant", "café,bee").encode(encoding)


def test_a_label_that_the_encoding_lacks_is_refused(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_bytes("name,kind\ncafé,ant\nthé,bee\nx,ant\ny,bee\n".encode("latin-1"))
    with pytest.raises(ErrataError, match=r"cannot represent the label '猫'. Convert the file to UTF-8"):
        plan_corrections(path, decided((0, ANT, "relabel", "猫")), label="kind")


def test_tabs_without_quotes_stay_without_quotes(tmp_path):
    path = tmp_path / "data.tsv"
    path.write_text('a\tkind\n5" nail\tant\n"x\tbee\ny\tant\nz\tbee\n')
    applied = errata.apply(path, decided((0, ANT, "accept", BEE)), label="kind")
    assert applied.copy.read_text() == path.read_text().replace('5" nail\tant', '5" nail\tbee')
    with pytest.raises(ErrataError, match="does not use quotes"):
        plan_corrections(path, decided((0, ANT, "relabel", "a\tb")), label="kind")


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


@given(
    rows=st.lists(st.tuples(CELL, st.sampled_from([ANT, BEE, "a, b", 'c"d'])), min_size=4, max_size=12),
    changed=st.sets(st.integers(0, 11)),
    drop=st.booleans(),
)
def test_any_csv_file_read_back_has_the_new_labels_and_all_other_values(tmp_path_factory, rows, changed, drop):
    rows = [(ANT, ANT), (BEE, ANT), (ANT, BEE), (BEE, BEE), *rows]
    path = tmp_path_factory.mktemp("any") / "data.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "kind"), *rows])
    wanted = {row: BEE if rows[row][1] == ANT else ANT for row in changed if row < len(rows)}
    decisions = decided(*((row, rows[row][1], "relabel", new) for row, new in wanted.items()), (0, ANT, "keep", ""))
    decisions = decisions.drop_duplicates("id")
    applied = errata.apply(path, decisions, label="kind", drop=drop)
    with applied.copy.open(newline="", encoding="utf-8") as file:
        _, *there = map(tuple, csv.reader(file))
    expected = [
        (text, wanted.get(row, label)) for row, (text, label) in enumerate(rows) if not (drop and row in wanted)
    ]
    assert there == expected


def test_of_json_lines_nothing_but_the_label_is_written_anew(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text(
        '{"a": 1.10, "kind" : "ant", "deep": {"kind": "no"}}\n\n{"kind":"bee","a":1e3}\n'
        '{"a": 1e400, "kind": "\\u0062ee"}\n{"a": 2}\n{"kind": "ant", "a": 0}'
    )
    applied = errata.apply(path, decided((0, ANT, "accept", BEE), (2, BEE, "accept", ANT)), label="kind")
    assert applied.copy.read_text() == (
        '{"a": 1.10, "kind" : "bee", "deep": {"kind": "no"}}\n\n{"kind":"bee","a":1e3}\n'
        '{"a": 1e400, "kind": "ant"}\n{"a": 2}\n{"kind": "ant", "a": 0}'
    )


RECORDS = '[ {"kind": true, "a": 1},\n  {"kind": false, "a": 2},\n  {"kind": true, "a": 3}, {"kind": false, "a": 4} ]\n'
COLUMNS = '{"a": [1, 2, 3, 4],\n "kind": [true, false, true, false]}'


@pytest.mark.parametrize("text", [RECORDS, COLUMNS])
def test_json_of_records_and_of_columns(tmp_path, text):
    path = tmp_path / "data.json"
    path.write_text(text)
    applied = errata.apply(path, decided((0, "True", "accept", "False")), label="kind")
    assert applied.copy.read_text() == text.replace("true", "false", 1)
    left = errata.apply(path, decided((0, "TRUE", "accept", "FALSE")), label="kind", drop=True, out=tmp_path / "b.json")
    content = json.loads(left.copy.read_text())
    table = pd.DataFrame(content)
    assert table[["a", "kind"]].to_numpy().tolist() == [[2, False], [3, True], [4, False]]


def test_json_lines_may_go_by_the_name_of_json(tmp_path):
    path = tmp_path / "data.json"
    path.write_text("".join(f'{{"a": {row}, "kind": {row % 2}}}\n' for row in range(6)))
    applied = errata.apply(path, decided((1, "1", "accept", "0")), label="kind")
    assert applied.copy.read_text() == path.read_text().replace('"a": 1, "kind": 1', '"a": 1, "kind": 0')


def test_a_row_that_can_be_read_in_two_ways_is_refused_and_nothing_is_written(bees):
    planned = plan_corrections(bees, decided(("008", BEE, "accept", ANT)), label="kind", id="code")
    change = planned.edits.entries[0]
    other = type(planned.edits)((type(change)(0, BEE, ANT, 2, change.decision),), False)  # row 0 is an ant
    assert isinstance(planned.writer, TextTable)
    with pytest.raises(ErrataError, match=r"row 0 .* does not have the label 'bee'"):
        planned.writer.write(other, bees.with_name("copy.csv"), lambda files: None)
    assert [path.name for path in bees.parent.iterdir()] == ["bees.csv"]


# Parquet, arrays, saved datasets.


@pytest.mark.parametrize("kind", ["text", "whole", "yes/no", "category", "gaps"])
def test_parquet_keeps_every_type(tmp_path, kind):
    labels = {
        "text": pa.array([ANT, BEE] * 5),
        "whole": pa.array([1, 2] * 5, pa.int8()),
        "yes/no": pa.array([False, True] * 5),
        "category": pa.array([ANT, BEE] * 5).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
        "gaps": pa.array([None, 2, 1, 2, 1, 2, 1, 2, 1, None], pa.int64()),
    }[kind]
    table = pa.table(
        {
            "when": pa.array(range(10), pa.timestamp("ns")),
            "kind": labels,
            "sizes": pa.array([[1, 2]] * 10, pa.list_(pa.int16())),
            "real": pa.array(np.linspace(0, 1, 10), pa.float32()),
        }
    ).replace_schema_metadata({"mine": "kept"})
    path = tmp_path / "data.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=4)
    before, after = (str(labels[row].as_py()) for row in (2, 3))
    applied = errata.apply(
        path, decided((2, before, "accept", after), (9, after, "skip", "")), label="kind", skip_stale=True
    )
    copy = pq.read_table(applied.copy)
    assert copy.schema.equals(pq.read_schema(path), check_metadata=True)
    expected = labels.to_pylist()
    expected[2] = expected[3]
    assert copy.column("kind").to_pylist() == expected
    assert copy.drop(["kind"]).to_pylist() == table.drop(["kind"]).to_pylist()
    written = pq.ParquetFile(applied.copy).metadata
    assert (written.num_row_groups, written.row_group(0).column(0).compression) == (3, "ZSTD")
    left = errata.apply(
        path, decided((2, before, "accept", after)), label="kind", drop=True, out=tmp_path / "left.parquet"
    )
    assert pq.read_table(left.copy).to_pylist() == table.take([row for row in range(10) if row != 2]).to_pylist()


def test_parquet_takes_new_classes_of_its_type_and_no_others(tmp_path):
    for name, labels in (("category", pa.array([ANT, BEE] * 5).dictionary_encode()), ("number", pa.array([1, 2] * 5))):
        pq.write_table(pa.table({"a": range(10), "kind": labels}), tmp_path / f"{name}.parquet")
    named = errata.apply(tmp_path / "category.parquet", decided((0, ANT, "relabel", "cat")), label="kind")
    assert pq.read_table(named.copy).column("kind").to_pylist() == ["cat", BEE, *[ANT, BEE] * 4]
    assert any("'cat' is new" in remark for remark in named.remarks)
    numbered = errata.apply(tmp_path / "number.parquet", decided((0, 1.0, "relabel", 3.0)), label="kind")
    assert pq.read_table(numbered.copy).column("kind").to_pylist() == [3, 2, *[1, 2] * 4]
    with pytest.raises(ErrataError, match="has the type int64, which cannot hold the new label 'cat'"):
        plan_corrections(tmp_path / "number.parquet", decided((0, 1, "relabel", "cat")), label="kind")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_stay_as_they_are_beside_the_labels(tmp_path, save):
    inputs = np.random.default_rng(0).normal(size=(8, 3))
    save(tmp_path / "data.npz", X=inputs, y=np.array([ANT, BEE] * 4), note=np.array("mine"))
    applied = errata.apply(tmp_path / "data.npz", decided((0, ANT, "accept", BEE), (2, ANT, "relabel", "caterpillar")))
    with np.load(applied.copy) as arrays:
        assert arrays["y"].tolist() == [BEE, BEE, "caterpillar", BEE, *[ANT, BEE] * 2]
    with zipfile.ZipFile(tmp_path / "data.npz") as old, zipfile.ZipFile(applied.copy) as new:
        assert [entry.compress_type for entry in old.infolist()] == [entry.compress_type for entry in new.infolist()]
        for name in ("X.npy", "note.npy"):
            assert old.read(name) == new.read(name)
    left = errata.apply(tmp_path / "data.npz", decided((0, ANT, "accept", BEE)), drop=True, out=tmp_path / "left.npz")
    with np.load(left.copy) as arrays:
        np.testing.assert_array_equal(arrays["X"], inputs[1:])
        assert arrays["y"].tolist() == [BEE, *[ANT, BEE] * 3]
        assert arrays["note"] == "mine"


def test_numbers_with_names_are_relabelled_by_name(tmp_path):
    names = np.array(["setosa", "virginica"])
    np.savez(tmp_path / "flat.npz", data=np.eye(6), target=np.array([0, 1] * 3), target_names=names)
    flat = errata.apply(tmp_path / "flat.npz", decided((0, "setosa", "accept", "virginica")))
    with np.load(flat.copy) as arrays:
        assert arrays["target"].tolist() == [1, 1, 0, 1, 0, 1]
    with pytest.raises(ErrataError, match="cannot hold the new label 'lily'"):
        plan_corrections(tmp_path / "flat.npz", decided((0, "setosa", "relabel", "lily")))


def test_of_labels_in_a_file_of_their_own_only_these_are_copied(tmp_path):
    np.save(tmp_path / "X.npy", np.eye(6))
    np.save(tmp_path / "y.npy", np.array([[0], [1]] * 3, dtype=np.int16))
    applied = errata.apply(tmp_path / "X.npy", decided((0, 0, "accept", 1)), label=str(tmp_path / "y.npy"))
    assert applied.copy == tmp_path / "y.corrected.npy"
    labels = np.load(applied.copy)
    assert (labels.dtype, labels.tolist()) == (np.int16, [[1], [1], [0], [1], [0], [1]])
    with pytest.raises(ErrataError, match=r"in one .npz"):
        plan_corrections(tmp_path / "X.npy", decided((0, 0, "accept", 1)), label=str(tmp_path / "y.npy"), drop=True)


def saved_dataset(folder, names=(ANT, BEE)):
    """A folder as Hugging Face datasets saves it: two files, class numbers, what the columns are in the schema."""
    features = {"a": {"dtype": "int64", "_type": "Value"}, "kind": {"names": list(names), "_type": "ClassLabel"}}
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"a": range(10), "kind": pa.array([0, 1] * 5)}).replace_schema_metadata(about)
    folder.mkdir()
    files = [f"data-0000{part}-of-00002.arrow" for part in range(2)]
    for part, name in enumerate(files):
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as to:
            to.write_table(table.slice(6 * part, 6))
    state = {"_data_files": [{"filename": name} for name in files], "_fingerprint": "first", "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    splits = {"train": {"name": "train", "num_examples": 10}}
    (folder / "dataset_info.json").write_text(json.dumps({"features": features, "splits": splits}))
    return folder


def arrow(file):
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_stream(source).read_all()


def test_a_saved_dataset_is_saved_again_with_other_class_numbers(tmp_path):
    folder = saved_dataset(tmp_path / "set")
    before = contents(folder)
    decisions = decided((0, ANT, "accept", BEE), (7, BEE, "relabel", "cat"))
    applied = errata.apply(folder, decisions, label="kind")
    assert applied.copy == tmp_path / "set.corrected"
    assert contents(folder) == before
    tables = [arrow(file) for file in sorted(applied.copy.glob("*.arrow"))]
    assert [len(table) for table in tables] == [6, 4]
    assert pa.concat_tables(tables).column("kind").to_pylist() == [1, 1, 0, 1, 0, 1, 0, 2, 0, 1]
    described = json.loads(tables[0].schema.metadata[b"huggingface"])["info"]["features"]["kind"]
    info = json.loads((applied.copy / "dataset_info.json").read_text())
    assert described["names"] == info["features"]["kind"]["names"] == [ANT, BEE, "cat"]
    assert json.loads((applied.copy / "state.json").read_text())["_fingerprint"] != "first"
    left = errata.apply(folder, decisions, label="kind", drop=True, out=tmp_path / "left")
    assert sum(len(arrow(file)) for file in left.copy.glob("*.arrow")) == 8
    assert json.loads((left.copy / "dataset_info.json").read_text())["splits"]["train"]["num_examples"] == 8


# Folders of images.


@pytest.fixture
def pictures(tmp_path):
    """Three images in each of two folders, some of the same name, and a note."""
    root = tmp_path / "pictures"
    for name, shade in ((ANT, 0), (BEE, 200)):
        (root / name / "deep").mkdir(parents=True)
        for number, place in enumerate(("1.png", "2.png", "deep/3.png")):
            Image.new("RGB", (20, 20), (shade + number,) * 3).save(root / name / place)
    (root / ANT / "note.txt").write_text("mine")
    (root / ANT / ".hidden").write_text("")
    return root


def test_an_image_moves_to_the_folder_of_its_new_class(pictures):
    before = contents(pictures)
    decisions = decided(
        ("ant/1.png", ANT, "accept", BEE), ("ant/deep/3.png", ANT, "relabel", "cat"), ("bee/2.png", BEE, "keep", "")
    )
    applied = errata.apply(pictures, decisions)
    moved = {"ant/1.png": "bee/1.from-ant.png", "ant/deep/3.png": "cat/deep/3.png"}
    assert contents(applied.copy) == {
        moved.get(name, name): hash_ for name, hash_ in before.items() if "hidden" not in name
    }
    assert contents(pictures) == before
    assert dict(zip(applied.changes["id"], applied.changes["new_id"], strict=True)) == moved
    assert any("copies" in remark for remark in applied.remarks)
    assert (applied.copy / "ant/2.png").stat().st_nlink == 1


def test_two_images_may_change_places(pictures):
    decisions = decided(("ant/1.png", ANT, "accept", BEE), ("bee/1.png", BEE, "accept", ANT))
    before, applied = contents(pictures), errata.apply(pictures, decisions)
    after = contents(applied.copy)
    assert (after["bee/1.png"], after["ant/1.png"]) == (before["ant/1.png"], before["bee/1.png"])


def test_linked_images_take_no_room_and_that_is_said(pictures):
    applied = errata.apply(pictures, decided(("ant/2.png", ANT, "accept", BEE)), link=True)
    assert (applied.copy / "bee/2.from-ant.png").samefile(pictures / "ant/2.png")
    assert any("changes the original too" in remark for remark in applied.remarks)


def test_images_are_left_out_of_the_copy(pictures):
    applied = errata.apply(pictures, decided(("ant/2.png", ANT, "accept", BEE)), drop=True)
    assert set(contents(pictures)) - set(contents(applied.copy)) == {"ant/2.png", "ant/.hidden"}
    assert applied.changes[["after", "new_id", "decision"]].to_numpy().tolist() == [["", "", "drop"]]


def test_a_disk_without_room_is_said_before_anything_is_copied(pictures, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10}))
    with pytest.raises(ErrataError, match=r"needs 0.0 GB, but .* has 0.0 GB free.*--link"):
        errata.apply(pictures, decided(("ant/1.png", ANT, "accept", BEE)))
    assert errata.apply(pictures, decided(("ant/1.png", ANT, "accept", BEE)), link=True).plan.counts["changed"] == 1


def test_a_copy_that_fails_leaves_nothing_behind(pictures, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copy2", full)
    with pytest.raises(ErrataError, match=r"pictures.corrected cannot be written: No space left"):
        errata.apply(pictures, decided(("ant/1.png", ANT, "accept", BEE)))
    assert [path.name for path in pictures.parent.iterdir()] == ["pictures"]


@pytest.mark.parametrize("name", ["../out", ".hidden", "a/b", " x"])
def test_a_class_that_cannot_be_a_folder_is_refused(pictures, name):
    with pytest.raises(ErrataError, match="cannot be the name of a folder"):
        plan_corrections(pictures, decided(("ant/1.png", ANT, "relabel", name)))


# Decisions.


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    pd.DataFrame({"a": range(8), "kind": [ANT, BEE] * 4}).to_csv(path, index=False)
    return path


def test_a_file_of_decisions_is_read_as_the_report_and_spreadsheets_write_it(table, tmp_path):
    made = [("0", ANT, "accept", BEE), ("1", BEE, "keep", ""), ("2", ANT, "skip", "")]
    for text in (
        "id,label,decision,new_label\n0,ant,accept,bee\n1,bee,keep,\n2,ant,skip,\n",
        "\ufeffid;label;decision;new_label\r\n0;ant;Accept;bee\r\n1;bee;KEEP;\r\n2;ant;skip;\r\n",
        'who,new_label,decision,label,id\nme,bee,accept,ant,0\nme,,keep,bee,1\nme,,skip,ant,"2"\n,,,,\n',
    ):
        (tmp_path / "decisions.csv").write_text(text, encoding="utf-8", newline="")
        read = Decisions.read(tmp_path / "decisions.csv")
        assert [(one.id, one.label, one.decision, one.new_label) for one in read.entries] == made
        planned = plan_corrections(table, tmp_path / "decisions.csv", label="kind")
        assert planned.counts == Counter({"changed": 1, "kept": 1, "skipped": 1, "undecided": 5})
    assert read.origin == str(tmp_path / "decisions.csv")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([("0", ANT, "accept", BEE), ("99", ANT, "accept", BEE)], "no labelled sample of .* has the id '99'"),
        ([("0", BEE, "accept", "cat")], "id '0' has the label 'ant', but had 'bee' when"),
        ([("0", BEE, "keep", "")], "id '0' has the label 'ant', but had 'bee'"),
        ([("0", ANT, "accept", BEE), ("0", ANT, "keep", "")], "'0' has two decisions, accept 'bee' and keep"),
        ([("0", ANT, "accept", " ")], "row 0: the decision is accept, but new_label is empty"),
        ([("0", ANT, "delete", "")], "must be keep, accept, relabel or skip, not 'delete'"),
        ([], "contains no decisions"),
    ],
)
def test_decisions_that_do_not_fit_are_refused_in_a_sentence(table, rows, sentence):
    with pytest.raises(ErrataError, match=sentence):
        errata.apply(table, decided(*rows), label="kind")
    assert [path.name for path in table.parent.iterdir()] == ["table.csv"]


def test_columns_that_are_missing_are_named(table, tmp_path):
    (tmp_path / "d.csv").write_text("id,decision\n0,keep\n")
    with pytest.raises(
        ErrataError, match=r"d.csv must have the columns .* missing or repeated: 'label' and 'new_label'"
    ):
        plan_corrections(table, tmp_path / "d.csv", label="kind")
    (tmp_path / "d.csv").write_text("")
    with pytest.raises(ErrataError, match="is empty"):
        plan_corrections(table, tmp_path / "d.csv", label="kind")
    with pytest.raises(ErrataError, match="does not exist"):
        plan_corrections(table, tmp_path / "e.csv", label="kind")


def test_stale_decisions_are_passed_over_if_asked_and_counted(table):
    decisions = decided(("0", ANT, "accept", BEE), ("1", ANT, "accept", "cat"), ("99", ANT, "keep", ""))
    planned = plan_corrections(table, decisions, label="kind", skip_stale=True)
    assert planned.counts == Counter({"changed": 1, "outdated": 1, "unknown id": 1, "undecided": 7})


def test_the_same_decision_twice_is_one_and_applied_twice_changes_nothing_more(table):
    decisions = decided(("0", ANT, "accept", BEE), ("0", ANT, "accept", BEE), ("2", ANT, "relabel", "cat"))
    once = errata.apply(table, decisions, label="kind")
    twice = errata.apply(once.copy, decisions, label="kind")
    assert once.plan.counts == Counter({"changed": 2, "undecided": 6})
    assert twice.plan.counts == Counter({"changed before": 2, "undecided": 6})
    assert twice.copy.name == "table.corrected-2.csv"
    assert twice.copy.read_bytes() == once.copy.read_bytes()


def test_ids_with_leading_zeros_and_labels_named_na_are_text(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("code,a,kind\n007,1,NA\n008,2,b\n009,3,NA\n010,4,b\n")
    (tmp_path / "d.csv").write_text("id,label,decision,new_label\n008,b,accept,NA\n")
    applied = errata.apply(path, tmp_path / "d.csv", label="kind", id="code")
    assert applied.copy.read_text() == path.read_text().replace("2,b", "2,NA")
    (tmp_path / "d.csv").write_text("id,label,decision,new_label\n8,b,accept,NA\n")
    with pytest.raises(ErrataError, match=r"no labelled sample of .* has the id '8'"):
        plan_corrections(path, tmp_path / "d.csv", label="kind", id="code")
    path.write_text("code,a,kind\n7,1,x\n7,2,b\n9,3,x\n10,4,b\n")
    with pytest.raises(ErrataError, match="has the id 7 twice"):
        plan_corrections(path, tmp_path / "d.csv", label="kind", id="code")


def test_numbers_are_written_the_way_the_file_writes_them(tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text("a,grade\n1,1.50\n2,2.0\n3,1.5\n4,2.0\n5,2\n6,1.50\n")
    applied = errata.apply(path, decided((1, 2.0, "accept", 1.5), (3, "2", "relabel", "4")), label="grade")
    assert applied.copy.read_text() == "a,grade\n1,1.50\n2,1.50\n3,1.5\n4,4.0\n5,2\n6,1.50\n"
    text = errata.apply(path, decided((1, 2.0, "relabel", "unsure")), label="grade", out=tmp_path / "t.csv")
    assert "2,unsure\n" in text.copy.read_text()
    assert any("has another type than all other labels" in remark for remark in text.remarks)


def test_classes_that_are_written_alike_are_told_apart_or_refused(tmp_path):
    path = tmp_path / "mixed.jsonl"
    path.write_text("".join(f'{{"a": {row}, "kind": {label}}}\n' for row, label in enumerate(["1", '"1"', '"x"'] * 3)))
    applied = errata.apply(path, decided((0, "1", "accept", "x"), (1, "1", "accept", "x")), label="kind")
    assert [json.loads(line)["kind"] for line in applied.copy.open()] == ["x", "x", "x", *[1, "1", "x"] * 2]
    with pytest.raises(ErrataError, match=r"matches several classes of the data: '?1'? and '?1'?"):
        plan_corrections(path, decided((2, "x", "accept", "1")), label="kind")


@given(st.lists(st.one_of(st.text(max_size=3), st.integers(-9, 9), st.booleans()), min_size=1, unique_by=repr))
def test_every_class_is_found_by_its_own_text(classes):
    for value in classes:
        candidates = classes_for_text(str(value), classes)
        assert any(candidate is value for candidate in candidates)
        assert all(str(candidate) == str(value) for candidate in candidates)


# The log and the counts.


def test_the_log_says_what_was_changed_by_whom_and_when(table, tmp_path):
    (tmp_path / "d.csv").write_text("id,label,decision,new_label\n3,bee,relabel,cat\n0,ant,accept,bee\n1,bee,keep,\n")
    ranking = pd.DataFrame({"id": [3, 1], "rank": [1, 2], "score": [2.5, 1.5]})
    applied = errata.apply(table, Decisions.read(tmp_path / "d.csv").with_ranks(ranking), label="kind")
    log = pd.read_csv(tmp_path / "table.corrected.csv.log.csv", dtype={"id": str})
    assert list(log) == ["id", "before", "after", "decision", "rank", "score", "new_id", "when", "decisions"]
    assert log[["id", "before", "after", "decision"]].to_numpy().tolist() == [
        ["3", BEE, "cat", "relabel"],
        ["0", ANT, BEE, "accept"],
    ]
    assert log["rank"].tolist()[0] == 1
    assert np.isnan(log["score"].tolist()[1])
    assert set(log["decisions"]) == {str(tmp_path / "d.csv")}
    assert pd.to_datetime(log["when"]).dt.tz is not None
    counts = applied.plan.class_counts.set_index("label")
    assert counts.to_dict() == {"before": {ANT: 4, BEE: 4, "cat": 0}, "after": {ANT: 3, BEE: 4, "cat": 1}}


@given(st.lists(st.sampled_from(["keep", "accept", "skip", None]), min_size=8, max_size=8), st.booleans())
def test_the_counts_of_classes_are_those_of_the_copy(tmp_path_factory, words, drop):
    path = tmp_path_factory.mktemp("counts") / "data.csv"
    labels = [ANT, BEE] * 5
    pd.DataFrame({"a": range(10), "kind": labels}).to_csv(path, index=False)
    other = {ANT: BEE, BEE: ANT}
    rows = [(row, labels[row], word, other[labels[row]]) for row, word in enumerate(words) if word]
    applied = errata.apply(path, decided(*rows, (9, BEE, "skip", "")), label="kind", drop=drop)
    there = Counter(pd.read_csv(applied.copy)["kind"])
    counts = applied.plan.class_counts
    assert {name: count for name, count in zip(counts["label"], counts["after"], strict=True) if count} == there
    statuses = {"accept": "changed", "keep": "kept", "skip": "skipped", None: "undecided"}
    assert applied.plan.counts == Counter(statuses[word] for word in (*words, None, "skip"))
    assert len(applied.changes) == words.count("accept")


def test_a_class_that_is_emptied_is_remarked_on(table):
    rows = [(row, ANT, "accept", BEE) for row in range(0, 8, 2)]
    applied = errata.apply(table, decided(*rows), label="kind")
    assert any("no sample is left in class 'ant'" in remark for remark in applied.remarks)
    assert any("only one class is left" in remark for remark in applied.remarks)


def test_rows_that_are_numbered_anew_are_remarked_on(table):
    by_row = plan_corrections(table, decided((0, ANT, "accept", BEE)), label="kind", drop=True)
    by_id = plan_corrections(table, decided((0, ANT, "accept", BEE)), label="kind", id="a", drop=True)
    assert ["new numbers" in remark for remark in by_row.remarks] == [True]
    assert by_id.remarks == ()


# Where the copy goes.


def test_what_is_in_the_way_is_never_written_over(table, tmp_path):
    decisions, before = decided((0, ANT, "accept", BEE)), table.read_bytes()
    os.link(table, tmp_path / "same.csv")
    for out, sentence in (
        (table, "is the data itself"),
        (tmp_path / "same.csv", "is the data itself"),
        (tmp_path / "copy.parquet", "must end in .csv"),
        (tmp_path / "nowhere" / "copy.csv", "nowhere does not exist"),
    ):
        with pytest.raises(ErrataError, match=sentence):
            errata.apply(table, decisions, label="kind", out=out, overwrite=True)
    (tmp_path / "thesis.csv").write_text("mine")
    for overwrite, sentence in ((False, "already exists"), (True, "was not written by errata")):
        with pytest.raises(ErrataError, match=sentence):
            errata.apply(table, decisions, label="kind", out=tmp_path / "thesis.csv", overwrite=overwrite)
    assert (tmp_path / "thesis.csv").read_text() == "mine"
    assert table.read_bytes() == before


def test_an_earlier_copy_is_replaced_only_if_asked(table, tmp_path):
    first = errata.apply(table, decided((0, ANT, "accept", BEE)), label="kind")
    with pytest.raises(ErrataError, match=r"table.corrected.csv already exists. Choose another --out"):
        errata.apply(table, decided((2, ANT, "accept", BEE)), label="kind")
    second = errata.apply(table, decided((2, ANT, "accept", BEE)), label="kind", overwrite=True)
    assert first.copy == second.copy
    assert pd.read_csv(second.copy)["kind"].tolist()[:3] == [ANT, BEE, BEE]
    assert pd.read_csv(second.log)["id"].tolist() == [2]
    (tmp_path / "clean").mkdir()
    third = errata.apply(table, decided((2, ANT, "accept", BEE)), label="kind", out=tmp_path / "clean")
    assert third.copy == tmp_path / "clean" / "table.corrected.csv"


def test_files_that_differ_in_their_ending_alone_have_logs_of_their_own(table):
    pd.read_csv(table).to_parquet(table.with_suffix(".parquet"))
    decisions = decided((0, ANT, "accept", BEE))
    logs = [errata.apply(path, decisions, label="kind").log.name for path in (table, table.with_suffix(".parquet"))]
    assert logs == ["table.corrected.csv.log.csv", "table.corrected.parquet.log.csv"]


def test_a_folder_is_neither_overwritten_nor_copied_into_itself(pictures):
    decisions = decided(("ant/1.png", ANT, "accept", BEE))
    with pytest.raises(ErrataError, match="is inside"):
        errata.apply(pictures, decisions, out=pictures / "copy")
    errata.apply(pictures, decisions)
    with pytest.raises(ErrataError, match="replaces files only"):
        errata.apply(pictures, decisions, overwrite=True)


def test_what_cannot_be_corrected_is_refused(curves, tmp_path, table, pictures):
    logits, labels, _ = curves(0)
    np.savez(tmp_path / "run.npz", logits=logits, labels=labels)
    errata.Dynamics.from_arrays(logits, labels).save(tmp_path / "run")
    for source in ("run.npz", "run"):
        with pytest.raises(ErrataError, match="contains the outputs of a model"):
            plan_corrections(tmp_path / source, decided((0, 0, "keep", "")))
    with pytest.raises(ErrataError, match="pass the path of the data"):
        plan_corrections(pd.read_csv(table), decided((0, ANT, "keep", "")), label="kind")
    with pytest.raises(ErrataError, match="must be names"):
        plan_corrections(table, decided((0, ANT, "keep", "")), label=[ANT] * 8)
    with pytest.raises(ErrataError, match="is a folder of images, whose classes are the subfolders"):
        plan_corrections(pictures, decided(("ant/1.png", ANT, "keep", "")), label="kind")
    with pytest.raises(ErrataError, match="works for folders of images only"):
        plan_corrections(table, decided((0, ANT, "keep", "")), label="kind", link=True)


def test_ids_and_labels_are_those_of_find(bees, pictures):
    samples = plan_corrections(bees, decided((0, ANT, "keep", "")), label="kind").writer.samples
    data = open_data(bees, "kind")
    assert samples.ids == data.ids.astype(str).tolist()
    assert samples.labels == [data.classes[number] for number in data.labels]
    samples = plan_corrections(pictures, decided(("ant/1.png", ANT, "keep", ""))).writer.samples
    assert samples.ids == open_data(pictures).ids.tolist()


def test_suggestions_are_accepted_from_the_top():
    ranking = pd.DataFrame(
        {"id": [4, 2, 7], "label": [0, 1, 0], "suggested": [1, 1, 1], "rank": [1, 2, 3], "score": [3.0, 2.0, 1.0]}
    )
    made = Decisions.accept_top(ranking.iloc[::-1], 2)
    assert [(one.id, one.decision, one.new_label) for one in made.entries] == [("4", "accept", "1"), ("2", "keep", "")]
    assert made.ranks == {"4": (1, 3.0), "2": (2, 2.0)}
    with pytest.raises(ErrataError, match="at least 1"):
        Decisions.accept_top(ranking, 0)


def test_a_table_may_hold_nothing_but_ids_and_labels(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("file,kind\n1.jpg,ant\n2.jpg,bee\n3.jpg,ant\n4.jpg,bee\n")
    applied = errata.apply(path, decided(("4.jpg", BEE, "accept", ANT)), label="kind", id="file")
    assert applied.copy.read_text() == path.read_text().replace("4.jpg,bee", "4.jpg,ant")


def test_quotes_that_only_a_lenient_reader_takes_are_copied_as_they_stand(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text('a,kind\n"x"y,ant\nz"w",bee\nu,ant\nv,bee\n')
    applied = errata.apply(path, decided((3, BEE, "accept", ANT)), label="kind")
    assert applied.copy.read_text() == path.read_text().replace("v,bee", "v,ant")
