"""Files are replaced as a whole, and what a killed process left is removed by the next one."""

import os
import subprocess
import sys

import pytest

from errata.dynamics.files import replace_atomically, write_file
from errata.errors import StoreError


def dead_process():
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_unfinished_files_of_dead_processes_are_removed(tmp_path):
    file, dead, alive = tmp_path / "table[1].csv", dead_process(), os.getppid()
    kept = [f".table[1].csv.{alive}.part", ".table[1].csv.mine.part", f".other.csv.{dead}.part"]
    for name in (f".table[1].csv.{dead}.part", *kept):
        (tmp_path / name).write_text("half")
    replace_atomically(file, lambda to: to.write(b"whole"))
    assert file.read_bytes() == b"whole"
    assert {path.name for path in tmp_path.iterdir()} == {file.name, *kept}


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("before")

    def fail(to):
        to.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match=r"table.csv cannot be written: No space left"):
        replace_atomically(file, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]
    assert file.read_text() == "before"


@pytest.mark.parametrize("content", ["grün", "grün".encode()])
def test_a_written_file_is_whole_and_its_folder_is_created(tmp_path, content):
    file = tmp_path / "new" / "folder" / "file.txt"
    write_file(file, content)
    assert file.read_text(encoding="utf-8") == "grün"
    write_file(file, "after")
    assert [path.read_text() for path in file.parent.iterdir()] == ["after"]
