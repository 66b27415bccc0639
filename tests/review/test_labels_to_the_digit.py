"""What was decided is what is written, in every format: the labels of a copy are read without errata."""

import csv
import datetime as dt
import gzip
import json
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import errata
from errata.errors import ErrataError

ROWS = 8
BIG = 9007199254740993  # not a float


def write_csv(path, labels):
    separator = "\t" if ".tsv" in path.name else ","
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "wt", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator).writerows([("a", "kind"), *enumerate(labels)])


def read_csv(path):
    separator = "\t" if ".tsv" in path.name else ","
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "rt", newline="", encoding="utf-8") as file:
        return [row[1] for row in csv.reader(file, delimiter=separator)][1:]


def write_json(path, labels):
    records = [{"a": row, "kind": label} for row, label in enumerate(labels)]
    lines = path.suffix == ".jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records) if lines else json.dumps(records))


def read_json(path):
    text = path.read_text()
    records = map(json.loads, text.strip("\n").split("\n")) if path.suffix == ".jsonl" else json.loads(text)
    return [record["kind"] for record in records]


def write_parquet(path, labels):
    pq.write_table(pa.table({"a": range(len(labels)), "kind": labels}), path)


def read_parquet(path):
    return pq.read_table(path).column("kind").to_pylist()


def write_npz(path, labels):
    np.savez(path, X=np.arange(2.0 * len(labels)).reshape(-1, 2), kind=labels)


def read_npz(path):
    with np.load(path) as arrays:
        return arrays["kind"].tolist()


def relabelled(folder, suffix, write, read, labels, new_label):
    """The label of the first row of the copy, read without errata, and the entry in the log."""
    path = folder / f"data{suffix}"
    write(path, labels)
    kinds = read(path)
    row = pd.DataFrame([("0", str(kinds[0]), "relabel", new_label)], columns=["id", "label", "decision", "new_label"])
    copy = folder / f"copy{suffix}"
    applied = errata.apply(path, row, label="kind", out=copy, overwrite=True)
    assert read(copy)[1:] == kinds[1:]
    return read(copy)[0], applied.changes["after"][0]


TEXT_FILES = [(suffix, write_csv, read_csv) for suffix in (".csv", ".tsv", ".csv.gz")]
JSON_FILES = [(suffix, write_json, read_json) for suffix in (".jsonl", ".json")]
LARGE = [str(BIG), "900000000000207008", str(2**63 - 1), "-9007199254740993", "12345678"]
ODD = ["1_000", "007", "1e3", "0x10", "+5", "1.5", "１２", "true", "2024-01-31", "1,000"]


@pytest.mark.parametrize("new", [*LARGE, *ODD, str(2**70), "9" * 400])
@pytest.mark.parametrize(("suffix", "write", "read"), TEXT_FILES)
def test_text_files_of_whole_numbers_get_the_text_that_was_decided(tmp_path, suffix, write, read, new):
    assert relabelled(tmp_path, suffix, write, read, [5, 3] * 4, new) == (new, new)


@pytest.mark.parametrize("new", [*LARGE, str(2**70)])
@pytest.mark.parametrize(("suffix", "write", "read"), JSON_FILES)
def test_json_numbers_keep_every_digit(tmp_path, suffix, write, read, new):
    assert relabelled(tmp_path, suffix, write, read, [5, 3] * 4, new) == (int(new), new)


@pytest.mark.parametrize("new", ODD)
@pytest.mark.parametrize(("suffix", "write", "read"), JSON_FILES)
def test_json_labels_that_are_not_whole_numbers_stay_text(tmp_path, suffix, write, read, new):
    assert relabelled(tmp_path, suffix, write, read, [5, 3] * 4, new) == (new, new)


WHOLE_TYPES = [pa.int64(), pa.uint64(), pa.dictionary(pa.int8(), pa.int64())]


@pytest.mark.parametrize("new", [BIG, 900000000000207008, 2**63 - 1])
@pytest.mark.parametrize("dtype", WHOLE_TYPES, ids=str)
def test_parquet_and_arrays_keep_every_digit(tmp_path, dtype, new):
    values = pa.array([5, 3] * 4).dictionary_encode() if pa.types.is_dictionary(dtype) else pa.array([5, 3] * 4, dtype)
    assert relabelled(tmp_path, ".parquet", write_parquet, read_parquet, values, str(new)) == (new, str(new))
    array = np.array([5, 3] * 4, dtype=np.int64)
    assert relabelled(tmp_path, ".npz", write_npz, read_npz, array, str(new)) == (new, str(new))


@pytest.mark.parametrize("new", [*ODD, str(2**63), str(2**64)])
def test_whole_number_columns_refuse_what_they_cannot_hold(tmp_path, new):
    for suffix, write, labels in (
        (".parquet", write_parquet, pa.array([5, 3] * 4)),
        (".npz", write_npz, np.array([5, 3] * 4)),
    ):
        with pytest.raises(ErrataError, match=f"int64.* cannot hold the new label {re.escape(repr(new))}"):
            relabelled(tmp_path, suffix, write, lambda path: [5, 3] * 4, labels, new)
        assert not (tmp_path / f"copy{suffix}").exists()


