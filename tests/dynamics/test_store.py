import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import errata
from errata import Dynamics, ErrataError, InputError, Recorder, StoreError
from errata.dynamics.files import load_array, load_arrays, load_json, replace_atomically, save_array
from errata.dynamics.reading import read_npz

ARRAYS = ("logits", "labels", "ids")


def assert_same(a, b):
    for name in ("logits", "labels", "ids", "fold", "features", "inputs", "held_out", "swa_logits"):
        first, second = getattr(a, name), getattr(b, name)
        assert (first is None) == (second is None), name
        if first is not None:
            np.testing.assert_array_equal(first, second)
            assert np.asarray(first).dtype == np.asarray(second).dtype, name
    for name in ("num_classes", "classes", "gathering", "allow_missing", "settings", "epochs", "samples"):
        assert getattr(a, name) == getattr(b, name), name


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_saved_dynamics_are_read_bit_for_bit(tmp_path, logits, labels, dtype):
    rng = np.random.default_rng(1)
    dynamics = Dynamics.from_arrays(
        logits.astype(dtype),
        np.array(["a", "b", "c"])[labels],
        ids=[f"sample-{i}" for i in range(6)],
        classes=["a", "b", "c"],
        fold=np.arange(6) % 2,
        features=rng.normal(size=(6, 2)),
        inputs=rng.normal(size=(6, 4)),
        held_out=rng.normal(size=(6, 3)),
        swa_logits=rng.normal(size=(6, 3)),
        partial="allow",
        settings={"lr": 0.1, "name": "é"},
    )
    opened = dynamics.save(tmp_path / "new" / "run")
    assert_same(opened, dynamics)
    opened.verify()
    np.testing.assert_array_equal(np.load(tmp_path / "new" / "run" / "logits.npy"), dynamics.logits)


def test_one_matrix_is_a_run_of_one_epoch_and_nothing_is_copied(logits, labels):
    dynamics = Dynamics.from_arrays(logits[0], labels)
    assert dynamics.epochs == 1
    assert np.shares_memory(dynamics.logits, logits)
    np.testing.assert_array_equal(dynamics.ids, np.arange(6))


def test_files_have_the_usual_permissions(tmp_path, logits, labels):
    Dynamics.from_arrays(logits, labels).save(tmp_path / "run")
    (tmp_path / "plain").write_text("")
    assert {file.stat().st_mode for file in (tmp_path / "run").iterdir()} == {(tmp_path / "plain").stat().st_mode}


def test_a_window_is_the_same_run_over_fewer_epochs_without_its_weight_average(logits, labels):
    dynamics = Dynamics.from_arrays(logits, labels, swa_logits=logits[0])
    part = dynamics.window((1, 2))
    np.testing.assert_array_equal(part.logits, logits[1:3])
    assert part.swa_logits is None
    assert dynamics.window((0, 3)) is dynamics
    assert dynamics.window(None) is dynamics
    for window in [(2, 1), (-1, 2), (0, 4)]:
        with pytest.raises(InputError, match=r"is not within epochs 0..3"):
            dynamics.window(window)


USES_OF_LOGITS = {
    "verify": lambda folder: Dynamics.open(folder).verify(),
    "save": lambda folder: Dynamics.open(folder).save(folder.parent / "copy"),
    "score": lambda folder: errata.score(Dynamics.open(folder), "Mean-LM"),
    "score_many": lambda folder: errata.score_many(Dynamics.open(folder), ["Last-LM", "CL-PBNR"]),
    "flags": lambda folder: errata.flags(Dynamics.open(folder), "CL-CC (IS)"),
    "rank": lambda folder: errata.rank(Dynamics.open(folder)),
    "a window": lambda folder: errata.rank(Dynamics.open(folder), "Mean-LM", window=(1, 2)),
    "noise_rates": lambda folder: errata.noise_rates(Dynamics.open(folder)),
    "find": errata.find,
    "find of a path": lambda folder: errata.find(str(folder), out=folder.parent / "out"),
    "find of dynamics": lambda folder: errata.find(Dynamics.open(folder)),
    "find with data": lambda folder: errata.find(folder, data=(np.eye(6), np.arange(6) % 3)),
}


