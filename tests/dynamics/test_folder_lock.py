"""A folder is recorded into by one Recorder at a time, and a script can be run again."""

import gc
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from errata import Recorder
from errata.errors import InputError, StoreError

OTHER = """
import sys, time
import numpy as np
from errata import Recorder
recorder = Recorder(sys.argv[1], labels=[0, 1, 2, 0, 1, 2], num_classes=3, quiet=True)
recorder.update_all(np.eye(3)[[0, 1, 2, 0, 1, 2]] * 3 - 1)
recorder.end_epoch()
print("recording", flush=True)
time.sleep(60)
"""


@pytest.fixture
def make(tmp_path, labels):
    def make(**options):
        return Recorder(tmp_path / "run", **{"labels": labels, "num_classes": 3, "quiet": True, **options})

    return make


def add_epoch(recorder, values):
    recorder.update_all(values)
    recorder.end_epoch()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_second_recorder_is_refused_until_the_first_ends(tmp_path, logits, labels, make):
    first = make()
    add_epoch(first, logits[0])
    for options in ({}, {"resume": True}, {"overwrite": True}, {"resume": 0}, {"labels": labels[::-1]}):
        with pytest.raises(StoreError, match=r"run (is being written elsewhere in this process|already holds 1 epoch)"):
            make(**options)
    add_epoch(first, logits[1])
    np.testing.assert_array_equal(first.finish().logits, logits[:2])
    assert ".errata.lock" not in names(tmp_path / "run")
    second = make(resume=True)
    assert second.epoch == 2
    second.close()
    second.close()
    third = make(resume=True)
    del third
    gc.collect()
    make(resume=True).close()


def test_a_recorder_that_opens_its_folder_late_is_refused_too(make, logits):
    late = make(num_classes=None)
    first = make()
    add_epoch(first, logits[0])
    with pytest.raises(StoreError, match=r"is being written elsewhere|already holds 1 epoch"):
        late.update_all(logits[0])
    np.testing.assert_array_equal(first.finish().logits, logits[:1])


def test_another_process_is_refused_and_a_killed_one_can_be_resumed(tmp_path, logits, make):
    command = [sys.executable, "-c", OTHER, tmp_path / "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "recording\n"
        with pytest.raises(StoreError, match=r"run is being written by another process. Wait for it"):
            make(resume=True)
        other.send_signal(signal.SIGKILL)
        other.wait()
    recorder = make(resume=True)
    add_epoch(recorder, logits[0])
    assert recorder.finish().epochs == 2


def test_a_recorder_goes_on_after_finish_unless_another_wrote_the_folder(logits, make):
    first = make(settings={"path": os, "pair": (1, 2)})
    add_epoch(first, logits[0])
    first.finish()
    add_epoch(first, logits[1])
    assert first.finish().epochs == 2
    second = make(resume=True)
    with pytest.raises(StoreError, match="is being written"):
        first.update_all(logits[2])
    add_epoch(second, logits[2])
    second.finish()
    for attempt in (lambda: first.update_all(logits[3]), first.finish):
        with pytest.raises(StoreError, match="was changed after it was released; make another Recorder"):
            attempt()
    assert make(resume=True).epoch == 3


def test_ended_epochs_survive_close(make, logits):
    recorder = make()
    recorder.update_all(logits[0])
    recorder.end_epoch(durable=False)
    recorder.update_all(logits[1])
    recorder.close()
    assert make(resume=True).epoch == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_neither_writes_nor_releases(tmp_path, logits, make):
    recorder = make()
    child = os.fork()
    if not child:
        try:
            recorder.update_all(logits[0])
        except StoreError as error:
            recorder.close()
            os._exit(0 if "by another process" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(StoreError, match="is being written elsewhere in this process"):
        make()
    add_epoch(recorder, logits[0])
    assert recorder.finish().epochs == 1


# overwrite


@pytest.mark.parametrize("keep", ["all", "stream"])
def test_overwriting_gives_the_folder_of_a_first_run(tmp_path, logits, labels, record, snapshot, keep):
    fold = np.arange(6)
    old = record(logits, labels, tmp_path / "run", keep="all" if keep == "stream" else "stream", fold=fold)
    assert old.epochs == 4
    (tmp_path / "run" / "notes.txt").write_text("mine")
    (tmp_path / "run" / ".logits.npy.1.part").write_bytes(b"x")
    other = labels[::-1].copy()
    record(logits[:2], other, tmp_path / "run", keep=keep, overwrite=True)
    record(logits[:2], other, tmp_path / "whole", keep=keep, overwrite=True)
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"
    (tmp_path / "run" / "notes.txt").unlink()
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_only_a_run_is_overwritten(tmp_path, logits, make, snapshot):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.pt").write_text("weights")
    before = snapshot(tmp_path)
    with pytest.raises(StoreError, match=r"holds other files \(model.pt"):
        make(overwrite=True)
    (tmp_path / "run" / "manifest.json").write_text('{"version": 3}')
    with pytest.raises(StoreError, match="is not a manifest of errata"):
        make(overwrite=True)
    (tmp_path / "run" / "manifest.json").unlink()
    assert snapshot(tmp_path) == before
    with pytest.raises(InputError, match="pass either resume or overwrite, not both"):
        make(overwrite=True, resume=True)


def test_a_run_is_overwritten_only_when_its_replacement_is_valid(tmp_path, logits, labels, record, snapshot, make):
    record(logits, labels, tmp_path / "run")
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match="label of sample 0 is 7"):
        make(labels=labels + 7, overwrite=True)
    late = make(num_classes=None, overwrite=True)
    with pytest.raises(InputError, match="not finite"):
        late.update_all(logits[0] * np.nan)
    assert snapshot(tmp_path) == before
    add_epoch(late, logits[0])
    assert late.finish().epochs == 1
