"""Test accuracy after removing or correcting the samples that a detector ranks first.

    python benchmarks/research/cleaning.py --setting satellite-symmetric-20 --setting letter-symmetric-20

Trains on the given labels, on the true labels, and for each detector without its first samples or with the suggested
labels for them. The number of samples is the true number of errors. Rows are appended to a CSV; rows that are in it are
not measured again. The gap is the difference in accuracy between given and true labels.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from errata.bench.results import Results
from errata.bench.running.cell_training import network, test_accuracy
from errata.core.composed_method import ComposedMethod, SuggestedLabel
from errata.core.methods import Method, parse
from errata.core.replay import replay_arrays
from errata.datasets.loading import LabelledSetting, load_setting
from errata.datasets.training_inputs import inputs
from errata.dynamics.scoring import find_method, score
from errata.dynamics.store import Dynamics
from errata.training.recipes import Recipe

if TYPE_CHECKING:
    import pandas as pd

    from errata.training.jobs import SeedResult

DETECTORS = ("Last-CE", "Mean-CE", "MeanProb-LM", "CL-PBNR (IS)", "kNN-MeanProb-LM")
DEFAULT = "default"
COLUMNS = ["setting", "seed", "detector", "action", "samples", "accuracy"]


@dataclass(frozen=True)
class Trainer:
    """Trains the setting's network on some of its samples with some labels."""

    labelled: LabelledSetting
    recipe: Recipe
    device: str

    def train(self, rows: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> "tuple[SeedResult, float]":
        """The run on `rows` with labels (N,), and its test accuracy."""
        from errata.training.gather import gather
        from errata.training.jobs import TrainingOptions

        data = replace(self.labelled.data, train_inputs=self.labelled.data.train_inputs[rows])
        (result,) = gather(
            inputs(data, "train"),
            labels[rows],
            data.num_classes,
            network(self.labelled),
            self.recipe,
            seeds=(seed,),
            options=TrainingOptions(swa=False, features=True),
            device=self.device,
        )
        return result, test_accuracy(self.labelled, self.recipe, result, self.device, as_published=False)


def measure(setting: str, seed: int, table: "Table", results: Results, device: str, data_dir: Path | None) -> None:
    """Measure the rows of one setting and seed that the table lacks."""
    labelled = load_setting(setting, data_dir)
    recipe = results.recipe(labelled.setting)
    assert isinstance(recipe, Recipe)
    trainer = Trainer(labelled, recipe, device)
    every = np.arange(len(labelled.given))
    errors = int(labelled.truth.sum())
    gathered, accuracy = trainer.train(every, labelled.given, seed)
    table.add(setting, seed, "", "as given", len(every), accuracy)
    if not table.has(setting, seed, "", "true labels"):
        table.add(
            setting, seed, "", "true labels", len(every), trainer.train(every, labelled.data.train_labels, seed)[1]
        )
    assert gathered.dynamics is not None
    alone, by_default = suggestions(gathered.dynamics)
    for name, method in detectors(gathered.dynamics).items():
        first = np.zeros(len(every), dtype=np.bool_)
        first[np.lexsort((every, -score(gathered.dynamics, method, budget=errors)))[:errors]] = True
        if not table.has(setting, seed, name, "removed"):
            kept = every[~first]
            table.add(setting, seed, name, "removed", len(kept), trainer.train(kept, labelled.given, seed)[1])
        if not table.has(setting, seed, name, "corrected"):
            corrected = np.where(first, by_default if name == DEFAULT else alone, labelled.given)
            table.add(setting, seed, name, "corrected", len(every), trainer.train(every, corrected, seed)[1])


def detectors(dynamics: Dynamics) -> dict[str, Method]:
    """Methods by name, the default of these dynamics last."""
    return {name: parse(name) for name in DETECTORS} | {DEFAULT: find_method(dynamics, None)}


def suggestions(dynamics: Dynamics) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The class (N,) with the largest mean probability over the epochs, and the class that the default suggests."""
    default = find_method(dynamics, None)
    assert isinstance(default, ComposedMethod)
    alone, arrays = replay_arrays(dynamics.replayable(), [SuggestedLabel(), default])
    return alone["suggested"], default.class_log_probabilities(arrays, dynamics.labels, dynamics.context).argmax(axis=1)


class Table:
    """The measured rows, in a CSV that grows."""

    def __init__(self, path: Path) -> None:
        import pandas as pd

        self._path = path
        self.rows = pd.read_csv(path, keep_default_na=False) if path.exists() else pd.DataFrame(columns=COLUMNS)

    def has(self, setting: str, seed: int, detector: str, action: str) -> bool:
        """Whether it was measured."""
        rows = self.rows
        same = (rows["setting"] == setting) & (rows["seed"] == seed)
        return bool((same & (rows["detector"] == detector) & (rows["action"] == action)).any())

    def add(self, setting: str, seed: int, detector: str, action: str, samples: int, accuracy: float) -> None:
        """Append a row, unless the table has it."""
        if self.has(setting, seed, detector, action):
            return
        self.rows.loc[len(self.rows)] = [setting, seed, detector, action, samples, accuracy]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.rows.to_csv(self._path, index=False)
        print(f"{setting} seed {seed}: {detector or action} {action if detector else ''} {accuracy:.4f}", flush=True)

    def closed(self) -> "pd.DataFrame":
        """Mean accuracy over seeds and share of the gap closed: one row per setting, detector and action."""
        mean = self.rows.groupby(["setting", "detector", "action"], sort=False)["accuracy"].mean().reset_index()
        given = mean[mean["action"] == "as given"].set_index("setting")["accuracy"]
        true = mean[mean["action"] == "true labels"].set_index("setting")["accuracy"]
        low, high = mean["setting"].map(given), mean["setting"].map(true)
        return mean.assign(gap_closed=(mean["accuracy"] - low) / (high - low))


def main() -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", action="append", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path("results"), help="where chosen recipes are")
    parser.add_argument("--out", type=Path, default=Path("results/cleaning.csv"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    table = Table(options.out)
    for setting in options.setting:
        for seed in range(options.seeds):
            measure(setting, seed, table, Results(options.results), options.device, options.data_dir)
    print(table.closed().to_string(index=False))


if __name__ == "__main__":
    main()
