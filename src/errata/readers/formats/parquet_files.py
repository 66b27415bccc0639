"""Parquet files."""

from pathlib import Path

from errata.memory import check_fits
from errata.readers.data_frames import frame_of
from errata.readers.file_access import file_errors
from errata.readers.file_types import TableContents, TableReader


def read_parquet(path: Path) -> TableContents:
    """Read a table without the index columns of pandas."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    problem = "is not a complete Parquet file"
    with file_errors(path, problem, (pa.ArrowException, OSError)), pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups)]
        check_fits(2.0 * sum(groups), f"the table in {path}")
        table = file.read()
    columns = [place for place, name in enumerate(table.column_names) if not name.startswith("__index_level_")]
    return TableContents(frame_of(table.select(columns)))


TABLE_READERS: dict[str, TableReader] = {".parquet": read_parquet}
