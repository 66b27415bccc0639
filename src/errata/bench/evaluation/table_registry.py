"""The tables by name. Each is a function of a results folder and, optionally, the settings to show."""

from collections.abc import Callable, Sequence

from errata.bench.evaluation.fnr_tables import chosen_table, noise_rate_table, operating_point_table, tuned_table
from errata.bench.evaluation.intervals import intervals_table
from errata.bench.evaluation.rate_estimates import noise_rates_table
from errata.bench.evaluation.result_table import ResultTable
from errata.bench.evaluation.run_tables import accuracy_table, datasets_table, training_table
from errata.bench.results import Results
from errata.datasets.registry import setting
from errata.errors import InputError

TABLES: dict[str, Callable[[Results, Sequence[str] | None], ResultTable]] = {
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


def build(name: str, results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """The table of that name, for these settings or for all that have results."""
    if name not in TABLES:
        raise InputError(f"Unknown table {name!r}. Tables: {', '.join(TABLES)}.")
    return TABLES[name](results, None if settings is None else [setting(one).name for one in settings])
