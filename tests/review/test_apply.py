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
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import errata
from errata.errors import ErrataError
from errata.readers import open_data
from errata.readers.file_types import array_readers, table_readers
from errata.review.correction_plan import classes_for_text, plan_corrections
from errata.review.decisions import Decisions
from errata.review.writers import WRITERS
from errata.review.writers.label_writer import LabelEdit, LabelEdits

ANT, BEE = "ant", "bee"


def decisions_of(*rows):
    """A table of decisions from tuples (id, label, decision, new label)."""
    return pd.DataFrame(rows, columns=["id", "label", "decision", "new_label"])


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def bees(tmp_path):
    """A CSV file with quotes, spaces, leading zeros, a missing label and an empty line."""
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


# Text tables.


def test_csv_only_relabelled_rows_change(bees):
    before = bees.read_bytes()
    applied = errata.apply(
        bees, decisions_of(("008", BEE, "accept", ANT), ("007", ANT, "keep", "")), label="kind", id="code"
    )
    assert applied.copy == bees.with_name("bees.corrected.csv")
    assert applied.copy.read_bytes() == before.replace(b"spaced ;bee", b"spaced ;ant")
    assert bees.read_bytes() == before
    assert applied.plan.counts == Counter({"kept": 1, "changed": 1, "undecided": 3})


def test_csv_rows_with_quotes_keep_their_values(bees):
    applied = errata.apply(bees, decisions_of(("011", BEE, "accept", ANT)), label="kind", id="code")
    assert b'011;"two\r\nlines";ant;05.0\r\n' in applied.copy.read_bytes()
    new = errata.apply(
        bees, decisions_of(("011", BEE, "relabel", "a;b")), label="kind", id="code", out=bees.with_name("b.csv")
    )
    assert b'011;"two\r\nlines";"a;b";05.0\r\n' in new.copy.read_bytes()


def test_csv_cells_may_be_very_long(tmp_path):
    path, story = tmp_path / "long.csv", "once, " * 50_000
    path.write_text(f'text,kind\n"{story}",ant\nx,bee\ny,ant\nz,bee\n')
    applied = errata.apply(path, decisions_of((0, ANT, "accept", BEE)), label="kind")
    assert applied.copy.read_text() == path.read_text().replace('",ant', '",bee')


def test_csv_rows_without_a_label_are_numbered_and_copied(bees):
    applied = errata.apply(bees, decisions_of((4, BEE, "accept", ANT)), label="kind")
    assert applied.copy.read_bytes() == bees.read_bytes().replace(b";bee;05.0", b";ant;05.0")
    with pytest.raises(ErrataError, match=r"no labelled sample of .* has the id"):
        plan_corrections(bees, decisions_of((3, BEE, "accept", ANT)), label="kind")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_csv_keeps_its_encoding(tmp_path, encoding):
    text = "name,kind\ncafé,ant\nthé,bee\n" + "x,ant\ny,bee\n" * 3
    path = tmp_path / "menu.csv.gz"
    path.write_bytes(gzip.compress(text.encode(encoding)))
    applied = errata.apply(path, decisions_of((0, ANT, "accept", BEE)), label="kind")
    assert applied.copy.name == "menu.corrected.csv.gz"
    assert gzip.decompress(applied.copy.read_bytes()) == text.replace("café,ant", "café,bee").encode(encoding)


