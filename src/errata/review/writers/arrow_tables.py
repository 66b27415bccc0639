"""Arrow tables: Parquet files, and folders saved by Hugging Face `datasets`. Column types stay the same."""

import hashlib
import json
import re
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.dynamics.files import replace_atomically
from errata.readers.data_frames import frame_of, unique_names
from errata.readers.number_columns import LEADING_ZERO
from errata.readers.saved_datasets import INFO, STATE, SavedDataset
from errata.review.label_numbers import BOOLEANS, exact_float, whole_number
from errata.review.writers.label_writer import LabelEdits, LabelWriter, Progress, WriterFactory

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_KEY = b"huggingface"  # where `datasets` describes the columns in the metadata of a schema


@dataclass(frozen=True, eq=False)
class ArrowTable(LabelWriter):
    """A table with typed columns. label: the name of the label column."""

    label: str

    @property
    @abstractmethod
    def schema(self) -> "pa.Schema":
        """The columns of the table."""

    @cached_property
    def label_type(self) -> "pa.DataType":
        """The type of the label column."""
        return self.schema.field(self._position(self.schema)).type

    @property
    def labels_are(self) -> str:
        return f"column {self.label!r} of {self.path} has the type {self.label_type}"

    def read_label(self, text: str) -> Any:
        """The text as a value of the column type, read by the rules of Arrow; numbers to the digit."""
        import pyarrow as pa
        import pyarrow.compute as pc

        dtype: Any = self.label_type
        dtype = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
        value: Any = text
        if pa.types.is_integer(dtype):
            value = whole_number(text)
        elif pa.types.is_floating(dtype):
            value = exact_float(text, dtype.to_pandas_dtype())
        elif pa.types.is_decimal(dtype):
            value = None if re.match(LEADING_ZERO, text) else text
        elif pa.types.is_boolean(dtype):
            value = BOOLEANS.get(text.strip().casefold())
        try:
            array = pc.cast(pa.array([value]), dtype) if isinstance(value, str) else pa.array([value], type=dtype)
        except (pa.ArrowException, OverflowError):
            return None
        return None if value is None else frame_of(pa.table({"label": array}))["label"].tolist()[0]

    def corrected(self, table: "pa.Table", edits: LabelEdits) -> "pa.Table":
        """The table with the new labels and without the dropped rows."""
        position = self._position(table.schema)
        labels = self._relabelled(table.column(position), edits)
        return table.set_column(position, table.schema.field(position), labels).filter(edits.rows_to_keep(len(table)))

    def _position(self, schema: "pa.Schema") -> int:
        """The position of the label column."""
        return unique_names(schema.names)[0].index(self.label)

    def _new_labels(self, edits: LabelEdits) -> "pa.Array":
        """The new classes as values of the column type."""
        import pyarrow as pa

        return pa.array(edits.new_classes, type=self.label_type)

    def _relabelled(self, column: "pa.ChunkedArray", edits: LabelEdits) -> "pa.ChunkedArray":
        """The label column (N,) with the new labels."""
        import pyarrow as pa

        chunks = [*column.chunks, self._new_labels(edits)]
        extended: Any = pa.chunked_array(chunks, type=column.type).unify_dictionaries()
        return extended.take(pa.array(edits.label_rows(len(column))))


class ParquetTable(ArrowTable):
    """A Parquet file."""

    @property
    def schema(self) -> "pa.Schema":
        import pyarrow.parquet as pq

        return pq.read_schema(self.path)

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

    @property
    def schema(self) -> "pa.Schema":
        return self.dataset.table().schema

    def read_label(self, text: str) -> Any:
        return super().read_label(text) if self.dataset.class_names(self.label) is None else text

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        """Write the folder with the same number of data files."""
        column = self.dataset.table().column(self.label)
        kept = edits.rows_to_keep(len(column))
        labels = self._relabelled(column, edits)
        start = 0
        target.mkdir()
        for name, table in self.dataset.tables.items():
            place, rows = table.schema.get_field_index(self.label), slice(start, start + len(table))
            table = table.set_column(place, table.schema.field(place), labels.slice(start, len(table)))
            self._write_table(table.filter(kept[rows]), edits, target / name)
            start = rows.stop
        for name, content in ((STATE, self._new_state(edits)), (INFO, self._new_info(edits, int(kept.sum())))):
            (target / name).write_text(json.dumps(content, indent=2), encoding="utf-8")
        return []

    def _new_labels(self, edits: LabelEdits) -> "pa.Array":
        import pyarrow as pa

        names = self._class_names(edits)
        if names is None:
            return super()._new_labels(edits)
        return pa.array([names.index(str(label)) for label in edits.new_classes], type=self.label_type)

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
