import json
import multiprocessing
import shutil
from dataclasses import replace

import numpy as np
import pytest

from errata.datasets import cache, loading, registry
from errata.datasets.dataset_checks import check_dataset
from errata.datasets.label_noise import RecordedNoise, SymmetricNoise
from errata.datasets.loading import TUNING_FRACTIONS, label
from errata.datasets.locations import data_dir, locate
from errata.datasets.spec import Dataset, PaperRow, ParsedArrays, PreparedArrays, Setting, Source
from errata.errors import DataError, InputError, MissingDataError
from errata.readers.hashing import array_hash, content_hash
from errata.training.recipes import Recipe

RECIPE = Recipe(epochs=3, batch_size=16, learning_rate=1e-3, widths=(4,))
ROWS, TRAIN = 60, 40


def read(path):
    table = np.loadtxt(path, delimiter=",")
    return ParsedArrays({"inputs": table[:, :-1], "labels": table[:, -1].astype(np.int64)})


def prepare(parsed):
    inputs, labels = parsed.arrays["inputs"].astype(np.float32), parsed.arrays["labels"]
    arrays = {
        "train_inputs": inputs[:TRAIN],
        "train_labels": labels[:TRAIN],
        "test_inputs": inputs[TRAIN:],
        "test_labels": labels[TRAIN:],
    }
    return PreparedArrays(arrays, ("synthetic rows",))


