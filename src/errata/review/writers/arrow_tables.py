"""Arrow tables: Parquet files, and folders saved by Hugging Face `datasets`. Column types stay the same."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.dynamics.files import replace_atomically
from errata.errors import InputError
from errata.finding.sources import INFO, STATE, arrow_table
from errata.readers.data_frames import unique_names
from errata.review.writers.label_writer import LabelEdits, LabelWriter, Progress, WriterFactory, new_copy_folder
from errata.wording import listed

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_KEY = b"huggingface"  # where `datasets` describes the columns in the metadata of a schema


@dataclass(frozen=True, eq=False)
class ArrowTable(LabelWriter):
    """A table with typed columns. label: the name of the label column."""

    label: str

    def _new_labels(self, edits: LabelEdits, dtype: "pa.DataType") -> "pa.Array":
        """The new classes as values of the column type."""
        import pyarrow as pa

        try:
            return pa.array(edits.new_classes, type=dtype)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"column {self.label!r} of {self.path} has the type {dtype}, which cannot hold the new label "
                f"{listed(edits.new_classes)}"
            ) from error

    def _relabelled(self, column: "pa.ChunkedArray", edits: LabelEdits) -> "pa.ChunkedArray":
        """The label column (N,) with the new labels."""
        import pyarrow as pa

        chunks = [*column.chunks, self._new_labels(edits, column.type)]
        extended: Any = pa.chunked_array(chunks, type=column.type).unify_dictionaries()
        return extended.take(pa.array(edits.label_rows(len(column))))


class ParquetTable(ArrowTable):
    """A Parquet file."""

    def check(self, edits: LabelEdits) -> None:
        import pyarrow.parquet as pq

        schema = pq.read_schema(self.path)
        self._new_labels(edits, schema.field(self._column(schema)).type)

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        """Write the copy with the compression and the row group size of the original."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as original:
            table, group = original.read(), original.metadata.row_group(0)
        column = self._column(table.schema)
        labels = self._relabelled(table.column(column), edits)
        table = table.set_column(column, table.schema.field(column), labels).filter(edits.rows_to_keep(len(table)))
        size, codec = group.num_rows, group.column(0).compression
        replace_atomically(target, lambda file: pq.write_table(table, file, row_group_size=size, compression=codec))
        return []

    def _column(self, schema: "pa.Schema") -> int:
        return unique_names(schema.names)[0].index(self.label)


class SavedDataset(ArrowTable):
    """A folder written by `Dataset.save_to_disk`."""

    def check(self, edits: LabelEdits) -> None:
        """Refuse labels that do not fit the type of the column. A ClassLabel column takes any new class."""
        self._new_labels(edits, arrow_table(self._files[0]).schema.field(self.label).type)

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        """Write the folder with the same number of data files."""
        import pyarrow as pa

        tables = [arrow_table(file) for file in self._files]
        column = pa.chunked_array([chunk for table in tables for chunk in table.column(self.label).chunks])
        kept = edits.rows_to_keep(len(column))
        labels = self._relabelled(column, edits)
        start = 0
        with new_copy_folder(target) as folder:
            for file, table in zip(self._files, tables, strict=True):
                place, rows = table.schema.get_field_index(self.label), slice(start, start + len(table))
                table = table.set_column(place, table.schema.field(place), labels.slice(start, len(table)))
                self._write_table(table.filter(kept[rows]), edits, folder / file.name)
                start = rows.stop
            _write_json(folder / STATE, {**self._state, "_fingerprint": self._fingerprint(edits)})
            _write_json(folder / INFO, self._with_row_count(self._with_classes(self._info, edits), int(kept.sum())))
        return []

    @cached_property
    def _state(self) -> dict[str, Any]:
        return _read_json(self.path / STATE)

    @cached_property
    def _info(self) -> dict[str, Any]:
        return _read_json(self.path / INFO)

    @property
    def _files(self) -> list[Path]:
        return [self.path / part["filename"] for part in self._state["_data_files"]]

    @property
    def _class_names(self) -> Sequence[str] | None:
        """The class names of a ClassLabel column, which holds their numbers. None for other columns."""
        feature = (self._info.get("features") or {}).get(self.label)
        return feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None

    def _new_labels(self, edits: LabelEdits, dtype: "pa.DataType") -> "pa.Array":
        import pyarrow as pa

        if self._class_names is None:
            return super()._new_labels(edits, dtype)
        names = _extended(self._class_names, edits)
        return pa.array([names.index(str(label)) for label in edits.new_classes], type=dtype)

    def _write_table(self, table: "pa.Table", edits: LabelEdits, file: Path) -> None:
        import pyarrow as pa

        metadata = dict(table.schema.metadata or {})
        if SCHEMA_KEY in metadata:
            description = json.loads(metadata[SCHEMA_KEY])
            description["info"] = self._with_classes(description.get("info") or {}, edits)
            table = table.replace_schema_metadata({**metadata, SCHEMA_KEY: json.dumps(description).encode()})
        with pa.OSFile(str(file), "wb") as to, pa.ipc.new_stream(to, table.schema) as stream:
            stream.write_table(table)

    def _with_classes(self, info: dict[str, Any], edits: LabelEdits) -> dict[str, Any]:
        """The dataset info with the new classes added to the names of the ClassLabel."""
        features = info.get("features") or {}
        if self._class_names is None or self.label not in features:
            return info
        feature = {**features[self.label], "names": _extended(self._class_names, edits)}
        return {**info, "features": {**features, self.label: feature}}

    def _with_row_count(self, info: dict[str, Any], rows: int) -> dict[str, Any]:
        splits, name = info.get("splits") or {}, self._state.get("_split")
        if name not in splits:
            return info
        return {**info, "splits": {**splits, name: {**splits[name], "num_examples": rows}}}

    def _fingerprint(self, edits: LabelEdits) -> str:
        """A new fingerprint: with the old one, `datasets` would load cached results of the original."""
        content = [self._state.get("_fingerprint"), edits.drop, [(edit.row, str(edit.after)) for edit in edits.entries]]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


WRITERS: dict[str, WriterFactory] = {".parquet": ParquetTable}


def _extended(names: Sequence[str], edits: LabelEdits) -> list[str]:
    return list(dict.fromkeys([*names, *map(str, edits.new_classes)]))


def _read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
