"""Access to users' files: errors that name the file, and text in any encoding, compressed or not."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, cast
from zipfile import BadZipFile

from errata.errors import DataError, ErrataError, MissingDataError
from errata.memory import check_fits
from errata.wording import one_line

READ_ERRORS = (OSError, EOFError, ValueError, zlib.error, BadZipFile)  # raised for truncated or damaged files
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
BLOCK_BYTES = 1 << 22
TABLE_FACTOR = 3.0  # the memory for a table, as a multiple of the size of its text


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
    if not path.exists():
        raise MissingDataError(f"{path} does not exist")
    if not path.is_file():
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
    """The encoding of a text file, and a remark if it is a guess. The whole file is decoded once, in blocks.

    Raises an error if its table would not fit into memory, or if the text is not what its byte order mark states.
    """
    with file_errors(path, kinds=(OSError, EOFError, zlib.error)), open_bytes(path) as file:
        blocks = _fitting_blocks(path, file)
        first = next(blocks)
        marked = next((encoding for mark, encoding in BYTE_ORDER_MARKS.items() if first.startswith(mark)), None)
        decoder = codecs.getincrementaldecoder(marked or "utf-8")()
        line = 1
        try:
            for block in chain([first], blocks):
                line += decoder.decode(block, final=not block).count("\n")
        except UnicodeDecodeError as error:
            if marked is not None:
                line += error.object[: error.start].decode(error.encoding, "replace").count("\n")
                stated = f"is not {error.encoding.upper()}, although the file begins with its byte order mark"
                raise DataError(f"{path}: line {line} {stated}. Save it as UTF-8") from error
            for _ in blocks:  # to check the size
                pass
            return "latin-1", [f"{path.name} is not UTF-8 and was read as Latin-1: check accented letters"]
    return marked or "utf-8", []


def _fitting_blocks(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """The blocks of a file, the last one empty. Raise an error as soon as the table would not fit into memory."""
    size = 0
    while True:
        block = file.read(BLOCK_BYTES)
        size += len(block)
        check_fits(TABLE_FACTOR * max(size, path.stat().st_size), f"the table in {path}")
        yield block
        if not block:
            return
