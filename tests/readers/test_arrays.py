import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils import Bunch

from errata.errors import InputError, MissingDataError, StoreError
from errata.readers import arrays, features, open_data


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


def error_of(words, *source, **arguments):
    with pytest.raises(InputError, match=words) as caught:
        open_data(*source, **arguments)
    assert "\n" not in str(caught.value)


class TestTables:
    @pytest.mark.parametrize(
        "convert",
        [
            np.asarray,
            torch.tensor,
            lambda values: values.tolist(),
            lambda values: values.astype(np.float32),
            lambda values: torch.tensor(values, dtype=torch.bfloat16, requires_grad=True),
            np.asfortranarray,
        ],
    )
    def test_all_libraries_give_the_same_data(self, digits, convert):
        inputs, labels = digits
        data = open_data((convert(inputs), labels))
        assert data.kind == "table"
        assert data.classes == tuple(range(10))
        np.testing.assert_array_equal(data.labels, labels)
        np.testing.assert_array_equal(data.ids, np.arange(len(labels)))
        varying = np.ptp(inputs, axis=0) > 0
        prepared = data.prepare()
        np.testing.assert_allclose(prepared.matrix, StandardScaler().fit_transform(inputs[:, varying]), atol=1e-5)
        assert prepared.matrix.dtype == np.float32
        assert prepared.names == tuple(f"column {column}" for column in np.flatnonzero(varying))
        assert data.columns == {"inputs": "61 columns of numbers"}
        assert "3 columns are constant and left out" in data.remarks

    def test_labels_can_be_passed_separately(self, digits):
        inputs, labels = digits
        for passed_labels in (labels, labels.tolist(), torch.tensor(labels), pd.Series(labels), pl.Series(labels)):
            np.testing.assert_array_equal(open_data(inputs, passed_labels).labels, labels)

    def test_features_are_fitted_on_the_given_rows(self, digits, monkeypatch):
        monkeypatch.setattr(features, "BLOCK_ROWS", 100)
        inputs, labels = digits
        rows = np.arange(0, 900, 2)
        scaler = StandardScaler().fit(inputs[rows])
        data = open_data((inputs, labels))
        used = np.ptp(inputs, axis=0) > 0
        expected = np.clip(scaler.transform(inputs)[:, used], -features.MAX_DEVIATIONS, features.MAX_DEVIATIONS)
        np.testing.assert_allclose(data.prepare(rows).matrix, expected, atol=1e-4)

    def test_other_rows_do_not_affect_the_features(self, digits):
        inputs, labels = digits
        changed = inputs.copy()
        changed[1000:] = 1000 - 3 * changed[1000:]
        rows = np.arange(1000)
        first, second = (open_data((values, labels)).prepare(rows) for values in (inputs, changed))
        shared = [second.names.index(name) for name in first.names]
        np.testing.assert_array_equal(first.matrix[:1000], second.matrix[:1000, shared])

    @settings(max_examples=40, deadline=None)
    @given(
        hnp.arrays(
            np.float64, st.tuples(st.integers(4, 12), st.integers(1, 4)), elements=st.floats(-1e119, 1e119, width=64)
        )
    )
    def test_features_of_finite_numbers_are_finite(self, inputs):
        source = (inputs, [row % 2 for row in range(len(inputs))])
        if (inputs == inputs[0]).all():
            error_of("constant", source)
            return
        data = open_data(source)
        assert np.isfinite(data.prepare([0, 1]).matrix).all()
        assert np.isfinite(data.prepare().matrix).all()

    def test_rows_without_a_label_are_left_out(self, digits):
        inputs, labels = digits
        floats = labels.astype(float)
        floats[[3, 8]] = np.nan
        data = open_data((inputs, floats))
        assert data.samples == len(labels) - 2
        assert 3 not in data.ids
        np.testing.assert_array_equal(data.inputs, np.delete(inputs, [3, 8], axis=0))

    def test_mixed_columns_are_a_table(self):
        inputs = np.array([["red", 1.5], ["blue", 2.0], ["red", None], ["blue", 4.0]], dtype=object)
        data = open_data((inputs, [0, 1, 0, 1]))
        assert data.columns == {"0": "category", "1": "number"}
        records = np.array([(1.5, "a"), (2, "b"), (3, "a")], dtype=[("size", float), ("kind", "U1")])
        assert open_data((records, [0, 1, 0])).columns == {"size": "number", "kind": "category"}

    def test_a_frame_and_separate_labels(self):
        table = pd.DataFrame({"a": [1.5, np.nan, 3]}, index=[7, 8, 9])
        data = open_data((table, pd.Series(["u", "v", "u"], index=[1, 2, 3])))
        assert data.classes == ("u", "v")
        assert data.prepare().names == ("a", "a is missing")
        assert open_data((pl.from_pandas(table), ["u", "v", "u"])).columns == {"a": "number"}

    def test_ids(self, digits):
        inputs, labels = digits
        assert open_data((inputs, labels), id=[f"d{row}" for row in range(len(labels))]).ids[5] == "d5"
        error_of("the id 4 twice, in rows 2 and 4", (inputs[:6], labels[:6] % 2), id=[0, 1, 4, 3, 4, 5])

    def test_inputs_are_not_changed(self, digits):
        inputs, labels = digits
        frozen = inputs.copy()
        frozen.flags.writeable = False
        open_data((frozen, labels)).prepare()


