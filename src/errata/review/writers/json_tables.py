"""JSON files. Only the label itself is replaced; the rest of the text stays the same."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from errata.errors import DataError
from errata.readers.file_access import open_text
from errata.review.label_numbers import BOOLEANS, number_among
from errata.review.writers.label_writer import LabelEdit, LabelledSamples, WriterFactory
from errata.review.writers.text_tables import TextPiece, TextTable

Span = tuple[int, int]
_SPACES = tuple(" \t\r\n")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, eq=False)
class JsonLines(TextTable):
    """One object per line; `label` is a key."""

    def pieces(self) -> Iterator[TextPiece]:
        """One piece per line. Blank lines have no row number."""
        row = -1
        with open_text(self.path, self.encoding) as file:
            for line in file:
                blank = not line.strip()
                row += not blank
                yield TextPiece(line, None if blank else row)

    def label_text(self, piece: TextPiece) -> str:
        start, end = self._label_span(piece)
        return piece.text[start:end]

    def replace_label(self, piece: TextPiece, label_text: str) -> str:
        start, end = self._label_span(piece)
        return piece.text[:start] + label_text + piece.text[end:]

    def read_label(self, text: str) -> Any:
        """A number if all labels are numbers and the text is one; true or false if some labels are; else the text."""
        word, classes = text.strip().casefold(), self.samples.classes
        if word in BOOLEANS and any(isinstance(value, bool) for value in classes):
            return BOOLEANS[word]
        number = number_among(text, classes)
        return text if number is None else number

    def format_label(self, edit: LabelEdit) -> str:
        return json.dumps(edit.after, ensure_ascii=False)

    def is_label(self, label_text: str, label: Any) -> bool:
        return bool(json.loads(label_text) == label)

    def _label_span(self, piece: TextPiece) -> Span:
        """Start and end of the label. If the key is repeated, the last one counts, as in `json.loads`."""
        spans = dict(_values(piece.text, piece.text.index("{")))
        if self.label not in spans:
            raise DataError(f"{self.path}: row {piece.row} has no key {self.label!r}")
        return spans[self.label]


@dataclass(frozen=True, eq=False)
class JsonRecords(JsonLines):
    """A list of objects. text: the whole file."""

    text: str = field(repr=False)

    def pieces(self) -> Iterator[TextPiece]:
        """One piece per object. Brackets and spaces have no row number."""
        return _list_pieces(self.text, 0, self.text.index("["), len(self.text))


class JsonColumns(JsonRecords):
    """An object of equally long lists, one per column."""

    def pieces(self) -> Iterator[TextPiece]:
        """One piece per item of each list."""
        end_before = 0
        for key, (start, end) in _values(self.text, self.text.index("{")):
            for piece in _list_pieces(self.text, end_before, start, end):
                yield replace(piece, has_label=key == self.label)
            end_before = end
        yield TextPiece(self.text[end_before:])

    def _label_span(self, piece: TextPiece) -> Span:
        return 0, len(piece.text)


def json_table(path: Path, samples: LabelledSamples, label: str) -> JsonLines:
    """The writer for a .json file: a list of objects, an object of lists, or one object per line."""
    lines = JsonLines(path, samples, label)
    with open_text(path, lines.encoding) as file:
        text = file.read()
    try:
        content = json.loads(text)
    except json.JSONDecodeError:
        return lines
    return (JsonColumns if isinstance(content, dict) else JsonRecords)(path, samples, label, text)


WRITERS: dict[str, WriterFactory] = {
    ".json": json_table,
    **dict.fromkeys((".jsonl", ".jsonl.gz", ".ndjson"), JsonLines),
}


def _list_pieces(text: str, start: int, bracket: int, end: int) -> Iterator[TextPiece]:
    """Cut text[start:end] into the items of the list that begins at `bracket`, and the text around them."""
    at = start
    for row, (_, (item_start, item_end)) in enumerate(_values(text, bracket)):
        if row == 0:
            yield TextPiece(text[at:item_start])
        yield TextPiece(text[item_start:item_end], row, "" if row == 0 else text[at:item_start])
        at = item_end
    yield TextPiece(text[at:end])


def _values(text: str, start: int) -> Iterator[tuple[str | None, Span]]:
    """The key (None in a list) and the span of each value of the object or list that begins at `start`."""
    at = _skip_spaces(text, start + 1)
    while text[at] not in "]}":
        key = None
        if text[start] == "{":
            key, at = _DECODER.raw_decode(text, at)
            at = _skip_spaces(text, _skip_spaces(text, at) + 1)  # after the colon
        _, end = _DECODER.raw_decode(text, at)
        yield key, (at, end)
        at = _skip_spaces(text, end)
        if text[at] == ",":
            at = _skip_spaces(text, at + 1)


def _skip_spaces(text: str, at: int) -> int:
    while text[at : at + 1] in _SPACES:
        at += 1
    return at