def test_csv_refuses_a_label_that_the_encoding_cannot_represent(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_bytes("name,kind\ncafé,ant\nthé,bee\nx,ant\ny,bee\n".encode("latin-1"))
    with pytest.raises(ErrataError, match=r"cannot represent the label '猫'. Convert the file to UTF-8"):
        plan_corrections(path, decisions_of((0, ANT, "relabel", "猫")), label="kind")


def test_tsv_without_quotes_stays_without_quotes(tmp_path):
    path = tmp_path / "data.tsv"
    path.write_text('a\tkind\n5" nail\tant\n"x\tbee\ny\tant\nz\tbee\n')
    applied = errata.apply(path, decisions_of((0, ANT, "accept", BEE)), label="kind")
    assert applied.copy.read_text() == path.read_text().replace('5" nail\tant', '5" nail\tbee')
    with pytest.raises(ErrataError, match="does not use quotes"):
        plan_corrections(path, decisions_of((0, ANT, "relabel", "a\tb")), label="kind")


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


@settings(max_examples=20)  # each example writes files
@given(
    rows=st.lists(st.tuples(CELL, st.sampled_from([ANT, BEE, "a, b", 'c"d'])), min_size=4, max_size=12),
    changed=st.sets(st.integers(0, 11)),
    drop=st.booleans(),
)
def test_any_csv_file_gets_the_new_labels_and_keeps_all_other_values(tmp_path_factory, rows, changed, drop):
    rows = [(ANT, ANT), (BEE, ANT), (ANT, BEE), (BEE, BEE), *rows]
    path = tmp_path_factory.mktemp("any") / "data.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "kind"), *rows])
    new_labels = {row: BEE if rows[row][1] == ANT else ANT for row in changed if row < len(rows)}
    decisions = decisions_of(
        *((row, rows[row][1], "relabel", new) for row, new in new_labels.items()), (0, ANT, "keep", "")
    )
    decisions = decisions.drop_duplicates("id")
    applied = errata.apply(path, decisions, label="kind", drop=drop)
    with applied.copy.open(newline="", encoding="utf-8") as file:
        _, *copied = map(tuple, csv.reader(file))
    expected = [
        (text, new_labels.get(row, label)) for row, (text, label) in enumerate(rows) if not (drop and row in new_labels)
    ]
    assert copied == expected


def test_json_lines_only_labels_change(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text(
        '{"a": 1.10, "kind" : "ant", "deep": {"kind": "no"}}\n\n{"kind":"bee","a":1e3}\n'
        '{"a": 1e400, "kind": "\\u0062ee"}\n{"a": 2}\n{"kind": "ant", "a": 0}'
    )
    applied = errata.apply(path, decisions_of((0, ANT, "accept", BEE), (2, BEE, "accept", ANT)), label="kind")
    assert applied.copy.read_text() == (
        '{"a": 1.10, "kind" : "bee", "deep": {"kind": "no"}}\n\n{"kind":"bee","a":1e3}\n'
        '{"a": 1e400, "kind": "ant"}\n{"a": 2}\n{"kind": "ant", "a": 0}'
    )


RECORDS = '[ {"kind": true, "a": 1},\n  {"kind": false, "a": 2},\n  {"kind": true, "a": 3}, {"kind": false, "a": 4} ]\n'
COLUMNS = '{"a": [1, 2, 3, 4],\n "kind": [true, false, true, false]}'


@pytest.mark.parametrize("text", [RECORDS, COLUMNS])
def test_json_records_and_columns(tmp_path, text):
    path = tmp_path / "data.json"
    path.write_text(text)
    applied = errata.apply(path, decisions_of((0, "True", "accept", "False")), label="kind")
    assert applied.copy.read_text() == text.replace("true", "false", 1)
    smaller = errata.apply(
        path, decisions_of((0, "TRUE", "accept", "FALSE")), label="kind", drop=True, out=tmp_path / "b.json"
    )
    content = json.loads(smaller.copy.read_text())
    table = pd.DataFrame(content)
    assert table[["a", "kind"]].to_numpy().tolist() == [[2, False], [3, True], [4, False]]


def test_json_lines_in_a_file_named_json(tmp_path):
    path = tmp_path / "data.json"
    path.write_text("".join(f'{{"a": {row}, "kind": {row % 2}}}\n' for row in range(6)))
    applied = errata.apply(path, decisions_of((1, "1", "accept", "0")), label="kind")
    assert applied.copy.read_text() == path.read_text().replace('"a": 1, "kind": 1', '"a": 1, "kind": 0')


def test_a_row_with_an_unexpected_label_is_refused_and_nothing_is_written(bees):
    plan = plan_corrections(bees, decisions_of(("008", BEE, "accept", ANT)), label="kind", id="code")
    edit = plan.edits.entries[0]
    wrong = LabelEdits((LabelEdit(0, BEE, ANT, 2, edit.decision),), False)  # row 0 is an ant
    with pytest.raises(ErrataError, match=r"row 0 .* does not have the label 'bee'"):
        plan.writer.write(wrong, bees.with_name("copy.csv"), lambda files: None)
    assert [path.name for path in bees.parent.iterdir()] == ["bees.csv"]


# Parquet, arrays, saved datasets.


@pytest.mark.parametrize("kind", ["text", "whole", "yes/no", "category", "gaps"])
def test_parquet_keeps_column_types(tmp_path, kind):
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
        path, decisions_of((2, before, "accept", after), (9, after, "skip", "")), label="kind", skip_stale=True
    )
    copy = pq.read_table(applied.copy)
    assert copy.schema.equals(pq.read_schema(path), check_metadata=True)
    expected = labels.to_pylist()
    expected[2] = expected[3]
    assert copy.column("kind").to_pylist() == expected
    assert copy.drop(["kind"]).to_pylist() == table.drop(["kind"]).to_pylist()
    written = pq.ParquetFile(applied.copy).metadata
    assert (written.num_row_groups, written.row_group(0).column(0).compression) == (3, "ZSTD")
    smaller = errata.apply(
        path, decisions_of((2, before, "accept", after)), label="kind", drop=True, out=tmp_path / "left.parquet"
    )
    assert pq.read_table(smaller.copy).to_pylist() == table.take([row for row in range(10) if row != 2]).to_pylist()


def test_parquet_accepts_new_classes_of_its_type_only(tmp_path):
    for name, labels in (("category", pa.array([ANT, BEE] * 5).dictionary_encode()), ("number", pa.array([1, 2] * 5))):
        pq.write_table(pa.table({"a": range(10), "kind": labels}), tmp_path / f"{name}.parquet")
    with_text = errata.apply(tmp_path / "category.parquet", decisions_of((0, ANT, "relabel", "cat")), label="kind")
    assert pq.read_table(with_text.copy).column("kind").to_pylist() == ["cat", BEE, *[ANT, BEE] * 4]
    assert any("'cat' is new" in remark for remark in with_text.remarks)
    with_number = errata.apply(tmp_path / "number.parquet", decisions_of((0, 1.0, "relabel", 3.0)), label="kind")
    assert pq.read_table(with_number.copy).column("kind").to_pylist() == [3, 2, *[1, 2] * 4]
    with pytest.raises(ErrataError, match="has the type int64, which cannot hold the new label 'cat'"):
        plan_corrections(tmp_path / "number.parquet", decisions_of((0, 1, "relabel", "cat")), label="kind")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_keeps_all_other_arrays(tmp_path, save):
    inputs = np.random.default_rng(0).normal(size=(8, 3))
    save(tmp_path / "data.npz", X=inputs, y=np.array([ANT, BEE] * 4), note=np.array("mine"))
    applied = errata.apply(
        tmp_path / "data.npz", decisions_of((0, ANT, "accept", BEE), (2, ANT, "relabel", "caterpillar"))
    )
    with np.load(applied.copy) as arrays:
        assert arrays["y"].tolist() == [BEE, BEE, "caterpillar", BEE, *[ANT, BEE] * 2]
    with zipfile.ZipFile(tmp_path / "data.npz") as old, zipfile.ZipFile(applied.copy) as new:
        assert [entry.compress_type for entry in old.infolist()] == [entry.compress_type for entry in new.infolist()]
        for name in ("X.npy", "note.npy"):
            assert old.read(name) == new.read(name)
    smaller = errata.apply(
        tmp_path / "data.npz", decisions_of((0, ANT, "accept", BEE)), drop=True, out=tmp_path / "left.npz"
    )
    with np.load(smaller.copy) as arrays:
        np.testing.assert_array_equal(arrays["X"], inputs[1:])
        assert arrays["y"].tolist() == [BEE, *[ANT, BEE] * 3]
        assert arrays["note"] == "mine"


def test_npz_with_class_names_is_relabelled_by_name(tmp_path):
    names = np.array(["setosa", "virginica"])
    np.savez(tmp_path / "flat.npz", data=np.eye(6), target=np.array([0, 1] * 3), target_names=names)
    flat = errata.apply(tmp_path / "flat.npz", decisions_of((0, "setosa", "accept", "virginica")))
    with np.load(flat.copy) as arrays:
        assert arrays["target"].tolist() == [1, 1, 0, 1, 0, 1]
    with pytest.raises(ErrataError, match="cannot hold the new label 'lily'"):
        plan_corrections(tmp_path / "flat.npz", decisions_of((0, "setosa", "relabel", "lily")))


def test_npy_only_the_labels_are_copied(tmp_path):
    np.save(tmp_path / "X.npy", np.eye(6))
    np.save(tmp_path / "y.npy", np.array([[0], [1]] * 3, dtype=np.int16))
    applied = errata.apply(tmp_path / "X.npy", decisions_of((0, 0, "accept", 1)), label=str(tmp_path / "y.npy"))
    assert applied.copy == tmp_path / "y.corrected.npy"
    labels = np.load(applied.copy)
    assert (labels.dtype, labels.tolist()) == (np.int16, [[1], [1], [0], [1], [0], [1]])
    with pytest.raises(ErrataError, match=r"in one .npz"):
        plan_corrections(
            tmp_path / "X.npy", decisions_of((0, 0, "accept", 1)), label=str(tmp_path / "y.npy"), drop=True
        )


def saved_dataset(folder, names=(ANT, BEE)):
    """A folder as saved by Hugging Face datasets: two data files, class numbers, column features in the schema."""
    features = {"a": {"dtype": "int64", "_type": "Value"}, "kind": {"names": list(names), "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"a": range(10), "kind": pa.array([0, 1] * 5)}).replace_schema_metadata(metadata)
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


def test_saved_dataset_gets_new_class_numbers_and_names(tmp_path):
    folder = saved_dataset(tmp_path / "set")
    before = contents(folder)
    decisions = decisions_of((0, ANT, "accept", BEE), (7, BEE, "relabel", "cat"))
    applied = errata.apply(folder, decisions, label="kind")
    assert applied.copy == tmp_path / "set.corrected"
    assert contents(folder) == before
    tables = [arrow(file) for file in sorted(applied.copy.glob("*.arrow"))]
    assert [len(table) for table in tables] == [6, 4]
    assert pa.concat_tables(tables).column("kind").to_pylist() == [1, 1, 0, 1, 0, 1, 0, 2, 0, 1]
    feature = json.loads(tables[0].schema.metadata[b"huggingface"])["info"]["features"]["kind"]
    info = json.loads((applied.copy / "dataset_info.json").read_text())
    assert feature["names"] == info["features"]["kind"]["names"] == [ANT, BEE, "cat"]
    assert json.loads((applied.copy / "state.json").read_text())["_fingerprint"] != "first"
    smaller = errata.apply(folder, decisions, label="kind", drop=True, out=tmp_path / "left")
    assert sum(len(arrow(file)) for file in smaller.copy.glob("*.arrow")) == 8
    assert json.loads((smaller.copy / "dataset_info.json").read_text())["splits"]["train"]["num_examples"] == 8


# Folders of images.


@pytest.fixture
def pictures(tmp_path):
    """Two class folders with three images each, a text file and a hidden file."""
    root = tmp_path / "pictures"
    for name, shade in ((ANT, 0), (BEE, 200)):
        (root / name / "deep").mkdir(parents=True)
        for number, place in enumerate(("1.png", "2.png", "deep/3.png")):
            Image.new("RGB", (20, 20), (shade + number,) * 3).save(root / name / place)
    (root / ANT / "note.txt").write_text("mine")
    (root / ANT / ".hidden").write_text("")
    return root


def test_images_move_to_the_folder_of_their_new_class(pictures):
    before = contents(pictures)
    decisions = decisions_of(
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


def test_two_images_can_swap_folders(pictures):
    decisions = decisions_of(("ant/1.png", ANT, "accept", BEE), ("bee/1.png", BEE, "accept", ANT))
    before, applied = contents(pictures), errata.apply(pictures, decisions)
    after = contents(applied.copy)
    assert (after["bee/1.png"], after["ant/1.png"]) == (before["ant/1.png"], before["bee/1.png"])


def test_link_creates_hard_links_with_a_warning(pictures):
    applied = errata.apply(pictures, decisions_of(("ant/2.png", ANT, "accept", BEE)), link=True)
    assert (applied.copy / "bee/2.from-ant.png").samefile(pictures / "ant/2.png")
    assert any("changes the original too" in remark for remark in applied.remarks)


def test_images_can_be_dropped(pictures):
    applied = errata.apply(pictures, decisions_of(("ant/2.png", ANT, "accept", BEE)), drop=True)
    assert set(contents(pictures)) - set(contents(applied.copy)) == {"ant/2.png", "ant/.hidden"}
    assert applied.changes[["after", "new_id", "decision"]].to_numpy().tolist() == [["", "", "drop"]]


def test_a_full_disk_is_reported_before_copying(pictures, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10}))
    with pytest.raises(ErrataError, match=r"needs 0.0 GB, but .* has 0.0 GB free.*`link=True`"):
        errata.apply(pictures, decisions_of(("ant/1.png", ANT, "accept", BEE)))
    assert (
        errata.apply(pictures, decisions_of(("ant/1.png", ANT, "accept", BEE)), link=True).plan.counts["changed"] == 1
    )


def test_a_failed_copy_leaves_no_files(pictures, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copy2", full)
    with pytest.raises(ErrataError, match=r"pictures.corrected cannot be written: No space left"):
        errata.apply(pictures, decisions_of(("ant/1.png", ANT, "accept", BEE)))
    assert [path.name for path in pictures.parent.iterdir()] == ["pictures"]


@pytest.mark.parametrize("name", ["../out", ".hidden", "a/b", " x"])
def test_a_class_that_cannot_be_a_folder_name_is_refused(pictures, name):
    with pytest.raises(ErrataError, match="cannot be the name of a folder"):
        plan_corrections(pictures, decisions_of(("ant/1.png", ANT, "relabel", name)))


# Decisions.


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    pd.DataFrame({"a": range(8), "kind": [ANT, BEE] * 4}).to_csv(path, index=False)
    return path


def test_decision_files_from_the_report_and_from_spreadsheets(table, tmp_path):
    expected = [("0", ANT, "accept", BEE), ("1", BEE, "keep", ""), ("2", ANT, "skip", "")]
    for text in (
        "id,label,decision,new_label\n0,ant,accept,bee\n1,bee,keep,\n2,ant,skip,\n",
        "\ufeffid;label;decision;new_label\r\n0;ant;Accept;bee\r\n1;bee;KEEP;\r\n2;ant;skip;\r\n",
        'who,new_label,decision,label,id\nme,bee,accept,ant,0\nme,,keep,bee,1\nme,,skip,ant,"2"\n,,,,\n',
    ):
        (tmp_path / "decisions.csv").write_text(text, encoding="utf-8", newline="")
        read = Decisions.read(tmp_path / "decisions.csv")
        assert [(entry.id, entry.label, entry.decision, entry.new_label) for entry in read.entries] == expected
        plan = plan_corrections(table, tmp_path / "decisions.csv", label="kind")
        assert plan.counts == Counter({"changed": 1, "kept": 1, "skipped": 1, "undecided": 5})
    assert read.origin == str(tmp_path / "decisions.csv")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("0", ANT, "accept", BEE), ("99", ANT, "accept", BEE)], "no labelled sample of .* has the id '99'"),
        ([("0", BEE, "accept", "cat")], "id '0' has the label 'ant', but had 'bee' when"),
        ([("0", BEE, "keep", "")], "id '0' has the label 'ant', but had 'bee'"),
        (
            [("0", ANT, "accept", BEE), ("0", ANT, "keep", "")],
            r"id '0': accept 'bee' \(a table: row 0\), keep \(a table: row 1\)",
        ),
        ([("0", ANT, "accept", " ")], "row 0: the decision is accept, but new_label is empty"),
        ([("0", ANT, "delete", "")], "must be keep, accept, relabel or skip, not 'delete'"),
        ([], "contains no decisions"),
    ],
)
def test_invalid_decisions_are_refused_with_a_reason(table, rows, message):
    with pytest.raises(ErrataError, match=message):
        errata.apply(table, decisions_of(*rows), label="kind")
    assert [path.name for path in table.parent.iterdir()] == ["table.csv"]


