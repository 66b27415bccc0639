"""Every figure that results allow, and why the others cannot be drawn."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from errata.bench.evaluation.tables.over_seeds import order_settings
from errata.bench.figures.budget_curves import budget_figure, budget_numbers, stop_figure, stop_numbers
from errata.bench.figures.critical import critical_figure, standing
from errata.bench.figures.drawing import CHOSEN, Drawing
from errata.bench.figures.heat import heat_figure
from errata.bench.figures.histograms import histogram_figure, histogram_numbers
from errata.bench.figures.measured import complete_settings, fnr_by_setting
from errata.bench.results import Results
from errata.bench.tuning_results import TuningResults
from errata.core.methods import parse
from errata.datasets.loading import LabelledSetting, load_setting
from errata.datasets.noise_figures import class_table, contingency, noise_figure
from errata.datasets.registry import setting as find_setting
from errata.datasets.registry import settings as all_settings
from errata.errors import ErrataError, InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Undrawn:
    """A figure that cannot be drawn, and why."""

    name: str
    reason: str


class Gallery:
    """The figures of a results folder: `len` of them, drawn one by one when iterated over."""

    def __init__(
        self,
        results: Results,
        settings: Sequence[str] | None = None,
        methods: Sequence[str] = CHOSEN,
        data_dir: Path | None = None,
    ) -> None:
        """settings: None is all there are. methods: those of curves and histograms, where not all fit."""
        self._results, self._data_dir = results, data_dir
        self._methods = [parse(method).name for method in methods]
        self._settings = None if settings is None else [find_setting(name).name for name in settings]
        self._figures = list(self._plan())

    def __len__(self) -> int:
        """How many there would be if all could be drawn."""
        return len(self._figures)

    def __iter__(self) -> Iterator[Drawing | Undrawn]:
        """Draw one after the other; what the results do not allow comes as the reason why."""
        for name, draw in self._figures:
            try:
                yield draw(name)
            except ErrataError as error:
                yield Undrawn(name, str(error))

    def _plan(self) -> Iterator[tuple[str, Callable[[str], Drawing]]]:
        """Names, and what draws the figure of that name."""
        yield "heat-map", self._heat_map
        yield "critical-difference", self._critical_difference
        for setting in self._settings or self._measured_settings():
            yield f"budget-{setting}", partial(self._budget, setting)
            yield f"stop-epoch-{setting}", partial(self._stop_epoch, setting)
            yield f"scores-{setting}", partial(self._scores, setting)
        for setting in self._settings or all_settings():
            yield f"noise-{setting}", partial(self._noise, setting)

    def _measured_settings(self) -> list[str]:
        tuned = TuningResults(self._results.folder).settings()
        return order_settings([*(cell.setting for cell in self._results.cells()), *tuned])

    @cached_property
    def _numbers(self) -> "pd.DataFrame":
        numbers = self._results.numbers()
        if self._settings is None:
            return numbers
        chosen = numbers[numbers["setting"].isin(self._settings)]
        if chosen.empty:
            raise InputError(f"{self._results.folder} holds no results of {', '.join(self._settings)}")
        return chosen

    def _complete(self, setting: str) -> bool:
        return setting in complete_settings(self._numbers)

    def _without(self, numbers: "pd.DataFrame", why: str) -> str:
        """Which of the chosen methods are not in a figure."""
        absent = [method for method in self._methods if method not in set(numbers["method"])]
        return f"; without {', '.join(absent)}: {why}" if absent else ""

    def _heat_map(self, name: str) -> Drawing:
        numbers = fnr_by_setting(self._results, self._numbers)
        caption = "FNR at the noise rate of every method on every setting, and how far it is from the setting's best"
        return Drawing(name, caption, heat_figure(numbers), numbers)

    def _critical_difference(self, name: str) -> Drawing:
        found = standing(self._numbers)
        left_out = [f"left out, {reason}: {', '.join(names)}" for reason, names in found.left_out.items()]
        caption = f"Average ranks and mean FNR over {len(found.settings)} settings; bars join what cannot be told apart"
        return Drawing(name, "; ".join([caption, *left_out]), critical_figure(found), found.numbers)

    def _budget(self, setting: str, name: str) -> Drawing:
        numbers = budget_numbers(self._results, setting, self._methods, complete=self._complete(setting))
        caption = f"FNR on {setting} by the share of samples inspected{self._without(numbers, 'not run')}"
        return Drawing(name, caption, budget_figure(numbers), numbers)

    def _stop_epoch(self, setting: str, name: str) -> Drawing:
        numbers = stop_numbers(self._results, setting)
        caption = f"FNR on {setting} by the epoch at which training stops, ± one standard deviation over seeds"
        return Drawing(name, caption, stop_figure(numbers), numbers)

    def _scores(self, setting: str, name: str) -> Drawing:
        numbers = histogram_numbers(self._results, setting, self._methods, complete=self._complete(setting))
        without = self._without(numbers, "not run or its scores left behind")
        caption = f"Scores of right and wrong labels of {setting}{without}"
        return Drawing(name, caption, histogram_figure(numbers), numbers)

    def _noise(self, setting: str, name: str) -> Drawing:
        labelled = load_setting(setting, self._data_dir)
        caption = f"Which classes the noise of {setting} confuses"
        return Drawing(name, caption, noise_figure(labelled), _confused(labelled))


def _confused(labelled: LabelledSetting) -> "pd.DataFrame":
    """A row a true class, a column a given label; where the true class is not known, a row a given label."""
    import pandas as pd

    if (np.asarray(labelled.data.train_labels)[labelled.scored] < 0).any():
        return class_table(labelled)
    classes = [str(name) for name in labelled.data.classes]
    counts = pd.DataFrame(contingency(labelled), index=classes, columns=classes)
    return counts.rename_axis("true class").reset_index()
