import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import errata
from errata.finding.sources import DataSource

KINDS = ("ant", "bee", "cat")


@pytest.fixture
def run(errata_command):
    return errata_command


@pytest.fixture
def short_training(monkeypatch):
    """Train for two epochs: these tests do not depend on the ranking."""
    for name in ("MAX_EPOCHS", "MAX_IMAGE_EPOCHS", "MIN_EPOCHS"):
        monkeypatch.setattr(f"errata.finding.candidates.{name}", 2)


@pytest.fixture
def table():
    """A data frame of three separable classes with a tenth of the labels wrong, and the true class of each row."""
    rng = np.random.default_rng(0)
    truth = np.arange(180) % 3
    frame = pd.DataFrame(4 * np.eye(3, 4)[truth] + rng.normal(size=(180, 4)), columns=list("abcd"))
    wrong = rng.permutation(180)[:18]
    labels = truth.copy()
    labels[wrong] = (truth[wrong] + rng.integers(1, 3, 18)) % 3
    frame["kind"] = [KINDS[label] for label in labels]
    frame["name"] = [f"n{row}" for row in range(len(frame))]
    return frame, [KINDS[label] for label in truth]


def save_csv(frame, folder):
    frame.to_csv(folder / "data.csv", index=False)
    return "data.csv", ("--label", "kind", "--id", "name")


def save_jsonl(frame, folder):
    frame.to_json(folder / "data.jsonl", orient="records", lines=True)
    return "data.jsonl", ("--label", "kind")


def save_parquet(frame, folder):
    frame.to_parquet(folder / "data.parquet")
    return "data.parquet", ("--label", "kind", "--id", "name")


def save_arrays(frame, folder):
    np.savez(folder / "data.npz", X=frame[list("abcd")].to_numpy(), y=frame["kind"].to_numpy(dtype="U3"))
    return "data.npz", ()


def save_labels_apart(frame, folder):
    np.save(folder / "inputs.npy", frame[list("abcd")].to_numpy())
    np.save(folder / "data.npy", frame["kind"].to_numpy(dtype="U3"))
    return "inputs.npy", ("--label", "data.npy")


def save_dataset(frame, folder):
    import pyarrow as pa

    (folder / "data").mkdir()
    table = pa.Table.from_pandas(frame.assign(kind=[KINDS.index(name) for name in frame["kind"]]))
    with pa.OSFile("data/part.arrow", "wb") as file, pa.ipc.new_stream(file, table.schema) as to:
        to.write_table(table)
    features = {"kind": {"names": KINDS, "_type": "ClassLabel"}}
    (folder / "data" / "state.json").write_text(json.dumps({"_data_files": [{"filename": "part.arrow"}]}))
    (folder / "data" / "dataset_info.json").write_text(json.dumps({"features": features}))
    return "data", ("--label", "kind")


def save_images(frame, folder):
    for row, kind in enumerate(frame["kind"].head(24)):
        (folder / "data" / kind).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (row, 80 * (row % 3), 0)).save(folder / "data" / kind / f"{row}.png")
    return "data", ()


def number_in(id_):
    """The sample number in an id, which may be a number, a name with a number, or a renamed file."""
    return int("".join(filter(str.isdigit, str(id_).split(".from")[0])))


def everything_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "errata-out" not in str(path)}


