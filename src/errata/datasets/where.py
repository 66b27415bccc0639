"""Where data lives, and which of a dataset's files are there."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from errata.datasets.spec import Dataset, Source
from errata.errors import DataError, MissingDataError

VARIABLE = "ERRATA_DATA"


def cache_dir() -> Path:
    """The folder of errata among the user's caches."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "errata"


def data_dir(given: str | Path | None = None) -> Path:
    """The folder that holds a folder a dataset: the one given, else $ERRATA_DATA, else the user's cache folder."""
    wanted = given if given is not None else os.environ.get(VARIABLE)
    return Path(wanted).expanduser() if wanted else cache_dir() / "data"


@dataclass(frozen=True)
class Found:
    """A source that is there, the folder it was found in, and its files."""

    source: Source
    place: Path
    paths: tuple[Path, ...]

    def stamp(self) -> list[list[str | int]]:
        """Name, size and time of every file: while these stay, so does the content."""
        stats = [(path, path.stat()) for path in self.paths]
        return [[str(path.resolve()), stat.st_size, stat.st_mtime_ns] for path, stat in stats]


def dataset_folder(dataset: Dataset, folder: Path) -> Path:
    """Where the files of a dataset belong."""
    return folder / dataset.name


def locate(dataset: Dataset, folder: Path) -> Found:
    """The first source whose files are all there, in the dataset's folder or one above; else say what to do."""
    half: list[str] = []
    for source in dataset.sources:
        for place in (dataset_folder(dataset, folder), folder):
            paths = tuple(place / name for name in source.files)
            there = [_is_there(path) for path in paths]
            if all(there):
                return Found(source, place, paths)
            if any(there):
                half += [str(path) for path, is_there in zip(paths, there, strict=True) if not is_there]
    if half:
        raise DataError(f"{dataset.name} is only partly there: {half[0]} is missing")
    raise MissingDataError(f"{dataset.name} is not in {folder}: {how_to_get(dataset, folder)}")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise DataError(f"{path} cannot be looked at: {error.strerror}") from error


def how_to_get(dataset: Dataset, folder: Path) -> str:
    """What brings the files here."""
    if dataset.downloads:
        where = "" if folder == data_dir() else f" --data-dir {folder}"
        return f"`errata data fetch {dataset.name}{where}` downloads it from {dataset.source}"
    place = dataset_folder(dataset, folder)
    return f"it has to be fetched by hand. {dataset.by_hand.format(folder=place)}"
