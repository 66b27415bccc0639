"""Results on disk: a Parquet file of numbers a cell, and rankings and per-sample scores beside it.

FOLDER/cells/SETTING/GATHERING-seedN.parquet          method, metric, budget, value and all that produced them
FOLDER/cells/SETTING/GATHERING-seedN.scores.parquet   given label, truth, and a column of scores a method
FOLDER/cells/SETTING/GATHERING-seedN.failed.json      why there is none, until it is tried again
FOLDER/recipes/SETTING.json                           a recipe that takes the place of the setting's own
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.bench.evaluation.stored_ranks import rankings
from errata.bench.running.plan import Cell
from errata.dynamics.files import replace_atomically
from errata.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd

NUMBERS, RANKS, SCORES, FAILURE = ".parquet", ".ranks.parquet", ".scores.parquet", ".failed.json"


class Results:
    """A folder of results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, cell: Cell) -> bool:
        """Whether the cell is done; its scores are large, and may have been left behind."""
        return self._file(cell, NUMBERS).exists() and self._file(cell, RANKS).exists()

    def write(self, cell: Cell, numbers: "pd.DataFrame", scores: "pd.DataFrame") -> None:
        """Keep a cell: the numbers last, so that they are never without the rest."""
        for kind, table in ((SCORES, scores), (RANKS, rankings(scores)), (NUMBERS, numbers)):
            path = self._file(cell, kind)
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_atomically(path, partial(table.to_parquet, index=False, compression="zstd"))
        self._file(cell, FAILURE).unlink(missing_ok=True)

    def fail(self, cell: Cell, reason: str) -> None:
        """Record why a cell could not be made."""
        path = self._file(cell, FAILURE)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, lambda file: file.write(json.dumps({"reason": reason}, indent=1).encode()))

    def failure(self, cell: Cell) -> str | None:
        """Why a cell is not there, if it was tried."""
        path = self._file(cell, FAILURE)
        return str(json.loads(path.read_text(encoding="utf-8"))["reason"]) if path.exists() else None

    def cells(self) -> Iterator[Cell]:
        """Every cell that is done."""
        for path in sorted(self.folder.glob(f"cells/*/*-seed*{RANKS}")):
            gathering, _, seed = path.name.removesuffix(RANKS).rpartition("-seed")
            cell = Cell(path.parent.name, gathering, int(seed))  # type: ignore[arg-type]
            if self.has(cell):
                yield cell

    def numbers(self) -> "pd.DataFrame":
        """The numbers of all cells, one under the other."""
        import pandas as pd

        tables = [self.numbers_of(cell) for cell in self.cells()]
        if not tables:
            raise StoreError(f"{self.folder} holds no results; `errata bench run --out {self.folder}` makes them")
        return pd.concat(tables, ignore_index=True)

    def numbers_of(self, cell: Cell) -> "pd.DataFrame":
        """The numbers of one cell."""
        return read_parquet(self._file(cell, NUMBERS))

    def scores(self, cell: Cell) -> "pd.DataFrame":
        """A row a sample: id, given label, truth (missing where unknown), and the scores of every method."""
        return read_parquet(self._file(cell, SCORES))

    def ranks(self, cell: Cell) -> "pd.DataFrame":
        """A row a group of equal scores, most suspicious first: method, size, errors."""
        return read_parquet(self._file(cell, RANKS))

    def recipe_path(self, setting: str) -> Path:
        """Where a recipe lies that takes the place of the setting's own."""
        return self.folder / "recipes" / f"{setting}.json"

    def work(self, name: str) -> Path:
        """Where a training leaves its checkpoints and dynamics."""
        return self.folder / "work" / name

    def _file(self, cell: Cell, kind: str) -> Path:
        return self.folder / "cells" / cell.setting / f"{cell.gathering}-seed{cell.seed}{kind}"


def read_parquet(path: Path) -> "pd.DataFrame":
    """A table; one that cannot be read is named."""
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error


def as_json(values: Any) -> str:
    """Parameters as one text, the same for the same values."""
    return json.dumps(values, sort_keys=True)
