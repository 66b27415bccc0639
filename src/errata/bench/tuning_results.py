"""Tuning results on disk: a few files per setting, to which seeds can be added.

FOLDER/tuning/SETTING.parquet              one row per seed, tuning fraction and method: the best candidate, its FNR
FOLDER/tuning/SETTING.candidates.parquet   all candidates with their FNR
FOLDER/tuning/SETTING.curve.parquet        FNR by the epoch at which training stops
FOLDER/tuning/SETTING.failed.json          why seeds failed, until they are run again
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import BaseFileLock, FileLock

from errata.bench.plan import Cell
from errata.bench.results import Results, read_parquet
from errata.dynamics.files import load_json, replace_atomically, write_file
from errata.errors import StoreError
from errata.wording import listed

CHOSEN, CANDIDATES, CURVE, FAILURES = ".parquet", ".candidates.parquet", ".curve.parquet", ".failed.json"
SAME_FOR_ALL_SEEDS = ("parameters", "epochs_of_recipe", "data_hash", "label_hash")
WINDOWED_METHODS = ("Last-CE", "Mean-CE", "MeanProb-LM")  # tuned over windows of epochs
CLUSTERED_METHOD = "CTRL-CE"  # tuned over its own parameters


class TuningResults:
    """The tuning results in a folder of results."""

    def __init__(self, folder: Path) -> None:
        self._results = Results(folder)

    def has(self, cell: Cell) -> bool:
        """Whether that seed of the setting is tuned."""
        return all(cell.seed in self._seeds(cell.setting, kind) for kind in (CHOSEN, CURVE))

    def publish(self, cell: Cell) -> None:
        """Called after the results of a seed were written; they are where they belong."""

    def read(self, setting: str, kind: str = CHOSEN) -> pd.DataFrame:
        """One of the tables of a setting, all seeds: CHOSEN (see `choose`), CANDIDATES or CURVE."""
        return read_parquet(self.path(setting, kind), ["seed"])

    def failures(self, setting: str) -> dict[int, str]:
        """By seed, why its tuning failed."""
        path = self.path(setting, FAILURES)
        stored = load_json(path) if path.exists() else {}
        if not all(seed.isdecimal() for seed in stored):
            raise StoreError(f'{path} must name seeds, such as "0", not {listed(stored)}')
        return {int(seed): str(reason) for seed, reason in stored.items()}

    def settings(self) -> list[str]:
        """The settings with at least one tuned seed."""
        files = (self._results.folder / "tuning").glob(f"*{CURVE}")
        names = sorted(path.name.removesuffix(CURVE) for path in files)
        return [name for name in names if self.path(name, CHOSEN).exists()]

    def check(self, setting: str, metadata: dict[str, Any]) -> None:
        """Raise StoreError if stored seeds used other data, labels or recipe, or if their candidates are missing."""
        if not self.path(setting, CHOSEN).exists():
            return
        stored = self.read(setting)
        for column in SAME_FOR_ALL_SEEDS:
            if (stored[column] != metadata[column]).any():
                raise StoreError(f"{self.path(setting, CHOSEN)} has different {column}. Delete it to tune again.")
        if not set(stored["seed"]) <= self._seeds(setting, CANDIDATES):
            missing = self.path(setting, CANDIDATES)
            raise StoreError(f"{missing} lacks seeds that {setting}{CHOSEN} has. Restore it, or delete both.")

    def add(self, cell: Cell, candidates: pd.DataFrame, curve: pd.DataFrame) -> None:
        """Add a seed. The chosen candidates are written last: they mark the seed as done."""
        with self._lock(cell.setting):
            every = self._with_other_seeds(cell, CANDIDATES, candidates)
            curves = self._with_other_seeds(cell, CURVE, curve)
            for kind, table in ((CANDIDATES, every), (CURVE, curves), (CHOSEN, choose(every))):
                write = partial(table.to_parquet, index=False, compression="zstd")
                replace_atomically(self.path(cell.setting, kind), write)
            self._write_failure(cell, None)

    def write_failure(self, cell: Cell, reason: str) -> None:
        """Store why a seed failed."""
        with self._lock(cell.setting):
            self._write_failure(cell, reason)

    def path(self, setting: str, kind: str) -> Path:
        """A file of a setting."""
        return self._results.folder / "tuning" / f"{setting}{kind}"

    def _seeds(self, setting: str, kind: str) -> set[int]:
        path = self.path(setting, kind)
        return set(self.read(setting, kind)["seed"]) if path.exists() else set()

    def _with_other_seeds(self, cell: Cell, kind: str, table: pd.DataFrame) -> pd.DataFrame:
        """The table and the stored rows of other seeds, sorted by seed."""
        if not self.path(cell.setting, kind).exists():
            return table
        stored = self.read(cell.setting, kind)
        tables = [stored[stored["seed"] != cell.seed], table]
        return pd.concat(tables).sort_values("seed", kind="stable", ignore_index=True)

    def _write_failure(self, cell: Cell, reason: str | None) -> None:
        failures = {seed: text for seed, text in self.failures(cell.setting).items() if seed != cell.seed}
        failures |= {} if reason is None else {cell.seed: reason}
        path = self.path(cell.setting, FAILURES)
        if failures:
            write_file(path, json.dumps(failures, indent=1, sort_keys=True))
        else:
            path.unlink(missing_ok=True)

    def _lock(self, setting: str) -> BaseFileLock:
        """Held while the files of a setting are read and replaced: several processes may add seeds."""
        lock = self._results.work(f"{setting}-tuning-files.lock")
        for folder in (lock.parent, self._results.folder / "tuning"):
            folder.mkdir(parents=True, exist_ok=True)
        return FileLock(lock)


def choose(candidates: pd.DataFrame) -> pd.DataFrame:
    """The best candidate per seed, tuning fraction and method: the one with the smallest tuning_value.

    Ties go to the widest window, then to the first candidate.
    """
    by = ["seed", "tuning_fraction", "method"]
    methods = {name: number for number, name in enumerate((*WINDOWED_METHODS, CLUSTERED_METHOD))}
    ranked = candidates.assign(narrowness=-candidates["width"], number=candidates["method"].map(methods))
    best = ranked.sort_values(["seed", "tuning_fraction", "number", "tuning_value", "narrowness", "place"])
    first = [*by, "value", "chosen", "tuning_value"]
    others = [column for column in candidates.columns if column not in (*first, "width", "place")]
    return best.drop_duplicates(by).reset_index(drop=True)[[*first, *others]]
