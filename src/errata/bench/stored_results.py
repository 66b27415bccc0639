"""Results of the benchmark in a store such as s3://bucket/results.

A local folder holds what is needed of them while cells are computed: recipes, and which cells are done. A cell is
copied to the store when it is complete. Its numbers come last and mark it as done, so a reader never sees half a cell.
"""

from collections.abc import Iterable
from pathlib import Path

from errata.bench.plan import Cell
from errata.bench.results import FAILURE, NUMBERS, RANKS, SCORES, Results
from errata.dynamics.places import Place


class StoredResults(Results):
    """Results in a store; a local folder holds a part of them."""

    def __init__(self, place: Place, folder: Path, settings: Iterable[str]) -> None:
        """Copy recipes and the results of these settings to the folder; refuses a store that cannot be written."""
        super().__init__(folder)
        self.place = place
        files = place.files()
        place.check_writable()
        for setting in set(settings):
            files_of_setting = {f"recipes/{setting}.json", f"cells/{setting}.parquet"}
            for name, size in files.items():
                if name in files_of_setting or (
                    name.startswith(f"cells/{setting}/") and not name.endswith((SCORES, FAILURE))
                ):
                    path = folder / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(place.read(name, 0, size))

    def publish(self, cell: Cell) -> None:
        """Copy the files of a cell to the store, and delete the note of an earlier failure."""
        for kind in (SCORES, RANKS, NUMBERS):
            path = self.file(cell, kind)
            self.place.write(self._name(path), path)
        self.place.remove(self._name(self.file(cell, FAILURE)))

    def write_failure(self, cell: Cell, reason: str) -> None:
        """Store why a cell failed."""
        super().write_failure(cell, reason)
        path = self.file(cell, FAILURE)
        self.place.write(self._name(path), path)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()
