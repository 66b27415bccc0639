"""Tables and progress bars in the terminal, and tables in files."""

import math
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from errata.errors import InputError, StoreError

if TYPE_CHECKING:
    import pandas as pd
    from rich.progress import Progress, ProgressColumn

LOG_SECONDS = 30.0
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how text begins that spreadsheets run as a formula
_WIDE = 1000


def check_out(out: Path | str) -> None:
    """Refuse an output file of an unsupported type, or in a folder or store that cannot be written to."""
    from errata.dynamics.files import is_url
    from errata.dynamics.places import Place

    if Path(out).suffix not in (".csv", ".parquet"):
        raise InputError(f"{out} must end in .csv or .parquet")
    if is_url(out):
        Place(str(out).rpartition("/")[0]).check_writable()
        return
    out = Path(out)
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist")
    try:
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise StoreError(f"{out} cannot be written: {error.strerror}") from error


def write_table(table: "pd.DataFrame", out: Path, *, excel_safe: bool = False) -> None:
    """Write a .csv or .parquet file, completely or not at all."""
    write_tables([table], str(out), excel_safe=excel_safe)


def write_tables(tables: "Iterable[pd.DataFrame]", out: str, *, excel_safe: bool = False) -> int:
    """Write tables with equal columns one after the other as one .csv or .parquet file; returns the number of rows.

    out: a local file, or a URL such as s3://bucket/scores.parquet. It becomes visible only when it is complete.
    excel_safe: in a .csv file, text that spreadsheets would run as a formula gets an apostrophe in front.
    In a .parquet file, only text has a dictionary: scores hardly repeat, and files with one were a third larger.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    from errata.dynamics.files import is_url, replace_atomically
    from errata.dynamics.places import Place

    rows = 0

    def write(file: Any) -> None:
        nonlocal rows
        writer = None
        with ExitStack() as open_writer:
            for table in tables:
                rows += len(table)
                if out.endswith(".csv"):
                    _formula_safe(table, excel_safe).to_csv(file, index=False, header=rows == len(table))
                    continue
                arrow = pa.Table.from_pandas(table, preserve_index=False)
                if writer is None:
                    repeated = [field.name for field in arrow.schema if not pa.types.is_primitive(field.type)]
                    writer = open_writer.enter_context(ParquetWriter(file, arrow.schema, use_dictionary=repeated))
                writer.write_table(arrow.cast(writer.schema))

    if not is_url(out):
        replace_atomically(Path(out), write)
        return rows
    folder, _, name = out.rpartition("/")
    with tempfile.TemporaryDirectory() as scratch:
        local = Path(scratch) / name
        replace_atomically(local, write)
        Place(folder).write(name, local)
    return rows


def _formula_safe(table: "pd.DataFrame", excel_safe: bool) -> "pd.DataFrame":
    if not excel_safe:
        return table
    return table.map(lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell)


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


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Any]:
    """A progress bar on stderr if that is a terminal. The `with` statement returns a function that advances it."""
    with _bar_on_stderr() as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps=1: bar.advance(task, steps)


class TrainingBar:
    """Prints lines to standard output. Progress is on stderr: a bar on a terminal, else a line every LOG_SECONDS.

    It implements `TrainingProgress`.
    """

    def __init__(self) -> None:
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

        left = TimeRemainingColumn(), TextColumn("left")
        self._bar = _bar_on_stderr(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), *left)
        self._name, self._started = "training", time.monotonic()
        self._last_line = self._started
        self._task = self._bar.add_task(self._name, total=None)

    def __enter__(self) -> "TrainingBar":
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        """Print a line."""
        print(line, flush=True)

    def total(self, epochs: int) -> None:
        """Set the number of epochs to train in all."""
        self._bar.update(self._task, total=epochs)
        self._bar.start()

    def begin(self, name: str, epochs: int) -> None:
        """Show the name of the next step, which takes `epochs` epochs."""
        self._name = name
        self._bar.update(self._task, description=name)
        self._bar.start()
        self._log()

    def advance(self, epochs: float) -> None:
        """Add finished epochs."""
        self._bar.advance(self._task, epochs)
        self._log()

    def _log(self) -> None:
        """Without a terminal, print a line if the last one is LOG_SECONDS old."""
        now = time.monotonic()
        if self._bar.disable and now - self._last_line >= LOG_SECONDS:
            self._last_line = now
            task = self._bar.tasks[self._task]
            done = task.completed / task.total if task.total else 0.0
            minutes = math.ceil((now - self._started) * (1 - done) / done / 60) if done else 0
            left = f": {done:.0%} in all, about {minutes:,} min left" if done else ""
            print(f"{self._name}{left}", file=sys.stderr, flush=True)


def _bar_on_stderr(*columns: "ProgressColumn") -> "Progress":
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


class TrainingProgress(Protocol):
    """Where the progress of trainings is shown."""

    def say(self, line: str) -> None:
        """Show a line."""

    def total(self, epochs: int) -> None:
        """Set how many epochs are trained in all, at most."""

    def begin(self, name: str, epochs: int) -> None:
        """A training of that many epochs starts."""

    def advance(self, epochs: float) -> None:
        """That many epochs are done. A training that takes fewer epochs than expected counts each as more than one."""


class NoProgress:
    """Progress that is not shown."""

    def say(self, line: str) -> None: ...  # noqa: D102
    def total(self, epochs: int) -> None: ...  # noqa: D102
    def begin(self, name: str, epochs: int) -> None: ...  # noqa: D102
    def advance(self, epochs: float) -> None: ...  # noqa: D102
