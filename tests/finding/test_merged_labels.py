"""`merge_labels=`: labels that differ only in case or spaces are one class, from find to apply."""

import json

import numpy as np
import pandas as pd
import pytest

import errata
from errata.errors import InputError
from errata.readers import open_data
from errata.readers.merged_labels import merge_labels
from errata.review.certificates import certify


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    kinds = np.arange(120) % 2
    labels = np.where(kinds == 1, "dog", "cat").astype(object)
    labels[[0, 2]], labels[4], labels[1] = "Cat", " cat ", "DOG"
    labels[6] = "dog"  # wrong
    return pd.DataFrame({"x": rng.normal(size=120) + 6 * kinds, "y": rng.normal(size=120), "label": labels})


def test_the_most_frequent_spelling_is_kept(table):
    data = open_data(table, "label")
    assert data.num_classes == 5
    merged = merge_labels(data)
    assert merged.classes == ("cat", "dog")
    assert [merged.classes[code] for code in merged.labels[:7]] == ["cat", "dog", "cat", "dog", "cat", "dog", "dog"]
    assert "labels ' cat ' and 'Cat' are merged into class 'cat'" in merged.remarks
    assert not any("merge_labels" in remark or "single sample" in remark for remark in merged.remarks)
    assert any("(one with --merge-labels, in Python merge_labels=True)" in remark for remark in data.remarks)
    pd.testing.assert_frame_equal(merged.inputs, data.inputs)


def test_numbers_and_other_classes_are_left_alone():
    merged = merge_labels(open_data(np.arange(12.0).reshape(6, 2), ["a b", "AB", "c", "c", "1", 1.0]))
    assert len(merged.classes) == 3
    apart = open_data(np.arange(8.0).reshape(4, 2), ["a", "b", "a", "b"])
    assert merge_labels(apart).classes == apart.classes
    assert merge_labels(apart).remarks == apart.remarks


def test_one_class_that_is_left_and_recorded_logits_are_refused(tmp_path, errata_command):
    (tmp_path / "one.csv").write_text("x,label\n" + "1,yes\n2,YES\n3,yes \n4,yes\n" * 5)
    code, _, message = errata_command("find", tmp_path / "one.csv", "--label", "label", "--merge-labels")
    assert code == 2
    assert "merging labels leaves a single class" in message
    assert "omit --merge-labels" in message
    dynamics = errata.Dynamics.from_arrays(np.zeros((2, 4, 2)), [0, 1, 0, 1])
    with pytest.raises(InputError, match="classes of recorded logits are fixed"):
        errata.find(dynamics, merge_labels=True)


def test_find_review_and_apply_treat_them_as_one_class(table, tmp_path, errata_command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table.to_csv("data.csv", index=False)
    code, output, message = errata_command(
        "find", "data.csv", "--label", "label", "--merge-labels", "--model", "boosting"
    )
    assert (code, message) == (0, "")
    assert json.loads((tmp_path / "errata-out/summary.json").read_text())["source"]["merge_labels"] is True
    found = errata.Found.open("errata-out")
    assert set(found.ranking["label"]) == {"cat", "dog"}
    (tmp_path / "decisions.csv").write_text(
        "id,label,decision,new_label\n6,dog,accept,cat\n0,cat,keep,\n4, cat ,keep,\n"
        "1,dog,relabel,cat\n2,cat,relabel,Cat\n"
    )
    code, output, message = errata_command("apply", "data.csv", "--decisions", "decisions.csv")
    assert (code, message) == (0, "")
    assert "120 samples: 2 changed, 2 kept, 1 changed before" in output
    assert "--merge-labels" in output  # of the next command
    copy = pd.read_csv("data.corrected.csv")
    changed = table.index[copy["label"] != table["label"]].tolist()
    assert changed == [1, 6]
    assert copy["label"][[1, 6]].tolist() == ["cat", "cat"]
    assert certify("errata-out", "decisions.csv").certificate.reviewed == 5
