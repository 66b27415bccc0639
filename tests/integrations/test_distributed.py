"""Two processes on the CPU record one run. This file is also what they execute: see `main`."""

import contextlib
import difflib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler

import errata
from errata.dynamics import growing_shards
from errata.integrations import DistributedRecorder

RANKS = 2
SAMPLES, CLASSES, EPOCHS = 13, 4, 4  # an odd number: one sample is repeated each epoch
LABELS = np.arange(SAMPLES) % CLASSES
NAMES = [f"img_{row:02d}.png" for row in range(SAMPLES)]
LIMIT_S = 100
# The processes import this version of errata and use one thread each.
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(errata.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
GUIDE = Path(__file__).parents[2] / "docs" / "training-loop.md"


def logits_of(rows, epoch):
    """Logits (n, K) of some samples at an epoch, the same on every rank."""
    rows = np.asarray(rows)[:, None]
    return np.sin(1 + rows * 31 + epoch * 7 + np.arange(CLASSES) * 3).astype(np.float32)


def sightings(seed):
    """Batches of rows for each rank: all samples, some several times; a rank may have none."""
    rng = np.random.default_rng(seed)
    seen = rng.permutation(np.concatenate([np.arange(SAMPLES), rng.integers(0, SAMPLES, seed * 2)]))
    cut = rng.integers(0, len(seen) + 1)
    return [np.array_split(part, 3) for part in (seen[:cut], seen[cut:])]


def marked(rows, rank, batch):
    """Logits (n, K) that identify the rank, the batch and the position of a sample."""
    return np.stack([rows, np.full(len(rows), rank), np.full(len(rows), batch), np.arange(len(rows))], axis=1) + 0.5


# ---- scenarios, run by every rank


def padded(rank, folder, **options):
    rec = DistributedRecorder(folder, labels=LABELS, ids=NAMES, num_classes=CLASSES, **options)
    sampler = DistributedSampler(range(SAMPLES), shuffle=True, seed=3)
    for epoch in range(rec.epoch, EPOCHS):
        sampler.set_epoch(epoch)
        for rows in torch.tensor(list(sampler)).split(3):
            rec.update([NAMES[row] for row in rows], torch.from_numpy(logits_of(rows, epoch)))
        rec.end_epoch()
    dynamics = rec.finish(features=np.eye(SAMPLES) if rank == 0 else None)
    return [rec.epoch, dynamics.epochs, float(dynamics.features.sum())]


def streamed(rank, folder):
    """Also as with NCCL, where the ranks use a separate gloo group for messages."""
    with mock.patch.object(dist, "get_backend_config", return_value="cuda:nccl"):
        return padded(rank, folder, keep="stream")


def repeated(rank, folder):
    for seed in range(8):
        size = 100 if seed % 2 else 1 << 26  # several shards per rank, or one
        with mock.patch.object(growing_shards, "MAX_EPOCH_BYTES", size):
            rec = DistributedRecorder(folder / str(seed), labels=LABELS, num_classes=CLASSES, quiet=True)
        for number, rows in enumerate(sightings(seed)[rank]):
            rec.update(rows, marked(rows, rank, number))
        rec.end_epoch()
        rec.finish()


def broken_off(rank, folder):
    """A second epoch is interrupted, and rank 1 records its last batch long after rank 0 dropped the epoch."""
    rec = DistributedRecorder(folder, labels=LABELS, num_classes=CLASSES, quiet=True)
    own = np.arange(rank, SAMPLES, RANKS)
    rec.update(own, logits_of(own, 0))
    rec.end_epoch()
    time.sleep(rank)
    rec.update(own[:2], logits_of(own[:2], 1))
    rec.drop_epoch()
    return rec.finish().epochs


def error_of(action):
    try:
        action()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None


@contextlib.contextmanager
def no_room_for_files():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))  # bytes: not even a header
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def refusals(rank, folder):
    """The errors on each rank; the run continues after an error was corrected."""
    results = {}
    rec = DistributedRecorder(folder / "missing", labels=LABELS, num_classes=CLASSES, quiet=True)
    results["no sample"] = error_of(rec.end_epoch)
    own = np.arange(rank, SAMPLES - 1, RANKS)
    rec.update(own, logits_of(own, 0))
    results["missing"] = error_of(rec.end_epoch)
    results["not ended"] = error_of(rec.finish)
    if rank == 1:
        results["nan"] = error_of(lambda: rec.update([12], np.full((1, CLASSES), np.nan)))
        results["unknown"] = error_of(lambda: rec.update([13], np.zeros((1, CLASSES))))
        results["uneven"] = error_of(lambda: rec.update([12, 12], np.zeros((3, CLASSES))))
        rec.update([12], logits_of([12], 0))
    with no_room_for_files() if rank == 1 else contextlib.nullcontext():
        results["disk full"] = error_of(rec.end_epoch)
    rec.end_epoch()
    results["epochs"] = rec.finish().epochs

    own = np.arange(rank, SAMPLES, RANKS)
    rec = DistributedRecorder(folder / f"of rank {rank}", labels=LABELS, num_classes=CLASSES, quiet=True)
    rec.update(own, logits_of(own, 0))
    rec.end_epoch()
    results["apart"] = error_of(rec.finish)

    def start(name, **changed):
        given = {"labels": LABELS, "num_classes": CLASSES, "quiet": True} | changed
        return error_of(lambda: DistributedRecorder(folder / name, **given))

    results["labels"] = start("labels", labels=LABELS if rank == 0 else LABELS[::-1].copy())
    results["ids"] = start("ids", ids=NAMES if rank == 0 else NAMES[::-1])
    names = ["a", "b", "c", "d", "e" if rank else "f"]
    results["other classes"] = start("other", labels=[names[k] for k in LABELS], classes=names, num_classes=5)
    results["dtypes"] = start("dtypes", dtype="float32" if rank == 0 else "float16")
    results["bad on one"] = start("bad", dtype="float32" if rank == 0 else "float8")
    results["classes"] = start("classes", num_classes=None)
    results["taken"] = start("missing")
    (folder / "full").write_text("a file")
    results["a file"] = start("full")
    return results