@pytest.mark.parametrize(
    "save", [save_csv, save_jsonl, save_parquet, save_arrays, save_labels_apart, save_dataset, save_images]
)
def test_every_format_is_corrected_and_can_be_ranked_again(run, short_training, table, tmp_path, save):
    frame, truth = table
    source, options = save(frame, tmp_path)
    before = everything_in(tmp_path)
    values = dict(zip(options[::2], options[1::2], strict=True))
    data = DataSource(source, values.get("--label"), id=values.get("--id")).open()
    labels = [data.classes[number] for number in data.labels]
    rows = [
        (id_, label, "keep" if label == truth[number_in(id_)] else "relabel", truth[number_in(id_)])
        for id_, label in zip(data.ids.tolist(), labels, strict=True)
    ]
    review = pd.DataFrame(rows, columns=["id", "label", "decision", "new_label"])
    review[2:].to_csv("decisions.csv", index=False)
    wrong, corrected = ((part["decision"] == "relabel").sum() for part in (review, review[2:]))
    assert corrected > 0

    code, out, err = run("apply", source, *options, "--decisions", "decisions.csv")
    assert (code, err) == (0, "")
    assert f"{corrected} changed, {len(review) - 2 - corrected} kept, 2 undecided" in out
    assert everything_in(tmp_path).items() >= before.items()
    command = out.strip().splitlines()[-1].removeprefix("to find the remaining errors: errata ").split()
    assert run(*command, "--model", "cnn9" if save is save_images else "mlp")[0] == 0
    left = pd.read_csv("errata-out-corrected/ranking.csv")
    assert len(left) == len(review)
    assert sum(row.label != truth[number_in(row.id)] for row in left.itertuples()) == wrong - corrected
    assert len(pd.read_csv(next(tmp_path.glob("*.log.csv")))) == corrected


def test_top_needs_accept_suggested(run, table, tmp_path):
    frame, truth = table
    source, options = save_csv(frame, tmp_path)
    assert run("find", source, *options, "--model", "mlp")[0] == 0
    code, _, err = run("apply", source, *options, "--top", "15")
    assert code == 2
    assert "Add --accept-suggested" in err
    code, out, _ = run("apply", source, *options, "--top", "15", "--accept-suggested", "--dry-run")
    assert code == 0
    assert "would write data.corrected.csv" in out
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv", "errata-out"}
    assert run("apply", source, *options, "--top", "15", "--accept-suggested")[0] == 0
    right = [(pd.read_csv(name)["kind"] == truth).sum() for name in ("data.csv", "data.corrected.csv")]
    assert right[1] >= right[0] + 8
    log = pd.read_csv("data.corrected.csv.log.csv")
    assert log["rank"].max() <= 15
    assert set(log["decisions"]) == {"errata-out, the first 15"}
    code, out, _ = run("apply", source, *options, "--top", "15", "--drop", "--out", "fewer.csv")
    assert code == 0
    assert len(pd.read_csv("fewer.csv")) == len(frame) - len(log)
    code, _, err = run("apply", "data.corrected.csv", *options, "--top", "180", "--accept-suggested", "--out", "x.csv")
    assert code == 0  # suggestions that were applied before count as done


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "pass either --decisions FILE, or --top N"),
        (("--decisions", "d.csv", "--top", "3"), "pass either --decisions FILE, or --top N"),
        (("--decisions", "e.csv"), "e.csv does not exist"),
        (("--top", "3", "--accept-suggested"), "has no summary.json"),
        (("--decisions", "d.csv", "--found", "nowhere"), "has no summary.json"),
        (("--decisions", "d.csv", "--out", "data.csv"), "is the data itself"),
    ],
)
def test_invalid_arguments_give_one_line_and_write_nothing(run, tmp_path, arguments, sentence):
    pd.DataFrame({"a": range(8), "y": [0, 1] * 4}).to_csv("data.csv", index=False)
    (tmp_path / "d.csv").write_text("id,label,decision,new_label\n0,0,accept,1\n")
    code, _, err = run("apply", "data.csv", "--label", "y", *arguments)
    assert code == 2
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv", "d.csv"}


def test_the_output_lists_counts_notes_and_files(run, tmp_path):
    pd.DataFrame({"a": range(8), "y": [0, 1] * 4}).to_csv("data.csv", index=False)
    decisions = (
        "id,label,decision,new_label\n0,0,accept,1\n1,1,keep,\n2,0,skip,\n3,0,accept,1\n4,0,relabel,7\n9,0,keep,\n"
    )
    (tmp_path / "d.csv").write_text(decisions)
    code, out, _ = run("apply", "data.csv", "--label", "y", "--decisions", "d.csv", "--skip-stale")
    assert code == 0
    assert "8 samples: 2 changed, 1 kept, 1 skipped, 1 changed before, 3 undecided" in out
    assert "ignored: 1 decision about samples that are gone" in out
    assert "note: class 7 is new: no sample had it before" in out
    assert "wrote data.corrected.csv and the log data.corrected.csv.log.csv; data.csv is unchanged" in out
    assert "errata find data.corrected.csv --label y --out errata-out-corrected" in out
    assert errata.apply.__module__ == "errata.review.corrected_copy"


