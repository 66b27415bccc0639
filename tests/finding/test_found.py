import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import errata
from errata.dynamics.recorder import Recorder
from errata.errors import StoreError
from errata.finding.found import Found, confused_pairs


def named_dynamics(logits, labels, classes, ids=None):
    return errata.Dynamics.from_arrays(logits, [classes[label] for label in labels], ids=ids, classes=classes)


@pytest.fixture
def found(curves):
    logits, labels, _ = curves(0)
    ids = np.array([f"sample {row}" for row in range(len(labels))])
    classes = ["ant", "bee", "cat", "dog", "NA"]
    return errata.find(named_dynamics(logits, labels, classes, ids))


def test_a_saved_result_is_read_back(found, tmp_path):
    folder = found.save(tmp_path / "out")
    again = Found.open(folder)
    pd.testing.assert_frame_equal(again.ranking, found.ranking, check_dtype=False)
    pd.testing.assert_frame_equal(again.confusions, found.confusions, check_dtype=False)
    pd.testing.assert_frame_equal(again.curve, found.curve)
    assert again.estimate == found.estimate
    assert again.summary == found.summary
    assert again.conflicts.empty
    assert again.dynamics.ids.tolist() == found.dynamics.ids.tolist()
    assert again.dynamics.classes == found.dynamics.classes
    np.testing.assert_array_equal(again.dynamics.logits, found.dynamics.logits)


def test_the_folder_holds_files_that_other_programs_can_read(found, tmp_path):
    found.save(tmp_path)
    names = {entry.name for entry in tmp_path.iterdir()}
    written = {"ranking.csv", "ranking.parquet", "summary.json", "confusions.csv", "report.html", "dynamics"}
    assert names == written | {".errata-find"}
    table = pd.read_csv(tmp_path / "ranking.csv", keep_default_na=False)
    assert table["id"].tolist() == found.ranking["id"].tolist()
    assert set(table["label"]) == {"ant", "bee", "cat", "dog", "NA"}
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert {"samples", "classes", "kind", "model", "method", "estimate", "notes", "seconds", "version"} <= set(summary)
    assert summary["samples"] == 60
    assert summary["method"] == "Unmixed-MeanProb-LM"


def test_saving_again_replaces_the_files(found, curves, tmp_path):
    found.save(tmp_path)
    other = errata.find(errata.Dynamics.from_arrays(*curves(1)[:2]))
    other.save(tmp_path)
    assert Found.open(tmp_path).ranking["id"].tolist() == other.ranking["id"].tolist()


def test_dynamics_that_are_in_the_folder_already_are_not_rewritten(found, tmp_path):
    found.save(tmp_path)
    before = (tmp_path / "dynamics" / "logits.npy").stat().st_ino
    errata.find(tmp_path / "dynamics", out=tmp_path)
    assert (tmp_path / "dynamics" / "logits.npy").stat().st_ino == before


