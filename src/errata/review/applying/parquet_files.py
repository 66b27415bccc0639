"""Copies of Parquet files."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from errata.dynamics.files import replace_atomically
from errata.readers.table_rows import plain_names
from errata.review.applying.arrow_columns import new_labels, relabelled
from errata.review.applying.edits import Advance, Edits, Original

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class ParquetFile(Original):
    """A table in a Parquet file; `label` is a column as `errata find` names it."""

    label: str

    def check(self, edits: Edits) -> None:
        """Refuse labels that are not of the column's type."""
        import pyarrow.parquet as pq

        self._new_labels(edits, pq.read_schema(self.path))

    def write(self, edits: Edits, target: Path, advance: Advance) -> list[str]:
        """Write the copy, packed and in groups of rows like the original."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            table, group = file.read(), file.metadata.row_group(0)
        place = self._place(table.schema)
        column = relabelled(table.column(place), edits, self._new_labels(edits, table.schema))
        table = table.set_column(place, table.schema.field(place), column).filter(edits.kept(len(table)))
        size, codec = group.num_rows, group.column(0).compression
        replace_atomically(target, lambda file: pq.write_table(table, file, row_group_size=size, compression=codec))
        return []

    def _new_labels(self, edits: Edits, schema: "pa.Schema") -> "pa.Array":
        return new_labels(edits, schema.field(self._place(schema)).type, f"column {self.label!r} of {self.path}")

    def _place(self, schema: "pa.Schema") -> int:
        return plain_names(schema.names)[0].index(self.label)
