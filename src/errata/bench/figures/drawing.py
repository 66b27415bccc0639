"""What all figures share: the picture with its numbers, names, colours and line styles."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.datasets.noise_figures import save_figure
from errata.terminal import write_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# One of each kind: an ensemble of probabilities and of losses, the last epoch, clustering, confident learning.
CHOSEN = ("MeanProb-LM", "Mean-CE", "Last-CE", "CTRL-CE", "LateStopping-CPD", "CL-PBNR (OOS)")
PICTURES = (".png", ".svg")
# One marker more than dashes: 56 pairs before one comes again. Plain dots are for lines that are no method's.
_DASHES = ((1, 0), (5, 2), (6, 2, 1, 2), (3, 1, 1, 1, 1, 1), (9, 2), (2, 2), (9, 2, 3, 2))
_MARKERS = "osD^vPX<"


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure under the name of its files, a sentence that says what it shows, and the numbers behind it."""

    name: str
    caption: str
    figure: "Figure"
    numbers: "pd.DataFrame"

    def save(self, folder: Path) -> list[Path]:
        """Write the picture as PNG and SVG and the numbers as CSV."""
        pictures = [folder / f"{self.name}{ending}" for ending in PICTURES]
        for path in pictures:
            save_figure(self.figure, path)
        table = folder / f"{self.name}.csv"
        write_table(self.numbers, table)
        return [*pictures, table]


def setting_title(numbers: "pd.DataFrame") -> str:
    """The name of the setting that all numbers are of, and whether its data was complete."""
    first = numbers.iloc[0]
    return str(first["setting"]) + ("" if first["complete"] else ", incomplete data")


def line_styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, dashes and marker a method, told apart without colours too; the chosen look the same in all figures."""
    from matplotlib import colormaps

    order = list(dict.fromkeys([*CHOSEN, *methods]))
    return {
        method: {
            "color": colormaps["tab10"](order.index(method) % 10),
            "dashes": _DASHES[order.index(method) % len(_DASHES)],
            "marker": _MARKERS[order.index(method) % len(_MARKERS)],
        }
        for method in methods
    }


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **grid: Any) -> "tuple[Figure, Any]":
    """A figure in inches that belongs to no window, and its axes (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **grid)
