import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from errata.datasets import cache, loading, registry
from errata.datasets.checks import check_dataset
from errata.datasets.labelled import TUNING_FRACTIONS, label
from errata.datasets.settings import Drawn, Recorded, Setting
from errata.datasets.spec import Content, Dataset, PaperRow, Raw, Source
from errata.datasets.where import data_dir, locate
from errata.errors import DataError, InputError, MissingDataError
from errata.readers.hashing import array_hash, content_hash
from errata.training.recipes import Recipe

RECIPE = Recipe(epochs=3, batch_size=16, learning_rate=1e-3, widths=(4,))
ROWS, TRAIN = 60, 40


def read(paths):
    table = np.loadtxt(paths[0], delimiter=",")
    return Raw({"inputs": table[:, :-1], "labels": table[:, -1].astype(np.int64)})


def prepare(raw, base):
    inputs, labels = raw.arrays["inputs"].astype(np.float32), raw.arrays["labels"]
    arrays = {
        "train_inputs": inputs[:TRAIN],
        "train_labels": labels[:TRAIN],
        "test_inputs": inputs[TRAIN:],
        "test_labels": labels[TRAIN:],
    }
    return Content(arrays, ("a", "b"), ("rows are made up",))


MADE_UP = Dataset(
    name="madeup",
    title="Made up",
    source="https://example.org/madeup",
    licence="none",
    bibtex="@misc{madeup}",
    kind="table",
    classes=("x", "y", "z"),
    sources=(Source(("full.csv",), read), Source(("part.csv",), read, complete=False, remark="a part of the rows")),
    prepare=prepare,
    settings=(Setting("madeup", Drawn("symmetric", 0.3), "mlp", RECIPE),),
    by_hand="Ask somebody, and put full.csv into {folder}.",
    paper=PaperRow(rows=ROWS, features="2", transformed="2", classes=3, train=TRAIN, test=ROWS - TRAIN),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with the made-up dataset in it, which is registered and has its right hashes."""
    table = np.random.default_rng(0).normal(size=(ROWS, 3)).round(3)
    table[:, 2] = np.arange(ROWS) % 3
    (tmp_path / "madeup").mkdir()
    np.savetxt(tmp_path / "madeup" / "full.csv", table, delimiter=",")
    hashes = {name: array_hash(array) for name, array in read([tmp_path / "madeup" / "full.csv"]).arrays.items()}
    made_up = replace(MADE_UP, hashes=hashes, class_counts=(20, 20, 20))
    known = {"madeup": made_up}
    monkeypatch.setattr(registry, "datasets", lambda: known)
    return tmp_path


@pytest.fixture
def made_up(folder):
    return registry.dataset("madeup")


# Where data lives.


def test_the_folder_given_comes_before_the_variable_and_that_before_the_cache(tmp_path, monkeypatch, own_cache):
    monkeypatch.delenv("ERRATA_DATA", raising=False)
    assert data_dir() == own_cache / "errata" / "data"
    monkeypatch.setenv("ERRATA_DATA", str(tmp_path))
    assert data_dir() == tmp_path
    assert data_dir("elsewhere").name == "elsewhere"


def test_what_is_not_there_is_explained(made_up, tmp_path):
    with pytest.raises(MissingDataError, match=r"madeup is not in .*by hand.*full\.csv into .*madeup"):
        locate(made_up, tmp_path / "empty")


def test_what_is_there_in_part_is_named(made_up, folder):
    two = replace(made_up, sources=(Source(("full.csv", "more.csv"), read),))
    with pytest.raises(DataError, match=r"partly there: .*more\.csv is missing"):
        locate(two, folder)


def test_files_may_lie_in_the_data_folder_itself(made_up, folder):
    (folder / "madeup" / "full.csv").rename(folder / "full.csv")
    assert locate(made_up, folder).paths == (folder / "full.csv",)


def test_the_full_file_is_taken_where_there_are_both_and_a_part_says_so(made_up, folder):
    full = folder / "madeup" / "full.csv"
    part = folder / "madeup" / "part.csv"
    part.write_bytes(full.read_bytes())
    whole = loading.load("madeup", folder)
    assert whole.complete
    full.unlink()
    partial = loading.load("madeup", folder)
    assert not partial.complete
    assert not partial.metadata()["complete"]
    assert "a part of the rows" in partial.remarks


# What is read.


def test_content_counts_not_the_bytes_of_the_file(made_up, folder):
    full = folder / "madeup" / "full.csv"
    before = loading.load("madeup", folder)
    np.savetxt(full, np.loadtxt(full, delimiter=","), delimiter=",", fmt="%.3f")
    again = loading.load("madeup", folder)
    assert again.content_hash == before.content_hash


def test_wrong_content_under_the_right_name_is_refused(made_up, folder):
    full = folder / "madeup" / "full.csv"
    full.write_text(full.read_text().replace("1", "2", 1))
    with pytest.raises(DataError, match=r"full\.csv is not the official madeup: the hash of \w+ is"):
        loading.load("madeup", folder)


def test_a_hash_is_that_of_the_values_not_of_their_layout():
    values = np.arange(12, dtype=np.int64).reshape(3, 4)
    assert array_hash(values) == array_hash(np.asfortranarray(values)) == array_hash(values.astype(">i8"))
    assert len({array_hash(array) for array in (values, values.T, values.astype(np.int32), values + 1)}) == 4
    texts = np.array(["one", "zwei"])
    assert array_hash(texts) == array_hash(texts.astype("U20")) == array_hash(texts.astype("S"))
    assert array_hash(np.array(["ab", "c"])) != array_hash(np.array(["a", "bc"]))
    assert content_hash({"a": values, "b": texts}) == content_hash({"b": texts, "a": values})
    assert content_hash({"a": values, "b": texts}) != content_hash({"b": values, "a": texts})


# What is kept.


def test_the_second_time_nothing_is_parsed(made_up, folder, monkeypatch):
    first = loading.load("madeup", folder)
    monkeypatch.setattr(loading, "read_verified", None)
    second = loading.load("madeup", folder)
    for name in ("train_inputs", "train_labels", "test_inputs", "test_labels"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert second.metadata() == first.metadata()
    assert second.features == ("a", "b")
    assert not second.train_inputs.flags.writeable


def test_other_code_and_other_files_are_prepared_again(made_up, folder, monkeypatch):
    loading.load("madeup", folder)
    calls = []
    real = loading.read_verified
    monkeypatch.setattr(loading, "read_verified", lambda *args: calls.append(1) or real(*args))
    loading.load("madeup", folder)
    assert not calls
    monkeypatch.setattr(cache, "code_version", lambda: "another")
    loading.load("madeup", folder)
    assert len(calls) == 1
    full = folder / "madeup" / "full.csv"
    full.write_text(full.read_text() + "\n")
    loading.load("madeup", folder)
    assert len(calls) == 2


@pytest.mark.parametrize("damage", ["array", "about", "seen"])
def test_a_damaged_cache_is_made_again(made_up, folder, own_cache, damage):
    first = loading.load("madeup", folder)
    expected = np.array(first.train_inputs)
    kept = own_cache / "errata" / "prepared" / "madeup"
    if damage == "seen":
        (kept / "seen.json").write_text("{")
    elif damage == "about":
        next(kept.glob("*/about.json")).write_text("[]")
    else:
        next(kept.glob("*/train_inputs.npy")).write_bytes(b"half")
    np.testing.assert_array_equal(loading.load("madeup", folder).train_inputs, expected)


def test_what_is_said_belongs_to_the_file_not_to_its_content(made_up, folder):
    full = folder / "madeup" / "full.csv"
    part = folder / "madeup" / "part.csv"
    assert loading.load("madeup", folder).complete
    full.rename(part)
    assert not loading.load("madeup", folder).complete
    part.rename(full)
    again = loading.load("madeup", folder)
    assert again.complete
    assert "a part of the rows" not in again.remarks


def test_several_processes_may_load_for_the_first_time_at_once(own_cache):
    code = "from errata.datasets import load; print(load('digits').content_hash)"
    command = [sys.executable, "-c", code]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate()[0] for process in several}) == 1
    assert all(process.returncode == 0 for process in several)


def test_what_another_process_takes_away_is_still_there(made_up, folder, monkeypatch):
    write = cache.PreparedCache._write

    def write_and_lose(self, place, made):
        write(self, place, made)
        shutil.rmtree(place)

    monkeypatch.setattr(cache.PreparedCache, "_write", write_and_lose)
    assert len(loading.load("madeup", folder).train_labels) == TRAIN


def test_a_cache_that_cannot_be_written_costs_time_not_the_data(made_up, folder, monkeypatch, tmp_path):
    taken = tmp_path / "a file"
    taken.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(taken))
    with pytest.warns(UserWarning, match="prepared data cannot be kept in .*a file.*prepared each time"):
        data = loading.load("madeup", folder)
    assert data.train_inputs.shape == (TRAIN, 2)


def test_other_versions_of_prepared_data_do_not_pile_up(made_up, folder, own_cache, monkeypatch):
    for version in ("first", "second", "third"):
        monkeypatch.setattr(cache, "code_version", lambda version=version: version)
        loading.load("madeup", folder)
    assert len(list((own_cache / "errata" / "prepared" / "madeup").glob("*-*/"))) == 1


def test_presence_is_by_content(made_up, folder, tmp_path):
    assert loading.presence(made_up, folder)[0] == "yes"
    full = folder / "madeup" / "full.csv"
    full.rename(folder / "madeup" / "part.csv")
    assert loading.presence(made_up, folder)[0] == "in part"
    assert loading.presence(made_up, tmp_path / "empty") == ("no", None)


# Labels of a setting.


@pytest.fixture
def data(folder):
    return loading.load("madeup", folder)


def test_noise_is_always_the_same_and_counted(made_up, data):
    one, two = (label(made_up.settings[0], data) for _ in range(2))
    np.testing.assert_array_equal(one.given, two.given)
    assert one.noise["count"] == (one.given != data.train_labels).sum() == one.truth.sum()
    assert one.metadata()["noise"]["hash"] == two.noise["hash"]
    json.dumps(one.metadata())


def test_tuning_sets_are_nested_and_the_rest_is_evaluated_on(made_up, data):
    labelled = label(made_up.settings[0], data)
    small, middle, large = (labelled.tuning(fraction) for fraction in TUNING_FRACTIONS)
    assert not (small & ~middle).any()
    assert not (middle & ~large).any()
    assert [mask.sum() for mask in (small, middle, large)] == [round(f * TRAIN) for f in TUNING_FRACTIONS]
    np.testing.assert_array_equal(labelled.evaluation, ~large)
    np.testing.assert_array_equal(label(made_up.settings[0], data).tuning(0.1), large)
    with pytest.raises(InputError, match="tuning fraction"):
        labelled.tuning(0.5)


def test_real_noise_is_read_and_unknown_where_nobody_checked(data):
    given = np.asarray(data.train_labels) * 0
    wrong = np.where(np.arange(TRAIN) < 10, given != data.train_labels, -1).astype(np.int8)
    real = replace(data, given={"real": given}, wrong={"real": wrong})
    labelled = label(Setting("madeup", Recorded(), "mlp", RECIPE), real)
    assert labelled.setting.name == "madeup"
    assert np.isnan(labelled.truth[10:]).all()
    np.testing.assert_array_equal(labelled.truth[:10], data.train_labels[:10] != 0)
    np.testing.assert_array_equal(labelled.scored, np.arange(10))
    assert labelled.noise["known"] == 10
    assert labelled.tuning(0.1).sum() == 1
    assert labelled.evaluation.sum() == 9


# Checks.


def test_every_check_of_the_right_data_passes(made_up, folder):
    checks = {check.what: check for check in check_dataset(made_up, folder)}
    assert all(check.passed is not False for check in checks.values())
    for what in ("files", "hash of inputs", "hash of labels", "split", "classes", "features", "class counts"):
        assert checks[what].passed, what


def test_wrong_data_fails_and_missing_data_is_explained(made_up, folder, tmp_path):
    (alone,) = check_dataset(made_up, tmp_path / "nothing")
    assert alone.passed is None
    assert "by hand" in alone.found
    full = folder / "madeup" / "full.csv"
    full.write_text("\n".join(full.read_text().splitlines()[:-1]))
    assert any(check.passed is False for check in check_dataset(made_up, folder))


def test_a_part_is_never_said_to_be_like_the_paper(made_up, folder):
    full = folder / "madeup" / "full.csv"
    lines = full.read_text().splitlines()
    (folder / "madeup" / "part.csv").write_text("\n".join(lines[:50]))
    full.unlink()
    checks = {check.what: check for check in check_dataset(made_up, folder)}
    assert checks["split"].passed is None
    assert "the paper has 40 / 20" in checks["split"].found
    remarks = [check.found for check in check_dataset(made_up, folder) if check.what == "remark"]
    assert "a part of the rows" in remarks
