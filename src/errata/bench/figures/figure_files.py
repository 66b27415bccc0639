"""What all figures share: a figure with its numbers and files, colours and line styles."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.datasets.noise_figures import save_figure
from errata.terminal import write_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# One method of each kind: mean probabilities, mean losses, last epoch, clustering, confident learning.
DEFAULT_METHODS = ("MeanProb-LM", "Mean-CE", "Last-CE", "CTRL-CE", "LateStopping-CPD", "CL-PBNR (OOS)")
# One marker more than dashes: 56 different pairs.
_DASHES = ((1, 0), (5, 2), (6, 2, 1, 2), (3, 1, 1, 1, 1, 1), (9, 2), (2, 2), (9, 2, 3, 2))
_MARKERS = "osD^vPX<"


@dataclass(frozen=True, eq=False)
class DrawnFigure:
    """A figure, the name of its files, a caption, and its numbers."""

    name: str
    caption: str
    figure: "Figure"
    numbers: "pd.DataFrame"

    def save(self, folder: Path) -> list[Path]:
        """Write the figure as PNG and SVG and the numbers as CSV."""
        png, svg, csv = (folder / f"{self.name}{ending}" for ending in (".png", ".svg", ".csv"))
        save_figure(self.figure, png)
        save_figure(self.figure, svg)
        write_table(self.numbers, csv)
        return [png, svg, csv]


def setting_title(numbers: "pd.DataFrame") -> str:
    """The setting of the numbers, and whether its data was incomplete."""
    first = numbers.iloc[0]
    return str(first["setting"]) + ("" if first["complete"] else ", incomplete data")


def line_styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, dashes and marker per method, different without colours too. Default methods always look the same."""
    from matplotlib import colormaps

    order = list(dict.fromkeys([*DEFAULT_METHODS, *methods]))
    return {
        method: {
            "color": colormaps["tab10"](order.index(method) % 10),
            "dashes": _DASHES[order.index(method) % len(_DASHES)],
            "marker": _MARKERS[order.index(method) % len(_MARKERS)],
        }
        for method in methods
    }


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **grid: Any) -> "tuple[Figure, Any]":
    """A figure (size in inches) without a window, and its axes (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **grid)