def test_a_folder_with_other_files_is_refused(found, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(StoreError, match="holds other files"):
        found.save(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(StoreError, match="is a file"):
        found.save(tmp_path / "thesis.tex")


@pytest.mark.parametrize("name", ["ranking.csv", "summary.json", "work/thesis.tex", "dynamics/mine.txt"])
def test_files_with_the_names_of_results_are_not_overwritten(found, name, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(StoreError, match="holds other files"):
        errata.find(found.dynamics, out=tmp_path)
    assert (tmp_path / name).read_text() == "mine"


def test_other_files_in_the_folder_stay(found, tmp_path):
    found.save(tmp_path)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.tex").write_text("mine")
    (tmp_path / "decisions.csv").write_text("mine")
    errata.find(found.dynamics, out=tmp_path)
    assert (tmp_path / "work" / "thesis.tex").exists()
    assert (tmp_path / "decisions.csv").exists()


def test_labels_of_mixed_types_are_written_as_text(curves, tmp_path):
    logits, labels, _ = curves(2)
    dynamics = errata.Dynamics.from_arrays(logits, labels)
    errata.find(replace(dynamics, classes=(7, "two", 3.5, True, "five")), out=tmp_path)
    assert set(Found.open(tmp_path).ranking["label"]) == {"7", "two", "3.5", "True", "five"}


def test_labels_beyond_64_bits_are_written_as_text(curves, tmp_path):
    logits, labels, _ = curves(2)
    classes = tuple(10**20 + number for number in range(5))
    errata.find(replace(errata.Dynamics.from_arrays(logits, labels), classes=classes), out=tmp_path)
    assert set(Found.open(tmp_path).ranking["label"]) == set(map(str, classes))


def test_running_sums_are_saved(curves, tmp_path):
    logits, labels, _ = curves(3)
    recorder = Recorder(labels=labels, num_classes=5, keep="stream", quiet=True)
    for epoch in logits:
        recorder.update_all(epoch)
        recorder.end_epoch()
    found = errata.find(recorder.finish(), out=tmp_path / "sums")
    assert found.dynamics.logits is None
    pd.testing.assert_frame_equal(errata.find(found.dynamics).ranking, found.ranking)


def test_a_folder_without_a_summary_is_refused(tmp_path):
    with pytest.raises(StoreError, match="not a complete folder of `errata find`"):
        Found.open(tmp_path)
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(StoreError, match=r"summary.json is not a whole JSON file"):
        Found.open(tmp_path)


def test_the_curve_adds_the_probabilities(found):
    p_wrong = found.ranking["p_wrong"].tolist()
    assert found.curve["inspected"].tolist() == list(range(len(p_wrong) + 1))
    for inspected, errors in found.curve.itertuples(index=False):
        assert errors == pytest.approx(sum(p_wrong[: int(inspected)]))


def test_confused_pairs_are_counted_among_the_first_samples():
    ranking = pd.DataFrame({"label": list("aabaab"), "suggested": list("bbbbba")})
    assert confused_pairs(ranking, 4).to_dict("records") == [{"label": "a", "suggested": "b", "count": 3}]
    assert confused_pairs(ranking, 0).empty
    assert list(confused_pairs(ranking, 6)["count"]) == [4, 1]


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("summary.json", lambda text: "[1]", "must hold a JSON object"),
        ("summary.json", lambda text: "[" * 100_000, "is nested too deeply"),
        ("summary.json", lambda text: text.replace('"estimate"', '"other"'), "there is no 'estimate'"),
        ("summary.json", lambda text: text.replace('"rate": ', '"rate": 7'), "the estimated rate is 7.*, not 0 to 1"),
        ("summary.json", lambda text: text.replace('"rate": ', '"rate": NaN, "r": '), "'rate' is nan"),
        ("summary.json", lambda text: text.replace('"trust": [', '"trust": [1, '), "'trust' is"),
        ("summary.json", lambda text: text.replace('"method": "', '"method": "\\ud83d'), "half of a character"),
        ("conflicts.csv", lambda text: "group,id,label\n1,2,ant,3\n", "line .* has 4 cells, but the header has 3"),
        ("conflicts.csv", lambda text: 'group,id,label\n"1,2,ant\n', "line .*Check the quotes"),
        ("conflicts.csv", lambda text: "group,id,label\n-1,2,ant\n", "line 2 has the group '-1'"),
        ("conflicts.csv", lambda text: "group,id\n", "must have the columns group, id, label"),
        ("conflicts.csv", lambda text: "group,id,label\n0,nobody,ant\n", "line 2 has the id 'nobody'"),
    ],
)
def test_damaged_text_files_are_refused_by_name(found, tmp_path, file, change, message):
    found.save(tmp_path)
    path = tmp_path / file
    path.write_text(change(path.read_text() if path.exists() else ""))
    with pytest.raises(StoreError, match=rf"{file}.*{message}"):
        Found.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns=["suggested", "agree"]), "no column 'suggested' and 'agree'"),
        (lambda table: table.head(5), "does not rank the 60 samples"),
        (lambda table: table.head(0), "does not rank the 60 samples"),
        (lambda table: table.assign(rank=np.inf), "does not rank the 60 samples"),
        (lambda table: table.assign(p_wrong="x"), "column 'p_wrong' holds .*, not numbers"),
        (lambda table: table.assign(p_wrong=np.nan), "not a probability"),
        (lambda table: table.assign(score=np.nan), "a score or p_wrong is not a number"),
        (lambda table: table.assign(id=table["id"].iloc[0]), "occurs twice"),
        (lambda table: table.assign(label=None), "is not as in the dynamics"),
        (lambda table: table.assign(suggested="wasp"), "is not as in the dynamics"),
    ],
)
def test_a_damaged_ranking_is_refused_by_name(found, tmp_path, change, message):
    found.save(tmp_path)
    change(pd.read_parquet(tmp_path / "ranking.parquet")).to_parquet(tmp_path / "ranking.parquet")
    with pytest.raises(StoreError, match=rf"ranking.parquet is damaged: .*{message}"):
        Found.open(tmp_path)


def test_a_ranking_that_is_no_parquet_file_is_refused(found, tmp_path):
    found.save(tmp_path)
    path = tmp_path / "ranking.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StoreError, match=r"ranking.parquet is not a complete Parquet file"):
        Found.open(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError, match=r"ranking.parquet is a folder"):
        Found.open(tmp_path)


def test_labels_of_confusions_and_conflicts_keep_their_digits(curves, tmp_path):
    logits, labels, _ = curves(2)
    dynamics = named_dynamics(logits, labels, ["007", "7", "1e3", "NA", "9007199254740993"])
    found = errata.find(dynamics, out=tmp_path)
    again = Found.open(tmp_path)
    assert again.confusions["label"].tolist() == found.confusions["label"].tolist()
    assert set(again.confusions["label"]) <= set(again.ranking["label"])


def test_printing_shows_the_answer_and_the_first_rows(found):
    lines = str(found).splitlines()
    assert repr(found) == str(found)
    assert any(line.startswith("About ") and "of 60 labels" in line for line in lines)
    assert "The first 10 of 60 samples in .ranking, most suspicious first:" in lines
    assert lines[-10].split()[:2] == ["1", "sample"]
    assert found.ranking["id"].iloc[0] in lines[-10]
    assert len(lines) < 20


def test_excel_safe_changes_text_in_csv_files_only_and_is_read_back(curves, tmp_path):
    logits, labels, _ = curves(0)
    classes = ["=1+1", "@x", "-2", "+3", "'=quoted"]
    ids = np.array([f"=cmd|{row}" for row in range(len(labels))])
    found = errata.find(named_dynamics(logits, labels, classes, ids), out=tmp_path, excel_safe=True)
    table = pd.read_csv(tmp_path / "ranking.csv", dtype=str, keep_default_na=False)
    assert table["id"].tolist() == [f"'{id_}" for id_ in found.ranking["id"]]
    assert set(table["label"]) == {"'=1+1", "'@x", "'-2", "'+3", "'=quoted"}
    assert table["score"].astype(float).tolist() == pytest.approx(found.ranking["score"].tolist())
    again = Found.open(tmp_path)
    assert again.ranking["id"].tolist() == found.ranking["id"].tolist()
    assert again.confusions.to_dict("records") == found.confusions.to_dict("records")
    assert again.confusions["label"].str.startswith("'").sum() == (found.confusions["label"] == "'=quoted").sum()
