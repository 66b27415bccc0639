"""Shards that are missing, duplicate, torn or of two runs, in a folder and in a store; and shards of running sums."""

import json
import threading
from typing import ClassVar

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from errata.dynamics import shard_ids
from errata.dynamics.places import Place
from errata.dynamics.recorder import Recorder
from errata.dynamics.scoring import score
from errata.dynamics.shards import write_shard
from errata.dynamics.store import Dynamics
from errata.errors import InputError, StoreError

NAMES = ("a", "b", "c")


def write(
    place,
    name,
    first,
    *,
    labels=None,
    classes=3,
    dtype=np.float32,
    run_id="r",
    shards=NAMES,
    epochs=2,
    ids=None,
    features=None,
):
    rng = np.random.default_rng(first)
    labels = rng.integers(0, classes, 10) if labels is None else labels
    logits = rng.normal(size=(epochs, 10, classes)).astype(dtype)
    ids = np.arange(first, first + 10) if ids is None else ids
    part = Dynamics.from_arrays(logits, labels, ids=ids, features=features)
    write_shard(place, name, part, run_id=run_id, shards=shards)


@pytest.fixture(params=["folder", "file URL", "store"])
def place(request, tmp_path):
    folder = str(tmp_path / "run")
    where = {"folder": folder, "file URL": f"file://{folder}", "store": f"memory://{tmp_path.name}/run"}[request.param]
    for number, name in enumerate(NAMES):
        write(where, name, 10 * number)
    return where


def test_shards_are_one_run(place):
    run = Dynamics.open(place)
    assert (run.samples, run.epochs, run.num_classes, len(run.shards)) == (30, 2, 3, 3)
    assert run.ids.tolist() == list(range(30))
    assert "3 shards in" in repr(run)
    run.verify()


def test_a_missing_shard_is_named(place):
    for file in Place(place).files():
        if file.startswith("shards/b/"):
            Place(place).remove(file)
    with pytest.raises(StoreError, match=r"1 of 3 shards of .* are missing: 'b'"):
        Dynamics.open(place)


def test_a_shard_without_manifest_is_named(place):
    Place(place).remove("shards/b/manifest.json")
    with pytest.raises(StoreError, match=r"shard 'b' of .* has no manifest"):
        Dynamics.open(place)


def test_a_torn_shard_is_named(place):
    data = Place(place).read("shards/c/logits.npy")
    Place(place).write("shards/c/logits.npy", data[:-8])
    with pytest.raises(StoreError, match=r"shard 'c' is torn: .*logits\.npy holds .* bytes"):
        Dynamics.open(place)
    Place(place).write("shards/c/logits.npy", data[:-1] + bytes([data[-1] ^ 1]))
    run = Dynamics.open(place)
    with pytest.raises(StoreError, match=r"shard 'c' is torn: .*logits\.npy differs from what was written"):
        score(run, "MeanProb-LM")


def test_a_sample_in_two_shards_is_named(place):
    labels = Dynamics.open(place).labels
    write(place, "b", 5, labels=np.append(labels[5:10], labels[:5]))
    with pytest.raises(StoreError, match=r"sample 5 is in the shards 'a' and 'b'; delete"):
        Dynamics.open(place)
    write(place, "b", 5, labels=(np.append(labels[5:10], labels[:5]) + 1) % 3)
    with pytest.raises(StoreError, match=r"sample 5 is in the shards 'a' and 'b', with the labels"):
        Dynamics.open(place)


