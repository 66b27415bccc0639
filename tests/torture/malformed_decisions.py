"""Malformed decisions.csv files, and new labels that must be written to the digit."""

import csv
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from torture.cases import Case, Expected
from torture.hostile import PLAIN, ROWS, small_table, with_labels, write
from torture.victims import command

HEADER = "id,label,decision,new_label"
GOOD = f"{HEADER}\n0,no,relabel,yes\n1,yes,keep,\n2,no,accept,yes\n"
APPLY = command("apply", "data.csv", "--label", "label", "--decisions", "decisions.csv")


def _with(row: str, header: str = HEADER) -> str:
    return f"{header}\n0,no,relabel,yes\n{row}\n3,yes,keep,\n"


DECISIONS: list[tuple[str, str | bytes, Expected]] = [
    ("whole", GOOD, "read"),
    ("empty", b"", "refused"),
    ("only a header", f"{HEADER}\n", "refused"),
    ("blank lines", b"\n\n", "refused"),
    ("no header", GOOD.split("\n", 1)[1], "refused"),
    ("extra cells", _with("2,no,relabel,yes,extra"), "refused"),
    ("many extra cells", _with("2,no,relabel,yes" + ",x" * 500), "refused"),
    ("extra cells in front", _with("x,2,no,relabel,yes"), "refused"),
    ("empty cells at the end", _with("2,no,relabel,yes,,"), "either"),
    ("too few cells", _with("2,no"), "refused"),
    ("one cell", _with("2"), "refused"),
    ("an open quote", _with('2,no,relabel,"yes'), "refused"),
    ("an open quote in the last row", GOOD + '4,no,relabel,"yes', "refused"),
    ("an open quote that joins rows", _with('"2,no,relabel,yes\n4,no,relabel,yes'), "refused"),
    (
        "two open quotes that join rows",
        f'{HEADER}\n0,no,relabel,"yes\n2,no,relabel,yes\n4,no,relabel,yes"\n',
        "refused",
    ),
    ("an open quote in the header", GOOD.replace("new_label", '"new_label'), "refused"),
    ("text after a closing quote", _with('2,no,relabel,"yes"x'), "refused"),
    ("a rank of infinity", f"rank,{HEADER}\ninf,0,no,relabel,yes\n", "either"),
    ("a rank of text", f"rank,{HEADER}\nfirst,0,no,relabel,yes\n", "either"),
    ("a rank of NaN", f"{HEADER},rank,score\n0,no,relabel,yes,nan,nan\n", "either"),
    ("a rank of 10^400", f"{HEADER},rank\n0,no,relabel,yes,{'9' * 400}\n", "either"),
    ("a repeated column", f"{HEADER},label\n0,no,relabel,yes,no\n", "refused"),
    ("a missing column", "id,label,decision\n0,no,relabel\n", "refused"),
    ("columns in another order", "decision,new_label,id,label\nrelabel,yes,0,no\n", "read"),
    ("columns in capitals", GOOD.replace("id,label", "ID,Label"), "refused"),
    ("an unknown decision", _with("2,no,perhaps,yes"), "refused"),
    ("no decision", _with("2,no,,yes"), "either"),
    ("a relabel without a label", _with("2,no,relabel,"), "refused"),
    ("a blank new label", _with("2,no,relabel,   "), "refused"),
    ("the same id twice, the same decision", _with("0,no,relabel,yes"), "read"),
    ("the same id twice, other decisions", _with("0,no,keep,"), "refused"),
    ("an unknown id", _with("99,no,relabel,yes"), "refused"),
    ("a negative id", _with("-1,no,relabel,yes"), "refused"),
    ("an id with a fraction", _with("2.0,no,relabel,yes"), "either"),
    ("an id of 400 digits", _with("9" * 400 + ",no,relabel,yes"), "refused"),
    ("an id of infinity", _with("inf,no,relabel,yes"), "refused"),
    ("an empty id", _with(",no,relabel,yes"), "refused"),
    ("an id with blanks", _with(" 2,no,relabel,yes"), "either"),
    ("an outdated label", _with("2,maybe,relabel,yes"), "refused"),
    ("a new class", _with("2,no,relabel,maybe"), "either"),
    ("a NUL byte", _with("2,no,relabel,y\0s"), "refused"),
    ("NUL bytes at the end", GOOD + "\0" * 512, "refused"),
    ("a line end in a new label", _with('2,no,relabel,"y\nes"'), "either"),
    ("a byte order mark", b"\xef\xbb\xbf" + GOOD.encode(), "read"),
    ("a byte order mark before Latin-1", b"\xef\xbb\xbf" + _with("2,no,relabel,schön").encode("latin-1"), "refused"),
    ("Latin-1", _with("2,no,relabel,schön").encode("latin-1"), "either"),
    ("UTF-16", GOOD.encode("utf-16"), "read"),
    ("UTF-16 cut by a byte", GOOD.encode("utf-16")[:-1], "refused"),
    ("semicolons, as a spreadsheet writes them", GOOD.replace(",", ";"), "read"),
    ("tabs", GOOD.replace(",", "\t"), "either"),
    ("Windows line ends", GOOD.replace("\n", "\r\n"), "read"),
    ("mixed line ends", GOOD.replace("\n", "\r\n", 2), "read"),
    ("line ends of an old Mac", GOOD.replace("\n", "\r"), "either"),
    ("an Excel file", b"PK\x03\x04" + bytes(range(256)), "refused"),
    ("JSON", b'[{"id": 0}]', "refused"),
    ("cut in the last row", GOOD[:-5], "refused"),
    ("a cell of five megabytes", _with(f"2,no,relabel,{'x' * 5_000_000}"), "either"),
    ("a conflict of git", GOOD + "<<<<<<< HEAD\n4,no,keep,\n=======\n", "refused"),
]


