import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from errata.errors import StoreError
from errata.locks import LOCKS, lock_file, lock_folder

HOLD = """
import sys, time
from pathlib import Path
from errata.locks import lock_folder
lock = lock_folder(Path(sys.argv[1]))
print("locked", flush=True)
time.sleep(60)
"""


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("lock", [lock_folder, lock_file])
def test_only_one_holds_a_lock_at_a_time(lock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("out")
    with lock(path) as first:
        assert first.held
        for same in (path, tmp_path / "out"):
            with pytest.raises(
                StoreError, match=r"out is being written elsewhere in this process. Finish or close that first$"
            ):
                lock(same)
    assert not first.held
    with lock(path):
        first.release()  # does not release the lock of others
        with pytest.raises(StoreError, match="out is being written"):
            lock(path)


def test_the_lock_file_is_removed_with_the_lock(tmp_path):
    with lock_file(tmp_path / "data.csv"):
        assert files(tmp_path) == [".data.csv.lock"] == [path.name for path in tmp_path.glob(LOCKS)]
    folder = tmp_path / "deep" / "run"
    with lock_folder(folder):
        assert files(folder) == [".errata.lock"] == [path.name for path in folder.glob(LOCKS)]
    assert files(folder) == []
    assert files(tmp_path) == ["deep"]


def test_a_deleted_lock_is_released(tmp_path):
    lock = lock_folder(tmp_path)
    del lock
    gc.collect()
    lock_folder(tmp_path).release()


def test_another_process_is_refused_and_a_killed_one_holds_nothing(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(StoreError, match=f"^{tmp_path} is being written by another process. Wait"):
            lock_folder(tmp_path)
        other.send_signal(signal.SIGKILL)
        other.wait()
    lock_folder(tmp_path).release()
    assert files(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_does_not_release_the_lock_of_its_parent(tmp_path):
    with lock_folder(tmp_path) as lock:
        child = os.fork()
        if not child:
            lock.release()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(StoreError, match="is being written elsewhere in this process"):
            lock_folder(tmp_path)


def test_a_folder_that_cannot_be_made_or_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be created"):
        lock_folder(tmp_path / "file" / "run")
    with pytest.raises(StoreError, match=r"data\.csv cannot be written: "):
        lock_file(tmp_path / "file" / "data.csv")
