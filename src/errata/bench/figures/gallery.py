"""All figures of a results folder, and why some of them cannot be drawn."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from errata.bench.evaluation.leaderboard import ResultsWithDefault
from errata.bench.evaluation.summaries import complete_settings, order_settings
from errata.bench.figures.overview import critical_figure, fnr_by_setting, heat_figure, rank_comparison
from errata.bench.figures.setting_figures import (
    DEFAULT_METHODS,
    budget_figure,
    budget_numbers,
    histogram_figure,
    histogram_numbers,
    stop_figure,
    stop_numbers,
)
from errata.bench.plan import usual_settings
from errata.bench.results import Results
from errata.bench.tuning_results import TuningResults
from errata.core.default import DEFAULT, is_default
from errata.core.methods import parse
from errata.datasets.loading import LabelledSetting, load_setting
from errata.datasets.noise_figures import class_table, contingency, noise_figure, save_figure
from errata.datasets.registry import setting as find_setting
from errata.datasets.registry import settings as all_settings
from errata.errors import ErrataError, InputError
from errata.terminal import write_table


@dataclass(frozen=True, eq=False)
class DrawnFigure:
    """A figure, the name of its files, a caption, and its numbers."""

    name: str
    caption: str
    figure: Figure
    numbers: pd.DataFrame

    def save(self, folder: Path) -> None:
        """Write the figure as PNG and SVG and the numbers as CSV."""
        for ending in (".png", ".svg"):
            save_figure(self.figure, folder / f"{self.name}{ending}")
        write_table(self.numbers, folder / f"{self.name}.csv")


@dataclass(frozen=True)
class SkippedFigure:
    """A figure that cannot be drawn, and why."""

    name: str
    reason: str


class Gallery:
    """The figures of a results folder. Iterating over it draws them one by one."""

    def __init__(
        self,
        results: Results,
        settings: Sequence[str] | None = None,
        methods: Sequence[str] = DEFAULT_METHODS,
        data_dir: Path | None = None,
    ) -> None:
        """settings: None means all. methods: for curves and histograms."""
        self._results, self._data_dir = results, data_dir
        self._with_default = ResultsWithDefault(results.folder)
        self._methods = [DEFAULT if is_default(method) else parse(method).name for method in methods]
        self._settings = None if settings is None else [find_setting(name).name for name in settings]
        self._figures = list(self._plan())

    def __len__(self) -> int:
        """The number of figures, including those that cannot be drawn."""
        return len(self._figures)

    def __iter__(self) -> Iterator[DrawnFigure | SkippedFigure]:
        """Draw one figure after the other."""
        for name, draw in self._figures:
            try:
                yield draw(name)
            except ErrataError as error:
                yield SkippedFigure(name, str(error))

    def _plan(self) -> Iterator[tuple[str, Callable[[str], DrawnFigure]]]:
        """The name of every figure, and the function that draws it."""
        yield "heat-map", self._heat_map
        yield "critical-difference", self._critical_difference
        tuned = TuningResults(self._results.folder).settings()
        measured = order_settings([*(cell.setting for cell in self._results.cells()), *tuned])
        for setting in self._settings or measured:
            yield f"budget-{setting}", partial(self._budget, setting)
            yield f"stop-epoch-{setting}", partial(self._stop_epoch, setting)
            yield f"scores-{setting}", partial(self._scores, setting)
        for setting in self._settings or usual_settings(all_settings()):
            yield f"noise-{setting}", partial(self._noise, setting)

    @cached_property
    def _numbers(self) -> pd.DataFrame:
        numbers = self._results.numbers()
        if self._settings is None:
            return numbers[numbers["setting"].isin(usual_settings(set(numbers["setting"])))]
        chosen = numbers[numbers["setting"].isin(self._settings)]
        if chosen.empty:
            raise InputError(f"No results of {', '.join(self._settings)} in {self._results.folder}.")
        return chosen

    def _complete(self, setting: str) -> bool:
        return setting in complete_settings(self._numbers)

    def _without(self, numbers: pd.DataFrame, why: str) -> str:
        """The methods that are missing in a figure."""
        absent = [method for method in self._methods if method not in set(numbers["method"])]
        return f"; without {', '.join(absent)}: {why}" if absent else ""

    def _heat_map(self, name: str) -> DrawnFigure:
        numbers = fnr_by_setting(self._results, self._numbers)
        caption = "FNR at the noise rate of every method on every setting, and its ratio to the best of the setting"
        return DrawnFigure(name, caption, heat_figure(numbers), numbers)

    def _critical_difference(self, name: str) -> DrawnFigure:
        compared, left_out = rank_comparison(self._numbers)
        caption = f"Average ranks and mean FNR over {compared.settings} settings; bars join methods that do not"
        parts = [f"{caption} differ significantly"]
        parts += [f"left out, {reason}: {', '.join(names)}" for reason, names in left_out.items()]
        return DrawnFigure(name, "; ".join(parts), critical_figure(compared), compared.numbers)

    def _budget(self, setting: str, name: str) -> DrawnFigure:
        numbers = budget_numbers(self._with_default, setting, self._methods, complete=self._complete(setting))
        caption = f"FNR on {setting} by the share of samples inspected{self._without(numbers, 'not run')}"
        return DrawnFigure(name, caption, budget_figure(numbers), numbers)

    def _stop_epoch(self, setting: str, name: str) -> DrawnFigure:
        numbers = stop_numbers(self._results, setting)
        caption = f"FNR on {setting} by the epoch at which training stops, ± one standard deviation over seeds"
        return DrawnFigure(name, caption, stop_figure(numbers), numbers)

    def _scores(self, setting: str, name: str) -> DrawnFigure:
        numbers = histogram_numbers(self._with_default, setting, self._methods, complete=self._complete(setting))
        without = self._without(numbers, "not run or scores not stored")
        caption = f"Scores of right and wrong labels of {setting}{without}"
        return DrawnFigure(name, caption, histogram_figure(numbers), numbers)

    def _noise(self, setting: str, name: str) -> DrawnFigure:
        labelled = load_setting(setting, self._data_dir)
        caption = f"Which classes the noise of {setting} confuses"
        return DrawnFigure(name, caption, noise_figure(labelled), _label_counts(labelled))


def _label_counts(labelled: LabelledSetting) -> pd.DataFrame:
    """One row per true class, one column per given label; one row per given label if true classes are unknown."""
    if (np.asarray(labelled.data.train_labels)[labelled.scored] < 0).any():
        return class_table(labelled)
    classes = [str(name) for name in labelled.data.classes]
    counts = pd.DataFrame(contingency(labelled), index=classes, columns=classes)
    return counts.rename_axis("true class").reset_index()
