"""Malformed CSV files: encodings, structure, quotes, contents and labels."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from torture.cases import Case
from torture.hostile import (
    ALL_ROWS,
    BOM,
    NAMES,
    PLAIN,
    ROWS,
    ids_are,
    labels_are,
    lines_of,
    rows_are,
    table_cases,
    with_column,
    with_labels,
    with_line,
)
from torture.victims import command

ACCENTS = with_labels(["schön", "häßlich"])
INSPECT: dict[str, Any] = {"work": command("data", "inspect", "data.csv", "--label", "label"), "time_limit": 30}


def _labels(*labels: str) -> tuple[str, str, dict[str, Any]]:
    return with_labels(labels), "read", {"check": labels_are(*labels)}


ENCODINGS = [
    ("UTF-8 with a byte order mark", BOM + PLAIN.encode(), "read", ALL_ROWS),
    ("a byte order mark before Latin-1", BOM + ACCENTS.encode("latin-1"), "refused"),
    ("two byte order marks", BOM + BOM + PLAIN.encode(), "either"),
    ("a byte order mark in the middle", with_column(["x", "\ufeffy"]), "read", ALL_ROWS),
    ("only a byte order mark", BOM, "refused"),
    ("a byte order mark and a line end", BOM + b"\n", "refused"),
    (
        "UTF-16 little endian",
        b"\xff\xfe" + ACCENTS.encode("utf-16-le"),
        "read",
        {"check": labels_are("schön", "häßlich")},
    ),
    ("UTF-16 big endian", b"\xfe\xff" + ACCENTS.encode("utf-16-be"), "read", {"check": labels_are("schön", "häßlich")}),
    ("UTF-16 without a mark", PLAIN.encode("utf-16-le"), "refused"),
    ("UTF-16 cut by a byte", PLAIN.encode("utf-16")[:-1], "refused"),
    ("UTF-16 with a byte lost in the middle", PLAIN.encode("utf-16")[:101] + PLAIN.encode("utf-16")[102:], "refused"),
    ("UTF-16 with half a surrogate pair", b"\xff\xfe" + PLAIN.encode("utf-16-le") + b"\x3d\xd8", "refused"),
    ("only the mark of UTF-16", b"\xff\xfe", "refused"),
    ("UTF-32", PLAIN.encode("utf-32"), "either"),
    ("Latin-1", ACCENTS.encode("latin-1"), "read", {"check": labels_are("schön", "häßlich")}),
    ("Windows-1252", with_labels(["\u201ca\u201d", "b"]).encode("cp1252"), "either"),
    ("Shift-JIS", with_labels(["犬", "猫"]).encode("shift-jis"), "either"),
    ("GB 18030", with_labels(["犬", "猫"]).encode("gb18030"), "either"),
    ("EBCDIC", PLAIN.encode("cp037"), "refused"),
    ("a truncated UTF-8 character at the end", PLAIN.encode() + b"1,2,\xe2\x82", "either"),
    ("an overlong UTF-8 character", PLAIN.encode().replace(b"yes", b"\xc0\x80"), "either"),
    ("a surrogate in UTF-8", PLAIN.encode().replace(b"yes", b"\xed\xa0\xbd"), "either"),
    (
        "Latin-1 after four megabytes of ASCII",
        lambda: PLAIN.encode() + b"1,2,no\n" * 600_000 + b"1,2,n\xe9\n",
        "either",
        INSPECT,
    ),
    (
        "right-to-left and combining characters",
        with_labels(["\u202eevil", "e\u0301", "é"]),
        "read",
        {"check": labels_are("\u202eevil", "e\u0301", "é")},
    ),
]

STRUCTURE = [
    ("empty", b"", "refused"),
    ("one line end", b"\n", "refused"),
    ("blank lines", b"\n \n\n", "refused"),
    ("header only", b"a,b,label\n", "refused"),
    ("header without a line end", b"a,b,label", "refused"),
    ("one row", b"a,b,label\n1,2,no\n", "refused"),
    ("two rows", b"a,b,label\n1,2,no\n2,3,yes\n", "either"),
    ("no label column", PLAIN.replace("label", "lab"), "refused"),
    ("the label column in capitals", PLAIN.replace("label", "LABEL"), "refused"),
    ("a blank after the name of the label column", with_line(0, "a,b,label "), "either"),
    ("only the label column", "label\n" + "no\nyes\n" * 12, "refused"),
    ("one class", with_labels(["no"]), "refused"),
    ("no label at all", with_labels([""]), "refused"),
    ("blank labels", with_labels([" ", "  "]), "refused"),
    ("a third of the labels missing", with_labels(["no", "yes", ""]), "read", {"check": rows_are(16)}),
    ("another class in every row", with_labels(f"c{row}" for row in range(ROWS)), "either"),
    ("a row with a value too many", with_line(5, "1,2,3,no"), "refused"),
    ("a row with a value too few", with_line(5, "1,no"), "refused"),
    ("a comma at the end of a row", with_line(5, "1,2,no,"), "refused"),
    (
        "a comma at the end of every row but the header",
        PLAIN.replace("no\n", "no,\n").replace("yes\n", "yes,\n"),
        "refused",
    ),
    ("a comma at the end of every line", PLAIN.replace("\n", ",\n"), "read", ALL_ROWS),
    ("blank lines between rows", PLAIN.replace("\n", "\n\n"), "read", ALL_ROWS),
    ("blank lines at the end", PLAIN + "\n\n\n", "read", ALL_ROWS),
    ("blank lines before the header", "\n\n" + PLAIN, "read", ALL_ROWS),
    ("a line of blanks in the middle", with_line(5, "   "), "either"),
    ("no line end in the last row", PLAIN[:-1], "read", ALL_ROWS),
    ("cut in the last row", PLAIN[:-8], "refused"),
    ("a comment before the header", "# made today\n" + PLAIN, "refused"),
    ("two lines of header", "a,b,label\nunit,unit,text\n" + PLAIN[10:], "either"),
    ("the header again in the middle", with_line(12, "a,b,label"), "either"),
    ("a header of other length", with_line(0, "a,label"), "refused"),
    ("a conflict of git", PLAIN + "<<<<<<< HEAD\n1,2,no\n=======\n1,2,yes\n>>>>>>> main\n", "refused"),
    ("two names of one column", with_line(0, "a,a,label"), "read", ALL_ROWS),
    ("two label columns", with_column(["no", "yes"], "label"), "either"),
    ("names that renaming makes", "a,a,a.1,a_2,label\n" + "1,2,3,4,no\n3,1,5,6,yes\n" * 12, "either"),
    ("empty names", with_line(0, ",,label"), "read", ALL_ROWS),
    ("numbers as names", with_line(0, "0,1,label"), "read", ALL_ROWS),
    ("a name with 5,000 characters", with_line(0, f"{'x' * 5000},b,label"), "read", ALL_ROWS),
    ("a name with a line end", with_line(0, '"a\nz",b,label'), "read", ALL_ROWS),
    ("names of internal columns", with_line(0, "__index_level_0__,id,label"), "read", ALL_ROWS),
    ("2,000 columns of one name", lambda: _wide(2_000, same=True), "either", INSPECT),
    ("20,000 columns of one name", lambda: _wide(20_000, same=True), "either", INSPECT),
    ("100,000 columns", lambda: _wide(100_000, same=False), "either", {**INSPECT, "time_limit": 180}),
    ("separated by blanks", PLAIN.replace(",", " "), "refused"),
    ("separated by semicolons, decimal commas", PLAIN.replace(",", ";").replace(".", ","), "read", ALL_ROWS),
    ("semicolons, but a comma in the header", PLAIN.replace(",", ";").replace("a;", "a,x;", 1), "refused"),
    ("Windows and Unix line ends mixed", PLAIN.replace("\n", "\r\n", 10), "read", ALL_ROWS),
    ("line ends of an old Mac", PLAIN.replace("\n", "\r"), "either"),
    ("two carriage returns per line end", PLAIN.replace("\n", "\r\r\n"), "either"),
    (
        "vertical tab, form feed and U+2028 in a text",
        with_column(["x\x0by", "x\x0cy", "x\u2028y", "x\x85y"]),
        "read",
        ALL_ROWS,
    ),
]

QUOTES = [
    ("text after a closing quote in the header", with_line(0, 'a,"b"c,label'), "either"),
    ("text after a closing quote in a row", with_line(5, '1,"2"3,no'), "either"),
    ("an open quote in the header", with_line(0, 'a,"b,label'), "refused"),
    ("an open quote in the first row", with_line(1, '"1,2,no'), "refused"),
    ("an open quote in the middle", with_line(12, '1,2,"no'), "refused"),
    ("an open quote in the last row", with_line(ROWS, '1,2,"no'), "refused"),
    (
        "two open quotes, so that rows merge",
        "\n".join(['1,2,"no' if at in (5, 9) else line for at, line in enumerate(lines_of())]),
        "either",
    ),
    ("only a quote", b'"', "refused"),
    (
        "quotes around every value",
        "\n".join(",".join(f'"{v}"' for v in line.split(",")) for line in lines_of()),
        "read",
        ALL_ROWS,
    ),
    ("line ends in values", with_column(['"x\ny"', '"x\r\n""y"""']), "read", ALL_ROWS),
    ("single quotes", with_column(["'x", "y'"]), "read", ALL_ROWS),
    ("a quote escaped by a backslash", with_column(['"x\\"y"', "z"]), "either"),
    ("a quote in the middle of a value", with_column(['5" disk', "z"]), "read", ALL_ROWS),
    ("typographic quotes", with_column(["“x”", "„y“"]), "read", ALL_ROWS),
]

