import base64
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from cleanlab.classification import CleanLearning
from cleanlab.filter import find_label_issues
from PIL import Image
from scipy.sparse import csr_matrix

import errata
from errata.errors import InputError, StoreError
from errata.finding.found import Found
from errata.locks import lock_folder
from errata.readers import open_data
from errata.review.decisions import Decisions
from errata.review.exports import (
    fiftyone_samples,
    label_issues,
    label_studio_config,
    label_studio_tasks,
    write_cleanlab,
    write_fiftyone,
    write_label_studio,
)

CLASSES = ["ant & <bee>", "bee", 'cat "c"', "dog", "été"]


@pytest.fixture
def dynamics(curves):
    logits, labels, _ = curves(0)
    return errata.Dynamics.from_arrays(logits, [CLASSES[label] for label in labels], classes=CLASSES)


@pytest.fixture
def labels(dynamics):
    return [CLASSES[label] for label in dynamics.labels]


def found_in(dynamics, data):
    return replace(errata.find(dynamics), data=data)


@pytest.fixture
def texts(dynamics, labels):
    return found_in(dynamics, open_data(([f"a sentence about number {row}, $ok" for row in range(60)], labels)))


@pytest.fixture
def table(dynamics, labels):
    frame = pd.DataFrame({"width": np.arange(60) / 7, "kind": ["x", "y", None] * 20, "count": range(60), "y": labels})
    frame.loc[0, "width"] = np.nan
    return found_in(dynamics, open_data(frame, "y"))


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, size=(60, 20, 24, 3), dtype=np.uint8)


@pytest.fixture
def images(dynamics, labels, pixels):
    return found_in(dynamics, open_data((pixels, labels)))


@pytest.fixture
def files(curves, tmp_path):
    """Images of different sizes, which are not loaded into memory."""
    logits, labels, _ = curves(0)
    names = ["one", "two", "three #3", "four", "five"]
    paths = [f"{names[label]}/{row:03}.png" for row, label in enumerate(labels)]
    for row, path in enumerate(paths):
        (tmp_path / "my images" / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20 + row % 2, 20)).save(tmp_path / "my images" / path)
    data = open_data(tmp_path / "my images")
    order = [paths.index(path) for path in data.ids]
    given = [names[label] for label in labels[order]]
    return found_in(errata.Dynamics.from_arrays(logits[:, order], given, ids=data.ids, classes=names), data)


# Label Studio. The format: https://labelstud.io/guide/task_format and https://labelstud.io/tags/choices


def assert_valid_for_label_studio(tasks, config):
    """Every task has the fields that the interface shows, and a prediction that the interface can show."""
    view = ET.fromstring(config)
    assert view.tag == "View"
    [control] = view.iter("Choices")
    [shown] = [tag for tag in view if tag.tag in ("Text", "Image", "Table")]
    assert control.get("toName") == shown.get("name")
    options = [option.get("value") for option in control.iter("Choice")]
    assert len(options) == len(set(options))
    fields = [name for tag in view.iter() for name in re.findall(r"\$(\w+)", tag.get("value", ""))]
    assert shown.get("value").removeprefix("$") in fields
    for task in tasks:
        assert set(task) == {"data", "predictions", "meta"}
        assert set(fields) <= set(task["data"])
        [prediction] = task["predictions"]
        assert 0 <= prediction["score"] <= 1
        assert re.fullmatch(r"errata \S+ Unmixed-MeanProb-LM", prediction["model_version"])
        [result] = prediction["result"]
        assert (result["from_name"], result["to_name"]) == (control.get("name"), shown.get("name"))
        assert result["type"] == control.tag.lower()
        [choice] = result["value"]["choices"]
        assert choice in options
        assert task["data"]["given_label"] in options


