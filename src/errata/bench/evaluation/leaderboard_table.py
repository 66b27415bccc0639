"""The leaderboard as a table."""

from math import isnan
from typing import Any

from errata.bench.evaluation.leaderboard import Leaderboard
from errata.bench.evaluation.result_table import INCOMPLETE, MISSING, ResultTable, TableEntry, mark_incomplete
from errata.bench.evaluation.stats import ALPHA, FEWEST_METHODS, FEWEST_SETTINGS, p_text
from errata.bench.evaluation.summaries import display_name
from errata.wording import counted


def leaderboard_table(board: Leaderboard) -> ResultTable:
    """One row per method, the leader first."""
    rows = [_row(row, not board.incomplete) for row in board.numbers.to_dict("records")]
    return ResultTable(
        title=f"{len(rows)} methods on {counted(len(board.settings), 'setting')}: FNR at the noise rate",
        columns=("method", "run on", "FNR (%)", "mean rank", "wins", "behind the leader", "p", "groups"),
        rows=tuple(rows),
        numbers=board.numbers,
        notes=(
            f"Compared on {', '.join(board.settings)}",
            *([f"{INCOMPLETE} incomplete data: {', '.join(board.incomplete)}"] if board.incomplete else []),
            *board.left_out,
            "Run on: number of settings with results of the method. FNR: mean over the compared settings, and its 95 % "
            "bootstrap interval over samples and seeds. Wins: settings where no method is lower.",
            *_difference_notes(board),
            _groups_note(board),
        ),
    )


def _row(row: dict[Any, Any], complete: bool) -> tuple[TableEntry, ...]:
    fnr = f"{row['fnr_percent_mean']:.2f} ({row['fnr_percent_low']:.2f}–{row['fnr_percent_high']:.2f})"
    is_leader = isnan(row["difference_mean"])
    return (
        TableEntry(display_name(row["method"]), bold=is_leader),
        TableEntry(f"{row['settings_run']}", row["settings_run"]),
        TableEntry(mark_incomplete(fnr, complete), row["fnr_percent_mean"]),
        TableEntry(f"{row['rank_mean']:.2f}", row["rank_mean"]),
        TableEntry(f"{row['wins']}", row["wins"]),
        TableEntry("leader", 0.0) if is_leader else _difference(row),
        TableEntry("") if is_leader else _p(row["p_holm"]),
        TableEntry(row["groups"]),
    )


def _difference(row: dict[Any, Any]) -> TableEntry:
    mean, low, high = (row[f"difference_{name}"] for name in ("mean", "low", "high"))
    return TableEntry(f"{mean:+z.2f}" if isnan(low) else f"{mean:+z.2f} ({low:+z.2f} to {high:+z.2f})", mean)


def _p(p: float) -> TableEntry:
    if isnan(p):
        return TableEntry(MISSING)
    return TableEntry(f"{p:.3f}" if p >= 0.001 else "<0.001", p)


def _difference_notes(board: Leaderboard) -> list[str]:
    """What the difference, its interval and p are, and whether there are enough settings for them."""
    settings, others = len(board.settings), len(board.numbers) - 1
    if settings == 1:
        return ["Behind the leader: in percentage points; one setting allows no interval and no p"]
    smallest = min(1.0, others * 2.0 ** (1 - settings))  # two of the 2**settings ways to sign the differences
    test = f"p: Wilcoxon's signed-rank test over settings, after Holm's correction for {counted(others, 'comparison')}"
    return [
        "Behind the leader: in percentage points, and the 95 % bootstrap interval over settings and their seeds. The "
        "leader was chosen on these settings, which favours it.",
        test + (f"; with {counted(settings, 'setting')}, p is at least {smallest:.2g}" if smallest > ALPHA else ""),
    ]


def _groups_note(board: Leaderboard) -> str:
    if board.ranking is None:
        return f"No groups: Nemenyi's test needs at least {FEWEST_METHODS} methods on {FEWEST_SETTINGS} settings"
    return (
        f"Groups: methods that share a number do not differ significantly (Nemenyi, α = {ALPHA}, critical difference "
        f"{board.ranking.critical_difference:.2f}; Friedman: p {p_text(board.ranking.friedman.p)})"
    )