@pytest.mark.parametrize(
    ("labels", "new", "expected"),
    [
        (pa.array([2.5, 3.0] * 4), "1e3", 1000.0),
        (pa.array([2.5, 3.0] * 4, pa.float32()), "0.1", float(np.float32(0.1))),
        (pa.array([2.5, 3.0] * 4), str(BIG), None),
        (pa.array([2.5, 3.0] * 4), "inf", None),
        (pa.array([Decimal("1.50"), Decimal("2.00")] * 4), "9.99", Decimal("9.99")),
        (pa.array([Decimal("1.50"), Decimal("2.00")] * 4), "9.999", None),
        (pa.array([Decimal("1.50"), Decimal("2.00")] * 4), "007", None),
        (pa.array([True, False] * 4), "FALSE", False),
        (pa.array([True, False] * 4), "1", None),
        (pa.array([True, False] * 4), "yes", None),
        (
            pa.array([dt.date(2024, 1, 31), dt.date(2024, 2, 1)] * 4),
            "2024-02-29",
            dt.date(2024, 2, 29),
        ),
        (pa.array([dt.date(2024, 1, 31), dt.date(2024, 2, 1)] * 4), "2024-02-30", None),
        (pa.array(["007", "008"] * 4), "7", "7"),
        (pa.array(["007", "008"] * 4, pa.large_string()), "1_000", "1_000"),
    ],
    ids=str,
)
def test_parquet_reads_a_label_by_the_type_of_its_column(tmp_path, labels, new, expected):
    if expected is None:
        with pytest.raises(ErrataError, match="cannot hold the new label"):
            relabelled(tmp_path, ".parquet", write_parquet, read_parquet, labels, new)
    else:
        after, logged = relabelled(tmp_path, ".parquet", write_parquet, read_parquet, labels, new)
        assert (after, type(after)) == (expected, type(expected))
        assert pd.isna(pd.Series([logged])).sum() == 0


def test_dates_in_arrays(tmp_path):
    dates = np.array(["2024-01-31", "2024-02-01"] * 4, dtype="M8[D]")
    new = relabelled(tmp_path, ".npz", write_npz, read_npz, dates, "2024-02-29")[0]
    assert new == dt.date(2024, 2, 29)
    with pytest.raises(ErrataError, match="cannot hold the new label '2024-02-30'"):
        relabelled(tmp_path, ".npz", write_npz, read_npz, dates, "2024-02-30")


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@pytest.mark.parametrize(
    ("new", "expected"), [("1", 1), ("True", True), ("true", True), ("1.0", 1.0), ("0", 0), ("False", False)]
)
def test_true_and_1_in_one_json_column_stay_apart(tmp_path, suffix, new, expected):
    labels = ["x", True, 1, 1.0, "x", True, 0, False, "y", "y"]
    after, _ = relabelled(tmp_path, suffix, write_json, read_json, labels, new)
    assert (after, type(after)) == (expected, type(expected))


def test_equal_labels_are_one_class_for_find_but_not_outdated(tmp_path):
    path = tmp_path / "data.jsonl"
    write_json(path, [True, 1, 0, 0, True, 1])
    rows = [(row, "1", "relabel", "0") for row in (0, 1)]  # find shows both as 1
    applied = errata.apply(path, pd.DataFrame(rows, columns=["id", "label", "decision", "new_label"]), label="kind")
    assert read_json(applied.copy)[:2] == [0, 0]
    assert [type(label) for label in read_json(applied.copy)] == [int, int, int, int, bool, int]


def test_floats_that_may_have_lost_digits_are_refused(tmp_path):
    path = tmp_path / "data.csv"
    write_csv(path, [5, 3] * 4)
    rows = [(0, 5, "relabel", float(BIG)), (1, 3, "keep", None)]
    with pytest.raises(ErrataError, match=r"row 0 has the float 9007199254740992.0.*dtype=str"):
        errata.apply(path, pd.DataFrame(rows, columns=["id", "label", "decision", "new_label"]), label="kind")


WHOLE = st.integers(-(2**63), 2**63 - 1).filter(lambda number: number not in (3, 5))
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(str.strip)
BELOW_2_53 = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9)
ANY_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)


@ANY_FOLDER
@given(number=WHOLE)
def test_any_whole_number_is_written_to_the_digit(tmp_path, number):
    text = str(number)
    for suffix, write, read in TEXT_FILES:
        assert relabelled(tmp_path, suffix, write, read, [5, 3] * 4, text) == (text, text)
    for suffix, write, read in JSON_FILES:
        assert relabelled(tmp_path, suffix, write, read, [5, 3] * 4, text) == (number, text)
    assert relabelled(tmp_path, ".parquet", write_parquet, read_parquet, pa.array([5, 3] * 4), text) == (number, text)
    assert relabelled(tmp_path, ".npz", write_npz, read_npz, np.array([5, 3] * 4), text) == (number, text)


@ANY_FOLDER
@given(text=TEXT)
def test_any_text_is_written_as_it_is(tmp_path, text):
    kinds = ["ant", "bee"] * 4
    for suffix, write, read in (*TEXT_FILES, *JSON_FILES):
        assert relabelled(tmp_path, suffix, write, read, kinds, text) == (text, text)
    assert relabelled(tmp_path, ".parquet", write_parquet, read_parquet, pa.array(kinds), text) == (text, text)
    assert relabelled(tmp_path, ".npz", write_npz, read_npz, np.array(kinds), text)[0] == text.rstrip("\0")


@ANY_FOLDER
@given(number=BELOW_2_53)
def test_any_decimal_is_written_to_the_digit(tmp_path, number):
    labels, text = [2.25, 3.125] * 4, str(number)
    for suffix, write, read in TEXT_FILES:
        assert Decimal(relabelled(tmp_path, suffix, write, read, labels, text)[0]) == number
    for suffix, write, read in JSON_FILES:
        assert Decimal(repr(relabelled(tmp_path, suffix, write, read, labels, text)[0])) == number
    assert Decimal(repr(relabelled(tmp_path, ".npz", write_npz, read_npz, np.array(labels), text)[0])) == number
    column = pa.array([Decimal("2.250"), Decimal("3.125")] * 4, pa.decimal128(20, 3))
    assert relabelled(tmp_path, ".parquet", write_parquet, read_parquet, column, text)[0] == number
