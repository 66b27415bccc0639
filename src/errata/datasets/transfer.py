"""Bring a file here over HTTP, going on where an earlier attempt stopped."""

import codecs
import contextlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, responses
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from errata.errors import DataError
from errata.version import installed_version

TIMEOUT = 30.0  # seconds without an answer, or without another byte
ATTEMPTS = 3  # in a row that bring nothing new
PAUSE = 0.5  # seconds, doubled after every attempt that brought nothing new
_BLOCK = 1 << 16
_PASSING = (408, 429, 500, 502, 503, 504)  # what a server says that may be well again in a moment
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_PAGE_SIGNS = (b"<!doctype html", b"<html")


@dataclass(frozen=True)
class Arrived:
    """How many bytes of a file are here, of how many, where the server says so."""

    name: str
    bytes: int
    total: int | None


Report = Callable[[Arrived], object]


class _CutError(Exception):
    """A transfer that stopped before its end and may be tried again; the words follow the URL in a sentence."""


@dataclass(frozen=True)
class _Version:
    """Which file it is that part of has come: where from, the server's mark for its content, its size."""

    url: str
    mark: str | None
    total: int | None


def transfer(url: str, path: Path, report: Report) -> None:
    """Bring what is at `url` to `path`, unless it is there; until it is whole, the bytes are in NAME.part."""
    if path.exists():
        return
    part = _Part(url, path)
    try:
        if not part.whole:
            _receive_all(part, report)
    except BaseException:
        if not (part.whole or part.mark):  # bytes that nothing can be added to
            part.drop()
        raise
    if not part.size:
        part.drop()
        raise DataError(f"{url} gave an empty file instead of {path.name}")
    if _is_page(part.path):
        part.drop()
        raise DataError(f"{url} gave a web page instead of {path.name}")
    part.finish()


class _Part:
    """The bytes that have come so far, in NAME.part, and which version of the file they are of, in NAME.part.json."""

    def __init__(self, url: str, path: Path) -> None:
        self.url = url
        self.goal = path
        self.path = path.with_name(f"{path.name}.part")
        self._note = path.with_name(f"{path.name}.part.json")
        self.version = self._noted()

    def _noted(self) -> _Version | None:
        try:
            version = _Version(**json.loads(self._note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):  # no note, or one that was cut short: the bytes are of no use
            return None
        return version if version.url == self.url else None

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def whole(self) -> bool:
        return self.version is not None and self.size == self.version.total

    @property
    def mark(self) -> str | None:
        """What the server knows this version by; None where nothing can be added to what has come."""
        return self.version.mark if self.version and self.size else None

    def begin(self, version: _Version) -> None:
        """Start over with a version of the file."""
        self.path.write_bytes(b"")  # before the note: never may it speak of bytes of another version
        self._note.write_text(json.dumps(asdict(version)), encoding="utf-8")
        self.version = version

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)
        self.version = None

    def finish(self) -> None:
        self.path.replace(self.goal)
        self._note.unlink(missing_ok=True)

    def say(self, reason: _CutError) -> str:
        """One sentence about why the file is not here, and what running it again does."""
        if not self.size:
            return f"{self.url} {reason}"
        total = self.version.total if self.version else None
        of_total = f" of {total:,}" if total is not None else ""
        then = "goes on from there" if self.mark else "starts over"
        return f"{self.url} {reason}: {self.size:,}{of_total} bytes of {self.goal.name} came; running it again {then}"


def _receive_all(part: _Part, report: Report) -> None:
    fruitless, most = 0, part.size
    while True:
        try:
            return _receive(part, report)
        except _CutError as reason:
            fruitless = 0 if part.size > most else fruitless + 1
            most = max(most, part.size)
            if fruitless == ATTEMPTS:
                raise DataError(part.say(reason)) from reason
            time.sleep(PAUSE * 2**fruitless)


def _receive(part: _Part, report: Report) -> None:
    """One request, for all of the file or for what is still to come."""
    with contextlib.closing(_answer(part)) as response:
        _agree(part, response)
        assert part.version is not None
        done, total = part.size, part.version.total
        report(Arrived(part.goal.name, done, total))
        with part.path.open("ab") as file:
            while block := _next_block(response):
                file.write(block)
                done += len(block)
                report(Arrived(part.goal.name, done, total))
    if total is not None and done < total:
        raise _CutError("broke off")


def _answer(part: _Part) -> HTTPResponse:
    headers = {"User-Agent": f"errata/{installed_version()}"}
    if part.mark:
        headers |= {"Range": f"bytes={part.size}-", "If-Range": part.mark}
    try:
        response: HTTPResponse = urlopen(Request(part.url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.drop()
            raise _CutError("has another file than before") from error
        # Not error.reason: that is whatever the server likes, or urllib's own paragraph about redirects.
        phrase = responses.get(error.code, "without a reason")
        sentence = "redirects to nowhere" if 300 <= error.code < 400 else f"answered {error.code} {phrase}"
        if error.code in _PASSING:
            raise _CutError(sentence) from error
        raise DataError(f"{part.url} {sentence}") from error
    except (OSError, HTTPException) as error:
        raise _CutError(f"cannot be reached: {_reason(error)}") from error
    return response


def _agree(part: _Part, response: HTTPResponse) -> None:
    """Keep the bytes that have come if the answer goes on with them; else start over."""
    headers = response.headers
    if response.status != HTTPStatus.PARTIAL_CONTENT:
        part.begin(_Version(part.url, _mark(headers), response.length))
        return
    span = _CONTENT_RANGE.match(headers.get("Content-Range", ""))
    if part.version is None or span is None or not _goes_on(part, part.version, headers, span[1], span[2]):
        part.drop()
        raise _CutError("has another file than before")


def _goes_on(part: _Part, version: _Version, headers: Message, start: str, total: str) -> bool:
    # Not every server that knows ranges heeds If-Range, and not every answer repeats the date.
    field = "ETag" if version.mark and version.mark.startswith('"') else "Last-Modified"
    same_mark = headers.get(field, version.mark) == version.mark
    same_total = total == "*" or version.total is None or int(total) == version.total
    return same_mark and same_total and int(start) == part.size


def _mark(headers: Message) -> str | None:
    """A strong ETag, else the date; a weak ETag does not promise the same bytes."""
    tag: str | None = headers.get("ETag")
    return tag if tag and tag.startswith('"') else headers.get("Last-Modified")


def _next_block(response: HTTPResponse) -> bytes:
    try:
        return response.read1(_BLOCK)
    except (OSError, HTTPException) as error:
        raise _CutError("broke off") from error


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(512).removeprefix(codecs.BOM_UTF8).lstrip().lower()
    return start.startswith(b"<") and any(sign in start for sign in _PAGE_SIGNS)
