"""Which trainings a benchmark consists of: cells of setting, gathering and seed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from errata.core.methods import Gathering
from errata.datasets.label_noise import ExtraNoise
from errata.datasets.registry import setting as find_setting
from errata.datasets.registry import settings
from errata.datasets.spec import Setting
from errata.errors import InputError

GATHERINGS: tuple[Gathering, ...] = ("in-sample", "out-of-sample")
QUICK = ("digits-symmetric-20", "letter-symmetric-20", "satellite-symmetric-20")


@dataclass(frozen=True, order=True)
class Cell:
    """One training, scored by every method."""

    setting: str
    gathering: Gathering
    seed: int

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"{self.setting}/{self.gathering}-seed{self.seed}"


@dataclass(frozen=True)
class CellGroup:
    """Cells that are trained together: the seeds of one setting and gathering."""

    setting: Setting
    gathering: Gathering
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"{self.setting.name}/{self.gathering}"

    def cell(self, seed: int) -> Cell:
        """The cell of one seed."""
        return Cell(self.setting.name, self.gathering, seed)


def suite(name: str) -> tuple[str, ...]:
    """The settings of a suite. `noise` has the kinds of noise that are not in the paper."""
    shared = [one for one in settings().values() if not one.suite]
    paper = [one for one in shared if one.in_paper]
    suites = {
        "paper": tuple(one.name for one in paper),
        "tabular": tuple(one.name for one in paper if one.network == "mlp"),
        "cifar": tuple(one.name for one in paper if one.network == "cnn9"),
        "noise": tuple(one.name for one in shared if isinstance(one.noise, ExtraNoise)),
        "boosting": tuple(one.name for one in shared if one.network == "boosting"),
        "quick": QUICK,
    }
    for one in settings().values():
        if one.suite:
            suites[one.suite] = (*suites.get(one.suite, ()), one.name)
    if name not in suites:
        raise InputError(f"Unknown suite {name!r}. Suites: {', '.join(suites)}.")
    return suites[name]


def usual_settings(names: Iterable[str]) -> list[str]:
    """Those of the settings that are used where none is named: all but the settings with a suite of their own."""
    known = settings()
    return [name for name in names if name not in known or not known[name].suite]


def plan(names: Iterable[str], gatherings: Sequence[str], seeds: int) -> list[Cell]:
    """All cells of the settings with these names, in the order in which they run."""
    checked = [check_gathering(gathering) for gathering in gatherings]
    found = [find_setting(name) for name in names]
    return [Cell(one.name, gathering, seed) for one in found for gathering in checked for seed in range(seeds)]


def check_gathering(name: str) -> Gathering:
    """The gathering of that name; InputError if there is none."""
    for gathering in GATHERINGS:
        if name == gathering:
            return gathering
    raise InputError(f"Unknown gathering {name!r}. Use {' or '.join(GATHERINGS)}.")


def group_cells(cells: Sequence[Cell]) -> list[CellGroup]:
    """Consecutive cells of one setting and gathering as groups."""
    by_training = groupby(cells, key=lambda cell: (cell.setting, cell.gathering))
    return [
        CellGroup(find_setting(name), gathering, tuple(cell.seed for cell in members))
        for (name, gathering), members in by_training
    ]
