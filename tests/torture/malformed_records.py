"""Malformed JSON files: one object per line, and whole files."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

from torture.cases import Case
from torture.hostile import ALL_ROWS, BOM, NAMES, ROWS, ids_are, labels_are, records, rows_are, table_cases

DEEP = 100_000


def _lines(**changes: Any) -> str:
    """One object per line. changes: further values by name; a list has one value per row and repeats."""
    return "".join(json.dumps(record) + "\n" for record in _records(**changes))


def _records(**changes: Any) -> list[dict[str, Any]]:
    chosen = {name: value if isinstance(value, list) else [value] for name, value in changes.items()}
    return [
        record | {name: values[row % len(values)] for name, values in chosen.items()}
        for row, record in enumerate(records())
    ]


def _with(line: str, at: int = 5) -> str:
    """The valid file with one line replaced."""
    lines = _lines().splitlines()
    lines[at] = line
    return "\n".join(lines) + "\n"


def _labels(*labels: Any) -> tuple[str, str, dict[str, Any]]:
    return _lines(label=list(labels)), "read", {"check": labels_are(*map(str, labels))}


VALID = _lines()
ACCENTS = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in _records(label=["schön", "übel"]))
HALF = '{"a": 1, "b": 2, "c": "\\ud83d", "label": "no"}'
VALUE = '{"a": ?, "b": 2, "label": "no"}'
JSON_LINES = [
    ("whole", VALID, "read", ALL_ROWS),
    ("a byte order mark", BOM + VALID.encode(), "read", ALL_ROWS),
    ("a byte order mark before Latin-1", BOM + ACCENTS.encode("latin-1"), "refused"),
    ("Latin-1", ACCENTS.encode("latin-1"), "read", {"check": labels_are("schön", "übel")}),
    ("UTF-16", ACCENTS.encode("utf-16"), "read", {"check": labels_are("schön", "übel")}),
    ("UTF-16 cut by a byte", VALID.encode("utf-16")[:-1], "refused"),
    ("half an emoji in a text", _with(HALF), "either"),
    ("half an emoji in a label", _with(HALF.replace('"no"', '"\\ud83d"')), "either"),
    ("half an emoji in a name", _with(HALF.replace('"c"', '"\\ud83d"')), "either"),
    (
        "half an emoji in an id",
        "".join(json.dumps(r) + "\n" for r in _records(key=[f"\ud83d{i}" for i in range(ROWS)])),
        "either",
        {"id": "key"},
    ),
    ("a number of 400 digits", _with(VALUE.replace("?", "9" * 400)), "either"),
    ("a number of 5,000 digits", _with(VALUE.replace("?", "9" * 5000)), "either"),
    ("a label of 400 digits", _with(VALUE.replace("?", "1").replace('"no"', "9" * 400)), "either"),
    (
        "an id of 400 digits",
        _lines(key=[10**400 + row for row in range(ROWS)]),
        "read",
        {"id": "key", "check": ids_are(str(10**400 + row) for row in range(ROWS))},
    ),
    ("NaN and Infinity", _with('{"a": NaN, "b": -Infinity, "label": "no"}'), "read", ALL_ROWS),
    ("a number beyond float64", _with('{"a": 1e999, "b": 2, "label": "no"}'), "read", ALL_ROWS),
    ("NaN as a label", _with('{"a": 1, "b": 2, "label": NaN}'), "either"),
    ("a repeated name", _with('{"a": 1, "b": 2, "label": "no", "label": "yes"}'), "either"),
    ("a comma at the end", _with('{"a": 1, "b": 2, "label": "no",}'), "refused"),
    ("single quotes", _with("{'a': 1, 'b': 2, 'label': 'no'}"), "refused"),
    ("a comment", _with("// a comment"), "refused"),
    ("a name without quotes", _with('{a: 1, "b": 2, "label": "no"}'), "refused"),
    ("a list in a line", _with('[1, 2, "no"]'), "refused"),
    ("a number in a line", _with("17"), "refused"),
    ("null in a line", _with("null"), "refused"),
    ("blank lines", VALID.replace("\n", "\n\n"), "read", ALL_ROWS),
    ("cut in the last line", VALID[:-10], "refused"),
    ("cut in the middle of a line", _with('{"a": 1, "b"'), "refused"),
    ("two objects in a line", _with('{"a": 1, "b": 2, "label": "no"} {"a": 1, "b": 2, "label": "no"}'), "refused"),
    ("one object over several lines", json.dumps(_records()[0], indent=1) + "\n" + VALID, "refused"),
    ("a whole list in one line", json.dumps(_records()), "refused"),
    ("an object of lists as a value", _lines(c={"x": [1, {"y": 2}]}), "either"),
    ("lists of different lengths as values", _lines(c=[[1], [1, 2], []]), "either"),
    ("an object as a label", _lines(label={"name": "no"}), "refused"),
    ("a list as a label", _with('{"a": 1, "b": 2, "label": ["no"]}'), "refused"),
    ("deep nesting", _with(VALUE.replace("?", "[" * DEEP + "]" * DEEP)), "refused"),
    ("nesting of 900 lists", _with(VALUE.replace("?", "[" * 900 + "]" * 900)), "either"),
    ("rows without some names", _with('{"a": 1, "label": "no"}'), "read", ALL_ROWS),
    ("a row without a label", _with('{"a": 1, "b": 2}'), "read", {"check": rows_are(ROWS - 1)}),
    ("an empty object", _with("{}"), "read", {"check": rows_are(ROWS - 1)}),
    ("only empty objects", "{}\n" * ROWS, "refused"),
    ("no label in any row", '{"a": 1}\n' * ROWS, "refused"),
    ("labels true and false", *_labels(True, False)),
    ("labels 1, '1', 1.0 and true", _lines(label=[1, "1", 1.0, True]), "either"),
    ("labels beyond 2^53", *_labels(9007199254740993, 9007199254740992)),
    ("labels beyond 2^64", *_labels(2**64, 2**64 + 1)),
    (
        "a large label and a missing one",
        _lines(label=[9007199254740993, 5, None]),
        "read",
        {"check": labels_are("9007199254740993", "5")},
    ),
    ("a large label among fractions", _lines(label=[9007199254740993, 0.5]), "either"),
    ("an empty name", _lines(**{"": 1.5}), "read", ALL_ROWS),
    ("a NUL character", _lines(c=["x\0", "y"]), "either"),
    (
        "a text of five megabytes",
        lambda: _with(json.dumps({"a": 1, "b": 2, "c": "x" * 5_000_000, "label": "no"})).encode(),
        "read",
        ALL_ROWS,
    ),
    ("records of RFC 7464", VALID.replace("{", "\x1e{"), "either"),
    ("U+2028 in a text", VALID.replace('"no"', '"n\u2028o"'), "read", ALL_ROWS),
    (
        "other names in every row",
        "".join(json.dumps({"label": NAMES[row % 2], "a": row, f"x{row}": 1}) + "\n" for row in range(2000)),
        "either",
        {"time_limit": 30},
    ),
    ("empty", b"", "refused"),
    ("blank", b"\n \n", "refused"),
    ("a CSV file", b"a,b,label\n1,2,no\n", "refused"),
    ("a Parquet file", b"PAR1" + bytes(range(256)) + b"PAR1", "refused"),
    ("values of all types in one column", _lines(c=[1, "x", None, True, 1.5, [1], {"y": 1}]), "either"),
]

LIST = json.dumps(_records())
COLUMNS = {name: [record[name] for record in _records()] for name in ("a", "b", "label")}
JSON = [
    ("a list of objects", LIST, "read", ALL_ROWS),
    ("an object of lists", json.dumps(COLUMNS), "read", ALL_ROWS),
    ("lists of different lengths", json.dumps(COLUMNS | {"a": [1]}), "refused"),
    ("objects by row number, as pandas writes them", json.dumps({"a": {"0": 1}, "label": {"0": "no"}}), "refused"),
    (
        "columns, index and data, as pandas writes them",
        json.dumps({"columns": ["a"], "index": [0], "data": [[1]]}),
        "refused",
    ),
    ("an empty list", b"[]", "refused"),
    ("an empty object", b"{}", "refused"),
    ("a number", b"17", "refused"),
    ("a text", b'"no"', "refused"),
    ("null", b"null", "refused"),
    ("a list of lists", b'[[1, 2, "no"]]', "refused"),
    ("a list of numbers", b"[1, 2, 3]", "refused"),
    ("an object among numbers", b'[{"a": 1, "label": "no"}, 2]', "refused"),
    ("cut in half", LIST[: len(LIST) // 2], "refused"),
    ("without the last bracket", LIST[:-1], "refused"),
    ("text after the end", LIST + "x", "refused"),
    ("a comma at the end", LIST[:-1] + ",]", "refused"),
    ("a byte order mark", BOM + LIST.encode(), "read", ALL_ROWS),
    ("a byte order mark before Latin-1", BOM + LIST.replace("yes", "schön").encode("latin-1"), "refused"),
    ("UTF-16 cut by a byte", LIST.encode("utf-16")[:-1], "refused"),
    ("half an emoji", LIST.replace("yes", "\\ud83d"), "either"),
    ("a number of 400 digits", LIST.replace('"a": ', '"a": ' + "9" * 400, 1), "either"),
    ("a number of 5,000 digits", LIST.replace('"a": ', '"a": ' + "9" * 5000, 1), "either"),
    ("deep nesting of lists", "[" * DEEP + "]" * DEEP, "refused"),
    ("deep nesting of objects", '{"a":' * DEEP + "1" + "}" * DEEP, "refused"),
    ("deep nesting in a value", LIST.replace('"a": ', '"c": ' + "[" * DEEP + "]" * DEEP + ', "a": ', 1), "refused"),
    ("a repeated name", LIST.replace('"a": ', '"b": 5, "a": '), "either"),
    ("an object of lists with an object as label", json.dumps(COLUMNS | {"label": [{}] * ROWS}), "refused"),
    ("one object per line", _lines(), "read", ALL_ROWS),
    ("one object per line, cut", _lines()[:-9], "refused"),
    ("one object", json.dumps(_records()[0]), "refused"),
    ("a notebook", json.dumps({"cells": [], "metadata": {}, "nbformat": 4}), "refused"),
    ("NUL bytes after the end", LIST.encode() + bytes(512), "refused"),
    ("empty", b"", "refused"),
    (
        "large labels",
        json.dumps(COLUMNS | {"label": [2**53 + 1, 2**53] * 12}),
        "read",
        {"check": labels_are(str(2**53 + 1), str(2**53))},
    ),
]


def cases() -> Iterator[Case]:
    """All malformed JSON files."""
    yield from table_cases("data.jsonl", JSON_LINES)
    yield from table_cases("data.json", JSON)
    packed = gzip.compress(_lines().encode())
    yield from table_cases(
        "data.jsonl.gz",
        [("whole", packed, "read", ALL_ROWS), ("cut", packed[:-9], "refused"), ("not compressed", _lines(), "refused")],
    )
    yield from table_cases("data.ndjson", [("cut", _lines()[:-9], "refused")])
