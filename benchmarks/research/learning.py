"""The statistics of memorisation on runs that do not memorise, with few or no wrong labels.

    python benchmarks/research/learning.py --out results/research
    ERRATA_DATA=... python benchmarks/research/learning.py --images --out results/research      # on a GPU

Digits and synthetic overlapping classes with 0 to 20 % wrong labels, trained with small networks for few epochs. Writes
learning.csv, one row per run: late fit share, confident reversals and label reversals of the last quarter; the number
of epochs that are used with logits only, and if the late fit share decided; whether features are used, by the run and
by its running sums; FNR in percent of the whole run, of these epochs, of feature neighbours, and of the default with
features. One minute on two cores. With --images: CIFAR-10 with 2 and 5 % wrong labels, written to learning-images.csv.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import evidence
from errata.core import early
from errata.core.aggregations import EarlyProb
from errata.core.composed_method import ComposedMethod
from errata.core.measures import LM
from errata.core.memorising import LATE_FIT_LIMIT, fit_counts, late_fit_share, predicted_classes
from errata.core.metrics import fnr
from errata.datasets.loading import load_setting
from errata.dynamics.recorder import Recorder
from errata.dynamics.scoring import epochs_used, find_method, score
from errata.dynamics.store import Dynamics
from errata.training.gather import gather
from errata.training.jobs import TrainingOptions
from errata.training.model_inputs import Images, TableInputs
from errata.training.models import cnn9
from errata.training.recipes import Recipe
from errata.training.transforms import PadCropFlip

if TYPE_CHECKING:
    from torch import nn

    from errata.training.model_inputs import Inputs

RATES = (0.0, 0.01, 0.03, 0.1, 0.2)
SEEDS = range(3)
IMAGES, RATES_OF_IMAGES = 30_000, (0.02, 0.05)
METHODS = ("whole run", "logits alone", "cut at late fit", "neighbours", "default")
COUNT, COUNT_AT_LATE_FIT = "epochs used", "epochs cut at late fit"
WHOLE, NEIGHBOURS = "Unmixed-MeanProb-LM", "Unmixed-kNN-RampProb-LM"


def digits() -> tuple[Any, Any]:
    """Points (1797, 64) and true classes of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def overlapping() -> tuple[Any, Any]:
    """Points (2000, 20) of five synthetic classes; one sixth of them overlap."""
    from sklearn.datasets import make_classification

    return make_classification(2000, 20, n_informative=8, n_classes=5, flip_y=0, class_sep=1.5, random_state=0)


def with_dropout(inputs: int, classes: int) -> "nn.Module":
    """A network with dropout, which stays uncertain."""
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
    """One row per run."""
    for data, load in DATA.items():
        points, true = load()
        scaled = ((points - points.mean(axis=0)) / (points.std(axis=0) + 1e-9)).astype(np.float32)
        for rate in RATES:
            for seed in SEEDS:
                given, wrong = _mislabelled(true, rate, seed)
                for network, (build, epochs) in NETWORKS.items():
                    model = partial(build, scaled.shape[1], int(true.max()) + 1)
                    known = _trained(TableInputs(scaled), given, model, Recipe(epochs, 64, 1e-3), seed)
                    about = {"data": data, "network": network, "wrong": rate, "seed": seed}
                    yield about | _row(known, wrong)


