"""JSON files, in pieces: of a row that changes, nothing but its label is written anew."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from errata.errors import DataError
from errata.readers.file_types import encoding_of, open_text
from errata.review.applying.text_files import Piece

Span = tuple[int, int]
_SPACES = tuple(" \t\r\n")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class JsonLines:
    """An object a line, with the label under `key`."""

    path: Path
    encoding: str
    key: str

    def pieces(self) -> Iterator[Piece]:
        """Blank lines belong to no row."""
        row = -1
        with open_text(self.path, self.encoding) as file:
            for line in file:
                blank = not line.strip()
                row += not blank
                yield Piece(line, None if blank else row)

    def label(self, piece: Piece) -> str:
        """The value under the key, as it is written."""
        start, end = self._span(piece)
        return piece.text[start:end]

    def relabelled(self, piece: Piece, label: str) -> str:
        """The row with another value under the key."""
        start, end = self._span(piece)
        return piece.text[:start] + label + piece.text[end:]

    def written(self, value: Any) -> str:
        """A new class as JSON."""
        return json.dumps(value, ensure_ascii=False)

    def says(self, label: str, value: Any) -> bool:
        """Whether the JSON is that value."""
        return bool(json.loads(label) == value)

    def _span(self, piece: Piece) -> Span:
        """Where the value under the key stands; of a key that is there twice the last one counts."""
        spans = dict(_members(piece.text, piece.text.index("{")))
        if self.key not in spans:
            raise DataError(f"{self.path}: row {piece.row} has no {self.key!r}")
        return spans[self.key]


@dataclass(frozen=True)
class JsonRecords(JsonLines):
    """A list of objects."""

    text: str = field(repr=False)

    def pieces(self) -> Iterator[Piece]:
        """Brackets belong to no row."""
        yield from _list_pieces(self.text, (0, len(self.text)), self.text.index("["))


@dataclass(frozen=True)
class JsonColumns(JsonLines):
    """An object of lists that are equally long."""

    text: str = field(repr=False)

    def pieces(self) -> Iterator[Piece]:
        """The items of every list belong to the rows, and those of one are the labels."""
        before = 0
        for key, (start, end) in _members(self.text, self.text.index("{")):
            for piece in _list_pieces(self.text, (before, end), start):
                yield replace(piece, labelled=key == self.key)
            before = end
        yield Piece(self.text[before:])

    def _span(self, piece: Piece) -> Span:
        return 0, len(piece.text)


def open_lines(path: Path, label: str) -> JsonLines:
    """A file with an object a line."""
    return JsonLines(path, encoding_of(path)[0], label)


def open_json(path: Path, label: str) -> JsonLines:
    """A list of objects, an object of lists, or an object a line after all."""
    encoding = encoding_of(path)[0]
    with open_text(path, encoding) as file:
        text = file.read()
    try:
        content = json.loads(text)
    except json.JSONDecodeError:
        return JsonLines(path, encoding, label)
    return (JsonColumns if isinstance(content, dict) else JsonRecords)(path, encoding, label, text)


def _list_pieces(text: str, span: Span, bracket: int) -> Iterator[Piece]:
    """The text in a span, cut into the items of the list that begins at `bracket` and what stands around them."""
    spans = _items(text, bracket)
    at, end = span
    for row, (start, stop) in enumerate(spans):
        if row == 0:
            yield Piece(text[at:start])
        yield Piece(text[start:stop], row, "" if row == 0 else text[at:start])
        at = stop
    yield Piece(text[at:end])


def _members(text: str, brace: int) -> Iterator[tuple[str, Span]]:
    """The keys of the object that begins at `brace`, and where the value of each stands."""
    at = _past_space(text, brace + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _past_space(text, _past_space(text, at) + 1)  # past the colon
        _, end = _DECODER.raw_decode(text, at)
        yield key, (at, end)
        at = _past_comma(text, end)


def _items(text: str, bracket: int) -> Iterator[Span]:
    """Where each item stands of the list that begins at `bracket`."""
    at = _past_space(text, bracket + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _past_comma(text, end)


def _past_comma(text: str, at: int) -> int:
    at = _past_space(text, at)
    return _past_space(text, at + 1) if text[at] == "," else at


def _past_space(text: str, at: int) -> int:
    while text[at : at + 1] in _SPACES:
        at += 1
    return at
