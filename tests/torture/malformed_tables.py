"""Malformed tables: TSV and compressed files, other formats under a wrong name, what is no file; all other tables."""

import gzip
import os
import socket
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from torture import malformed_csv, malformed_parquet, malformed_records
from torture.cases import Case
from torture.hostile import (
    ALL_ROWS,
    BOM,
    PLAIN,
    ROWS,
    labels_are,
    read_and_rank,
    rows_are,
    table_case,
    table_cases,
    with_column,
    with_labels,
    with_line,
)

ACCENTS = with_labels(["schön", "häßlich"])
FREE_MEMORY = 400_000_000
UNPACKED_BLOCK, BLOCKS = 16_000_000, 40

FOREIGN = {
    "PNG": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
    "zip or Excel": b"PK\x03\x04" + bytes(range(256)) * 4,
    "gzip": gzip.compress(PLAIN.encode()),
    "Parquet": b"PAR1" + bytes(range(256)) * 4 + b"PAR1",
    "HTML": b"<!DOCTYPE html>\n<html><body>404, not found</body></html>\n",
    "JSON": b'[{"a": 1, "label": "no"}]',
    "SQLite": b"SQLite format 3\0" + bytes(512),
    "pickle": b"\x80\x04\x95\x15\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93.",
    "ELF": b"\x7fELF\x02\x01\x01" + bytes(512),
    "PDF": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Type/Catalog>>\nendobj\n",
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n",
}

TSV_PLAIN = PLAIN.replace(",", "\t")
TSV = [
    ("quotes as ordinary characters", with_column(['5" disk', '"x', "y"]).replace(",", "\t"), "read", ALL_ROWS),
    ("a row with a value too many", with_line(5, "1\t2\t3\tno", "\t"), "refused"),
    ("a row with a value too few", with_line(5, "1\tno", "\t"), "refused"),
    ("commas instead of tabs", PLAIN, "refused"),
    ("blanks instead of tabs", PLAIN.replace(",", "    "), "refused"),
    ("a tab at the end of every row", TSV_PLAIN.replace("no\n", "no\t\n").replace("yes\n", "yes\t\n"), "refused"),
    ("a byte order mark before Latin-1", BOM + ACCENTS.replace(",", "\t").encode("latin-1"), "refused"),
    ("UTF-16 cut by a byte", TSV_PLAIN.encode("utf-16")[:-1], "refused"),
    ("an open quote in a ragged file", with_line(5, '"1\t2', "\t"), "refused"),
    ("text after a closing quote in the header", with_line(0, 'a\t"b"c\tlabel', "\t"), "either"),
    (
        "large labels",
        with_labels(["9007199254740993", "5"], "\t"),
        "read",
        {"check": labels_are("9007199254740993", "5")},
    ),
    ("NUL bytes at the end", TSV_PLAIN.encode() + b"\0" * 512, "refused"),
    ("empty", b"", "refused"),
    ("a carriage return in a value", with_column(["x\ry", "z"]).replace(",", "\t"), "either"),
]

