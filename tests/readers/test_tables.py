import gzip
import json
import os
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from errata.errors import DataError, InputError, MissingDataError, StoreError
from errata.readers import features, open_data
from errata.readers.data_frames import unique_names

N = 120


@pytest.fixture
def frame():
    """A table with a column of every type."""
    rng = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "dark", "light", "warm", "cold", "pale"])
    return pd.DataFrame(
        {
            "length": np.where(rng.random(N) < 0.1, np.nan, rng.normal(50, 9, N)),
            "count": rng.integers(0, 9, N),
            "ripe": rng.random(N) < 0.5,
            "colour": rng.choice(["red", "green", None], N, p=[0.6, 0.3, 0.1]),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, N), unit="D"),
            "note": [" ".join(rng.choice(words, 6)) for _ in range(N)],
            "sample_id": rng.permutation(10_000)[:N],
            "constant": 3,
            "nothing": [None] * N,
            "nested": [[1, 2]] * N,
            "kind": rng.choice(["apple", "pear", "plum"], N),
        }
    )


def error_of(error, *words, **arguments):
    """The one-line message of the error."""
    with pytest.raises(error) as caught:
        open_data(**arguments)
    message = str(caught.value)
    for word in words:
        assert word in message
    assert "\n" not in message
    return message


def result_or_error(call):
    """The result of a call, or its error message."""
    try:
        return call(), ""
    except InputError as error:
        return None, str(error)


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def csv(tmp_path, content, **arguments):
    return open_data(written(tmp_path, "data.csv", content), "y", **arguments)