def digits(rank, folder):
    """A DDP model trained on wrong labels; every rank also stores its own outputs."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    noisy = errata.noise.symmetric(y, 0.2, seed=0)
    inputs, labels = torch.as_tensor(X / 16).float(), torch.as_tensor(noisy.labels)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = DistributedSampler(labels, num_replicas=RANKS, rank=rank)
    rec = DistributedRecorder(folder / "run", labels=labels, num_classes=10)
    diary = []
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for rows in torch.tensor(list(sampler)).split(64):
            logits = model(inputs[rows])
            rec.update(rows, logits)
            diary.append(np.column_stack([np.full(len(rows), epoch), rows, logits.detach()]))
            torch.nn.functional.cross_entropy(logits, labels[rows]).backward()
            optimizer.step()
            optimizer.zero_grad()
        rec.end_epoch()
    np.save(folder.with_name(f"diary-{rank}.npy"), np.concatenate(diary))
    return errata.metrics.fnr(errata.score(rec.finish(), "MeanProb-LM"), noisy.truth)


def fsdp(rank, folder):
    """A model whose parameters are sharded over the ranks; each rank has half of every batch."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    inputs, targets, model, optimizer = fsdp_task()
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    optimizer = optimizer(model.parameters())
    rec = DistributedRecorder(folder, labels=targets, num_classes=CLASSES, quiet=True)
    for _ in range(3):
        for rows in torch.arange(24).split(8):
            own = rows[rank::RANKS]
            logits = model(inputs[own])
            rec.update(own, logits)
            torch.nn.functional.cross_entropy(logits, targets[own]).backward()
            optimizer.step()
            optimizer.zero_grad()
        rec.end_epoch()
    rec.finish()


