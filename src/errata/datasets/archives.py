"""Unpack archives: whole or not at all, and never outside of their folder."""

import contextlib
import errno
import lzma
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PureWindowsPath

from errata.errors import DataError, ErrataError, StoreError
from errata.wording import one_line

_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")  # with members, and without
# What the standard library raises where an archive is cut short or one of its bytes is changed, in whatever place.
_BROKEN = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError),
    *(ValueError, OverflowError, RuntimeError, KeyError),
)
# Errors of the system that the archive is to blame for: an offset before its start, names that no file can have.
_BLAMED = (None, errno.EINVAL, errno.EILSEQ, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)


class NoRoomError(DataError):
    """An archive that says it holds more than the disk does."""


def unpack(archive: Path, folder: Path) -> list[Path]:
    """Unpack a zip or a tar, compressed or not, into `folder`; returns its files, which replace any of the same name.

    What it is, its first bytes say, not its name. An archive in an archive stays a file.
    """
    try:
        extract = _extract_zip if _is_zip(archive) else _extract_tar
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpacking-") as scratch:
            with _whole(str(archive)):
                extract(archive, Path(scratch))
            return move_files(Path(scratch), folder)
    except ErrataError:
        raise
    except OSError as error:
        raise StoreError(f"{archive} cannot be unpacked into {folder}: {error.strerror or error}") from error


def move_files(source: Path, folder: Path) -> list[Path]:
    """Move every file below `source` to the same place below `folder`; returns where they are now."""
    files = sorted(path for path in source.rglob("*") if path.is_symlink() or not path.is_dir())
    places = [folder / path.relative_to(source) for path in files]
    for place in places:  # all are looked at before one is moved
        blocking = [path for path in place.parents if path.exists() and not path.is_dir()]
        if place.is_dir():
            raise StoreError(f"{place} is a folder, where a file of that name belongs")
        if blocking:
            raise StoreError(f"{blocking[0]} is a file, where a folder of that name belongs")
    for file, place in zip(files, places, strict=True):
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)
    return places


def _is_zip(archive: Path) -> bool:
    # Not zipfile.is_zipfile, which looks at the end: a tar whose last file is a zip ends like one.
    with archive.open("rb") as file:
        return file.read(4) in _ZIP_STARTS


def _extract_zip(archive: Path, scratch: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        _check(archive, ((member.filename, member.file_size) for member in members), scratch)
        for member in members:
            if stat.S_ISLNK(member.external_attr >> 16):
                raise DataError(f"{archive}: {member.filename!r} is a link, and in a zip those are not followed")
        for member in members:
            with _whole(f"{archive}: {member.filename!r}"):
                opened.extract(member, scratch)


def _extract_tar(archive: Path, scratch: Path) -> None:
    with tarfile.open(archive) as opened:
        members = opened.getmembers()
        _check_end(archive, opened, members)
        _check(archive, ((member.name, member.size) for member in members), scratch)
        for member in members:
            with _whole(f"{archive}: {member.name!r}"):
                try:
                    # Times stay new: files of another content must not pass for those that were read before.
                    opened.extract(member, scratch, set_attrs=False, filter="data")
                except tarfile.FilterError as error:
                    link = member.issym() or member.islnk()
                    what = "a link out of the folder" if link else "neither a file nor a folder in it"
                    raise DataError(f"{archive}: {member.name!r} is {what}") from error


def _check_end(archive: Path, opened: tarfile.TarFile, members: list[tarfile.TarInfo]) -> None:
    """Refuse a tar without the empty block at its end: tarfile takes a broken or missing header for the end, too."""
    assert opened.fileobj is not None
    opened.fileobj.seek(opened.offset)
    if opened.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        last = f" after {members[-1].name!r}" if members else ""
        raise DataError(f"{archive} is not a whole archive: it breaks off{last}")
    while opened.fileobj.read(1 << 20):  # to the end, where a compressed stream has its checksum
        pass


def _check(archive: Path, members: Iterable[tuple[str, int]], scratch: Path) -> None:
    """Refuse names that lead out of the folder, and more bytes than there is room for."""
    total, free = 0, shutil.disk_usage(scratch).free
    for name, size in members:
        path = PureWindowsPath(name)  # knows both separators, and drive letters
        if path.drive or path.root or ".." in path.parts:
            raise DataError(f"{archive}: {name!r} would be written outside of the folder")
        total += size
        if total > free:
            raise NoRoomError(
                f"{archive}: with {name!r} it unpacks to {total:,} bytes or more, and the disk has {free:,} left"
            )


@contextlib.contextmanager
def _whole(what: str) -> Iterator[None]:
    """Say in one sentence that an archive is broken; errors of the disk pass."""
    try:
        yield
    except ErrataError:
        raise
    except OSError as error:
        if error.errno not in _BLAMED:
            raise
        raise DataError(f"{what} is not whole, or no archive: {error.strerror or one_line(error)}") from error
    except _BROKEN as error:
        raise DataError(f"{what} is not whole, or no archive: {one_line(error)}") from error
