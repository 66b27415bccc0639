"""Recorded dynamics with and without the data of their samples."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import errata
from errata.errors import ErrataError, InputError

KINDS = ("ant", "bee", "cat", "dog", "eel")


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "find")


@pytest.fixture
def logits(curves, tmp_path):
    """Saved logits of 60 samples in 5 classes, and the labels."""
    values, labels, _ = curves(0)
    np.savez(tmp_path / "run.npz", logits=values, labels=labels)
    return values, labels


@pytest.fixture
def table(logits):
    """The rows of the samples of these logits."""
    return pd.DataFrame({"size": np.arange(60.0) * 1.5, "kind": [KINDS[label] for label in logits[1]]})


def shown(folder):
    """The form and the rows of the samples in the report, most suspicious first; the page has them in queue order."""
    text = (folder / "report.html").read_text(encoding="utf-8")
    start = text.index('id="data">') + len('id="data">')
    report, _ = json.JSONDecoder().raw_decode(text[start:])
    drawn, order = dict(zip(report["random"]["at"], report["random"]["places"], strict=True)), []
    for position in range(len(report["id"])):
        first = next(place for place in range(len(report["id"])) if place not in order)
        order.append(drawn.get(position, first))
    rows = report["contents"]["rows"]
    return report["contents"]["form"], [rows[order.index(place)] for place in range(len(rows))]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--folds", "3"), "--folds has no effect: run.npz holds recorded logits, which are ranked without training"),
        (("--model", "mlp", "--seed", "2"), "--model and --seed have no effect: run.npz"),
        (("--backbone", "minilm"), "--backbone has no effect"),
        (("--label", "foo"), "--label has no effect: run.npz holds recorded logits. To show its samples, pass --data"),
        (("--skip-bad",), "--skip-bad has no effect"),
    ],
)
def test_options_without_effect_are_refused(run, logits, options, sentence, tmp_path):
    code, _, err = run("run.npz", *options)
    assert code == 2
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "errata-out").exists()


def test_in_python_messages_name_parameters(logits):
    dynamics = errata.Dynamics.from_arrays(*logits)
    with pytest.raises(InputError, match=r"^`folds=` and `seed=` have no effect: the source holds recorded logits"):
        errata.find(dynamics, folds=3, seed=1)
    with pytest.raises(InputError, match=r"^`label=` has no effect: .* pass `data=`$"):
        errata.find(dynamics, logits[1])
    with pytest.raises(InputError, match="`data=` is for recorded dynamics and logits; the source holds samples"):
        errata.find(np.eye(60), logits[1], data=np.eye(60))


def test_dynamics_of_find_are_shown_with_their_training_data(run, table, tmp_path):
    table.assign(name=[f"n{row}" for row in range(60)]).to_csv("bees.csv", index=False)
    assert run("bees.csv", "--label", "kind", "--id", "name", "--model", "mlp")[0] == 0
    before = json.loads((tmp_path / "errata-out" / "summary.json").read_text())
    for _ in range(2):
        assert run("errata-out/dynamics")[0] == 0
        form, rows = shown(tmp_path / "errata-out")
        assert (form, len(rows)) == ("columns", 60)
        after = json.loads((tmp_path / "errata-out" / "summary.json").read_text())
        assert (after["source"], after["settings"]) == (before["source"], before["settings"])
    (tmp_path / "bees.csv").unlink()
    code, _, err = run("errata-out/dynamics")
    assert code == 2
    assert (
        "the report in errata-out shows its samples, and this one could show only ids: pass the data with --data" in err
    )
    assert shown(tmp_path / "errata-out")[0] == "columns"
    for _ in range(2):
        assert run("errata-out/dynamics", "--out", "other")[0] == 0
        assert shown(tmp_path / "other")[0] == "nothing"


def test_class_names_come_from_the_data(run, errata_command, table, tmp_path):
    table.to_csv("bees.csv", index=False)
    code, _, err = run("run.npz", "--data", "bees.csv", "--label", "kind")
    assert (code, err) == (0, "")
    form, rows = shown(tmp_path / "errata-out")
    ranking = pd.read_csv(tmp_path / "errata-out" / "ranking.csv")
    assert form == "columns"
    assert [float(row[0]) for row in rows] == (1.5 * ranking["id"]).tolist()
    assert set(ranking["suggested"]) <= set(KINDS)
    assert table["kind"][3] != "ant"
    (tmp_path / "d.csv").write_text(f"id,label,decision,new_label\n3,{table['kind'][3]},relabel,ant\n")
    assert errata_command("apply", "bees.csv", "--decisions", "d.csv")[0] == 0
    assert pd.read_csv("bees.corrected.csv")["kind"][3] == "ant"


def test_rows_are_matched_by_id_in_any_order(logits, table, tmp_path):
    names = [f"n{row}" for row in range(60)]
    dynamics = errata.Dynamics.from_arrays(*logits, ids=names)
    shuffled = table.assign(name=names).sample(frac=1, random_state=0)
    found = errata.find(dynamics, "kind", data=shuffled, id="name", out=tmp_path / "out")
    _, rows = shown(tmp_path / "out")
    assert [float(row[0]) for row in rows] == [1.5 * int(name[1:]) for name in found.ranking["id"]]
    unlabelled = errata.find(dynamics, data=shuffled.drop(columns="kind"), id="name")
    assert unlabelled.ranking["id"].tolist() == found.ranking["id"].tolist()


def test_frames_with_a_shuffled_index_are_matched_by_row_number(logits, table):
    shuffled = np.random.default_rng(0).permutation(60)
    dynamics = errata.Dynamics.from_arrays(*logits)
    for data in (table[["size"]].set_axis(shuffled), (table[["size"]].set_axis(shuffled), table["kind"])):
        found = errata.find(dynamics, data=data)
        ranked = found.ranking["id"].to_numpy()
        np.testing.assert_array_equal(found.data.inputs["size"].to_numpy()[ranked], 1.5 * ranked)


def test_frames_are_matched_by_their_index_if_the_recorder_was_given_it(logits, table):
    index = [f"s{row}" for row in range(60)]
    dynamics = errata.Dynamics.from_arrays(*logits, ids=index)
    backwards = table.set_axis(index).iloc[::-1]
    found = errata.find(dynamics, data=backwards, label="kind")
    np.testing.assert_array_equal(backwards.loc[found.ranking["id"], "kind"], found.ranking["label"])


def test_arrays_need_no_labels_and_may_have_more_rows(logits, tmp_path):
    values, labels = logits
    rows = np.arange(0, 60, 2)
    part = errata.Dynamics.from_arrays(values[:, rows], labels[rows], ids=rows)
    inputs = np.arange(120.0).reshape(60, 2)
    found = errata.find(part, data=inputs, out=tmp_path / "out")
    assert found.summary["samples"] == 30
    form, shown_rows = shown(tmp_path / "out")
    assert form == "columns"
    assert [float(min(row, key=float)) for row in shown_rows] == (2.0 * found.ranking["id"]).tolist()


def test_images_are_matched_by_position_and_named_by_file(run, logits, tmp_path):
    labels = np.sort(logits[1])
    np.savez(tmp_path / "run.npz", logits=logits[0], labels=labels)
    for row, label in enumerate(labels.tolist()):
        (tmp_path / "photos" / KINDS[label]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20), (row, row, row)).save(tmp_path / "photos" / KINDS[label] / f"{row:02}.png")
    code, _, err = run("run.npz", "--data", "photos")
    assert (code, err) == (0, "")
    form, rows = shown(tmp_path / "errata-out")
    ranking = pd.read_csv(tmp_path / "errata-out" / "ranking.csv")
    assert (form, len(rows)) == ("picture", 60)
    assert set(ranking["id"]) == {f"{KINDS[label]}/{row:02}.png" for row, label in enumerate(labels.tolist())}
    assert errata.Dynamics.open(tmp_path / "errata-out" / "dynamics").classes == KINDS


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda table: table.head(50), r"10 of 60 samples of the dynamics are not in the data, such as 50"),
        (lambda table: table.sample(frac=1, random_state=0), r"samples have another label in the data than in the dyn"),
        (lambda table: table.assign(kind="ant").assign(kind=["bee", *["ant"] * 59]), "have another label"),
    ],
)
def test_data_of_other_samples_are_refused(logits, table, change, sentence):
    with pytest.raises(ErrataError, match=sentence):
        errata.find(errata.Dynamics.from_arrays(*logits), "kind", data=change(table))


def test_unknown_ids_are_refused_with_a_hint(logits, table):
    dynamics = errata.Dynamics.from_arrays(*logits, ids=[f"n{row}" for row in range(60)])
    with pytest.raises(InputError, match=r"60 of 60 .* such as 'n0'; ids in the data are such as 0. .* `id=` the ids"):
        errata.find(dynamics, data=table)


def test_data_without_samples_are_refused(logits, tmp_path):
    dynamics = errata.Dynamics.from_arrays(*logits)
    with pytest.raises(ErrataError, match=r"run.npz holds logits, not the samples themselves"):
        errata.find(dynamics, data=tmp_path / "run.npz")
    with pytest.raises(ErrataError, match="`data=` must be a path or rows, one per sample, not Dynamics"):
        errata.find(dynamics, data=dynamics)
    for data, id_, sentence in (
        (np.eye(60), "name", "no column 'name' for the ids"),
        ([], None, "the data have no rows"),
    ):
        with pytest.raises(ErrataError, match=sentence):
            errata.find(dynamics, data=data, id=id_)