def fsdp_task():
    torch.manual_seed(1)
    inputs, targets = torch.randn(24, 6), torch.arange(24) % CLASSES
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, CLASSES))
    return inputs, targets, model, lambda parameters: torch.optim.SGD(parameters, lr=0.5)


def killed(rank, folder):
    """Two whole epochs, and a third in which rank 1 dies after all have written."""
    rec = DistributedRecorder(folder, labels=LABELS, ids=NAMES, num_classes=CLASSES)
    own = np.arange(rank, SAMPLES, dist.get_world_size())
    for epoch in range(2):
        rec.update([NAMES[row] for row in own], logits_of(own, epoch))
        rec.end_epoch()
    rec.update([NAMES[row] for row in own], 100 + logits_of(own, 2))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    rec.end_epoch()


def resumed(rank, folder):
    return padded(rank, folder, resume=True)


def between_commits(rank, folder):
    """Rank 1 dies in its second epoch after rank 0 has committed its shard, and before it commits its own."""
    rec = DistributedRecorder(folder, labels=LABELS, ids=NAMES, num_classes=CLASSES)
    own = np.arange(rank, SAMPLES, RANKS)
    for epoch in range(2):
        rec.update([NAMES[row] for row in own], logits_of(own, epoch) + 100 * epoch)
        if rank == 1 and epoch == 1:
            rec._shards[1].commit = lambda: (time.sleep(1), os.kill(os.getpid(), signal.SIGKILL))
        rec.end_epoch()


def main(rank, ranks, root, *scenarios):
    dist.init_process_group(
        "gloo", init_method=(root / "meet").as_uri(), rank=rank, world_size=ranks, timeout=timedelta(seconds=60)
    )
    results = {}
    for scenario in scenarios:
        name, _, folder = scenario.partition("@")
        results[name] = globals()[name](rank, root / (folder or name))
        (root / f"results-{rank}.json").write_text(json.dumps(results))
    dist.barrier()  # torch aborts a process whose peer left while it was at work
    dist.destroy_process_group()


# ---- tests of the results


def finish_all(processes, limit=LIMIT_S):
    """Exit codes and output; processes that take too long are killed."""
    try:
        printed = [process.communicate(timeout=limit)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], printed


