"""Malformed folders of images: damaged files, what is no file, unusual pixels, strange names, unreadable folders."""

import io
import os
import socket
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from torture import visible_images
from torture.cases import Case, Expected, WrongResultError
from torture.hostile import read_and_rank, rows_are
from torture.scenarios import write_images
from torture.visible_images import encoded

COUNT = 24  # images that scenarios.write_images writes
Change = Callable[[Path], object]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png_of(width: int, height: int, rows: bytes = b"", *extra: bytes) -> bytes:
    """A PNG file with this size in its header and these compressed rows."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(extra) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _noise() -> bytes:
    return encoded(np.random.default_rng(0).integers(0, 255, (32, 32, 3)).astype(np.uint8))


def _jpeg(**options: Any) -> bytes:
    return encoded(np.random.default_rng(0).integers(0, 255, (8, 8, 3)).astype(np.uint8), form="jpeg", **options)


def _file(name: str, content: bytes | Callable[[], bytes]) -> Change:
    return lambda root: (root / "dark" / name).write_bytes(content() if callable(content) else content)


def _socket(root: Path) -> None:
    here = Path.cwd()
    os.chdir(root / "dark")  # the path of a socket must be short
    try:
        socket.socket(socket.AF_UNIX).bind("x.png")
    finally:
        os.chdir(here)


def _link(target: str, name: str = "x.png") -> Change:
    return lambda root: (root / "dark" / name).symlink_to(target)


def _animated() -> bytes:
    from PIL import Image

    frames = [Image.fromarray(np.full((8, 8, 3), shade, np.uint8)) for shade in (10, 90)]
    sink = io.BytesIO()
    frames[0].save(sink, "gif", save_all=True, append_images=frames[1:])
    return sink.getvalue()


def _with_exif(orientation: int) -> bytes:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = orientation
    return _jpeg(exif=exif.tobytes())


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n(x) show\nshowpage\n%%EOF\n"
BAD_FILES: dict[str, Change] = {
    "zero bytes": _file("x.png", b""),
    "one byte": _file("x.png", b"\x89"),
    "text": _file("x.png", b"not found"),
    "HTML": _file("x.jpg", b"<html>404</html>"),
    "only the signature of PNG": _file("x.png", b"\x89PNG\r\n\x1a\n"),
    "a PNG file cut in half": _file("x.png", lambda: _noise()[:1500]),
    "a PNG file without its last rows": _file("x.png", lambda: _noise()[:-800]),
    "a JPEG file cut in half": _file("x.jpg", lambda: _jpeg()[: len(_jpeg()) // 2]),
    "a JPEG file that is only a header": _file("x.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"),
    "a WebP file cut": _file("x.webp", lambda: encoded(form="webp")[:-20]),
    "a TIFF file cut": _file("x.tif", lambda: encoded(form="tiff")[:-150]),
    "a TIFF file with a directory that refers to itself": _file("x.tif", b"II*\0\x08\0\0\0\0\0\x08\0\0\0"),
    "a BMP file with a lying size": _file(
        "x.bmp", lambda: encoded(form="bmp")[:18] + struct.pack("<ii", 50000, 50000) + encoded(form="bmp")[26:]
    ),
    "a GIF file cut": _file("x.gif", lambda: _animated()[:40]),
    "a wrong checksum": _file("x.png", lambda: encoded().replace(b"IHDR", b"IHDX")),
    "a width of zero": _file("x.png", _png_of(0, 8)),
    "a decompression bomb of 40,000 × 40,000 pixels": _file("x.png", lambda: _png_of(40000, 40000, bytes(1000))),
    "a bomb in a text chunk": _file(
        "x.png", lambda: _png_of(8, 8, bytes(200), _chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(90_000_000))))
    ),
    "PostScript": _file("x.png", POSTSCRIPT),
    "PostScript named .jpg": _file("x.jpg", POSTSCRIPT),
    "SVG": _file("x.png", b'<svg xmlns="http://www.w3.org/2000/svg"/>'),
    "PDF": _file("x.png", b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\n"),
    "FITS": _file("x.png", b"SIMPLE  =                    T" + b" " * 2850),
    "an archive": _file("x.png", b"PK\x03\x04" + bytes(100)),
    "a FIFO": lambda root: os.mkfifo(root / "dark" / "x.png"),
    "a socket": _socket,
    "a link to /dev/zero": _link("/dev/zero"),
    "a link to /dev/stdin": _link("/dev/stdin"),
    "a link to /dev/null": _link("/dev/null"),
    "a broken link": _link("nowhere.png"),
    "a link to itself": _link("x.png"),
    "a folder named like an image": lambda root: (root / "dark" / "x.png").mkdir(),
}
READ_ANYWAY = ("a folder named like an image", "a bomb in a text chunk", "a wrong checksum")  # may be read or refused

GOOD_FILES: dict[str, tuple[Change, Expected, int]] = {
    "CMYK": (_file("x.jpg", lambda: encoded(mode="CMYK", form="jpeg")), "read", COUNT + 1),
    "one bit per pixel": (_file("x.png", lambda: encoded(mode="1")), "read", COUNT + 1),
    "floating point": (_file("x.tif", lambda: encoded(np.ones((8, 8), np.float32), form="tiff")), "either", COUNT + 1),
    "an animation": (_file("x.gif", _animated), "read", COUNT + 1),
    "an animated PNG": (
        _file("x.png", lambda: _png_of(8, 8, bytes(200), _chunk(b"acTL", struct.pack(">II", 2, 0)))),
        "either",
        COUNT + 1,
    ),
    "EXIF that turns the image": (_file("x.jpg", lambda: _with_exif(6)), "read", COUNT + 1),
    "EXIF with an unknown orientation": (_file("x.jpg", lambda: _with_exif(99)), "read", COUNT + 1),
    "damaged EXIF": (_file("x.jpg", lambda: _jpeg(exif=b"Exif\0\0II*\0\xff\xff\xff\xff")), "read", COUNT + 1),
    "a damaged colour profile": (_file("x.png", lambda: encoded(icc_profile=b"garbage")), "read", COUNT + 1),
    "JPEG named .png": (_file("x.png", _jpeg), "read", COUNT + 1),
    "garbage after the end": (_file("x.png", lambda: encoded() + b"garbage"), "read", COUNT + 1),
    "one pixel": (_file("x.png", lambda: encoded(np.zeros((1, 1, 3), np.uint8))), "either", COUNT + 1),
    "8,000 × 1 pixels": (_file("x.png", lambda: encoded(np.zeros((1, 8000, 3), np.uint8))), "either", COUNT + 1),
    "a link to another image": (_link("../bright/01.png"), "either", COUNT + 1),
    "a link to the folder above": (_link("..", "loop"), "read", COUNT),
    "a hidden file": (_file(".x.png", b"text"), "read", COUNT),
    "files of a file manager": (_file("Thumbs.db", b"text"), "read", COUNT),
    "a suffix in capitals": (_file("X.PNG", lambda: encoded()), "read", COUNT + 1),
    "a name with a line end": (_file("a\nb.png", lambda: encoded()), "read", COUNT + 1),
    "a name with quotes and tags": (_file("\"'<script>&,;.png", lambda: encoded()), "read", COUNT + 1),
    "a name with other letters": (_file("čeština ☃ 犬.png", lambda: encoded()), "read", COUNT + 1),
    "a name that starts with a formula": (_file("=1+1.png", lambda: encoded()), "read", COUNT + 1),
    "a name of 255 bytes": (_file("x" * 251 + ".png", lambda: encoded()), "read", COUNT + 1),
    "a name with a percent sign and a hash": (_file("50%20#x?.png", lambda: encoded()), "read", COUNT + 1),
    "a name that is not UTF-8": (_file(os.fsdecode(b"\xff\xfe.png"), lambda: encoded()), "either", COUNT + 1),
    "a class that is not UTF-8": (lambda root: _class(root, os.fsdecode(b"\xff")), "either", COUNT + 1),
    "a class with a line end": (lambda root: _class(root, "a\nb"), "read", COUNT + 1),
    "a class with a formula and tags": (lambda root: _class(root, "=<b>&"), "read", COUNT + 1),
    "classes that differ in case": (lambda root: _class(root, "DARK"), "read", COUNT + 1),
    "an empty class folder": (lambda root: (root / "empty").mkdir(), "read", COUNT),
    "images outside of classes": (lambda root: (root / "x.png").write_bytes(encoded()), "read", COUNT),
    "a class that is a broken link": (lambda root: (root / "gone").symlink_to("nowhere"), "either", COUNT),
    "a class that is a link to itself": (lambda root: (root / "self").symlink_to("self"), "either", COUNT),
    "a class that is a link to the root": (lambda root: (root / "again").symlink_to("."), "either", 2 * COUNT),
    "40 nested folders": (lambda root: _nested(root), "read", COUNT + 1),
    "splits instead of classes": (
        lambda root: ((root / "dark").rename(root / "train"), (root / "bright").rename(root / "test")),
        "refused",
        0,
    ),
    "one class": (lambda root: [path.unlink() for path in (root / "dark").iterdir()], "refused", 0),
    "no image": (lambda root: [path.unlink() for path in root.glob("*/*")], "refused", 0),
}


def cases() -> Iterator[Case]:
    """All malformed folders of images."""
    strict, lenient = read_and_rank("photos", None), read_and_rank("photos", None, skip_bad=True)
    for name, change in BAD_FILES.items():
        expected: Expected = "either" if name in READ_ANYWAY else "refused"
        yield Case(f"images: {name}", _folder(change), _watched(strict), expected, _no_ghostscript, time_limit=30)
    for name in ("zero bytes", "PostScript", "a FIFO", "a socket", "a link to /dev/zero", "a broken link"):
        yield Case(
            f"images: {name}, --skip-bad",
            _folder(BAD_FILES[name]),
            _watched(lenient),
            "read",
            _rest_is_there,
            time_limit=30,
        )
    for name, (change, expected, count) in GOOD_FILES.items():
        yield Case(f"images: {name}", _folder(change), strict, expected, rows_are(count))
    yield from _unreadable(strict, lenient)
    yield from visible_images.cases()


def _folder(change: Change) -> Change:
    def prepare(folder: Path) -> None:
        write_images(folder)
        change(folder / "photos")
        tools = folder / "tools"
        tools.mkdir()
        (tools / "gs").write_text(f"#!/bin/sh\ntouch {folder / 'ghostscript-started'}\n")
        (tools / "gs").chmod(0o755)

    return prepare


def _watched(work: Callable[[], object]) -> Callable[[], object]:
    """The work with a fake Ghostscript, which leaves a mark, as the first on the path."""

    def run() -> object:
        os.environ["PATH"] = f"{Path.cwd() / 'tools'}:{os.environ['PATH']}"
        try:
            return work()
        finally:
            if Path("ghostscript-started").exists():
                raise WrongResultError("Ghostscript was started")

    return run


def _no_ghostscript(folder: Path, output: str) -> str:
    return "Ghostscript was started" if (folder / "ghostscript-started").exists() else ""


def _rest_is_there(folder: Path, output: str) -> str:
    return _no_ghostscript(folder, output) or rows_are(COUNT)(folder, output)


def _class(root: Path, name: str) -> None:
    (root / name).mkdir()
    (root / name / "x.png").write_bytes(encoded())


def _nested(root: Path) -> None:
    place = root.joinpath("dark", *["deeper"] * 40)
    place.mkdir(parents=True)
    (place / "x.png").write_bytes(encoded())


def _unreadable(strict: Callable[[], object], lenient: Callable[[], object]) -> Iterator[Case]:
    """Folders and files without the right to read them, read as nobody."""
    places: dict[str, Callable[[Path], Path]] = {
        "an unreadable class folder": lambda root: root / "dark",
        "an unreadable folder in a class": lambda root: root / "dark" / "inner",
        "an unreadable file": lambda root: root / "dark" / "00.png",
        "an unreadable root": lambda root: root,
    }
    for name, place in places.items():

        def change(root: Path, place: Callable[[Path], Path] = place) -> None:
            (root / "dark" / "inner").mkdir()
            (root / "dark" / "inner" / "x.png").write_bytes(encoded())
            place(root).chmod(0)

        yield Case(f"images: {name}", _folder(change), strict, as_nobody=True)
        if "root" not in name:
            expected: Expected = "refused" if "class folder" in name else "read"  # one class is left in the first
            yield Case(f"images: {name}, --skip-bad", _folder(change), lenient, expected, as_nobody=True)

    def third(root: Path) -> None:
        _class(root, "third")
        (root / "third").chmod(0)

    yield Case("images: an unreadable third class", _folder(third), strict, as_nobody=True)
    yield Case("images: an unreadable third class, --skip-bad", _folder(third), lenient, "read", as_nobody=True)
