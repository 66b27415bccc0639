"""The pictures of explanations/default.md: each step of the default method on a real run, for one wrong label."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, RED, GREY = "#1f5fa8", "#b3261e", "#6b6b6b"
EPOCHS = 60


def write(folder: Path) -> None:
    """Train a network on digits with 20 % wrong labels and write one picture per step, and facts.md."""
    from sklearn.datasets import load_digits

    import errata
    from errata.dynamics.scoring import epochs_used, find_method
    from errata.training.gather import gather
    from errata.training.model_inputs import TableInputs
    from errata.training.recipes import Recipe

    digits = load_digits()
    inputs = (digits.data / 16).astype(np.float32)
    noisy = errata.noise.symmetric(digits.target, 0.2, num_classes=10, seed=0)
    recipe = Recipe(epochs=EPOCHS, batch_size=64, learning_rate=1e-3)
    (run,) = gather(TableInputs(inputs), noisy.labels, 10, (64,), recipe, seeds=(0,))
    assert run.dynamics is not None
    logits = np.asarray(run.dynamics.logits, dtype=np.float64)
    full = errata.Dynamics.from_arrays(logits.astype(np.float32), noisy.labels, inputs=inputs, gathering="in-sample")
    method = find_method(full, None)
    used = epochs_used(full, method)
    early = "EarlyProb-LM"
    ranking = errata.rank(full)
    places = ranking.set_index("id")["rank"]
    stages = {name: errata.score(full, name) for name in (early, f"HeldOut-{early}", f"Unmixed-HeldOut-{early}")}
    sample = _sample(logits, noisy.labels, noisy.truth, places.to_numpy())
    given, true = int(noisy.labels[sample]), int(digits.target[sample])
    shares = np.exp(logits - np.logaddexp.reduce(logits, axis=2, keepdims=True))

    _save(_picture(digits.images[sample], given, true), folder / "1-sample.png")
    _save(_curves(shares[:, sample], given, true, used), folder / "2-curve.png")
    _save(_average(shares[:used, sample].mean(axis=0), given, true), folder / "3-average.png")
    _save(_stages(stages, noisy.truth, sample), folder / "4-blend.png")
    _save(_ranked(ranking, noisy.truth, sample), folder / "5-rank.png")
    found = int(noisy.truth[ranking["id"].to_numpy()[: noisy.count]].sum())
    (folder / "facts.md").write_text(
        f"In this build: sample {sample}, a *{true}* that was given the label *{given}*. The method is `{method}`, "
        f"and it uses {used} of {EPOCHS} epochs. The sample has rank {int(places[sample])} of {len(places):,}; among the first "
        f"{noisy.count} samples, {found} of the {noisy.count} wrong labels are found.\n",
        encoding="utf-8",
    )


def _sample(
    logits: NDArray[np.float64], labels: NDArray[np.int64], truth: NDArray[np.bool_], places: NDArray[np.int64]
) -> int:
    """A wrong label that the last epoch predicts, so that the last epoch alone would miss it; the best ranked one."""
    learned = logits[-1].argmax(axis=1) == labels
    candidates = np.flatnonzero(truth & learned) if (truth & learned).any() else np.flatnonzero(truth)
    return int(candidates[places[candidates].argmin()])


def _axes(width: float = 7, height: float = 3) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: "Figure", path: Path) -> None:
    figure.savefig(path, dpi=130)


def _picture(pixels: NDArray[np.float64], given: int, true: int) -> "Figure":
    figure, axes = _axes(2.6, 2.6)
    axes.imshow(pixels, cmap="gray_r")
    axes.set_axis_off()
    axes.set_title(f"given label: {given}, true class: {true}", fontsize=10)
    return figure


def _curves(shares: NDArray[np.float64], given: int, true: int, used: int) -> "Figure":
    figure, axes = _axes()
    epochs = np.arange(1, len(shares) + 1)
    axes.plot(epochs, shares[:, true], color=BLUE, label=f"true class {true}")
    axes.plot(epochs, shares[:, given], color=RED, label=f"given label {given}")
    axes.axvspan(0.5, used + 0.5, color=GREY, alpha=0.15, lw=0, label="epochs before memorisation")
    axes.set(xlabel="epoch", ylabel="probability", ylim=(0, 1), xlim=(0.5, len(shares) + 0.5))
    axes.legend(frameon=False)
    return figure


def _average(mean: NDArray[np.float64], given: int, true: int) -> "Figure":
    figure, axes = _axes()
    colours = [BLUE if place == true else RED if place == given else GREY for place in range(len(mean))]
    axes.bar(range(len(mean)), mean, color=colours)
    axes.set(xlabel="class", ylabel="mean probability", xticks=range(len(mean)), ylim=(0, 1))
    return figure


def _stages(stages: dict[str, NDArray[np.float64]], truth: NDArray[np.bool_], sample: int) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3), layout="constrained", facecolor="white")
    for axes, (name, scores) in zip(figure.subplots(1, len(stages), sharey=True), stages.items(), strict=True):
        bins = np.linspace(scores.min(), scores.max(), 40).tolist()
        axes.hist(scores[~truth], bins, color=BLUE, alpha=0.6, label="correct labels")
        axes.hist(scores[truth], bins, color=RED, alpha=0.6, label="wrong labels")
        axes.axvline(scores[sample], color="black", lw=1.2, ls="--", label="this sample")
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("score")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("samples")
    figure.axes[-1].legend(frameon=False, fontsize=8)
    return figure


def _ranked(ranking: "object", truth: NDArray[np.bool_], sample: int) -> "Figure":
    figure, axes = _axes()
    ids = ranking["id"].to_numpy()  # type: ignore[index]
    found = np.concatenate([[0], np.cumsum(truth[ids])]) / truth.sum()
    axes.plot(np.arange(len(found)), found, color=BLUE, label="default")
    axes.axvline(truth.sum(), color=GREY, ls=":", label="number of wrong labels")
    place = int(np.flatnonzero(ids == sample)[0]) + 1
    axes.plot([place], [found[place]], "o", color=RED, label=f"this sample, rank {place}")
    axes.set(xlabel="samples inspected", ylabel="wrong labels found", ylim=(0, 1.02), xlim=(0, len(ids)))
    axes.legend(frameon=False, loc="lower right")
    return figure
