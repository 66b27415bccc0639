"""The result of `errata.find`, and the folder it is written to."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.core.random_part import design_seed
from errata.core.rates import NoiseRate
from errata.dynamics.files import DYNAMICS, replace_atomically
from errata.dynamics.store import Dynamics
from errata.errors import StoreError
from errata.finding.answer import answer, how_ranked, report_data, samples_described, states_number
from errata.finding.found_files import (
    CONFLICTS,
    CONFUSIONS,
    RANKING,
    SUMMARY,
    read_conflicts,
    read_estimate,
    read_ranking,
    read_summary,
)
from errata.readers import UserData
from errata.report import write_report
from errata.terminal import write_table

if TYPE_CHECKING:
    import pandas as pd

REPORT = "report.html"
SHOWN_ROWS = 10  # when a result is printed
MARK = ".errata-find"  # marks a folder that `errata find` may overwrite


@dataclass(frozen=True, eq=False)
class Found:
    """The samples of a dataset, most suspicious first, and an estimate of how many labels are wrong.

    ranking: one row per sample: id, label, suggested, score, rank, label_probability, suggested_probability, p_wrong
    (the estimated probability that the label is wrong), agree (the share of the compared methods that count the sample
    among the estimated errors) and mean_loss.
    conflicts: group, id, label of samples with the same inputs and different labels.
    summary: the contents of summary.json. data: the samples; None if they are not available.

    >>> import errata
    >>> dynamics = errata.Dynamics.from_arrays([[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]], [0, 1, 1])
    >>> found = errata.find(dynamics)
    >>> found.ranking["id"].tolist()
    [2, 0, 1]
    """

    ranking: "pd.DataFrame"
    dynamics: Dynamics
    estimate: NoiseRate
    conflicts: "pd.DataFrame"
    summary: dict[str, Any]
    data: UserData | None = None

    @property
    def expected(self) -> int:
        """The estimated number of wrong labels.

        >>> import errata
        >>> logits = [[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]]  # the third sample has label 1
        >>> found = errata.find(errata.Dynamics.from_arrays(logits, [0, 1, 1]))
        >>> found.expected
        1
        """
        return round(self.estimate.rate * len(self.ranking))

    @property
    def random_seed(self) -> int:
        """The seed of the random part of a review; folders of earlier versions do not state it.

        >>> import errata
        >>> logits = [[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]]  # the third sample has label 1
        >>> found = errata.find(errata.Dynamics.from_arrays(logits, [0, 1, 1]))
        >>> found.random_seed == found.summary["random_part"]["seed"]
        True
        """
        stated = self.summary.get("random_part")
        return int(stated["seed"]) if stated else design_seed(self.dynamics.labels)

    @property
    def confusions(self) -> "pd.DataFrame":
        """label, suggested and count, most frequent first, among the estimated errors.

        If only a range of these is known, or nothing, among the first 100 samples.

        >>> import errata
        >>> logits = [[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]]  # the third sample has label 1
        >>> found = errata.find(errata.Dynamics.from_arrays(logits, [0, 1, 1]))
        >>> found.confusions.to_dict("records")
        [{'label': 1, 'suggested': 0, 'count': 1}]
        """
        return confused_pairs(self.ranking, samples_described(self))

    @property
    def curve(self) -> "pd.DataFrame":
        """How many errors to expect (expected_errors_found) among the first 0, 1, ... N samples (inspected).

        >>> import errata
        >>> logits = [[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]]  # the third sample has label 1
        >>> found = errata.find(errata.Dynamics.from_arrays(logits, [0, 1, 1]))
        >>> list(found.curve), len(found.curve)
        (['inspected', 'expected_errors_found'], 4)
        """
        import pandas as pd

        expected = np.concatenate([[0.0], np.cumsum(self.ranking["p_wrong"].to_numpy())])
        return pd.DataFrame({"inspected": np.arange(len(expected)), "expected_errors_found": expected})

    def __repr__(self) -> str:
        """The answer and the first rows of the ranking."""
        columns = ["rank", "id", "label", "suggested", *(["p_wrong"] if states_number(self) else [])]
        first = self.ranking.head(SHOWN_ROWS)[columns].round({"p_wrong": 3})
        title = f"The first {len(first)} of {len(self.ranking):,} samples in .ranking, most suspicious first:"
        return "\n".join([how_ranked(self), *answer(self), "", title, first.to_string(index=False)])

    def save(self, folder: str | Path, *, excel_safe: bool = False) -> Path:
        """Write everything to a folder, replacing the files of an earlier run.

        excel_safe: text in .csv files that spreadsheets would run as a formula gets an apostrophe in front.

        >>> import errata
        >>> logits = [[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]]  # the third sample has label 1
        >>> found = errata.find(errata.Dynamics.from_arrays(logits, [0, 1, 1]))
        >>> folder = found.save("found-saved")
        >>> (folder / "ranking.csv").exists()
        True
        """
        target = Path(folder)
        claim_folder(target)
        (target / SUMMARY).unlink(missing_ok=True)  # written last: it marks a complete folder
        portable = _portable(self.ranking)
        write_table(portable, target / f"{RANKING}.csv", excel_safe=excel_safe)
        write_table(portable, target / f"{RANKING}.parquet")
        write_table(self.confusions, target / CONFUSIONS, excel_safe=excel_safe)
        (target / CONFLICTS).unlink(missing_ok=True)
        if len(self.conflicts):
            write_table(self.conflicts, target / CONFLICTS, excel_safe=excel_safe)
        _save_dynamics(self.dynamics, target / DYNAMICS)
        self.write_report(target / REPORT)
        text = json.dumps(self.summary, indent=1, ensure_ascii=False) + "\n"
        replace_atomically(target / SUMMARY, lambda file: file.write(text.encode()))
        return target

    def write_report(self, path: str | Path) -> Path:
        """Write the review page alone.

        >>> import errata
        >>> logits = [[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]]  # the third sample has label 1
        >>> found = errata.find(errata.Dynamics.from_arrays(logits, [0, 1, 1]))
        >>> found.write_report("report.html").name
        'report.html'
        """
        return write_report(report_data(self), path)

    @classmethod
    def open(cls, folder: str | Path) -> "Found":
        """Read what `save` wrote. The data themselves are not read; `data` is None.

        >>> import errata
        >>> logits = [[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]]  # the third sample has label 1
        >>> found = errata.find(errata.Dynamics.from_arrays(logits, [0, 1, 1]))
        >>> errata.Found.open(found.save("found-opened")).ranking["id"].tolist()
        [2, 0, 1]
        """
        source = Path(folder)
        summary = read_summary(source)
        dynamics = Dynamics.open(source / DYNAMICS)
        ranking = read_ranking(source, dynamics)
        return cls(
            ranking=ranking,
            dynamics=dynamics,
            estimate=read_estimate(summary),
            conflicts=read_conflicts(source, ranking) if (source / CONFLICTS).exists() else no_conflicts(),
            summary=summary,
        )


def confused_pairs(ranking: "pd.DataFrame", count: int) -> "pd.DataFrame":
    """Pairs of given and suggested label among the first `count` samples, with their counts, most frequent first."""
    first = ranking.head(count)
    differ = first[first["label"] != first["suggested"]]
    pairs = differ.groupby(["label", "suggested"], sort=False).size().reset_index(name="count")
    return pairs.sort_values("count", ascending=False, kind="stable", ignore_index=True)


def no_conflicts() -> "pd.DataFrame":
    """An empty table of conflicts."""
    import pandas as pd

    return pd.DataFrame({"group": [], "id": [], "label": []})


def check_folder(folder: Path) -> None:
    """Refuse a folder with files that `errata find` did not write, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; name a folder for the results")
    if folder.is_dir() and not (folder / MARK).is_file() and any(folder.iterdir()):
        raise StoreError(f"{folder} holds other files; name a new folder, or one that errata find wrote before")


def claim_folder(folder: Path) -> None:
    """Create the folder and mark it as one that `errata find` may overwrite."""
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text("errata find created this folder and may overwrite its own files in it.\n")


def _portable(table: "pd.DataFrame") -> "pd.DataFrame":
    """The table with ids and labels of types that CSV and Parquet can hold; mixed types become text."""
    columns = {name: table[name] for name in ("id", "label", "suggested")}
    return table.assign(**{name: column.map(str) for name, column in columns.items() if not _fits_file(column)})


def _fits_file(column: "pd.Series[Any]") -> bool:
    from pandas.api.types import infer_dtype

    kind = infer_dtype(column, skipna=False)
    if kind == "integer":
        return bool(column.between(-(2**63), 2**63 - 1).all())
    return kind in ("string", "floating", "boolean")


def _save_dynamics(dynamics: Dynamics, folder: Path) -> None:
    """Write the dynamics in one atomic step, unless they are in this folder already."""
    if dynamics.path is not None and dynamics.path.resolve() == folder.resolve():
        return
    part = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(part, ignore_errors=True)
    replace(dynamics, path=None).save(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.replace(folder)