@pytest.mark.parametrize("use", USES_OF_LOGITS)
def test_changed_logits_are_refused_by_every_function_that_uses_them(tmp_path, logits, labels, use):
    Dynamics.from_arrays(logits, labels).save(tmp_path / "run")
    whole = np.lib.format.open_memmap(tmp_path / "run" / "logits.npy", mode="r+")
    whole[2, 1, 0] += 1
    whole.flush()
    with pytest.raises(StoreError, match=r"run/logits\.npy is damaged: epoch 2 differs .* Restore the file"):
        USES_OF_LOGITS[use](tmp_path / "run")
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_epochs_before_the_damage_can_still_be_ranked(tmp_path, logits, labels):
    expected = errata.rank(Dynamics.from_arrays(logits[:2], labels), "Mean-LM")
    Dynamics.from_arrays(logits, labels).save(tmp_path / "run")
    whole = np.lib.format.open_memmap(tmp_path / "run" / "logits.npy", mode="r+")
    whole[2] = 0
    whole.flush()
    ranking = errata.rank(Dynamics.open(tmp_path / "run"), "Mean-LM", window=(0, 1))
    assert ranking.to_dict() == expected.to_dict()


def test_class_names_of_any_type_are_stored_and_ranked(tmp_path, logits, labels):
    names = [("cat", 1), ("cat", 2), 3.5]
    given_labels = np.fromiter((names[label] for label in labels), dtype=object, count=6)
    ranking = errata.rank(Dynamics.from_arrays(logits, given_labels, classes=names))
    plain = errata.rank(Dynamics.from_arrays(logits, labels))
    assert ranking["label"].tolist() == [names[label] for label in plain["label"]]
    assert ranking["suggested"].tolist() == [names[label] for label in plain["suggested"]]
    opened = Dynamics.from_arrays(logits, given_labels, classes=names).save(tmp_path / "run")
    assert opened.classes == ("('cat', 1)", "('cat', 2)", 3.5)


# Damaged folders.


@pytest.fixture
def folder(tmp_path, logits, labels):
    Dynamics.from_arrays(logits, labels, swa_logits=logits[0], fold=np.arange(6)).save(tmp_path / "run")
    return tmp_path / "run"


def edit_manifest(folder, **changes):
    manifest = json.loads((folder / "manifest.json").read_text())
    for key, value in changes.items():
        if value is KeyError:
            del manifest[key]
        else:
            manifest[key] = value
    (folder / "manifest.json").write_text(json.dumps(manifest))


def cut(folder, name, count):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:count])


