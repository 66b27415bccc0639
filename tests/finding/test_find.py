import gzip
import json
import re
import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.metrics import log_loss as sklearn_log_loss

import errata
from errata.core import metrics
from errata.errors import ErrataError, InputError
from errata.finding import candidates, find_options, model_training
from errata.finding.candidates import MAX_BATCH, SMALL_BATCHES, candidates_for
from errata.finding.sources import DataSource
from errata.terminal import NoProgress
from errata.training.recipes import batch_size
from errata.training.search import model_split


@pytest.fixture
def table(clouds):
    """The clusters as a data frame with class names and ids."""
    inputs, noisy = clouds
    frame = pd.DataFrame(inputs, columns=["a", "b", "c", "d"])
    frame["kind"] = [("ant", "bee", "cat")[label] for label in noisy.labels]
    frame["name"] = [f"n{row}" for row in range(len(frame))]
    return frame


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "find")


def missed(found, noisy):
    """The share of the errors that are not among the first samples of the ranking (FNR)."""
    return metrics.fnr(found.ranking.sort_values("id")["score"].to_numpy(), noisy.truth)


def blended_with_held_out(found):
    """The default with inputs: more weight of the run if its model had the lower log loss on the validation split."""
    dynamics = found.dynamics
    rows = model_split(dynamics.labels, dynamics.num_classes, 0).validation_rows
    p = np.exp(dynamics.held_out[rows].astype(np.float64))
    loss = sklearn_log_loss(dynamics.labels[rows], p / p.sum(axis=1, keepdims=True), labels=range(dynamics.num_classes))
    return f"Unmixed-HeldOut{'(a=0.7)' if found.summary['held_out_loss'] < loss else ''}-EarlyProb-LM"


def test_one_command_from_a_file_to_a_report(run, table, clouds, tmp_path):
    table.to_csv("bees.csv", index=False)
    before = (tmp_path / "bees.csv").read_bytes()
    code, out, err = run("bees.csv", "--label", "kind", "--id", "name")
    assert (code, err) == (0, "")
    assert out.startswith("bees.csv: 180 samples in 3 classes, table (columns: 4 number)\nClasses: ")
    assert len(out[: out.index("the 10 most suspicious")].splitlines()) <= 6
    assert out.endswith("then: errata apply bees.csv --decisions decisions.csv\n")
    assert "Look at the first 20" in out
    folder = tmp_path / "errata-out"
    assert {"ranking.csv", "ranking.parquet", "summary.json", "report.html", "dynamics"} <= {
        entry.name for entry in folder.iterdir()
    }
    assert not (folder / "work").exists()
    ranking = pd.read_csv(folder / "ranking.csv")
    wrong = {f"n{row}" for row in np.flatnonzero(clouds[1].truth)}
    assert len(wrong & set(ranking["id"].head(len(wrong)))) >= 0.8 * len(wrong)
    dynamics = errata.Dynamics.open(folder / "dynamics")
    assert dynamics.classes == ("ant", "bee", "cat")
    assert dynamics.held_out.shape == (len(ranking), 3)
    assert (tmp_path / "bees.csv").read_bytes() == before
    code, _, _ = run(folder / "dynamics", "--out", "again")
    assert code == 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "again" / "ranking.csv"), ranking)


RUNS = {
    "second pass": ("bees.csv", "--label", "kind", "--model", "mlp", "--looks", "2"),
    "second pass on texts": ("texts.csv", "--label", "kind", "--model", "mlp", "--looks", "2", "--merge-labels"),
    "folds": ("bees.csv", "--label", "kind", "--id", "name", "--folds", "2", "--ignore", "a"),
    "boosting": ("bees.csv", "--label", "kind", "--model", "boosting", "--looks", "1"),
    "images": ("pictures", "--backbone", "none", "--looks", "2", "--skip-bad"),
    "logits": ("run.npz",),
    "logits and data": ("run.npz", "--data", "codes.csv", "--label", "kind"),
}


