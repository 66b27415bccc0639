"""The default as one method: what errata would rank each cell by, which depends on what is known there."""

from typing import TYPE_CHECKING

from errata.bench.plan import Cell
from errata.bench.results import Results
from errata.core.default import DEFAULT

if TYPE_CHECKING:
    import pandas as pd

CELL = ["setting", "gathering", "seed"]


class WithDefault(Results):
    """Results in which the default of every in-sample cell that names one is there once more, under that name."""

    def numbers(self) -> "pd.DataFrame":
        """The numbers of all cells, and once more those of the default."""
        import pandas as pd

        numbers = super().numbers()
        named = numbers.loc[_names_default(numbers), [*CELL, "method"]]
        own = numbers[numbers["metric"] != DEFAULT].merge(named, on=[*CELL, "method"])
        return pd.concat([numbers, own.assign(method=DEFAULT)], ignore_index=True)

    def ranks(self, cell: Cell) -> "pd.DataFrame":
        """The rankings of a cell, and once more that of the default."""
        import pandas as pd

        ranking, numbers = super().ranks(cell), self.numbers_of(cell)
        own = ranking[ranking["method"].isin(numbers.loc[_names_default(numbers), "method"])]
        return pd.concat([ranking, own.assign(method=DEFAULT)], ignore_index=True)


def _names_default(numbers: "pd.DataFrame") -> "pd.Series[bool]":
    """Of held-out epochs the benchmark keeps no neighbours, so that their default is another one."""
    return (numbers["metric"] == DEFAULT) & (numbers["gathering"] == "in-sample")