@pytest.mark.parametrize(("name", "tag", "kind"), [("texts", "Text", str), ("table", "Table", dict)])
def test_label_studio_tasks_match_the_interface(name, tag, kind, request):
    found = request.getfixturevalue(name)
    tasks, config = label_studio_tasks(found), label_studio_config(found)
    assert_valid_for_label_studio(tasks, config)
    field = ET.fromstring(config).find(tag).get("value").removeprefix("$")
    assert all(isinstance(task["data"][field], kind) for task in tasks)


def test_label_studio_tasks_contain_the_ranking(texts):
    tasks = label_studio_tasks(texts)
    ranking = texts.ranking
    assert [task["data"]["errata_id"] for task in tasks] == ranking["id"].astype(str).tolist()
    assert [task["data"]["given_label"] for task in tasks] == ranking["label"].tolist()
    assert [task["predictions"][0]["result"][0]["value"]["choices"][0] for task in tasks] == ranking[
        "suggested"
    ].tolist()
    assert [task["predictions"][0]["score"] for task in tasks] == ranking["p_wrong"].tolist()
    for name in ("rank", "p_wrong", "agree", "mean_loss", "score"):
        assert [task["meta"][name] for task in tasks] == ranking[name].tolist()
    assert [task["data"]["text"] for task in tasks] == [f"a sentence about number {n}, $ok" for n in ranking["id"]]


def test_label_studio_shows_rows_by_column_with_missing_values(table):
    tasks = {task["data"]["errata_id"]: task["data"]["row"] for task in label_studio_tasks(table)}
    assert tasks["0"] == {"width": None, "kind": "x", "count": 0}
    assert tasks["2"] == {"width": 2 / 7, "kind": None, "count": 2}


def test_label_studio_numbers_columns_and_omits_zeros_of_sparse_rows(dynamics, labels):
    numbers = np.arange(180.0).reshape(60, 3) % 4
    dense = label_studio_tasks(found_in(dynamics, open_data((numbers, labels))))
    sparse = label_studio_tasks(found_in(dynamics, open_data((csr_matrix(numbers), labels))))
    for task, other in zip(dense, sparse, strict=True):
        row = numbers[int(task["data"]["errata_id"])]
        assert task["data"]["row"] == {f"column {column}": value for column, value in enumerate(row)}
        assert other["data"]["row"] == {name: value for name, value in task["data"]["row"].items() if value}


def test_label_studio_shows_several_texts_as_a_table(dynamics, labels):
    frame = pd.DataFrame({"title": [f"the title {n} of it" for n in range(60)], "y": labels})
    frame["body"] = [f"it was a dark night, said {n}, and so on" for n in range(60)]
    found = found_in(dynamics, open_data(frame, "y", text=["title", "body"]))
    assert_valid_for_label_studio(label_studio_tasks(found), label_studio_config(found))
    assert set(label_studio_tasks(found, top=1)[0]["data"]["row"]) == {"title", "body"}


def test_label_studio_tasks_contain_images_of_an_array(images, pixels):
    tasks = label_studio_tasks(images, top=5)
    assert_valid_for_label_studio(tasks, label_studio_config(images))
    for task in tasks:
        head, _, packed = task["data"]["image"].partition(",")
        assert head == "data:image/png;base64"
        decoded = np.asarray(Image.open(io.BytesIO(base64.b64decode(packed))))
        np.testing.assert_array_equal(decoded, pixels[int(task["data"]["errata_id"])])


def test_label_studio_tasks_contain_urls_of_image_files(files):
    [task] = label_studio_tasks(files, top=1)
    assert_valid_for_label_studio([task], label_studio_config(files))
    path = task["data"]["errata_id"].replace(" ", "%20").replace("#", "%23")
    assert task["data"]["image"] == f"/data/local-files/?d=my%20images/{path}"
    [task] = label_studio_tasks(files, top=1, images_at="http://localhost:8000/")
    assert task["data"]["image"] == f"http://localhost:8000/{path}"


