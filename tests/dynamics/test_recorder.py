import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import tracemalloc
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import errata
from errata import Dynamics, InputError, Recorder, StoreError
from errata.core.methods import all_methods
from errata.dynamics.reducers import Reducers, streaming_methods

NEED_NO_INPUTS = [
    method
    for method in all_methods()
    if method.gathering == "in-sample" and "kNN" not in method.name and "HeldOut" not in method.name
]
IN_SAMPLE = [method.name for method in NEED_NO_INPUTS]
STREAMED = [method.name for method in streaming_methods(None) if method.name in IN_SAMPLE]
NEED_AN_AVERAGE = {method.name for method in NEED_NO_INPUTS if method.reduction.aggregation.reads == "no epoch"}


def scores(dynamics, methods=STREAMED):
    return errata.score_many(dynamics, methods)


def assert_same_bits(a, b):
    assert list(a.columns) == list(b.columns)
    for column in a.columns:
        np.testing.assert_array_equal(a[column].to_numpy().view(np.int64), b[column].to_numpy().view(np.int64), column)


# Contents.


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("batch", [1, 4, 6])
def test_the_recorded_logits_are_those_that_were_passed(tmp_path, logits, labels, record, on_disk, batch):
    path = tmp_path / "run" if on_disk else None
    dynamics = record(logits, labels, path, batch=batch, settings={"lr": 0.1})
    np.testing.assert_array_equal(dynamics.logits, logits)
    np.testing.assert_array_equal(dynamics.labels, labels)
    assert dynamics.gathering == "in-sample"
    assert dynamics.settings == {"lr": 0.1}
    assert_same_bits(scores(dynamics, ["Mean-CE"]), scores(Dynamics.from_arrays(logits, labels), ["Mean-CE"]))


def test_update_all_equals_updates_in_batches(logits, labels, record):
    ids = [f"sample {row}" for row in range(len(labels))]
    whole, parts = (Recorder(labels=labels, ids=ids) for _ in range(2))
    for epoch in logits:
        whole.update_all(epoch)
        parts.update(ids[::-1], epoch[::-1])
        whole.end_epoch(), parts.end_epoch()
    np.testing.assert_array_equal(whole.finish().logits, parts.finish().logits)
    with pytest.raises(InputError, match="ids for"):
        whole.update_all(logits[0][:-1])


def test_the_number_of_classes_is_that_of_the_first_logits(tmp_path, logits, labels):
    recorder = Recorder(tmp_path / "run", labels=labels, quiet=True)
    assert not list(tmp_path.iterdir())
    recorder.update(range(6), logits[0])
    recorder.end_epoch()
    assert recorder.finish().num_classes == 3


def test_the_size_is_printed_unless_quiet(tmp_path, labels, capsys):
    Recorder(tmp_path / "run", labels=labels, num_classes=3)
    Recorder(labels=labels, num_classes=3, keep="stream", methods=["Mean-LM"])
    assert capsys.readouterr().err.splitlines() == [
        f"errata: recording 6 samples x 3 classes as float32: 0.0 MB per epoch in {tmp_path / 'run'}",
        "errata: recording 6 samples x 3 classes as running sums: 0.0 MB",
    ]
    Recorder(labels=labels, num_classes=3, quiet=True)
    assert capsys.readouterr().err == ""


def test_labels_may_be_names(logits, labels):
    names = np.array(["ant", "bee", "cow"])
    recorder = Recorder(labels=names[labels], classes=names, quiet=True)
    recorder.update(range(6), logits[0])
    recorder.end_epoch()
    dynamics = recorder.finish()
    np.testing.assert_array_equal(dynamics.labels, labels)
    assert dynamics.classes == ("ant", "bee", "cow")


def test_the_caller_may_reuse_its_buffers(logits, labels):
    for keep in ("all", "stream"):
        given_labels, ids, buffer = labels.copy(), np.empty(2, np.int64), np.empty((2, 3), np.float32)
        recorder = Recorder(labels=given_labels, num_classes=3, keep=keep, quiet=True)
        given_labels[:] = 0
        for epoch in logits:
            for start in (0, 2, 4):
                ids[:] = start, start + 1
                buffer[:] = epoch[start : start + 2]
                recorder.update(ids, buffer)
            recorder.end_epoch()
        assert_same_bits(
            scores(recorder.finish(), ["Mean-LM"]), scores(Dynamics.from_arrays(logits, labels), ["Mean-LM"])
        )


