"""NumPy files: .npz with inputs and labels, .npy with inputs."""

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError, MissingDataError
from errata.memory import check_fits
from errata.readers.arrays import INPUT_NAMES, from_arrays, from_named
from errata.readers.data_frames import is_name
from errata.readers.file_access import file_errors
from errata.readers.file_types import ArrayReader
from errata.readers.user_data import UserData
from errata.wording import listed


def read_npz(path: Path, label: Any, id: Any) -> UserData:  # noqa: A002
    """Read a .npz file with inputs and labels. label, id: names of arrays in it, or arrays."""
    with file_errors(path), ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    check_fits(size, f"the arrays in {path}")
    with file_errors(path), np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if not any(name in arrays for name in INPUT_NAMES):
        raise InputError(
            f"{path} has neither inputs ({', '.join(INPUT_NAMES)}) nor logits of a model (logits; the logarithm of "
            f"probabilities works too). It has {listed(arrays) or 'no arrays'}"
        )
    return from_named(arrays, label, id, None, str(path))


def read_npy(path: Path, label: Any, id: Any) -> UserData:  # noqa: A002
    """Read a .npy file of inputs. label, id: paths of other .npy files, or arrays."""
    if label is None:
        raise InputError(f"{path} has no labels. Pass a .npy file of labels with `label=`")
    return from_arrays(_load(path), *(_load(Path(values)) if is_name(values) else values for values in (label, id)))


ARRAY_READERS: dict[str, ArrayReader] = {".npz": read_npz, ".npy": read_npy}


def _load(path: Path) -> NDArray[Any]:
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist")
    with file_errors(path):
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array