@pytest.mark.parametrize("text", [False, True])
def test_samples_are_matched_by_id_in_any_order_and_in_parts(place, text, monkeypatch):
    """Ranges of ids overlap, so that their hashes are compared, here in parts."""
    monkeypatch.setattr(shard_ids, "HASHES_AT_ONCE", 7)
    shuffled = np.random.default_rng(0).permutation(30)
    ids = np.array([f"sample {'x' * number}{number}" for number in shuffled]) if text else shuffled << 58
    for number, name in enumerate(NAMES):
        write(place, name, 0, ids=ids[10 * number : 10 * number + 10])
    assert Dynamics.open(place).ids.tolist() == ids.tolist()
    ids[25] = ids[3]
    write(place, "c", 0, ids=ids[20:])
    with pytest.raises(StoreError, match=rf"sample {ids[3].item()!r} is in the shards 'a' and 'c'"):
        Dynamics.open(place)
    write(place, "c", 0, ids=ids[20:].astype("S") if text else ids[20:] + 0.5)
    with pytest.raises(StoreError, match=r"shard '.' has (bytes|fractions) as ids, but shard '.' (text|whole numbers)"):
        Dynamics.open(place)


def test_a_copied_shard_is_named(place):
    for file in ("ids.npy", "labels.npy", "logits.npy", "manifest.json"):
        Place(place).write(f"shards/copy/{file}", Place(place).read(f"shards/a/{file}"))
    with pytest.raises(StoreError, match=r"shard 'copy' is a duplicate of 'a'"):
        Dynamics.open(place)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run_id": "other"}, r"shard 'b' of .* belongs to the run 'other', but shard 'a' 'r'"),
        ({"classes": 4}, r"shard 'b' of .* has num_classes 4, but shard 'a' 3"),
        ({"dtype": np.float64}, r"shard 'b' of .* has dtype 'float64', but shard 'a' 'float32'"),
        ({"epochs": 3}, r"shard 'b' of .* has epochs 3, but shard 'a' 2"),
        ({"features": np.eye(10)}, r"shard 'b' of .* has arrays {'features': \['float64', 10\]}, but shard 'a' {}"),
    ],
)
def test_a_shard_of_another_run_is_named(place, change, message):
    write(place, "b", 10, **change)
    with pytest.raises(StoreError, match=message):
        Dynamics.open(place)


def test_features_of_other_shards_have_as_many_columns(place):
    for number, name in enumerate(NAMES):
        write(place, name, 10 * number, features=np.eye(10)[:, : 4 + (name == "c")])
    with pytest.raises(StoreError, match=r"shard 'c' of .* has arrays .* 5\]}, but shard 'a' .* 4\]}"):
        Dynamics.open(place)


def test_a_writer_that_dies_leaves_no_shard(place, monkeypatch):
    """The manifest of the old shard is gone before its files change, and the new one comes last."""
    written = []
    original = Place.write

    def fail_at_logits(self, name, data):
        written.append(name)
        if name.endswith("logits.npy"):
            raise StoreError("the disk is full")
        original(self, name, data)

    monkeypatch.setattr(Place, "write", fail_at_logits)
    with pytest.raises(StoreError, match="the disk is full"):
        write(place, "b", 10)
    assert not any(name.endswith("manifest.json") for name in written)
    with pytest.raises(StoreError, match=r"shard 'b' of .* has no manifest"):
        Dynamics.open(place)


def test_a_damaged_manifest_is_named(place):
    Place(place).write("shards/b/manifest.json", b'{"schema": 1')
    with pytest.raises(StoreError, match=r"shards/b/manifest.json is not a whole JSON file"):
        Dynamics.open(place)
    manifest = json.loads(Place(place).read("shards/a/manifest.json"))
    Place(place).write("shards/b/manifest.json", json.dumps(manifest | {"schema": 99}).encode())
    with pytest.raises(StoreError, match=r"was written with schema 99"):
        Dynamics.open(place)