def test_continued_recording_does_not_change_finished_dynamics(logits, labels):
    for keep in ("all", "stream"):
        recorder = Recorder(labels=labels, num_classes=3, keep=keep, quiet=True)
        recorder.update(range(6), logits[0])
        recorder.end_epoch()
        first = recorder.finish(swa_logits=logits[0])
        recorder.update(range(6), logits[1])
        recorder.end_epoch()
        second = recorder.finish()
        assert_same_bits(scores(first), scores(Dynamics.from_arrays(logits[0], labels, swa_logits=logits[0])))
        methods = [name for name in STREAMED if name not in NEED_AN_AVERAGE]
        assert_same_bits(scores(second, methods), scores(Dynamics.from_arrays(logits[:2], labels), methods))
        assert second.swa_logits is None


# Ids.

IDS = {
    "ints": [10, 30, 20, -5, 2**40, 7],
    "strings": ["a", "b", "c", "dé", "", "[/x]"],
    "numpy strings": np.array(["a", "b", "c", "d", "e", "f"]),
    "bytes": [b"a", b"b\x00", b"b", b"d", b"e", b"f"],
    "tuples": [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c",), ()],
    "uuids": [uuid.UUID(int=i) for i in range(6)],
    "paths": [Path(f"images/{i}.png") for i in range(6)],
    "floats": np.arange(6) / 3,
    "dates": np.arange("2024-01-01", "2024-01-07", dtype="datetime64[D]"),
    "a tensor": torch.arange(6) * 3,
    "mixed": [1, "one", 2.5, None, ("t",), b"b"],
    "uint64": np.arange(6, dtype=np.uint64) + np.uint64(2**63),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_any_type_find_their_rows(tmp_path, logits, labels, kind):
    ids = IDS[kind]
    order = np.random.default_rng(3).permutation(6)
    batch = ids[order] if hasattr(ids, "dtype") else [ids[i] for i in order]
    for path in (None, tmp_path / "run"):
        recorder = Recorder(path, labels=labels, ids=ids, num_classes=3, quiet=True)
        for epoch in logits:
            recorder.update(batch[:4], epoch[order[:4]])
            recorder.update(batch[4:], epoch[order[4:]])
            recorder.end_epoch()
        dynamics = recorder.finish()
        np.testing.assert_array_equal(dynamics.logits, logits)
        ranking = errata.rank(dynamics)
        assert sorted(map(repr, ranking["id"])) == sorted(map(repr, pd.Series(dynamics.ids)))
        assert errata.score_many(dynamics, ["Mean-LM"]).shape == (6, 1)
    assert Recorder(path, labels=labels, ids=ids, num_classes=3, resume=True, quiet=True).epoch == 4


def test_ties_are_ranked_by_id_for_any_order_of_the_rows(labels):
    tied = np.zeros((2, 6, 3), np.float32)
    order = np.array([3, 1, 5, 0, 2, 4])
    for ids in (IDS["tuples"], IDS["strings"], IDS["ints"], IDS["uuids"]):
        first = errata.rank(Dynamics.from_arrays(tied, labels, ids=ids))
        second = errata.rank(Dynamics.from_arrays(tied, labels[order], ids=[ids[i] for i in order]))
        assert first["id"].tolist() == second["id"].tolist()


# Tensors.


class CountedTensor(torch.Tensor):
    calls: list = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.calls.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("keep", ["all", "stream"])
def test_an_update_transfers_the_logits_once(labels, keep):
    recorder = Recorder(labels=np.zeros(1000, int), num_classes=3, keep=keep, quiet=True)
    counted = torch.randn(1000, 3).as_subclass(CountedTensor)
    CountedTensor.calls.clear()
    recorder.update(torch.arange(1000), counted)
    assert CountedTensor.calls.count("cpu") == 1
    assert not {"item", "tolist", "__iter__", "__getitem__", "to"} & set(CountedTensor.calls)
    assert len(CountedTensor.calls) < 12


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_any_float_type_that_require_gradients(logits, labels, dtype):
    recorder = Recorder(labels=torch.from_numpy(labels), ids=torch.arange(6), num_classes=3, quiet=True)
    weights = torch.from_numpy(logits[0]).to(dtype).requires_grad_()
    output = weights * 1
    recorder.update(torch.arange(6), output)
    recorder.end_epoch()
    output.sum().backward()
    assert weights.grad is not None
    np.testing.assert_array_equal(recorder.finish().logits[0], weights.detach().float().numpy())


# Invalid batches.


def broken(logits, value):
    changed = logits[0, :2].copy()
    changed[1, 2] = value
    return changed


BAD_BATCHES = {
    "NaN": (lambda z: (["c", "d"], broken(z, np.nan)), "logits of sample 'd' in epoch 1 are not finite"),
    "infinite": (lambda z: (["c", "d"], broken(z, -np.inf)), "logits of sample 'd' in epoch 1 are not finite"),
    "too large": (
        lambda z: (["c", "d"], broken(z.astype(float), 1e39)),
        "logits of sample 'd' in epoch 1 are too large for float32",
    ),
    "unknown id": (lambda z: (["c", "x"], z[0, :2]), "unknown id 'x'"),
    "id of another type": (lambda z: ([2, 3], z[0, :2]), "unknown id 2"),
    "id twice": (lambda z: (["c", "c"], z[0, :2]), "sample 'c' is twice in epoch 1; call end_epoch"),
    "id recorded before": (lambda z: (["c", "a"], z[0, :2]), "sample 'a' is twice in epoch 1; call end_epoch"),
    "more ids": (lambda z: (["c", "d", "e"], z[0, :2]), "there are 3 ids for 2 rows of logits"),
    "one id": (lambda z: (7, z[0, :1]), "ids must be a list or an array, not 7"),
    "unhashable id": (lambda z: ([["c"], ["d"]], z[0, :2]), r"id \['c'\] cannot be looked up: ids must be hashable"),
    "more columns": (lambda z: (["c", "d"], np.zeros((2, 4))), "logits have 4 columns, but there are 3 classes"),
    "one row": (lambda z: (["c"], z[0, 0]), r"logits of a batch must have shape \(n, K\), not \(3,\)"),
    "text": (lambda z: (["c"], np.array([["a", "b", "c"]])), "logits must be numbers, not <U1"),
    "complex": (lambda z: (["c"], np.array([[1j, 2, 3]])), "logits must be numbers, not complex128"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("keep", ["all", "stream"])
@pytest.mark.parametrize("batch", BAD_BATCHES)
def test_a_refused_batch_changes_neither_the_recorder_nor_the_disk(tmp_path, logits, labels, snapshot, batch, keep):
    make, message = BAD_BATCHES[batch]
    ids = list("abcdef")
    recorder = Recorder(tmp_path / "run", labels=labels, ids=ids, num_classes=3, keep=keep, quiet=True)
    recorder.update(ids, logits[0])
    recorder.end_epoch()
    recorder.update(["a", "b"], logits[1, :2])
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=message) as refused:
        recorder.update(*make(logits))
    assert "\n" not in str(refused.value)
    assert snapshot(tmp_path) == before
    recorder.update(ids[2:], logits[1, 2:])
    recorder.end_epoch()
    methods = ["Mean-CE", "Last-LM", "MeanProb-LM"]
    assert_same_bits(scores(recorder.finish(), methods), scores(Dynamics.from_arrays(logits[:2], labels), methods))


@pytest.mark.parametrize("batch", BAD_BATCHES)
def test_a_refused_first_batch_creates_nothing(tmp_path, logits, labels, batch):
    recorder = Recorder(tmp_path / "run", labels=labels, ids=list("abcdef"), quiet=True)
    if batch not in ("more columns", "id recorded before"):
        with pytest.raises(InputError):
            recorder.update(*BAD_BATCHES[batch][0](logits))
    assert not list(tmp_path.iterdir())
    recorder.update(list("abcdef"), logits[0])
    recorder.end_epoch()
    np.testing.assert_array_equal(recorder.finish().logits, logits[:1])


def test_without_ids_samples_are_numbered(logits, labels):
    recorder = Recorder(labels=labels, num_classes=3, quiet=True)
    for ids, message in (
        ([0, 6], "unknown id 6: samples are numbered 0..5"),
        ([-1, 0], "unknown id -1: samples are numbered 0..5"),
        (["0", "1"], "unknown id '0': the run has no ids, so its samples are numbered 0..5"),
        ([0.0, 1.0], "unknown id 0.0: the run has no ids"),
        (np.array([2**64 - 1, 0], np.uint64), "unknown id 18446744073709551615"),
        (3, r"ids of a batch must have shape \(n,\), not \(\)"),
    ):
        with pytest.raises(InputError, match=message):
            recorder.update(ids, logits[0, :2])


def test_a_sample_that_misses_an_epoch_is_named_unless_that_is_allowed(logits, labels):
    ids = list("abcdef")
    strict = Recorder(labels=labels, ids=ids, num_classes=3, quiet=True)
    strict.update(list("abdf"), logits[0, [0, 1, 3, 5]])
    with pytest.raises(
        InputError, match=r"2 samples were not recorded in epoch 0, the first with id 'c'; .*partial='a"
    ):
        strict.end_epoch()
    strict.update(["c", "e"], logits[0, [2, 4]])
    strict.end_epoch()
    np.testing.assert_array_equal(strict.finish().logits, logits[:1])

    lenient = Recorder(labels=labels, ids=ids, num_classes=3, partial="allow", quiet=True)
    for epoch, missed in zip(logits, "abca", strict=True):
        kept = [row for row, name in enumerate(ids) if name != missed]
        lenient.update([ids[row] for row in kept], epoch[kept])
        lenient.end_epoch()
    ce = -torch.log_softmax(torch.from_numpy(logits).double(), -1)[:, 0, labels[0]].numpy()
    dynamics = lenient.finish()
    assert errata.score(dynamics, "Mean-CE")[0] == pytest.approx(ce[1:3].mean(), rel=1e-12)
    assert errata.score(dynamics, "Last-CE")[0] == pytest.approx(ce[2], rel=1e-12)


def test_calls_out_of_order_are_refused(logits, labels):
    recorder = Recorder(labels=labels, num_classes=3, quiet=True)
    with pytest.raises(InputError, match="epoch 0 has no samples"):
        recorder.end_epoch()
    with pytest.raises(InputError, match="no whole epoch was recorded"):
        recorder.finish()
    recorder.update(range(6), logits[0])
    with pytest.raises(InputError, match="no whole epoch was recorded"):
        recorder.finish()
    recorder.end_epoch()
    recorder.update([0], logits[1, :1])
    with pytest.raises(InputError, match="epoch 1 is not ended"):
        recorder.finish()


def test_what_finish_refuses_is_not_written(tmp_path, logits, labels, snapshot):
    recorder = Recorder(tmp_path / "run", labels=labels, num_classes=3, quiet=True)
    recorder.update(range(6), logits[0])
    recorder.end_epoch()
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=r"swa_logits must have shape \(6, 3\), not \(6, 4\)"):
        recorder.finish(swa_logits=np.zeros((6, 4)))
    with pytest.raises(InputError, match="swa_logits of sample 1 are not finite"):
        recorder.finish(swa_logits=[[0, 0, 0], [0, np.nan, 0]] + [[0, 0, 0]] * 4)
    with pytest.raises(InputError, match=r"features must have shape \(6, ...\), not \(5, 2\)"):
        recorder.finish(swa_logits=logits[0], features=np.zeros((5, 2)))
    with pytest.raises(InputError, match="features must be numbers, not object"):
        recorder.finish(swa_logits=logits[0], features=np.array([{}] * 6))
    assert snapshot(tmp_path) == before
    assert recorder.finish(swa_logits=logits[0]).swa_logits is not None


# Running sums.


@st.composite
def runs(draw):
    epochs, samples, classes = draw(st.integers(1, 5)), draw(st.integers(1, 8)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.1, 3.0, 400.0]))  # the last makes probabilities that underflow
    logits = (rng.normal(size=(epochs, samples, classes)) * scale).round(draw(st.integers(0, 3))).astype(np.float32)
    partial = draw(st.booleans())
    present = rng.random((epochs, samples)) < 0.7 if partial else np.ones((epochs, samples), bool)
    present[:, 0] = True
    present[draw(st.integers(0, epochs - 1))] = True
    return logits, rng.integers(0, classes, samples), present, partial, rng


