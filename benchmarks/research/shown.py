"""The tables of the study: FNR of every candidate relative to MeanProb-LM, and the statistics that the default uses."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candidates import BASELINE
from runs import BY_A_RULE, DEVELOPMENT

if TYPE_CHECKING:
    import pandas as pd

IMAGES = tuple(name for name in DEVELOPMENT if name.startswith("cifar"))
NOT_RETRAINED = "letter-symmetric-20"  # the largest: a dozen more trainings take too long
TITLES = DEVELOPMENT | BY_A_RULE
KEYS = ["family", "candidate", "models"]


def write(rows: Sequence[dict[str, Any]], signs: Sequence[dict[str, Any]], folder: Path) -> None:
    """Write signs.csv and, if candidates were measured, fnr.csv and table.md."""
    import pandas as pd

    pd.DataFrame(signs).groupby("setting", sort=False).agg(_summary).round(3).to_csv(folder / "signs.csv")
    if not rows:
        return
    frame = pd.DataFrame(rows)
    mean, errors = wide(frame), dict(zip(frame["setting"], frame["errors"], strict=True))
    mean.round(3).to_csv(folder / "fnr.csv")
    (folder / "table.md").write_text(markdown(mean, errors), encoding="utf-8")


def wide(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Mean FNR in percent over seeds: one row per candidate, one column per setting."""
    import pandas as pd

    table = frame.pivot_table(index=KEYS, columns="setting", values="fnr")
    in_order = pd.MultiIndex.from_frame(frame[KEYS].drop_duplicates())
    return table.loc[in_order, [name for name in TITLES if name in table]]


def _summary(column: "pd.Series[Any]") -> Any:
    return column.mean() if column.dtype.kind == "f" else "/".join(sorted({str(value) for value in column}))


def relative(mean: "pd.DataFrame") -> "pd.DataFrame":
    """FNR divided by that of MeanProb-LM, with means over groups of settings if a candidate was run on all of them.

    Settings whose noise follows a rule come last and are in no mean.
    """
    shares = mean / mean.xs(BASELINE, level="candidate").iloc[0]
    images = [name for name in shares if name in IMAGES]
    tables = [name for name in shares if name in DEVELOPMENT and name not in IMAGES]
    small = [name for name in tables if name != NOT_RETRAINED]
    shares.insert(len(tables), "small tables", shares[small].mean(axis=1, skipna=False))
    shares.insert(len(tables) + 1, "tables", shares[tables].mean(axis=1, skipna=False))
    shares["images"] = shares[images].mean(axis=1, skipna=False)
    shares["worst"] = shares[tables + images].max(axis=1)
    by_a_rule = [name for name in shares if name in BY_A_RULE]
    return shares[[name for name in shares if name not in by_a_rule] + by_a_rule]


def markdown(mean: "pd.DataFrame", errors: dict[str, int]) -> str:
    """The relative table, one heading per family. The first rows: number of errors, and FNR of MeanProb-LM."""
    shares = relative(mean)
    titles = [TITLES.get(str(name), str(name)) for name in shares]
    lines = [f"| | models | {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) + 1)}"]
    whole = [f"{mean[name].iloc[0]:.2f}" if name in mean else "" for name in shares]
    counts = [f"{errors[str(name)]:,}" if name in errors else "" for name in shares]
    lines.append(f"| wrong labels | | {' | '.join(counts)} |")
    lines.append(f"| {BASELINE}, FNR % | 1 | {' | '.join(whole)} |")
    family = ""
    for (of, name, models), row in zip(shares.index.to_list(), shares.to_numpy(), strict=True):
        if of != family:
            family = of
            lines.append(f"| **{family}** |{' |' * (len(titles) + 1)}")
        cells = ["–" if value != value else f"{value:.2f}" for value in row]
        lines.append(f"| {name} | {models} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
