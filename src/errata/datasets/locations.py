"""The folders that data is kept in, and the files of a dataset that are there."""

import os
import shutil
import sys
import tarfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile

from errata.datasets.spec import Dataset, ParsedArrays, Source
from errata.errors import DataError, MissingDataError
from errata.readers.file_access import file_errors

VARIABLE = "ERRATA_DATA"
ARCHIVE_ERRORS = (shutil.ReadError, tarfile.TarError, BadZipFile, zlib.error, EOFError, ValueError, RuntimeError)


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

    def read(self) -> ParsedArrays:
        """Parse the files."""
        parsed, source = self.source.read(*self.paths), self.source
        remarks = (source.remark, *parsed.remarks) if source.remark else parsed.remarks
        return ParsedArrays(parsed.arrays, remarks, source.complete and parsed.complete)

    def stamp(self) -> list[list[str | int]]:
        """Path, size and modification time of every file; they change if the content changes."""
        stats = [(path, path.stat()) for path in self.paths]
        return [[str(path.resolve()), stat.st_size, stat.st_mtime_ns] for path, stat in stats]


def locate(dataset: Dataset, folder: Path) -> LocatedFiles:
    """The first source whose files all exist, in the dataset's folder or directly in `folder`.

    Official archives come before sources that are not the preferred one.
    """
    missing: list[Path] = []
    archives = [Source((name,), partial(read_archive, dataset)) for name in dataset.archives]
    for source in (*dataset.sources[:1], *archives, *dataset.sources[1:]):
        for place in (folder / dataset.name, folder):
            paths = tuple(place / name for name in source.files)
            with file_errors(place):
                absent = [path for path in paths if not path.exists()]
            if not absent:
                return LocatedFiles(source, place, paths)
            if len(absent) < len(paths):
                missing += absent
    if missing:
        raise DataError(f"{dataset.name} is incomplete: {missing[0]} is missing")
    raise MissingDataError(f"{dataset.name} is not in {folder}. {how_to_get(dataset, folder)}")


def read_archive(dataset: Dataset, archive: Path) -> ParsedArrays:
    """Parse the files in an archive, which can hold another archive. They are unpacked into a temporary folder."""
    with file_errors(archive), TemporaryDirectory() as scratch:
        try:
            unpack(archive, Path(scratch))
            return locate(dataset, Path(scratch)).read()
        except MissingDataError as error:
            raise DataError(f"{archive} does not contain {dataset.sources[0].files[0]}") from error
        except DataError as error:
            message = str(error).replace(f"{scratch}{os.sep}", f"{archive}: ").replace(scratch, str(archive))
            raise DataError(message) from error


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive. Nothing is written outside of the folder."""
    with file_errors(archive, "is not a complete archive", ARCHIVE_ERRORS):
        if archive.suffix == ".zip":
            shutil.unpack_archive(archive, folder)  # skips names that lead out of the folder
        else:
            shutil.unpack_archive(archive, folder, filter="data")


def how_to_get(dataset: Dataset, folder: Path) -> str:
    """Instructions for obtaining the files."""
    if dataset.downloads or dataset.openml:
        option = "" if folder == data_dir() else f" --data-dir {folder}"
        return f"Download it from {dataset.source} with `errata data fetch {dataset.name}{option}`"
    return f"It cannot be downloaded automatically. {dataset.by_hand.format(folder=folder / dataset.name)}"
