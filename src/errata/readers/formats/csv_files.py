"""CSV and TSV files. All values are read as text first, so that 007 does not become 7."""

import csv
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import DataError
from errata.readers.data_frames import frame_of
from errata.readers.file_access import READ_ERRORS, encoding_of, open_bytes, open_text
from errata.readers.file_types import TableContents, TableReader
from errata.readers.number_columns import LEADING_ZERO, MISSING_NUMBERS, NUMBER, SAMPLED_VALUES, WHOLE_NUMBER
from errata.wording import counted, one_line

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATORS = ",;\t|"
BLOCK_BYTES = 1 << 26  # a row must fit into a block


@dataclass(frozen=True)
class CsvDialect:
    """Encoding, separator and quoting of a file, and remarks on guesses."""

    encoding: str
    separator: str
    quoted: bool
    remarks: tuple[str, ...] = ()


def csv_dialect(path: Path) -> CsvDialect:
    """The dialect of a CSV file: separated by commas, or by another separator if the first line has no comma."""
    encoding, remarks = encoding_of(path)
    with open_text(path, encoding) as file:
        line = next((line for line in file if line.strip()), "")
    separator = "," if "," in line else max(SEPARATORS, key=line.count)
    return CsvDialect(encoding, separator, quoted=True, remarks=tuple(remarks))


def tsv_dialect(path: Path) -> CsvDialect:
    """The dialect of a TSV file. Quotes are ordinary characters, unless the header has quotes or rows are ragged."""
    encoding, remarks = encoding_of(path)
    dialect = CsvDialect(encoding, "\t", quoted=False, remarks=tuple(remarks))
    quoted = any('"' in name for name in _header(path, dialect)) or _first_ragged(path, dialect) is not None
    return replace(dialect, quoted=quoted)


def text_rows(path: Path, dialect: CsvDialect) -> Generator[tuple[str, list[str]], None, None]:
    """The text of each row, with its line end, and its values; an empty line has no values."""
    quoting: Any = csv.QUOTE_MINIMAL if dialect.quoted else csv.QUOTE_NONE
    with open_text(path, dialect.encoding) as file, _unlimited_values():
        lines: list[str] = []

        def collect_lines() -> Iterator[str]:
            for line in file:
                lines.append(line)
                yield line

        for row in csv.reader(collect_lines(), delimiter=dialect.separator, quoting=quoting):
            yield "".join(lines), row
            lines.clear()


def read_csv(path: Path) -> TableContents:
    """Read a CSV file."""
    return _read(path, csv_dialect(path), usual_separator=",")


def read_tsv(path: Path) -> TableContents:
    """Read a TSV file."""
    return _read(path, tsv_dialect(path), usual_separator="\t")


TABLE_READERS: dict[str, TableReader] = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".tsv": read_tsv,
    ".tsv.gz": read_tsv,
}


def _read(path: Path, dialect: CsvDialect, usual_separator: str) -> TableContents:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    encoding, separator, quoted, remarks = dialect.encoding, dialect.separator, dialect.quoted, list(dialect.remarks)
    names = _header(path, dialect)
    try:
        table = arrow_csv.read_csv(
            str(path),
            read_options=arrow_csv.ReadOptions(encoding=encoding.removesuffix("-sig"), block_size=BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(
                delimiter=separator, quote_char='"' if quoted else False, newlines_in_values=quoted
            ),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except (pa.ArrowException, *READ_ERRORS) as error:
        ragged = _first_ragged(path, dialect)
        raise DataError(ragged or f"{path} cannot be read as a table: {one_line(error)}") from error
    if quoted and _odd_quotes(path):
        ragged = _first_ragged(path, dialect)
        if ragged is not None:
            raise DataError(ragged)
    if separator != usual_separator:
        remarks.append(f"the values in {path.name} are separated by {separator!r}")
    frame = frame_of(pa.table([_typed(column) for column in table.columns], names=table.column_names))
    return TableContents(frame, remarks, decimal_comma=separator != ",")


def _header(path: Path, dialect: CsvDialect) -> list[str]:
    with closing(numbered_rows(path, dialect)) as rows:
        first = next(rows, None)
    if first is None:
        raise DataError(f"{path} is empty")
    return first[2]


def numbered_rows(path: Path, dialect: CsvDialect) -> Generator[tuple[int, int, list[str]], None, None]:
    """The numbers of the first and last line of each row, and its values; empty lines are skipped.

    Raises an error with the first line of a row that has an open quote, or text after a closing quote.
    """
    quoting: Any = csv.QUOTE_MINIMAL if dialect.quoted else csv.QUOTE_NONE
    with open_text(path, dialect.encoding) as file, _unlimited_values():
        reader = csv.reader(file, delimiter=dialect.separator, quoting=quoting, strict=True)
        line = 1
        try:
            for row in reader:
                if row:
                    yield line, reader.line_num, row
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path}: line {line}: {one_line(error)}. Check the quotes") from error


@contextmanager
def _unlimited_values() -> Iterator[None]:
    """Let Python's csv module read values of any length; its limit is shared by the whole process."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _first_ragged(path: Path, dialect: CsvDialect) -> str | None:
    """A message on the first row with more or fewer values than the header, or with a wrong quote; None if all fit."""
    width = 0
    try:
        for _, line, row in numbered_rows(path, dialect):
            width = width or len(row)
            if len(row) != width:
                return f"{path}: line {line} has {counted(len(row), 'value')}, but the first line has {width}"
    except DataError as error:
        return str(error)
    return None


def _odd_quotes(path: Path) -> bool:
    """Whether the number of quotes is odd, so that a quote may be left open."""
    with open_bytes(path) as file:
        return sum(block.count(b'"') for block in iter(lambda: file.read(1 << 22), b"")) % 2 == 1


def _typed(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Text as numbers if all present values are numbers; else as text, blank values missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    present = pc.invert(pc.is_in(trimmed, value_set=pa.array(MISSING_NUMBERS)))
    numbers = pc.if_else(present, trimmed, None)
    if _all_match(numbers, NUMBER) and not pc.any(pc.match_substring_regex(numbers, LEADING_ZERO)).as_py():
        unsigned = pc.utf8_ltrim(numbers, characters="+")
        if not _all_match(numbers, WHOLE_NUMBER):
            return pc.cast(unsigned, pa.float64())
        try:
            return pc.cast(unsigned, pa.int64())
        except pa.ArrowInvalid:  # too long for a number: a code
            pass
    return pc.if_else(pc.equal(trimmed, ""), None, column)


def _all_match(values: "pa.ChunkedArray", pattern: str) -> bool:
    """Whether there are values and all match the pattern. A few are tested first, which is fast for text."""
    import pyarrow.compute as pc

    present = values.drop_null()
    tests = (present.slice(0, SAMPLED_VALUES), present)
    return len(present) > 0 and all(pc.all(pc.match_substring_regex(some, pattern)).as_py() for some in tests)
