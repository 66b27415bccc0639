"""What is to be run: cells of setting, gathering and seed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from errata.core.methods import Gathering
from errata.datasets.noises import BeyondPaper
from errata.datasets.registry import setting as find_setting
from errata.datasets.registry import settings
from errata.datasets.settings import Setting
from errata.errors import InputError

GATHERINGS: tuple[Gathering, ...] = ("in-sample", "out-of-sample")
QUICK = ("digits-symmetric-20", "letter-symmetric-20", "satellite-symmetric-20")


@dataclass(frozen=True, order=True)
class Cell:
    """One training (its dynamics) and all that is scored on it."""

    setting: str
    gathering: Gathering
    seed: int

    @property
    def name(self) -> str:
        """As in messages and file names."""
        return f"{self.setting}/{self.gathering}-seed{self.seed}"


@dataclass(frozen=True)
class Group:
    """Cells that are trained side by side: the seeds of one setting and gathering."""

    setting: Setting
    gathering: Gathering
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """As in messages and file names."""
        return f"{self.setting.name}/{self.gathering}"

    def cell(self, seed: int) -> Cell:
        """One of its cells."""
        return Cell(self.setting.name, self.gathering, seed)


def suite(name: str) -> tuple[str, ...]:
    """The settings of a suite: paper, tabular, cifar, noise (kinds that the paper does not have), boosting or quick."""
    paper = [one for one in settings().values() if one.in_paper]
    suites = {
        "paper": tuple(one.name for one in paper),
        "tabular": tuple(one.name for one in paper if one.network == "mlp"),
        "cifar": tuple(one.name for one in paper if one.network == "cnn9"),
        "noise": tuple(one.name for one in settings().values() if isinstance(one.noise, BeyondPaper)),
        "boosting": tuple(one.name for one in settings().values() if one.network == "boosting"),
        "quick": QUICK,
    }
    if name not in suites:
        raise InputError(f"there is no suite named {name!r}; there are {', '.join(suites)}")
    return suites[name]


def plan(names: Iterable[str], gatherings: Sequence[Gathering], seeds: int) -> list[Cell]:
    """Every cell of some settings, in the order they are run."""
    if seeds < 1:
        raise InputError(f"at least one seed is needed, not {seeds}")
    for gathering in gatherings:
        if gathering not in GATHERINGS:
            raise InputError(f"gathering is {' or '.join(GATHERINGS)}, not {gathering!r}")
    found = [find_setting(name) for name in names]
    return [Cell(one.name, gathering, seed) for one in found for gathering in gatherings for seed in range(seeds)]


def groups(cells: Sequence[Cell]) -> list[Group]:
    """The cells by what is trained together, in their order."""
    by_training = groupby(cells, key=lambda cell: (cell.setting, cell.gathering))
    return [
        Group(find_setting(name), gathering, tuple(cell.seed for cell in members))
        for (name, gathering), members in by_training
    ]