class SlowStore(MemoryFileSystem):
    """A store that is no object store: half-written files are visible, and renaming replaces no file."""

    protocol = "slow"
    watched: ClassVar[list] = []

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("slow://", "memory://"))

    def pipe_file(self, path, value, mode="overwrite", **options):
        super().pipe_file(path, value[: len(value) // 2])
        self.watched.append({name: self.cat_file(name) for name in self.find("/") if name.endswith("x.bin")})
        super().pipe_file(path, value)

    def mv(self, old, new):
        if self.exists(new):
            raise FileExistsError(new)
        super().pipe_file(new, self.cat_file(old))
        self.rm_file(old)


def test_a_reader_of_a_store_without_atomic_writes_sees_whole_files_only(tmp_path):
    fsspec.register_implementation("slow", SlowStore, clobber=True)
    place, source = Place(f"slow://{tmp_path.name}/out"), tmp_path / "source"
    place.write("x.bin", b"first")
    place.write("x.bin", b"second")
    source.write_bytes(b"third")
    place.write("x.bin", source)
    assert [list(seen.values()) for seen in SlowStore.watched] == [[], [b"first"]]
    assert place.read("x.bin") == b"third"
    assert list(place.files()) == ["x.bin"]


@pytest.mark.parametrize("scheme", ["file", "local"])
def test_a_reader_of_a_local_url_sees_whole_files_only(tmp_path, scheme):
    place, sizes, done = Place(f"{scheme}://{tmp_path}"), set(), threading.Event()
    place.write("x.bin", b"old")

    def watch():
        while not done.is_set():
            sizes.add((tmp_path / "x.bin").stat().st_size)

    watcher = threading.Thread(target=watch)
    watcher.start()
    place.write("x.bin", bytes(30_000_000))
    done.set()
    watcher.join()
    assert sizes <= {3, 30_000_000}


def test_a_store_that_cannot_be_opened_is_named_in_one_line(monkeypatch):
    def without_java(url):
        raise OSError("Unable to load libjvm\n" + 90 * "dlopen failed\n")

    monkeypatch.setattr(fsspec.core, "url_to_fs", without_java)
    with pytest.raises(StoreError, match=r"^hdfs://node/run cannot be opened: Unable to load libjvm$"):
        Dynamics.open("hdfs://node/run")


def test_ids_that_are_the_same_text_are_refused_before_anything_is_written(tmp_path):
    part = Dynamics.from_arrays(np.eye(2), [0, 1], ids=[5, "5"])
    with pytest.raises(InputError, match=r"id '5' and another are both written to a file as '5'"):
        write_shard(str(tmp_path), "a", part, run_id="r")
    assert not list(tmp_path.iterdir())


def test_shards_of_running_sums(tmp_path):
    rng = np.random.default_rng(0)
    labels, logits = rng.integers(0, 3, 40), rng.normal(size=(4, 40, 3)).astype(np.float32)
    for name, rows in (("a", slice(0, 15)), ("b", slice(15, 40))):
        recorder = Recorder(labels=labels[rows], ids=np.arange(40)[rows], num_classes=3, keep="stream", quiet=True)
        for epoch in logits:
            recorder.update_all(epoch[rows])
            recorder.end_epoch()
        write_shard(str(tmp_path), name, recorder.finish(), run_id="r")
    run = Dynamics.open(str(tmp_path))
    for name in ("MeanProb-LM", "CL-PBC (IS)", "Unmixed-RampProb-LM"):
        whole = score(Dynamics.from_arrays(logits, labels), name)
        assert score(run, name).tobytes() == whole.tobytes()


def test_bad_arguments(tmp_path):
    with pytest.raises(InputError, match=r"the name of a shard must be a file name"):
        write(str(tmp_path), "../a", 0)
    with pytest.raises(InputError, match=r"shard 'd' is not among the shards of the run"):
        write(str(tmp_path), "d", 0)
    with pytest.raises(StoreError, match=r"is not a store that fsspec supports"):
        Dynamics.open("nosuch://bucket/run")
    with pytest.raises(InputError, match=r"s3://bucket/run is a URL, and a local path is needed here"):
        Recorder("s3://bucket/run", labels=[0, 1])


def test_a_window_of_shards_is_refused(place):
    with pytest.raises(InputError, match=r"a window of epochs cannot be chosen for a run in shards"):
        score(Dynamics.open(place), "MeanProb-LM", window=(0, 0))
