"""Tables in text files, whose unchanged rows are copied character by character; the writers for .csv and .tsv."""

import csv
import gzip
import io
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

from errata.dynamics.files import replace_atomically
from errata.errors import DataError, InputError
from errata.readers.data_frames import unique_names
from errata.readers.file_access import encoding_of
from errata.readers.file_types import file_suffix
from errata.readers.formats.csv_files import CsvDialect, csv_dialect, text_rows, tsv_dialect
from errata.review.label_numbers import number_among
from errata.review.writers.label_writer import LabelEdit, LabelEdits, LabelKey, LabelWriter, Progress, WriterFactory

LINE_ENDS = "\r\n"


@dataclass(frozen=True)
class TextPiece:
    """A part of a text file.

    row: its row number, None outside the rows. separator: the text between this row and the row before, which is
    omitted with either of them. has_label: whether this part contains the label of the row. cells: the values of a row
    with separators.
    """

    text: str
    row: int | None = None
    separator: str = ""
    has_label: bool = True
    cells: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class TextTable(LabelWriter):
    """A table in a text file. label: the name of the column with the labels."""

    label: str

    @cached_property
    def encoding(self) -> str:
        """The encoding of the text."""
        return encoding_of(self.path)[0]

    @abstractmethod
    def pieces(self) -> Iterator[TextPiece]:
        """The whole file, cut into pieces."""

    @abstractmethod
    def label_text(self, piece: TextPiece) -> str:
        """The label of a row as it is written in the file."""

    @abstractmethod
    def replace_label(self, piece: TextPiece, label_text: str) -> str:
        """The text of the row with another label."""

    @abstractmethod
    def format_label(self, edit: LabelEdit) -> str:
        """How the label of a new class is written in the file."""

    @abstractmethod
    def is_label(self, label_text: str, label: Any) -> bool:
        """Whether text from the file stands for this label."""

    def check(self, edits: LabelEdits) -> None:
        """Refuse labels that the encoding of the file lacks."""
        for edit in edits.with_new_class:
            try:
                self.format_label(edit).encode(self.encoding)
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{self.path} is encoded as {self.encoding}, which cannot represent the label {edit.after!r}. "
                    "Convert the file to UTF-8 first."
                ) from error

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        """Write the copy, compressed if the original is."""
        label_texts = self._label_texts(edits)

        def write(file: BinaryIO) -> None:
            compressed = target.suffix.lower() == ".gz"
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) if compressed else nullcontext(file) as binary:
                text = io.TextIOWrapper(cast(BinaryIO, binary), self.encoding, newline="")
                text.writelines(self._corrected_texts(edits, label_texts))
                text.detach()  # flushes without closing the file

        replace_atomically(target, write)
        return []

    def _label_texts(self, edits: LabelEdits) -> dict[LabelKey, str]:
        """How each new label is written: as in its example row, or formatted if the class is new."""
        texts = {edit.label_key: self.format_label(edit) for edit in edits.with_new_class}
        examples = {edit.example: edit for edit in edits.relabelled if edit.example is not None}
        for piece in self.pieces() if examples else ():
            if piece.row in examples and piece.has_label:
                edit = examples.pop(piece.row)
                texts[edit.label_key] = self._checked_label(piece, edit.after)
                if not examples:
                    break
        return texts

    def _corrected_texts(self, edits: LabelEdits, label_texts: dict[LabelKey, str]) -> Iterator[str]:
        """The texts of all pieces that the copy contains, and the separators between them."""
        by_row: dict[int | None, LabelEdit] = {edit.row: edit for edit in edits.entries}
        after_row = False
        for piece in self.pieces():
            edit = by_row.get(piece.row)
            if edit is not None and piece.has_label:
                self._checked_label(piece, edit.before)
            if edit is not None and edits.drop:
                continue
            yield piece.separator if after_row else ""
            if edit is None or not piece.has_label:
                yield piece.text
            else:
                yield self.replace_label(piece, label_texts[edit.label_key])
            after_row = piece.row is not None

    def _checked_label(self, piece: TextPiece, expected: Any) -> str:
        """The label text of a row. Another label than expected means that the rows were cut in another way."""
        label_text = self.label_text(piece)
        if not self.is_label(label_text, expected):
            raise DataError(
                f"{self.path}: row {piece.row} is {piece.text.strip()!r}, which does not have the label {expected!r}. "
                "The quotes in the file are ambiguous."
            )
        return label_text


class CsvTable(TextTable):
    """Values with separators: commas, tabs or others."""

    @cached_property
    def dialect(self) -> CsvDialect:
        """Encoding, separator and quoting."""
        return (tsv_dialect if file_suffix(self.path).startswith(".tsv") else csv_dialect)(self.path)

    @cached_property
    def column(self) -> int:
        """The position of the labels."""
        with closing(text_rows(self.path, self.dialect)) as rows:
            header = next(cells for _, cells in rows if cells)
        return unique_names(header)[0].index(self.label)

    def pieces(self) -> Iterator[TextPiece]:
        """One piece per row. The header and empty lines have no row number."""
        row = -2
        for text, cells in text_rows(self.path, self.dialect):
            row += bool(cells)
            yield TextPiece(text, row if cells and row >= 0 else None, cells=cells)

    def label_text(self, piece: TextPiece) -> str:
        return piece.cells[self.column]

    def replace_label(self, piece: TextPiece, label_text: str) -> str:
        """The row written again, with quotes where needed and the same line end."""
        cells = [*piece.cells[: self.column], label_text, *piece.cells[self.column + 1 :]]
        end = piece.text[len(piece.text.rstrip(LINE_ENDS)) :]
        if not self.dialect.quoted:
            return self.dialect.separator.join(cells) + end
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=self.dialect.separator, lineterminator=end).writerow(cells)
        return text.getvalue()

    def read_label(self, text: str) -> Any:
        """A number if all labels are numbers and the text is one; otherwise the text."""
        number = number_among(text, self.samples.classes)
        return text if number is None else number

    def format_label(self, edit: LabelEdit) -> str:
        """The label as it was decided. A file without quotes cannot hold separators or line ends."""
        text = str(edit.after) if isinstance(edit.after, int) else edit.decision.new_label
        if not self.dialect.quoted and any(character in text for character in (self.dialect.separator, *LINE_ENDS)):
            raise InputError(f"{self.path} does not use quotes, so it cannot hold the label {text!r}")
        return text

    def is_label(self, label_text: str, label: Any) -> bool:
        """Numbers are compared as numbers: 1.50 is 1.5."""
        if isinstance(label, str):
            return label_text == label
        try:
            return bool(type(label)(label_text) == label)
        except ValueError:
            return False


WRITERS: dict[str, WriterFactory] = dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), CsvTable)
