"""The paper's tables, from results: each a function of a results folder."""

from collections.abc import Callable, Sequence

from errata.bench.evaluation.tables.about import accuracy_table, datasets_table, training_table
from errata.bench.evaluation.tables.detection import noise_rate_table, operating_point_table
from errata.bench.evaluation.tables.estimated_rates import noise_rates_table
from errata.bench.evaluation.tables.interval_table import intervals_table
from errata.bench.evaluation.tables.table import Entry, Table
from errata.bench.evaluation.tables.tuned import chosen_table, tuned_table
from errata.bench.results import Results
from errata.datasets.registry import setting
from errata.errors import InputError

__all__ = ["TABLES", "Entry", "Table", "build"]

TABLES: dict[str, Callable[[Results, Sequence[str] | None], Table]] = {
    "noise-rate": noise_rate_table,
    "operating-point": operating_point_table,
    "intervals": intervals_table,
    "tuned": tuned_table,
    "chosen": chosen_table,
    "accuracy": accuracy_table,
    "training": training_table,
    "datasets": datasets_table,
    "noise-rates": noise_rates_table,
}


def build(name: str, results: Results, settings: Sequence[str] | None = None) -> Table:
    """The table of that name; of all settings with results, or of those named."""
    if name not in TABLES:
        raise InputError(f"there is no table named {name!r}; there are {', '.join(TABLES)}")
    return TABLES[name](results, None if settings is None else [setting(one).name for one in settings])
