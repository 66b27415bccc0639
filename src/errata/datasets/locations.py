"""The folders that data is kept in, and the files of a dataset that are there."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from errata.datasets.spec import Dataset, Source
from errata.errors import DataError, MissingDataError

VARIABLE = "ERRATA_DATA"


def cache_dir() -> Path:
    """The folder of errata in the user's cache folder."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "errata"


def data_dir(folder: str | Path | None = None) -> Path:
    """The folder with one folder per dataset: `folder`, else $ERRATA_DATA, else the user's cache folder."""
    chosen = folder if folder is not None else os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_dir() / "data"


@dataclass(frozen=True)
class LocatedFiles:
    """A source of a dataset whose files all exist, the folder they are in, and their paths."""

    source: Source
    folder: Path
    paths: tuple[Path, ...]

    def stamp(self) -> list[list[str | int]]:
        """Path, size and modification time of every file; they change if the content changes."""
        stats = [(path, path.stat()) for path in self.paths]
        return [[str(path.resolve()), stat.st_size, stat.st_mtime_ns] for path, stat in stats]


def dataset_folder(dataset: Dataset, folder: Path) -> Path:
    """The folder for the files of a dataset."""
    return folder / dataset.name


def locate(dataset: Dataset, folder: Path) -> LocatedFiles:
    """The first source whose files all exist, in the dataset's folder or directly in `folder`."""
    missing: list[Path] = []
    for source in dataset.sources:
        for place in (dataset_folder(dataset, folder), folder):
            paths = tuple(place / name for name in source.files)
            absent = [path for path in paths if not _exists(path)]
            if not absent:
                return LocatedFiles(source, place, paths)
            if len(absent) < len(paths):
                missing += absent
    if missing:
        raise DataError(f"{dataset.name} is incomplete: {missing[0]} is missing")
    raise MissingDataError(f"{dataset.name} is not in {folder}. {how_to_get(dataset, folder)}")


def how_to_get(dataset: Dataset, folder: Path) -> str:
    """Instructions for obtaining the files."""
    if dataset.downloads:
        option = "" if folder == data_dir() else f" --data-dir {folder}"
        return f"Download it from {dataset.source} with `errata data fetch {dataset.name}{option}`"
    return f"It cannot be downloaded automatically. {dataset.by_hand.format(folder=dataset_folder(dataset, folder))}"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise DataError(f"{path} cannot be accessed: {error.strerror}") from error
