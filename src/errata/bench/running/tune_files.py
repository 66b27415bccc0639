"""Tuning results on disk, a few files a setting, to which seeds can be added.

FOLDER/tuning/SETTING.parquet              a row a seed, tuning fraction and method: what was chosen, and its FNR
FOLDER/tuning/SETTING.candidates.parquet   all that could have been chosen, with its FNR
FOLDER/tuning/SETTING.curve.parquet        FNR against the epoch at which training stops
FOLDER/tuning/SETTING.failed.json          by seed, why there is none, until it is tried again
"""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.bench.running.plan import Cell
from errata.bench.running.results import Results, read_parquet
from errata.bench.running.tune_search import choose
from errata.dynamics.files import replace_atomically
from errata.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd
    from filelock import BaseFileLock

CHOSEN, CANDIDATES, CURVE, FAILURES = ".parquet", ".candidates.parquet", ".curve.parquet", ".failed.json"
SAME_FOR_ALL_SEEDS = ("parameters", "epochs_of_recipe", "data_hash", "label_hash")


class TuningFiles:
    """The tuning results in a folder of results."""

    def __init__(self, folder: Path) -> None:
        self._results = Results(folder)

    def has(self, cell: Cell) -> bool:
        """Whether that seed of the setting is done."""
        return all(cell.seed in self._seeds(cell.setting, kind) for kind in (CHOSEN, CURVE))

    def chosen(self, setting: str) -> "pd.DataFrame":
        """What was chosen, of all seeds; see `errata.bench.running.tune_search.choose`."""
        return read_parquet(self.path(setting, CHOSEN))

    def curve(self, setting: str) -> "pd.DataFrame":
        """FNR against the epoch at which training stops, of all seeds."""
        return read_parquet(self.path(setting, CURVE))

    def candidates(self, setting: str) -> "pd.DataFrame":
        """All that could have been chosen, of all seeds."""
        return read_parquet(self.path(setting, CANDIDATES))

    def failures(self, setting: str) -> dict[int, str]:
        """By seed, why it is not there, if it was tried."""
        path = self.path(setting, FAILURES)
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {int(seed): str(reason) for seed, reason in found.items()}

    def settings(self) -> list[str]:
        """The settings of which at least one seed is done."""
        files = (self._results.folder / "tuning").glob(f"*{CURVE}")
        names = sorted(path.name.removesuffix(CURVE) for path in files)
        return [name for name in names if self.path(name, CHOSEN).exists()]

    def check(self, setting: str, about: dict[str, Any]) -> None:
        """Refuse to add a seed to those of other data, labels or recipe, or to some whose candidates are lost."""
        if not self.path(setting, CHOSEN).exists():
            return
        there = self.chosen(setting)
        for column in SAME_FOR_ALL_SEEDS:
            if (there[column] != about[column]).any():
                raise StoreError(f"{self.path(setting, CHOSEN)} was made with other {column}; delete it to tune again")
        if not set(there["seed"]) <= self._seeds(setting, CANDIDATES):
            lost = self.path(setting, CANDIDATES)
            raise StoreError(f"{lost} does not hold the seeds of {lost.with_name(setting + CHOSEN)}; restore it")

    def add(self, cell: Cell, candidates: "pd.DataFrame", curve: "pd.DataFrame") -> None:
        """Keep a seed: what was chosen last, so that it is never without the rest."""
        with self._lock(cell.setting):
            every = self._joined(cell, CANDIDATES, candidates)
            curves = self._joined(cell, CURVE, curve)
            for kind, table in ((CANDIDATES, every), (CURVE, curves), (CHOSEN, choose(every))):
                write = partial(table.to_parquet, index=False, compression="zstd")
                replace_atomically(self.path(cell.setting, kind), write)
            self._write_failures(cell.setting, self._other_failures(cell))

    def fail(self, cell: Cell, reason: str) -> None:
        """Record why a seed could not be made."""
        with self._lock(cell.setting):
            self._write_failures(cell.setting, self._other_failures(cell) | {cell.seed: reason})

    def path(self, setting: str, kind: str) -> Path:
        """Where a file of a setting lies."""
        return self._results.folder / "tuning" / f"{setting}{kind}"

    def _seeds(self, setting: str, kind: str) -> set[int]:
        path = self.path(setting, kind)
        return set(read_parquet(path)["seed"]) if path.exists() else set()

    def _joined(self, cell: Cell, kind: str, table: "pd.DataFrame") -> "pd.DataFrame":
        """The table with those of the other seeds, in the order of seeds, however they came."""
        import pandas as pd

        path = self.path(cell.setting, kind)
        if not path.exists():
            return table
        there = read_parquet(path)
        tables = [there[there["seed"] != cell.seed], table]
        return pd.concat(tables).sort_values("seed", kind="stable", ignore_index=True)

    def _other_failures(self, cell: Cell) -> dict[int, str]:
        return {seed: reason for seed, reason in self.failures(cell.setting).items() if seed != cell.seed}

    def _write_failures(self, setting: str, failures: dict[int, str]) -> None:
        path = self.path(setting, FAILURES)
        if failures:
            replace_atomically(path, lambda file: file.write(json.dumps(failures, indent=1, sort_keys=True).encode()))
        else:
            path.unlink(missing_ok=True)

    def _lock(self, setting: str) -> "BaseFileLock":
        """Held while the files of a setting are read and replaced: its seeds come from several processes."""
        from filelock import FileLock

        lock = self._results.work(f"{setting}-tuning-files.lock")
        for folder in (lock.parent, self._results.folder / "tuning"):
            folder.mkdir(parents=True, exist_ok=True)
        return FileLock(lock)
