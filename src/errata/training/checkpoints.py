"""Checkpoints: all that a run needs to go on, in one file that is whole or not there."""

import io
import pickle
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
    except (RuntimeError, EOFError, pickle.UnpicklingError, OSError) as error:
        raise StoreError(f"{path} is not a whole checkpoint; delete it to start this run again ({error})") from error
    return state
