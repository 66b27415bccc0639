"""Is the advice of `errata advise` worth anything? On runs whose wrong labels are known, with and without an audit.

ERRATA_DATA=... python benchmarks/advise.py RESULTS... [--audits]

RESULTS are folders of `errata bench run --keep-dynamics`. Prints Markdown, a row a setting: the mean of its seeds, or
of audits on its first. FNR is the share of the errors that are not among the first of a ranking, as many as there are
errors, in percent.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from errata import Dynamics, advise, score_many
from errata.advising.tuning import choose, options_for
from errata.core.metrics import fnr
from errata.datasets.labelled import load_setting

AUDITS, AUDITED = 10, (200, 500)


def runs(folders: list[Path], seeds: str) -> Iterator[tuple[str, Dynamics, NDArray[np.bool_]]]:
    for folder in folders:
        for kept in sorted(folder.glob(f"work/*-in-sample/{seeds}/dynamics")):
            setting = kept.parents[1].name.removesuffix("-in-sample")
            dynamics = Dynamics.open(kept)
            yield f"{setting} ({folder.name})", dynamics, load_setting(setting).truth[dynamics.ids].astype(bool)


def signs(dynamics: Dynamics, truth: NDArray[np.bool_]) -> dict[str, float]:
    """How well what is seen without truth goes with FNR, and what following it would have brought."""
    advice = advise(dynamics)
    table = advice.table
    scores = score_many(dynamics, table["method"], budget=advice.budget)
    missed = pd.Series([fnr(scores[name], truth) for name in table["method"]])
    assert advice.memorising is not None
    last = score_many(dynamics, ["Last-CPD"])["Last-CPD"].to_numpy()
    named = dict(zip(table["method"], missed, strict=True))
    return {
        "default": 100 * missed[0],
        "MeanProb-LM": 100 * named["MeanProb-LM"],
        "most agreement": 100 * missed[table["agreement"].idxmax()],
        "most stability": 100 * missed[table["stability"].idxmax()],
        "best": 100 * missed.min(),
        "mean": 100 * missed.mean(),
        "ρ agreement": table["agreement"].corr(-missed, method="spearman"),
        "ρ stability": table["stability"].corr(-missed, method="spearman"),
        "default apart": 100 * (table["agreement"].max() - table["agreement"][0]),
        "suspects learned": 100 * advice.memorising.suspects_learned,
        "errors learned": 100 * float(1 - last[truth].mean()),
        "Last-LM / MeanProb-LM": named["Last-LM"] / named["MeanProb-LM"],
        "estimated": 100 * advice.budget / dynamics.samples,
        "wrong": 100 * float(truth.mean()),
    }


def audits(dynamics: Dynamics, truth: NDArray[np.bool_]) -> dict[str, float]:
    """What random audits gain on the samples that were not audited, and whether they know how much."""
    every = options_for(dynamics, np.arange(dynamics.samples))
    places = {(option.method.name, option.window): place for place, option in enumerate(every)}
    rows: dict[str, float] = {}
    for size in (size for size in AUDITED if size < dynamics.samples / 2):
        found = []
        for seed in range(AUDITS):
            picked = np.random.default_rng(seed).permutation(dynamics.samples)[:size]
            others = np.setdiff1d(np.arange(dynamics.samples), picked)
            few = [type(option)(option.method, option.window, option.scores[picked]) for option in every]
            tuned = choose(few, truth[picked], seed=seed)
            default, best = (
                fnr(every[place].scores[others], truth[others]) for place in (0, places[tuned.method, tuned.window])
            )
            gain = default - best
            kept = gain if tuned.better else 0.0
            found.append((default, gain, tuned.gain, tuned.low <= gain <= tuned.high, tuned.better, kept))
        names = ("default", "gain if always used", "gain said", "within interval", "advised", "gain if advised")
        for name, column in zip(names, np.mean(found, axis=0), strict=True):
            rows[f"{size}: {name}"] = 100 * column
    return rows


def main(arguments: list[str]) -> None:
    measure, seeds = (audits, "seed0") if "--audits" in arguments else (signs, "seed*")
    folders = [Path(argument) for argument in arguments if argument != "--audits"]
    if not folders:
        sys.exit(__doc__)
    rows = []
    for setting, dynamics, truth in runs(folders, seeds):
        rows.append({"setting": setting, **measure(dynamics, truth)})
        print(rows[-1], file=sys.stderr, flush=True)
    table = pd.DataFrame(rows).groupby("setting").mean()
    table.loc["mean"] = table.mean()
    print("| " + " | ".join(["setting", *table.columns]) + " |")
    print("|---" * (len(table.columns) + 1) + "|")
    for name, row in table.iterrows():
        cells = (f"{value:.2f}" if "ρ" in column or "/" in column else f"{value:.1f}" for column, value in row.items())
        print("| " + " | ".join([str(name), *cells]) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
