"""The pictures of explanations/default.md: each step of the default method on a real run, for one wrong label."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, RED, GREY = "#1f5fa8", "#b3261e", "#6b6b6b"
EPOCHS = 60


def write(folder: Path) -> None:
    """Train a network on digits, 20 % of them labelled as the next digit; write pictures, sample.md and steps.md."""
    from sklearn.datasets import load_digits

    import errata
    from errata.core.held_out import held_out_pool
    from errata.dynamics.scoring import epochs_used, find_method
    from errata.training.gather import gather
    from errata.training.model_inputs import TableInputs
    from errata.training.recipes import Recipe

    digits = load_digits()
    inputs = (digits.data / 16).astype(np.float32)
    noisy = errata.noise.pairflip(digits.target, 0.2, num_classes=10, seed=0)
    recipe = Recipe(epochs=EPOCHS, batch_size=64, learning_rate=3e-3)
    (run,) = gather(TableInputs(inputs), noisy.labels, 10, (512,), recipe, seeds=(0,))
    assert run.dynamics is not None
    logits = np.asarray(run.dynamics.logits)
    full = errata.Dynamics.from_arrays(logits, noisy.labels, inputs=inputs, gathering="in-sample")
    method = find_method(full, None).name
    used = epochs_used(full, find_method(full, None))
    stages = {name: errata.score(full, name) for name in _stage_names(method)}
    probabilities = softmax(logits.astype(np.float64), axis=2)
    sample = _sample(probabilities[-EPOCHS // 10 :].mean(axis=0), noisy.labels, noisy.truth, stages[method])
    given, true = int(noisy.labels[sample]), int(digits.target[sample])
    held_out = held_out_pool(noisy.labels, 10, full.context)
    assert held_out is not None

    _save(_picture(digits.images[sample], given, true), folder / "1-sample.png")
    _save(_curves(probabilities[:, sample], given, true, used), folder / "2-curve.png")
    average = probabilities[:used, sample].mean(axis=0)
    _save(
        _vectors(
            {f"{EPOCHS} epochs": probabilities[:, sample].mean(axis=0), f"first {used} epochs": average}, given, true
        ),
        folder / "3-average.png",
    )
    _save(
        _vectors({"this run": average, "models without the label": np.exp(held_out[sample])}, given, true),
        folder / "4-held-out.png",
    )
    _save(_stages(stages, noisy.truth, sample), folder / "5-scores.png")
    _save(_ranked(stages[method], noisy.truth, sample), folder / "6-rank.png")
    rows = [
        f"| `{name}` | {errata.metrics.fnr(scores, noisy.truth):.1%} | {_place(scores, sample):,} |"
        for name, scores in {"Last-LM": errata.score(full, "Last-LM"), **stages}.items()
    ]
    (folder / "sample.md").write_text(
        f"Its true class is *{true}*, and its given label is *{given}*. {noisy.count} of the {len(inputs):,} labels of "
        "the dataset are wrong.\n",
        encoding="utf-8",
    )
    titles = ["| method | wrong labels missed | rank of this sample |", "|---|---:|---:|"]
    (folder / "steps.md").write_text("\n".join([*titles, *rows, ""]), encoding="utf-8")


def _stage_names(method: str) -> list[str]:
    """`EarlyProb-LM`, `HeldOut-EarlyProb-LM`, ...: the method, from without a step to complete."""
    *steps, aggregation, measure = method.split("-")
    return ["-".join([*steps[place:], aggregation, measure]) for place in range(len(steps), -1, -1)]


def _sample(
    last: NDArray[np.float64], labels: NDArray[np.int64], truth: NDArray[np.bool_], scores: NDArray[np.float64]
) -> int:
    """The best ranked wrong label that the last epochs predict, so that they alone would miss it."""
    memorised = np.flatnonzero(truth & (last.argmax(axis=1) == labels))
    return int(memorised[scores[memorised].argmax()])


def _place(scores: NDArray[np.float64], sample: int) -> int:
    """The rank of the sample, from 1."""
    return int((scores > scores[sample]).sum()) + 1


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
    axes.axvspan(0.5, used + 0.5, color=GREY, alpha=0.15, lw=0, label="epochs that count")
    axes.set(xlabel="epoch", ylabel="probability", ylim=(0, 1), xlim=(0.5, len(shares) + 0.5))
    axes.legend(frameon=False)
    return figure


def _vectors(vectors: dict[str, NDArray[np.float64]], given: int, true: int) -> "Figure":
    """Probability vectors of the sample, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 2.6), layout="constrained", facecolor="white")
    for axes, (name, vector) in zip(figure.subplots(1, len(vectors), sharey=True), vectors.items(), strict=True):
        colours = [BLUE if place == true else RED if place == given else GREY for place in range(len(vector))]
        axes.bar(range(len(vector)), vector, color=colours)
        axes.set(title=name, xlabel="class", xticks=range(len(vector)), ylim=(0, 1))
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("probability")
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


def _ranked(scores: NDArray[np.float64], truth: NDArray[np.bool_], sample: int) -> "Figure":
    figure, axes = _axes()
    found = np.concatenate([[0], np.cumsum(truth[np.argsort(-scores)])]) / truth.sum()
    axes.plot(np.arange(len(found)), found, color=BLUE)
    axes.axvline(truth.sum(), color=GREY, ls=":", label="number of wrong labels")
    place = _place(scores, sample)
    axes.plot([place], [found[place]], "o", color=RED, label=f"this sample, rank {place}")
    axes.set(xlabel="samples inspected", ylabel="share of wrong labels found", ylim=(0, 1.02), xlim=(0, len(scores)))
    axes.legend(frameon=False, loc="lower right")
    return figure
