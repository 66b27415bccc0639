"""`errata demo`: put known errors into scikit-learn's digits and compare how many each method finds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from errata.cli.app import app
from errata.extras import require
from errata.terminal import intervals, print_table, progress_bar, write_table

if TYPE_CHECKING:
    import pandas as pd

    from errata.core.noise import NoisyLabels
    from errata.dynamics.store import Dynamics

EPOCHS = 60
FOLDS = 4
NOISE_RATE = 0.2
SHOWN = ["rank", "id", "label", "suggested", "p_wrong", "agree", "truly_wrong"]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the tables.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="Seed of the noise and of the training.", min=0)] = 0,
) -> None:
    """Make 20 % of the labels of scikit-learn's digits wrong, and compare how many of them each method finds."""
    for package in ("torch", "matplotlib"):
        require(package, package, "torch,plot", "the demonstration")
    out.mkdir(parents=True, exist_ok=True)
    from sklearn.datasets import load_digits

    from errata.core.default import DEFAULT
    from errata.core.noise import symmetric
    from errata.dynamics.ranking import noise_rates, rank
    from errata.dynamics.scoring import score, score_many

    digits = load_digits()
    noisy = symmetric(digits.target, NOISE_RATE, num_classes=10, seed=seed)
    with progress_bar("training", EPOCHS * (1 + FOLDS)) as advance:
        runs = _train((digits.data / 16).astype(np.float32), noisy.labels, seed, advance)
    scores = [score_many(run, budget=noisy.count) for run in runs]
    scores[0] = scores[0].assign(**{DEFAULT: score(runs[0], DEFAULT)})
    fnr, rates, ranking = _fnr_table(scores, noisy.truth), noise_rates(runs[0]), rank(runs[0])
    ranking["truly_wrong"] = noisy.truth[ranking["id"].to_numpy()]
    write_table(fnr, out / "digits-fnr.csv")
    write_table(ranking, out / "digits-ranking.csv")
    _draw(scores[0], noisy, out / "digits-budget-fnr.png")
    print(
        f"digits: {len(noisy.labels):,} samples, {noisy.count} of them wrongly labelled ({noisy.rate:.1%}) on purpose\n"
    )
    print_table(
        fnr.assign(fnr=fnr["fnr"].map("{:.2%}".format), auroc=fnr["auroc"].map("{:.4f}".format)),
        f"label errors missed when the {noisy.count} most suspicious samples are inspected (FNR), best first",
    )
    rates = rates.assign(rate=rates["rate"].map("{:.1%}".format), interval=intervals(rates))
    print_table(rates[["estimate", "rate", "interval"]], "noise rate estimated without the true labels")
    print_table(ranking[SHOWN].head(10).round(3), "most suspicious samples")
    print(f"wrote digits-fnr.csv, digits-ranking.csv and digits-budget-fnr.png to {out}")


def _train(
    inputs: NDArray[np.float32], labels: NDArray[np.int64], seed: int, progress: Callable[[int], object]
) -> "tuple[Dynamics, Dynamics]":
    """A small network trained in-sample, with its inputs, and in folds; `progress` gets the number of epochs done."""
    from errata.training.gather import gather
    from errata.training.model_inputs import TableInputs
    from errata.training.recipes import Recipe

    recipe = Recipe(epochs=EPOCHS, batch_size=64, learning_rate=1e-3)
    table, seeds = TableInputs(inputs), (seed,)
    (inside,) = gather(table, labels, 10, (64,), recipe, seeds=seeds, progress=progress)
    (outside,) = gather(table, labels, 10, (64,), recipe, folds=FOLDS, seeds=seeds, progress=progress)
    assert inside.dynamics is not None
    assert outside.dynamics is not None
    return replace(inside.dynamics, inputs=inputs), outside.dynamics


def _fnr_table(scores: "list[pd.DataFrame]", truth: NDArray[np.bool_]) -> "pd.DataFrame":
    """FNR and AUROC of every method at the true number of errors, best first."""
    import pandas as pd

    from errata.core import metrics

    columns = [(name, column.to_numpy()) for frame in scores for name, column in frame.items()]
    rows = [(name, metrics.fnr(values, truth), metrics.auroc(values, truth)) for name, values in columns]
    return pd.DataFrame(rows, columns=["method", "fnr", "auroc"]).sort_values("fnr", ignore_index=True)


def _draw(scores: "pd.DataFrame", noisy: "NoisyLabels", path: Path) -> None:
    """The budget-FNR curves of some methods, with the ideal and the random detector."""
    from matplotlib.figure import Figure

    from errata.core import metrics
    from errata.core.default import DEFAULT
    from errata.core.methods import PAPER_METHOD

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    closer = axes.inset_axes((0.36, 0.3, 0.3, 0.42), xlim=(noisy.rate - 0.05, noisy.rate + 0.1), ylim=(0, 0.18))
    axes.indicate_inset_zoom(closer)
    budgets = np.linspace(0, 1, 501)
    for panel in (axes, closer):
        panel.plot(budgets, metrics.ideal_fnr(budgets, noisy.rate), "k:", label="ideal")
        for name in (DEFAULT, PAPER_METHOD, "Mean-CE", "LateStopping-CPD", "CL-PBNR (IS)"):
            curve = metrics.budget_curve(scores[name].to_numpy(), noisy.truth)
            panel.plot(curve["budget"], curve["fnr"], label=name, linewidth=2.2 if name == DEFAULT else 1.3)
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
