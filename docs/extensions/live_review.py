"""The review page on the front page: errata finds wrong labels among scikit-learn's digits."""

from pathlib import Path

SAMPLES = 600


def write(folder: Path) -> None:
    """Write live-review.html to the folder."""
    import numpy as np
    from sklearn.datasets import load_digits

    import errata

    digits = load_digits()
    pictures = digits.images[:SAMPLES] * (255 / 16)
    labels = errata.noise.symmetric(digits.target[:SAMPLES], 0.08, num_classes=10, seed=0).labels
    found = errata.find(digits.data[:SAMPLES], labels, model="boosting")
    shown = np.kron(pictures, np.ones((1, 8, 8))).astype(np.uint8)
    errata.find(found.dynamics, data=shown).write_report(folder / "live-review.html")