class TestSparse:
    @pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
    def test_small_tables_become_dense(self, digits, make):
        inputs, labels = digits
        rows = np.arange(500)
        data = open_data((make(inputs), labels))
        expected = (
            MaxAbsScaler().fit(inputs[rows]).transform(inputs).clip(-features.MAX_DEVIATIONS, features.MAX_DEVIATIONS)
        )
        np.testing.assert_allclose(data.prepare(rows).matrix, expected, rtol=1e-5)
        assert data.columns == {"inputs": "64 columns of numbers, sparse"}

    def test_large_tables_are_reduced(self, monkeypatch):
        wide = sparse.random(400, 2000, density=1e-2, random_state=0, format="csr")
        monkeypatch.setattr(features, "MAX_DENSE_BYTES", 4 * 400 * 2000 - 1)
        prepared = open_data((wide, np.arange(400) % 3)).prepare(np.arange(300))
        assert prepared.matrix.shape == (400, features.COMPONENTS)
        assert np.isfinite(prepared.matrix).all()

    def test_rows_with_infinite_values_are_named(self, digits):
        inputs, labels = digits
        bad = inputs.copy()
        bad[17, 20] = np.inf
        error_of("Row 17 of the inputs", (sparse.csr_matrix(bad), labels))

    def test_rows_without_a_label_are_left_out(self, digits):
        inputs, _ = digits
        data = open_data((sparse.csr_matrix(inputs[:4]), ["a", None, "b", "a"]))
        np.testing.assert_array_equal(data.inputs.toarray(), inputs[[0, 2, 3]])


class TestImages:
    @pytest.fixture
    def pixels(self):
        return np.random.default_rng(0).integers(0, 256, (12, 20, 18, 3), dtype=np.uint8)

    @pytest.mark.parametrize(
        "convert",
        [
            lambda pixels: pixels,
            lambda pixels: pixels.transpose(0, 3, 1, 2),
            lambda pixels: torch.tensor(pixels.transpose(0, 3, 1, 2)),
            lambda pixels: pixels.astype(np.int64),
            lambda pixels: pixels.astype(np.float32),
            lambda pixels: pixels / 255,
            lambda pixels: np.concatenate([pixels, pixels[..., :1]], axis=3),
        ],
    )
    def test_in_any_layout(self, pixels, convert, monkeypatch):
        monkeypatch.setattr(arrays, "BLOCK_BYTES", 40_000)
        data = open_data((convert(pixels), [0, 1] * 6))
        assert data.kind == "images"
        assert data.inputs.dtype == np.uint8
        np.testing.assert_array_equal(data.inputs, pixels.transpose(0, 3, 1, 2))
        assert data.columns == {"inputs": "images of 18 × 20 pixels"}

    def test_grey_images_get_three_equal_channels(self, pixels):
        grey = pixels[..., 0]
        for values in (grey, grey[..., None], grey[:, None]):
            np.testing.assert_array_equal(open_data((values, [0, 1] * 6)).inputs, np.stack([grey] * 3, axis=1))

    @pytest.mark.parametrize("change", [lambda p: p - 300.5, lambda p: p * 0.77, lambda p: p[:, :9, :9]])
    def test_other_arrays_are_tables(self, pixels, change):
        values = change(pixels)
        data = open_data((values, [0, 1] * 6))
        assert data.kind == "table"
        assert data.inputs.shape == (12, values[0].size)
        assert any("too small" in remark for remark in data.remarks)


