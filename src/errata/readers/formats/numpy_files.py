"""NumPy files: .npz with inputs and labels, .npy with inputs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from errata.dynamics.files import load_array, load_arrays
from errata.errors import InputError
from errata.readers.arrays import INPUT_NAMES, from_arrays, from_named
from errata.readers.data_frames import is_name
from errata.readers.file_access import regular_file
from errata.readers.file_types import ArrayReader
from errata.readers.user_data import UserData
from errata.wording import listed


def read_npz(path: Path, label: Any, id: Any) -> UserData:  # noqa: A002
    """Read a .npz file with inputs and labels. label, id: names of arrays in it, or arrays."""
    arrays = load_arrays(path)
    if not any(name in arrays for name in INPUT_NAMES):
        raise InputError(
            f"{path} has neither inputs ({', '.join(INPUT_NAMES)}) nor logits of a model (logits; the logarithm of "
            f"probabilities works too). It has {listed(arrays) or 'no arrays'}"
        )
    with _errors_with_path(path):
        return from_named(arrays, label, id, str(path))


def read_npy(path: Path, label: Any, id: Any) -> UserData:  # noqa: A002
    """Read a .npy file of inputs. label, id: paths of other .npy files, or arrays."""
    if label is None:
        raise InputError(f"{path} has no labels. Pass a .npy file of labels with `label=`")
    label, id = (  # noqa: A001
        load_array(regular_file(Path(values))) if is_name(values) else values for values in (label, id)
    )
    with _errors_with_path(path):
        return from_arrays(load_array(path, mapped=True), label, id)


@contextmanager
def _errors_with_path(path: Path) -> Iterator[None]:
    """Add the path of the file to errors about its arrays."""
    try:
        yield
    except InputError as error:
        raise (error if str(path) in str(error) else InputError(f"{path}: {error}")) from error.__cause__


ARRAY_READERS: dict[str, ArrayReader] = {".npz": read_npz, ".npy": read_npy}
