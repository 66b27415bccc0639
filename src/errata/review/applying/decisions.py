"""What was decided about samples: by a person in the report, or by taking the first suggestions of a ranking."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import InputError, MissingDataError
from errata.readers.csv_files import csv_layout, text_rows
from errata.wording import listed

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("id", "label", "decision", "new_label")
CHANGING, STAYING = ("accept", "relabel"), ("keep", "skip")


@dataclass(frozen=True)
class Decision:
    """What is to become of a sample: ids and labels as text, the way they are written to files.

    label: the one it had when that was decided. decision: keep, accept, relabel or skip. new_label: for accept and
    relabel. rank and score: its place in the ranking that it was chosen from, where that is known.
    """

    id: str
    label: str
    decision: str
    new_label: str = ""
    rank: int | None = None
    score: float | None = None

    @property
    def changes(self) -> bool:
        """Whether the sample is to have another label."""
        return self.decision in CHANGING

    def __str__(self) -> str:
        return f"{self.decision} {self.new_label!r}" if self.changes else self.decision


@dataclass(frozen=True)
class Decisions:
    """At most one decision a sample, and where they come from, in words or as a path."""

    made: tuple[Decision, ...]
    origin: str

    @classmethod
    def read(cls, path: str | Path) -> "Decisions":
        """The decisions in a file as the report writes it, or as a spreadsheet saves that again."""
        file = Path(path).expanduser()
        if not file.is_file():
            raise MissingDataError(f"{file} is not there; the report has a button that downloads it")
        with closing(text_rows(file, csv_layout(file))) as rows:
            lines = [(number, cells) for number, (_, cells) in enumerate(rows, 1) if any(map(str.strip, cells))]
        if not lines:
            raise InputError(f"{file} is empty")
        header = [name.strip() for name in lines[0][1]]
        _check_columns(header, str(file))
        records = [dict(zip(header, cells, strict=False)) for _, cells in lines[1:]]
        return cls._of(records, [f"{file}: row {number}" for number, _ in lines[1:]], str(file))

    @classmethod
    def of(cls, table: "pd.DataFrame", origin: str = "a table") -> "Decisions":
        """The decisions in a data frame with the columns id, label, decision and new_label."""
        _check_columns(table.columns, origin)
        known = [name for name in (*COLUMNS, "rank", "score") if name in table.columns]
        records = [dict(zip(known, row, strict=True)) for row in table[known].itertuples(index=False, name=None)]
        return cls._of(records, [f"{origin}: row {row}" for row in range(len(records))], origin)

    @classmethod
    def accepting(cls, ranking: "pd.DataFrame", top: int, origin: str = "the ranking") -> "Decisions":
        """The suggested labels of the `top` most suspicious samples; who has the suggested label already keeps it."""
        if top < 1:
            raise InputError(f"top must be at least 1, not {top}")
        first = ranking.sort_values("rank", kind="stable").head(top)
        columns = (first[name].tolist() for name in ("id", "label", "suggested", "rank", "score"))
        made = tuple(
            Decision(str(id_), str(label), "keep", "", int(rank), float(score))
            if str(label) == str(suggested)
            else Decision(str(id_), str(label), "accept", str(suggested), int(rank), float(score))
            for id_, label, suggested, rank, score in zip(*columns, strict=True)
        )
        return cls(made, f"{origin}, the first {len(made):,}")

    def ranked(self, ranking: "pd.DataFrame") -> "Decisions":
        """The same decisions with the rank and the score of each sample that the ranking has."""
        columns = (ranking[name].tolist() for name in ("id", "rank", "score"))
        places = {str(id_): (int(rank), float(score)) for id_, rank, score in zip(*columns, strict=True)}
        made = (
            replace(one, rank=places[one.id][0], score=places[one.id][1]) if one.id in places else one
            for one in self.made
        )
        return replace(self, made=tuple(made))

    @classmethod
    def _of(cls, records: Sequence[Mapping[str, Any]], places: Sequence[str], origin: str) -> "Decisions":
        made: dict[str, Decision] = {}
        for record, place in zip(records, places, strict=True):
            decision = _decision(record, place)
            before = made.setdefault(decision.id, decision)
            if before != decision:
                raise InputError(
                    f"{place}: id {decision.id!r} is decided twice, as {before} and as {decision}; leave one of them"
                )
        if not made:
            raise InputError(f"{origin} holds no decisions")
        return cls(tuple(made.values()), origin)


def _check_columns(names: Iterable[Any], origin: str) -> None:
    there = list(map(str, names))
    missing = [name for name in COLUMNS if name not in there]
    if missing:
        raise InputError(
            f"{origin} has no column {listed(missing)}: decisions have the columns id, label, decision and new_label"
        )
    twice = [name for name in COLUMNS if there.count(name) > 1]
    if twice:
        raise InputError(f"{origin} has the column {listed(twice)} twice")


def _decision(record: Mapping[str, Any], place: str) -> Decision:
    id_, label, word, new_label = (_text(record.get(name)) for name in COLUMNS)
    word = word.strip().casefold()
    if word not in (*CHANGING, *STAYING):
        raise InputError(f"{place}: the decision must be keep, accept, relabel or skip, not {word!r}")
    if word in CHANGING and not new_label.strip():
        raise InputError(f"{place}: the decision is {word}, but new_label is blank")
    rank, score = (_text(record.get(name)) for name in ("rank", "score"))
    try:
        known = (int(float(rank)) if rank else None, float(score) if score else None)
    except ValueError:
        raise InputError(f"{place}: rank and score must be numbers, not {rank!r} and {score!r}") from None
    return Decision(id_, label, word, new_label if word in CHANGING else "", *known)


def _text(value: Any) -> str:
    """A value as it is written to a file; nothing for a gap."""
    import pandas as pd

    if isinstance(value, str):
        return value
    return "" if value is None or pd.isna(value) else str(value)
