"""The review page on the front page: errata finds wrong labels among scikit-learn's digits."""

from pathlib import Path

SAMPLES = 600


def write(folder: Path) -> None:
    """Write live-review.html to the folder."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    import errata

    digits = load_digits()
    labels = errata.noise.symmetric(digits.target[:SAMPLES], 0.08, num_classes=10, seed=0).labels
    found = errata.find(digits.data[:SAMPLES], labels, model="mlp")
    pages = (255 - digits.images[:SAMPLES] * (255 / 16)).astype(np.uint8)  # dark ink on white paper
    shown = np.stack([np.asarray(Image.fromarray(page).resize((64, 64), Image.Resampling.BICUBIC)) for page in pages])
    errata.find(found.dynamics, data=shown).write_report(folder / "live-review.html")
