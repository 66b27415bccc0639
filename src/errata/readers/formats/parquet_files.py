"""Parquet files."""

from pathlib import Path

from errata.errors import DataError
from errata.readers.data_frames import frame_of
from errata.readers.file_types import TableContents, TableReader
from errata.readers.memory import check_fits
from errata.wording import one_line


def read_parquet(path: Path) -> TableContents:
    """Read a table without the index columns of pandas."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups)]
            check_fits(2.0 * sum(groups), f"the table in {path}")
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a complete Parquet file: {one_line(error)}") from error
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    return TableContents(frame_of(table.select(names)))


TABLE_READERS: dict[str, TableReader] = {".parquet": read_parquet}