def stream_past(recorder, logits, present, rng):
    for epoch, there in zip(logits[recorder.epoch :], present[recorder.epoch :], strict=True):
        rows = rng.permutation(np.flatnonzero(there))
        for part in np.split(rows, np.sort(rng.integers(0, len(rows) + 1, 2))):
            recorder.update(part, epoch[part])
        recorder.end_epoch()


@settings(max_examples=40)
@given(runs(), st.booleans())
def test_running_sums_give_the_same_bits_as_stored_logits(run, on_disk):
    logits, labels, present, partial, rng = run
    swa_logits = rng.normal(size=logits.shape[1:])
    stored = np.where(present[:, :, None], logits, np.float32(np.nan))
    allowed = "allow" if partial else "error"
    whole = Dynamics.from_arrays(stored, labels, swa_logits=swa_logits, partial=allowed)
    with tempfile.TemporaryDirectory() as tmp:
        path = Path(tmp) / "run" if on_disk else None
        options = {"labels": labels, "num_classes": logits.shape[2], "keep": "stream", "partial": allowed}
        recorder = Recorder(path, **options, quiet=True)
        if on_disk:
            half = len(logits) // 2
            stream_past(recorder, logits[:half], present[:half], rng)
            recorder.close()
            recorder = Recorder(path, **options, quiet=True, resume=True)
        stream_past(recorder, logits, present, rng)
        streamed = recorder.finish(swa_logits=swa_logits)
        assert_same_bits(scores(streamed), scores(whole))
        first, same = (errata.rank(each, "Unmixed-MeanProb-LM")["suggested"] for each in (streamed, whole))
        np.testing.assert_array_equal(first, same)