@pytest.mark.parametrize("case", RUNS)
@pytest.mark.parametrize("disagree", [False, True], ids=["", "estimates disagree"])
def test_at_most_six_lines_come_before_the_list(run, table, pictures, monkeypatch, case, disagree):
    monkeypatch.setattr("errata.finding.answer.disagree_widely", lambda *estimate: disagree)
    monkeypatch.setattr("errata.finding.candidates.MAX_IMAGE_EPOCHS", 2)
    monkeypatch.setattr("errata.finding.candidates.MIN_EPOCHS", 2)
    table.to_csv("bees.csv", index=False)
    table.assign(text=[f"{kind} flies {row % 7} times" for row, kind in enumerate(table["kind"])])[
        ["text", "kind"]
    ].to_csv("texts.csv", index=False)
    codes = np.array([("ant", "bee", "cat").index(kind) for kind in table["kind"]])
    logits = np.eye(3)[codes] * np.arange(2, 6)[:, None, None]
    np.savez("run.npz", logits=logits, labels=codes)
    table.assign(kind=codes).to_csv("codes.csv", index=False)
    code, out, err = run(*RUNS[case])
    assert (code, err) == (0, "")
    lines = out[: re.search("the [0-9]+ most suspicious", out).start()].splitlines()
    assert 3 <= len(lines) <= 6, lines
    assert max(map(len, lines)) <= 150, lines


@pytest.mark.parametrize("model", ["boosting", "mlp"])
def test_each_model_for_tables_finds_most_errors(clouds, model):
    inputs, noisy = clouds
    found = errata.find(inputs, noisy.labels, model=model)
    assert missed(found, noisy) <= 0.25
    assert found.summary["kind"] == "table"
    assert ("LightGBM" in found.summary["model"]) == (model == "boosting")
    assert found.summary["method"] == blended_with_held_out(found)
    assert found.ranking["p_wrong"].sum() == pytest.approx(found.estimate.rate * len(inputs))
    assert found.dynamics.path is None
    held_out = found.dynamics.held_out
    assert held_out.shape == (len(inputs), 3)
    assert held_out.dtype == np.float32
    assert (held_out.argmax(axis=1)[~noisy.truth] == noisy.labels[~noisy.truth]).mean() > 0.7
    recomputed = replace(found.dynamics, held_out=None)
    np.testing.assert_allclose(errata.score(recomputed), errata.score(found.dynamics), atol=1e-4)


def test_folds_score_every_sample_out_of_sample(clouds):
    inputs, noisy = clouds
    found = errata.find(inputs, noisy.labels, model="mlp", folds=3)
    assert found.dynamics.gathering == "out-of-sample"
    assert found.dynamics.features is None
    assert found.summary["method"] == f"{blended_with_held_out(found)} (OOS)"
    assert missed(found, noisy) <= 0.25


def test_equal_calls_give_equal_rankings(clouds):
    inputs, noisy = clouds
    one, other = (errata.find((inputs, noisy.labels), model="mlp", seed=3) for _ in range(2))
    pd.testing.assert_frame_equal(one.ranking, other.ranking)


def test_inputs_of_many_libraries_are_accepted(clouds):
    import polars as pl
    import torch
    from scipy.sparse import csr_matrix
    from sklearn.utils import Bunch

    inputs, noisy = clouds
    ids = []
    for source, label in (
        (torch.from_numpy(inputs), torch.from_numpy(noisy.labels)),
        (pd.DataFrame(inputs), noisy.labels),
        (pl.DataFrame(inputs, schema=list("abcd")).with_columns(y=pl.Series(noisy.labels)), "y"),
        (Bunch(data=inputs, target=noisy.labels, target_names=np.array(["ant", "bee", "cat"])), None),
        (csr_matrix(inputs), [("zero", 1, 2.5)[label] for label in noisy.labels]),
    ):
        found = errata.find(source, label, model="mlp")
        assert missed(found, noisy) <= 0.3
        ids.append(set(found.ranking["id"]))
    assert all(one == set(range(len(inputs))) for one in ids)


def test_text_is_ranked(clouds):
    rng = np.random.default_rng(0)
    words = {0: "goal match team ball score", 1: "vote party law minister senate", 2: "star planet orbit moon comet"}
    noisy = clouds[1]
    truth = np.arange(180) % 3
    texts = [" ".join(rng.choice(words[label].split(), 6)) for label in truth.tolist()]
    found = errata.find(texts, noisy.labels)
    assert found.summary["kind"] == "text"
    assert found.summary["method"] == blended_with_held_out(found)
    assert missed(found, noisy) <= 0.1
    held_out = found.dynamics.held_out
    assert held_out.dtype == np.float32
    assert (held_out.argmax(axis=1) == truth).mean() > 0.9
    np.testing.assert_allclose(np.exp(held_out).sum(axis=1), 1, rtol=1e-5)


