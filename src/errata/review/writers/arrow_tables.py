"""Arrow tables: Parquet files, and folders saved by Hugging Face `datasets`. Column types stay the same."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.dynamics.files import replace_atomically
from errata.errors import InputError
from errata.readers.data_frames import unique_names
from errata.readers.saved_datasets import INFO, STATE, SavedDataset
from errata.review.writers.label_writer import LabelEdits, LabelWriter, Progress, WriterFactory, new_copy_folder
from errata.wording import listed

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_KEY = b"huggingface"  # where `datasets` describes the columns in the metadata of a schema


@dataclass(frozen=True, eq=False)
class ArrowTable(LabelWriter):
    """A table with typed columns. label: the name of the label column."""

    label: str

    def check_schema(self, schema: "pa.Schema", edits: LabelEdits) -> None:
        """Refuse new labels that do not fit the type of the label column."""
        self._new_labels(edits, schema.field(self._position(schema)).type)

    def corrected(self, table: "pa.Table", edits: LabelEdits) -> "pa.Table":
        """The table with the new labels and without the dropped rows."""
        position = self._position(table.schema)
        labels = self._relabelled(table.column(position), edits)
        return table.set_column(position, table.schema.field(position), labels).filter(edits.rows_to_keep(len(table)))

    def _position(self, schema: "pa.Schema") -> int:
        """The position of the label column."""
        return unique_names(schema.names)[0].index(self.label)

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

        self.check_schema(pq.read_schema(self.path), edits)

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        """Write the copy with the compression and the row group size of the original."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as original:
            table, group = self.corrected(original.read(), edits), original.metadata.row_group(0)
        size, codec = group.num_rows, group.column(0).compression
        replace_atomically(target, lambda file: pq.write_table(table, file, row_group_size=size, compression=codec))
        return []


@dataclass(frozen=True, eq=False)
class SavedDatasetWriter(ArrowTable):
    """A folder written by `Dataset.save_to_disk`."""

    dataset: SavedDataset

    def check(self, edits: LabelEdits) -> None:
        self.check_schema(self.dataset.table().schema, edits)

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        """Write the folder with the same number of data files."""
        column = self.dataset.table().column(self.label)
        kept = edits.rows_to_keep(len(column))
        labels = self._relabelled(column, edits)
        start = 0
        with new_copy_folder(target) as folder:
            for name, table in self.dataset.tables.items():
                place, rows = table.schema.get_field_index(self.label), slice(start, start + len(table))
                table = table.set_column(place, table.schema.field(place), labels.slice(start, len(table)))
                self._write_table(table.filter(kept[rows]), edits, folder / name)
                start = rows.stop
            for name, content in ((STATE, self._new_state(edits)), (INFO, self._new_info(edits, int(kept.sum())))):
                (folder / name).write_text(json.dumps(content, indent=2), encoding="utf-8")
        return []

    def _new_labels(self, edits: LabelEdits, dtype: "pa.DataType") -> "pa.Array":
        import pyarrow as pa

        names = self._class_names(edits)
        if names is None:
            return super()._new_labels(edits, dtype)
        return pa.array([names.index(str(label)) for label in edits.new_classes], type=dtype)

    def _class_names(self, edits: LabelEdits) -> list[str] | None:
        """The class names of a ClassLabel column, with the new classes. None for other columns."""
        names = self.dataset.class_names(self.label)
        return None if names is None else list(dict.fromkeys([*names, *map(str, edits.new_classes)]))

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
        features, names = info.get("features") or {}, self._class_names(edits)
        if names is None or self.label not in features:
            return info
        feature = {**features[self.label], "names": names}
        return {**info, "features": {**features, self.label: feature}}

    def _new_state(self, edits: LabelEdits) -> dict[str, Any]:
        """The state with a new fingerprint: with the old one, `datasets` would load cached results of the original."""
        state = self.dataset.state
        content = [state.get("_fingerprint"), edits.drop, [(edit.row, str(edit.after)) for edit in edits.entries]]
        return {**state, "_fingerprint": hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]}

    def _new_info(self, edits: LabelEdits, rows: int) -> dict[str, Any]:
        """The dataset info with the new classes and the new number of rows."""
        info, split = self._with_classes(self.dataset.info, edits), self.dataset.state.get("_split")
        splits = info.get("splits") or {}
        if split not in splits:
            return info
        return {**info, "splits": {**splits, split: {**splits[split], "num_examples": rows}}}


WRITERS: dict[str, WriterFactory] = {".parquet": ParquetTable}
