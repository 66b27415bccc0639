"""What several commands print alike."""

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def intervals(rates: "pd.DataFrame") -> list[str]:
    """A text a row: low to high, in percent."""
    return [f"{low:.1%} to {high:.1%}" for low, high in zip(rates["low"], rates["high"], strict=True)]


def as_probability(share: float) -> str:
    """An estimated probability, which is never certain: what rounds to 1 is `> 0.99`."""
    return "> 0.99" if round(share, 2) >= 1 else str(round(share, 3))


LOG_SECONDS = 30.0


class TrainingBar:
    """Lines on standard output, and on a terminal a bar with the time left; elsewhere a line now and then instead."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"))
        self._bar = Progress(
            *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
        )
        self._task = self._bar.add_task("training", total=None)
        self._name, self._told = "training", time.monotonic()

    def __enter__(self) -> "TrainingBar":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def total(self, epochs: int) -> None:
        """So many epochs are to be trained in all."""
        self._bar.update(self._task, total=epochs)

    def say(self, line: str) -> None:
        """A line about a cell or a group."""
        print(line, flush=True)

    def begin(self, name: str, epochs: int) -> None:
        """A group is trained."""
        self._name = name
        self._bar.update(self._task, description=name)

    def advance(self, epochs: int) -> None:
        """So many more epochs are done."""
        self._bar.advance(self._task, epochs)
        now = time.monotonic()
        if self._bar.disable and now - self._told >= LOG_SECONDS:
            self._told = now
            task = self._bar.tasks[self._task]
            of = f" of {task.total:.0f}" if task.total else ""
            print(f"{self._name}: {task.completed:.0f}{of} epochs in all", file=sys.stderr, flush=True)
