"""Pack results for git: the numbers and rankings of all cells of a setting in one Parquet file.

A packed file has one row group per cell and table. The column `table` is `numbers` or `ranks`; a row has the columns of
its table, gathering and seed. Per-sample scores and failures stay in the files of the cell.
"""

from io import BytesIO
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from errata.bench.plan import Cell
from errata.bench.results import NUMBERS, RANKS, Results, read_packed_numbers, read_packed_ranks
from errata.dynamics.files import write_file
from errata.errors import StoreError

CellTables = dict[Cell, tuple[pd.DataFrame, pd.DataFrame]]


def pack(results: Results) -> dict[str, int]:
    """Move the files of cells into the packed file of their setting. Returns the number of cells in each of these.

    The files of a cell replace what the packed file has for it. They are removed only after the new packed file is
    written and read back equal. If packing is interrupted, all results stay readable; packing again completes it.
    """
    lock = results.work("pack.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        settings = {path.parent.name for path in results.folder.glob(f"cells/*/*-seed*{RANKS}")}
        return {setting: cells for setting in sorted(settings) if (cells := _pack_setting(results, setting))}


def _pack_setting(results: Results, setting: str) -> int:
    cells = [cell for cell in results.cells() if cell.setting == setting]
    if not cells:
        return 0  # a cell is being written
    path = results.packed_path(setting)
    _write_checked(path, {cell: (results.numbers_of(cell), results.ranks(cell)) for cell in cells})
    for cell in cells:
        for kind in (NUMBERS, RANKS):  # rankings last: they mark what is left after an interruption
            results.file(cell, kind).unlink(missing_ok=True)
    folder = path.with_suffix("")
    if not any(folder.iterdir()):
        folder.rmdir()
    return len(cells)


def _write_checked(path: Path, tables: CellTables) -> None:
    """Write a packed file, unless reading it gives other tables."""
    packed = _packed_bytes(tables)
    for cell, (numbers, ranks) in tables.items():
        read = read_packed_numbers(BytesIO(packed), cell)
        if not read[list(numbers)].equals(numbers) or not read_packed_ranks(BytesIO(packed), cell).equals(ranks):
            raise StoreError(f"{path}: {cell.name} differs after packing. Nothing was changed.")
    write_file(path, packed)
    if path.read_bytes() != packed:
        raise StoreError(f"{path} differs from what was written. The files of its cells are still there.")


def _packed_bytes(tables: CellTables) -> bytes:
    parts = []
    for cell, (numbers, ranks) in tables.items():
        for name, table in (("numbers", numbers), ("ranks", ranks.astype({"method": "str"}))):
            rows = table.assign(table=name, gathering=cell.gathering, seed=cell.seed)
            part = pa.Table.from_pandas(rows, preserve_index=False)
            parts.append(part.replace_schema_metadata(None))  # the pandas dtypes of one table do not fit the other
    schema = pa.unify_schemas([part.schema for part in parts], promote_options="permissive")
    first = ["table", "gathering", "seed"]
    schema = pa.schema([schema.field(name) for name in [*first, *(n for n in schema.names if n not in first)]])
    file = BytesIO()
    with pq.ParquetWriter(file, schema, compression="zstd", compression_level=12) as writer:
        for part in parts:
            whole = pa.concat_tables([schema.empty_table(), part], promote_options="permissive")
            writer.write_table(whole.select(schema.names), row_group_size=max(1, len(part)))
    return file.getvalue()