def test_blocks_of_a_large_run_give_the_same_bits(curves):
    logits, labels, _ = curves(1, epochs=3, samples=30_000, classes=10)
    recorder = Recorder(labels=labels, num_classes=10, keep="stream", quiet=True)
    rng = np.random.default_rng(0)
    for epoch in logits:
        for rows in np.array_split(rng.permutation(len(labels)), 7):
            recorder.update(rows, epoch[rows])
        recorder.end_epoch()
    methods = [name for name in STREAMED if name not in NEED_AN_AVERAGE]
    assert_same_bits(scores(recorder.finish(), methods), scores(Dynamics.from_arrays(logits, labels), methods))


def test_methods_that_need_all_epochs_do_not_stream():
    cannot = set(IN_SAMPLE) - set(STREAMED)
    assert cannot == {name for name in IN_SAMPLE if "CTRL" in name or "EarlyProb" in name}


def test_sums_of_a_measure_need_no_memory_per_class():
    samples, classes = 100_000, 100
    labels = np.zeros(samples, np.int64)
    batch = np.random.default_rng(0).normal(size=(2000, classes)).astype(np.float32)

    def record(count):
        recorder = Recorder(labels=labels[:count], num_classes=classes, keep="stream", methods=["Mean-LM"], quiet=True)
        for start in range(0, count, len(batch)):
            recorder.update(np.arange(start, start + len(batch)), batch)
        recorder.end_epoch()
        return recorder

    record(len(batch))  # compiles what is compiled, which needs memory of its own
    tracemalloc.start()
    recorder = record(samples)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    one_epoch = samples * classes * 4
    assert peak < one_epoch / 4
    assert Reducers(streaming_methods(["Mean-LM"]), samples, classes).nbytes == 16 * samples
    assert errata.score(recorder.finish(), "Mean-LM").shape == (samples,)


