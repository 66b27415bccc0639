"""Benchmark results on disk: one set of files per cell while a campaign runs, one packed file per setting in git.

FOLDER/cells/SETTING/GATHERING-seedN.parquet          numbers of a cell: method, metric, budget, value, metadata
FOLDER/cells/SETTING/GATHERING-seedN.ranks.parquet    rankings of a cell: method, size, errors
FOLDER/cells/SETTING/GATHERING-seedN.scores.parquet   per-sample scores of a cell; not committed
FOLDER/cells/SETTING/GATHERING-seedN.failed.json      why a cell failed, until it is run again
FOLDER/cells/SETTING.parquet                          packed: numbers and rankings of the cells of a setting
FOLDER/recipes/SETTING.json                           recipe found by `errata bench choose`

`errata bench pack` moves the files of cells into the packed file. If a cell has both, its own files are read.

A ranking is a sequence of groups of equal score, most suspicious first, with the size of each group and its number of
errors. Every metric of `errata.core.metrics` has the same value on a ranking as on the scores.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from errata.bench.plan import GATHERINGS, Cell, check_gathering
from errata.datasets.spec import Setting
from errata.dynamics.files import load_json, replace_atomically, write_file
from errata.errors import StoreError
from errata.training.recipes import AnyRecipe
from errata.wording import listed, one_line

NUMBERS, RANKS, SCORES, FAILURE = ".parquet", ".ranks.parquet", ".scores.parquet", ".failed.json"
NUMBER_COLUMNS = ("setting", "gathering", "seed", "method", "metric", "budget", "value")
RANK_COLUMNS = {"method": "category", "size": "int32", "errors": "int32"}
RATE_METRICS = {"rate": "noise_rate", "low": "noise_rate_low", "high": "noise_rate_high"}  # of noise-rate estimates


class Results:
    """A folder of results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, cell: Cell) -> bool:
        """Whether the cell has numbers and rankings. Per-sample scores may be absent."""
        return self._has_files(cell) or cell in self._packed_cells(self.packed_path(cell.setting))

    def write(self, cell: Cell, numbers: pd.DataFrame, scores: pd.DataFrame) -> None:
        """Write the files of a cell. The numbers come last: they mark the cell as done."""
        for kind, table in ((SCORES, scores), (RANKS, rankings(scores)), (NUMBERS, numbers)):
            path = self.file(cell, kind)
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_atomically(path, partial(table.to_parquet, index=False, compression="zstd"))
        self.file(cell, FAILURE).unlink(missing_ok=True)

    def publish(self, cell: Cell) -> None:
        """Called after the files of a cell were written; in a folder, they are where they belong."""

    def write_failure(self, cell: Cell, reason: str) -> None:
        """Store why a cell failed."""
        write_file(self.file(cell, FAILURE), json.dumps({"reason": reason}, indent=1))

    def failure(self, cell: Cell) -> str:
        """The last line of why a cell failed; empty if it did not."""
        path = self.file(cell, FAILURE)
        return last_line(str(load_json(path).get("reason", ""))) if path.exists() else ""

    def cells(self) -> list[Cell]:
        """All cells that have numbers and rankings, sorted."""
        found = {cell for path in self.folder.glob("cells/*.parquet") for cell in self._packed_cells(path)}
        for path in self.folder.glob(f"cells/*/*-seed*{RANKS}"):
            gathering, _, seed = path.name.removesuffix(RANKS).rpartition("-seed")
            if gathering not in GATHERINGS or not seed.isdecimal():
                raise StoreError(f"{path} is not named like the results of a cell: {GATHERINGS[0]}-seed0{RANKS}")
            cell = Cell(path.parent.name, check_gathering(gathering), int(seed))
            if self._has_files(cell):
                found.add(cell)
        return sorted(found)

    def numbers(self) -> pd.DataFrame:
        """The numbers of all cells in one table."""
        tables = [self.numbers_of(cell) for cell in self.cells()]
        if not tables:
            raise StoreError(f"No results in {self.folder}. Create them with errata bench run --out {self.folder}.")
        return pd.concat(tables, ignore_index=True)

    def numbers_of(self, cell: Cell) -> pd.DataFrame:
        """The numbers of one cell: one row per method and metric."""
        if not self._has_files(cell):
            return read_packed_numbers(self.packed_path(cell.setting), cell)
        path = self.file(cell, NUMBERS)
        numbers = read_parquet(path, NUMBER_COLUMNS)
        if any(set(numbers[column]) != {value} for column, value in asdict(cell).items()):
            raise StoreError(f"{path} holds results of another cell than {cell.name}")
        return numbers

    def scores(self, cell: Cell) -> pd.DataFrame:
        """One row per sample: id, given label, truth, and one column of scores per method."""
        return read_parquet(self.file(cell, SCORES))

    def ranks(self, cell: Cell) -> pd.DataFrame:
        """One row per group of equal scores, most suspicious first: method, size, errors."""
        if self._has_files(cell):
            return read_parquet(self.file(cell, RANKS), RANK_COLUMNS)
        return read_packed_ranks(self.packed_path(cell.setting), cell)

    def recipe(self, setting: Setting, default: AnyRecipe | None = None) -> AnyRecipe:
        """The recipe that was found for the setting, or else `default`, or else the setting's own."""
        path = self.recipe_path(setting.name)
        return type(setting.recipe).load(path) if path.exists() else default or setting.recipe

    def recipe_path(self, setting: str) -> Path:
        """Where `errata bench choose` stores the recipe of a setting."""
        return self.folder / "recipes" / f"{setting}.json"

    def work(self, name: str) -> Path:
        """The folder in which a group is trained: checkpoints and dynamics."""
        return self.folder / "work" / name

    def packed_path(self, setting: str) -> Path:
        """The packed file of a setting."""
        return self.folder / "cells" / f"{setting}.parquet"

    def file(self, cell: Cell, kind: str) -> Path:
        """A file of one cell; kind is its ending."""
        return self.folder / "cells" / cell.setting / f"{cell.gathering}-seed{cell.seed}{kind}"

    def _has_files(self, cell: Cell) -> bool:
        return self.file(cell, NUMBERS).exists() and self.file(cell, RANKS).exists()

    def _packed_cells(self, path: Path) -> set[Cell]:
        if not path.exists():
            return set()
        columns = ["gathering", "seed"]
        keys = read_parquet(path, columns, columns=columns, filters=[("table", "==", "numbers")])
        return {Cell(path.stem, *key) for key in keys.drop_duplicates().itertuples(index=False, name=None)}