CONTENTS = [
    ("a NUL byte in a value", with_column(["x\0y", "z"]), "either"),
    ("a NUL byte in the header", with_line(0, "a\0,b,label"), "either"),
    ("a NUL byte in a label", with_labels(["n\0o", "yes"]), "either"),
    ("only NUL bytes", b"\0" * 4096, "refused"),
    ("NUL bytes at the end, as after a power cut", PLAIN.encode() + b"\0" * 4096, "refused"),
    ("control characters", with_column([f"x{chr(code)}" for code in range(1, 9)]), "read", ALL_ROWS),
    ("escape codes of a terminal in a label", with_labels(["\x1b[31mred\x1b[0m", "\x1b]0;title\x07"]), "read"),
    (
        "a value of five megabytes",
        lambda: with_column(["x" * 5_000_000, "y"] + ["z"] * 22).encode(),
        "read",
        {**ALL_ROWS, "time_limit": 60},
    ),
    ("a label of a megabyte", lambda: with_labels(["x" * 1_000_000] + ["y"] * 23).encode(), "either"),
    (
        "formulas",
        with_labels(["=1+1", "@SUM(A1)", "+1", "-x"]),
        "read",
        {"check": labels_are("=1+1", "@SUM(A1)", "+1", "-x")},
    ),
    (
        "scripts in labels",
        with_labels(["<script>alert(1)</script>", "</script>"]),
        "read",
        {"check": labels_are("<script>alert(1)</script>", "</script>")},
    ),
    ("NaN and inf among numbers", with_column(["NaN", "inf", "-inf", "1.5"]), "read", ALL_ROWS),
    ("numbers beyond float64", with_column(["1e999", "-1e999", "1e-999", "2"]), "read", ALL_ROWS),
    ("numbers beyond float32", with_column(["1e300", "-1e300", "0", "2"]), "read", ALL_ROWS),
    ("numbers of 400 digits", with_column(["9" * 400, "1"]), "read", ALL_ROWS),
    ("hexadecimal numbers", with_column(["0x1F", "0x20"]), "read", ALL_ROWS),
    ("thousands separators", with_column(['"1,000"', '"2,500"']), "read", ALL_ROWS),
    ("percentages and currencies", with_column(["5 %", "€7"]), "read", ALL_ROWS),
    ("impossible dates", with_column(["2024-02-30", "9999-99-99", "0000-00-00"]), "read", ALL_ROWS),
    ("dates beyond nanoseconds", with_column(["0001-01-01", "9999-12-31"]), "read", ALL_ROWS),
    ("Arabic digits", with_column(["٣", "٤", "٥"]), "read", ALL_ROWS),
    ("all inputs constant", "a,label\n" + "1,no\n1,yes\n" * 12, "refused"),
    ("all inputs missing", "a,label\n" + ",no\n,yes\n" * 12, "refused"),
    ("the label twice as the only input", "a,label\n" + "no,no\nyes,yes\n" * 12, "refused"),
]

