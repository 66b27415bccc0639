"""Checkpoints: all that runs side by side need to go on, in one file that is whole or not there."""

import io
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch

from errata.dynamics.files import replace_atomically
from errata.errors import StoreError


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Replace the file by the state: tensors, numbers, text, lists and dicts."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    replace_atomically(path, lambda file: file.write(buffer.getbuffer()))


def load_state(path: Path) -> dict[str, Any] | None:
    """What `save_state` wrote, on the CPU, or None if there is no such file."""
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what torch raises for bytes that are not its own is anything
        raise StoreError(f"{path} is not a whole checkpoint; delete it to start this run again") from error
    return state


def group_checkpoint(folder: Path, names: Sequence[str]) -> Path:
    """Where the runs of these names, which are trained side by side, are secured."""
    return folder / f"{names[0]}-and-{len(names) - 1}-more.checkpoint"


def furthest_checkpoint(folder: Path, names: Collection[str]) -> dict[str, Any] | None:
    """The state of most epochs that has all of these runs, be it with others that they were side by side with.

    States further on that have only some of them are deleted: from here on their runs are behind them.
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
    """Delete the checkpoints that nobody needs any more: all their runs are finished."""
    for path in folder.glob("*.checkpoint"):
        state = load_state(path)
        if state is not None and state["jobs"].keys() <= set(finished):
            path.unlink()
