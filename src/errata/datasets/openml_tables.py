"""Tables of OpenML as Parquet files with the classes in the column `label`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from errata.datasets.column_tables import LABEL
from errata.datasets.spec import OpenmlTable
from errata.errors import DataError
from errata.wording import one_line

if TYPE_CHECKING:
    import pandas as pd

RETRIES = 2
PAUSE = 1.0  # seconds before another attempt


def download_table(table: OpenmlTable, path: Path) -> Path:
    """Download a table of OpenML and write it to `path`."""
    from sklearn.datasets import fetch_openml

    with TemporaryDirectory(dir=path.parent) as cache:
        try:
            found = fetch_openml(
                data_id=table.data_id,
                data_home=cache,
                as_frame=True,
                parser="auto",
                n_retries=RETRIES,
                delay=PAUSE,
            )
        except (OSError, ValueError) as error:  # no network; OpenML's own errors
            raise DataError(f"Table {table.data_id} of OpenML cannot be downloaded: {one_line(error)}") from error
    labelled_frame(found.data, found.target, table).to_parquet(path, index=False)
    return path


def labelled_frame(inputs: "pd.DataFrame", target: "pd.Series[Any]", table: OpenmlTable) -> "pd.DataFrame":
    """The inputs with our class names in the column `label`; rows of classes that are left out are dropped.

    Categories become text, so that a file has the same columns with every version of pandas.
    """
    import pandas as pd

    names = target.astype(object).map(str)
    columns = {str(name): _plain(column) for name, column in inputs.items()}
    labels = names.map(lambda name: table.classes.get(name, name))
    frame = pd.DataFrame(columns | {LABEL: labels})
    return frame[~names.isin(table.left_out)].reset_index(drop=True)


def _plain(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """A column of categories as text; None where a value is missing."""
    if column.dtype.kind in "iufb":
        return column
    return column.astype(object).map(str, na_action="ignore").where(column.notna(), None)
