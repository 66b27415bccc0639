import json

import numpy as np
import pandas as pd
import pytest

from errata.readers import open_data

N = 100


@pytest.fixture
def measured():
    rng = np.random.default_rng(0)
    columns = {"length": rng.normal(0, 9, N).round(2), "width": rng.normal(0, 1, N), "count": rng.integers(0, 9, N)}
    return pd.DataFrame({**columns, "y": np.array(["ant", "bee"])[np.arange(N) % 2]})


def texts(values, odd=()):
    """Numbers as text; the first ones are replaced by `odd`."""
    return [*odd, *(str(value) for value in values[len(odd) :])]


class TestDecimalCommas:
    @pytest.mark.parametrize(("name", "separator"), [("data.csv", ";"), ("data.csv", "\t"), ("data.tsv", "\t")])
    def test_are_read_if_commas_do_not_separate_values(self, measured, tmp_path, name, separator):
        path = tmp_path / name
        measured.to_csv(path, sep=separator, decimal=",", index=False)
        data = open_data(path, "y")
        pd.testing.assert_frame_equal(data.inputs, measured.drop(columns="y"), check_dtype=False)
        remark = "numbers in columns 'length' and 'width' are read with a decimal comma: 1,5 is one and a half"
        assert remark in data.remarks

    def test_are_not_read_if_commas_separate_values(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("a,b,y\n" + "".join(f'"1,{n % 9 + 100}",{n % 7}.5,{n % 2}\n' for n in range(60)))
        data = open_data(path, "y")
        assert data.columns["a"] == "category"
        assert data.remarks == (
            "column 'a' looks like numbers with signs or commas (such as '1,100'), which are not read as numbers",
        )

    def test_are_read_in_small_tables(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("a;y\n1,5;0\n-3,25;1\n2;0\n,5;1\n")
        data = open_data(path, "y")
        np.testing.assert_array_equal(data.inputs["a"], [1.5, -3.25, 2, 0.5])
        assert "numbers in column 'a' are read with a decimal comma: 1,5 is one and a half" in data.remarks

    def test_are_read_next_to_a_few_other_values(self, measured, tmp_path):
        path = tmp_path / "data.csv"
        measured["length"] = [text.replace(".", ",") for text in texts(measured["length"], ["missing"])]
        measured.to_csv(path, sep=";", index=False)
        data = open_data(path, "y")
        assert data.columns["length"] == "number"
        assert any("decimal comma" in remark for remark in data.remarks)
        assert "column 'length': 99 of 100 values are numbers; 1 other ('missing') counts as missing" in data.remarks

    def test_labels_ids_and_texts_are_not_converted(self, measured, tmp_path):
        path = tmp_path / "data.csv"
        grade = [f"{n % 2},5" for n in range(N)]
        measured.assign(y=grade, name=[f"{n},5" for n in range(N)], note=grade).to_csv(path, sep=";", index=False)
        data = open_data(path, "y", id="name", text="note")
        assert data.classes == ("0,5", "1,5")
        assert data.ids[7] == "7,5"
        assert data.columns["note"] == "text"


class TestNearlyAllNumbers:
    @pytest.mark.parametrize("form", ["csv", "jsonl", "frame", "objects"])
    def test_become_numbers_and_other_values_missing(self, measured, tmp_path, form):
        odd = ["missing", "n/a?", "$14.23"]
        lengths = measured["length"].tolist()
        table = measured.assign(length=texts(lengths, odd))
        if form == "objects":
            table["length"] = pd.Series([*odd, *lengths[3:]], dtype=object)
        source = table
        if form == "csv":
            source = tmp_path / "data.csv"
            table.to_csv(source, index=False)
        if form == "jsonl":
            source = tmp_path / "data.jsonl"
            mixed = [*odd, *lengths[3:]]
            records = [{"length": value, "y": y} for value, y in zip(mixed, measured["y"], strict=True)]
            source.write_text("\n".join(map(json.dumps, records)))
        data = open_data(source, "y")
        assert data.columns["length"] == "number"
        np.testing.assert_array_equal(data.inputs["length"], [np.nan] * 3 + lengths[3:])
        remark = "column 'length': 97 of 100 values are numbers; 3 others (such as 'missing') count as missing"
        assert remark in data.remarks

    def test_words_for_missing_numbers_are_not_counted(self, measured):
        data = open_data(measured.assign(length=texts(measured["length"], ["?"] * 30 + ["lost"])), "y")
        assert data.columns["length"] == "number"
        assert (
            "column 'length': 69 of 100 values are numbers; 31 others (such as 'lost') count as missing" in data.remarks
        )

    @pytest.mark.parametrize(
        "values",
        [
            [*["small"] * 6, *(n % 7 for n in range(N - 6))],  # too many other values
            ["?"] * 85 + [n % 7 for n in range(N - 85)],  # too few numbers
            [f"0{n % 7}1" for n in range(N - 1)] + ["x"],  # codes
            [f"{10**19 + n % 7}" for n in range(N - 1)] + ["x"],
            [str(n % 7) for n in range(N)],  # text on purpose
            [True, "x", *(n % 2 == 0 for n in range(N - 2))],
        ],
    )
    def test_other_columns_stay_categories(self, measured, values):
        data = open_data(measured.assign(length=pd.Series(values, dtype=object)), "y")
        assert data.columns["length"] == "category"
        assert not any("count" in remark for remark in data.remarks)

    def test_labels_are_not_converted(self, measured, tmp_path):
        path = tmp_path / "data.csv"
        measured.assign(y=[*["rotten"] * 3, *(n % 2 for n in range(N - 3))]).to_csv(path, index=False)
        data = open_data(path, "y")
        assert data.classes == ("0", "1", "rotten")
        assert data.samples == N

    def test_whole_numbers_stay_whole_and_can_be_ids(self, measured):
        data = open_data(measured.assign(length=texts(range(N), ["lost"])), "y")
        assert data.inputs["length"].dtype == "Int64"
        assert open_data(measured.assign(length=texts(range(N), ["lost"])), "y", id="length").ids[0] == "lost"


class TestFormattedNumbers:
    @pytest.mark.parametrize("form", ["${}", "{:.1f} %", "{:.0f},065", "{} €"])
    def test_get_a_remark(self, measured, form):
        data = open_data(measured.assign(length=[form.format(abs(value)) for value in measured["length"]]), "y")
        assert data.columns["length"] != "number"
        example = form.format(abs(measured["length"][0]))
        remark = f"column 'length' looks like numbers with signs or commas (such as {example!r}), which are"
        assert any(remark in one for one in data.remarks)

    @pytest.mark.parametrize("form", ["{}", "0{:.0f}", "{:.0f}-12", "1.{:.0f}.3", "{:.0f}:30", "a{}"])
    def test_other_texts_get_no_remark(self, measured, form):
        data = open_data(measured.assign(length=[form.format(abs(value)) for value in measured["length"]]), "y")
        assert not any("looks like" in remark for remark in data.remarks)
