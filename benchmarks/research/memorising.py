"""The default on runs that memorised wrong labels, and the statistics by which it recognises them.

    ERRATA_DATA=... python benchmarks/research/memorising.py --out results/research

Digits with an MLP that is trained far too long, tables with recipes that memorise, and 2,000 images of CIFAR-10 with a
small CNN and a small transformer, for few and for many epochs. Writes memorising.csv: FNR in percent of methods; the
share of given labels that the last epoch predicts; late fit share, confident reversals, number of ruled-out labels and
label reversals of the last quarter; the number of epochs used; and the default with features only and with logits only.
About ten minutes on two cores.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import candidates
import evidence
from errata.bench.running.cell_training import table
from errata.core.metrics import fnr
from errata.datasets.loading import load_setting
from errata.dynamics.scoring import epochs_used, find_method, score
from errata.dynamics.store import Dynamics
from errata.training.gather import gather
from errata.training.jobs import TrainingOptions
from errata.training.model_inputs import Images
from errata.training.models import VisionTransformer, cnn4
from errata.training.recipes import Recipe
from runs import reduce_run, run_of

if TYPE_CHECKING:
    from errata.training.gather import Model
    from errata.training.model_inputs import Inputs

IMAGES = 2_000
METHODS = ("MeanProb-LM", "Unmixed-MeanProb-LM", "kNN-MeanProb-LM", "Unmixed-kNN-MeanProb-LM")
DIGITS = ("digits-symmetric-20", "digits-pairflip-20", "digits-asymmetric-40")
TABLES = (
    "cardiotocography-symmetric-20",
    "credit_fraud-symmetric-20",
    "satellite-symmetric-20",
    "sensorless_drive-symmetric-20",
    "letter-asymmetric-40",
)
MEMORISED = Recipe(150, 64, 3e-3, widths=(128, 64))
SMALL_TRANSFORMER = partial(VisionTransformer, 10, side=32, patch=4, width=96, depth=3, heads=3)
NETWORKS: dict[str, tuple["Model", tuple[int, ...]]] = {
    "cnn4": (partial(cnn4, 10), (3, 8, 25)),
    "transformer": (SMALL_TRANSFORMER, (3, 10, 30)),
}


def measured() -> Iterator[dict[str, Any]]:
    """One row per training."""
    for setting in (*DIGITS, *TABLES):
        labelled = load_setting(setting)
        recipe = MEMORISED if setting in DIGITS else labelled.setting.recipe
        assert isinstance(recipe, Recipe)
        dynamics = _trained(table(labelled, "train"), labelled.given, recipe.widths, recipe, labelled.data.num_classes)
        yield {"setting": setting, "network": "MLP", "epochs": dynamics.epochs} | _row(dynamics, labelled.truth)
    labelled = load_setting("cifar10-symmetric-20")
    given, truth = labelled.given[:IMAGES], labelled.truth[:IMAGES]
    assert labelled.data.pixels is not None
    pixels = Images(np.array(labelled.data.train_inputs[:IMAGES]), labelled.data.pixels.mean, labelled.data.pixels.std)
    for name, (build, lengths) in NETWORKS.items():
        for epochs in lengths:
            dynamics = _trained(pixels, given, build, Recipe(epochs, 64, 1e-3, 1e-4))
            yield {"setting": labelled.setting.name, "network": name, "epochs": epochs} | _row(dynamics, truth)


def _trained(data: "Inputs", labels: Any, model: "Model", recipe: Recipe, classes: int = 10) -> Dynamics:
    options = TrainingOptions(swa=False, features=True)
    (gathered,) = gather(data, labels, classes, model, recipe, seeds=(0,), options=options, device="cpu")
    assert gathered.dynamics is not None
    return gathered.dynamics


def _row(dynamics: Dynamics, truth: Any) -> dict[str, Any]:
    assert dynamics.logits is not None
    labels = dynamics.labels
    wrong = np.asarray(truth).astype(np.bool_)
    run = run_of("", 0, labels, reduce_run(dynamics), dynamics.context)
    found = {"last epoch": float((dynamics.logits[-1].argmax(axis=1) == labels).mean())} | evidence.end_of_run(dynamics)
    default = find_method(dynamics, None).name
    methods = {name: name for name in METHODS} | {"default": default}
    found |= {title: 100 * fnr(score(dynamics, name), wrong) for title, name in methods.items()}
    by_all = candidates.unmixed_by(run, by_all=True, weights=candidates.flat)
    found |= {"transitions by sample and neighbours": 100 * fnr(by_all, wrong), "method": default}
    found |= {"epochs used": epochs_used(dynamics, find_method(dynamics, None))}
    known = Dynamics.from_arrays(dynamics.logits, labels, features=dynamics.features, gathering="in-sample")
    by_features = find_method(known, None)
    found |= {"features alone": 100 * fnr(score(known, by_features), wrong), "features alone method": by_features.name}
    bare = Dynamics.from_arrays(dynamics.logits, labels, gathering="in-sample")
    alone = find_method(bare, None)
    found |= {"logits alone": 100 * fnr(score(bare, alone), wrong), "logits alone method": alone.name}
    return found | {"epochs of logits alone": epochs_used(bare, alone)}


def main(out: Path) -> None:
    """Train, measure, write."""
    import pandas as pd

    rows = []
    for row in measured():
        print(row, flush=True)
        rows.append(row)
    out.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).round(3).to_csv(out / "memorising.csv", index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where memorising.csv goes")
    main(parser.parse_args().out)