def zip_it(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("logits", "text")


DAMAGE = {
    "no folder": (lambda f: f.rename(f.with_name("gone")), "is not a dynamics folder: it does not exist"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "is not a dynamics folder: it has no manifest.json"),
    "cut manifest": (lambda f: cut(f, "manifest.json", 40), r"manifest.json is not a whole JSON file: "),
    "empty manifest": (lambda f: (f / "manifest.json").write_text(""), r"manifest.json is not a whole JSON file: "),
    "binary manifest": (
        lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe\x00"),
        r"manifest.json is not a whole JSON file: ",
    ),
    "a list": (lambda f: (f / "manifest.json").write_text("[1]"), "must hold a JSON object"),
    "other JSON": (lambda f: (f / "manifest.json").write_text("{}"), "it has no schema"),
    "newer": (lambda f: edit_manifest(f, schema=2), "was written with schema 2; .* upgrade errata"),
    "schema 0": (lambda f: edit_manifest(f, schema=0), "it has no schema"),
    "key gone": (lambda f: edit_manifest(f, label_hash=KeyError), "is damaged: it has no label_hash"),
    "other key gone": (lambda f: edit_manifest(f, keep=KeyError), "is damaged: it has no keep"),
    "text for a count": (lambda f: edit_manifest(f, samples="six"), "is damaged: samples is 'six'"),
    "negative count": (lambda f: edit_manifest(f, epochs=-1), "is damaged: epochs is -1"),
    "no epoch yet": (lambda f: edit_manifest(f, epochs=0), "holds no whole epoch yet"),
    "fewer checksums": (lambda f: edit_manifest(f, checksums=[1, 2, 3]), "it has 3 checksums for 4 epochs"),
    "more epochs": (lambda f: edit_manifest(f, epochs=5), r"holds float32 \(4, 6, 3\), but the manifest says"),
    "other type": (lambda f: edit_manifest(f, dtype="nonsense"), "but the manifest says nonsense"),
    "cut logits": (lambda f: cut(f, "logits.npy", -1), "logits.npy is not a whole .npy file"),
    "cut header": (lambda f: cut(f, "logits.npy", 30), "logits.npy is not a whole .npy file"),
    "empty logits": (lambda f: cut(f, "logits.npy", 0), "logits.npy is not a whole .npy file"),
    "no logits": (lambda f: (f / "logits.npy").unlink(), "logits.npy is missing"),
    "zip for logits": (lambda f: zip_it(f / "logits.npy"), "logits.npy is not a whole .npy file"),
    "text for logits": (lambda f: (f / "logits.npy").write_text("1,2,3"), "logits.npy is not a whole .npy file"),
    "a folder for logits": (
        lambda f: ((f / "logits.npy").unlink(), (f / "logits.npy").mkdir()),
        "logits.npy is not a regular file",
    ),
    "foreign logits": (lambda f: np.save(f / "logits.npy", np.zeros((4, 7, 3), np.float32)), "holds float32"),
    "cut labels": (lambda f: cut(f, "labels.npy", -8), "labels.npy is not a whole .npy file"),
    "fewer labels": (
        lambda f: np.save(f / "labels.npy", np.zeros(5, int)),
        r"labels.npy must have shape \(6, \.\.\.\), not \(5,\); the manifest",
    ),
    "one label": (lambda f: np.save(f / "labels.npy", 3), r"labels.npy must have shape \(6, \.\.\.\), not \(\)"),
    "other labels": (lambda f: np.save(f / "labels.npy", np.zeros(6, int)), "labels.npy is not the file"),
    "text for labels": (lambda f: np.save(f / "labels.npy", np.array(list("abcabc"))), "labels.npy is not the file"),
    "negative labels": (lambda f: np.save(f / "labels.npy", np.full(6, -1)), "labels.npy is not the file"),
    "pickled ids": (
        lambda f: np.save(f / "ids.npy", np.array([{}] * 6), allow_pickle=True),
        "ids.npy is not a whole .npy file",
    ),
    "other ids": (lambda f: np.save(f / "ids.npy", np.arange(6)[::-1]), "ids.npy is not the file"),
    "foreign swa": (
        lambda f: np.save(f / "swa_logits.npy", np.zeros((6, 4))),
        r"swa_logits.npy must have shape \(6, 3\), not",
    ),
    "foreign fold": (
        lambda f: np.save(f / "fold.npy", np.zeros(7)),
        r"fold.npy must have shape \(6, \.\.\.\), not \(7,\)",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused_and_not_changed(tmp_path, folder, labels, snapshot, damage):
    break_it, message = DAMAGE[damage]
    break_it(folder)
    before = snapshot(tmp_path)
    with pytest.raises(StoreError, match=message) as refused:
        Dynamics.open(folder)
    assert "\n" not in str(refused.value)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "damage", [name for name in DAMAGE if name not in ("no folder", "no manifest", "no epoch yet")]
)
def test_a_damaged_folder_is_not_resumed(tmp_path, folder, labels, snapshot, damage):
    DAMAGE[damage][0](folder)
    before = snapshot(tmp_path)
    with pytest.raises(StoreError):
        Recorder(folder, labels=labels, num_classes=3, fold=np.arange(6), resume=True, quiet=True)
    assert snapshot(tmp_path) == before


def test_a_file_is_not_a_dynamics_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file, not a dynamics folder"):
        Dynamics.open(tmp_path / "file")


@given(st.data())
def test_a_changed_byte_in_an_array_file_raises_no_other_error(data):
    with tempfile.TemporaryDirectory() as tmp:
        one, many = Path(tmp) / "one.npy", Path(tmp) / "many.npz"
        np.save(one, np.arange(12.0))
        np.savez(many, x=np.arange(3.0), names=np.array(["a", "bc"]))
        for path, load in ((one, load_array), (many, load_arrays)):
            content = bytearray(path.read_bytes())
            for _ in range(data.draw(st.integers(0, 3))):
                content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
            path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
            with contextlib.suppress(StoreError):
                load(path)


# Failed writes.


def test_saving_refuses_a_folder_with_files(tmp_path, folder, logits, labels, snapshot):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("words")
    before = snapshot(tmp_path)
    for taken in ("mine", "run"):
        with pytest.raises(StoreError, match="holds other files"):
            Dynamics.from_arrays(logits, labels).save(tmp_path / taken)
    assert snapshot(tmp_path) == before


def test_saving_below_a_file_or_in_proc_is_refused(tmp_path, logits, labels, snapshot):
    (tmp_path / "file").write_text("words")
    before = snapshot(tmp_path)
    for path in (tmp_path / "file", tmp_path / "file" / "deep" / "run", Path("/proc/errata/run")):
        with pytest.raises(StoreError, match="cannot be created") as refused:
            Dynamics.from_arrays(logits, labels).save(path)
        assert "\n" not in str(refused.value)
    assert snapshot(tmp_path) == before


def test_saving_to_a_read_only_folder_is_refused(logits, labels, without_root):
    with tempfile.TemporaryDirectory() as tmp:
        Path(tmp).chmod(0o555)
        with without_root():
            with pytest.raises(StoreError, match="run cannot be created: Permission denied"):
                Dynamics.from_arrays(logits, labels).save(Path(tmp) / "run")
            with pytest.raises(StoreError, match="cannot be written: Permission denied"):
                Dynamics.from_arrays(logits, labels).save(tmp)
        assert not list(Path(tmp).iterdir())


@pytest.mark.parametrize("limit", [0, 100, 900, 1100, 3000])
def test_a_full_disk_while_saving_leaves_nothing_behind(tmp_path, curves, snapshot, full_disk, limit):
    logits, labels, _ = curves(0, epochs=3)
    before = snapshot(tmp_path)
    dynamics = Dynamics.from_arrays(logits, labels, features=logits[0])
    with full_disk(limit), pytest.raises(StoreError, match=r"File too large|No space left on device"):
        dynamics.save(tmp_path / "deep" / "run")
    assert snapshot(tmp_path) == before
    assert_same(dynamics.save(tmp_path / "deep" / "run"), dynamics)


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path, full_disk):
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def fails(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_atomically(path, fails)
    with full_disk(3), pytest.raises(StoreError, match="file cannot be written: File too large"):
        replace_atomically(path, lambda file: file.write(b"after"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"before"
    replace_atomically(path, lambda file: file.write(b"after"))
    assert path.read_bytes() == b"after"


def test_settings_that_are_not_json_are_refused(tmp_path, logits, labels):
    with pytest.raises(InputError, match="settings cannot be written as JSON"):
        Dynamics.from_arrays(logits, labels, settings={("a", "b"): 1}).save(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_ids_with_the_same_text_are_refused(tmp_path, logits, labels):
    with pytest.raises(InputError, match="id '1' and another are both written to a file as '1'"):
        Dynamics.from_arrays(logits, labels, ids=[1, "1", 2, 3, 4, 5]).save(tmp_path / "run")
    assert not list(tmp_path.iterdir())


# Manifests whose values are wrong.

WRONG_VALUES = {
    "classes": [["a", "b"], list("abcd"), ["a", "b", "b"], ["a", "b", None], [["a"], ["b"], ["c"]], "abc", 3, {"a": 0}],
    "gathering": ["sideways", 3, ["in-sample"]],
    "epochs": [True, 2.5, "4", 10**30],
    "keep": ["some", None],
    "partial": ["perhaps", None],
    "settings": [[1], None],
    "label_hash": [None],
    "id_hash": [17],
    "checksums": [None, "text"],
}


@pytest.mark.parametrize("key", WRONG_VALUES)
def test_a_manifest_with_a_wrong_value_is_refused(folder, key):
    for value in WRONG_VALUES[key]:
        edit_manifest(folder, **{key: value})
        with pytest.raises(StoreError, match=r"run/(manifest\.json is damaged: |logits\.npy holds)"):
            Dynamics.open(folder)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, '{"schema": ' + "9" * 5000 + "}", "null"])
def test_hostile_json_is_refused(folder, content):
    (folder / "manifest.json").write_text(content)
    with pytest.raises(
        StoreError, match=r"run/manifest.json (is not a whole JSON file|is nested too deeply|must hold a JSON object)"
    ):
        Dynamics.open(folder)


WRONG_POINTS = {
    "NaN": np.full((12, 2), np.nan),
    "infinity": np.full((12, 2), np.inf),
    "text": np.full((12, 2), "x"),
    "complex": np.zeros((12, 2), complex),
    "one dimension": np.zeros(12),
    "three dimensions": np.zeros((12, 2, 1)),
    "no column": np.zeros((12, 0)),
    "too large": np.full((12, 2), 1e300),
    "too short": np.zeros((11, 2)),
}


@pytest.mark.parametrize("name", ["features", "inputs"])
@pytest.mark.parametrize("case", WRONG_POINTS)
def test_errors_about_points_name_the_file(tmp_path, logits, labels, name, case):
    folder = tmp_path / "run"  # with enough samples that inputs are used
    Dynamics.from_arrays(np.tile(logits, (1, 2, 1)), np.tile(labels, 2)).save(folder)
    np.save(folder / f"{name}.npy", WRONG_POINTS[case])
    with pytest.raises(ErrataError, match=rf"run/{name}\.npy"):
        errata.rank(Dynamics.open(folder))


def test_points_that_are_not_finite_are_refused_when_they_are_passed(logits, labels):
    points = np.zeros((6, 2))
    points[4, 1] = np.nan
    with pytest.raises(InputError, match="features of sample 4 are not finite"):
        Dynamics.from_arrays(logits, labels, features=points)


def test_the_dynamics_in_a_folder_of_find_are_opened(tmp_path, logits, labels):
    Dynamics.from_arrays(logits, labels).save(tmp_path / "errata-out" / "dynamics")
    assert Dynamics.open(tmp_path / "errata-out").path == tmp_path / "errata-out" / "dynamics"
    with pytest.raises(StoreError, match=r"is not a dynamics folder: it has no manifest.json"):
        Dynamics.open(tmp_path)
    for path in (3, b"run", None, "a\0b"):
        with pytest.raises(InputError, match="a path must be text, not"):
            Dynamics.open(path)


# Archives.


def npz(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def npy(array):
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=True)
    return sink.getvalue()


LIES = {
    "more": lambda content: content.replace(b"(4, 6, 3)", b"(9, 6, 3)"),
    "petabytes": lambda content: content.replace(b"(4, 6, 3), }           ", b"(4000000, 6000000, 3), }"[:23]),
    "less": lambda content: content.replace(b"(4, 6, 3)", b"(1, 6, 3)"),
    "negative": lambda content: content.replace(b"(4, 6, 3), ", b"(-4, 6, 3),"),
    "empty": lambda content: b"",
    "text": lambda content: b"hello",
    "newer": lambda content: content[:6] + b"\x09" + content[7:],
}


@pytest.mark.parametrize("lie", LIES)
def test_an_archive_whose_headers_are_wrong_is_refused(tmp_path, logits, labels, lie):
    changed = LIES[lie](npy(logits))
    assert changed != npy(logits)
    file = npz(tmp_path / "run.npz", {"logits.npy": changed, "labels.npy": npy(labels)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(StoreError, match=r"run\.npz is not a whole \.npz file: "):
        read_npz(file)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_compression_is_refused(tmp_path, logits, labels, method):
    file = npz(tmp_path / "run.npz", {"logits.npy": npy(logits), "labels.npy": npy(labels)}, method)
    np.testing.assert_array_equal(read_npz(file).logits, logits)
    content = file.read_bytes()
    for place in (45, 60, 100, 200):
        file.write_bytes(content[:place] + b"\xff" * 8 + content[place + 8 :])
        with pytest.raises(StoreError, match=r"run\.npz (is not a whole \.npz file|cannot be read): "):
            read_npz(file)


def test_encrypted_archives_and_archives_larger_than_memory_are_refused(tmp_path, logits, labels, monkeypatch):
    file = npz(tmp_path / "run.npz", {"logits.npy": npy(logits), "labels.npy": npy(labels), "notes.txt": b"no array"})
    np.testing.assert_array_equal(read_npz(file).logits, logits)
    with monkeypatch.context() as patch:
        patch.setattr("errata.memory.available_memory", lambda: 100)
        with pytest.raises(InputError, match=r"the arrays in .*run\.npz would take 0.0 GB of memory"):
            read_npz(file)
    content = bytearray(file.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"run\.npz is not a whole \.npz file: .*encrypted"):
        read_npz(file)


def test_ids_that_are_not_equal_to_themselves_are_refused(logits, labels):
    for ids in (np.full(6, np.nan), [1.0, 2.0, np.nan, 4.0, 5.0, 6.0]):
        with pytest.raises(InputError, match=r"the id of sample [02] is nan"):
            Dynamics.from_arrays(logits, labels, ids=ids)


@pytest.mark.skipif(os.name != "posix", reason="process numbers are checked on POSIX only")
def test_unfinished_files_of_dead_processes_are_removed_when_the_file_is_written(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    kept = [".a.csv.1.part", f".b.csv.{ended.pid}.part", ".a.csv.note.part", "a.csv"]
    for name in (*kept, f".a.csv.{ended.pid}.part", f".a.csv.{10**30}.part"):
        (tmp_path / name).write_text("old")
    replace_atomically(tmp_path / "a.csv", lambda file: file.write(b"new"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
    assert (tmp_path / "a.csv").read_text() == "new"


@pytest.mark.parametrize("read", [load_json, load_array, load_arrays, read_npz])
def test_a_fifo_is_not_opened(tmp_path, read):
    """Reading it would never end."""
    os.mkfifo(tmp_path / "file")
    with pytest.raises(StoreError, match=r"file is not a regular file"):
        read(tmp_path / "file")


def test_an_archive_of_python_objects_is_refused(tmp_path):
    np.savez(tmp_path / "run.npz", logits=np.array([None, {}]), allow_pickle=True)
    with pytest.raises(StoreError, match="holds Python objects, which are never read; save text"):
        load_arrays(tmp_path / "run.npz")


def test_a_short_write_of_numpy_is_a_full_disk(tmp_path, monkeypatch):
    """numpy then raises an OSError without an errno."""

    def save(file, array, **options):
        raise OSError("13470 requested and 4064 written")

    monkeypatch.setattr(np, "save", save)
    with pytest.raises(StoreError, match=r"a\.npy cannot be written: No space left on device"):
        save_array(tmp_path / "a.npy", np.zeros(3))
