"""Safe interruption: checkpoints that are written whole or not at all, and Ctrl-C that waits for the end of a step."""

import io
import signal
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from errata.dynamics.files import replace_atomically
from errata.errors import StoreError


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write a state (tensors, numbers, strings, lists and dicts) in place of the file."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    replace_atomically(path, lambda file: file.write(buffer.getbuffer()))


def load_state(path: Path) -> dict[str, Any] | None:
    """The state that `save_state` wrote, on the CPU, or None if there is no such file."""
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types of error for a file that it did not write
        raise StoreError(f"{path} is not a complete checkpoint. Delete it to restart this run.") from error
    return state


def group_checkpoint(folder: Path, names: Sequence[str]) -> Path:
    """The checkpoint file of jobs that are trained side by side."""
    return folder / f"{names[0]}-and-{len(names) - 1}-more.checkpoint"


def furthest_checkpoint(folder: Path, names: Collection[str]) -> dict[str, Any] | None:
    """The state with the most epochs that contains all of these jobs; it may contain others too.

    States with more epochs that contain only some of the jobs are deleted, because those jobs restart before them.
    """
    states = {path: load_state(path) for path in sorted(folder.glob("*.checkpoint"))}
    touched = {path: state for path, state in states.items() if state and not state["jobs"].keys().isdisjoint(names)}
    usable = [state for state in touched.values() if state["jobs"].keys() >= set(names)]
    chosen = max(usable, key=lambda state: int(state["epoch"]), default=None)
    for path, state in touched.items():
        if state["epoch"] > (chosen["epoch"] if chosen else 0):
            path.unlink()
    return chosen


def drop_checkpoints(folder: Path, finished: Collection[str]) -> None:
    """Delete the checkpoints whose jobs are all finished."""
    for path in folder.glob("*.checkpoint"):
        state = load_state(path)
        if state is not None and state["jobs"].keys() <= set(finished):
            path.unlink()


class DelayedInterrupt:
    """A context in which Ctrl-C takes effect at the next `check`, between two steps. A second Ctrl-C does not wait."""

    def __init__(self) -> None:
        self._pressed = False
        self._handler: Any = None

    def __enter__(self) -> "DelayedInterrupt":
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self._pressed:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.check()
        self._pressed = True
