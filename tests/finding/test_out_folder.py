"""The folder of results: one process at a time, no remains of killed runs, no other results lost."""

import shutil

import numpy as np
import pytest

import errata
from errata.errors import StoreError
from errata.finding import out_folder
from errata.finding.out_folder import has_unfinished_work
from errata.locks import lock_folder


@pytest.fixture
def samples():
    inputs = np.random.default_rng(0).normal(size=(40, 3))
    return inputs, (inputs[:, 0] > 0).astype(int)


def logits(seed):
    labels = np.arange(40) % 3
    values = np.random.default_rng(seed).normal(size=(4, 40, 3))
    values[:, np.arange(40), labels] += 2
    return errata.Dynamics.from_arrays(values, labels)


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_second_process_is_refused_and_changes_nothing(tmp_path):
    errata.find(logits(0), out=tmp_path / "out")
    before = files(tmp_path)
    with lock_folder(tmp_path / "out"), pytest.raises(StoreError, match="out is being written"):
        errata.find(logits(0), out=tmp_path / "out")
    assert files(tmp_path) == before
    errata.find(logits(0), out=tmp_path / "out")


def test_results_of_other_data_are_replaced_only_on_request(tmp_path, samples):
    inputs, labels = samples
    out = tmp_path / "out"
    errata.find(inputs, labels, model="mlp", out=out)
    errata.find(inputs, labels, model="mlp", seed=1, out=out)  # the same data
    with pytest.raises(StoreError, match="holds the results of other data: name another folder with `out=`"):
        errata.find(inputs + 1, labels, model="mlp", out=out)
    assert errata.Found.open(out).summary["settings"]["seed"] == 1
    errata.find(inputs + 1, labels, model="mlp", out=out, overwrite=True)
    assert errata.Found.open(out).summary["settings"]["seed"] == 0


def test_results_of_other_logits_are_replaced_only_on_request(tmp_path):
    out = tmp_path / "out"
    for seed in (0, 1):
        logits(seed).save(tmp_path / f"run{seed}")
    errata.find(tmp_path / "run0", out=out)
    errata.find(logits(0), out=out)  # the same logits from another place
    errata.find(tmp_path / "run0", out=out)
    errata.find(out / "dynamics", out=out)  # its own
    with pytest.raises(StoreError, match=r"holds the results of .*run0: name another folder"):
        errata.find(tmp_path / "run1", out=out)
    shutil.rmtree(tmp_path / "run0")
    logits(1).save(tmp_path / "run0")
    errata.find(tmp_path / "run0", out=out)  # recorded again in the same place
    errata.find(tmp_path / "run1", out=out)


def test_the_next_run_deletes_the_remains_of_a_killed_one(tmp_path):
    out = tmp_path / "out"
    errata.find(logits(0), out=out)
    before = files(out)
    (out / ".ranking.csv.123.part").touch()
    (out / "work" / ".0123456789abcdef.unfinished" / "seed0").mkdir(parents=True)
    (out / ".dynamics.unfinished").mkdir()
    assert not has_unfinished_work(out)
    errata.find(logits(0), out=out)
    assert files(out) == before


def test_a_kill_while_resume_files_are_deleted_does_no_harm(tmp_path, samples, monkeypatch):
    out, calls = tmp_path / "out", []

    def die(path, **options):
        if path.parent.name != "work":
            return
        calls.append(path)
        next(path.rglob("*.json")).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(out_folder.shutil, "rmtree", die)
        with pytest.raises(KeyboardInterrupt):
            errata.find(*samples, model="mlp", out=out)
    assert len(calls) == 1
    found = errata.find(*samples, model="mlp", out=out)
    assert not (out / "work").exists()
    assert found.ranking["id"].tolist() == errata.find(*samples, model="mlp").ranking["id"].tolist()