def test_files_of_earlier_running_sums_are_deleted(tmp_path, logits, labels):
    recorder = Recorder(tmp_path / "run", labels=labels, num_classes=3, keep="stream", quiet=True)
    for epoch in logits:
        recorder.update(range(6), epoch)
        recorder.end_epoch()
        assert len(list((tmp_path / "run").glob("reducers-*"))) <= 2
    recorder.finish()
    assert [file.name for file in (tmp_path / "run").glob("reducers-*")] == ["reducers-000004.npz"]


def test_methods_without_running_sums_are_refused(logits, labels, record):
    dynamics = record(logits, labels, keep="stream", methods=["Mean-LM", "Last-CE"])
    with pytest.raises(InputError, match="this run has no running sums for MeanProb-LM, only for Mean-LM, L"):
        errata.score(dynamics, "MeanProb-LM")
    with pytest.raises(InputError, match="a window needs the logits of every epoch"):
        errata.score(dynamics, "Mean-LM", window=(0, 1))
    with pytest.raises(InputError, match="SWA-LM needs swa_logits"):
        errata.score(record(logits, labels, keep="stream"), "SWA-LM")
    confident_learning = [name for name in IN_SAMPLE if name.startswith("CL-")]
    assert list(errata.score_many(dynamics).columns) == ["Last-CE", "Last-LM", "Mean-LM", *confident_learning]


def test_running_sums_of_the_default_among_features_alone_are_ranked_by_it(curves, record):
    logits, labels, _ = curves(0)
    name = "Unmixed-kNN-RampProb-LM"
    recorder = Recorder(labels=labels, num_classes=5, keep="stream", methods=[name], quiet=True)
    for epoch in logits:
        recorder.update_all(epoch)
        recorder.end_epoch()
    dynamics = recorder.finish(features=logits[-1])
    kept = Dynamics.from_arrays(logits, labels, features=logits[-1])
    np.testing.assert_array_equal(errata.score(dynamics), errata.score(kept, name))
    assert "suggested" in errata.rank(dynamics)
    assert list(errata.rank(record(logits, labels, keep="stream", methods=["Mean-LM"]), "Mean-LM").columns) == [
        "id",
        "label",
        "score",
        "rank",
    ]


def test_running_sums_in_memory_are_saved_and_answer_the_same(logits, labels, record, tmp_path):
    dynamics = record(logits, labels, keep="stream", methods=["Mean-LM", "Last-CE"])
    saved = dynamics.save(tmp_path / "sums")
    assert saved.logits is None
    assert saved.epochs == dynamics.epochs
    for method in ("Mean-LM", "Last-CE"):
        np.testing.assert_array_equal(errata.score(saved, method), errata.score(dynamics, method))


def test_a_sample_that_was_never_recorded_is_named(logits, labels):
    for keep in ("all", "stream"):
        recorder = Recorder(labels=labels, num_classes=3, keep=keep, partial="allow", quiet=True)
        recorder.update([0, 1, 3, 4, 5], logits[0, [0, 1, 3, 4, 5]])
        recorder.end_epoch()
        with pytest.raises(InputError, match="sample 2 was not recorded at any epoch"):
            errata.score(recorder.finish(), "Mean-LM")


# Crashes: a killed run can be continued.

KILLED = """
import os, signal, sys
import numpy as np
from errata import Recorder
rng = np.random.default_rng(0)
recorder = Recorder(sys.argv[1], labels=np.arange(6) % 3, num_classes=3, keep=sys.argv[2], quiet=True)
for number, epoch in enumerate(rng.normal(size=(4, 6, 3)).astype(np.float32)):
    recorder.update(np.arange(3), epoch[:3])
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    recorder.update(np.arange(3, 6), epoch[3:])
    recorder.end_epoch()
"""


