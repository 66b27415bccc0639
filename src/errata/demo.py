"""The demonstration: known errors put into scikit-learn's digits, every method asked to find them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from errata.core import metrics
from errata.core.methods import PAPER_METHOD
from errata.core.noise import NoisyLabels, symmetric
from errata.dynamics.ranking import noise_rates, rank
from errata.dynamics.scoring import score_many
from errata.dynamics.store import Dynamics

if TYPE_CHECKING:
    import pandas as pd

EPOCHS = 60
FOLDS = 4
NOISE_RATE = 0.2


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration found: FNR of every method, estimates of the noise rate, the ranking, and the files."""

    noisy: NoisyLabels
    fnr: "pd.DataFrame"
    rates: "pd.DataFrame"
    ranking: "pd.DataFrame"
    files: tuple[Path, ...]


def demonstrate(out: Path, seed: int = 0, progress: Callable[[int], object] = lambda _: None) -> Demonstration:
    """Train a small network on digits with 20 % symmetric noise, in-sample and in folds, and score all methods.

    `progress` is told how many of the EPOCHS * (1 + FOLDS) training epochs were just done.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    noisy = symmetric(digits.target, NOISE_RATE, num_classes=10, seed=seed)
    runs = _train((digits.data / 16).astype(np.float32), noisy.labels, seed, progress)
    scores = [score_many(run, budget=noisy.count) for run in runs]
    fnr = _fnr_table(scores, noisy.truth)
    out.mkdir(parents=True, exist_ok=True)
    ranking = rank(runs[0])
    ranking["truly_wrong"] = noisy.truth[ranking["id"].to_numpy()]
    files = (out / "digits-fnr.csv", out / "digits-ranking.csv", out / "digits-budget-fnr.png")
    fnr.to_csv(files[0], index=False)
    ranking.to_csv(files[1], index=False)
    _draw(scores[0], noisy, files[2])
    return Demonstration(noisy, fnr, noise_rates(runs[0]), ranking, files)


def _train(
    inputs: NDArray[np.float32], labels: NDArray[np.int64], seed: int, progress: Callable[[int], object]
) -> tuple[Dynamics, Dynamics]:
    from errata.training.gather import in_sample, out_of_sample
    from errata.training.model_inputs import TableInputs
    from errata.training.recipes import Recipe

    recipe = Recipe(epochs=EPOCHS, batch_size=64, learning_rate=1e-3)
    table, seeds = TableInputs(inputs), (seed,)
    (inside,) = in_sample(table, labels, 10, (64,), recipe, seeds=seeds, progress=progress)
    (outside,) = out_of_sample(table, labels, 10, (64,), recipe, folds=FOLDS, seeds=seeds, progress=progress)
    assert inside.dynamics is not None
    assert outside.dynamics is not None
    return inside.dynamics, outside.dynamics


def _fnr_table(scores: "list[pd.DataFrame]", truth: NDArray[np.bool_]) -> "pd.DataFrame":
    """FNR and precision of every method at the true number of errors, best first."""
    import pandas as pd

    rows = [
        {
            "method": name,
            "fnr": metrics.fnr(column.to_numpy(), truth),
            "auroc": metrics.auroc(column.to_numpy(), truth),
        }
        for frame in scores
        for name, column in frame.items()
    ]
    return pd.DataFrame(rows).sort_values("fnr", ignore_index=True)


def _draw(scores: "pd.DataFrame", noisy: NoisyLabels, path: Path) -> None:
    """The budget-FNR curve of some methods between the ideal and the random detector."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    closer = axes.inset_axes((0.42, 0.3, 0.3, 0.42), xlim=(noisy.rate - 0.05, noisy.rate + 0.1), ylim=(0, 0.18))
    axes.indicate_inset_zoom(closer)
    budgets = np.linspace(0, 1, 501)
    for panel in (axes, closer):
        panel.plot(budgets, metrics.ideal_fnr(budgets, noisy.rate), "k:", label="ideal")
        for name in (PAPER_METHOD, "Mean-CE", "LateStopping-CPD", "CL-PBNR (IS)"):
            curve = metrics.budget_curve(scores[name].to_numpy(), noisy.truth)
            panel.plot(curve["budget"], curve["fnr"], label=name, linewidth=2.2 if name == PAPER_METHOD else 1.3)
        panel.plot(budgets, metrics.random_fnr(budgets), "--", color="0.6", label="random")
        panel.axvline(noisy.rate, color="0.85", zorder=0)
    axes.annotate("noise rate", (noisy.rate, 0.97), xytext=(4, 0), textcoords="offset points", color="0.5")
    axes.set(
        xlabel="budget: share of samples inspected",
        ylabel="FNR: share of label errors not found",
        title="digits, 20 % symmetric label noise, one training run",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
