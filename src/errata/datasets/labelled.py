"""A setting with its data: given labels, what is known of the truth, and which samples tuning may look at."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.datasets.loading import load
from errata.datasets.registry import setting as find_setting
from errata.datasets.settings import Setting
from errata.datasets.spec import Prepared
from errata.errors import InputError

Mask = NDArray[np.bool_]
TUNING_FRACTIONS = (0.01, 0.05, 0.10)
TUNING_SEED = 0


@dataclass(frozen=True, eq=False)
class Labelled:
    """Training samples as a benchmark sees them.

    given (N,): the labels models are trained on. truth (N,): whether each is wrong, as bool; where some are not known,
    as float with NaN for those. noise: how the labels came about, with the realised count. data: all of the dataset, or
    the part that the setting's noise leaves; rows and ids are counted in it.
    """

    setting: Setting
    data: Prepared
    given: NDArray[np.int64]
    truth: NDArray[Any]
    noise: dict[str, Any]

    @property
    def scored(self) -> NDArray[np.int64]:
        """The rows on which detection is scored: those whose truth is known."""
        return np.flatnonzero(~np.isnan(self.truth.astype(np.float64)))

    @cached_property
    def _tuning_order(self) -> NDArray[np.int64]:
        return np.random.default_rng(TUNING_SEED).permutation(self.scored)

    def tuning(self, fraction: float) -> Mask:
        """Which samples (N,) a tuning set of that fraction of the scored holds; a smaller one is part of a larger."""
        if not 0 <= fraction <= max(TUNING_FRACTIONS):
            raise InputError(f"a tuning fraction is at most {max(TUNING_FRACTIONS)}, not {fraction}")
        mask = np.zeros(len(self.given), dtype=np.bool_)
        mask[self._tuning_order[: round(fraction * len(self.scored))]] = True
        return mask

    @property
    def evaluation(self) -> Mask:
        """The scored samples (N,) that no tuning set holds."""
        mask = np.zeros(len(self.given), dtype=np.bool_)
        mask[self.scored] = True
        return mask & ~self.tuning(max(TUNING_FRACTIONS))

    def metadata(self) -> dict[str, Any]:
        """Plain values that identify data and labels in a result file."""
        return {"setting": self.setting.name, **self.data.metadata(), "noise": self.noise}


def load_setting(name: str, folder: str | Path | None = None) -> Labelled:
    """The setting of that name, with the noise it always has."""
    setting = find_setting(name)
    return label(setting, load(setting.dataset, folder))


def label(setting: Setting, data: Prepared) -> Labelled:
    """Give the training samples the labels of the setting."""
    noisy = setting.noise.label(data)
    return Labelled(setting, noisy.data, noisy.given, noisy.truth, noisy.about)
