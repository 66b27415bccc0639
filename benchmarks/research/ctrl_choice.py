r"""What CTRL's choice among its nine configurations depends on, for dynamics of one or more seeds that were kept.

    errata bench run --as-published --setting cifar10n-worse --gathering in-sample --seeds 1 --keep-dynamics
    cd results/as-published/work/cifar10n-worse-in-sample
    python ../../../../benchmarks/research/ctrl_choice.py cifar10n-worse seed0/dynamics

First, what each reading chooses, one column per measure: FNR, mean over the seeds, and the configurations (windows,
clusters, selected). `budget`: a configuration's mask has as many samples as there are errors, those with the most
votes. `votes`: its masks are CTRL's own operating points. The original code takes the silhouette of each observed class
without a subsample, and the mean accuracy of classes; for CIFAR, A is the sum of the last and the best checkpoint.
Here, the best epoch is that with the highest accuracy on the true labels, in place of test accuracy.

With `--configurations`, also one table per measure for the first seed, with one row per configuration: its FNR, and
silhouette S, A and R of two masks; for `votes`, of the one with the highest S × A × R (LM: the highest S).
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from errata.bench.evaluation import published
from errata.bench.running.as_published import ALPHA
from errata.core import ctrl, metrics
from errata.core.checks import Labels
from errata.core.methods import parse
from errata.core.replay import replay_arrays
from errata.datasets.loading import load_setting
from errata.datasets.registry import setting as find_setting
from errata.dynamics.store import Dynamics
from errata.terminal import print_table

MEASURES = ("CE", "JS", "LM", "CPD")
READINGS = {  # masks, silhouette, accuracies in A; None: alpha is 0
    "errata: budget, all classes together": ("budget", "together", None),
    "budget, each class": ("budget", "each class", None),
    "budget, each class, A of the last epoch": ("budget", "each class", "last"),
    "budget, each class, A of the last and the best": ("budget", "each class", "last and best"),
    "votes, all classes together": ("votes", "together", None),
    "votes, each class": ("votes", "each class", None),
    "votes, each class, A of the last epoch": ("votes", "each class", "last"),
    "votes, each class, A of the last and the best": ("votes", "each class", "last and best"),
}


@dataclass(frozen=True, eq=False)
class Run:
    """A run: smoothed curves (N, T) of a measure, votes (C, N), and where two epochs predict the label."""

    labels: Labels
    wrong: ctrl.Mask
    curves: ctrl.Floats
    votes: ctrl.Votes
    last: ctrl.Mask
    best: ctrl.Mask

    @classmethod
    def of(cls, path: Path, setting: str, measure: str) -> "Run":
        """Cluster the curves of a measure."""
        dynamics, labelled = Dynamics.open(path), load_setting(setting)
        ids = np.asarray(dynamics.ids)
        (rows,) = replay_arrays(dynamics.replayable(), [parse(f"CTRL-{measure}")])
        curves = ctrl.smoothed(rows["curve"], len(np.unique(dynamics.labels)))
        predicted = (epoch.argmax(axis=1) for epoch in dynamics.logits)
        best = max(predicted, key=lambda one: (one == labelled.data.train_labels[ids]).mean())
        votes = ctrl.votes(curves, dynamics.labels)
        return cls(dynamics.labels, labelled.truth[ids] == 1, curves, votes, rows["correct"], best == dynamics.labels)

    def masks(self, kind: str) -> list[tuple[int, ctrl.Mask]]:
        """The masks that compete, each with the number of its configuration."""
        if kind == "votes":
            points = map(ctrl.operating_points, self.votes, ctrl.CONFIGURATIONS)
            return [(number, mask) for number, group in enumerate(points) for mask in group]
        filled = [
            ctrl.select(self.curves, votes[None], self.last, [int(self.wrong.sum())], configurations=[configuration])
            for configuration, votes in zip(ctrl.CONFIGURATIONS, self.votes, strict=True)
        ]
        return [(number, selection.mask) for number, (selection,) in enumerate(filled)]

    def silhouettes(self, masks: ctrl.Mask, how: str) -> ctrl.Floats:
        """Of each of `masks` (M, N): of all samples, or the mean over the observed classes that have both sides."""
        if how == "together":
            return ctrl.silhouettes(self.curves, masks, ctrl.SILHOUETTE_SAMPLES)
        classes = [np.flatnonzero(self.labels == label) for label in np.unique(self.labels)]
        found = np.array([ctrl.silhouettes(self.curves[rows], masks[:, rows], len(rows)) for rows in classes])
        counted = np.isfinite(found)
        sums = np.where(counted, found, 0).sum(axis=0)
        return np.where(counted.any(axis=0), sums / np.maximum(counted.sum(axis=0), 1), -np.inf)

    def accuracy(self, mask: ctrl.Mask, epochs: str) -> float:
        """A: the mean accuracy of classes on the clean side, of the last epoch, or its sum with that of the best."""
        used = [self.last, self.best] if epochs == "last and best" else [self.last]
        clean = [rows for label in np.unique(self.labels) if (rows := ~mask & (self.labels == label)).any()]
        return sum(float(np.mean([correct[rows].mean() for rows in clean])) for correct in used)

    def chosen(self, kind: str, silhouette: str, epochs: str | None, alpha: float) -> tuple[ctrl.Configuration, float]:
        """The configuration that a reading chooses, and its FNR."""
        numbers, masks = zip(*self.masks(kind), strict=True)
        scores = self.silhouettes(np.array(masks), silhouette)
        if epochs is not None and alpha:
            last = self.curves[:, -1]
            factors = [
                self.accuracy(mask, epochs) * last[mask].mean() / last[~mask].mean()
                if 0 < mask.sum() < len(mask)
                else 0
                for mask in masks
            ]
            scores = scores * np.array(factors) ** alpha
        number = numbers[int(np.where(np.isnan(scores), -np.inf, scores).argmax())]
        return ctrl.CONFIGURATIONS[number], metrics.fnr(self.votes[number].astype(np.float64), self.wrong)


def readings(paths: list[Path], setting: str, alpha: float) -> pd.DataFrame:
    """One row per reading, one column per measure."""
    columns: dict[str, list[str]] = {"reading": ["the paper", *READINGS]}
    for measure in MEASURES:
        runs = [Run.of(path, setting, measure) for path in paths]
        shown = [", ".join(map(str, printed(setting, measure))) or "–"]
        for kind, silhouette, epochs in READINGS.values():
            power = 0.0 if measure == "LM" else alpha  # a ratio of signed losses has no meaning
            found = [run.chosen(kind, silhouette, epochs, power) for run in runs]
            names = dict.fromkeys(f"{one.windows},{one.clusters},{one.selected}" for one, _ in found)
            shown.append(f"{100 * np.mean([fnr for _, fnr in found]):.2f} ({'; '.join(names)})")
        columns[measure] = shown
    return pd.DataFrame(columns)


def printed(setting: str, measure: str) -> list[float]:
    """The paper's FNR in percent; empty if it has none."""
    paper = published.fnr_at_noise_rate()
    found = paper[(paper["setting"] == setting) & (paper["method"] == f"CTRL-{measure}")]
    return [float(value) for value in found["fnr_percent"]]