def contents(folder):
    """The contents of a folder. Archives are compared by their arrays, because they store a time stamp."""
    found = {}
    for file in folder.iterdir():
        if file.suffix == ".npz":
            with np.load(file) as arrays:
                found[file.name] = {name: arrays[name].tobytes() for name in arrays.files}
        else:
            found[file.name] = file.read_bytes()
    return found


@pytest.mark.parametrize("keep", ["all", "stream"])
def test_a_run_killed_in_the_middle_of_an_epoch_continues_bit_for_bit(tmp_path, labels, record, keep):
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "killed"), keep],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert process.returncode == -signal.SIGKILL
    logits = np.random.default_rng(0).normal(size=(4, 6, 3)).astype(np.float32)
    whole = Dynamics.open(tmp_path / "killed")
    assert whole.epochs == 2
    if keep == "all":
        np.testing.assert_array_equal(whole.logits, logits[:2])
        np.testing.assert_array_equal(np.load(tmp_path / "killed" / "logits.npy"), logits[:2])
    record(logits, labels, tmp_path / "killed", batch=3, keep=keep, resume=True)
    record(logits, labels, tmp_path / "uninterrupted", batch=3, keep=keep)
    assert contents(tmp_path / "killed") == contents(tmp_path / "uninterrupted")


TOUCHES_THE_DISK = ((os, "fsync"), (Path, "replace"), (Path, "open"), (Path, "unlink"), (Path, "mkdir"))


def before_each_touch(monkeypatch, act):
    """Call act(n) before the n-th write to the disk."""
    count = 0

    def wrap(original):
        def touched(*args, **kwargs):
            nonlocal count
            count += 1
            act(count)
            return original(*args, **kwargs)

        return touched

    for owner, name in TOUCHES_THE_DISK:
        monkeypatch.setattr(owner, name, wrap(getattr(owner, name)))
    return lambda: count


def killed_at(moment, work):
    """Do the work in another process, which is killed before its `moment`-th write to the disk."""
    child = os.fork()
    if child == 0:
        try:
            with pytest.MonkeyPatch.context() as patch:
                before_each_touch(patch, lambda n: n == moment and os.kill(os.getpid(), signal.SIGKILL))
                work()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("keep", ["all", "stream"])
def test_a_run_killed_at_any_moment_continues_bit_for_bit(tmp_path, logits, labels, record, keep):
    logits, options = logits[:2], {"keep": keep, "fold": np.arange(6) % 2, "batch": 6}
    with pytest.MonkeyPatch.context() as patch:
        touches = before_each_touch(patch, lambda n: None)
        record(logits, labels, tmp_path / "uninterrupted", **options)
    expected = contents(tmp_path / "uninterrupted")
    assert touches() > 20
    for moment in range(1, touches() + 1):
        folder = tmp_path / str(moment)
        killed_at(moment, lambda folder=folder: record(logits, labels, folder, **options))
        if (folder / "logits.npy").exists():
            np.load(folder / "logits.npy")
            np.load(folder / "logits.npy", mmap_mode="r")
        if (folder / "manifest.json").exists():
            epochs = json.loads((folder / "manifest.json").read_text())["epochs"]
            if epochs:
                opened = Dynamics.open(folder)
                assert opened.epochs == epochs
                methods = ["Mean-CE (OOS)", "Last-LM (OOS)"]
                assert_same_bits(
                    scores(opened, methods),
                    scores(Dynamics.from_arrays(logits[:epochs], labels, fold=options["fold"]), methods),
                )
        record(logits, labels, folder, **options, resume=True)
        assert contents(folder) == expected, moment


def retried(step, *args):
    """Call a step, and again if the disk fails; returns whether it failed."""
    try:
        step(*args)
    except OSError:
        step(*args)
        return True
    return False


def epoch_on_a_failing_disk(recorder, epoch, moment):
    """Record an epoch; the `moment`-th write to the disk fails. Returns whether that happened."""

    def fail(n):
        if n == moment:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        before_each_touch(patch, fail)
        updated = retried(recorder.update, range(len(epoch)), epoch)
        return retried(recorder.end_epoch) or updated


@pytest.mark.parametrize("keep", ["all", "stream"])
def test_an_epoch_that_could_not_be_written_can_be_ended_again(tmp_path, logits, labels, record, keep):
    """After a failed write nothing is lost, and nothing is counted twice."""
    record(logits, labels, tmp_path / "uninterrupted", keep=keep, batch=6)
    expected = contents(tmp_path / "uninterrupted")
    for moment in itertools.count(1):
        recorder = Recorder(tmp_path / str(moment), labels=labels, num_classes=3, keep=keep, quiet=True)
        failed = [epoch_on_a_failing_disk(recorder, epoch, moment) for epoch in logits]
        dynamics = recorder.finish()
        assert contents(tmp_path / str(moment)) == expected
        methods = ["Mean-CE", "Last-LM"]
        assert_same_bits(scores(dynamics, methods), scores(Dynamics.from_arrays(logits, labels), methods))
        if not any(failed):
            break
    assert moment > 7


