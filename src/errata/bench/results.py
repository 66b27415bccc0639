"""Results on disk: a Parquet file of numbers a cell, and the per-sample scores beside it.

FOLDER/cells/SETTING/GATHERING-seedN.parquet          method, metric, budget, value and all that produced them
FOLDER/cells/SETTING/GATHERING-seedN.scores.parquet   given label, truth, and a column of scores a method
FOLDER/cells/SETTING/GATHERING-seedN.failed.json      why there is none, until it is tried again
FOLDER/recipes/SETTING.json                           a recipe that takes the place of the setting's own
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.bench.plan import Cell
from errata.dynamics.files import replace_atomically
from errata.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd

KEYS = ["setting", "gathering", "seed"]
LABELS = ["given", "truth"]


class Results:
    """A folder of results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, cell: Cell) -> bool:
        """Whether the cell is done."""
        return self._numbers(cell).exists() and self._scores(cell).exists()

    def write(self, cell: Cell, numbers: "pd.DataFrame", scores: "pd.DataFrame") -> None:
        """Keep a cell: the scores first, so that numbers are never without them."""
        self._numbers(cell).parent.mkdir(parents=True, exist_ok=True)
        for path, table in ((self._scores(cell), scores), (self._numbers(cell), numbers)):
            replace_atomically(path, lambda file, table=table: table.to_parquet(file, index=False, compression="zstd"))  # type: ignore[misc]
        self._failure(cell).unlink(missing_ok=True)

    def fail(self, cell: Cell, reason: str) -> None:
        """Record why a cell could not be made."""
        path = self._failure(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, lambda file: file.write(json.dumps({"reason": reason}, indent=1).encode()))

    def failure(self, cell: Cell) -> str | None:
        """Why a cell is not there, if it was tried."""
        path = self._failure(cell)
        return str(json.loads(path.read_text(encoding="utf-8"))["reason"]) if path.exists() else None

    def cells(self) -> Iterator[Cell]:
        """Every cell that is done."""
        for path in sorted(self.folder.glob("cells/*/*-seed*.parquet")):
            if path.name.endswith(".scores.parquet"):
                continue
            gathering, _, seed = path.stem.rpartition("-seed")
            cell = Cell(path.parent.name, gathering, int(seed))  # type: ignore[arg-type]
            if self.has(cell):
                yield cell

    def numbers(self) -> "pd.DataFrame":
        """The numbers of all cells, one under the other."""
        import pandas as pd

        tables = [_read(self._numbers(cell)) for cell in self.cells()]
        if not tables:
            raise StoreError(f"{self.folder} holds no results; `errata bench run --out {self.folder}` makes them")
        return pd.concat(tables, ignore_index=True)

    def scores(self, cell: Cell) -> "pd.DataFrame":
        """A row a sample: id, given label, truth (missing where unknown), and the scores of every method."""
        return _read(self._scores(cell))

    def recipe_path(self, setting: str) -> Path:
        """Where a recipe lies that takes the place of the setting's own."""
        return self.folder / "recipes" / f"{setting}.json"

    def work(self, name: str) -> Path:
        """Where a training leaves its checkpoints and dynamics."""
        return self.folder / "work" / name

    def _numbers(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.setting / f"{cell.gathering}-seed{cell.seed}.parquet"

    def _scores(self, cell: Cell) -> Path:
        return self._numbers(cell).with_suffix(".scores.parquet")

    def _failure(self, cell: Cell) -> Path:
        return self._numbers(cell).with_suffix(".failed.json")


def _read(path: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error


def as_json(values: Any) -> str:
    """Parameters as one text, the same for the same values."""
    return json.dumps(values, sort_keys=True)