class TestText:
    TEXTS = ("the cat sat down", "a dog ran off", "the cat ate it", "a dog slept on")

    @pytest.mark.parametrize(
        "texts",
        [list(TEXTS), np.array(TEXTS), np.array(TEXTS, dtype=object), pd.Series(TEXTS), [t.encode() for t in TEXTS]],
    )
    def test_is_a_table_of_one_column(self, texts):
        data = open_data((texts, ["cat", "dog"] * 2))
        assert data.kind == "text"
        assert data.inputs["text"].tolist() == list(self.TEXTS)
        assert "text: the cat" in data.prepare().names


class TestDatasetsOfScikitLearn:
    def test_class_names_are_used(self):
        bunch = load_iris()
        data = open_data(bunch)
        assert data.classes == ("setosa", "versicolor", "virginica")
        np.testing.assert_array_equal(data.labels, bunch.target)
        assert data.samples == 150

    def test_as_frames(self):
        data = open_data(load_wine(as_frame=True))
        assert data.classes == ("class_0", "class_1", "class_2")
        assert data.columns["alcohol"] == "number"

    def test_with_labels_that_are_names(self):
        bunch = Bunch(data=pd.DataFrame({"a": [1.5, 2, 3]}), target=pd.Series(["u", "v", "u"]), target_names=["class"])
        assert open_data(bunch).classes == ("u", "v")

    def test_digits_are_a_table(self):
        assert open_data(load_digits()).kind == "table"

    def test_regression_targets_are_refused(self):
        error_of("looks like a measured quantity", load_diabetes())


