"""Reading pickled dictionaries of arrays safely.

An ordinary unpickler imports and calls whatever the file names. This one allows only the functions that numpy arrays
need.
"""

import codecs
import io
import pickle
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from errata.errors import DataError
from errata.readers.file_access import READ_ERRORS, file_errors
from errata.wording import one_line

_reconstruct = np.empty(0).__reduce__()[0]
ALLOWED = {
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("_codecs", "encode"): codecs.encode,
}


class _ForbiddenNameError(Exception):
    """A pickle names a function or class that is not allowed."""


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """The allowed object with that name."""
        if (module, name) not in ALLOWED:
            raise _ForbiddenNameError(f"{module}.{name}")
        return ALLOWED[module, name]


def unpickle(pickled: bytes, name: str | Path) -> dict[str, Any]:
    """The dictionary in a pickle, with keys as text. name: how messages name the pickle."""
    try:
        content = _ArrayUnpickler(io.BytesIO(pickled), encoding="latin1").load()
    except _ForbiddenNameError as error:
        raise DataError(f"{name} is refused: it calls {one_line(error)}, which arrays of numbers do not need") from None
    except Exception as error:  # damaged pickles raise many kinds of errors
        raise DataError(f"{name} is not a valid pickle of numbers: {one_line(error)}") from error
    if not isinstance(content, dict):
        raise DataError(f"{name} holds a {type(content).__name__}, not a dictionary")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}


def read_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a pickle file."""
    with file_errors(path):
        pickled = path.read_bytes()
    return unpickle(pickled, path)


def read_torch(path: Path) -> dict[str, Any]:
    """The dictionary of arrays that `torch.save` wrote."""
    with file_errors(path, "is not a valid torch archive", (*READ_ERRORS, RuntimeError)), ZipFile(path) as archive:
        pickled = [archive.read(name) for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(pickled) != 1:
        raise DataError(f"{path} is not a torch archive: it holds {len(pickled)} files named data.pkl, not one")
    return unpickle(pickled[0], path)