def test_saved_logits_are_ranked_without_training(run, curves, tmp_path):
    logits, labels, _ = curves(0)
    np.savez(tmp_path / "run.npz", logits=logits, labels=labels)
    code, out, _ = run("run.npz", "--top", "3")
    assert code == 0
    assert "the 3 most suspicious of 60 samples" in out
    assert "as recorded" in (tmp_path / "errata-out" / "summary.json").read_text()
    expected = errata.rank(errata.Dynamics.from_arrays(logits, labels))
    assert pd.read_csv(tmp_path / "errata-out" / "ranking.csv")["id"].tolist() == expected["id"].tolist()


def test_a_folder_of_hugging_face_datasets_is_read(table, tmp_path):
    import pyarrow as pa

    names = ["ant", "bee", "cat"]
    arrow = pa.Table.from_pandas(table.assign(kind=[names.index(name) for name in table["kind"]]))
    with (
        pa.OSFile(str(tmp_path / "data-00000-of-00001.arrow"), "wb") as file,
        pa.ipc.new_stream(file, arrow.schema) as to,
    ):
        to.write_table(arrow)
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    features = {"kind": {"names": names, "_type": "ClassLabel"}, "a": {"dtype": "float32", "_type": "Value"}}
    (tmp_path / "dataset_info.json").write_text(json.dumps({"features": features}))
    found = errata.find(tmp_path, "kind", id="name", model="mlp")
    assert found.dynamics.classes == ("ant", "bee", "cat")
    pd.testing.assert_frame_equal(found.ranking, errata.find(table, "kind", id="name", model="mlp").ranking)
    (tmp_path / "both" / "train").mkdir(parents=True)
    (tmp_path / "both" / "dataset_dict.json").write_text("{}")
    with pytest.raises(ErrataError, match=r"pass one of them, such as .*train"):
        errata.find(tmp_path / "both", "kind")


