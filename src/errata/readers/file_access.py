"""Access to users' files: errors that name the file, and text in any encoding, compressed or not."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast
from zipfile import BadZipFile

from errata.errors import DataError, ErrataError
from errata.wording import one_line

READ_ERRORS = (OSError, EOFError, ValueError, zlib.error, BadZipFile)  # raised for truncated or damaged files
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
BLOCK_BYTES = 1 << 22


@contextmanager
def file_errors(
    path: str | Path, problem: str = "cannot be read", kinds: tuple[type[Exception], ...] = READ_ERRORS
) -> Iterator[None]:
    """Turn errors of these kinds into a `DataError` that names the file and the problem."""
    try:
        yield
    except ErrataError:
        raise
    except kinds as error:
        reason = (isinstance(error, OSError) and error.strerror) or one_line(error).replace(str(path), "it")
        raise DataError(f"{path} {problem}: {reason}") from error


def regular_file(path: Path) -> Path:
    """The path, if it is that of a regular file. Reading a FIFO, a socket or a device could last forever."""
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is not a regular file")
    return path


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The content of a file, decompressed if its suffix is .gz."""
    with regular_file(path).open("rb") as file:
        if path.suffix.lower() == ".gz":
            with gzip.open(file) as content:
                yield cast(IO[bytes], content)
        else:
            yield file


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[IO[str]]:
    """The text of a file, decompressed if its suffix is .gz."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        yield text


def encoding_of(path: Path) -> tuple[str, list[str]]:
    """The encoding of a file, and a remark if it is a guess."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with file_errors(path, kinds=(OSError, EOFError, zlib.error)), open_bytes(path) as file:
            start = file.read(4)
            for mark, encoding in BYTE_ORDER_MARKS.items():
                if start.startswith(mark):
                    return encoding, []
            decoder.decode(start)
            while block := file.read(BLOCK_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "latin-1", [f"{path.name} is not UTF-8 and was read as Latin-1: check accented letters"]
    return "utf-8", []
