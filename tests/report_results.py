"""A made-up result for tests of the report."""

import numpy as np
import pandas as pd

from errata.core.rates import NoiseRate
from errata.dynamics.store import Dynamics
from errata.finding.found import Found

CLASSES = ("cat", "dog", "owl")
EPOCHS = 6


def made_up(samples=60, classes=CLASSES, ids=None, data=None, groups=(), expected=20, epochs=EPOCHS):
    """A result in which the sample at place i has the label i mod K and the suggestion (i + 1 + i // K mod 2) mod K."""
    rng = np.random.default_rng(0)
    labels = np.arange(samples) % len(classes)
    suggested = (labels + 1 + np.arange(samples) // len(classes) % 2) % len(classes)
    names = np.array(classes, dtype=object)
    dynamics = Dynamics.from_arrays(
        rng.normal(size=(epochs, samples, len(classes))).astype(np.float32), names[labels], ids=ids, classes=classes
    )
    suspicious = np.arange(samples) < expected  # two clear groups, so that a number is stated
    p_wrong = np.concatenate([np.linspace(0.95, 0.65, expected), np.linspace(0.1, 0.01, samples - expected)])
    ranking = pd.DataFrame(
        {
            "id": dynamics.ids,
            "label": names[labels],
            "suggested": names[suggested],
            "score": np.linspace(1, -1, samples) + np.where(suspicious, 4, -4),
            "rank": np.arange(1, samples + 1),
            "p_wrong": p_wrong,
            "agree": np.linspace(5, 0, samples).round() / 5,
            "mean_loss": np.linspace(3, 0.1, samples),
        }
    )
    conflicts = [(group, place) for group, places in enumerate(groups) for place in places]
    return Found(
        ranking=ranking,
        dynamics=dynamics,
        estimate=NoiseRate(expected / samples, 0.0, 1.0, 0.95, "Made up."),
        conflicts=pd.DataFrame(
            {
                "group": [group for group, _ in conflicts],
                "id": [ranking["id"][place] for _, place in conflicts],
                "label": [ranking["label"][place] for _, place in conflicts],
            }
        ),
        summary={
            "samples": samples,
            "classes": len(classes),
            "kind": data.kind if data else "dynamics",
            "model": "mlp",
            "method": "MeanProb-LM",
            "held_out_loss": 0.9,
            "trust": ["The ranking uses all 6 epochs."],
            "remarks": ["3 rows have no label and are left out."],
            "seconds": 1.5,
            "version": "1.2.3",
        },
        data=data,
    )
