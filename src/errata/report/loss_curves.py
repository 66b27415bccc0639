"""The loss of each sample over the epochs, small enough to draw beside it."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.measures import CE
from errata.dynamics.ids import match_ids
from errata.dynamics.store import Dynamics

MOST_EPOCHS = 60  # points of a curve
TYPICAL_SAMPLES = 2_000  # for the median curve, evenly spaced over the ranking
HIGHEST = 254  # height of a loss of `top` or more
MISSING = 255  # the sample was not recorded at this epoch


def loss_curves(dynamics: Dynamics, ids: NDArray[Any], ranked: NDArray[Any]) -> dict[str, Any] | None:
    """The cross-entropy of the given label at up to MOST_EPOCHS epochs, for the samples `ids` (n,).

    `typical` is the median over samples of all ranks; `ranked` (N,) holds all ids in order. Heights are bytes: 0 is no
    loss, HIGHEST is `top` or more. None if the dynamics are running sums without single epochs.
    """
    if dynamics.logits is None:
        return None
    epochs = np.unique(np.linspace(0, dynamics.epochs - 1, min(MOST_EPOCHS, dynamics.epochs)).round().astype(np.int64))
    spread = ranked[:: max(1, -(-len(ranked) // TYPICAL_SAMPLES))]
    losses = _losses(dynamics, match_ids(dynamics.ids, ids), epochs)
    typical = np.nanmedian(_losses(dynamics, match_ids(dynamics.ids, spread), epochs), axis=0)
    top = _top(losses)
    return {
        "epochs": (epochs + 1).tolist(),
        "top": top,
        "heights": base64.b64encode(_heights(losses, top).tobytes()).decode(),
        "typical": _heights(typical, top).tolist(),
        "typicalOf": len(spread),
    }


def _losses(dynamics: Dynamics, rows: NDArray[np.int64], epochs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Losses (n, epochs); NaN where a sample was not recorded."""
    assert dynamics.logits is not None
    losses = np.empty((len(rows), len(epochs)))
    for column, epoch in enumerate(epochs.tolist()):
        logits = np.array(dynamics.logits[epoch][rows])
        recorded = ~np.isnan(logits).any(axis=1)
        logits[~recorded] = 0
        losses[:, column] = np.where(recorded, CE(logits, dynamics.labels[rows]), np.nan)
    return losses


def _top(losses: NDArray[np.float64]) -> float:
    """The top of the axis: 1.2 times the highest median of a curve, so that one extreme epoch flattens no curve."""
    recorded = losses[~np.isnan(losses).all(axis=1)]
    return float(f"{1.2 * max(np.nanmedian(recorded, axis=1).max(), 1e-3):.3g}") if len(recorded) else 1.0


def _heights(losses: NDArray[np.float64], top: float) -> NDArray[np.uint8]:
    heights = np.clip(losses / top, 0, 1) * HIGHEST
    return np.where(np.isnan(heights), MISSING, heights.round()).astype(np.uint8)