class TestColumns:
    def test_column_types_are_inferred(self, frame):
        data = open_data(frame, "kind")
        assert data.columns == {
            "kind": "label",
            "length": "number",
            "count": "number",
            "ripe": "yes/no",
            "colour": "category",
            "seen": "date",
            "note": "text",
            "sample_id": "left out: like an id",
            "constant": "left out: constant",
            "nothing": "left out: empty",
            "nested": "left out: nested",
        }
        assert data.kind == "table"
        for name in ("sample_id", "constant", "nothing", "nested"):
            assert any(repr(name) in remark and "left out" in remark for remark in data.remarks)

    def test_a_table_with_text_only_is_text(self, frame):
        assert open_data(frame[["note", "sample_id", "kind"]], "kind").kind == "text"

    def test_text_columns_can_be_passed(self, frame):
        data = open_data(frame[["colour", "kind"]], "kind", text="colour")
        assert data.columns["colour"] == "text"
        assert data.kind == "text"
        assert sorted(data.prepare().names) == ["colour: green", "colour: red"]
        assert "nope" in error_of(InputError, source=frame, label="kind", text="nope")
        error_of(InputError, "both the label and text", source=frame, label="kind", text=["kind"])

    def test_trec_is_text(self, real_data):
        lines = (real_data / "trec" / "train_5500.label").read_text(encoding="latin-1").splitlines()[:1500]
        table = pd.DataFrame(
            {"class": [line.split(":")[0] for line in lines], "question": [line.split(" ", 1)[1] for line in lines]}
        )
        data = open_data(table, "class")
        assert data.kind == "text"
        assert data.classes == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")

    def test_letter_is_a_table_of_numbers(self, real_data, tmp_path):
        names = ["letter", *(f"x{column}" for column in range(16))]
        body = (real_data / "letter" / "letter-recognition.data").read_text()
        data = open_data(written(tmp_path, "letter.csv", ",".join(names) + "\n" + body), label="letter")
        assert data.samples == 20_000
        assert data.num_classes == 26
        assert set(data.columns.values()) == {"label", "number"}
        matrix = data.prepare().matrix
        np.testing.assert_allclose(matrix.mean(axis=0), 0, atol=1e-4)
        np.testing.assert_allclose(matrix.std(axis=0), 1, atol=1e-4)

    def test_chinese_without_spaces_is_text(self):
        rng = np.random.default_rng(1)
        letters = np.array(list("天地玄黄宇宙洪荒日月盈昃辰宿列张"))
        texts = ["".join(rng.choice(letters, 12)) for _ in range(60)]
        data = open_data(pd.DataFrame({"text": texts, "y": [0, 1] * 30}), "y")
        assert data.columns["text"] == "text"
        assert len(data.prepare().names) > len(letters)

    def test_a_column_that_repeats_the_label_is_left_out(self, frame):
        frame["kind_code"] = frame["kind"].map({"apple": 7, "pear": 8, "plum": 9})
        data = open_data(frame, "kind")
        assert data.columns["kind_code"] == "left out: like the label"
        frame.loc[5, "kind_code"] = 8 if frame.loc[5, "kind_code"] != 8 else 7
        assert open_data(frame, "kind").columns["kind_code"] == "number"

    @pytest.mark.parametrize(
        ("name", "values", "treatment"),
        [
            ("n", range(100, 100 + N), "left out: like an id"),
            ("n", range(0, 7 * N, 7), "number"),
            ("PassengerId", range(0, 7 * N, 7), "left out: like an id"),
            ("grid", range(0, 7 * N, 7), "number"),
            ("code", [f"k{row}" for row in range(N)], "left out: like an id"),
            ("code", [f"k{row % 60}" for row in range(N)], "category"),
            ("name", [f"Person {row}" for row in range(N)], "left out: like an id"),
            ("name", [f"Person {row - row // 20}" for row in range(N)], "left out: like an id"),
            ("name", pd.Categorical([f"Person {row}" for row in range(N)]), "left out: like an id"),
            ("name", [f"Person {row // 2}" for row in range(N)], "category"),
            ("name", [f"Person {row}" if row % 5 == 0 else None for row in range(N)], "category"),
            ("day", ["2024-02-0" + str(row % 9 + 1) for row in range(N)], "date"),
            ("day", ["2024-13-0" + str(row % 9 + 1) for row in range(N)], "category"),
            ("price", [Decimal(row % 7) / 4 for row in range(N)], "number"),
            ("mixed", [1, "a", 2.5] * (N // 3), "category"),
            ("flag", [True, None, False] * (N // 3), "yes/no"),
            ("span", pd.to_timedelta(np.arange(N) % 9, unit="h"), "number"),
            ("raw", [b"x"] * N, "left out: nested"),
            ("group", pd.Categorical(np.arange(N) % 4), "category"),
        ],
    )
    def test_columns_are_inferred_from_names_and_values(self, name, values, treatment):
        table = pd.DataFrame({name: values, "other": np.arange(N) % 5, "y": (np.arange(N) // 2) % 2})
        data = open_data(table, "y")
        assert data.columns[name] == treatment
        assert np.isfinite(data.prepare().matrix).all()

    def test_tables_without_usable_columns_are_refused(self):
        error_of(InputError, "'a'", "constant", source=pd.DataFrame({"a": [1] * 4, "y": [0, 1] * 2}), label="y")
        error_of(InputError, "no other column", source=pd.DataFrame({"y": [0, 1, 0, 1]}), label="y")

    def test_infinite_numbers_are_missing(self):
        table = pd.DataFrame({"a": [1.0, np.inf, 3.0, -np.inf], "y": [0, 1, 0, 1]})
        data = open_data(table, "y")
        assert "column 'a': 2 values are infinite or too large and counted as missing" in data.remarks
        prepared = data.prepare()
        assert prepared.names == ("a", "a is missing")
        np.testing.assert_array_equal(prepared.matrix[:, 1], [0, 1, 0, 1])

    def test_ignored_columns_are_left_out(self, frame, tmp_path):
        frame.to_csv(tmp_path / "t.csv", index=False)
        for source in (frame, tmp_path / "t.csv", (frame.drop(columns="kind"), frame["kind"])):
            label = None if isinstance(source, tuple) else "kind"
            data = open_data(source, label, ignore=["length", "note"])
            assert data.left_out["length"] == data.left_out["note"] == "ignored"
            assert "columns 'length' and 'note' were named by `ignore` and are left out" in data.remarks
            assert not any(name.startswith(("length", "note")) for name in data.prepare().names)
            np.testing.assert_array_equal(data.labels, open_data(frame, "kind").labels)
        assert open_data(frame, "kind", ignore="length").left_out["length"] == "ignored"
        assert open_data(frame, "kind", ignore=[]).columns == open_data(frame, "kind").columns

    def test_ignored_columns_must_exist_and_have_no_other_use(self, frame, tmp_path):
        error_of(
            InputError, "no column 'lenght'", "Did you mean 'length'?", source=frame, label="kind", ignore="lenght"
        )
        error_of(InputError, "'kind' cannot be both the label and ignored", source=frame, label="kind", ignore="kind")
        options = {"source": frame, "label": "kind", "id": "sample_id", "text": "note"}
        error_of(InputError, "both the id and ignored", ignore=["sample_id"], **options)
        error_of(InputError, "both the text and ignored", ignore=["note"], **options)
        arrays = (np.eye(4), [0, 1, 0, 1])
        error_of(InputError, "ignore= names a column of a table", source=arrays, ignore="a")
        np.savez(tmp_path / "a.npz", X=arrays[0], y=arrays[1])
        error_of(InputError, "ignore= names a column of a table", source=tmp_path / "a.npz", ignore="a")
        (tmp_path / "photos").mkdir()
        error_of(InputError, "Omit `ignore=`", source=tmp_path / "photos", ignore="a")


class TestIndex:
    def table(self, index):
        return pd.DataFrame({"a": np.arange(6.0), "y": [0, 1] * 3}, index=index)

    @pytest.mark.parametrize("index", [[5, 3, 1, 0, 2, 4], [10, 20, 30, 40, 50, 60], list("fedcba")])
    def test_an_index_names_the_samples(self, index):
        table = self.table(index)
        data = open_data(table, "y")
        assert data.ids.tolist() == index
        np.testing.assert_array_equal(table.loc[data.ids, "a"], data.inputs["a"])
        np.testing.assert_array_equal(open_data((table[["a"]], table["y"])).ids, index)

    def test_ids_of_rows_without_label_are_not_needed(self):
        table = self.table([1, 1, 2, 3, 4, 5]).assign(y=[None, 1, 0, 1, 0, 1])
        assert open_data(table, "y").ids.tolist() == [1, 2, 3, 4, 5]

    def test_numbered_rows_are_the_default(self):
        for index in (range(6), list(range(6))):
            assert open_data(self.table(index), "y").ids.tolist() == list(range(6))
        assert open_data(self.table(list("fedcba")), "y", id=np.arange(6)).ids.tolist() == list(range(6))
        assert open_data(self.table(list("fedcba")).assign(key=range(7, 13)), "y", id="key").ids.tolist()[0] == 7

    @pytest.mark.parametrize(
        ("index", "words"),
        [
            ([0, 1, 2, 0, 1, 2], "the index of the table has the id 0 twice, in rows 0 and 3"),
            ([0, 1, np.nan, 3, 4, 5], "the index of the table has no id in row 2"),
            (pd.MultiIndex.from_product([[0, 1], [0, 1, 2]]), "index of the table has 2 levels"),
        ],
    )
    def test_other_indices_are_refused(self, index, words):
        table = self.table(index)
        error_of(InputError, words, "`id=`", "reset_index()", source=table, label="y")
        assert open_data(table, "y", id=np.arange(6)).ids.tolist() == list(range(6))


class TestUniqueNames:
    def test_columns_of_one_name_are_numbered(self):
        assert unique_names(["a", "b", "a", "", "", "a"]) == (
            ["a", "b", "a.1", "unnamed", "unnamed.1", "a.2"],
            [
                "several columns are named 'a': 2 are renamed 'a.1' and 'a.2'",
                "several columns are named 'unnamed': one is renamed 'unnamed.1'",
            ],
        )
        assert unique_names(["a.1", "a", "a"])[0] == ["a.1", "a", "a.2"]

    @pytest.mark.parametrize("name", ["a", "a.1"])
    def test_many_columns_of_one_name(self, name):
        names, remarks = unique_names([name] * 50_000)
        assert len(set(names)) == 50_000
        (remark,) = remarks
        assert len(remark) < 200


class TestFeatures:
    def test_numbers_match_pandas(self, frame):
        rows = np.arange(0, N, 2)
        prepared = open_data(frame[["length", "count", "kind"]], "kind").prepare(rows)
        assert prepared.names == ("length", "count", "length is missing")
        assert prepared.matrix.dtype == np.float32
        filled = frame[["length", "count"]].fillna(frame[["length", "count"]].iloc[rows].median())
        seen = filled.iloc[rows]
        expected = (filled - seen.mean()) / seen.std(ddof=0)
        np.testing.assert_allclose(prepared.matrix[:, :2], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(prepared.matrix[:, 2], frame["length"].isna())

    def test_categories_match_get_dummies(self, frame):
        prepared = open_data(frame[["colour", "count", "kind"]], "kind").prepare()
        expected = pd.get_dummies(frame["colour"].fillna("(missing)"), prefix="colour", prefix_sep=" = ")
        got = pd.DataFrame(prepared.matrix, columns=prepared.names)[expected.columns]
        np.testing.assert_array_equal(got, expected)

    def test_rare_and_unseen_categories_share_a_column(self):
        colours = ["red"] * 10 + ["blue"] * 10 + ["odd", "strange"] + ["new"] * 3
        table = pd.DataFrame({"colour": colours, "y": [0, 1] * 12 + [0]})
        prepared = open_data(table, "y").prepare(np.arange(22))
        assert prepared.names == ("colour = blue", "colour = red", "colour = (rare)")
        np.testing.assert_array_equal(prepared.matrix[20:], [[0, 0, 1]] * 5)

    def test_the_number_of_category_columns_is_limited(self):
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"zip": [f"z{n}" for n in rng.integers(0, 3000, 9000)], "y": rng.integers(0, 2, 9000)})
        prepared = open_data(table, "y").prepare()
        assert len(prepared.names) == features.MAX_CATEGORIES
        assert prepared.names[-1] == "zip = (rare)"
        np.testing.assert_array_equal(prepared.matrix.sum(axis=1), 1)

    def test_booleans_become_0_and_1(self):
        table = pd.DataFrame({"ok": [True, False, True, None, True], "y": [0, 1, 0, 1, 0]})
        prepared = open_data(table, "y").prepare()
        assert prepared.names == ("ok", "ok is missing")
        np.testing.assert_array_equal(prepared.matrix, [[1, 0], [0, 0], [1, 0], [1, 1], [1, 0]])

    def test_dates_become_days_months_and_weekdays(self):
        days = pd.to_datetime(["2024-01-01", "2024-03-10", None, "2024-12-25"])
        prepared = open_data(pd.DataFrame({"day": days, "y": [0, 1, 0, 1]}), "y").prepare()
        assert prepared.names == (
            "day",
            "day (month)",
            "day (weekday)",
            *(f"{n} is missing" for n in prepared.names[:3]),
        )
        numbers = pd.Series(days).map(lambda day: day.toordinal() if day is not pd.NaT else np.nan)
        numbers = numbers.fillna(numbers.median())
        expected = (numbers - numbers.mean()) / numbers.std(ddof=0)
        np.testing.assert_allclose(prepared.matrix[:, 0], expected, rtol=1e-4, atol=1e-5)

    def test_terms_match_scikit_learn(self, frame):
        rows = np.arange(40)
        prepared = open_data(frame[["note", "kind"]], "kind").prepare(rows)
        oracle = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\b\w+\b")
        oracle.fit(frame["note"].iloc[rows])
        np.testing.assert_allclose(prepared.matrix, oracle.transform(frame["note"]).toarray(), rtol=1e-5)
        assert prepared.names == tuple(f"note: {term}" for term in oracle.get_feature_names_out())

    def test_sparse_terms_are_words_and_parts_of_words_of_all_text_columns(self, frame):
        table = pd.DataFrame(
            {"note": frame["note"], "other": [f"another text {row}" for row in range(N)], "y": frame["kind"]}
        )
        table.loc[3, "other"] = None
        found = open_data(table, "y", text=["note", "other"]).fit_features.terms()
        parts = []
        for texts in (table["note"], table["other"].fillna("")):
            for options in (
                {"ngram_range": (1, 2), "token_pattern": r"\b\w+\b"},
                {"analyzer": "char_wb", "ngram_range": (3, 5)},
            ):
                oracle = TfidfVectorizer(**options, sublinear_tf=True, min_df=2 if N >= 100 else 1)
                parts.append(oracle.fit_transform(texts).toarray())
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.toarray(), np.concatenate(parts, axis=1), rtol=1e-5)

    def test_many_terms_are_reduced_to_components(self, frame, monkeypatch):
        monkeypatch.setattr(features, "MAX_DENSE_BYTES", 1000)
        monkeypatch.setattr(features, "COMPONENTS", 5)
        prepared = open_data(frame[["note", "colour", "count", "kind"]], "kind").prepare(np.arange(60))
        assert prepared.names == ("count", *(f"direction {number}" for number in range(5)))
        assert np.mean(prepared.matrix[:60, 1:] ** 2) == pytest.approx(1, rel=1e-4)

    def test_other_rows_do_not_affect_the_statistics(self, frame):
        rows = np.arange(0, N, 3)
        others = np.setdiff1d(np.arange(N), rows)
        changed = frame.copy()
        changed.loc[others, "length"] *= 1000
        changed.loc[others, "count"] += 500
        changed.loc[others, "colour"] = "violet"
        changed.loc[others, "note"] = [f"words that nobody ever used {row}" for row in others]
        changed.loc[others, "seen"] += pd.Timedelta(days=4000)
        first, second = (open_data(table, "kind").prepare(rows) for table in (frame, changed))
        assert first.names == second.names
        np.testing.assert_array_equal(first.matrix[rows], second.matrix[rows])

    def test_extreme_values_are_clipped(self):
        table = pd.DataFrame({"a": [1.0, 1.0, 1.0, 1e90, -5.0], "y": [0, 1, 0, 1, 0]})
        matrix = open_data(table, "y").prepare([0, 1, 2]).matrix
        np.testing.assert_array_equal(matrix[:, 0], [0, 0, 0, features.MAX_DEVIATIONS, -6])

    def test_rows_to_fit_on_are_checked(self, frame):
        data = open_data(frame, "kind")
        mask = np.arange(N) < 30
        np.testing.assert_array_equal(data.prepare(mask).matrix, data.prepare(np.arange(30)).matrix)
        for rows in ([], [N], [-1], [0.5], np.zeros(N, dtype=bool), [[0, 1]]):
            with pytest.raises(InputError, match="train_rows"):
                data.prepare(rows)

    def test_features_that_do_not_fit_into_memory_are_refused(self, frame, monkeypatch):
        data = open_data(frame, "kind")
        monkeypatch.setattr("errata.memory.available_memory", lambda: 1000)
        with pytest.raises(InputError, match=r"would take .* GB of memory, but 0\.0 GB are free"):
            data.prepare()

    def test_the_table_is_not_changed(self, frame):
        before = frame.copy(deep=True)
        open_data(frame, "kind", id="sample_id").prepare()
        pd.testing.assert_frame_equal(frame, before)


CELLS = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.text(max_size=6),
    st.dates(),
    st.just([1]),
)


class TestAnyTable:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        st.integers(4, 30).flatmap(
            lambda rows: st.lists(
                st.one_of(
                    st.lists(CELLS, min_size=rows, max_size=rows),
                    st.lists(st.floats(), min_size=rows, max_size=rows),
                    st.lists(st.sampled_from(["a", "b", "", "c d e f"]), min_size=rows, max_size=rows),
                ),
                min_size=1,
                max_size=4,
            )
        ),
        st.randoms(use_true_random=False),
    )
    def test_is_read_or_refused(self, columns, random):
        rows = len(columns[0])
        table = pd.DataFrame({f"c{number}": pd.Series(values) for number, values in enumerate(columns)})
        labels = [row % 2 for row in range(rows)]
        data, message = result_or_error(lambda: open_data(table, labels))
        if data is None:
            assert "no column to learn from" in message
            return
        fitted_on = random.sample(range(rows), rows // 2)
        prepared, message = result_or_error(lambda: data.prepare(fitted_on))
        if prepared is None:
            assert "empty there" in message
            return
        assert prepared.matrix.shape == (rows, len(prepared.names))
        assert np.isfinite(prepared.matrix).all()

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.one_of(st.integers(-3, 3), st.sampled_from(["a", "B", " ", ""]), st.none()), min_size=2))
    def test_labels_are_encoded_without_loss(self, labels):
        table = pd.DataFrame({"x": np.arange(len(labels)) * 2.5})
        there = [row for row, label in enumerate(labels) if label is not None and str(label).strip()]
        data, message = result_or_error(lambda: open_data(table, labels))
        if data is None:
            assert len({labels[row] for row in there}) < 2 or "have the same label" in message
            return
        assert [data.classes[number] for number in data.labels] == [labels[row] for row in there]
        assert data.rows.tolist() == data.ids.tolist() == there
        assert len(data.inputs) == len(there)


class TestLabels:
    @pytest.mark.parametrize(
        ("given_labels", "classes"),
        [
            ([10, 9, 10, 9], (9, 10)),
            ([2.0, 1.0, 2.0, 1.0], (1.0, 2.0)),
            ([True, False, True, False], (False, True)),
            (["b", "a", "b", "10"], ("10", "a", "b")),
            ([10, "9", 10, "a"], (10, "9", "a")),
            (pd.Categorical(["z", "a", "z", "a"], categories=["z", "q", "a"]), ("a", "z")),
            (np.array([3, 1, 3, 1], dtype=np.uint8), (1, 3)),
            (pd.array([3, 1, None, 3], dtype="Int64"), (1, 3)),
            (pl.Series([3, 1, None, 3]), (1, 3)),
            (np.array([["a"], ["b"], ["a"], ["b"]]), ("a", "b")),
        ],
    )
    def test_of_any_type_keep_it(self, given_labels, classes):
        data = open_data(pd.DataFrame({"x": [0.5, 1.5, 2.5, 4]}), given_labels)
        assert data.classes == classes
        assert [type(name) for name in data.classes] == [type(name) for name in classes]
        assert data.labels.dtype == np.int64

    def test_rows_without_one_are_left_out_and_keep_their_numbers(self):
        table = pd.DataFrame({"x": [1.5, 2, 3, 4, 5], "y": ["a", None, "b", " ", "a"]})
        data = open_data(table, "y")
        assert data.ids.tolist() == [0, 2, 4]
        assert data.inputs["x"].tolist() == [1.5, 3, 5]
        assert data.remarks[0] == "2 rows have no label and are left out"

    def test_a_class_with_one_sample_is_kept_with_a_remark(self):
        data = open_data(pd.DataFrame({"x": [1.5, 2, 3], "y": ["a", "a", "b"]}), "y")
        assert data.num_classes == 2
        assert any("class 'b' has a single sample" in remark for remark in data.remarks)

    def test_classes_that_look_alike_or_missing_are_pointed_out(self):
        data = open_data(pd.DataFrame({"x": np.arange(8) * 1.5, "y": ["Cat", "cat ", "NA", "dog"] * 2}), "y")
        assert data.num_classes == 4
        assert (
            "classes 'Cat' and 'cat ' differ only in spaces, capitals, type or the spelling of a number, "
            "and count as 2 classes (one with --merge-labels, in Python merge_labels=True)" in data.remarks
        )
        assert "the label 'NA' counts as a class, not as a missing label" in data.remarks

    @pytest.mark.parametrize(
        ("given_labels", "classes", "message"),
        [
            (
                [1, True, 0, False],
                (0, 1),
                "the labels 1 and True are equal and count as one class, 1; so are labels",
            ),
            ([1.0, 2, 2, 1], (1, 2), "the labels 1 and 1.0 are equal and count as one class, 1"),
            ([True, 1, "x", 1.0], (1, "x"), "the labels 1, 1.0 and True are equal and count as one class, 1"),
            (["1", 1, "1", 1], (1, "1"), "classes 1 and '1' differ only in .* type or .*, and count as 2 classes"),
            (["1", "1.0", "1", "1.0"], ("1", "1.0"), "differ only in .* the spelling of a number, and count as 2"),
        ],
    )
    def test_equal_labels_of_several_types_get_a_remark(self, tmp_path, given_labels, classes, message):
        records = [{"x": number + 0.5, "y": label} for number, label in enumerate(given_labels)]
        path = written(tmp_path, "data.jsonl", "\n".join(map(json.dumps, records)))
        for data in (open_data(path, "y"), open_data(pd.DataFrame({"x": [0.5, 1.5, 2.5, 4]}), given_labels)):
            assert data.classes == classes
            assert [type(name) for name in data.classes] == [type(name) for name in classes]
            assert any(re.search(message, remark) for remark in data.remarks)

    def test_labels_larger_than_int64_are_distinct_classes(self):
        data = open_data(pd.DataFrame({"x": [0.5, 1.5, 2.5, 4]}), [10**20, 10**20 + 1] * 2)
        assert data.labels.tolist() == [0, 1, 0, 1]
        assert not data.remarks

    @pytest.mark.parametrize(
        ("given_labels", "words"),
        [
            ([None] * 60, "no row has a label"),
            (["a"] * 60, "all 60 labels are 'a'"),
            (np.linspace(0, 1, 60), "no two samples have the same label"),
            ([*np.repeat(np.linspace(0, 1, 30), 2)[:55].tolist(), 0.123, 0.456, 0.789, 2.5, 3.5], "quantity"),
            (range(60), "60 different values in 60 rows"),
            (np.eye(60), "one value per row"),
            ([[1, 2]] * 60, "row 0 holds [1, 2]"),
            ([0, 1] * 29, "58 labels for the 60 rows"),
        ],
    )
    def test_values_that_are_not_classes_are_refused(self, given_labels, words):
        labels = given_labels if isinstance(given_labels, np.ndarray) else list(given_labels)
        error_of(InputError, words, source=pd.DataFrame({"x": np.arange(60) * 1.5}), label=labels)

    def test_many_classes_with_one_sample_are_refused(self):
        names = [f"n{row}" for row in range(3000)]
        names[1] = names[0]
        error_of(InputError, "2,999 different values", source=pd.DataFrame({"x": np.arange(3000) * 1.5}), label=names)

    def test_a_few_fractions_are_classes(self):
        stars = np.tile([0.5, 1, 1.5, 2, 2.5], 12)
        assert open_data(pd.DataFrame({"x": np.arange(60) * 1.5}), stars).num_classes == 5


class TestNames:
    def test_a_misspelt_column_gets_a_suggestion(self, frame):
        error_of(InputError, "no column 'Kind'", "'kind'", source=frame, label="Kind")
        error_of(InputError, "no column 'zzz'", "'length'", "'kind'", source=frame, label="zzz")

    def test_the_likely_label_column_is_suggested(self, frame):
        error_of(InputError, "'kind' looks like it", source=frame)
        error_of(InputError, "'target' looks like it", source=frame.rename(columns={"count": "target"}))

    def test_a_file_without_header_is_refused(self, tmp_path):
        path = written(tmp_path, "data.csv", "1,2,3\n4,5,6\n")
        error_of(InputError, "first line", source=path, label="y")

    def test_repeated_column_names_are_changed(self, tmp_path):
        data = csv(tmp_path, "a,a,y\n1,7,p\n2,9,q\n4,8,p\n")
        assert data.columns == {"y": "label", "a": "number", "a.1": "number"}
        assert data.inputs["a.1"].tolist() == [7, 9, 8]
        assert any("'a.1'" in remark for remark in data.remarks)

    def test_numbered_columns(self):
        data = open_data(pd.DataFrame([[1.5, "p"], [2, "q"], [3, "p"]]), 1)
        assert data.columns == {"1": "label", "0": "number"}

    def test_ids(self, frame):
        data = open_data(frame, "kind", id="sample_id")
        assert data.ids.tolist() == frame["sample_id"].tolist()
        assert data.columns["sample_id"] == "id"
        assert data.rows.tolist() == list(range(N))
        assert open_data(frame, "kind", id=[f"s{row}" for row in range(N)]).ids[3] == "s3"

    def test_bad_ids(self, frame):
        frame["key"] = [f"k{row}" for row in range(N)]
        frame.loc[[7, 11], "key"] = "k3"
        error_of(InputError, "'k3' twice", "rows 3 and 7", source=frame, label="kind", id="key")
        frame.loc[5, "key"] = None
        error_of(InputError, "no id in row 5", source=frame, label="kind", id="key")
        error_of(InputError, "both the label and the id", source=frame, label="kind", id="kind")
        error_of(InputError, "2 ids", source=frame, label="kind", id=[1, 2])


class TestFiles:
    @pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet", "t.jsonl", "t.ndjson", "t.json"])
    def test_every_format_gives_the_same_data(self, frame, tmp_path, name):
        table = frame.drop(columns=["nested", "nothing", "ripe"])
        path = tmp_path / name
        if name.endswith("parquet"):
            table.to_parquet(path, index=False)
        elif "json" in name or "nd" in name:
            table.to_json(path, orient="records", lines=not name.endswith(".json"), date_format="iso")
        else:
            table.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
        data, expected = open_data(path, "kind"), open_data(table, "kind")
        assert data.classes == expected.classes
        assert data.columns == expected.columns
        np.testing.assert_array_equal(data.labels, expected.labels)
        assert data.prepare().names == expected.prepare().names
        np.testing.assert_allclose(data.prepare().matrix, expected.prepare().matrix, rtol=1e-4, atol=1e-5)

    def test_whole_labels_with_gaps_stay_whole(self, tmp_path):
        data = csv(tmp_path, "x,y\n1.5,1\n2,\n3,2\n4,1\n")
        assert data.classes == (1, 2)
        assert all(type(name) is int for name in data.classes)
        path = tmp_path / "t.parquet"
        pl.DataFrame({"x": [1.5, 2, 3, 4], "y": [1, None, 2, 1]}).write_parquet(path)
        assert all(type(name) is int for name in open_data(path, "y").classes)
        lines = written(tmp_path, "t.jsonl", '{"x": 1, "y": 1}\n{"x": 2}\n{"x": 5, "y": 2}\n{"x": 6, "y": 1}\n')
        assert open_data(lines, "y").classes == (1, 2)

    def test_codes_with_leading_zeros_stay_text(self, tmp_path):
        data = csv(tmp_path, "zip,n,y\n01234,0,007\n99999,0.5,7\n01234,-1e3,007\n")
        assert data.columns == {"y": "label", "zip": "category", "n": "number"}
        assert data.classes == ("007", "7")
        assert data.inputs["zip"].tolist() == ["01234", "99999", "01234"]
        assert data.inputs["n"].tolist() == [0, 0.5, -1000]

    def test_very_long_numbers_stay_text(self, tmp_path):
        data = csv(tmp_path, "card,x,y\n12345678901234567890,1,p\n12345678901234567891,2,q\n1,4,p\n")
        assert data.inputs["card"].tolist()[0] == "12345678901234567890"

    def test_words_for_missing_numbers(self, tmp_path):
        data = csv(tmp_path, "a,y\n1,p\nNA,q\n?,p\n ,q\nnan,p\n+3,q\n")
        assert data.columns["a"] == "number"
        assert data.inputs["a"].isna().tolist() == [False, True, True, True, True, False]

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
    def test_byte_order_marks_are_recognised(self, tmp_path, encoding):
        data = csv(tmp_path, "x,y\n1.5,é\n2,ü\n3,é\n".encode(encoding))
        assert data.classes == ("é", "ü")
        assert data.remarks == ("class 'ü' has a single sample: a model is trained on it, but it cannot be held out",)

    @pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
    def test_other_encodings_are_read_as_latin_1_with_a_remark(self, tmp_path, name):
        text = (
            "x,y\n1.5,é\n2,ü\n3,é\n"
            if name == "t.csv"
            else '{"x": 1, "y": "é"}\n{"x": 2, "y": "ü"}\n{"x": 5, "y": "é"}'
        )
        data = open_data(written(tmp_path, name, text.encode("latin-1")), "y")
        assert data.classes == ("é", "ü")
        assert "Latin-1" in data.remarks[0]

    def test_semicolons(self, tmp_path):
        data = csv(tmp_path, "x;y\n1.5;p\n2;q\n3;p\n")
        assert data.columns == {"y": "label", "x": "number"}
        assert "';'" in data.remarks[0]

    def test_quoted_values_over_lines(self, tmp_path):
        data = csv(tmp_path, 'x,y\n"a, ""b""\nc",p\nd,q\n"a, ""b""\nc",p\n')
        assert data.inputs["x"].tolist() == ['a, "b"\nc', "d", 'a, "b"\nc']

    def test_quotes_in_tsv_files_are_ordinary_characters(self, tmp_path):
        body = 'text\ty\n"Who message so\tp\nnobody "\tq\nme\tp\n'
        assert open_data(written(tmp_path, "t.tsv", body), "y").inputs["text"].tolist()[0] == '"Who message so'
        body = '"text"\t"y"\n"a\tb"\t"p"\n"c"\t"q"\n"d"\t"p"\n'
        assert open_data(written(tmp_path, "t.tsv", body), "y").inputs["text"].tolist()[0] == "a\tb"

    def test_a_saved_index_is_left_out(self, frame, tmp_path):
        frame[["length", "kind"]].to_csv(tmp_path / "t.csv")
        assert open_data(tmp_path / "t.csv", "kind").columns["unnamed"] == "left out: like an id"

    def test_an_object_of_lists(self, tmp_path):
        data = open_data(written(tmp_path, "t.json", '{"x": [1, 2, 5], "y": [true, false, true]}'), "y")
        assert data.classes == (False, True)
        error_of(DataError, "equally long", source=written(tmp_path, "u.json", '{"x": [1], "y": [1, 2]}'), label="y")

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("t.csv", "a,y\n1,p\n2\n", "line 3 has 1 value, but the first line has 2"),
            ("t.csv", 'a,y\n"1\n1",p\n2,q,3\n', "line 4 has 3 values, but the first line has 2"),
            ("t.csv", 'a,y\n1,p\n2,"q\n3,p\n', "line 3: unexpected end of data. Check the quotes"),
            ("t.csv", 'a,"b"c,y\n1,2,p\n3,4,q\n', "line 1: ',' expected after '\"'. Check the quotes"),
            ("t.csv", 'a,"b,y\n1,2,p\n3,4,q\n', "line 1: unexpected end of data. Check the quotes"),
            ("t.csv", "a,y\n1,p\n2,q\n".encode("utf-16")[:-1], "line 3 is not UTF-16-LE, although"),
            ("t.csv", b"\xef\xbb\xbfa,y\n1,p\n2,\xf6\n", "line 3 is not UTF-8, although"),
            ("t.tsv", b"\xef\xbb\xbfa\ty\n1\tp\n2\t\xf6\n", "line 3 is not UTF-8, although"),
            ("t.jsonl", b'\xef\xbb\xbf{"a": 1}\n{"a": "\xf6"}\n', "line 2 is not UTF-8, although"),
            ("t.json", b'\xef\xbb\xbf[{"a": 1},\n{"a": "\xf6"}]', "line 2 is not UTF-8, although"),
            ("t.jsonl", '{"a": 1}\n{"a": "\\ud83d"}\n', "line 2 has half of a character (\\ud83d)"),
            ("t.jsonl", '{"a": 1}\n{"\\udc00": "x"}\n', "line 2 has half of a character (\\udc00)"),
            ("t.json", '[{"a": "\\ud83d\\ude00"},\n{"a": "\\ud83d"}]', "line 2 has half of a character (\\ud83d)"),
            pytest.param("t.jsonl", '{"a": 1}\n{"a": ' + "9" * 5000 + "}", "line 2 has a number with", id="digits"),
            pytest.param("t.json", '[{"a": 1},\n{"a": ' + "9" * 5000 + "}]", "line 2 has a number with", id="long"),
            ("t.csv", "", "is empty"),
            ("t.csv", "\n\n", "is empty"),
            ("t.csv.gz", gzip.compress(b"a,y\n1,p\n" * 99, mtime=0)[:-12], "cannot be read"),
            ("t.csv.gz", b"a,y\n1,p\n", "cannot be read"),
            ("t.parquet", b"PAR1 and then nothing", "not a complete Parquet file"),
            ("t.jsonl", '{"a": 1, "y": "p"}\n{"a": 2, "y"', "line 2 is not valid JSON"),
            ("t.jsonl", '{"a": 1, "y": "p"}\n\n[1]', "line 3 holds a list"),
            ("t.json", '[{"a": 1}, 5]', "item 1 holds a int"),
            ("t.json", '[{"a": 1}', "not valid JSON"),
            ("t.json", '"text"', "list of objects"),
            pytest.param("t.json", "[" * 100_000 + "]" * 100_000, "too deeply", id="deep"),
            pytest.param(
                "t.jsonl", '{"y": 1}\n{"y": ' + "[" * 100_000, "line 2 nests lists or objects", id="deep line"
            ),
            ("t.npz", b"PK nothing", ".npz"),
            ("t.npy", b"\x93NUMPY nothing", "not a whole .npy file"),
        ],
    )
    def test_damaged_files_are_refused(self, tmp_path, name, content, words):
        path = written(tmp_path, name, content)
        error_of(StoreError, words, str(path), source=path, label=str(path) if name == "t.npy" else "y")

    @pytest.mark.parametrize("name", ["t.csv", "t.npy", "t.parquet"])
    def test_only_regular_files_are_opened(self, tmp_path, name):
        (tmp_path / name).symlink_to("/dev/zero")
        error_of(DataError, f"{name} is not a regular file", source=tmp_path / name, label="y")
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
        error_of(DataError, f"{name} is not a regular file", source=tmp_path / name, label="y")

    def test_labels_in_a_fifo_are_not_opened(self, tmp_path):
        np.save(tmp_path / "x.npy", np.eye(4))
        os.mkfifo(tmp_path / "y.npy")
        error_of(DataError, "y.npy is not a regular file", source=tmp_path / "x.npy", label=tmp_path / "y.npy")

    @pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl.gz", "t.json"])
    def test_the_unpacked_size_must_fit_into_memory(self, tmp_path, monkeypatch, name):
        line = b'{"a": 1}\n' if "json" in name else b"a,y\n"
        content = line * 200_000
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        monkeypatch.setattr("errata.memory.available_memory", lambda: 2 * len(content))
        message = error_of(InputError, f"the table in {tmp_path / name} would take", source=tmp_path / name, label="y")
        assert (tmp_path / name).stat().st_size < len(content) or "0.0 GB are free" in message

    def test_numbers_beyond_float64_are_missing(self, tmp_path):
        records = [{"a": 0.5 + row % 7, "n": row % 3, "y": row % 2} for row in range(24)]
        records[3]["a"] = -(10**400)
        records[4]["n"] = 10**400
        path = written(tmp_path, "t.jsonl", "\n".join(map(json.dumps, records)))
        data = open_data(path, "y")
        assert data.columns == {"y": "label", "a": "number", "n": "number"}
        assert "column 'a': 1 value is infinite or too large and counted as missing" in data.remarks
        assert np.isfinite(data.prepare().matrix).all()

    def test_emoji_in_escapes_are_read(self, tmp_path):
        text = "".join(json.dumps({"a": row, "y": "\U0001f600" if row % 2 else "\\ud83d"}) + "\n" for row in range(9))
        assert "\\ud83d\\ude00" in text
        assert open_data(written(tmp_path, "t.jsonl", text), "y").classes == ("\\ud83d", "\U0001f600")

    def test_parquet_columns_of_one_name(self, tmp_path):
        columns = [pa.array([1.5, 2.5] * 6), pa.array(["x", "y", "z"] * 4), pa.array(["p", "q", "q"] * 4)]
        pq.write_table(pa.Table.from_arrays(columns, names=["a", "a", "y"]), tmp_path / "t.parquet")
        data = open_data(tmp_path / "t.parquet", "y")
        assert data.columns == {"y": "label", "a": "number", "a.1": "category"}
        assert data.inputs["a.1"].tolist() == ["x", "y", "z"] * 4

    def test_parquet_types_that_pandas_does_not_have(self, tmp_path):
        half = pa.array(np.linspace(0, 1, 12).astype(np.float16))
        times = pa.array(range(0, 12 * 10**12, 10**12), pa.timestamp("us", "Mars/Olympus"))
        table = pa.table({"half": half, "times": times, "y": ["p", "q"] * 6})
        pq.write_table(table.replace_schema_metadata({b"pandas": b"{not json"}), tmp_path / "t.parquet")
        data = open_data(tmp_path / "t.parquet", "y")
        assert data.columns == {"y": "label", "half": "number", "times": "date"}
        np.testing.assert_allclose(data.inputs["half"], np.linspace(0, 1, 12), atol=1e-3)
        assert data.inputs["times"][1] == pd.Timestamp(10**6, unit="s", tz="UTC")

    def test_a_parquet_file_cut_in_half(self, frame, tmp_path):
        path = tmp_path / "t.parquet"
        frame.drop(columns="nested").to_parquet(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        error_of(DataError, "not a complete Parquet file", source=path, label="kind")

    def test_missing_and_unsupported_files_are_refused(self, tmp_path):
        error_of(MissingDataError, "does not exist", source=tmp_path / "no.csv", label="y")
        path = written(tmp_path, "t.xlsx", b"x")
        error_of(
            InputError,
            "Unsupported file type '.xlsx'",
            str(path),
            ".csv",
            ".parquet",
            ".npz",
            "folder",
            source=path,
            label="y",
        )
        error_of(InputError, "no rows", source=written(tmp_path, "t.csv", "a,y\n"), label="y")

    def test_tables_that_do_not_fit_into_memory_are_refused(self, frame, tmp_path, monkeypatch):
        frame.drop(columns="nested").to_parquet(tmp_path / "t.parquet")
        frame.to_csv(tmp_path / "t.csv")
        monkeypatch.setattr("errata.memory.available_memory", lambda: 100)
        for name in ("t.parquet", "t.csv"):
            error_of(InputError, "would take", name, source=tmp_path / name, label="kind")


class TestFrames:
    def test_polars_and_arrow_tables_are_read(self, frame):
        table = frame.drop(columns="nested")
        expected = open_data(table, "kind").prepare()
        for other in (pl.from_pandas(table), pl.from_pandas(table).lazy(), pa.Table.from_pandas(table)):
            data = open_data(other, "kind")
            assert data.prepare().names == expected.names
            np.testing.assert_allclose(data.prepare().matrix, expected.matrix, rtol=1e-5, atol=1e-6)

    def test_any_frame_with_to_pandas_is_read(self, frame):
        class Foreign:
            columns = tuple(frame.columns)

            def to_pandas(self):
                return frame

        assert open_data(Foreign(), "kind").samples == N

    def test_polars_categories_and_gaps(self):
        table = pl.DataFrame(
            {"c": pl.Series(["u", "v", "u", None], dtype=pl.Categorical), "n": [1, None, 3, 4], "y": [1, 2, 1, 2]}
        )
        data = open_data(table, "y")
        assert data.columns == {"y": "label", "c": "category", "n": "number"}
        assert data.prepare().names == ("n", "n is missing", "c = u", "c = (rare)")

    def test_the_hash_depends_on_the_content(self, frame, tmp_path):
        frame.to_csv(tmp_path / "a.csv", index=False)
        frame.to_csv(tmp_path / "b.csv", index=False)
        first, second = (open_data(tmp_path / name, "kind").content_hash for name in ("a.csv", "b.csv"))
        assert first == second
        frame.loc[3, "count"] += 1
        frame.to_csv(tmp_path / "b.csv", index=False)
        assert open_data(tmp_path / "b.csv", "kind").content_hash != first
        assert open_data(frame, "kind").content_hash == open_data(frame.copy(), "kind").content_hash


def test_records_with_missing_values(tmp_path):
    records = [{"a": 1, "y": "p"}, {"b": 2.5, "y": "q"}, {"a": 3, "b": 1, "y": "p"}]
    path = written(tmp_path, "t.json", "\n".join(map(json.dumps, records)))
    data = open_data(path, "y")
    assert data.inputs["a"].isna().tolist() == [False, True, False]
    assert data.inputs["b"].isna().tolist() == [True, False, False]
