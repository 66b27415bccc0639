"""Malformed Parquet files."""

import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np

from torture.cases import Case
from torture.hostile import ROWS, labels_are, records, table_case
from torture.victims import command

ODD_COLUMN = {"name": "a", "field_name": "a", "pandas_type": "odd", "numpy_type": "odd", "metadata": None}
METADATA = {
    "pandas metadata that are not JSON": b"{not json",
    "pandas metadata that are a list": b"[]",
    "pandas metadata with an index that is not there": json.dumps(
        {"index_columns": ["gone"], "columns": [], "column_indexes": []}
    ).encode(),
    "pandas metadata with unknown types": json.dumps(
        {"index_columns": [], "columns": [ODD_COLUMN], "column_indexes": [], "pandas_version": "0"}
    ).encode(),
    "pandas metadata of deep nesting": b"[" * 100_000,
    "pandas metadata that are not UTF-8": b"\xff\xfe\xff",
}


def cases() -> Iterator[Case]:
    """All malformed Parquet files."""
    for name, columns, expected, more in _parquet_columns():
        yield table_case(name, "data.parquet", _stored(columns), expected, **more)
    whole = _stored({})
    damages: dict[str, Callable[[bytes], bytes]] = {
        "empty": lambda content: b"",
        "only the magic bytes": lambda content: b"PAR1PAR1",
        "cut by a byte": lambda content: content[:-1],
        "cut in half": lambda content: content[: len(content) // 2],
        "without the first bytes": lambda content: content[4:],
        "an encrypted footer": lambda content: content[:-4] + b"PARE",
        "a footer longer than the file": lambda content: content[:-8] + b"\xff\xff\xff\x7fPAR1",
        "a footer of length 0": lambda content: content[:-8] + bytes(4) + b"PAR1",
        "a damaged footer": lambda content: content[:-200] + b"\xff" * 100 + content[-100:],
        "damaged pages": lambda content: content[:4] + b"\xff" * 80 + content[84:],
        "a CSV file": lambda content: b"a,b,label\n1,2,no\n",
        "a zip archive": lambda content: b"PK\x03\x04" + content,
    }
    for name, damage in damages.items():
        yield table_case(name, "data.parquet", lambda damage=damage: damage(whole()))
    for name, metadata in METADATA.items():
        yield table_case(name, "data.parquet", _stored({}, {b"pandas": metadata}), "either")
    work = command("data", "inspect", "data.parquet", "--label", "label")
    same = _stored({}, same=2000)
    yield table_case("2,000 columns of one name", "data.parquet", same, "either", work=work, time_limit=20)
    yield table_case("two columns of one name and different types", "data.parquet", _twice("a", [1.5], ["x"]), "either")
    yield table_case(
        "two label columns of different types", "data.parquet", _twice("label", [1, 2], ["x", "y"]), "either"
    )


def _parquet_columns() -> Iterator[tuple[str, dict[str, Any], Any, dict[str, Any]]]:
    """Columns that replace or join those of the small table: (name, columns, expected, further fields)."""
    import pyarrow as pa

    def repeated(values: list[Any], kind: Any = None) -> Any:
        return pa.array([values[row % len(values)] for row in range(ROWS)], kind)

    large = [9007199254740993, 9007199254740992]
    inputs = {
        "lists": (repeated([[1, 2], [], None]), "either"),
        "structures": (repeated([{"x": 1}, {"x": 2}]), "either"),
        "maps": (repeated([[("x", 1)], []], pa.map_(pa.string(), pa.int64())), "either"),
        "bytes that are not UTF-8": (repeated([b"\xff\xfe", b"\x00"]), "either"),
        "only nulls": (pa.nulls(ROWS), "read"),
        "half precision": (pa.array(np.linspace(0, 1, ROWS).astype(np.float16)), "read"),
        "decimals": (repeated([Decimal("1.5"), Decimal("2.5")]), "either"),
        "decimals of 38 digits": (repeated([Decimal("9" * 38), Decimal(1)]), "either"),
        "dates beyond nanoseconds": (repeated([-(2**62), 2**62], pa.timestamp("us")), "either"),
        "times of day": (repeated([1, 2], pa.time64("us")), "either"),
        "durations": (repeated([1, 2], pa.duration("s")), "either"),
        "NaN and infinity": (repeated([float("nan"), float("inf"), 1.0]), "read"),
        "whole numbers beyond 2^63": (repeated([2**64 - 1, 0], pa.uint64()), "read"),
        "categories with unsigned index": (
            repeated(["x", "y"]).dictionary_encode().cast(pa.dictionary(pa.uint8(), pa.string())),
            "read",
        ),
        "unknown time zones": (repeated([1, 2], pa.timestamp("us", "Mars/Olympus")), "either"),
    }
    for name, (column, expected) in inputs.items():
        yield f"inputs: {name}", {"c": column}, expected, {}
    texts = {"check": labels_are(*map(str, large))}
    labels = {
        "beyond 2^53": (repeated(large), "read", texts),
        "beyond 2^53, some missing": (repeated([*large, None]), "read", texts),
        "beyond 2^63": (
            repeated([2**64 - 1, 2**63], pa.uint64()),
            "read",
            {"check": labels_are(str(2**64 - 1), str(2**63))},
        ),
        "decimals": (repeated([Decimal(large[0]), Decimal(large[1])]), "either", {}),
        "lists": (repeated([["no"], ["yes"]]), "refused", {}),
        "structures": (repeated([{"x": 1}, {"x": 2}]), "refused", {}),
        "only nulls": (pa.nulls(ROWS), "refused", {}),
        "bytes": (repeated([b"no", b"yes"]), "either", {}),
        "bytes that are not UTF-8": (repeated([b"\xff", b"\xfe"]), "either", {}),
        "dates": (repeated([0, 1], pa.date32()), "either", {}),
        "NaN": (repeated([float("nan"), 1.0, 2.0]), "either", {}),
        "categories": (repeated(["no", "yes"]).dictionary_encode(), "read", {"check": labels_are("no", "yes")}),
        "flags with gaps": (repeated([True, False, None]), "read", {"check": labels_are("True", "False")}),
        "one value": (repeated(["no"]), "refused", {}),
    }
    for name, (column, expected, more) in labels.items():
        yield f"labels: {name}", {"label": column}, expected, more
    yield "no rows", {name: pa.array([], pa.string()) for name in ("a", "b", "label")}, "refused", {}
    yield "no label column", {"label": None}, "refused", {}
    yield "no columns", {"a": None, "b": None, "label": None}, "refused", {}
    yield "an empty name", {"": repeated([1, 2])}, "read", {}


def _stored(changes: dict[str, Any], metadata: dict[bytes, bytes] | None = None, same: int = 0) -> Callable[[], bytes]:
    """The small table as Parquet. changes: columns to add, or None to remove one. same: further columns named x."""

    def make() -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {name: pa.array([record[name] for record in records()]) for name in ("a", "b", "label")} | changes
        pairs = [(name, column) for name, column in columns.items() if column is not None]
        pairs += [("x", pa.array(np.arange(ROWS) % (2 + number % 7))) for number in range(same)]
        table = pa.Table.from_arrays([column for _, column in pairs], names=[name for name, _ in pairs])
        if metadata:
            table = table.replace_schema_metadata(metadata)
        sink = io.BytesIO()
        pq.write_table(table, sink)
        return sink.getvalue()

    return make


def _twice(name: str, first: list[Any], second: list[Any]) -> Callable[[], bytes]:
    """Parquet with two columns of one name."""

    def make() -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pairs = [(key, pa.array([record[key] for record in records()])) for key in ("a", "b", "label") if key != name]
        pairs += [(name, pa.array([values[row % len(values)] for row in range(ROWS)])) for values in (first, second)]
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_arrays([column for _, column in pairs], names=[key for key, _ in pairs]), sink)
        return sink.getvalue()

    return make