SYNTHETIC = Dataset(
    name="synthetic",
    title="Synthetic",
    source="https://example.org/synthetic",
    licence="none",
    bibtex="@misc{synthetic}",
    kind="table",
    classes=("x", "y", "z"),
    sources=(Source(("full.csv",), read), Source(("part.csv",), read, complete=False, remark="a part of the rows")),
    prepare=prepare,
    settings=(Setting("synthetic", SymmetricNoise(0.3), "mlp", RECIPE),),
    by_hand="Put full.csv into {folder}.",
    paper=PaperRow(rows=ROWS, features="2", transformed="2", classes=3, train=TRAIN, test=ROWS - TRAIN),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with the synthetic dataset, which is registered with its hashes."""
    table = np.random.default_rng(0).normal(size=(ROWS, 3)).round(3)
    table[:, 2] = np.arange(ROWS) % 3
    (tmp_path / "synthetic").mkdir()
    np.savetxt(tmp_path / "synthetic" / "full.csv", table, delimiter=",")
    hashes = {name: array_hash(array) for name, array in read(tmp_path / "synthetic" / "full.csv").arrays.items()}
    synthetic = replace(SYNTHETIC, hashes=hashes, class_counts=(20, 20, 20))
    known = {"synthetic": synthetic}
    monkeypatch.setattr(registry, "datasets", lambda: known)
    return tmp_path


@pytest.fixture
def synthetic(folder):
    return registry.dataset("synthetic")


# Location of the files.


def test_the_data_folder_is_the_argument_or_the_variable_or_the_cache(tmp_path, monkeypatch, own_cache):
    monkeypatch.delenv("ERRATA_DATA", raising=False)
    assert data_dir() == own_cache / "errata" / "data"
    monkeypatch.setenv("ERRATA_DATA", str(tmp_path))
    assert data_dir() == tmp_path
    assert data_dir("elsewhere").name == "elsewhere"


def test_a_missing_dataset_is_explained(synthetic, tmp_path):
    with pytest.raises(
        MissingDataError,
        match=r"synthetic is not in .*cannot be downloaded .* Put full\.csv into .*synthetic",
    ):
        locate(synthetic, tmp_path / "empty")


def test_a_missing_file_is_named(synthetic, folder):
    two = replace(synthetic, sources=(Source(("full.csv", "more.csv"), read),))
    with pytest.raises(DataError, match=r"is incomplete: .*more\.csv is missing"):
        locate(two, folder)


def test_files_may_be_directly_in_the_data_folder(synthetic, folder):
    (folder / "synthetic" / "full.csv").rename(folder / "full.csv")
    assert locate(synthetic, folder).paths == (folder / "full.csv",)


def test_the_complete_file_is_preferred_and_a_part_is_marked(synthetic, folder):
    full = folder / "synthetic" / "full.csv"
    part = folder / "synthetic" / "part.csv"
    part.write_bytes(full.read_bytes())
    whole = loading.load("synthetic", folder)
    assert whole.complete
    full.unlink()
    partial = loading.load("synthetic", folder)
    assert not partial.complete
    assert "a part of the rows" in partial.remarks


# Parsing and verification.


def test_the_content_hash_does_not_depend_on_the_bytes_of_the_file(synthetic, folder):
    full = folder / "synthetic" / "full.csv"
    before = loading.load("synthetic", folder)
    np.savetxt(full, np.loadtxt(full, delimiter=","), delimiter=",", fmt="%.3f")
    again = loading.load("synthetic", folder)
    assert again.content_hash == before.content_hash


def test_wrong_content_is_refused(synthetic, folder):
    full = folder / "synthetic" / "full.csv"
    full.write_text(full.read_text().replace("1", "2", 1))
    with pytest.raises(DataError, match=r"full\.csv is not the official synthetic: the hash of \w+ is"):
        loading.load("synthetic", folder)


def test_a_hash_depends_on_values_not_on_memory_layout():
    values = np.arange(12, dtype=np.int64).reshape(3, 4)
    assert array_hash(values) == array_hash(np.asfortranarray(values)) == array_hash(values.astype(">i8"))
    assert len({array_hash(array) for array in (values, values.T, values.astype(np.int32), values + 1)}) == 4
    texts = np.array(["one", "zwei"])
    assert array_hash(texts) == array_hash(texts.astype("U20")) == array_hash(texts.astype("S"))
    assert array_hash(np.array(["ab", "c"])) != array_hash(np.array(["a", "bc"]))
    assert content_hash({"a": values, "b": texts}) == content_hash({"b": texts, "a": values})
    assert content_hash({"a": values, "b": texts}) != content_hash({"b": values, "a": texts})


# The cache.


def test_nothing_is_parsed_the_second_time(synthetic, folder, monkeypatch):
    first = loading.load("synthetic", folder)
    monkeypatch.setattr(loading, "read_verified", None)
    second = loading.load("synthetic", folder)
    for name in ("train_inputs", "train_labels", "test_inputs", "test_labels"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert (second.content_hash, second.remarks) == (first.content_hash, first.remarks)
    assert not second.train_inputs.flags.writeable


def test_changed_code_or_files_are_prepared_again(synthetic, folder, monkeypatch):
    loading.load("synthetic", folder)
    calls = []
    real = loading.read_verified
    monkeypatch.setattr(loading, "read_verified", lambda *args: calls.append(1) or real(*args))
    loading.load("synthetic", folder)
    assert not calls
    monkeypatch.setattr(cache, "code_version", lambda: "another")
    loading.load("synthetic", folder)
    assert len(calls) == 1
    full = folder / "synthetic" / "full.csv"
    full.write_text(full.read_text() + "\n")
    loading.load("synthetic", folder)
    assert len(calls) == 2


@pytest.mark.parametrize("damage", ["array", "about"])
def test_a_damaged_cache_is_replaced(synthetic, folder, own_cache, damage):
    first = loading.load("synthetic", folder)
    expected = np.array(first.train_inputs)
    cached = own_cache / "errata" / "prepared" / "synthetic"
    if damage == "about":
        next(cached.glob("*/about.json")).write_text("[]")
    else:
        next(cached.glob("*/train_inputs.npy")).write_bytes(b"half")
    np.testing.assert_array_equal(loading.load("synthetic", folder).train_inputs, expected)


def test_remarks_depend_on_the_file_not_on_its_content(synthetic, folder):
    full = folder / "synthetic" / "full.csv"
    part = folder / "synthetic" / "part.csv"
    assert loading.load("synthetic", folder).complete
    full.rename(part)
    assert not loading.load("synthetic", folder).complete
    part.rename(full)
    again = loading.load("synthetic", folder)
    assert again.complete
    assert "a part of the rows" not in again.remarks


def test_several_processes_can_load_at_the_same_time(own_cache):
    context = multiprocessing.get_context("fork")
    together, hashes = context.Barrier(4), context.SimpleQueue()

    def load_with_others():
        together.wait()
        hashes.put(loading.load("digits").content_hash)

    several = [context.Process(target=load_with_others) for _ in range(4)]
    for process in several:
        process.start()
    found = {hashes.get() for _ in several}
    for process in several:
        process.join()
    assert [process.exitcode for process in several] == [0] * 4
    assert found == {loading.load("digits").content_hash}


def test_data_is_returned_if_another_process_deletes_the_cache(synthetic, folder, monkeypatch):
    write = cache._write

    def write_and_delete(folder, prepared):
        write(folder, prepared)
        shutil.rmtree(folder)

    monkeypatch.setattr(cache, "_write", write_and_delete)
    assert len(loading.load("synthetic", folder).train_labels) == TRAIN


def test_data_is_returned_if_the_cache_cannot_be_written(synthetic, folder, monkeypatch, tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.warns(UserWarning, match="prepared data cannot be cached in .*a file.*prepared again next time"):
        data = loading.load("synthetic", folder)
    assert data.train_inputs.shape == (TRAIN, 2)


def test_arrays_of_other_versions_are_deleted(synthetic, folder, own_cache, monkeypatch):
    for version in ("first", "second", "third"):
        monkeypatch.setattr(cache, "code_version", lambda version=version: version)
        loading.load("synthetic", folder)
    assert len(list((own_cache / "errata" / "prepared" / "synthetic").glob("*-*/"))) == 1


def test_presence_distinguishes_complete_and_partial_data(synthetic, folder, tmp_path):
    assert loading.presence(synthetic, folder)[0] == "yes"
    full = folder / "synthetic" / "full.csv"
    full.rename(folder / "synthetic" / "part.csv")
    assert loading.presence(synthetic, folder)[0] == "in part"
    assert loading.presence(synthetic, tmp_path / "empty") == ("no", None)


# Labels of a setting.


@pytest.fixture
def data(folder):
    return loading.load("synthetic", folder)


def test_noise_is_deterministic_and_counted(synthetic, data):
    one, two = (label(synthetic.settings[0], data) for _ in range(2))
    np.testing.assert_array_equal(one.given, two.given)
    assert one.noise["count"] == (one.given != data.train_labels).sum() == one.truth.sum()
    assert one.noise == two.noise == json.loads(json.dumps(one.noise))


def test_tuning_sets_are_nested_and_disjoint_from_evaluation(synthetic, data):
    labelled = label(synthetic.settings[0], data)
    small, middle, large = (labelled.tuning(fraction) for fraction in TUNING_FRACTIONS)
    assert not (small & ~middle).any()
    assert not (middle & ~large).any()
    assert [mask.sum() for mask in (small, middle, large)] == [round(f * TRAIN) for f in TUNING_FRACTIONS]
    np.testing.assert_array_equal(labelled.evaluation, ~large)
    np.testing.assert_array_equal(label(synthetic.settings[0], data).tuning(0.1), large)
    with pytest.raises(InputError, match="tuning fraction"):
        labelled.tuning(0.5)


def test_recorded_noise_is_unknown_where_nobody_checked(data):
    given = np.asarray(data.train_labels) * 0
    wrong = np.where(np.arange(TRAIN) < 10, given != data.train_labels, -1).astype(np.int8)
    real = replace(data, given={"real": given}, wrong={"real": wrong})
    labelled = label(Setting("synthetic", RecordedNoise(), "mlp", RECIPE), real)
    assert labelled.setting.name == "synthetic"
    assert np.isnan(labelled.truth[10:]).all()
    np.testing.assert_array_equal(labelled.truth[:10], data.train_labels[:10] != 0)
    np.testing.assert_array_equal(labelled.scored, np.arange(10))
    assert labelled.noise["known"] == 10
    assert labelled.tuning(0.1).sum() == 1
    assert labelled.evaluation.sum() == 9


# Checks.


def test_every_check_of_official_data_passes(synthetic, folder):
    checks = {check.what: check for check in check_dataset(synthetic, folder)}
    assert all(check.passed is not False for check in checks.values())
    for what in ("files", "hash of inputs", "hash of labels", "split", "classes", "features", "class counts"):
        assert checks[what].passed, what


def test_checks_of_wrong_data_fail_and_missing_data_is_explained(synthetic, folder, tmp_path):
    (alone,) = check_dataset(synthetic, tmp_path / "nothing")
    assert alone.passed is None
    assert "cannot be downloaded automatically" in alone.value
    full = folder / "synthetic" / "full.csv"
    full.write_text("\n".join(full.read_text().splitlines()[:-1]))
    assert any(check.passed is False for check in check_dataset(synthetic, folder))


def test_partial_data_is_not_compared_with_the_paper(synthetic, folder):
    full = folder / "synthetic" / "full.csv"
    lines = full.read_text().splitlines()
    (folder / "synthetic" / "part.csv").write_text("\n".join(lines[:50]))
    full.unlink()
    checks = {check.what: check for check in check_dataset(synthetic, folder)}
    assert checks["split"].passed is None
    assert "the paper has 40 / 20" in checks["split"].value
    remarks = [check.value for check in check_dataset(synthetic, folder) if check.what == "remark"]
    assert "a part of the rows" in remarks
