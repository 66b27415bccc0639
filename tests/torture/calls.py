"""Short forms of the calls of errata, with valid arguments by default."""

from pathlib import Path
from typing import Any

import numpy as np

ROWS, CLASSES, EPOCHS = 24, 3, 4
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(EPOCHS, ROWS, CLASSES)).astype(np.float32)
LABELS = np.arange(ROWS) % CLASSES
INPUTS = RNG.normal(size=(ROWS, 4)).astype(np.float32)


def score(logits: Any = LOGITS, labels: Any = LABELS, *method: Any, **options: Any) -> None:
    """Call errata.score."""
    import errata

    errata.score(logits, labels, *method, **options)


def find(*arguments: Any, **options: Any) -> Any:
    """Call errata.find, with boosting on the CPU unless told otherwise."""
    import errata

    return errata.find(*arguments, **{"model": "boosting", "device": "cpu", **options})


def dynamics(logits: Any = LOGITS, labels: Any = LABELS, **options: Any) -> Any:
    """Dynamics from arrays."""
    import errata

    return errata.Dynamics.from_arrays(logits, labels, **options)


def recorder(path: Any = None, labels: Any = LABELS, **options: Any) -> Any:
    """A Recorder in memory unless a path is given."""
    import errata

    return errata.Recorder(path, labels=labels, quiet=True, **{"num_classes": CLASSES, **options})


def recorded(ids: Any = None, logits: Any = None, epochs: int = 2, **finish: Any) -> Any:
    """Record epochs, the last with these ids and logits, and finish."""
    made = recorder()
    for epoch in range(epochs):
        last = epoch == epochs - 1
        rows = np.arange(ROWS) if ids is None or not last else ids
        made.update(rows, LOGITS[epoch] if logits is None or not last else logits)
        made.end_epoch()
    return made.finish(**finish)


def rank(dynamics: Any, **options: Any) -> Any:
    """Call errata.rank."""
    import errata

    return errata.rank(dynamics, **options)


def a_file() -> str:
    """The name of a new text file."""
    Path("file").write_text("text")
    return "file"
