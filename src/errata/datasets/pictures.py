"""The paper's appendix pictures: which classes noise confuses, or how much of it each class has."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core.noise import transition
from errata.datasets.labelled import Labelled
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

NAMED_CLASSES = 30  # more names than these do not fit beside a matrix


def noise_picture(labelled: Labelled) -> "Figure":
    """True class against given label; where only right or wrong is known, the share of wrong labels a class."""
    true, known = labelled.data.train_labels, labelled.scored
    if (np.asarray(true)[known] < 0).any():
        return class_noise_picture(labelled)
    return contingency_picture(labelled)


def class_table(labelled: Labelled) -> "pd.DataFrame":
    """A row a class: how many samples are given its label, truly are of it, and how many of the given are wrong."""
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


def contingency(labelled: Labelled) -> NDArray[np.int64]:
    """Counts (K, K) of the samples whose truth is known, true class × given label."""
    known = labelled.scored
    return transition(labelled.data.train_labels[known], labelled.given[known], labelled.data.num_classes)


def contingency_picture(labelled: Labelled) -> "Figure":
    """The contingency matrix as a heat map; the diagonal would drown the rest and is left out of the colours."""
    counts = contingency(labelled)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    errors = np.ma.masked_array(shares, np.eye(len(shares), dtype=np.bool_))
    figure, axes = _figure(len(shares), len(shares))
    image = axes.imshow(errors, cmap="viridis", vmin=0)
    axes.set_facecolor("0.92")  # what is masked is seen through
    figure.colorbar(image, ax=axes, label="share of the true class", shrink=0.8)
    _name_classes(axes, labelled)
    axes.set(xlabel="given label", ylabel="true class")
    axes.set_title(_title(labelled), size=10)
    if len(shares) <= 12:
        middle = float(errors.max()) / 2 if errors.count() else 0.0
        for row, column in np.ndindex(counts.shape):
            dark = row != column and shares[row, column] < middle
            axes.text(
                column, row, f"{counts[row, column]}", ha="center", va="center", size=7, color="w" if dark else "k"
            )
    return figure


def class_noise_picture(labelled: Labelled) -> "Figure":
    """The share of wrong labels among those of each given class that were checked, as bars; no bar where none was."""
    known = labelled.scored
    given, wrong = labelled.given[known], labelled.truth[known].astype(np.float64)
    checked = np.bincount(given, minlength=labelled.data.num_classes)
    shown = np.flatnonzero(checked)
    shares = np.bincount(given, wrong, minlength=labelled.data.num_classes)[shown] / checked[shown]
    order = np.argsort(-shares, kind="stable")
    figure, axes = _figure(len(shares), 25)
    axes.bar(np.arange(len(shares)), shares[order], width=0.85)
    axes.axhline(labelled.noise["rate"], color="k", linewidth=0.8, linestyle="--", label="all classes")
    names = np.array([str(name) for name in labelled.data.classes])[shown][order]
    axes.set_xticks(np.arange(len(shares)), names, rotation=90, size=5 if len(shares) > NAMED_CLASSES else 8)
    unchecked = len(checked) - len(shown)
    left_out = (
        f"{unchecked} of {len(checked)} classes, of which no label was checked, are left out" if unchecked else ""
    )
    axes.set(xlabel=left_out, ylabel="share of wrong labels")
    axes.set_title(_title(labelled), size=10)
    axes.legend(frameon=False)
    axes.margins(x=0.01)
    return figure


def check_picture(path: Path) -> None:
    """Refuse a name that no picture can have."""
    if path.suffix not in (".png", ".svg"):
        raise InputError(f"{path} must end in .png or .svg")


def save_picture(figure: "Figure", path: Path) -> None:
    """Write as PNG or SVG, by the name's ending, whole or not at all."""
    from errata.dynamics.files import replace_atomically

    check_picture(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, lambda file: file.write(picture_bytes(figure, path.suffix[1:])))


def picture_bytes(figure: "Figure", form: str) -> bytes:
    """The picture as png or svg, the same bytes for the same numbers."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "errata"}):
        figure.savefig(buffer, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
    return buffer.getvalue()


def _figure(columns: int, rows: int) -> "tuple[Figure, Any]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(min(9, 4.5 + 0.4 * columns), min(7.5, 3 + 0.36 * rows)), layout="constrained")
    return figure, figure.add_subplot()


def _name_classes(axes: Any, labelled: Labelled) -> None:
    if labelled.data.num_classes > NAMED_CLASSES:
        return
    ticks = np.arange(labelled.data.num_classes)
    axes.set_xticks(ticks, labelled.data.classes, rotation=90, size=8)
    axes.set_yticks(ticks, labelled.data.classes, size=8)


def _title(labelled: Labelled) -> str:
    noise = labelled.noise
    whole = "" if labelled.data.complete else ", incomplete data"
    return f"{labelled.setting.name}: {noise['count']:,} wrong, {noise['rate']:.1%}{whole}"