def launch(root, *scenarios, ranks=RANKS):
    (root / "meet").unlink(missing_ok=True)
    (root / "refusals").mkdir(exist_ok=True)
    return finish_all(
        [
            subprocess.Popen(
                [sys.executable, __file__, str(rank), str(ranks), str(root), *scenarios],
                env=ENVIRONMENT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(ranks)
        ]
    )


def whole(folder):
    """The dynamics in a folder, in memory."""
    return errata.Dynamics.open(folder).in_memory()


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    root = tmp_path_factory.mktemp("ranks")
    codes, printed = launch(root, "killed")
    kept = whole(root / "killed").logits
    shutil.copytree(root / "killed", root / "by three")
    return root, codes, printed, kept


@pytest.fixture(scope="module")
def ran(crashed):
    """The folder in which both ranks ran all scenarios, and what each reported."""
    root = crashed[0]
    codes, printed = launch(
        root, "padded", "streamed", "repeated", "broken_off", "refusals", "digits", "fsdp", "resumed@killed"
    )
    assert codes == [0, 0], printed
    assert printed[0].count("errata: recording 13 samples") == 3
    assert "errata: recording" not in printed[1]
    return root, [json.loads((root / f"results-{rank}.json").read_text()) for rank in range(RANKS)]


def one_process(folder, **options):
    rec = errata.Recorder(folder, labels=LABELS, ids=NAMES, num_classes=CLASSES, quiet=True, **options)
    for epoch in range(EPOCHS):
        rec.update(NAMES, logits_of(range(SAMPLES), epoch))
        rec.end_epoch()
    return rec.finish(features=np.eye(SAMPLES))


def assert_same_run(folder, expected):
    """Shards hold the run of one process, in the same order."""
    shards = errata.Dynamics.open(folder)
    shards.verify()
    run = shards.in_memory()
    assert (run.ids.tolist(), run.labels.tolist()) == (expected.ids.tolist(), expected.labels.tolist())
    assert (run.num_classes, run.gathering, run.settings) == (CLASSES, expected.gathering, expected.settings)
    np.testing.assert_array_equal(run.logits, expected.logits)
    np.testing.assert_array_equal(run.features, expected.features)
    pd.testing.assert_frame_equal(errata.rank(shards), errata.rank(expected))


def test_a_padded_run_equals_that_of_one_process(ran, tmp_path):
    root, results = ran
    assert_same_run(root / "padded", one_process(tmp_path / "one"))
    assert sorted(path.name for path in (root / "padded" / "shards").iterdir()) == ["part-00000", "part-00001"]
    for rank in range(RANKS):
        assert results[rank]["padded"] == [EPOCHS, EPOCHS, SAMPLES]


def test_running_sums_equal_those_of_one_process(ran, tmp_path):
    root, _ = ran
    alone = one_process(tmp_path / "one", keep="stream")
    together = errata.Dynamics.open(root / "streamed")
    for method in ("MeanProb-LM", "Mean-CE", "Last-LM", "LateStopping-CPD"):
        np.testing.assert_array_equal(errata.score(together, method), errata.score(alone, method))


@pytest.mark.parametrize("seed", range(8))
def test_a_repeated_sample_counts_once_from_the_lowest_rank(ran, seed):
    root, _ = ran
    expected = {}
    for rank, batches in enumerate(sightings(seed)):
        for number, rows in enumerate(batches):
            for row, logits in zip(rows, marked(rows, rank, number), strict=True):
                expected.setdefault(int(row), logits)
    logits = whole(root / "repeated" / str(seed)).logits
    np.testing.assert_array_equal(logits[0], [expected[row] for row in range(SAMPLES)])


def test_an_error_of_the_run_is_raised_on_every_rank(ran):
    root, (first, second) = ran
    first, second = first["refusals"], second["refusals"]
    for key, message in {
        "no sample": "epoch 0 has no samples",
        "missing": "1 samples were not recorded in epoch 0, the first with id 12",
        "not ended": "no whole epoch was recorded",
        "classes": "needs num_classes= or classes=",
        "labels": "rank 1 has other labels than rank 0",
        "ids": "rank 1 has other ids than rank 0",
        "bad on one": "dtype must be one of",
        "other classes": "rank 1 has other classes than rank 0",
        "dtypes": "rank 1 has other dtype than rank 0",
    }.items():
        for results in (first, second):
            assert results[key][0] == "InputError", key
            assert message in results[key][1], key
    for key, message in {
        "taken": "already holds 1 epoch;",
        "a file": "full",
        "apart": "1 of 2 shards",
        "disk full": "part-00001/logits-000000.npy",
    }.items():
        for results in (first, second):
            assert results[key][0] == "StoreError", key
            assert message in results[key][1], key
    assert first["missing"][1].startswith("rank 1: ")
    assert first["bad on one"][1].startswith("rank 1: ")
    made = sorted(path.name for path in (root / "refusals").iterdir())
    assert made == ["full", "missing", "of rank 0", "of rank 1"], "nothing is written where something was wrong"


def test_a_bad_batch_is_refused_on_its_rank_and_the_run_continues(ran):
    root, (first, second) = ran
    assert second["refusals"]["nan"] == ["InputError", "logits of sample 12 in epoch 0 are not finite"]
    assert "unknown id 13" in second["refusals"]["unknown"][1]
    assert "2 ids for 3 rows" in second["refusals"]["uneven"][1]
    assert first["refusals"]["epochs"] == second["refusals"]["epochs"] == 1
    logits = whole(root / "refusals" / "missing").logits
    np.testing.assert_array_equal(logits[0], logits_of(range(SAMPLES), 0))


def test_an_interrupted_epoch_is_left_out_even_if_a_rank_is_late(ran):
    root, (first, second) = ran
    assert first["broken_off"] == second["broken_off"] == 1
    logits = whole(root / "broken_off").logits
    np.testing.assert_array_equal(logits[0], logits_of(range(SAMPLES), 0))


def test_a_ddp_model_is_recorded_and_its_ranking_has_the_errors_first(ran):
    root, results = ran
    dynamics = whole(root / "digits" / "run")
    expected = np.full(dynamics.logits.shape, np.nan)
    for rank in reversed(range(RANKS)):
        diary = np.load(root / f"diary-{rank}.npy")
        expected[diary[:, 0].astype(int), diary[:, 1].astype(int)] = diary[:, 2:]
    np.testing.assert_array_equal(dynamics.logits, expected.astype(np.float32))
    assert results[0]["digits"] == results[1]["digits"] < 0.25


def test_fsdp_records_the_logits_of_one_process(ran):
    inputs, targets, model, optimizer = fsdp_task()
    optimizer = optimizer(model.parameters())
    expected = np.empty((3, 24, CLASSES))
    for epoch in range(3):
        for rows in torch.arange(24).split(8):
            logits = model(inputs[rows])
            expected[epoch, rows] = logits.detach()
            torch.nn.functional.cross_entropy(logits, targets[rows]).backward()
            optimizer.step()
            optimizer.zero_grad()
    np.testing.assert_allclose(whole(ran[0] / "fsdp").logits, expected, rtol=1e-4, atol=1e-5)


def test_a_rank_that_dies_stops_the_others_and_loses_only_the_current_epoch(crashed):
    _, codes, printed, kept = crashed
    assert codes[1] == -signal.SIGKILL
    assert codes[0] == 1, "rank 0 ended by itself, with an error"
    assert "end_epoch" in printed[0]
    np.testing.assert_array_equal(kept, [logits_of(range(SAMPLES), epoch) for epoch in range(2)])


def test_a_killed_run_resumes(ran, tmp_path):
    root, results = ran
    assert_same_run(root / "killed", one_process(tmp_path / "one"))
    assert results[0]["resumed"] == results[1]["resumed"] == [EPOCHS, EPOCHS, SAMPLES]


def test_an_epoch_that_one_rank_has_committed_and_another_has_not_is_ignored_and_three_ranks_resume(crashed, tmp_path):
    root = crashed[0]
    codes, _ = launch(root, "between_commits")
    assert codes[1] == -signal.SIGKILL
    manifests = [
        json.loads((root / "between_commits" / "shards" / f"part-0000{rank}" / "manifest.json").read_text())
        for rank in range(RANKS)
    ]
    assert [manifest["epochs"] for manifest in manifests] == [2, 1]
    np.testing.assert_array_equal(whole(root / "between_commits").logits, [logits_of(range(SAMPLES), 0)])
    codes, printed = launch(root, "resumed@by three", "resumed@between_commits", ranks=3)
    assert codes == [0, 0, 0], printed
    for name in ("by three", "between_commits"):
        assert_same_run(root / name, one_process(tmp_path / name))


def test_one_process_without_a_group_continues_shards(tmp_path):
    def record(epochs, **options):
        rec = DistributedRecorder(tmp_path / "run", labels=LABELS, ids=NAMES, num_classes=CLASSES, **options)
        for epoch in range(rec.epoch, epochs):
            rec.update(NAMES, logits_of(range(SAMPLES), epoch))
            rec.update(NAMES[:1], 1 + logits_of([0], epoch))  # repeated
            rec.end_epoch()
        return rec.finish(features=np.eye(SAMPLES))

    record(2)
    with pytest.raises(errata.StoreError, match="already holds 2 epochs; pass resume=True"):
        record(2)
    record(EPOCHS, resume=True)
    expected = one_process(tmp_path / "one")
    assert_same_run(tmp_path / "run", expected)
    record(EPOCHS, resume=1)  # go back
    assert_same_run(tmp_path / "run", expected)
    for changed, message in {
        "labels": ({"labels": LABELS[::-1].copy()}, "recorded with other labels"),
        "ids": ({"ids": NAMES[::-1]}, "recorded with other ids"),
        "dtype": ({"dtype": "float16"}, "recorded with dtype='float32', not 'float16'"),
        "classes": ({"num_classes": 9}, f"recorded with num_classes={CLASSES}, not 9"),
        "samples": ({"labels": LABELS[:-1], "ids": NAMES[:-1]}, "recorded with 13 samples, not 12"),
        "epochs": ({"resume": 9}, "holds 4 epochs, so it cannot resume after 9"),
    }.values():
        given = {"labels": LABELS, "ids": NAMES, "num_classes": CLASSES, "resume": True} | changed
        with pytest.raises(errata.StoreError, match=message):
            DistributedRecorder(tmp_path / "run", **given)
    with pytest.raises(errata.StoreError, match="holds a run of one process"):
        DistributedRecorder(tmp_path / "one", labels=LABELS, num_classes=CLASSES, resume=True)
    with pytest.raises(errata.InputError, match="num_classes"):
        DistributedRecorder(tmp_path / "other", labels=LABELS)
    assert_same_run(tmp_path / "run", expected)
    assert record(1, overwrite=True).epochs == 1


def test_a_run_without_epochs_starts_again_and_one_with_epochs_must_be_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(growing_shards, "MAX_EPOCH_BYTES", 100)  # several shards
    place = tmp_path / "run"

    def start(**options):
        return DistributedRecorder(place, labels=LABELS, num_classes=CLASSES, quiet=True, **options)

    start().close()
    manifests = sorted(place.glob("shards/*/manifest.json"))
    assert len(manifests) > 1
    manifests[1].unlink()  # as if the writers were killed before all shards were started
    rec = start()
    rec.update_all(logits_of(range(SAMPLES), 0))
    rec.end_epoch()
    np.testing.assert_array_equal(rec.finish().in_memory().logits, [logits_of(range(SAMPLES), 0)])
    manifests[1].unlink()
    with pytest.raises(errata.StoreError, match=r"shard 'part-00001' of .* has no manifest"):
        start(resume=True)
    with pytest.raises(errata.InputError, match="resume must be True, False or a number of epochs, not -1"):
        start(resume=-1)
    assert start(overwrite=True).epoch == 0


def test_shards_of_a_run_are_recorded_into_a_store():
    url = "memory://recorded/run"
    rec = DistributedRecorder(url, labels=LABELS, num_classes=CLASSES, keep="stream", quiet=True)
    for epoch in range(3):
        rec.update(range(SAMPLES), logits_of(range(SAMPLES), epoch))
        rec.end_epoch()
    alone = errata.Dynamics.from_arrays([logits_of(range(SAMPLES), epoch) for epoch in range(3)], LABELS)
    np.testing.assert_array_equal(errata.score(rec.finish(), "MeanProb-LM"), errata.score(alone, "MeanProb-LM"))


def test_logits_that_are_distributed_tensors_are_refused(tmp_path):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    dist.init_process_group("gloo", init_method=(tmp_path / "meet").as_uri(), rank=0, world_size=1)
    try:
        rec = DistributedRecorder(tmp_path / "run", labels=LABELS, num_classes=CLASSES, quiet=True)
        outputs = torch.from_numpy(logits_of(range(SAMPLES), 0))
        parts = distribute_tensor(outputs, init_device_mesh("cpu", (1,)), [Shard(1)])
        with pytest.raises(errata.InputError, match=r"logits: the tensor is distributed .* pass tensor.full_tensor"):
            rec.update(range(SAMPLES), parts)
        rec.update(range(SAMPLES), parts.full_tensor())
        rec.end_epoch()
        np.testing.assert_array_equal(rec.finish().in_memory().logits[0], outputs)
    finally:
        dist.destroy_process_group()


def test_a_process_that_has_not_joined_the_others_is_refused(tmp_path, monkeypatch):
    """Each of them would record a run of its own into the folder."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        errata.InputError, match=r"^2 processes were launched \(WORLD_SIZE\), but this one has not joined"
    ):
        DistributedRecorder(tmp_path / "run", labels=LABELS, num_classes=CLASSES, quiet=True)
    assert not list(tmp_path.iterdir())


def guide_blocks():
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_guide_adds_two_lines_to_a_loop(tmp_path, monkeypatch, capsys):
    before, after, *_ = guide_blocks()
    monkeypatch.chdir(tmp_path)
    for block in (before, after):
        exec(block, {})
    assert "suggested" in capsys.readouterr().out
    changes = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-?"]
    assert not any(line.startswith(("-", "?")) for line in changes)
    in_the_loop = [line for line in changes if line.startswith("+     ")]
    assert [line.split()[1].split("(")[0] for line in in_the_loop] == ["rec.update", "rec.end_epoch"]
    assert len(changes) == 5, "besides: the import, the recorder, and what is done with it"


def test_the_guide_runs_under_torchrun(tmp_path):
    (tmp_path / "train_ddp.py").write_text(guide_blocks()[2], encoding="utf-8")
    script = str(tmp_path / "train_ddp.py")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        process = subprocess.Popen(
            torchrun,
            cwd=folder,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        codes, printed = finish_all([process])
        # On a busy machine gloo now and then aborts a process that leaves its last barrier after the other has gone.
        if "SIGABRT" not in printed[0]:
            break
    assert codes == [0], printed
    assert printed[0].count("label  suggested") == printed[0].count("errata: recording") == 1, "rank 0 alone speaks"
    dynamics = whole(folder / "runs" / "digits-ddp")
    assert (dynamics.epochs, dynamics.samples, dynamics.num_classes) == (5, 1797, 10)
    assert not np.isnan(dynamics.logits).any()


RESTARTED = """
import os, signal
import numpy as np, torch, torch.distributed as dist
from errata.integrations import DistributedRecorder
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
rec = DistributedRecorder("run", labels=np.arange(13) % 4, num_classes=4, resume=True, quiet=True)
print(f"rank {rank} starts at {rec.epoch}", flush=True)
for epoch in range(rec.epoch, 4):
    for ids in torch.arange(rank, 13, ranks).split(3):
        rec.update(ids, torch.sin(ids[:, None] + epoch + torch.arange(4)))
        if (epoch, rank) == (2, 1) and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
    rec.end_epoch()
rec.finish()
"""


def test_torchrun_restarts_ranks_after_one_is_killed_and_loses_that_epoch_only(tmp_path):
    (tmp_path / "train.py").write_text(RESTARTED, encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # Otherwise restarted ranks read the addresses of the attempt before, and may wait for a rank that has gone.
    own_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    process = subprocess.Popen(
        [*torchrun, "--max-restarts", "2", "train.py"],
        cwd=tmp_path,
        env=ENVIRONMENT | own_store,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    codes, printed = finish_all([process], limit=3 * LIMIT_S)
    assert codes == [0], printed
    assert "rank 1 starts at 0" in printed[0]
    assert "rank 1 starts at 2" in printed[0]
    samples, epochs = np.arange(13)[None, :, None], np.arange(4)[:, None, None]
    np.testing.assert_allclose(whole(tmp_path / "run").logits, np.sin(samples + epochs + np.arange(4)), atol=1e-6)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
