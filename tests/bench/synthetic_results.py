"""Synthetic results: a few numbers and scores in a folder."""

import json

import numpy as np
import pandas as pd

from errata.bench.plan import Cell
from errata.bench.results import Results
from errata.core.methods import parse

RECIPE = {
    "batch_size": 64,
    "epochs": 35,
    "learning_rate": 0.0003,
    "momentum": 0.0,
    "network": "cnn9",
    "optimizer": "adam",
    "parts": 1,
    "schedule": [[0, 1.0], [25, 0.1]],
    "weight_decay": 0.0002,
    "widths": [],
}


def write_cell(
    folder,
    setting,
    seed,
    fnr,
    *,
    gathering="in-sample",
    operating_points=None,
    accuracy=None,
    complete=True,
    recipe=None,
    label_hash="labels",
    scores=None,
    truth=None,
    rates=None,
    default=None,
):
    """Write a cell with the FNR of some methods.

    operating_points: budget and FNR by method. scores: (N,) by method. rates: rate, low and high by kind.
    default: the default method of the cell.
    """
    truth = np.array([True, False]) if truth is None else truth
    rows = [
        {"method": name, "metric": "fnr", "budget": int(truth.sum()), "value": value} for name, value in fnr.items()
    ]
    rows += [
        {"method": name, "metric": "fnr_at_operating_point", "budget": budget, "value": value}
        for name, (budget, value) in (operating_points or {}).items()
    ]
    rows += [
        {"method": kind, "metric": metric, "value": value}
        for kind, values in (rates or {}).items()
        for metric, value in zip(("noise_rate", "noise_rate_low", "noise_rate_high"), values, strict=True)
    ]
    if default is not None:
        rows.append({"method": default, "metric": "default", "value": 1.0})
    if accuracy is not None:
        rows.append({"method": "", "metric": "test_accuracy", "budget": None, "value": accuracy})
    numbers = pd.DataFrame(rows).astype({"budget": "Int64", "value": "float64"})
    numbers = numbers.assign(
        setting=setting,
        gathering=gathering,
        seed=seed,
        parameters=json.dumps({**RECIPE, **(recipe or {}), "seed": seed}),
        samples=len(truth),
        noisy=int(truth.sum()),
        data_hash="data",
        label_hash=label_hash,
        complete=complete,
        version="0",
        device="cpu",
        seconds=1.0,
    )
    ids = {"id": np.arange(len(truth)), "given": 0, "truth": truth}
    every = scores or {name: np.zeros(len(truth)) for name in fnr}
    Results(folder).write(Cell(setting, gathering, seed), numbers, pd.DataFrame(ids | every))
    return Results(folder)


def write_seeds(folder, setting, seeds_of_methods, **options):
    """Write one cell per seed and gathering, from the FNR in percent per seed, by method."""
    for gathering in ("in-sample", "out-of-sample"):
        here = {name: values for name, values in seeds_of_methods.items() if parse(name).gathering == gathering}
        for seed in range(max(map(len, here.values()), default=0)):
            fnr = {name: values[seed] / 100 for name, values in here.items() if seed < len(values)}
            write_cell(folder, setting, seed, fnr, gathering=gathering, **options)
    return Results(folder)


def write_tuning(folder, setting, rows, complete=True):
    """Write tuning results from rows (seed, fraction, method, FNR in percent, chosen)."""
    columns = ["seed", "tuning_fraction", "method", "value", "chosen"]
    table = pd.DataFrame(rows, columns=columns).assign(setting=setting, complete=complete)
    table["value"] /= 100
    path = folder / "tuning" / f"{setting}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(path, index=False)
    table[["seed"]].to_parquet(path.with_name(f"{setting}.curve.parquet"), index=False)
    return Results(folder)
