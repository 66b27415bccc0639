"""Tables in files, as data frames that keep the type of every value."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from errata.errors import DataError
from errata.readers.memory import check_fits
from errata.wording import one_line

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BROKEN = (OSError, EOFError, zlib.error)  # what reading raises where a file is cut short or damaged
_BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_AT_ONCE = 1 << 22
_WHOLE = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]


class Read(NamedTuple):
    """A table that was read, what a user should know of that, and whether `1,5` in it may be a number."""

    frame: "pd.DataFrame"
    remarks: list[str]
    decimal_comma: bool = False


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The content of a file, unpacked if it is packed."""
    with path.open("rb") as file:
        if path.suffix.lower() == ".gz":
            with gzip.open(file) as unpacked:
                yield cast(IO[bytes], unpacked)  # a type of its own, though it is one of these
        else:
            yield file


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[IO[str]]:
    """The text of a file, unpacked if it is packed."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        yield text


def encoding_of(path: Path) -> tuple[str, list[str]]:
    """How the text of a whole file is encoded, with a remark where that had to be guessed."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with open_bytes(path) as file:
            start = file.read(4)
            for mark, encoding in _BOMS.items():
                if start.startswith(mark):
                    return encoding, []
            decoder.decode(start)
            while block := file.read(_AT_ONCE):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "latin-1", [f"{path.name} is not UTF-8 and was read as Latin-1: look at accented letters"]
    except BROKEN as error:
        raise DataError(f"{path} cannot be read: {one_line(error)}") from error
    return "utf-8", []


def read_parquet(path: Path) -> Read:
    """A Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups)]
            check_fits(2.0 * sum(groups), f"the table in {path}")
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a whole Parquet file: {one_line(error)}") from error
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    return Read(frame_of(table.select(names)), [])


def frame_of(table: "pa.Table") -> "pd.DataFrame":
    """An Arrow table as a data frame in which a gap does not turn whole numbers into fractions."""
    import pandas as pd
    import pyarrow as pa

    whole = {getattr(pa, name.lower())(): getattr(pd, f"{name}Dtype")() for name in _WHOLE}
    types = {**whole, pa.bool_(): pd.BooleanDtype()}
    frame: pd.DataFrame = table.to_pandas(types_mapper=types.get, date_as_object=False, ignore_metadata=True)
    return frame
