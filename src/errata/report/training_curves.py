"""How the loss of each sample went, small enough to be drawn beside it."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.measures import CE
from errata.dynamics.store import Dynamics
from errata.errors import InputError

EPOCHS_DRAWN = 60
TYPICAL_OF = 2_000  # samples, spread evenly over the ranking
LEVELS = 254  # heights a curve can have; the next value says that a sample was not recorded
MISSING = 255


def loss_curves(dynamics: Dynamics, ids: NDArray[Any], ranked: NDArray[Any]) -> dict[str, Any] | None:
    """Cross-entropy of the given label of the samples `ids` (n,) at some epochs, and its median over all ranked.

    Heights are bytes, 0 for no loss and 254 for `top`, where what is higher is drawn; None if no epochs were kept.
    """
    if dynamics.logits is None:
        return None
    epochs = np.unique(np.linspace(0, dynamics.epochs - 1, min(EPOCHS_DRAWN, dynamics.epochs)).round().astype(np.int64))
    spread = ranked[:: max(1, -(-len(ranked) // TYPICAL_OF))]
    losses = _losses(dynamics, rows_of(dynamics.ids, ids), epochs)
    typical = np.nanmedian(_losses(dynamics, rows_of(dynamics.ids, spread), epochs), axis=0)
    top = _top(losses)
    return {
        "epochs": (epochs + 1).tolist(),
        "top": top,
        "heights": base64.b64encode(_heights(losses, top).tobytes()).decode(),
        "typical": _heights(typical, top).tolist(),
        "typicalOf": len(spread),
    }


def rows_of(known: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Where each wanted id stands among the known ones, whether both are numbers or one became text on its way."""
    import pandas as pd

    places = pd.Index(np.asarray(known).astype(str)).get_indexer(pd.Index(np.asarray(wanted).astype(str)))
    if (places < 0).any():
        lost = np.asarray(wanted)[int(np.argmax(places < 0))]
        raise InputError(f"sample {lost} is ranked, but it is not in the data: give the data that were ranked")
    return np.asarray(places, dtype=np.int64)


def _losses(dynamics: Dynamics, rows: NDArray[np.int64], epochs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Losses (n, epochs), NaN at epochs at which a sample was not recorded."""
    assert dynamics.logits is not None
    losses = np.empty((len(rows), len(epochs)))
    for column, epoch in enumerate(epochs.tolist()):
        logits = np.array(dynamics.logits[epoch][rows])
        recorded = ~np.isnan(logits).any(axis=1)
        logits[~recorded] = 0
        losses[:, column] = np.where(recorded, CE(logits, dynamics.labels[rows]), np.nan)
    return losses


def _top(losses: NDArray[np.float64]) -> float:
    """A little above the highest middle of a curve: one wild epoch must not flatten all the others."""
    recorded = losses[~np.isnan(losses).all(axis=1)]
    return float(f"{1.2 * max(np.nanmedian(recorded, axis=1).max(), 1e-3):.3g}") if len(recorded) else 1.0


def _heights(losses: NDArray[np.float64], top: float) -> NDArray[np.uint8]:
    heights = np.clip(losses / top, 0, 1) * LEVELS
    return np.where(np.isnan(heights), MISSING, heights.round()).astype(np.uint8)
