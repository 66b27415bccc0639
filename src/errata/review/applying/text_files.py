"""Copies of text files: every row that does not change is copied as it stands, letter by letter."""

import gzip
import io
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

from errata.dynamics.files import replace_atomically
from errata.errors import DataError, InputError
from errata.review.applying.edits import Advance, Edits, Original


@dataclass(frozen=True)
class Piece:
    """A part of a file.

    row: the row that it is of, None where it is of none. gap: what stands between it and a row before. labelled:
    whether the label of the row stands in it.
    """

    text: str
    row: int | None = None
    gap: str = ""
    labelled: bool = True


class Document(Protocol):
    """A text file in pieces, in each of which a label can be read and replaced as it is written there."""

    @property
    def encoding(self) -> str:
        """How the text is encoded."""

    def pieces(self) -> Iterator[Piece]:
        """All of the file, from beginning to end."""

    def label(self, piece: Piece) -> str:
        """The label of a row, as it is written."""

    def relabelled(self, piece: Piece, label: str) -> str:
        """The row with another label, given as it is to be written."""

    def written(self, value: Any) -> str:
        """How a new class is written."""

    def says(self, label: str, value: Any) -> bool:
        """Whether a label as it is written is that class."""


@dataclass(frozen=True, eq=False)
class TextFile(Original):
    """A table in a text file."""

    document: Document

    def check(self, edits: Edits) -> None:
        """Refuse labels that cannot be written in the encoding of the file."""
        for value in edits.fresh:
            try:
                self.document.written(value).encode(self.document.encoding)
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{self.path} is read as {self.document.encoding}, which cannot write the label {value!r}; "
                    "convert the file to UTF-8 first"
                ) from error

    def write(self, edits: Edits, target: Path, advance: Advance) -> list[str]:
        """Write the copy, packed if the original is."""
        spelled = self._spelled({change.donor: change.after for change in edits.relabelled.values()})

        def write(file: BinaryIO) -> None:
            packed = target.suffix.lower() == ".gz"
            with gzip.GzipFile("", "wb", fileobj=file) if packed else nullcontext(file) as binary:
                text = io.TextIOWrapper(cast(BinaryIO, binary), self.document.encoding, newline="")
                self._write(edits, spelled, text)
                text.detach()  # which writes what is left and closes nothing

        replace_atomically(target, write)
        return []

    def _spelled(self, donors: dict[int | None, Any]) -> dict[int | None, str]:
        """The labels of these rows, as they are written."""
        labels: dict[int | None, str] = {}
        wanted = donors.keys() - {None}
        for piece in self.document.pieces():
            if len(labels) == len(wanted):
                break
            if piece.row in wanted and piece.labelled:
                labels[piece.row] = self._label(piece, donors[piece.row])
        return labels

    def _write(self, edits: Edits, spelled: dict[int | None, str], out: IO[str]) -> None:
        changes = {change.row: change for change in edits.changes}
        after_row = False
        for piece in self.document.pieces():
            change = None if piece.row is None else changes.get(piece.row)
            if change is not None and piece.labelled:
                self._label(piece, change.before)
            if change is not None and edits.drop:
                continue
            out.write(piece.gap if after_row else "")
            if change is None or not piece.labelled:
                out.write(piece.text)
            else:
                new = self.document.written(change.after) if change.donor is None else spelled[change.donor]
                out.write(self.document.relabelled(piece, new))
            after_row = piece.row is not None

    def _label(self, piece: Piece, expected: Any) -> str:
        """The label of a row, as it is written. It must be the one expected, or another row is meant."""
        label = self.document.label(piece)
        if not self.document.says(label, expected):
            raise DataError(
                f"{self.path}: row {piece.row} reads {piece.text.strip()!r}, which does not have the label "
                f"{expected!r}; the quotes of the file can be read in two ways"
            )
        return label
