"""Opening of text files in any encoding, compressed or not."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from errata.errors import DataError
from errata.wording import one_line

READ_ERRORS = (OSError, EOFError, zlib.error)  # raised for truncated or damaged files
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
BLOCK_BYTES = 1 << 22


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The content of a file, decompressed if its suffix is .gz."""
    with path.open("rb") as file:
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
        with open_bytes(path) as file:
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
    except READ_ERRORS as error:
        raise DataError(f"{path} cannot be read: {one_line(error)}") from error
    return "utf-8", []
