"""The decisions of a review: read from decisions.csv or a data frame, or the first suggestions of a ranking."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import InputError, MissingDataError
from errata.readers.formats.csv_files import csv_dialect, text_rows
from errata.wording import listed

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("id", "label", "decision", "new_label")
CHANGING, UNCHANGING = ("accept", "relabel"), ("keep", "skip")


@dataclass(frozen=True)
class Decision:
    """The decision about one sample. Ids and labels are text, as in the file.

    label: the label at the time of the decision. decision: keep, accept, relabel or skip. new_label: empty unless the
    decision is accept or relabel.
    """

    id: str
    label: str
    decision: str
    new_label: str = ""

    @property
    def changes_label(self) -> bool:
        """Whether the sample gets a new label."""
        return self.decision in CHANGING

    def __str__(self) -> str:
        return f"{self.decision} {self.new_label!r}" if self.changes_label else self.decision


@dataclass(frozen=True)
class Decisions:
    """At most one decision per sample.

    origin: the file they come from, or a description of it. ranks: the rank and the score of samples, by id.
    """

    entries: tuple[Decision, ...]
    origin: str
    ranks: Mapping[str, tuple[int, float]] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: str | Path) -> "Decisions":
        """Read a CSV file written by the report, or saved again by a spreadsheet."""
        import pandas as pd

        file = Path(path).expanduser()
        if not file.is_file():
            raise MissingDataError(f"{file} does not exist. Download decisions.csv with the button in report.html.")
        with closing(text_rows(file, csv_dialect(file))) as rows:
            lines = {number: cells for number, (_, cells) in enumerate(rows, 1) if any(map(str.strip, cells))}
        if not lines:
            raise InputError(f"{file} is empty")
        header = [name.strip() for name in lines.pop(min(lines))]
        _check_columns(header, str(file))
        records = [dict(zip(header, cells, strict=False)) for cells in lines.values()]
        return cls.from_table(pd.DataFrame(records, list(lines), list(dict.fromkeys(header))), str(file))

    @classmethod
    def from_table(cls, table: "pd.DataFrame", origin: str = "a table") -> "Decisions":
        """Take the decisions from a data frame with the columns id, label, decision and new_label."""
        _check_columns(table.columns, origin)
        entries: dict[str, Decision] = {}
        columns = (table[name].astype(object).map(str, na_action="ignore").fillna("") for name in COLUMNS)
        for row, id_, label, word, new_label in zip(table.index, *columns, strict=True):
            decision = _checked(Decision(id_, label, word.strip().casefold(), new_label), f"{origin}: row {row}")
            earlier = entries.setdefault(decision.id, decision)
            if earlier != decision:
                raise InputError(
                    f"{origin}: row {row}: id {decision.id!r} has two decisions, {earlier} and {decision}. "
                    "Delete one of them."
                )
        if not entries:
            raise InputError(f"{origin} contains no decisions")
        return cls(tuple(entries.values()), origin)

    @classmethod
    def accept_top(cls, ranking: "pd.DataFrame", top: int, origin: str = "the ranking") -> "Decisions":
        """Accept the suggested labels of the `top` most suspicious samples. Where label and suggestion agree, keep."""
        if top < 1:
            raise InputError(f"top must be at least 1, not {top}")
        first = ranking.sort_values("rank", kind="stable").head(top)
        columns = (map(str, first[name].tolist()) for name in ("id", "label", "suggested"))
        entries = tuple(
            Decision(id_, label, "keep") if label == suggested else Decision(id_, label, "accept", suggested)
            for id_, label, suggested in zip(*columns, strict=True)
        )
        return cls(entries, f"{origin}, the first {len(entries):,}").with_ranks(first)

    def with_ranks(self, ranking: "pd.DataFrame") -> "Decisions":
        """Add the rank and the score of every sample in the ranking."""
        columns = (ranking[name].tolist() for name in ("id", "rank", "score"))
        return replace(self, ranks={str(id_): (rank, score) for id_, rank, score in zip(*columns, strict=True)})


def _check_columns(names: Iterable[Any], origin: str) -> None:
    counts = Counter(map(str, names))
    wrong = [name for name in COLUMNS if counts[name] != 1]
    if wrong:
        raise InputError(
            f"{origin} must have the columns id, label, decision and new_label; missing or repeated: {listed(wrong)}"
        )


def _checked(decision: Decision, place: str) -> Decision:
    if decision.decision not in (*CHANGING, *UNCHANGING):
        raise InputError(f"{place}: the decision must be keep, accept, relabel or skip, not {decision.decision!r}")
    if decision.changes_label and not decision.new_label.strip():
        raise InputError(f"{place}: the decision is {decision.decision}, but new_label is empty")
    return decision if decision.changes_label else replace(decision, new_label="")
