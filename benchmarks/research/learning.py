"""What the signs of memorising say of runs that only learn, where few labels are wrong or none.

    python benchmarks/research/learning.py --out results/research

Digits and made-up classes that overlap, with none to 20 % of the labels wrong, learned by small networks for few
epochs. Writes learning.csv, a row a run: how much its last quarter came round to and turned against, how many of its
epochs count by logits alone, how many would if what it came round to decided, and FNR %: of the whole run, of these
epochs, of neighbours in the features, and of the default that knows the features. Some minutes on two cores.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.core import early
from errata.core.aggregations import EarlyProb
from errata.core.measures import LM
from errata.core.memorising import LATE, come_round
from errata.core.methods import Composed
from errata.core.metrics import fnr
from errata.dynamics.default import ask_run, epochs_that_count, find_method
from errata.dynamics.scoring import score
from errata.dynamics.store import Dynamics
from errata.training.data import Table
from errata.training.engine import Options
from errata.training.gather import in_sample
from errata.training.recipes import Recipe

if TYPE_CHECKING:
    from torch import nn

RATES = (0.0, 0.01, 0.03, 0.1, 0.2)
SEEDS = range(3)
WHOLE, NEIGHBOURS = "Unmixed-MeanProb-LM", "Unmixed-kNN-RampProb-LM"


def digits() -> tuple[Any, Any]:
    """Points (1797, 64) and true classes of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def overlapping() -> tuple[Any, Any]:
    """Points (2000, 20) of five made-up classes, of which a tenth is hard to tell apart."""
    from sklearn.datasets import make_classification

    return make_classification(2000, 20, n_informative=8, n_classes=5, flip_y=0, class_sep=1.5, random_state=0)


def with_dropout(inputs: int, classes: int) -> "nn.Module":
    """A network that is still unsure of what it learns."""
    from torch import nn

    layers = (nn.Linear(inputs, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, classes))
    return nn.Sequential(*layers)


def wide(inputs: int, classes: int) -> "nn.Module":
    """A network that learns fast."""
    from torch import nn

    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, classes))


DATA: dict[str, Callable[[], tuple[Any, Any]]] = {"digits": digits, "overlapping": overlapping}
NETWORKS = {"dropout": (with_dropout, 25), "wide": (wide, 10)}


def measured() -> Iterator[dict[str, Any]]:
    """A row a run."""
    for data, load in DATA.items():
        points, true = load()
        scaled = ((points - points.mean(axis=0)) / (points.std(axis=0) + 1e-9)).astype(np.float32)
        for rate in RATES:
            for seed in SEEDS:
                given, wrong = _mislabelled(true, rate, seed)
                for network, (build, epochs) in NETWORKS.items():
                    model = partial(build, scaled.shape[1], int(true.max()) + 1)
                    dynamics = _trained(scaled, given, model, Recipe(epochs, 64, 1e-3), seed)
                    about = {"data": data, "network": network, "wrong": rate, "seed": seed}
                    yield about | _row(dynamics, wrong)


def _mislabelled(true: Any, rate: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    wrong = np.zeros(len(true), dtype=np.bool_)
    wrong[rng.choice(len(true), round(rate * len(true)), replace=False)] = True
    classes = int(true.max()) + 1
    return np.where(wrong, (true + rng.integers(1, classes, len(true))) % classes, true), wrong


def _trained(points: Any, labels: Any, model: Any, recipe: Recipe, seed: int) -> Dynamics:
    options = Options(swa=False, features=True)
    classes = int(labels.max()) + 1
    (gathered,) = in_sample(Table(points), labels, classes, model, recipe, seeds=(seed,), options=options, device="cpu")
    assert gathered.dynamics is not None
    return gathered.dynamics


def _row(dynamics: Dynamics, wrong: Any) -> dict[str, Any]:
    labels = dynamics.labels
    assert dynamics.logits is not None
    bare = Dynamics.from_arrays(dynamics.logits, labels, gathering="in-sample")
    known = Dynamics.from_arrays(dynamics.logits, labels, features=dynamics.features, gathering="in-sample")
    (told,) = ask_run(bare, [Composed(EarlyProb(), LM)], None)
    sums = told["log_probabilities"]
    mean, added = early.predicted(sums)
    alone, default = find_method(bare, None), find_method(known, None)
    shorter = early.ends(bare.epochs)[_before_coming_round(mean, added, labels)]
    found = {
        "labels predicted": float((added[-1] == labels).mean()),
        "came round to": come_round(mean[-1], added[-1], labels),
        "turned against": early.turned(sums[:, -2], added[-1], labels),
        "epochs": bare.epochs,
        "that count": epochs_that_count(bare, alone),
        "that count by coming round": shorter,
        "asks features": default.name == NEIGHBOURS,
    }
    if not wrong.any():
        return found
    scores = {
        "whole run": score(bare, WHOLE),
        "logits alone": score(bare, alone),
        "by coming round": score(bare, WHOLE, window=(0, shorter - 1)),
        "neighbours": score(known, NEIGHBOURS),
        "default": score(known, default),
    }
    return found | {name: 100 * fnr(of_method, wrong) for name, of_method in scores.items()}


def _before_coming_round(mean: Any, added: Any, labels: Any) -> int:
    """The share (of P) of a run whose last part comes round to few labels; what decided before convictions did."""
    share = len(mean) - 1
    while share > 0 and come_round(mean[share], added[share], labels) > LATE:
        share -= 1
    return share


def main(out: Path) -> None:
    """Train, measure, write."""
    import pandas as pd

    rows = pd.DataFrame(measured())
    out.mkdir(parents=True, exist_ok=True)
    rows.round(3).to_csv(out / "learning.csv", index=False)
    print(
        f"{len(rows)} runs; cut by logits alone: {(rows['that count'] < rows['epochs']).sum()}, by coming round:",
        end=" ",
    )
    print(
        f"{(rows['that count by coming round'] < rows['epochs']).sum()}; without features: {(~rows['asks features']).sum()}"
    )
    methods = ["whole run", "logits alone", "by coming round", "neighbours", "default"]
    print(rows.groupby(["data", "network", "wrong"])[methods].mean().round(1).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where learning.csv goes")
    main(parser.parse_args().out)