def test_label_studio_shows_many_classes_as_a_list(curves):
    logits, labels, _ = curves(1, samples=90, classes=40)
    data = open_data(([f"some words {n}" for n in range(90)], labels))
    few = label_studio_config(
        replace(errata.find(errata.Dynamics.from_arrays(logits[:, :, :5], labels % 5)), data=data)
    )
    many = label_studio_config(found_in(errata.Dynamics.from_arrays(logits, labels), data))
    assert 'layout="inline"' in few
    assert 'layout="select"' in many
    assert len(list(ET.fromstring(many).iter("Choice"))) == 40


def test_label_studio_files_equal_the_functions(texts, tmp_path):
    folder = write_label_studio(texts, tmp_path / "new" / "export", top=7)
    assert {entry.name for entry in folder.iterdir()} == {"tasks.json", "config.xml"}
    assert json.loads((folder / "tasks.json").read_text(encoding="utf-8")) == label_studio_tasks(texts, top=7)
    assert (folder / "config.xml").read_text(encoding="utf-8") == label_studio_config(texts)
    write_label_studio(texts, folder, top=3)
    assert len(json.loads((folder / "tasks.json").read_text(encoding="utf-8"))) == 3


ANSWERS = """\
"annotation_id","annotator","created_at","errata_id","given_label","id","label","lead_time","text","updated_at"
1,"1","2026-11-15T17:36:00Z","59","bee",41,"dog","","some ""quoted"" words","2026-11-15T17:36:00Z"
2,"1","2026-11-15T17:36:01Z","16","NA",42,"NA","","more of them","2026-11-15T17:36:01Z"
"","","","11","bee",45,"","","not answered yet",""
"""  # a project exported to CSV by Label Studio 1.23


class FiftyOneStandIn:
    """What the page uses of FiftyOne, which is not installed: a dataset of the samples in samples.json."""

    class types:  # noqa: N801 - the name in FiftyOne
        FiftyOneDataset = "FiftyOneDataset"

    class Dataset(list):
        @classmethod
        def from_dir(cls, *, dataset_dir, dataset_type):
            assert dataset_type == FiftyOneStandIn.types.FiftyOneDataset
            return cls(json.loads(Path(dataset_dir, "samples.json").read_text(encoding="utf-8"))["samples"])

        def sort_by(self, field, *, reverse):
            return sorted(self, key=lambda sample: sample[field], reverse=reverse)

    @staticmethod
    def launch_app(view):
        return view


