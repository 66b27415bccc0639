"""Writers copy a file or folder of the user with changed labels. One module per family of file formats.

Each module has a dictionary `WRITERS` from file suffixes to writers; they are collected here. To support another file
format, add a module to this package and a reader to `errata.readers`. Another package adds both with an entry point in
the group `errata.readers` that refers to a module with `TABLE_READERS` and `WRITERS`.
"""

import sys
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from errata.discovery import component_modules
from errata.dynamics.files import MANIFEST
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.finding.sources import DataSource
from errata.readers.data_frames import LabelledTable, is_name, labelled_table
from errata.readers.file_types import GROUP, file_suffix, table_readers
from errata.readers.saved_datasets import SavedDataset, is_saved_dataset
from errata.review.writers.arrow_tables import SavedDatasetWriter
from errata.review.writers.image_folders import ImageFolder
from errata.review.writers.label_writer import LabelledSamples, LabelWriter, WriterFactory, label_key

WRITERS: dict[str, WriterFactory] = {}
for _module in component_modules(sys.modules[__name__], GROUP):
    WRITERS |= getattr(_module, "WRITERS", {})


def open_writer(source: Any, label: Any, id: Any, link: bool) -> LabelWriter:  # noqa: A002
    """Read the samples of a file or folder with the same ids as `errata find`, and return the writer for it."""
    if not isinstance(source, str | Path):
        raise InputError("pass the path of the data: only files and folders can be copied")
    if not all(name is None or is_name(name) for name in (label, id)):
        raise InputError("label and id must be names of columns or arrays in the file, not the values themselves")
    path = Path(source).expanduser()
    saved = is_saved_dataset(path)
    images = path.is_dir() and not saved and not (path / MANIFEST).is_file()
    if link and not images:
        raise InputError(f"`link=True` works for folders of images only, and {path} is not one")
    if images and (label is not None or id is not None):
        raise InputError(
            f"{path} is a folder of images, whose classes are the subfolders and whose ids are the paths. "
            "Omit `label=` and `id=`."
        )
    if images:
        return ImageFolder.open(path, link)
    if saved:
        dataset = SavedDataset.open(path)
        columns = [str(name) for name in (label, id) if name is not None]
        table = labelled_table(dataset.frame(columns), label, id, str(path))
        return SavedDatasetWriter(path, _samples_of(table, label), str(label), dataset)
    suffix = "" if path.is_dir() else file_suffix(path)
    if suffix in table_readers():  # columns other than label and id are not needed
        table = labelled_table(table_readers()[suffix](path).frame, label, id, str(path))
        samples = _samples_of(table, label)
    else:
        data = DataSource(path, label, id=id).open()
        if isinstance(data, Dynamics):
            raise InputError(f"{path} contains the outputs of a model. Pass the data that the model was trained on.")
        labels = [data.classes[number] for number in data.labels.tolist()]
        samples = LabelledSamples(_texts(data.ids), labels, data.rows.tolist(), data.classes)
    if suffix not in WRITERS:
        raise InputError(f"Cannot write {suffix!r} files. Supported: {' '.join(WRITERS)}")
    return WRITERS[suffix](path, samples, None if label is None else str(label))


def _samples_of(table: LabelledTable, label: Any) -> LabelledSamples:
    """The samples of a table. Equal labels of different types, such as 1 and true, are one class only for `find`."""
    labels = table.frame[str(label)].iloc[table.encoded.rows].tolist()
    classes = {label_key(value): value for value in (*table.encoded.classes, *labels)}
    return LabelledSamples(_texts(table.ids), labels, table.encoded.rows.tolist(), tuple(classes.values()))


def _texts(ids: NDArray[Any]) -> list[str]:
    return [str(id_) for id_ in ids.tolist()]