def test_the_logits_file_can_be_loaded_at_any_moment(tmp_path, logits, labels):
    file = tmp_path / "run" / "logits.npy"
    recorder = Recorder(tmp_path / "run", labels=labels, num_classes=3, quiet=True)
    assert np.load(file).shape == (0, 6, 3)
    for number, epoch in enumerate(logits):
        for row in range(6):
            recorder.update([row], epoch[row : row + 1])
            np.testing.assert_array_equal(np.load(file), logits[:number])
            np.testing.assert_array_equal(np.load(file, mmap_mode="r"), logits[:number])
        recorder.end_epoch()
        np.testing.assert_array_equal(np.load(file), logits[: number + 1])


def test_a_full_disk_stops_an_epoch_before_it_begins(tmp_path, curves, snapshot, full_disk):
    logits, labels, _ = curves(0, epochs=3)
    recorder = Recorder(tmp_path / "run", labels=labels, num_classes=5, quiet=True)
    recorder.update(range(60), logits[0])
    recorder.end_epoch()
    before = snapshot(tmp_path)
    with full_disk(2000), pytest.raises(StoreError, match=r"no room for epoch 1 \(1,200 bytes\): File too large"):
        recorder.update(range(60), logits[1])
    assert snapshot(tmp_path) == before
    for epoch in logits[1:]:
        recorder.update(range(60), epoch)
        recorder.end_epoch()
    np.testing.assert_array_equal(recorder.finish().logits, logits)


@pytest.mark.parametrize("keep", ["all", "stream"])
def test_a_full_disk_keeps_the_existing_epochs(tmp_path, logits, labels, snapshot, full_disk, keep):
    recorder = Recorder(
        tmp_path / "run", labels=labels, num_classes=3, keep=keep, settings={"notes": "x" * 9000}, quiet=True
    )
    recorder.update(range(6), logits[0])
    recorder.end_epoch()
    recorder.update(range(6), logits[1])
    before = snapshot(tmp_path)
    del before["run/logits.npy" if keep == "all" else "run/labels.npy"]
    with full_disk(9000), pytest.raises(StoreError, match="cannot be written: File too large"):
        recorder.end_epoch()
    assert before.items() <= snapshot(tmp_path).items()
    assert Dynamics.open(tmp_path / "run").epochs == 1
    recorder.end_epoch()
    assert Dynamics.open(tmp_path / "run").epochs == 2


@pytest.mark.parametrize("limit", [0, 60, 200, 1000])
def test_a_full_disk_at_the_start_leaves_nothing_behind(tmp_path, curves, snapshot, full_disk, limit):
    _, labels, _ = curves(0, samples=1000)
    before = snapshot(tmp_path)
    with full_disk(limit), pytest.raises(StoreError, match=r"File too large|No space left on device"):
        Recorder(tmp_path / "deep" / "run", labels=labels, num_classes=5, quiet=True)
    assert snapshot(tmp_path) == before


# Resuming.


@pytest.mark.parametrize("keep", ["all", "stream"])
def test_resuming_gives_the_same_folder(tmp_path, logits, labels, record, keep):
    for batch in (2, 3, 6, 1):
        options = {"ids": list("abcdef"), "keep": keep, "classes": [("x", 1), "y", 2], "batch": batch}
        names = np.fromiter((options["classes"][label] for label in labels), dtype=object, count=6)
        record(logits[:3], names, tmp_path / "parts", **options, resume=batch != 2)
        assert Dynamics.open(tmp_path / "parts").epochs in (3, 4)
    record(logits, names, tmp_path / "parts", **options, resume=True)
    record(logits, names, tmp_path / "whole", **options)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_resuming_earlier_removes_later_epochs(tmp_path, logits, labels, record):
    record(logits, labels, tmp_path / "run")
    for epochs in (3, 1, 0):
        recorder = Recorder(tmp_path / "run", labels=labels, resume=epochs, quiet=True)
        assert recorder.epoch == epochs
        kept = np.load(tmp_path / "run" / "logits.npy", mmap_mode="r")
        assert kept.shape == (epochs, 6, 3)
        assert (tmp_path / "run" / "logits.npy").stat().st_size == kept.offset + kept.nbytes
        recorder.close()
    record(logits[::-1], labels, tmp_path / "run", resume=True)
    record(logits[::-1], labels, tmp_path / "fresh")
    assert contents(tmp_path / "run") == contents(tmp_path / "fresh")


