"""The progress of a training: a bar on a terminal, otherwise a line every LOG_SECONDS."""

import sys
import time

LOG_SECONDS = 30.0


class TrainingBar:
    """Prints lines to standard output, and progress to standard error. It implements `FindProgress`."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"))
        self._bar = Progress(
            *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
        )
        self._name, self._last_line = "training", time.monotonic()
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

    def advance(self, epochs: int) -> None:
        """Add finished epochs."""
        self._bar.advance(self._task, epochs)
        self._log()

    def _log(self) -> None:
        """Without a terminal, print a line if the last one is LOG_SECONDS old."""
        now = time.monotonic()
        if self._bar.disable and now - self._last_line >= LOG_SECONDS:
            self._last_line = now
            task = self._bar.tasks[self._task]
            done = f": {task.completed:.0f} of {task.total:.0f} epochs" if task.total else ""
            print(f"{self._name}{done}", file=sys.stderr, flush=True)
