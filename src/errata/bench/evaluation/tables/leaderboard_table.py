"""The leaderboard as a table."""

from math import isnan
from typing import Any

from errata.bench.evaluation.leaderboard import FEWEST_METHODS, FEWEST_SETTINGS, Leaderboard
from errata.bench.evaluation.tables.over_seeds import shown_method
from errata.bench.evaluation.tables.table import INCOMPLETE, MISSING, Entry, Table
from errata.bench.figures.critical import ALPHA

COLUMNS = ("method", "run on", "FNR (%)", "mean rank", "wins", "behind the leader", "p", "groups")


def leaderboard_table(board: Leaderboard) -> Table:
    """A row a method, the leader first."""
    rows = [_row(row, bool(board.incomplete)) for row in board.numbers.to_dict("records")]
    return Table(
        title=f"{len(rows)} methods on {_count(len(board.settings), 'setting')}: FNR at the noise rate",
        columns=COLUMNS,
        rows=tuple(rows),
        numbers=board.numbers,
        notes=(
            f"Compared on {', '.join(board.settings)}",
            *([f"{INCOMPLETE} on incomplete data: {', '.join(board.incomplete)}"] if board.incomplete else []),
            *board.left_out,
            "Run on: settings with results of the method. FNR: mean over the settings compared, and in brackets where "
            "95 % of the means lie when samples and seeds are drawn again. Wins: settings where no method is lower.",
            *_sureness_notes(board),
            _groups_note(board),
        ),
    )


def _row(row: dict[Any, Any], incomplete: bool) -> tuple[Entry, ...]:
    fnr = f"{row['fnr_percent_mean']:.2f} ({row['fnr_percent_low']:.2f}–{row['fnr_percent_high']:.2f})"
    is_leader = isnan(row["difference_mean"])
    return (
        Entry(shown_method(row["method"]), bold=is_leader),
        Entry(f"{row['settings_run']}", row["settings_run"]),
        Entry(f"{fnr} {INCOMPLETE}" if incomplete else fnr, row["fnr_percent_mean"]),
        Entry(f"{row['rank_mean']:.2f}", row["rank_mean"]),
        Entry(f"{row['wins']}", row["wins"]),
        Entry("leader", 0.0) if is_leader else _difference(row),
        Entry("") if is_leader else _p(row["p_holm"]),
        Entry(row["groups"]),
    )


def _difference(row: dict[Any, Any]) -> Entry:
    mean, low, high = (row[f"difference_{name}"] for name in ("mean", "low", "high"))
    return Entry(f"{mean:+z.2f}" if isnan(low) else f"{mean:+z.2f} ({low:+z.2f} to {high:+z.2f})", mean)


def _p(p: float) -> Entry:
    if isnan(p):
        return Entry(MISSING)
    return Entry(f"{p:.3f}" if p >= 0.001 else "<0.001", p)


def _sureness_notes(board: Leaderboard) -> list[str]:
    """What interval and p of a difference stand for, and whether there are settings enough for either."""
    settings, others = len(board.settings), len(board.numbers) - 1
    if settings == 1:
        return ["Behind the leader: in points; one setting has no interval of differences, and no p"]
    least = 2.0 ** (1 - settings)  # two of all 2**settings ways to sign the differences
    told = f"p: Wilcoxon's signed-rank test over settings, after Holm's correction for {_count(others, 'comparison')}"
    few = f"; {_count(settings, 'setting')} cannot bring it below {min(1.0, others * least):.2g}"
    return [
        "Behind the leader: in points, and in brackets where 95 % of the differences lie when settings, and seeds in "
        "each, are drawn again. The leader was chosen on these settings, which flatters it.",
        told + (few if others * least > ALPHA else ""),
    ]


def _groups_note(board: Leaderboard) -> str:
    if board.standing is None:
        return f"No groups: Nemenyi's test needs {FEWEST_METHODS} methods on {FEWEST_SETTINGS} settings or more"
    found = board.standing
    p = f"= {found.friedman.p:.2g}" if found.friedman.p >= 1e-4 else "< 0.0001"
    return (
        f"Groups: methods that share a number cannot be told apart (Nemenyi, α = {ALPHA}, critical difference "
        f"{found.critical_difference:.2f}; Friedman: p {p})"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