def test_true_of_numpy_is_not_one_epoch(tmp_path, logits, labels, record):
    record(logits, labels, tmp_path / "run")
    assert Recorder(tmp_path / "run", labels=labels, resume=np.True_, quiet=True).epoch == 4


def test_a_weight_average_is_removed_after_another_epoch(tmp_path, logits, labels):
    recorder = Recorder(tmp_path / "run", labels=labels, num_classes=3, quiet=True)
    recorder.update(range(6), logits[0])
    recorder.end_epoch()
    assert recorder.finish(swa_logits=logits[0], features=logits[0]).swa_logits is not None
    again = Recorder(tmp_path / "run", labels=labels, resume=True, quiet=True)
    assert again.finish().swa_logits is not None
    again.update(range(6), logits[1])
    again.end_epoch()
    finished = again.finish()
    assert finished.swa_logits is None
    assert finished.features is None


OTHER_RUNS = {
    "labels": ({"labels": np.array([0, 1, 2, 0, 1, 1])}, "was recorded with other labels"),
    "fewer labels": ({"labels": np.array([0, 1, 2])}, "was recorded with samples=6, not 3"),
    "ids": ({"ids": list("abcdef")}, "was recorded with other ids"),
    "order of ids": ({"ids": [1, 0, 2, 3, 4, 5]}, "was recorded with other ids"),
    "number of classes": ({"num_classes": 4}, "was recorded with num_classes=3, not 4"),
    "class names": ({"labels": list("abcabc"), "classes": list("abc")}, "was recorded with classes=None, not"),
    "type": ({"dtype": "float64"}, "was recorded with dtype='float32', not 'float64'"),
    "kept": ({"keep": "stream"}, "was recorded with keep='all', not 'stream'"),
    "missing samples": ({"partial": "allow"}, "was recorded with partial='error', not 'allow'"),
    "gathering": ({"gathering": "out-of-sample"}, "was recorded with gathering='in-sample', not 'out-of-sample'"),
    "too many epochs": ({"resume": 5}, "holds 4 epochs, so it cannot resume after 5"),
    "not resumed": (
        {"resume": False},
        "already holds 4 epochs; pass resume=True to continue, overwrite=True to replace them, or choose another",
    ),
}


@pytest.mark.parametrize("other", OTHER_RUNS)
def test_another_run_is_not_resumed(tmp_path, logits, labels, record, snapshot, other):
    options, message = OTHER_RUNS[other]
    record(logits, labels, tmp_path / "run")
    before = snapshot(tmp_path)
    with pytest.raises(StoreError, match=message) as refused:
        Recorder(tmp_path / "run", **{"labels": labels, "resume": True, "quiet": True, **options})
    assert "\n" not in str(refused.value)
    assert snapshot(tmp_path) == before


def test_running_sums_resume_only_with_the_same_methods_at_the_last_epoch(tmp_path, logits, labels, record, snapshot):
    record(logits, labels, tmp_path / "run", keep="stream", methods=["Mean-LM"])
    before = snapshot(tmp_path)
    options = {"labels": labels, "keep": "stream", "quiet": True}
    with pytest.raises(StoreError, match="was recorded with other methods"):
        Recorder(tmp_path / "run", **options, resume=True)
    with pytest.raises(StoreError, match="holds running sums after 4 epochs and cannot go back to 2"):
        Recorder(tmp_path / "run", **options, methods=["Mean-LM"], resume=2)
    assert snapshot(tmp_path) == before
    assert Recorder(tmp_path / "run", **options, methods=["mean-lm"], resume=True).epoch == 4


def test_other_folds_are_not_resumed(tmp_path, logits, labels, record, snapshot):
    record(logits, labels, tmp_path / "run", fold=np.arange(6) % 2)
    before = snapshot(tmp_path)
    for options in ({"fold": np.arange(6) % 3}, {"gathering": "out-of-sample"}):
        with pytest.raises(StoreError, match="was recorded with another fold"):
            Recorder(tmp_path / "run", labels=labels, resume=True, quiet=True, **options)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("damage", ["cut", "gone", "foreign", "not ours"])
def test_damaged_running_sums_are_refused(tmp_path, logits, labels, record, damage):
    record(logits, labels, tmp_path / "run", keep="stream")
    (file,) = (tmp_path / "run").glob("reducers-*.npz")
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "gone":
        file.unlink()
    elif damage == "foreign":
        np.savez(file, x=np.zeros(3))
    else:
        np.savez(file, methods=np.array(["Mean-LM"]), seen=np.ones(6, bool))
    for attempt in (
        lambda: Dynamics.open(tmp_path / "run"),
        lambda: Recorder(tmp_path / "run", labels=labels, keep="stream", resume=True, quiet=True),
    ):
        with pytest.raises(StoreError, match=r"reducers-000004.npz (is|does) (missing|not)"):
            attempt()
