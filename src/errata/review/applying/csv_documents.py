"""Text files with separators, in pieces."""

import csv
import io
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from errata.errors import InputError
from errata.readers.csv_files import Layout, csv_layout, text_rows, tsv_layout
from errata.readers.table_rows import plain_names
from errata.review.applying.text_files import Piece

LINE_ENDS = "\r\n"


@dataclass(frozen=True)
class CsvDocument:
    """Rows of values; `column` is the place of the label among them."""

    path: Path
    layout: Layout
    column: int

    @classmethod
    def open(cls, path: Path, label: str, layout: Layout) -> "CsvDocument":
        """The file, whose columns are named as `errata find` names them."""
        with closing(text_rows(path, layout)) as rows:
            header = next(cells for _, cells in rows if cells)
        return cls(path, layout, plain_names(header)[0].index(label))

    @property
    def encoding(self) -> str:
        """How the text is encoded."""
        return self.layout.encoding

    def pieces(self) -> Iterator[Piece]:
        """The header and empty lines belong to no row."""
        row = -2
        for text, cells in text_rows(self.path, self.layout):
            row += bool(cells)
            yield Piece(text, row if cells and row >= 0 else None)

    def label(self, piece: Piece) -> str:
        """The value in the column of labels."""
        return self._cells(piece)[self.column]

    def relabelled(self, piece: Piece, label: str) -> str:
        """The row written anew, with quotes where they are needed; its line ends as before."""
        cells = self._cells(piece)
        cells[self.column] = label
        end = piece.text[len(piece.text.rstrip(LINE_ENDS)) :]
        if not self.layout.quoted:
            return self.layout.separator.join(cells) + end
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=self.layout.separator, lineterminator=end).writerow(cells)
        return text.getvalue()

    def written(self, value: Any) -> str:
        """A new class as its text."""
        text = str(value)
        if not self.layout.quoted and any(letter in text for letter in (self.layout.separator, *LINE_ENDS)):
            raise InputError(f"{self.path} has no quotes, so it cannot hold the label {text!r}")
        return text

    def says(self, label: str, value: Any) -> bool:
        """Numbers are compared as numbers: 1.50 is 1.5."""
        if isinstance(value, str):
            return label == value
        try:
            return bool(type(value)(label) == value)
        except ValueError:
            return False

    def _cells(self, piece: Piece) -> list[str]:
        quoting: Any = csv.QUOTE_MINIMAL if self.layout.quoted else csv.QUOTE_NONE
        lines = io.StringIO(piece.text, newline="")
        return next(csv.reader(lines, delimiter=self.layout.separator, quoting=quoting))


def open_csv(path: Path, label: str) -> CsvDocument:
    """A file of values separated by commas, or something else."""
    return CsvDocument.open(path, label, csv_layout(path))


def open_tsv(path: Path, label: str) -> CsvDocument:
    """A file of values separated by tabs."""
    return CsvDocument.open(path, label, tsv_layout(path))
