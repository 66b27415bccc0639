"""Figures of label noise as in the paper's appendix: confused classes, or the share of wrong labels per class."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core.noise import transition
from errata.datasets.loading import LabelledSetting
from errata.dynamics.files import write_file
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

NAMED_CLASSES = 30  # more class names do not fit beside a matrix


def noise_figure(labelled: LabelledSetting) -> "Figure":
    """True class × given label; the share of wrong labels per class if only right or wrong is known."""
    known_classes = np.asarray(labelled.data.train_labels)[labelled.scored]
    return class_noise_figure(labelled) if (known_classes < 0).any() else contingency_figure(labelled)


def class_table(labelled: LabelledSetting) -> "pd.DataFrame":
    """One row per class: samples with its label, samples that truly belong to it, and wrong labels among the first."""
    import pandas as pd

    data, known = labelled.data, labelled.scored
    classes = data.num_classes
    true = np.asarray(data.train_labels)
    wrong = np.bincount(labelled.given[known], labelled.truth[known].astype(np.float64), minlength=classes)
    return pd.DataFrame(
        {
            "class": [str(name) for name in data.classes],
            "given": np.bincount(labelled.given, minlength=classes),
            "true": np.bincount(true[true >= 0], minlength=classes),
            "wrong": wrong.astype(np.int64),
        }
    )


def contingency(labelled: LabelledSetting) -> NDArray[np.int64]:
    """Counts (K, K) of the samples whose truth is known: true class × given label."""
    known = labelled.scored
    return transition(labelled.data.train_labels[known], labelled.given[known], labelled.data.num_classes)


def contingency_figure(labelled: LabelledSetting) -> "Figure":
    """The contingency matrix as a heat map. The diagonal is much larger than the rest and is not coloured."""
    counts = contingency(labelled)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    errors = np.ma.masked_array(shares, np.eye(len(shares), dtype=np.bool_))
    figure, axes = _figure(labelled, len(shares), len(shares))
    image = axes.imshow(errors, cmap="viridis", vmin=0)
    axes.set_facecolor("0.92")  # the colour of masked cells
    figure.colorbar(image, ax=axes, label="share of the true class", shrink=0.8)
    axes.set(xlabel="given label", ylabel="true class")
    if len(shares) <= NAMED_CLASSES:
        axes.set_xticks(np.arange(len(shares)), labelled.data.classes, rotation=90, size=8)
        axes.set_yticks(np.arange(len(shares)), labelled.data.classes, size=8)
    if len(shares) <= 12:
        middle = float(errors.max()) / 2 if errors.count() else 0.0
        for row, column in np.ndindex(counts.shape):
            dark = row != column and shares[row, column] < middle
            axes.text(
                column, row, f"{counts[row, column]}", ha="center", va="center", size=7, color="w" if dark else "k"
            )
    return figure


def class_noise_figure(labelled: LabelledSetting) -> "Figure":
    """The share of wrong labels among the checked labels of each class, as bars. Unchecked classes are omitted."""
    known = labelled.scored
    given, wrong = labelled.given[known], labelled.truth[known].astype(np.float64)
    checked = np.bincount(given, minlength=labelled.data.num_classes)
    shown = np.flatnonzero(checked)
    shares = np.bincount(given, wrong, minlength=labelled.data.num_classes)[shown] / checked[shown]
    order = np.argsort(-shares, kind="stable")
    figure, axes = _figure(labelled, len(shares), 25)
    axes.bar(np.arange(len(shares)), shares[order], width=0.85)
    axes.axhline(labelled.noise["rate"], color="k", linewidth=0.8, linestyle="--", label="all classes")
    names = np.array([str(name) for name in labelled.data.classes])[shown][order]
    axes.set_xticks(np.arange(len(shares)), names, rotation=90, size=5 if len(shares) > NAMED_CLASSES else 8)
    unchecked = len(checked) - len(shown)
    omitted = f"{unchecked} of {len(checked)} classes without a checked label are omitted" if unchecked else ""
    axes.set(xlabel=omitted, ylabel="share of wrong labels")
    axes.legend(frameon=False)
    axes.margins(x=0.01)
    return figure


def check_figure_path(path: Path) -> None:
    """Raise an error if the file name ends neither in .png nor in .svg."""
    if path.suffix not in (".png", ".svg"):
        raise InputError(f"{path} must end in .png or .svg")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG or SVG, depending on the suffix of the path, atomically."""
    check_figure_path(path)
    write_file(path, figure_bytes(figure, path.suffix[1:]))


def figure_bytes(figure: "Figure", form: str) -> bytes:
    """The figure as png or svg; the same figure gives the same bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "errata"}):
        figure.savefig(buffer, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
    return buffer.getvalue()


def _figure(labelled: LabelledSetting, columns: int, rows: int) -> "tuple[Figure, Any]":
    """An empty figure with the name and noise rate of the setting as its title."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(min(9, 4.5 + 0.4 * columns), min(7.5, 3 + 0.36 * rows)), layout="constrained")
    axes = figure.add_subplot()
    noise, part = labelled.noise, "" if labelled.data.complete else ", incomplete data"
    axes.set_title(f"{labelled.setting.name}: {noise['count']:,} wrong, {noise['rate']:.1%}{part}", size=10)
    return figure, axes