def _mislabelled(true: Any, rate: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    wrong = np.zeros(len(true), dtype=np.bool_)
    wrong[rng.choice(len(true), round(rate * len(true)), replace=False)] = True
    classes = int(true.max()) + 1
    return np.where(wrong, (true + rng.integers(1, classes, len(true))) % classes, true), wrong


def measured_on_images() -> Iterator[dict[str, Any]]:
    """The same for CIFAR-10, on a GPU."""
    labelled = load_setting("cifar10-symmetric-20")
    data, recipe = labelled.data, labelled.setting.recipe
    assert data.pixels is not None
    assert isinstance(recipe, Recipe)
    pixels = Images(np.array(data.train_inputs[:IMAGES]), data.pixels.mean, data.pixels.std, PadCropFlip())
    for rate in RATES_OF_IMAGES:
        given, wrong = _mislabelled(data.train_labels[:IMAGES], rate, 0)
        known = _trained(pixels, given, partial(cnn9, data.num_classes), recipe, 0)
        scores = {"whole run": WHOLE, "neighbours": NEIGHBOURS, "default": None}
        found = {title: 100 * fnr(score(known, find_method(known, name)), wrong) for title, name in scores.items()}
        yield (
            {"data": f"{IMAGES:,} images of CIFAR-10", "network": "cnn9", "wrong": rate}
            | evidence.end_of_run(known)
            | found
        )


def _trained(data: "Inputs", labels: Any, model: Any, recipe: Recipe, seed: int) -> Dynamics:
    """Dynamics with logits and features, without inputs."""
    options = TrainingOptions(swa=False, features=True)
    device = "cpu" if isinstance(data, TableInputs) else "auto"
    (gathered,) = gather(
        data, labels, int(labels.max()) + 1, model, recipe, seeds=(seed,), options=options, device=device
    )
    assert gathered.dynamics is not None
    kept = gathered.dynamics
    assert kept.logits is not None
    return Dynamics.from_arrays(kept.logits, kept.labels, features=kept.features, gathering="in-sample")


def _row(known: Dynamics, wrong: Any) -> dict[str, Any]:
    assert known.logits is not None
    bare = Dynamics.from_arrays(known.logits, known.labels, gathering="in-sample")
    alone, default = find_method(bare, None), find_method(known, None)
    shorter = _before_late_fit(bare)
    found = evidence.end_of_run(known) | {
        "epochs": bare.epochs,
        COUNT: epochs_used(bare, alone),
        COUNT_AT_LATE_FIT: shorter,
        "uses features": default.name == NEIGHBOURS,
        "running sums use features": find_method(_streamed(known), None).name == NEIGHBOURS,
    }
    if not wrong.any():
        return found
    scores = (
        score(bare, WHOLE),
        score(bare, alone),
        score(bare, WHOLE, window=(0, shorter - 1)),
        score(known, NEIGHBOURS),
        score(known, default),
    )
    return found | {name: 100 * fnr(of_method, wrong) for name, of_method in zip(METHODS, scores, strict=True)}


def _streamed(dynamics: Dynamics) -> Dynamics:
    assert dynamics.logits is not None
    recorder = Recorder(labels=dynamics.labels, num_classes=dynamics.num_classes, keep="stream", quiet=True)
    for epoch in dynamics.logits:
        recorder.update_all(epoch)
        recorder.end_epoch()
    return recorder.finish(features=dynamics.features)


def _before_late_fit(dynamics: Dynamics) -> int:
    """The number of epochs before the part of a run that fits many labels late: the rule before confident reversals."""
    (arrays,) = dynamics.sample_arrays([ComposedMethod(EarlyProb(), LM)])
    mean, added = predicted_classes(arrays["log_probabilities"])
    share = len(mean) - 1
    while share > 0 and late_fit_share(fit_counts(mean[share], added[share], dynamics.labels)) > LATE_FIT_LIMIT:
        share -= 1
    return early.window_ends(dynamics.epochs)[share]


def main(out: Path, *, images: bool) -> None:
    """Train, measure, write."""
    import pandas as pd

    rows = pd.DataFrame(measured_on_images() if images else measured())
    out.mkdir(parents=True, exist_ok=True)
    rows.round(3).to_csv(out / f"learning{'-images' if images else ''}.csv", index=False)
    if images:
        print(rows.to_string())
        return
    cut, cut_at_late_fit = (int((rows[name] < rows["epochs"]).sum()) for name in (COUNT, COUNT_AT_LATE_FIT))
    print(f"{len(rows)} runs; cut by logits alone: {cut}, cut at late fit: {cut_at_late_fit};", end=" ")
    print(f"features not used: {(~rows['uses features']).sum()}, by running sums:", end=" ")
    print((~rows["running sums use features"]).sum())
    print(rows.groupby(["data", "network", "wrong"])[list(METHODS)].mean().round(1).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where learning.csv or learning-images.csv goes")
    parser.add_argument("--images", action="store_true", help="of images instead, which takes a GPU")
    arguments = parser.parse_args()
    main(arguments.out, images=arguments.images)
