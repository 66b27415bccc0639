"""One door for what can be corrected, whatever form it has: the same samples with the same ids as in `errata find`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import MANIFEST
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.finding.sources import INFO, SPLITS, is_saved_dataset, open_source, saved_dataset
from errata.readers import UserData
from errata.readers.arrays import LABEL_NAMES
from errata.readers.opening import ARRAYS, TABLES, known_ending
from errata.readers.table_rows import LabelledRows, is_name, labelled_rows
from errata.review.applying.array_files import ArraysFile, LabelsFile
from errata.review.applying.csv_documents import open_csv, open_tsv
from errata.review.applying.edits import Original, Samples
from errata.review.applying.image_folders import ImageFolder
from errata.review.applying.json_documents import open_json, open_lines
from errata.review.applying.parquet_files import ParquetFile
from errata.review.applying.saved_datasets import SavedDataset
from errata.review.applying.text_files import Document, TextFile

Documents = dict[str, Callable[[Path, str], Document]]


def open_original(source: Any, label: Any, id: Any, link: bool) -> Original:  # noqa: A002
    """A file or a folder with labels. `label` and `id` are what `errata find` was given."""
    if not isinstance(source, str | Path):
        raise InputError("give the path of the data: a corrected copy is made of files and folders")
    if not all(given is None or is_name(given) for given in (label, id)):
        raise InputError("label and id must be names of columns or arrays, as a copy is made of the file they are in")
    path = Path(source).expanduser()
    if path.is_dir() and not any((path / name).is_file() for name in (MANIFEST, SPLITS, INFO)):
        if label is not None or id is not None:
            raise InputError(f"{path} is a folder of images: the class of an image is its folder, its id is its path")
        return ImageFolder.open(path, link)
    if link:
        raise InputError(f"--link is for folders of images, and {path} is none")
    if is_saved_dataset(path):
        names = [str(name) for name in (label, id) if name is not None]
        rows = labelled_rows(saved_dataset(path, names), label, id, str(path))
        return SavedDataset.open(path, str(label), _samples_of_rows(rows))
    if path.is_dir() or known_ending(path) in ARRAYS:
        return _arrays(path, label, open_source(path, label, None, id, False))
    return _table(path, label, id)


def _table(path: Path, label: Any, id: Any) -> Original:  # noqa: A002
    """A table. It may hold nothing but labels and ids, where a model was trained on what they belong to."""
    ending = known_ending(path)
    samples = _samples_of_rows(labelled_rows(TABLES[ending](path)[0], label, id, str(path)))
    if ending == ".parquet":
        return ParquetFile(path, samples, str(label))
    documents: Documents = {".csv": open_csv, ".tsv": open_tsv, ".json": open_json}
    return TextFile(path, samples, documents.get(ending.removesuffix(".gz"), open_lines)(path, str(label)))


def _arrays(path: Path, label: Any, opened: UserData | Dynamics) -> Original:
    if isinstance(opened, Dynamics):
        raise InputError(f"{path} holds what a model said about the data; give the data itself, to be corrected")
    samples = _samples(opened.ids, opened.labels, opened.rows, opened.classes)
    if known_ending(path) == ".npy":
        return LabelsFile(Path(label).expanduser(), samples)
    with np.load(path, allow_pickle=False) as arrays:
        names = LABEL_NAMES if label is None else (str(label),)
        return ArraysFile(path, samples, next(name for name in names if name in arrays.files))


def _samples_of_rows(rows: LabelledRows) -> Samples:
    return _samples(rows.ids, rows.encoded.labels, rows.encoded.rows, rows.encoded.classes)


def _samples(ids: NDArray[Any], labels: NDArray[Any], rows: NDArray[Any], classes: tuple[Any, ...]) -> Samples:
    given = [classes[number] for number in labels.tolist()]
    return Samples([str(id_) for id_ in ids.tolist()], given, rows.tolist(), classes)