LABELS = [
    ("labels beyond 2^53", *_labels("9007199254740993", "9007199254740992", "9007199254740995")),
    ("labels beyond 2^63", *_labels("9223372036854775808", "9223372036854775809")),
    ("labels of 30 digits", *_labels("1" * 30, "1" * 29 + "2")),
    (
        "a large label and a missing one",
        with_labels(["9007199254740993", "5", ""]),
        "read",
        {"check": labels_are("9007199254740993", "5")},
    ),
    ("a large label among fractions", with_labels(["9007199254740993", "0.5"]), "either"),
    ("leading zeros", *_labels("007", "010")),
    ("underscores in numbers", *_labels("1_000", "2_000")),
    ("words that look like numbers", with_labels(["inf", "1e5", "2"]), "either"),
    ("the words true and FALSE", *_labels("true", "FALSE")),
    ("labels that look missing", with_labels(["nan", "None", "NA", "x"]), "either"),
    ("negative numbers", *_labels("-1", "1")),
    ("1 and 1.0", with_labels(["1", "1.0", "2"]), "either"),
    ("yes with and without blanks", with_labels(["yes", " yes", "no"]), "either"),
    ("fractions: a measured quantity", with_labels(str(row / 7) for row in range(ROWS)), "either"),
    (
        "large ids",
        with_column([str(9007199254740993 + row) for row in range(ROWS)], "key"),
        "read",
        {"id": "key", "check": ids_are(str(9007199254740993 + row) for row in range(ROWS))},
    ),
    (
        "ids with leading zeros",
        with_column([f"00{row}" for row in range(ROWS)], "key"),
        "read",
        {"id": "key", "check": ids_are(f"00{row}" for row in range(ROWS))},
    ),
    ("a repeated id", with_column([str(row // 2) for row in range(ROWS)], "key"), "refused", {"id": "key"}),
    ("a missing id", with_column([str(row or "") for row in range(ROWS)], "key"), "refused", {"id": "key"}),
    (
        "ids with scripts and slashes",
        with_column([f"../<b>{row}" for row in range(ROWS)], "key"),
        "read",
        {"id": "key", "check": ids_are(f"../<b>{row}" for row in range(ROWS))},
    ),
    ("an id column that does not exist", PLAIN, "refused", {"id": "key"}),
    ("a text column that does not exist", PLAIN, "refused", {"text": "words"}),
    ("the label as text", PLAIN, "refused", {"text": "label"}),
    ("numbers as text", PLAIN, "either", {"text": "a"}),
]


def cases() -> Iterator[Case]:
    """All malformed CSV files."""
    return table_cases("data.csv", chain(ENCODINGS, STRUCTURE, QUOTES, CONTENTS, LABELS))


def _wide(columns: int, *, same: bool) -> bytes:
    """Two rows with so many columns."""
    header = ",".join("a" if same else f"a{number}" for number in range(columns))
    rows = "".join(
        f"{','.join(str((row + number) % 7) for number in range(columns))},{NAMES[row % 2]}\n" for row in range(6)
    )
    return f"{header},label\n{rows}".encode()