def test_python_examples_of_the_page(images, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "exports.md"
    answers_to_decisions, fiftyone_example, compat_example = re.findall(
        r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
    monkeypatch.chdir(tmp_path)
    write_fiftyone(images, Path("errata-out", "fiftyone"))
    monkeypatch.setitem(sys.modules, "fiftyone", FiftyOneStandIn)
    names = {}
    exec(fiftyone_example, names)
    assert [sample["rank"] for sample in names["session"]] == images.ranking["rank"].tolist()
    Path("project-1.csv").write_text(ANSWERS, encoding="utf-8")
    exec(answers_to_decisions, {})
    decisions = Decisions.read("decisions.csv")
    assert [(entry.id, entry.label, entry.decision, entry.new_label) for entry in decisions.entries] == [
        ("59", "bee", "relabel", "dog"),
        ("16", "NA", "keep", ""),
    ]
    names = {}
    exec(compat_example, names)
    expected = find_label_issues(names["labels"], names["pred_probs"], return_indices_ranked_by="self_confidence")
    np.testing.assert_array_equal(names["issues"], expected)


# FiftyOne. The format is the one that FiftyOneDatasetImporter reads without a metadata.json.


def test_fiftyone_samples_contain_paths_and_the_ranking(files, tmp_path):
    folder = write_fiftyone(files, tmp_path / "fiftyone")
    samples = json.loads((folder / "samples.json").read_text(encoding="utf-8"))["samples"]
    assert [entry.name for entry in folder.iterdir()] == ["samples.json"]
    assert samples == fiftyone_samples(files)
    for sample, row in zip(samples, files.ranking.to_dict("records"), strict=True):
        assert sample["filepath"] == str((tmp_path / "my images" / row["id"]).resolve())
        assert sample["errata_id"] == row["id"]
        assert sample["ground_truth"] == {"_cls": "Classification", "label": row["label"]}
        assert sample["suggested"] == {"_cls": "Classification", "label": row["suggested"]}
        assert sample["mistakenness"] == sample["p_wrong"] == row["p_wrong"]
        assert {type(sample[name]) for name in ("mistakenness", "p_wrong", "agree", "mean_loss", "score")} == {float}
        assert sample["rank"] == row["rank"]
        assert sample["tags"] == []


def test_fiftyone_export_saves_images_of_an_array(images, pixels, tmp_path):
    folder = write_fiftyone(images, tmp_path, top=4)
    samples = fiftyone_samples(images, top=4)
    assert len(samples) == len(list((folder / "data").iterdir())) == 4
    for sample in samples:
        written = np.asarray(Image.open(folder / sample["filepath"]))
        np.testing.assert_array_equal(written, pixels[int(sample["errata_id"])])


def test_fiftyone_refuses_texts(texts, tmp_path):
    with pytest.raises(InputError, match=r"FiftyOne shows images, and these samples are text. Use --to label-studio"):
        write_fiftyone(texts, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# cleanlab. Its own table of issues is the reference.


@pytest.fixture
def cleanlab_issues(dynamics):
    """The issues that cleanlab finds in the same samples."""
    probabilities = np.exp(dynamics.logits[-1].astype(float))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    learner = CleanLearning()
    learner.find_label_issues(labels=dynamics.labels, pred_probs=probabilities)
    return learner.get_label_issues()


def test_label_issues_have_the_columns_types_and_index_of_cleanlab(dynamics, cleanlab_issues):
    ours = label_issues(errata.find(dynamics))
    assert list(ours.columns) == list(cleanlab_issues.columns)
    assert ours.dtypes.tolist() == cleanlab_issues.dtypes.tolist()
    pd.testing.assert_index_equal(ours.index, cleanlab_issues.index)
    np.testing.assert_array_equal(ours["given_label"], cleanlab_issues["given_label"])


def test_label_issues_contain_the_ranking_in_data_order(dynamics, curves):
    found = errata.find(dynamics)
    issues = label_issues(found)
    in_order = found.ranking.sort_values("id").reset_index(drop=True)
    np.testing.assert_allclose(issues["label_quality"], 1 - in_order["p_wrong"])
    assert issues["label_quality"].between(0, 1).all()
    assert [CLASSES[number] for number in issues["predicted_label"]] == in_order["suggested"].tolist()
    assert issues["is_label_issue"].sum() == found.expected > 0
    assert issues["is_label_issue"].tolist() == (in_order["rank"] <= found.expected).tolist()
    _, _, wrong = curves(0)
    assert issues["label_quality"][wrong].mean() < issues["label_quality"][~wrong].mean()


def test_cleanlab_trains_with_the_exported_issues(dynamics, tmp_path):
    found = errata.find(dynamics)
    inputs = dynamics.logits[-1]
    folder = write_cleanlab(found, tmp_path)
    with np.load(folder / "label_issues.npz") as arrays:
        stored = {name: arrays[name] for name in arrays.files}
    from_indices = CleanLearning().fit(inputs, dynamics.labels, label_issues=stored["ranked_indices"])
    from_table = CleanLearning().fit(inputs, dynamics.labels, label_issues=pd.read_csv(folder / "label_issues.csv"))
    for learner in (from_indices, from_table):
        assert learner.label_issues_mask.sum() == found.expected
        np.testing.assert_array_equal(np.asarray(learner.label_issues_mask), stored["is_label_issue"])


def test_cleanlab_files_contain_issues_ids_and_classes(dynamics, tmp_path):
    dynamics = replace(dynamics, ids=np.array([f"n{row}" for row in range(60)]))
    found = errata.find(dynamics)
    folder = write_cleanlab(found, tmp_path / "out", top=9)
    issues = label_issues(found, top=9)
    pd.testing.assert_frame_equal(pd.read_csv(folder / "label_issues.csv"), issues, check_dtype=False)
    with np.load(folder / "label_issues.npz") as arrays:
        for name in issues.columns:
            np.testing.assert_array_equal(arrays[name], issues[name])
            assert arrays[name].dtype == issues[name].dtype
        assert arrays["ids"][arrays["ranked_indices"]].tolist() == found.ranking["id"].head(9).tolist()
        assert arrays["classes"].tolist() == CLASSES
        assert arrays["ranked_indices"].dtype == np.int64
    assert issues["is_label_issue"].sum() == 9


# All exports.

WRITERS = {"label-studio": write_label_studio, "fiftyone": write_fiftyone, "cleanlab": write_cleanlab}


@pytest.mark.parametrize("tool", WRITERS)
def test_a_folder_with_other_files_is_refused(images, tool, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(StoreError, match=r"contains other files, such as thesis\.tex"):
        WRITERS[tool](images, tmp_path)
    with pytest.raises(StoreError, match="is a file"):
        WRITERS[tool](images, tmp_path / "thesis.tex")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("tool", WRITERS)
def test_top_must_be_positive(images, tool, tmp_path):
    with pytest.raises(InputError, match="top must be 1 or more, not 0"):
        WRITERS[tool](images, tmp_path, top=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("tool", WRITERS)
def test_top_may_exceed_the_number_of_samples(images, tool, tmp_path):
    WRITERS[tool](images, tmp_path, top=1000)
    assert len(label_studio_tasks(images, top=1000)) == len(fiftyone_samples(images, top=1000)) == 60
    assert label_issues(images, top=1000)["is_label_issue"].all()


def test_a_saved_result_needs_the_data(texts, tmp_path):
    opened = Found.open(texts.save(tmp_path))
    with pytest.raises(InputError, match="Pass the data that were ranked"):
        label_studio_tasks(opened)
    assert label_studio_tasks(opened, data=texts.data) == label_studio_tasks(texts)
    pd.testing.assert_frame_equal(label_issues(opened), label_issues(texts))


def test_data_with_other_labels_are_refused(texts, labels):
    swapped = open_data((["one text here", "another text"] * 30, labels[::-1]))
    with pytest.raises(InputError, match=r"has the label .*, but had .* when it was ranked"):
        label_studio_tasks(texts, data=swapped)
    fewer = open_data((["one text here", "another text"] * 20, labels[:40]))
    with pytest.raises(InputError, match="not in the data: give the data that were ranked"):
        label_studio_tasks(texts, data=fewer)


def test_class_numbers_in_the_ranking_and_names_in_the_data(curves):
    logits, labels, _ = curves(0)
    data = open_data(([f"some words {n}" for n in range(60)], [CLASSES[label] for label in labels]))
    tasks = label_studio_tasks(found_in(errata.Dynamics.from_arrays(logits, labels), data))
    assert {task["data"]["given_label"] for task in tasks} == {"0", "1", "2", "3", "4"}


@pytest.mark.parametrize("tool", WRITERS)
def test_what_a_killed_export_left_is_removed(images, tool, tmp_path):
    WRITERS[tool](images, tmp_path)
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    for folder in {path.parent for path in tmp_path.rglob("*")}:
        (folder / ".tasks.json.123.part").write_text("half")
    (tmp_path / ".errata.lock").touch()
    WRITERS[tool](images, tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == names


def test_two_exports_to_one_folder_at_once_are_refused(images, tmp_path):
    with lock_folder(tmp_path), pytest.raises(StoreError, match="is being written"):
        write_cleanlab(images, tmp_path)
