"""Parts of the hostile inputs: a small valid table, files with given contents, and cheap work that reads them."""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from torture.cases import Case, Expected

ROWS = 24
NAMES = ("no", "yes")
BOM = b"\xef\xbb\xbf"  # the byte order mark of UTF-8
Content = bytes | str | Callable[[], bytes]
Check = Callable[[Path, str], str]


def small_table(rows: int = ROWS) -> list[list[str]]:
    """Rows of two numbers and a label."""
    values = np.random.default_rng(0).normal(size=(rows, 2)).round(3)
    return [[str(a), str(b), NAMES[row % 2]] for row, (a, b) in enumerate(values.tolist())]


def lines_of(separator: str = ",", header: str = "a,b,label") -> list[str]:
    """The lines of the small table, the header first, without line ends."""
    return [header.replace(",", separator), *(separator.join(row) for row in small_table())]


def with_line(number: int, line: str, separator: str = ",") -> str:
    """The small table as text, one of its lines replaced. Line 0 is the header."""
    lines = lines_of(separator)
    lines[number] = line
    return "\n".join(lines) + "\n"


def with_labels(labels: Iterable[str], separator: str = ",") -> str:
    """The small table as text with other labels, which repeat."""
    chosen = list(labels)
    rows = [[a, b, chosen[row % len(chosen)]] for row, (a, b, _) in enumerate(small_table())]
    return "\n".join(separator.join(row) for row in [["a", "b", "label"], *rows]) + "\n"


def with_column(values: Iterable[str], name: str = "c") -> str:
    """The small table as text with one more column, whose values repeat."""
    chosen = list(values)
    rows = [[a, b, chosen[row % len(chosen)], label] for row, (a, b, label) in enumerate(small_table())]
    return "\n".join(",".join(row) for row in [["a", "b", name, "label"], *rows]) + "\n"


PLAIN = "\n".join(lines_of()) + "\n"


def records() -> list[dict[str, Any]]:
    """The small table as objects."""
    return [{"a": float(a), "b": float(b), "label": label} for a, b, label in small_table()]


def write(name: str, content: Content) -> Callable[[Path], None]:
    """Write one file; the content may be a function that makes it."""

    def prepare(folder: Path) -> None:
        made = content() if callable(content) else content
        (folder / name).write_bytes(made.encode() if isinstance(made, str) else made)

    return prepare


def like_command(work: Callable[[], object]) -> Callable[[], object]:
    """The work with the errors of the operating system as one line, as the command line prints them."""

    def run() -> object:
        from errata.errors import ErrataError

        try:
            return work()
        except ErrataError:
            raise
        except OSError as error:
            print(f"errata: {error.filename}: {error.strerror}" if error.strerror else str(error), file=sys.stderr)
            sys.exit(2)

    return run


def read_and_rank(source: str, label: str | None = "label", **options: Any) -> Callable[[], object]:
    """Work that reads data, prepares features, ranks the samples by made-up logits, and writes all files of find."""

    def work() -> None:
        import errata
        from errata.readers import open_data

        data = open_data(source, label, **options)
        if data.fit_features is not None:
            data.prepare()
        logits = np.random.default_rng(0).normal(size=(2, data.samples, data.num_classes))
        logits[:, np.arange(data.samples), data.labels] += 1
        names = np.empty(data.samples, dtype=object)
        names[:] = [data.classes[number] for number in data.labels.tolist()]
        dynamics = errata.Dynamics.from_arrays(logits, names, ids=data.ids, classes=data.classes)
        found = errata.find(dynamics, label, data=source, out="errata-out", **options)
        print(f"{data.samples} samples, classes {[str(name)[:200] for name in data.classes[:50]]}")
        print("\n".join(str(remark)[:300] for remark in data.remarks))
        errata.Found.open("errata-out")
        assert len(found.ranking) == data.samples

    return like_command(work)


def table_case(name: str, file: str, content: Content, expected: Expected = "refused", **more: Any) -> Case:
    """A case that reads one file as a table. more: further fields of the case, or options of `open_data`."""
    fields = {key: more.pop(key) for key in ("check", "as_nobody", "time_limit", "work") if key in more}
    work = fields.pop("work", None) or read_and_rank(file, more.pop("label", "label"), **more)
    return Case(f"{file}: {name}", write(file, content), work, expected, **fields)


def table_cases(file: str, table: Iterable[tuple[Any, ...]]) -> Iterator[Case]:
    """Cases from rows (name, content, expected) or (name, content, expected, further fields)."""
    for name, content, expected, *more in table:
        yield table_case(name, file, content, expected, **(more[0] if more else {}))


def ranking(folder: Path) -> list[dict[str, str]]:
    """The rows of ranking.csv, all values as text."""
    with (folder / "errata-out" / "ranking.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _labels_differ(expected: frozenset[str], folder: Path, output: str) -> str:
    there = {row["label"] for row in ranking(folder)}
    return "" if there == expected else f"the labels in ranking.csv are {sorted(there)}, not {sorted(expected)}"


def labels_are(*labels: str) -> Check:
    """Check that ranking.csv has exactly these labels, to the digit."""
    return partial(_labels_differ, frozenset(labels))


def _ids_differ(expected: frozenset[str], folder: Path, output: str) -> str:
    there = {row["id"] for row in ranking(folder)}
    missing, added = sorted(expected - there)[:3], sorted(there - expected)[:3]
    return f"ids in ranking.csv: {missing} are missing, {added} are new" if missing or added else ""


def ids_are(ids: Iterable[str]) -> Check:
    """Check that ranking.csv has exactly these ids, to the digit."""
    return partial(_ids_differ, frozenset(ids))


def _rows_differ(expected: int, folder: Path, output: str) -> str:
    rows = len(ranking(folder))
    return "" if rows == expected else f"ranking.csv has {rows} rows, not {expected}"


def rows_are(count: int) -> Check:
    """Check that ranking.csv has this many rows."""
    return partial(_rows_differ, count)


def _not_mentioned(texts: tuple[str, ...], folder: Path, output: str) -> str:
    return "" if any(text in output for text in texts) else f"none of {texts} is in the output: {output[-800:]}"


def mentions(*texts: str) -> Check:
    """Check that the output contains one of these texts."""
    return partial(_not_mentioned, texts)


ALL_ROWS: dict[str, Any] = {"check": rows_are(ROWS)}
