"""Packing moves the files of cells into one file per setting and changes no table."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_results import write_cell

from errata.bench import packing
from errata.bench.packing import pack
from errata.bench.plan import Cell
from errata.bench.results import FAILURE, NUMBERS, RANKS, SCORES, Results, read_parquet
from errata.errors import StoreError

WORSE, LETTER = "cifar10n-worse", "letter-symmetric-20"


def write(folder, setting, seed, shift=0, **options):
    rng = np.random.default_rng(seed)
    truth = np.arange(50) % 5 == 0
    scores = {name: rng.normal(size=50).round(1) for name in ("MeanProb-LM", "Mean-CE")}
    fnr = dict.fromkeys(scores, 0.1 * (seed + shift + 1))
    return write_cell(folder, setting, seed, fnr, scores=scores, truth=truth, accuracy=0.5, **options)


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    for seed in (0, 1):
        write(folder, WORSE, seed)
        write(folder, LETTER, seed, default="Mean-CE")
    write(folder, LETTER, 0, gathering="out-of-sample", operating_points={"Mean-CE": (7, 0.25)})
    return Results(folder)


def tables(results):
    return {cell: (results.numbers_of(cell), results.ranks(cell)) for cell in results.cells()}


def assert_same(before, after):
    assert list(before) == list(after)
    for cell, both in before.items():
        for one, other in zip(both, after[cell], strict=True):
            assert set(one) == set(other)
            pd.testing.assert_frame_equal(one, other[list(one)], check_exact=True)


def cell_files(results, kind=RANKS):
    return sorted(results.folder.glob(f"cells/*/*{kind}"))


def test_packed_cells_have_the_same_tables_and_one_file_per_setting(results):
    before, numbers = tables(results), results.numbers()
    assert pack(results) == {WORSE: 2, LETTER: 3}
    assert_same(before, tables(results))
    pd.testing.assert_frame_equal(numbers, results.numbers()[list(numbers)], check_exact=True)
    assert all(results.has(cell) for cell in before)
    assert not results.has(Cell(WORSE, "in-sample", 2))
    committed = [path for path in results.folder.rglob("*.parquet") if not path.name.endswith(SCORES)]
    assert sorted(committed) == [results.folder / "cells" / f"{name}.parquet" for name in (WORSE, LETTER)]
    assert pack(results) == {}


def test_scores_and_failures_stay_in_the_files_of_the_cell(results):
    failed = Cell(WORSE, "in-sample", 7)
    results.write_failure(failed, "no memory")
    cell = Cell(LETTER, "in-sample", 1)
    scores = results.scores(cell)
    pack(results)
    pd.testing.assert_frame_equal(results.scores(cell), scores)
    assert results.failure(failed) == "no memory"
    for path in cell_files(results, SCORES):
        path.unlink()
    write(results.folder, LETTER, 2)
    results.file(Cell(LETTER, "in-sample", 2), SCORES).unlink()
    pack(results)
    assert not (results.folder / "cells" / LETTER).exists()


def test_new_cells_are_merged_and_replace_packed_ones(results):
    pack(results)
    before = tables(results)
    write(results.folder, WORSE, 1, shift=5)
    write(results.folder, WORSE, 2)
    merged = tables(results)
    changed, added = Cell(WORSE, "in-sample", 1), Cell(WORSE, "in-sample", 2)
    assert set(merged) == {*before, added}
    assert merged[changed][0].loc[merged[changed][0]["metric"] == "fnr", "value"].tolist() == pytest.approx([0.7] * 2)
    assert pack(results) == {WORSE: 3}
    assert_same(merged, tables(results))
    others = [cell for cell in before if cell != changed]
    assert_same({cell: before[cell] for cell in others}, {cell: tables(results)[cell] for cell in others})


def test_a_column_that_only_some_cells_have_is_kept(results):
    first, cell = Cell(WORSE, "in-sample", 0), Cell(WORSE, "in-sample", 3)
    results.write(cell, results.numbers_of(first).assign(seed=3, hours=1.5), results.scores(first))
    pack(results)
    assert set(results.numbers_of(cell)["hours"]) == {1.5}
    assert results.numbers_of(first)["hours"].isna().all()


@pytest.mark.parametrize("step", range(7))
def test_an_interrupted_pack_leaves_everything_readable(results, monkeypatch, step):
    """Interrupted before and after the packed file is written, and after each file is removed."""
    write(results.folder, LETTER, 1)
    before, calls = tables(results), []

    def interrupt(function):
        def wrapped(*arguments, **options):
            if arguments[0].suffix == ".lock":  # some versions of filelock remove their file by Path.unlink
                return function(*arguments, **options)
            calls.append(function)
            if len(calls) > step:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return wrapped

    with monkeypatch.context() as patched:
        patched.setattr(packing, "write_file", interrupt(packing.write_file))
        patched.setattr(Path, "unlink", interrupt(Path.unlink))
        with pytest.raises(KeyboardInterrupt):
            pack(results)
    assert_same(before, tables(results))
    pack(results)
    assert_same(before, tables(results))
    assert set(results.folder.glob("cells/*/*")) == set(cell_files(results, SCORES))


def test_files_are_removed_only_if_the_packed_file_is_equal(results, monkeypatch):
    write(results.folder, WORSE, 0, shift=0.33)
    before, make = tables(results), packing._packed_bytes

    def lossy(tables):
        return make({cell: (numbers.round({"value": 1}), ranks) for cell, (numbers, ranks) in tables.items()})

    monkeypatch.setattr(packing, "_packed_bytes", lossy)
    with pytest.raises(StoreError, match="in-sample-seed0 differs after packing"):
        pack(results)
    assert_same(before, tables(results))
    assert len(cell_files(results)) == 5


def test_a_cell_that_is_being_written_is_left_alone(results):
    """A campaign writes the numbers of a cell last."""
    results.file(Cell(WORSE, "in-sample", 0), NUMBERS).unlink()
    assert pack(results) == {LETTER: 3, WORSE: 1}
    assert [path.name for path in cell_files(results)] == ["in-sample-seed0.ranks.parquet"]


def test_a_packed_file_that_cannot_be_read_is_named(results):
    pack(results)
    results.packed_path(WORSE).write_bytes(b"broken")
    with pytest.raises(StoreError, match=rf"Cannot read .*{WORSE}\.parquet"):
        results.numbers()


def test_the_command(results, tmp_path, errata_command):
    loose = tmp_path / "loose"
    shutil.copytree(results.folder, loose)

    def run(*arguments):
        code, out, _ = errata_command("bench", *arguments)
        assert code == 0
        return out

    output = run("pack", "--out", results.folder)
    assert f"{results.packed_path(LETTER)}: 3 cells" in output
    assert f"2 settings packed in {results.folder}" in output
    for command in (["table", "noise-rate"], ["table", "operating-point"], ["table", "intervals"], ["compare"]):
        assert run(*command, "--results", results.folder) == run(*command, "--results", loose)


@pytest.mark.parametrize("name", ["in-sample-seedx", "sideways-seed0"])
def test_a_file_that_is_not_named_like_a_cell_is_refused(results, name):
    results.file(Cell(WORSE, "in-sample", 0), RANKS).with_name(f"{name}{RANKS}").touch()
    with pytest.raises(StoreError, match=rf"{name}\.ranks\.parquet is not named like the results of a cell"):
        results.cells()


def test_the_results_of_another_cell_are_refused(results):
    path = results.folder / "cells" / WORSE
    shutil.copytree(path, path.with_name("copied"))
    with pytest.raises(StoreError, match="holds results of another cell than copied/in-sample-seed0"):
        results.numbers()


@pytest.mark.parametrize("columns", [{"x": [1]}, {"table": [1], "gathering": [2], "seed": ["x"]}])
def test_a_packed_file_with_other_columns_is_refused(tmp_path, columns):
    (tmp_path / "cells").mkdir()
    pd.DataFrame(columns).to_parquet(tmp_path / "cells" / "digits.parquet")
    with pytest.raises(StoreError, match=r"Cannot read .*digits\.parquet"):
        Results(tmp_path).cells()


def test_a_folder_in_place_of_a_table_is_refused(results):
    path = results.file(Cell(WORSE, "in-sample", 0), NUMBERS)
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError, match="it is a folder"):
        results.numbers()


def test_a_table_without_a_needed_column_is_refused(tmp_path):
    pd.DataFrame({"method": ["Mean-CE"]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(StoreError, match=r"x\.parquet: it has no column 'size'"):
        read_parquet(tmp_path / "x.parquet", ["method", "size"])


def test_a_failure_that_is_no_json_is_refused(results):
    cell = Cell(WORSE, "in-sample", 7)
    results.write_failure(cell, "out of memory")
    assert results.failure(cell) == "out of memory"
    results.file(cell, FAILURE).write_text("{")
    with pytest.raises(StoreError, match=r"failed\.json is not a whole JSON file"):
        results.failure(cell)
