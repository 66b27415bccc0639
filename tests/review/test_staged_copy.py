"""A copy and its log appear together, whatever happens in between; the same call goes on after an interruption."""

import gzip
import os
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import errata
from errata.errors import ErrataError
from errata.locks import lock_file

DECISIONS = pd.DataFrame([("0", "ant", "accept", "bee")], columns=["id", "label", "decision", "new_label"])
OTHER = DECISIONS.assign(id="2")


def write_csv(folder):
    (folder / "data.csv").write_text("a,kind\n" + "0,ant\n1,bee\n" * 4)
    return folder / "data.csv", DECISIONS, {"label": "kind"}


def write_gz(folder):
    (folder / "data.csv.gz").write_bytes(gzip.compress(b"a,kind\n" + b"0,ant\n1,bee\n" * 4, mtime=0))
    return folder / "data.csv.gz", DECISIONS, {"label": "kind"}


def write_npz(folder):
    np.savez(folder / "data.npz", X=np.eye(8), y=np.array(["ant", "bee"] * 4))
    return folder / "data.npz", DECISIONS, {}


def write_images(folder):
    for row, kind in enumerate(("ant", "ant", "bee", "bee")):
        (folder / "data" / kind).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (row, 0, 0)).save(folder / "data" / kind / f"{row}.png")
    return folder / "data", DECISIONS.assign(id="ant/0.png"), {}


KINDS = [write_csv, write_gz, write_npz, write_images]
OPERATIONS = ("rename", "replace", "rmdir", "mkdir", "unlink")


class KilledError(BaseException):
    """Stands for the end of the process: nothing after it runs."""


def everything(folder):
    """All files with their contents, except the time in a log."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: pd.read_csv(path).drop(columns="when").to_csv() if name.endswith(".log.csv") else path.read_bytes()
        for name, path in files.items()
    }


def killed(number, source, decisions, **options):
    """Whether operation `number` on files took place; it and all later ones fail, as if the process had been killed."""
    done = []

    def counted(operation):
        def call(*arguments, **options):
            done.append(operation)
            if len(done) > number:
                raise KilledError
            return operation(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(os, name, counted(getattr(os, name)))
        try:
            errata.apply(source, decisions, **options)
        except KilledError:
            return True
    return False


@pytest.mark.parametrize("write", KINDS)
def test_the_same_call_goes_on_after_a_kill_before_every_operation(tmp_path, write):
    expected = tmp_path / "expected"
    expected.mkdir()
    source, decisions, options = write(expected)
    errata.apply(source, decisions, **options)
    for number in count():
        folder = tmp_path / str(number)
        folder.mkdir()
        source, decisions, options = write(folder)
        if not killed(number, source, decisions, **options):
            break
        errata.apply(source, decisions, **options)
        assert everything(folder) == everything(expected), number
    assert number > 6


@pytest.mark.parametrize("write", KINDS)
def test_the_same_call_again_keeps_the_copy(tmp_path, write):
    source, decisions, options = write(tmp_path)
    first = errata.apply(source, decisions, **options)
    log = first.log.read_bytes()
    again = errata.apply(source, decisions, **options)
    assert again.remarks[-1] == f"{first.copy} was written before, from the same data and decisions"
    assert first.log.read_bytes() == log


def test_another_copy_is_not_replaced(tmp_path):
    source, decisions, options = write_csv(tmp_path)
    copy = errata.apply(source, decisions, **options).copy
    before = everything(tmp_path)
    with pytest.raises(ErrataError, match=r"data.corrected.csv already exists"):
        errata.apply(source, OTHER, **options)
    assert everything(tmp_path) == before
    copy.write_text("mine")
    with pytest.raises(ErrataError, match=r"data.corrected.csv already exists"):
        errata.apply(source, decisions, **options)
    assert copy.read_text() == "mine"


def test_an_interrupted_replacement_finishes(tmp_path):
    source, decisions, options = write_csv(tmp_path)
    errata.apply(source, OTHER, **options)
    expected = everything(tmp_path)
    errata.apply(source, decisions, **options, overwrite=True)
    for number in count():
        if not killed(number, source, OTHER, **options, overwrite=True):
            break
        errata.apply(source, OTHER, **options, overwrite=True)
        assert everything(tmp_path) == expected
        errata.apply(source, decisions, **options, overwrite=True)
    assert number > 6


def test_two_processes_at_once_are_refused(tmp_path):
    source, decisions, options = write_csv(tmp_path)
    with (
        lock_file(tmp_path / "data.corrected.csv"),
        pytest.raises(ErrataError, match=r"data.corrected.csv is being written"),
    ):
        errata.apply(source, decisions, **options)
    errata.apply(source, decisions, **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "data.corrected.csv",
        "data.corrected.csv.log.csv",
        "data.csv",
    ]


def test_a_full_disk_leaves_nothing_and_names_the_copy(tmp_path, monkeypatch):
    source, decisions, options = write_csv(tmp_path)

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ErrataError) as refused:
            errata.apply(source, decisions, **options)
    assert ".part" not in str(refused.value)
    assert "data.corrected.csv" in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
    errata.apply(source, decisions, **options)
    assert Path(tmp_path / "data.corrected.csv.log.csv").is_file()


def test_excel_safe_changes_the_log_and_never_the_copy(tmp_path):
    source, decisions, options = write_csv(tmp_path)
    applied = errata.apply(source, decisions.assign(new_label="=1+1"), **options, excel_safe=True)
    assert applied.copy.read_text().splitlines()[1] == "0,=1+1"
    assert pd.read_csv(applied.log)["after"].tolist() == ["'=1+1"]
    errata.apply(source, decisions.assign(new_label="=1+1"), **options, excel_safe=True)
