"""Tables and progress bars in the terminal, and tables in files."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import InputError, StoreError

if TYPE_CHECKING:
    import pandas as pd

_WIDE = 1000


def check_out(out: Path) -> None:
    """Refuse an output file of an unsupported type, or in a folder that cannot be written to."""
    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out} must end in .csv or .parquet")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist")
    try:
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise StoreError(f"{out} cannot be written: {error.strerror}") from error


def write_table(table: "pd.DataFrame", out: Path) -> None:
    """Write a .csv or .parquet file, completely or not at all."""
    from errata.dynamics.files import replace_atomically

    writer = table.to_csv if out.suffix == ".csv" else table.to_parquet
    replace_atomically(out, lambda file: writer(file, index=False))


def print_table(table: "pd.DataFrame", title: str) -> None:
    """Print a table with a title; in a file or a pipe, every row is one line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console.width = _WIDE
    shown = Table(title=title, title_justify="left")
    for number, column in enumerate(table.columns):
        shown.add_column(str(column), no_wrap=number == 0)  # the first column identifies the row
    for row in table.itertuples(index=False):
        shown.add_row(*(Text(str(cell)) for cell in row))  # not interpreted as markup of rich
    console.print(shown)


def intervals(rates: "pd.DataFrame") -> list[str]:
    """One text per row: low to high, in percent."""
    return [f"{low:.1%} to {high:.1%}" for low, high in zip(rates["low"], rates["high"], strict=True)]


class progress_bar:  # noqa: N801
    """A progress bar on stderr if that is a terminal. The `with` statement returns a function that advances it."""

    def __init__(self, title: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self._bar = Progress(console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(title, total=total)

    def __enter__(self) -> Any:
        self._bar.start()
        return lambda steps=1: self._bar.advance(self._task, steps)

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
