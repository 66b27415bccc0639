"""Download of a dataset's official files. They are verified before they are moved to the dataset's folder."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from errata.datasets.loading import read_verified
from errata.datasets.locations import LocatedFiles, how_to_get, locate, unpack
from errata.datasets.openml_tables import download_table
from errata.datasets.registry import dataset as find_dataset
from errata.datasets.spec import Dataset
from errata.errors import DataError, ErrataError, MissingDataError, StoreError
from errata.extras import require
from errata.version import installed_version
from errata.wording import one_line

TIMEOUT = 30.0  # seconds without an answer or another byte
RETRIES = 2
CHUNK_BYTES = 1 << 16

ProgressBar = Callable[[str], Any]  # takes a file name; returns a progress bar with the interface that pooch documents


def fetch(dataset: Dataset, folder: Path, progress_bar: ProgressBar | None = None) -> list[Path]:
    """Download a dataset's files, and those of the dataset whose inputs it reuses, unless they are there.

    Returns the paths of the dataset's files. A failed download leaves nothing behind.
    """
    if dataset.inputs_from:
        fetch(find_dataset(dataset.inputs_from), folder, progress_bar)
    files = _official_files(dataset, folder)
    if files:
        return list(files.paths)
    target = folder / dataset.name
    if not dataset.downloads and dataset.openml is None:
        raise MissingDataError(f"The official {dataset.name} is not in {target}. {how_to_get(dataset, folder)}")
    if dataset.downloads:
        require("pooch", "pooch", "data", f"downloading {dataset.name}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder, prefix=".fetching-") as scratch:
            downloaded = [_download(url, Path(scratch), progress_bar) for url in dataset.downloads]
            if dataset.openml is not None:
                downloaded.append(download_table(dataset.openml, Path(scratch, dataset.sources[0].files[0])))
            paths = _unpack_and_verify(dataset, downloaded, Path(scratch)).paths
            _move_files(Path(scratch), target)
            return [target / path.relative_to(scratch) for path in paths]
    except ErrataError:
        raise
    except OSError as error:
        raise StoreError(f"{dataset.name} cannot be downloaded to {target}: {error.strerror or error}") from error


def _official_files(dataset: Dataset, folder: Path) -> LocatedFiles | None:
    """The complete official files, if they are there. Files with other content are not overwritten."""
    try:
        files = locate(dataset, folder)
    except DataError:
        return None
    try:
        return files if files.source.complete and read_verified(dataset, files).complete else None
    except DataError as error:
        raise DataError(f"{error}. Move the file away and run the command again to download it") from error


def _download(url: str, folder: Path, progress_bar: ProgressBar | None) -> Path:
    """Download one file."""
    import pooch
    from requests import RequestException

    pooch.get_logger().setLevel("WARNING")
    name = url.rpartition("/")[2]
    files = pooch.create(folder, "", registry={name: None}, urls={name: url}, retry_if_failed=RETRIES)
    downloader = pooch.HTTPDownloader(
        progressbar=progress_bar(name) if progress_bar else False,
        chunk_size=CHUNK_BYTES,
        headers={"User-Agent": f"errata/{installed_version()}"},
        timeout=TIMEOUT,
    )
    try:
        return Path(files.fetch(name, downloader=downloader))
    except RequestException as error:
        raise DataError(f"{url} cannot be downloaded: {one_line(error)}") from error


def _unpack_and_verify(dataset: Dataset, downloaded: Sequence[Path], folder: Path) -> LocatedFiles:
    """The downloaded files, if they hold the complete official data. Archives are unpacked and deleted."""
    try:
        for path in downloaded:
            if path.name in dataset.archives:
                unpack(path, folder)
                path.unlink()
        files = locate(dataset, folder)
        complete = read_verified(dataset, files).complete
    except MissingDataError as error:
        raise DataError(f"The download does not contain {dataset.sources[0].files[0]}") from error
    except DataError as error:
        raise DataError(f"The download is not usable: {str(error).replace(f'{folder}{os.sep}', '')}") from error
    if not complete:
        raise DataError(f"The download {files.paths[0].name} is not the complete official data")
    return files


def _move_files(source: Path, target: Path) -> None:
    """Move every file below `source` to the same place below `target`. Existing files are replaced."""
    for path in sorted(source.rglob("*")):
        if not path.is_dir():
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)