def cases() -> Iterator[Case]:
    """All malformed decisions, and labels that must survive."""
    for name, content, expected in DECISIONS:
        yield Case(
            f"decisions.csv: {name}", _data_and(content), APPLY, expected, _no_new_class(name), says="decisions.csv"
        )
    yield Case("decisions.csv: missing", write("data.csv", PLAIN), APPLY, says="decisions.csv")
    for suffix in (".csv", ".tsv", ".parquet", ".jsonl", ".json"):
        for old, new in LARGE:
            if new != "007" or suffix in (".csv", ".tsv"):  # elsewhere the column holds numbers, not text
                yield _to_the_digit(suffix, old, new)


def _data_and(decisions: str | bytes) -> Callable[[Path], object]:
    return lambda folder: (write("data.csv", PLAIN)(folder), write("decisions.csv", decisions)(folder))


def _no_new_class(name: str) -> Callable[[Path, str], str]:
    """Check that the copy has all rows and the two classes; some decisions make a class on purpose."""

    def check(folder: Path, output: str) -> str:
        with (folder / "data.corrected.csv").open(newline="", encoding="utf-8", errors="replace") as file:
            rows = list(csv.DictReader(file))
        classes = {row["label"] for row in rows}
        on_purpose = any(word in name for word in ("a new class", "Latin-1", "in a new label", "megabytes", "old Mac"))
        if len(rows) != ROWS:
            return f"the copy has {len(rows)} rows, not {ROWS}"
        return "" if classes == {"no", "yes"} or on_purpose else f"the copy has the classes {sorted(classes)[:5]}"

    return check


LARGE = [
    ("9007199254740992", "9007199254740993"),
    ("73211009", "900000000000207008"),  # SNOMED codes
    ("5", "9223372036854775807"),
    ("1", "1_000"),
    ("7", "007"),
    ("5", "1e3"),
]


def _to_the_digit(suffix: str, old: str, new: str) -> Case:
    """A new label for the first row, in a table whose labels are numbers."""
    other = "3"
    source = f"data{suffix}"

    def prepare(folder: Path) -> None:
        import pandas as pd

        labels = [int(old) if row % 2 == 0 else int(other) for row in range(ROWS)]
        table = pd.DataFrame({"a": [float(row[0]) for row in small_table()], "label": labels})
        if suffix == ".parquet":
            table.to_parquet(folder / source)
        elif suffix in (".json", ".jsonl"):
            table.to_json(folder / source, orient="records", lines=suffix == ".jsonl")
        else:
            separator = "\t" if suffix == ".tsv" else ","
            write(source, with_labels([old, other], separator))(folder)
        write("decisions.csv", f"{HEADER}\n0,{old},relabel,{new}\n")(folder)

    work = command("apply", source, "--label", "label", "--decisions", "decisions.csv")
    typed = suffix in (".parquet", ".json", ".jsonl") and not new.isdigit()  # no whole number: may be refused there
    expected: Expected = "either" if typed or new.startswith("0") else "read"
    return Case(f"apply {source}: {old} becomes {new}", prepare, work, expected, partial(_new_label, suffix, new))


def _new_label(suffix: str, new: str, folder: Path, output: str) -> str:
    """Check the label of the first row of the copy, and of the log."""
    copy = folder / f"data.corrected{suffix}"
    there = str(_first_label(copy, suffix))
    log = (folder / f"{copy.name}.log.csv").read_text(encoding="utf-8")
    if there != new:
        return f"the new label is {there}, not {new}"
    return "" if new in log else f"{new} is not in the log"


def _first_label(copy: Path, suffix: str) -> Any:
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(copy)["label"][0].as_py()
    text = copy.read_text(encoding="utf-8")
    if suffix in (".json", ".jsonl"):
        return (json.loads(text) if suffix == ".json" else [json.loads(text.splitlines()[0])])[0]["label"]
    return text.splitlines()[1].split("\t" if suffix == ".tsv" else ",")[-1]
