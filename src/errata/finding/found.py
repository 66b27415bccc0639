"""What was found in a dataset, and the folder it is kept in."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.core.rates import NoiseRate
from errata.dynamics.files import replace_atomically
from errata.dynamics.store import Dynamics
from errata.errors import StoreError
from errata.readers import UserData
from errata.terminal import write_table

if TYPE_CHECKING:
    import pandas as pd

SUMMARY, RANKING, CONFLICTS, CONFUSIONS = "summary.json", "ranking", "conflicts.csv", "confusions.csv"
REPORT, DYNAMICS = "report.html", "dynamics"
MARK = ".errata-find"  # in every folder that may be written to again: nobody else names a file so


@dataclass(frozen=True, eq=False)
class Found:
    """The samples of a dataset from most to least suspicious, and how many of their labels are probably wrong.

    ranking: id, label, suggested, score, rank, p_wrong (the estimated probability that the label is wrong), agree (the
    share of the methods asked that count the sample among the estimated errors) and mean_loss, a row a sample.
    conflicts: group, id, label of samples with the same inputs and different labels. confusions: label, suggested and
    count among the estimated errors. curve: expected_errors_found when so many are `inspected`.
    summary: what can be said in words and numbers, as it is written to summary.json.
    """

    ranking: "pd.DataFrame"
    dynamics: Dynamics
    estimate: NoiseRate
    conflicts: "pd.DataFrame"
    confusions: "pd.DataFrame"
    curve: "pd.DataFrame"
    summary: dict[str, Any]
    data: UserData | None = None

    @property
    def expected(self) -> int:
        """How many labels are estimated to be wrong."""
        return round(self.estimate.rate * len(self.ranking))

    def save(self, folder: str | Path) -> Path:
        """Write everything to a folder, in place of what an earlier run has left there."""
        from errata.report import write_report

        target = Path(folder)
        claim_folder(target)
        (target / SUMMARY).unlink(missing_ok=True)  # it says that all is there, and is written last
        portable = _portable(self.ranking)
        write_table(portable, target / f"{RANKING}.csv")
        write_table(portable, target / f"{RANKING}.parquet")
        write_table(self.confusions, target / CONFUSIONS)
        (target / CONFLICTS).unlink(missing_ok=True)
        if len(self.conflicts):
            write_table(self.conflicts, target / CONFLICTS)
        _save_dynamics(self.dynamics, target / DYNAMICS)
        write_report(self, target / REPORT)
        text = json.dumps(self.summary, indent=1, ensure_ascii=False) + "\n"
        replace_atomically(target / SUMMARY, lambda file: file.write(text.encode()))
        return target

    @classmethod
    def open(cls, folder: str | Path) -> "Found":
        """Read back what `save` wrote; the data itself stays where it is, and `data` is None."""
        import pandas as pd

        from errata.finding.error_counts import expected_curve

        source = Path(folder)
        summary = read_summary(source)
        ranking = pd.read_parquet(source / f"{RANKING}.parquet")
        conflicts = no_conflicts()
        if (source / CONFLICTS).exists():
            conflicts = pd.read_csv(source / CONFLICTS, keep_default_na=False)
        return cls(
            ranking=ranking,
            dynamics=Dynamics.open(source / DYNAMICS),
            estimate=NoiseRate(**summary["estimate"]),
            conflicts=conflicts,
            confusions=pd.read_csv(source / CONFUSIONS, keep_default_na=False),
            curve=expected_curve(ranking["p_wrong"].to_numpy()),
            summary=summary,
        )


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything else than what find has written, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; name a folder for what is found")
    if folder.is_dir() and not (folder / MARK).is_file() and any(folder.iterdir()):
        raise StoreError(f"{folder} holds other files; name a new folder, or one that find has written before")


def claim_folder(folder: Path) -> None:
    """Make the folder one that find may write to, now and again."""
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text("errata find has made this folder, and writes here again when it is told to.\n")


def no_conflicts() -> "pd.DataFrame":
    """The table of conflicts where there are none, or none can be told."""
    import pandas as pd

    return pd.DataFrame({"group": [], "id": [], "label": []})


def read_summary(folder: Path) -> dict[str, Any]:
    """What `errata find` has said of itself in a folder."""
    path = folder / SUMMARY
    if not path.is_file():
        raise StoreError(f"{folder} has no {SUMMARY}: it is no folder that `errata find` has finished")
    try:
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    return summary


def _portable(table: "pd.DataFrame") -> "pd.DataFrame":
    """The table with labels of a file's types: numbers or text; labels of several types become text."""
    columns = {name: table[name] for name in ("id", "label", "suggested")}
    return table.assign(**{name: column.map(str) for name, column in columns.items() if not _is_plain(column)})


def _is_plain(column: "pd.Series[Any]") -> bool:
    from pandas.api.types import infer_dtype

    kind = infer_dtype(column, skipna=False)
    if kind == "integer":
        return bool(column.between(-(2**63), 2**63 - 1).all())  # what is beyond fits into no file but as text
    return kind in ("string", "floating", "boolean")


def _save_dynamics(dynamics: Dynamics, folder: Path) -> None:
    """Write the dynamics whole or not at all; those that are there already stay."""
    if dynamics.path is not None and dynamics.path.resolve() == folder.resolve():
        return
    part = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(part, ignore_errors=True)
    replace(dynamics, path=None).save(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.replace(folder)
