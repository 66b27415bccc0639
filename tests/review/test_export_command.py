import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import errata

KINDS = ("ant", "bee", "cat", "dog", "elk")


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "export")


@pytest.fixture
def found(curves, tmp_path):
    """An output folder of `errata find`, and the ranked table in data.csv."""
    logits, labels, _ = curves(0)
    kinds = [KINDS[label] for label in labels]
    pd.DataFrame({"words": [f"words about number {row}" for row in range(60)], "kind": kinds}).to_csv(
        tmp_path / "data.csv", index=False
    )
    return errata.find(errata.Dynamics.from_arrays(logits, kinds, classes=KINDS), out=tmp_path / "errata-out")


DATA = ("--data", "data.csv", "--label", "kind", "--text", "words")


def test_label_studio_exports_the_suggested_number_of_tasks(run, found, tmp_path):
    before = (tmp_path / "data.csv").read_bytes()
    code, out, err = run("--to", "label-studio", *DATA)
    assert (code, err) == (0, "")
    tasks = json.loads((tmp_path / "errata-out" / "label-studio" / "tasks.json").read_text(encoding="utf-8"))
    assert f"Look at the first {len(tasks)}:" in " ".join(found.summary["notes"])
    assert f"wrote {len(tasks)} tasks" in out
    assert "config.xml" in out
    first = found.ranking.iloc[0]
    assert tasks[0]["data"]["text"] == f"words about number {first['id']}"
    assert tasks[0]["data"]["given_label"] == first["label"]
    assert (tmp_path / "data.csv").read_bytes() == before


def test_folder_top_and_out_options(run, found, tmp_path):
    (tmp_path / "errata-out").rename(tmp_path / "other")
    code, _, _ = run("other", "--to", "label-studio", *DATA, "--top", 3, "--out", "tasks")
    assert code == 0
    assert len(json.loads((tmp_path / "tasks" / "tasks.json").read_text(encoding="utf-8"))) == 3


def test_cleanlab_needs_no_data(run, found, tmp_path):
    code, out, _ = run("--to", "cleanlab")
    assert code == 0
    assert "60 rows" in out
    table = pd.read_csv(tmp_path / "errata-out" / "cleanlab" / "label_issues.csv")
    assert table["is_label_issue"].sum() == found.expected


def test_small_images_are_exported_as_files(run, curves, tmp_path):
    logits, labels, _ = curves(0)
    ids = np.array([f"{KINDS[label]}/{row:02}.png" for row, label in enumerate(labels)])
    for path in ids:
        (tmp_path / "images" / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20)).save(tmp_path / "images" / path)
    kinds = [KINDS[label] for label in labels]
    errata.find(errata.Dynamics.from_arrays(logits, kinds, ids=ids, classes=KINDS), out=tmp_path / "errata-out")
    code, out, _ = run("--to", "fiftyone", "--data", "images")
    assert code == 0
    assert "fiftyone.Dataset.from_dir" in out
    folder = tmp_path / "errata-out" / "fiftyone"
    samples = json.loads((folder / "samples.json").read_text(encoding="utf-8"))["samples"]
    assert {sample["filepath"] for sample in samples} == {str((tmp_path / "images" / path).resolve()) for path in ids}
    assert [entry.name for entry in folder.iterdir()] == ["samples.json"]
    code, _, _ = run("--to", "label-studio", "--data", "images", "--images-at", "http://localhost/", "--top", 1)
    assert code == 0
    [task] = json.loads((tmp_path / "errata-out" / "label-studio" / "tasks.json").read_text(encoding="utf-8"))
    assert task["data"]["image"] == "http://localhost/" + task["data"]["errata_id"]


def test_data_default_to_the_path_passed_to_find(run, tmp_path):
    rng = np.random.default_rng(0)
    kinds = rng.choice(["ant", "bee"], 60)
    table = pd.DataFrame({"legs": np.where(kinds == "ant", 6.0, 8.0) + rng.normal(size=60), "kind": kinds})
    (tmp_path / "mine").mkdir()
    table.to_csv(tmp_path / "mine" / "data.csv", index=False)
    errata.find(tmp_path / "mine" / "data.csv", "kind", model="mlp", out=tmp_path / "mine" / "found")
    (tmp_path / "mine").rename(tmp_path / "moved")
    code, _, err = run("moved/found", "--to", "label-studio", "--top", 1)
    assert (code, err) == (0, "")
    (task,) = json.loads((tmp_path / "moved" / "found" / "label-studio" / "tasks.json").read_text(encoding="utf-8"))
    legs = table["legs"][int(task["data"]["errata_id"])]
    assert any(str(legs)[:6] in str(value) for value in task["data"].values())
    (tmp_path / "moved" / "data.csv").unlink()
    code, _, err = run("moved/found", "--to", "label-studio")
    assert code == 2
    assert "which no longer exists: pass --data" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "label-studio"), "label-studio shows the samples. Pass the ranked data with --data"),
        (("--to", "fiftyone"), "fiftyone shows the samples"),
        (("--to", "fiftyone", *DATA), "FiftyOne shows images, and these samples are text"),
        (("--to", "label-studio", "--data", "errata-out/dynamics"), "contains the outputs of a model"),
        (("--to", "cleanlab", "--images-at", "http://x/"), "--images-at works only with --to label-studio"),
        (("nothing", "--to", "cleanlab"), "not a complete folder of `errata find`"),
        (("--to", "argilla"), "argilla"),
        (("--to", "cleanlab", "--top", "0"), "--top"),
    ],
)
def test_invalid_arguments_are_refused_and_nothing_is_written(run, found, arguments, message, tmp_path):
    before = set(tmp_path.rglob("*"))
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err
    assert set(tmp_path.rglob("*")) == before