def read_parquet(path: Path | BytesIO, needed: Iterable[str] = (), **options: Any) -> pd.DataFrame:
    """Read a table that has at least the needed columns; StoreError names a file that cannot be read."""
    if isinstance(path, Path) and not path.is_file():
        raise StoreError(f"Cannot read {path}: {'it is a folder' if path.is_dir() else 'there is no such file'}")
    try:
        table = pd.read_parquet(path, **options)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise StoreError(f"Cannot read {path}: {one_line(error)}") from error
    missing = set(needed).difference(table.columns)
    if missing:
        raise StoreError(f"Cannot read {path}: it has no column {listed(sorted(missing))}")
    return table


def read_packed_numbers(path: Path | BytesIO, cell: Cell) -> pd.DataFrame:
    """The numbers of one cell in a packed file, as in the file of the cell."""
    needed = [*NUMBER_COLUMNS, "table", "size", "errors"]
    numbers = read_parquet(path, needed, filters=_packed_filters("numbers", cell))
    return numbers.drop(columns=["table", "size", "errors"]).astype({"budget": "Int64"})


def read_packed_ranks(path: Path | BytesIO, cell: Cell) -> pd.DataFrame:
    """The rankings of one cell in a packed file, as in the file of the cell."""
    return read_parquet(path, columns=[*RANK_COLUMNS], filters=_packed_filters("ranks", cell)).astype(RANK_COLUMNS)


def _packed_filters(table: str, cell: Cell) -> list[tuple[str, str, Any]]:
    return [("table", "==", table), ("gathering", "==", cell.gathering), ("seed", "==", cell.seed)]


def last_line(reason: str) -> str:
    """The last line of a message or traceback."""
    return (reason.strip().splitlines() or [""])[-1]


def as_json(values: Any) -> str:
    """Parameters as one text, the same for the same values."""
    return json.dumps(values, sort_keys=True)


def rankings(scores: pd.DataFrame) -> pd.DataFrame:
    """One row per method and group of equal scores: method, size, errors.

    scores: one row per sample, with `truth` and one column per method.
    """
    truth = scores["truth"].to_numpy(dtype=np.bool_)
    tables = []
    for method in scores.columns.drop(["id", "given", "truth"], errors="ignore"):
        values, group = np.unique(scores[method].to_numpy(), return_inverse=True)
        size = np.bincount(group, minlength=len(values))[::-1]
        errors = np.bincount(group, truth, minlength=len(values))[::-1]
        tables.append(pd.DataFrame({"method": method, "size": size, "errors": errors}))
    return pd.concat(tables, ignore_index=True).astype(RANK_COLUMNS)


def as_scores(ranking: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores and truth (N,) with the ranking of one method."""
    size, errors = ranking["size"].to_numpy(), ranking["errors"].to_numpy()
    scores = np.repeat(-np.arange(len(size), dtype=np.float64), size)
    place = np.arange(len(scores)) - np.repeat(np.cumsum(size) - size, size)
    return scores, place < np.repeat(errors, size)
