"""The default as one method: what errata would rank each cell by, which depends on what is known there."""

from typing import TYPE_CHECKING

from errata.bench.plan import Cell
from errata.bench.results import Results
from errata.bench.scoring import DEFAULT

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT = f"{DEFAULT} (OOS)"
DEFAULTS = (DEFAULT, HELD_OUT)
CELL = ["setting", "gathering", "seed"]


class WithDefault(Results):
    """Results in which the default of every cell that names one is there once more, under a name of its own."""

    def numbers(self) -> "pd.DataFrame":
        """The numbers of all cells, and once more those of the default."""
        import pandas as pd

        numbers = super().numbers()
        named = numbers.loc[numbers["metric"] == DEFAULT, [*CELL, "method"]]
        own = numbers[numbers["metric"] != DEFAULT].merge(named, on=[*CELL, "method"])
        return pd.concat([numbers, own.assign(method=own["gathering"].map(_name))], ignore_index=True)

    def ranks(self, cell: Cell) -> "pd.DataFrame":
        """The rankings of a cell, and once more that of the default."""
        import pandas as pd

        ranking, numbers = super().ranks(cell), self.numbers_of(cell)
        named = numbers.loc[numbers["metric"] == DEFAULT, "method"]
        own = ranking[ranking["method"].isin(named)]
        return pd.concat([ranking, own.assign(method=_name(cell.gathering))], ignore_index=True)


def _name(gathering: str) -> str:
    return DEFAULT if gathering == "in-sample" else HELD_OUT