PACKED = gzip.compress(PLAIN.encode(), mtime=0)
GZIP = [
    ("whole", PACKED, "read", ALL_ROWS),
    ("two members", PACKED + gzip.compress(b"1,2,no\n"), "read", {"check": rows_are(ROWS + 1)}),
    ("cut by ten bytes", PACKED[:-10], "refused"),
    ("cut in half", PACKED[: len(PACKED) // 2], "refused"),
    ("only the header of gzip", PACKED[:10], "refused"),
    ("only the first two bytes", PACKED[:2], "refused"),
    ("a wrong checksum", PACKED[:-8] + bytes(4) + PACKED[-4:], "refused"),
    ("a wrong length", PACKED[:-4] + bytes(4), "refused"),
    ("damaged in the middle", PACKED[:60] + b"\xff\xff\xff" + PACKED[63:], "refused"),
    ("garbage after the end", PACKED + b"garbage", "either"),
    ("zeros after the end", PACKED + bytes(512), "either"),
    ("not compressed", PLAIN, "refused"),
    ("compressed by zstd", b"\x28\xb5\x2f\xfd" + bytes(64), "refused"),
    ("compressed by bzip2", b"BZh91AY&SY" + bytes(64), "refused"),
    ("compressed twice", gzip.compress(PACKED), "refused"),
    ("nothing, compressed", gzip.compress(b""), "refused"),
    ("UTF-16 cut by a byte", gzip.compress(PLAIN.encode("utf-16")[:-1]), "refused"),
    ("an open quote", gzip.compress(with_line(5, '1,2,"no').encode()), "refused"),
    ("an unknown method of compression", PACKED[:2] + b"\x09" + PACKED[3:], "refused"),
]


def cases() -> Iterator[Case]:
    """All malformed tables."""
    yield from malformed_csv.cases()
    for name, content in FOREIGN.items():
        yield table_case(f"is {name}", "data.csv", content)
    yield from table_cases("data.tsv", TSV)
    yield from chain(
        table_cases("data.csv.gz", GZIP), table_cases("data.tsv.gz", [("not compressed", TSV_PLAIN, "refused")])
    )
    yield table_case("640 MB unpacked, 400 MB of free memory", "data.csv.gz", _bomb, work=_little_memory("data.csv.gz"))
    yield from _strange_files()
    yield from malformed_records.cases()
    yield from malformed_parquet.cases()


def _bomb() -> bytes:
    rows = b"".join(b"%d.5,%d.25,%s\n" % (row % 7, row % 5, (b"no", b"yes")[row % 2]) for row in range(1000))
    block = gzip.compress(rows * (UNPACKED_BLOCK // len(rows)), 9)
    return gzip.compress(b"a,b,label\n") + block * BLOCKS


def _little_memory(file: str) -> Callable[[], object]:
    def work() -> object:
        from errata import memory

        memory.available_memory = lambda: FREE_MEMORY  # type: ignore[assignment]
        return read_and_rank(file)()

    return work


def _strange_files() -> Iterator[Case]:
    """What is not a plain readable file, and names that no reader supports."""

    def links(target: str) -> Callable[[Path], object]:
        return lambda folder: (folder / "data.csv").symlink_to(target)

    def listening(folder: Path) -> None:
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket must be short
        try:
            socket.socket(socket.AF_UNIX).bind("data.csv")
        finally:
            os.chdir(here)

    def unreadable(folder: Path) -> None:
        (folder / "data.csv").write_text(PLAIN)
        (folder / "data.csv").chmod(0)

    work = read_and_rank("data.csv")
    strange: dict[str, Callable[[Path], object]] = {
        "a folder": lambda folder: (folder / "data.csv").mkdir(),
        "a FIFO": lambda folder: os.mkfifo(folder / "data.csv"),
        "a socket": listening,
        "a link to /dev/null": links("/dev/null"),
        "a link to /dev/zero": links("/dev/zero"),
        "a link to itself": links("data.csv"),
        "a broken link": links("nowhere.csv"),
    }
    for name, prepare in strange.items():
        yield Case(f"data.csv: {name}", prepare, work, time_limit=20)
    yield Case("data.csv: not readable", unreadable, work, as_nobody=True)
    yield Case(
        "data.csv: a link to a table",
        lambda folder: ((folder / "t").write_text(PLAIN), links("t")(folder)),
        work,
        "read",
    )
    for suffix in (".xlsx", ".txt", ".csv.bz2", ".csv.zip", ".gz", ".feather", ".dta", ".arff"):
        yield table_case("an unsupported suffix", f"data{suffix}", PLAIN)
    yield table_case("no suffix", "data", PLAIN)
    yield table_case("a suffix in capitals", "DATA.CSV", PLAIN, "read", **ALL_ROWS)
    for name in ("dätä ☃.csv", "a b'c\"d.csv", "-.csv", "line\nend.csv", "<b>.csv", "x" * 200 + ".csv"):
        yield table_case("a strange name", name, PLAIN, "read", **ALL_ROWS)