@pytest.fixture
def pictures(tmp_path):
    """Six bright and six dark images of 32 x 32 in class folders."""
    rng = np.random.default_rng(0)
    for number in range(12):
        name, light = ("bright", 200) if number % 2 else ("dark", 50)
        (tmp_path / "pictures" / name).mkdir(parents=True, exist_ok=True)
        pixels = np.clip(rng.normal(light, 20, (32, 32, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{number}.png")
    return tmp_path / "pictures"


def test_a_folder_of_images_is_ranked(run, pictures, monkeypatch):
    monkeypatch.setattr("errata.finding.candidates.MAX_IMAGE_EPOCHS", 2)
    monkeypatch.setattr("errata.finding.candidates.MIN_EPOCHS", 2)
    (pictures / "bright" / "broken.png").write_bytes(b"not a picture")
    code, _, err = run(pictures)
    assert code == 2
    assert "broken.png cannot be read as an image" in err
    code, out, err = run(pictures, "--skip-bad", "--backbone", "none")
    assert (code, err) == (0, "")
    assert "12 samples in 2 classes, 12 images of 32 × 32 pixels" in out
    assert "broken.png" in out
    assert "Ranked by Unmixed-kNN-RampProb-LM" in out
    ranking = pd.read_csv("errata-out/ranking.csv")
    assert set(ranking["id"]) == {f"{name}/{n}.png" for n in range(12) for name in [("dark", "bright")[n % 2]]}


def test_the_network_depends_on_image_size_and_device(tmp_path, monkeypatch):
    monkeypatch.setattr("errata.training.gather.choose_device", torch.device)
    small = np.random.default_rng(0).integers(0, 255, (20, 16, 16), dtype=np.uint8)
    arrays = DataSource(small, [0, 1] * 10).open()
    names = [candidates_for(arrays, "auto", 0, device)[0].name for device in ("cuda", "cpu")]
    assert names == ["cnn9", "cnn4"]
    for number in range(12):
        (tmp_path / str(number % 2)).mkdir(exist_ok=True)
        Image.new("RGB", (90 + number, 100), (number,) * 3).save(tmp_path / str(number % 2) / f"{number}.jpg")
    files = DataSource(tmp_path).open()
    (candidate,) = candidates_for(files, "auto", 0, "cuda")
    assert candidate.name == "resnet18"
    assert len(candidate.inputs) == 12
    (candidate,) = candidates_for(files, "auto", 0, "cpu")
    assert candidate.name == "cnn4"
    assert next(candidate.inputs.fetch([torch.arange(2)])).shape == (2, 3, 64, 64)


@pytest.fixture
def slow_network(monkeypatch):
    """A learning rate so low that the network needs dozens of epochs."""
    widths, _, decay = candidates.NETWORK
    monkeypatch.setattr(candidates, "NETWORK", (widths, 2e-4, decay))


def test_no_batch_has_a_single_sample_left():
    for samples in range(10, 3_000):
        size = batch_size(samples, SMALL_BATCHES, MAX_BATCH)
        assert samples % size != 1


class InterruptAfter(NoProgress):
    """Interrupts after some epochs of a step, `trying` or `training`."""

    def __init__(self, epochs, step):
        self._left, self._step, self._active = epochs, step, False

    def begin(self, name, epochs):
        self._active = name.startswith(self._step)

    def advance(self, epochs):
        self._left -= epochs * self._active
        if self._left < 0:
            raise KeyboardInterrupt


class ProgressLog(NoProgress):
    """Stores all calls."""

    def __init__(self):
        self.begun, self.steps, self.totals = [], [], []

    def total(self, epochs):
        self.totals.append(epochs)

    def begin(self, name, epochs):
        self.begun.append(name)

    def advance(self, epochs):
        self.steps.append(epochs)


def test_an_interrupted_training_resumes(clouds, tmp_path, monkeypatch, slow_network):
    monkeypatch.setattr(model_training, "CHECKPOINT_SECONDS", 0.0)
    inputs, noisy = clouds
    find = partial(errata.find, inputs, noisy.labels, model="mlp", seed=1)
    with pytest.raises(KeyboardInterrupt):
        find(out=tmp_path / "out", progress=InterruptAfter(5, "training"))
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {".errata-find", "work"}
    log = ProgressLog()
    found = find(out=tmp_path / "out", progress=log)
    assert not any(name.startswith("trying") for name in log.begun)
    assert max(log.steps[1:]) >= 2 * log.steps[-1]  # the epochs that were done already are reported at once
    assert len(log.totals) == 1
    assert sum(log.steps) == pytest.approx(log.totals[0])
    assert not (tmp_path / "out" / "work").exists()
    whole = find()
    pd.testing.assert_frame_equal(found.ranking, whole.ranking)
    assert found.summary["held_out_loss"] == whole.summary["held_out_loss"]


class InterruptSecondStep(NoProgress):
    """Interrupts when the second step begins."""

    def __init__(self):
        self._begun = 0

    def begin(self, name, epochs):
        self._begun += 1
        if self._begun == 2:
            raise KeyboardInterrupt


def test_a_finished_trial_is_not_repeated(clouds, tmp_path):
    inputs, noisy = clouds
    find = partial(errata.find, inputs, noisy.labels, seed=1)
    whole, resumed = ProgressLog(), ProgressLog()
    expected = find(progress=whole)
    with pytest.raises(KeyboardInterrupt):
        find(out=tmp_path / "out", progress=InterruptSecondStep())
    found = find(out=tmp_path / "out", progress=resumed)
    assert resumed.begun == whole.begun[1:]
    assert sum(resumed.steps) == resumed.totals[-1] == whole.totals[-1]
    assert found.summary["notes"] == expected.summary["notes"]
    pd.testing.assert_frame_equal(found.ranking, expected.ranking)


def test_an_interrupted_trial_resumes(clouds, tmp_path, monkeypatch):
    monkeypatch.setattr(model_training, "CHECKPOINT_SECONDS", 0.0)
    inputs, noisy = clouds
    find = partial(errata.find, inputs, noisy.labels, model="mlp", seed=1)
    with pytest.raises(KeyboardInterrupt):
        find(out=tmp_path / "out", progress=InterruptAfter(5, "trying"))
    assert list((tmp_path / "out" / "work").rglob("trial-0-mlp.begun"))
    resumed = ProgressLog()
    found = find(out=tmp_path / "out", progress=resumed)
    assert resumed.steps[0] == 5  # the sixth epoch was not saved
    expected = find()
    assert found.summary["notes"] == expected.summary["notes"]
    pd.testing.assert_frame_equal(found.ranking, expected.ranking)


def test_other_data_in_the_same_folder_starts_again(clouds, tmp_path):
    inputs, noisy = clouds
    find = partial(errata.find, model="mlp", out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        find(inputs, noisy.labels, progress=InterruptAfter(3, "training"))
    assert len(find(inputs[:90], noisy.labels[:90]).ranking) == 90


@pytest.mark.parametrize("model", ["mlp", "boosting"])
def test_large_runs_keep_running_sums_and_rank_the_same(clouds, model, tmp_path, monkeypatch):
    inputs, noisy = clouds
    whole = errata.find(inputs, noisy.labels, model=model)
    monkeypatch.setattr(model_training, "MAX_LOGITS_ON_DISK", 0)
    streamed = errata.find(inputs, noisy.labels, model=model, out=tmp_path / "out")
    assert streamed.dynamics.logits is None
    pd.testing.assert_frame_equal(streamed.ranking, whole.ranking)


@pytest.mark.parametrize("text", [False, True])
def test_the_memory_estimate_for_many_classes_is_close(monkeypatch, text):
    monkeypatch.setattr(model_training, "MAX_LOGITS", 0)
    for name in ("MAX_EPOCHS", "MIN_EPOCHS"):
        monkeypatch.setattr(f"errata.finding.candidates.{name}", 2)
    estimated: list[float] = []
    monkeypatch.setattr(find_options, "check_fits", lambda size, what: estimated.append(size))
    labels = np.arange(2_000) % 500
    words = [f"number {label % 50} of many, page {row}" for row, label in enumerate(labels.tolist())]
    inputs = words if text else np.random.default_rng(0).random((2_000, 4))
    errata.find(inputs, labels, model="mlp")  # the first call compiles kernels and imports modules, which takes memory
    tracemalloc.start()
    errata.find(inputs, labels, model="mlp")
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 * estimated[-1] < taken < 1.1 * estimated[-1]


def test_equal_inputs_with_different_labels_are_conflicts(run, table):
    table.loc[1, ["a", "b", "c", "d"]] = table.loc[0, ["a", "b", "c", "d"]]
    table.to_parquet("bees.parquet")
    code, out, _ = run("bees.parquet", "--label", "kind", "--id", "name", "--model", "mlp")
    assert code == 0
    assert "2 samples in 1 group have the same inputs" in out
    assert pd.read_csv("errata-out/conflicts.csv")["id"].tolist() == ["n0", "n1"]


def with_blanks(table):
    return table.assign(kind=table["kind"].where(table.index > 4))


def with_a_lone_class(table):
    return table.assign(kind=["zebra", *table["kind"][1:]])


def with_mixed_types(table):
    return table.assign(kind=[1, *table["kind"][1:]])


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        (with_blanks, "5 rows have no label and are left out"),
        (with_a_lone_class, "class 'zebra' has a single sample"),
        (with_mixed_types, "class 1 has a single sample"),
    ],
)
def test_odd_labels_give_a_remark(table, change, remark):
    found = errata.find(change(table), "kind", id="name", model="mlp")
    assert any(remark in note for note in found.summary["notes"])


def test_text_that_is_not_utf8_is_read_with_a_remark(run, tmp_path):
    lines = ["title,kind"] + [f"caf\xe9 number {n} {'wine red' if n % 2 else 'ham bread'},{n % 2}" for n in range(40)]
    (tmp_path / "menu.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode("latin-1")))
    code, out, _ = run("menu.csv.gz", "--label", "kind", "--text", "title")
    assert code == 0
    assert "Note: " in out
    assert "is not UTF-8 and was read as Latin-1" in out


FINE = {"a": [1, 2, 3, 4] * 5, "y": [0, 1] * 10}


@pytest.mark.parametrize(
    ("columns", "arguments", "sentence"),
    [
        ({"a": [1, 2] * 10, "y": ["x", "z"] * 10}, (), "Name the column of .* with the labels. 'y' looks like it"),
        ({"a": [1, 2] * 10, "y": ["x", "z"] * 10}, ("--label", "Y2"), "has no column 'Y2'"),
        ({"a": range(9), "y": [0, 1, 1] * 3}, ("--label", "y"), "there are 9 samples; .* at least 10"),
        ({"a": range(3000), "y": range(3000)}, ("--label", "y"), "no two samples have the same label"),
        ({"a": range(20), "y": [1] * 20}, ("--label", "y"), "has one class"),
        ({"a": ["same"] * 20, "y": [0, 1] * 10}, ("--label", "y"), "has no column to learn from"),
        (
            {"title": [f"word{row}" for row in range(20)], "y": [0, 1] * 10},
            ("--label", "y"),
            "'title' is left out: like an id. If 'title' is text to learn from, pass --text title",
        ),
        ({"a": [1, 1, *range(18)], "y": [0, 1] * 10}, ("--label", "y", "--id", "a"), "has the id 1 twice"),
        (FINE, ("--label", "y", "--model", "cnn9"), "cnn9 does not take a table"),
        (
            FINE,
            ("--label", "y", "--model", "svm"),
            "model must be one of auto, boosting",
        ),
        (
            FINE,
            ("--label", "y", "--folds", "30"),
            "cannot be split into 30 folds",
        ),
        (
            FINE,
            ("--label", "y", "--device", "warp"),
            "there is no device named 'warp'",
        ),
        (FINE, ("--label", "y", "--device", "mps"), "there is no device named 'mps' here"),
        (FINE, ("--label", "y", "--device", "meta"), "there is no device named 'meta' here"),
        (FINE, ("--label", "y", "--seed", str(2**64)), "seed must be a whole number, 0 or above"),
    ],
)
def test_unusable_input_is_refused_in_one_line_and_nothing_is_written(run, tmp_path, columns, arguments, sentence):
    pd.DataFrame(columns).to_csv("data.csv", index=False)
    code, _, err = run("data.csv", *arguments)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert pd.Series([err]).str.contains(sentence).all(), err
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seed": 1.5}, r"seed must be a whole number, 0 or above and below 2\^63, not 1\.5"),
        ({"seed": True}, "seed must be a whole number"),
        ({"seed": "x"}, "seed must be a whole number.* not 'x'"),
        ({"seed": None}, "seed must be a whole number"),
        ({"seed": float("nan")}, "seed must be a whole number"),
        ({"folds": "3"}, r"folds must be a whole number, 2 or above and below 2\^63, not '3'"),
        ({"folds": 2.5}, "folds must be a whole number"),
        ({"folds": [3]}, "folds must be a whole number"),
        ({"device": None}, "there is no device None here"),
        ({"out": 3}, "`out=` must be the path of a folder, not int"),
    ],
)
def test_options_of_a_wrong_type_are_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        errata.find(np.arange(40.0).reshape(20, 2), [0, 1] * 10, model="mlp", **options)


def test_a_folder_with_one_image_is_refused(run, tmp_path):
    (tmp_path / "pictures" / "cat").mkdir(parents=True)
    Image.new("RGB", (20, 20)).save(tmp_path / "pictures" / "cat" / "1.png")
    code, _, err = run("pictures")
    assert code == 2
    assert "one class" in err


def test_a_folder_with_other_files_is_refused_before_training(run, table, tmp_path):
    table.to_csv("bees.csv", index=False)
    (tmp_path / "errata-out").mkdir()
    (tmp_path / "errata-out" / "thesis.tex").write_text("mine")
    code, _, err = run("bees.csv", "--label", "kind")
    assert code == 2
    assert "holds other files" in err


def test_ignored_columns_are_not_used_and_are_named_in_the_next_command(run, tmp_path):
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=60), "leak": [0, 1] * 30, "b": rng.normal(size=60), "y": ["n", "y"] * 30}
    pd.DataFrame(columns).to_csv("data.csv", index=False)
    code, out, err = run("data.csv", "--label", "y", "--model", "mlp", "--ignore", "leak", "--ignore", "b")
    assert code == 0, err
    assert "2 left out" in out
    found = errata.Found.open("errata-out")
    assert found.summary["source"]["ignore"] == ["leak", "b"]
    assert found.dynamics.inputs.shape == (60, 1)
    again = DataSource.from_summary(found.summary, tmp_path / "errata-out")
    assert again.ignore == ["leak", "b"]
    code, _, err = run("data.csv", "--label", "y", "--model", "mlp", "--ignore", "gone")
    assert code == 2
    assert "gone" in err