def choices(run: Run, measure: str) -> pd.DataFrame:
    """One row per configuration."""
    table = []
    for number, configuration in enumerate(ctrl.CONFIGURATIONS):
        filled = dict(run.masks("budget"))[number]
        points = ctrl.operating_points(run.votes[number], configuration)
        scores = ctrl.selection_scores(run.curves, points, run.last, alpha=float(measure != "LM"))
        row: dict[str, object] = {
            "configuration": f"{configuration.windows},{configuration.clusters},{configuration.selected}",
            "FNR (%)": f"{100 * metrics.fnr(run.votes[number].astype(np.float64), run.wrong):.2f}",
        }
        for name, mask in (("budget", filled), ("votes", points[int(scores.argmax())])):
            silhouette, accuracy, ratio = parts(run.curves, mask, run.last)
            row |= {f"{name}: noisy": f"{mask.mean():.3f}", "S " + name: f"{silhouette:.3f}"}
            row |= {"A " + name: f"{accuracy:.3f}", "R " + name: f"{ratio:.2f}"}
        table.append(row)
    return pd.DataFrame(table)


def parts(curves: ctrl.Floats, mask: ctrl.Mask, correct: ctrl.Mask) -> tuple[float, float, float]:
    """Silhouette, A and R of a mask."""
    last = curves[:, -1]
    silhouette = float(ctrl.silhouettes(curves, mask[None], ctrl.SILHOUETTE_SAMPLES)[0])
    if mask.all() or not mask.any():
        return silhouette, np.nan, np.nan
    return silhouette, float(correct[~mask].mean()), float(last[mask].mean() / last[~mask].mean())


def main() -> None:
    """Print the tables of a setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting")
    parser.add_argument("dynamics", type=Path, nargs="+", help="of one or more seeds")
    parser.add_argument("--alpha", type=float, help="by default as the paper prints it for the dataset, else 0")
    parser.add_argument("--configurations", action="store_true", help="also the nine configurations of each measure")
    arguments = parser.parse_args()
    setting = arguments.setting
    alpha = ALPHA.get(find_setting(setting).dataset, 0.0) if arguments.alpha is None else arguments.alpha
    title = f"{setting}, alpha {alpha:g}: FNR (%) of the configuration that each reading chooses"
    print_table(readings(arguments.dynamics, setting, alpha), title)
    for measure in MEASURES if arguments.configurations else ():
        run = Run.of(arguments.dynamics[0], setting, measure)
        title = f"{setting}, CTRL-{measure}: the paper's FNR is {printed(setting, measure)} %"
        print_table(choices(run, measure), title)


if __name__ == "__main__":
    main()
