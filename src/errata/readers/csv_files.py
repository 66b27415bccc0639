"""Tables in text files with separators. Every value is read as text first, so that 007 does not become 7."""

import csv
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import DataError
from errata.readers.file_types import BROKEN, Read, encoding_of, frame_of, open_bytes, open_text
from errata.readers.memory import check_fits
from errata.readers.numerals import FIRST_LOOK, LEADING_ZERO, MISSING_NUMBERS, NUMBER, WHOLE
from errata.wording import counted, one_line

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATORS = ",;\t|"
BLOCK_BYTES = 1 << 26  # a row must fit into a block


@dataclass(frozen=True)
class Layout:
    """How the text of a file is cut into values, with remarks where that had to be guessed."""

    encoding: str
    separator: str
    quoted: bool
    remarks: tuple[str, ...] = ()


def csv_layout(path: Path) -> Layout:
    """Values separated by commas, or by what the first line shows to be used instead."""
    encoding, remarks = encoding_of(path)
    return Layout(encoding, _separator(path, encoding, SEPARATORS), quoted=True, remarks=tuple(remarks))


def tsv_layout(path: Path) -> Layout:
    """Values separated by tabs. Quotes are taken as they are unless the file makes sense only otherwise."""
    encoding, remarks = encoding_of(path)
    layout = Layout(encoding, "\t", quoted=False, remarks=tuple(remarks))
    quoted = any('"' in name for name in _header(path, layout)) or _first_ragged(path, layout) is not None
    return replace(layout, quoted=quoted)


def read_csv(path: Path) -> Read:
    """A file of values separated by commas, or by what its first line shows to be used instead."""
    return _read(path, csv_layout(path), usual=",")


def read_tsv(path: Path) -> Read:
    """A file of values separated by tabs."""
    return _read(path, tsv_layout(path), usual="\t")


def text_rows(path: Path, layout: Layout) -> Generator[tuple[str, list[str]], None, None]:
    """Each row as it stands in the file, line end and all, and its values; an empty line has none."""
    quoting: Any = csv.QUOTE_MINIMAL if layout.quoted else csv.QUOTE_NONE
    with open_text(path, layout.encoding) as file, _long_values():
        lines: list[str] = []

        def noted() -> Iterator[str]:
            for line in file:
                lines.append(line)
                yield line

        for row in csv.reader(noted(), delimiter=layout.separator, quoting=quoting):
            yield "".join(lines), row
            lines.clear()


def _read(path: Path, layout: Layout, usual: str) -> Read:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    encoding, separator, quoted, remarks = layout.encoding, layout.separator, layout.quoted, list(layout.remarks)
    names = _header(path, layout)
    check_fits(3.0 * path.stat().st_size, f"the table in {path}")
    try:
        table = arrow_csv.read_csv(
            str(path),
            read_options=arrow_csv.ReadOptions(encoding=encoding.removesuffix("-sig"), block_size=BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(
                delimiter=separator, quote_char='"' if quoted else False, newlines_in_values=quoted
            ),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except (pa.ArrowException, *BROKEN) as error:
        ragged = _first_ragged(path, layout)
        raise DataError(ragged or f"{path} cannot be read as a table: {one_line(error)}") from error
    if quoted and _odd_quotes(path):
        cut = _first_ragged(path, layout)
        if cut is not None:
            raise DataError(cut)
    if separator != usual:
        remarks.append(f"values in {path.name} are separated by {separator!r}")
    frame = frame_of(pa.table([_typed(column) for column in table.columns], names=table.column_names))
    return Read(frame, remarks, decimal_comma=separator != ",")


def _separator(path: Path, encoding: str, candidates: str) -> str:
    """The first candidate, unless the first line holds none of it and more of another."""
    with open_text(path, encoding) as file:
        line = next((line for line in file if line.strip()), "")
    if candidates[0] in line:
        return candidates[0]
    return max(candidates, key=line.count)


def _header(path: Path, layout: Layout) -> list[str]:
    with closing(_rows(path, layout)) as rows:
        first = next(rows, None)
    if first is None:
        raise DataError(f"{path} is empty")
    return first[1]


def _rows(path: Path, layout: Layout) -> Generator[tuple[int, list[str]], None, None]:
    """The number of the line on which a row ends, and its values; empty lines are passed over."""
    quoting: Any = csv.QUOTE_MINIMAL if layout.quoted else csv.QUOTE_NONE
    with open_text(path, layout.encoding) as file, _long_values():
        reader = csv.reader(file, delimiter=layout.separator, quoting=quoting, strict=True)
        for row in reader:
            if row:
                yield reader.line_num, row


@contextmanager
def _long_values() -> Iterator[None]:
    """Let Python's reader take values of any length; its limit is shared by the whole process."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _first_ragged(path: Path, layout: Layout) -> str | None:
    """What is wrong with the first row that has more or fewer values than the header, or a quote left open."""
    line, width = 0, 0
    try:
        for line, row in _rows(path, layout):
            width = width or len(row)
            if len(row) != width:
                return f"{path}: line {line} has {counted(len(row), 'value')} where the first line has {width}"
    except csv.Error as error:
        return f"{path}: the row after line {line} is not whole: {error}"
    return None


def _odd_quotes(path: Path) -> bool:
    """Whether a quote may have been left open, so that one value swallowed the rest of the file."""
    with open_bytes(path) as file:
        return sum(block.count(b'"') for block in iter(lambda: file.read(1 << 22), b"")) % 2 == 1


def _typed(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Text as whole numbers or numbers if every value that is there is one; else as text, blank ones missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    present = pc.invert(pc.is_in(trimmed, value_set=pa.array(MISSING_NUMBERS)))
    numbers = pc.if_else(present, trimmed, None)
    if _all_match(numbers, NUMBER) and not pc.any(pc.match_substring_regex(numbers, LEADING_ZERO)).as_py():
        unsigned = pc.utf8_ltrim(numbers, characters="+")
        if not _all_match(numbers, WHOLE):
            return pc.cast(unsigned, pa.float64())
        try:
            return pc.cast(unsigned, pa.int64())
        except pa.ArrowInvalid:  # too long for a number: it is a code
            pass
    return pc.if_else(pc.equal(trimmed, ""), None, column)


def _all_match(values: "pa.ChunkedArray", pattern: str) -> bool:
    """Whether there are values and all match; the first few save looking at the rest of a column of text."""
    import pyarrow.compute as pc

    there = values.drop_null()
    if not len(there):
        return False
    looks = (there.slice(0, FIRST_LOOK), there)
    return all(pc.all(pc.match_substring_regex(some, pattern)).as_py() for some in looks)