def test_label_and_id_default_to_those_of_find(run, short_training, table, tmp_path):
    frame, true = table
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert run("find", "data.csv", "--label", "kind", "--id", "name", "--model", "mlp")[0] == 0
    ranking = pd.read_csv(tmp_path / "errata-out" / "ranking.csv")
    first = ranking.iloc[0]
    right = dict(zip(frame["name"], true, strict=True))[first["id"]]
    decided = {"id": first["id"], "label": first["label"], "decision": "relabel", "new_label": right}
    pd.DataFrame([decided]).to_csv(tmp_path / "decisions.csv", index=False)
    for _ in range(2):  # a dry run writes nothing, and existing files do not stop it
        code, _, err = run("apply", "data.csv", "--decisions", "decisions.csv", "--dry-run")
        assert (code, err) == (0, "")
    assert run("apply", "data.csv", "--decisions", "decisions.csv")[0] == 0
    log = pd.read_csv(tmp_path / "data.corrected.csv.log.csv")
    assert log["rank"].tolist() == [1]
    assert run("apply", "data.csv", "--decisions", "decisions.csv", "--dry-run")[0] == 0
    frame.to_csv(tmp_path / "other.csv", index=False)
    code, _, err = run("apply", "other.csv", "--decisions", "decisions.csv")
    assert code == 2
    assert "Name the column of other.csv with the labels" in err


def test_the_suggested_find_command_repeats_the_options(run, short_training, tmp_path):
    titles = [f"{'goal match' if row % 2 else 'vote law'} number {row}" for row in range(40)]
    pd.DataFrame({"title": titles, "kind": [row % 2 for row in range(40)]}).to_csv("news.csv", index=False)
    (tmp_path / "d.csv").write_text("id,label,decision,new_label\n0,0,accept,1\n")
    assert run("find", "news.csv", "--label", "kind", "--text", "title", "--seed", "3", "--folds", "2")[0] == 0
    _, out, _ = run("apply", "news.csv", "--decisions", "d.csv")
    command = out.strip().splitlines()[-1].removeprefix("to find the remaining errors: errata ")
    assert command == (
        "find news.corrected.csv --label kind --text title --folds 2 --seed 3 --out errata-out-corrected"
    )
    assert run(*command.split())[0] == 0


def test_decisions_of_several_reviewers(run, tmp_path):
    pd.DataFrame({"a": range(8), "y": ["ant", "bee"] * 4}).to_csv("data.csv", index=False)
    header = "id,label,decision,new_label\n"
    (tmp_path / "ann.csv").write_text(f"{header}0,ant,accept,bee\n2,ant,skip,\n")
    (tmp_path / "bob.csv").write_text(f"{header}2,ant,accept,bee\n")
    (tmp_path / "eve.csv").write_text(f"{header}0,ant,relabel,=cat\n")
    code, out, err = run("apply", "data.csv", "--label", "y", "--decisions", "ann.csv", "--decisions", "bob.csv")
    assert (code, err) == (0, "")
    assert "2 changed" in out
    assert pd.read_csv("data.corrected.csv.log.csv")["decisions"].tolist() == ["ann.csv", "bob.csv"]
    code, _, err = run("apply", "data.csv", "--label", "y", "--decisions", "ann.csv", "--decisions", "eve.csv")
    assert code == 2
    assert "id '0': accept 'bee' (ann.csv: line 2), relabel '=cat' (eve.csv: line 2)" in err
    code, _, err = run(
        "apply", "data.csv", "--label", "y", "--decisions", "eve.csv", "--excel-safe", "--out", "safe.csv"
    )
    assert (code, err) == (0, "")
    assert pd.read_csv("safe.csv")["y"][0] == "=cat"
    assert pd.read_csv("safe.csv.log.csv")["after"].tolist() == ["'=cat"]
