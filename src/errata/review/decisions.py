"""The decisions of a review: read from decisions.csv or a data frame, or the first suggestions of a ranking."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.dynamics.files import check_path
from errata.errors import InputError, MissingDataError
from errata.readers.number_columns import MAX_EXACT_FLOAT
from errata.readers.whole_rows import rows_by_line
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("id", "label", "decision", "new_label")
OPTIONAL_COLUMNS = ("reviewer", "time", "random")  # the first two are written by `errata review`
MOST_LISTED = 100  # samples with two decisions in a message
CHANGING, UNCHANGING = ("accept", "relabel"), ("keep", "skip")


@dataclass(frozen=True)
class Decision:
    """The decision about one sample. Ids and labels are text, as in the file.

    label: the label at the time of the decision. decision: keep, accept, relabel or skip. new_label: empty unless the
    decision is accept or relabel. origin, row: the file, and the line or the row of a table. reviewer, time: who
    decided and when, if the file says so. random: `yes` if the sample was drawn at random.
    """

    id: str
    label: str
    decision: str
    new_label: str = ""
    origin: str = field(default="", compare=False)
    row: str = field(default="", compare=False)
    reviewer: str = field(default="", compare=False)
    time: str = field(default="", compare=False)
    random: str = field(default="", compare=False)

    @property
    def place(self) -> str:
        """Where the decision was read: `decisions.csv: line 4`."""
        return f"{self.origin}: {self.row}"

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
    def of(cls, decisions: "Decisions | pd.DataFrame | str | Path | Sequence[str | Path]") -> "Decisions":
        """Decisions as they are, of one file or of several, or of a data frame."""
        if isinstance(decisions, str | Path):
            return cls.read(decisions)
        if isinstance(decisions, Sequence):
            return cls.read(*decisions)
        return decisions if isinstance(decisions, Decisions) else cls.from_table(decisions)

    @classmethod
    def read(cls, *paths: str | Path) -> "Decisions":
        """Read CSV files written by the report, or saved again by a spreadsheet. Several reviewers are combined."""
        entries = [decision for path in paths for decision in read_rows(path)]
        return cls._joined(entries, " and ".join(map(str, paths)))

    @classmethod
    def from_table(cls, table: "pd.DataFrame", origin: str = "a table") -> "Decisions":
        """Take the decisions from a data frame with the columns id, label, decision and new_label."""
        _check_columns(table.columns, origin)
        return cls._joined(_entries(table.set_axis([f"row {row}" for row in table.index]), origin), origin)

    @classmethod
    def _joined(cls, entries: "Sequence[Decision]", origin: str) -> "Decisions":
        """One decision per sample. A sample that one reviewer skipped gets the decision of another."""
        by_id: dict[str, dict[Decision, Decision]] = {}
        for decision in entries:
            by_id.setdefault(decision.id, {}).setdefault(decision, decision)
        for decided in by_id.values():
            for decision in [one for one in decided if one.decision == "skip"]:
                if len(decided) > 1:
                    del decided[decision]
        conflicts = [_conflict(list(decided)) for decided in by_id.values() if len(decided) > 1]
        if conflicts:
            more = [f"and {len(conflicts) - MOST_LISTED:,} more"] if len(conflicts) > MOST_LISTED else []
            raise InputError(
                f"{counted(len(conflicts), 'sample has', 'samples have')} two different decisions in {origin}. "
                "Delete one of each:\n  " + "\n  ".join(conflicts[:MOST_LISTED] + more)
            )
        if not by_id:
            raise InputError(f"{origin} contains no decisions")
        return cls(tuple(decision for decided in by_id.values() for decision in decided), origin)

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


def read_rows(path: str | Path) -> list[Decision]:
    """The decision in each row of a CSV file; a sample may have several."""
    import pandas as pd

    file = check_path(path).expanduser()
    if not file.exists():
        raise MissingDataError(f"{file} does not exist. Download decisions.csv with the button in report.html.")
    header, lines = rows_by_line(file)
    if not header:
        raise InputError(f"{file} is empty")
    _check_columns(header, str(file))
    return _entries(pd.DataFrame(list(lines.values()), [f"line {line}" for line in lines], header), str(file))


def _check_columns(names: Iterable[Any], origin: str) -> None:
    counts = Counter(map(str, names))
    wrong = [name for name in COLUMNS if counts[name] != 1]
    wrong += [name for name in OPTIONAL_COLUMNS if counts[name] > 1]
    if wrong:
        raise InputError(
            f"{origin} must have the columns id, label, decision and new_label; missing or repeated: {listed(wrong)}"
        )


def _entries(table: "pd.DataFrame", origin: str) -> "list[Decision]":
    """The checked decisions of a table whose index says where each row is."""
    names = [*COLUMNS, *(name for name in OPTIONAL_COLUMNS if name in table.columns)]
    columns = (table[name].astype(object) for name in names)
    entries = []
    for row, *values in zip(table.index, *columns, strict=True):
        texts = {name: _as_text(value, f"{origin}: {row}") for name, value in zip(names, values, strict=True)}
        entries.append(_checked(Decision(**texts, origin=origin, row=row)))
    return entries


def _as_text(value: Any, place: str) -> str:
    """A value of a table as text. Floats that may stand for another whole number are refused."""
    import pandas as pd

    if isinstance(value, float) and abs(value) >= MAX_EXACT_FLOAT:
        raise InputError(f"{place} has the float {value!r}, which may have lost digits. Read the file with dtype=str.")
    return "" if pd.isna(value) else str(value)


def _checked(decision: Decision) -> Decision:
    word = decision.decision.strip().casefold()
    if word not in (*CHANGING, *UNCHANGING):
        raise InputError(f"{decision.place}: the decision must be keep, accept, relabel or skip, not {word!r}")
    if word in CHANGING and not decision.new_label.strip():
        raise InputError(f"{decision.place}: the decision is {word}, but new_label is empty")
    return replace(decision, decision=word, new_label=decision.new_label if word in CHANGING else "")


def _conflict(decisions: "Sequence[Decision]") -> str:
    """`id '4': accept 'bee' (ann.csv: line 3), keep (bob.csv: line 5)`."""
    same_label = len({decision.label for decision in decisions}) == 1
    labels = ["" if same_label else f" for label {decision.label!r}" for decision in decisions]
    parts = [f"{decision}{label} ({decision.place})" for decision, label in zip(decisions, labels, strict=True)]
    return f"id {decisions[0].id!r}: {', '.join(parts)}"