def test_decision_files_need_all_columns(table, tmp_path):
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


def test_skip_stale_ignores_and_counts_stale_decisions(table):
    decisions = decisions_of(("0", ANT, "accept", BEE), ("1", ANT, "accept", "cat"), ("99", ANT, "keep", ""))
    plan = plan_corrections(table, decisions, label="kind", skip_stale=True)
    assert plan.counts == Counter({"changed": 1, "outdated": 1, "unknown id": 1, "undecided": 7})


def test_applying_the_same_decisions_again_changes_nothing(table):
    decisions = decisions_of(("0", ANT, "accept", BEE), ("0", ANT, "accept", BEE), ("2", ANT, "relabel", "cat"))
    once = errata.apply(table, decisions, label="kind")
    twice = errata.apply(once.copy, decisions, label="kind")
    assert once.plan.counts == Counter({"changed": 2, "undecided": 6})
    assert twice.plan.counts == Counter({"changed before": 2, "undecided": 6})
    assert twice.copy.name == "table.corrected-2.csv"
    assert twice.copy.read_bytes() == once.copy.read_bytes()


def test_leading_zeros_in_ids_and_na_labels_are_kept(tmp_path):
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


def test_numbers_are_written_as_elsewhere_in_the_file(tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text("a,grade\n1,1.50\n2,2.0\n3,1.5\n4,2.0\n5,2\n6,1.50\n")
    applied = errata.apply(path, decisions_of((1, 2.0, "accept", 1.5), (3, "2", "relabel", "4")), label="grade")
    assert applied.copy.read_text() == "a,grade\n1,1.50\n2,1.50\n3,1.5\n4,4\n5,2\n6,1.50\n"
    text = errata.apply(path, decisions_of((1, 2.0, "relabel", "unsure")), label="grade", out=tmp_path / "t.csv")
    assert "2,unsure\n" in text.copy.read_text()
    assert any("has another type than all other labels" in remark for remark in text.remarks)


def test_classes_with_the_same_text_are_distinguished_or_refused(tmp_path):
    path = tmp_path / "mixed.jsonl"
    path.write_text("".join(f'{{"a": {row}, "kind": {label}}}\n' for row, label in enumerate(["1", '"1"', '"x"'] * 3)))
    applied = errata.apply(path, decisions_of((0, "1", "accept", "x"), (1, "1", "accept", "x")), label="kind")
    assert [json.loads(line)["kind"] for line in applied.copy.open()] == ["x", "x", "x", *[1, "1", "x"] * 2]
    with pytest.raises(ErrataError, match=r"matches several classes of the data: '?1'? and '?1'?"):
        plan_corrections(path, decisions_of((2, "x", "accept", "1")), label="kind")


@given(st.lists(st.one_of(st.text(max_size=3), st.integers(-9, 9), st.booleans()), min_size=1, unique_by=repr))
def test_classes_for_text_finds_every_class(classes):
    for value in classes:
        candidates = classes_for_text(str(value), classes, lambda text: text)
        assert any(candidate is value for candidate in candidates)
        assert all(str(candidate) == str(value) for candidate in candidates)


# The log, counts and remarks.


def test_the_log_has_one_row_per_change(table, tmp_path):
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
def test_counts_match_the_copy(tmp_path_factory, words, drop):
    path = tmp_path_factory.mktemp("counts") / "data.csv"
    labels = [ANT, BEE] * 5
    pd.DataFrame({"a": range(10), "kind": labels}).to_csv(path, index=False)
    other = {ANT: BEE, BEE: ANT}
    rows = [(row, labels[row], word, other[labels[row]]) for row, word in enumerate(words) if word]
    applied = errata.apply(path, decisions_of(*rows, (9, BEE, "skip", "")), label="kind", drop=drop)
    copied = Counter(pd.read_csv(applied.copy)["kind"])
    counts = applied.plan.class_counts
    assert {name: count for name, count in zip(counts["label"], counts["after"], strict=True) if count} == copied
    statuses = {"accept": "changed", "keep": "kept", "skip": "skipped", None: "undecided"}
    assert applied.plan.counts == Counter(statuses[word] for word in (*words, None, "skip"))
    assert len(applied.changes) == words.count("accept")


def test_an_empty_class_gives_a_remark(table):
    rows = [(row, ANT, "accept", BEE) for row in range(0, 8, 2)]
    applied = errata.apply(table, decisions_of(*rows), label="kind")
    assert any("no sample is left in class 'ant'" in remark for remark in applied.remarks)
    assert any("only one class is left" in remark for remark in applied.remarks)


def test_renumbered_rows_give_a_remark(table):
    by_row = plan_corrections(table, decisions_of((0, ANT, "accept", BEE)), label="kind", drop=True)
    by_id = plan_corrections(table, decisions_of((0, ANT, "accept", BEE)), label="kind", id="a", drop=True)
    assert ["new numbers" in remark for remark in by_row.remarks] == [True]
    assert by_id.remarks == ()


# The path of the copy.


def test_existing_files_are_never_overwritten(table, tmp_path):
    decisions, before = decisions_of((0, ANT, "accept", BEE)), table.read_bytes()
    os.link(table, tmp_path / "same.csv")
    for out, message in (
        (table, "is the data itself"),
        (tmp_path / "same.csv", "is the data itself"),
        (tmp_path / "copy.parquet", "must end in .csv"),
        (tmp_path / "nowhere" / "copy.csv", "nowhere does not exist"),
    ):
        with pytest.raises(ErrataError, match=message):
            errata.apply(table, decisions, label="kind", out=out, overwrite=True)
    (tmp_path / "thesis.csv").write_text("mine")
    for overwrite, message in ((False, "already exists"), (True, "was not written by errata")):
        with pytest.raises(ErrataError, match=message):
            errata.apply(table, decisions, label="kind", out=tmp_path / "thesis.csv", overwrite=overwrite)
    assert (tmp_path / "thesis.csv").read_text() == "mine"
    assert table.read_bytes() == before


def test_overwrite_replaces_an_earlier_copy(table, tmp_path):
    first = errata.apply(table, decisions_of((0, ANT, "accept", BEE)), label="kind")
    with pytest.raises(ErrataError, match=r"table.corrected.csv already exists. Choose another `out=`"):
        errata.apply(table, decisions_of((2, ANT, "accept", BEE)), label="kind")
    second = errata.apply(table, decisions_of((2, ANT, "accept", BEE)), label="kind", overwrite=True)
    assert first.copy == second.copy
    assert pd.read_csv(second.copy)["kind"].tolist()[:3] == [ANT, BEE, BEE]
    assert pd.read_csv(second.log)["id"].tolist() == [2]
    (tmp_path / "clean").mkdir()
    third = errata.apply(table, decisions_of((2, ANT, "accept", BEE)), label="kind", out=tmp_path / "clean")
    assert third.copy == tmp_path / "clean" / "table.corrected.csv"


def test_logs_of_files_with_the_same_stem_differ(table):
    pd.read_csv(table).to_parquet(table.with_suffix(".parquet"))
    decisions = decisions_of((0, ANT, "accept", BEE))
    logs = [errata.apply(path, decisions, label="kind").log.name for path in (table, table.with_suffix(".parquet"))]
    assert logs == ["table.corrected.csv.log.csv", "table.corrected.parquet.log.csv"]


def test_a_folder_is_not_overwritten_or_copied_into_itself(pictures):
    decisions = decisions_of(("ant/1.png", ANT, "accept", BEE))
    with pytest.raises(ErrataError, match="is inside"):
        errata.apply(pictures, decisions, out=pictures / "copy")
    errata.apply(pictures, decisions)
    with pytest.raises(ErrataError, match="replaces files only"):
        errata.apply(pictures, decisions_of(("ant/2.png", ANT, "accept", BEE)), overwrite=True)


def test_unsupported_sources_are_refused(curves, tmp_path, table, pictures):
    logits, labels, _ = curves(0)
    np.savez(tmp_path / "run.npz", logits=logits, labels=labels)
    errata.Dynamics.from_arrays(logits, labels).save(tmp_path / "run")
    for source in ("run.npz", "run"):
        with pytest.raises(ErrataError, match="contains the outputs of a model"):
            plan_corrections(tmp_path / source, decisions_of((0, 0, "keep", "")))
    with pytest.raises(ErrataError, match="pass the path of the data"):
        plan_corrections(pd.read_csv(table), decisions_of((0, ANT, "keep", "")), label="kind")
    with pytest.raises(ErrataError, match="must be names"):
        plan_corrections(table, decisions_of((0, ANT, "keep", "")), label=[ANT] * 8)
    with pytest.raises(ErrataError, match="is a folder of images, whose classes are the subfolders"):
        plan_corrections(pictures, decisions_of(("ant/1.png", ANT, "keep", "")), label="kind")
    with pytest.raises(ErrataError, match="works for folders of images only"):
        plan_corrections(table, decisions_of((0, ANT, "keep", "")), label="kind", link=True)


def test_every_readable_file_type_has_a_writer(table, monkeypatch):
    assert set(WRITERS) == {*table_readers(), *array_readers()}
    monkeypatch.delitem(WRITERS, ".csv")
    with pytest.raises(ErrataError, match=r"Cannot write '.csv' files. Supported: .*\.parquet"):
        plan_corrections(table, decisions_of((0, ANT, "keep", "")), label="kind")


def test_ids_and_labels_equal_those_of_find(bees, pictures):
    samples = plan_corrections(bees, decisions_of((0, ANT, "keep", "")), label="kind").writer.samples
    data = open_data(bees, "kind")
    assert samples.ids == data.ids.astype(str).tolist()
    assert samples.labels == [data.classes[number] for number in data.labels]
    samples = plan_corrections(pictures, decisions_of(("ant/1.png", ANT, "keep", ""))).writer.samples
    assert samples.ids == open_data(pictures).ids.tolist()


def test_accept_top_takes_the_first_suggestions():
    ranking = pd.DataFrame(
        {"id": [4, 2, 7], "label": [0, 1, 0], "suggested": [1, 1, 1], "rank": [1, 2, 3], "score": [3.0, 2.0, 1.0]}
    )
    accepted = Decisions.accept_top(ranking.iloc[::-1], 2)
    assert [(entry.id, entry.decision, entry.new_label) for entry in accepted.entries] == [
        ("4", "accept", "1"),
        ("2", "keep", ""),
    ]
    assert accepted.ranks == {"4": (1, 3.0), "2": (2, 2.0)}
    with pytest.raises(ErrataError, match="at least 1"):
        Decisions.accept_top(ranking, 0)


def test_a_table_of_ids_and_labels_is_enough(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("file,kind\n1.jpg,ant\n2.jpg,bee\n3.jpg,ant\n4.jpg,bee\n")
    applied = errata.apply(path, decisions_of(("4.jpg", BEE, "accept", ANT)), label="kind", id="file")
    assert applied.copy.read_text() == path.read_text().replace("4.jpg,bee", "4.jpg,ant")


def test_csv_copies_malformed_quotes_unchanged(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text('a,kind\n"x"y,ant\nz"w",bee\nu,ant\nv,bee\n')
    applied = errata.apply(path, decisions_of((3, BEE, "accept", ANT)), label="kind")
    assert applied.copy.read_text() == path.read_text().replace("v,bee", "v,ant")