class TestFiles:
    @pytest.mark.parametrize("names", [("X", "y"), ("inputs", "labels"), ("images", "labels")])
    def test_npz(self, digits, tmp_path, names):
        inputs, labels = digits
        np.savez(tmp_path / "d.npz", **dict(zip(names, (inputs, labels), strict=True)))
        data = open_data(tmp_path / "d.npz")
        np.testing.assert_array_equal(data.inputs, inputs)
        np.testing.assert_array_equal(data.labels, labels)

    def test_npz_with_other_names(self, digits, tmp_path):
        inputs, labels = digits
        np.savez(tmp_path / "d.npz", X=inputs, kind=labels, key=labels * 10_000 + np.arange(len(labels)))
        data = open_data(tmp_path / "d.npz", "kind", id="key")
        assert data.ids[1] == 10_001
        error_of("no labels named 'y' or .* It has 'X', 'kind' and 'key'", tmp_path / "d.npz")
        error_of("no labels named 'nope'", tmp_path / "d.npz", "nope")

    def test_npy_with_labels_in_another_file(self, digits, tmp_path):
        inputs, labels = digits
        np.save(tmp_path / "x.npy", inputs)
        np.save(tmp_path / "y.npy", labels)
        for passed_labels in (tmp_path / "y.npy", str(tmp_path / "y.npy"), labels):
            data = open_data(tmp_path / "x.npy", passed_labels)
            np.testing.assert_array_equal(data.labels, labels)
            assert data.prepare().matrix.shape == (1797, 61)
        error_of("has no labels. Pass a .npy file of labels with `label=`", tmp_path / "x.npy")
        error_of("text= names a column", tmp_path / "x.npy", labels, text="t")
        with pytest.raises(MissingDataError, match=r"no\.npy does not exist"):
            open_data(tmp_path / "x.npy", tmp_path / "no.npy")

    def test_python_objects_are_not_unpickled(self, tmp_path):
        np.save(tmp_path / "x.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
        np.savez(tmp_path / "x.npz", X=np.array([{}, {}], dtype=object), y=[0, 1])
        for name in ("x.npy", "x.npz"):
            with pytest.raises(StoreError, match=rf"{name} is not a whole"):
                open_data(tmp_path / name, [0, 1])

    def test_truncated_files_are_refused(self, digits, tmp_path):
        np.savez(tmp_path / "d.npz", X=digits[0], y=digits[1])
        content = (tmp_path / "d.npz").read_bytes()
        (tmp_path / "d.npz").write_bytes(content[: len(content) // 2])
        with pytest.raises(StoreError, match=r"d\.npz "):
            open_data(tmp_path / "d.npz")

    def test_arrays_that_do_not_fit_into_memory_are_refused(self, digits, tmp_path, monkeypatch):
        np.savez(tmp_path / "d.npz", X=digits[0], y=digits[1])
        monkeypatch.setattr("errata.memory.available_memory", lambda: 1000)
        error_of("would take", tmp_path / "d.npz")

    @pytest.mark.parametrize("kind", [">f8", ">f4", ">i2", np.longdouble, np.float16])
    def test_numbers_of_any_width_and_byte_order(self, digits, tmp_path, kind):
        inputs, labels = digits
        np.savez(tmp_path / "d.npz", X=inputs.astype(kind), y=labels.astype(">i8"))
        data, expected = open_data(tmp_path / "d.npz"), open_data((inputs, labels))
        assert data.classes == expected.classes
        np.testing.assert_array_equal(data.labels, expected.labels)
        np.testing.assert_array_equal(data.prepare().matrix, expected.prepare().matrix)
        assert data.inputs.dtype.isnative

    @pytest.mark.parametrize(
        ("labels", "words"),
        [
            (np.zeros(4, dtype=[("a", "i4"), ("b", "f4")]), "must be numbers or text, not records of several fields"),
            (np.zeros(4, dtype="V8"), "must be numbers or text, not |V8"),
            (np.array([1, 2j, 1, 2j]), "must be numbers or text, not complex128"),
            (np.array(1), "one of the labels per sample"),
        ],
    )
    def test_labels_that_are_neither_numbers_nor_text(self, tmp_path, labels, words):
        np.savez(tmp_path / "d.npz", X=np.eye(4), y=labels)
        error_of(re.escape(words), tmp_path / "d.npz")


class TestBadArrays:
    def test_numbers_that_are_not_finite_are_refused(self, digits):
        inputs, labels = digits
        for value in (np.nan, np.inf, -np.inf, 1e300):
            bad = inputs.copy()
            bad[321, 4] = value
            error_of("Row 321 of the inputs", (bad, labels))

    def test_the_row_is_that_of_the_source(self, digits):
        bad = digits[0][:6].copy()
        bad[5, 0] = np.nan
        error_of("Row 5 of the inputs", (bad, ["a", None, "b", "a", "b", "a"]))

    def test_different_lengths(self, digits):
        inputs, labels = digits
        error_of("1,797 inputs and 1,796 labels", (inputs, labels[:-1]))

    def test_shapes_and_types(self):
        error_of("not .*float64 \\(4,\\)", (np.zeros(4), [0, 1, 0, 1]))
        error_of("not complex128", (np.zeros((4, 2), dtype=complex), [0, 1, 0, 1]))
        error_of("nothing to learn from", (np.zeros((4, 2)), [0, 1, 0, 1]))
        error_of("Pass a pair", np.zeros((4, 2)))
        error_of("Pass a pair", np.zeros((4, 2)), "y")
        error_of("text= names a column", (np.zeros((4, 2)), [0, 1, 0, 1]), text="t")

    def test_rows_of_different_shapes_are_refused(self):
        error_of("row 1 differs from row 0$", ([[1, 2], [3], [4, 5]], [0, 1, 0]))
        error_of("row 2 differs from row 0$", {"X": [[1, 2], [3, 4], 5], "y": [0, 1, 0]})
        error_of("row 0 holds \\[0\\]$", (np.eye(3), [[0], [1, 2], [0]]))

    def test_missing_inputs_are_refused(self):
        error_of("^There is no data: the source is None$", None)
        for nothing in (None, object(), 5):
            error_of(f"not one {type(nothing).__name__}$", (nothing, [0, 1, 0, 1]))
        error_of("^There must be one of the labels per sample \\(N,\\), not one NoneType$", {"X": np.eye(4), "y": None})
        error_of("It has no arrays$", {})
        error_of("^the table has no columns$", pd.DataFrame(index=range(4)))

    def test_fewer_ids_than_samples(self):
        error_of("^There are 4 inputs and 2 ids$", (np.eye(4), [0, 1, 0, 1]), id=[7, 8])

    @pytest.mark.parametrize("make", [list, np.array])
    def test_bytes_are_text_or_refused(self, make):
        assert open_data((np.eye(4), make([b"a", b"b", b"a", b"b"]))).classes == ("a", "b")
        odd = make([b"a", b"\xe9", b"a", b"\xe9"])
        error_of("^the list of labels has bytes in row 1 that are not UTF-8. Decode", (np.eye(4), odd))

    def test_one_hot_labels_are_refused(self, digits):
        inputs, labels = digits
        error_of("For one-hot, use the argmax", (inputs, np.eye(10)[labels]))


def test_masked_inputs_are_refused_with_the_place():
    inputs = np.ma.masked_array(np.ones((8, 2)), np.zeros((8, 2), dtype=bool))
    inputs[5, 1] = np.ma.masked
    with pytest.raises(InputError, match=r"the value at \[5, 1\] is masked"):
        arrays.from_arrays(inputs, np.arange(8) % 2)
