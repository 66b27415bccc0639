"""The default compared with MeanProb-LM and the paper on every setting with results, held-out settings included.

    python benchmarks/research/everywhere.py --results results --out results/research

Reads the cells of `errata bench run`, which record their default method. Writes everywhere.csv and everywhere.md. It
includes held-out settings: do not use it to choose a method.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.bench.evaluation.leaderboard import ResultsWithDefault
from errata.bench.evaluation.published import fnr_at_noise_rate
from errata.bench.plan import usual_settings
from errata.core.default import DEFAULT
from runs import BY_A_RULE, DEVELOPMENT, LED_TO_A_SIGN

if TYPE_CHECKING:
    import pandas as pd

BASELINE = "MeanProb-LM"
HELD_OUT = ("cifar100", "human_activity", "mushroom", "trec")


def measured(results: Path) -> Iterator[dict[str, Any]]:
    """FNR in percent of both methods: one row per setting and seed."""
    numbers = ResultsWithDefault(results).numbers()
    counted = numbers[(numbers["metric"] == "fnr") & (numbers["gathering"] == "in-sample")]
    counted = counted[counted["setting"].isin(usual_settings(set(counted["setting"])))]
    wide = counted.pivot_table(index=["setting", "seed"], columns="method", values="value")
    whole = counted.groupby("setting")["complete"].all()
    for (name, seed), row in (100 * wide.reindex(columns=[BASELINE, DEFAULT])).iterrows():
        if np.isnan(row[DEFAULT]):
            print(f"left out: seed {seed} of {name}, its cell records no default")
        else:
            about = {"setting": name, "seed": seed, "complete": whole[name]}
            yield about | {"alone": row[BASELINE], "default": row[DEFAULT]}


def table(rows: list[dict[str, Any]]) -> "pd.DataFrame":
    """One row per setting: mean and population deviation of both methods over seeds, and the paper's numbers."""
    import pandas as pd

    grouped = pd.DataFrame(rows).groupby("setting", sort=False)[["alone", "default"]]
    mean, spread = grouped.mean(), grouped.std(ddof=0).add_suffix("_std")
    paper = fnr_at_noise_rate()
    best = paper.groupby("setting")["fnr_percent"].min()
    own = paper[paper["method"] == BASELINE].set_index("setting")["fnr_percent"]
    found = mean.join(spread).join(grouped.size().rename("seeds"))
    found["share"] = found["default"] / found["alone"]
    comparable = pd.DataFrame(rows).groupby("setting")["complete"].all().reindex(found.index)
    found["paper"], found["paper_best"] = (column.reindex(found.index).where(comparable) for column in (own, best))
    found.insert(0, "part", [part_of(str(name)) for name in found.index])
    return found.reset_index()


def in_parts(found: "pd.DataFrame") -> "pd.DataFrame":
    """Held-out settings first."""
    order = {"held out": 0, "development": 1, "not looked at": 2}
    return found.sort_values("part", key=lambda parts: parts.map(order), kind="stable", ignore_index=True)


def part_of(setting: str) -> str:
    """How a setting was used when the default was chosen."""
    if setting.startswith(HELD_OUT):
        return "held out"
    return "development" if setting in {*DEVELOPMENT, *BY_A_RULE, *LED_TO_A_SIGN} else "not looked at"


def markdown(found: "pd.DataFrame") -> str:
    """The table, grouped by part, with one summary line per group."""
    lines = [
        "| setting | seeds | MeanProb-LM | default | share | the paper's MeanProb-LM | best of its 25 |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for part, rows in found.groupby("part", sort=False):
        lines.append(f"| **{part}** | | | | {rows['share'].mean():.2f} | | |")
        for row in rows.itertuples():
            alone, default = f"{row.alone:.2f} ± {row.alone_std:.2f}", f"{row.default:.2f} ± {row.default_std:.2f}"
            printed = [f"{value:.2f}" if value == value else "–" for value in (row.paper, row.paper_best)]
            lines.append(
                f"| {row.setting} | {row.seeds} | {alone} | {default} | {row.share:.2f} | {' | '.join(printed)} |"
            )
    return "\n".join(lines) + "\n"


def main(arguments: argparse.Namespace) -> None:
    """Measure and write."""
    found = in_parts(table(list(measured(arguments.results))))
    arguments.out.mkdir(parents=True, exist_ok=True)
    found.round(4).to_csv(arguments.out / "everywhere.csv", index=False)
    text = markdown(found)
    (arguments.out / "everywhere.md").write_text(text, encoding="utf-8")
    print(text)
    published = found[found["paper_best"].notna()]
    below = int((published["default"] < published["paper_best"]).sum())
    print(f"mean FNR {found['default'].mean():.2f} % instead of {found['alone'].mean():.2f} %; mean share", end=" ")
    print(
        f"{found['share'].mean():.3f}; worst {found['share'].max():.2f} ({found['setting'][found['share'].idxmax()]})"
    )
    print(f"below the paper's best of 25 on {below} of {len(published)} settings that it has")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="results of bench run")
    parser.add_argument("--out", type=Path, required=True, help="where the tables go")
    main(parser.parse_args())
