"""What decisions mean for a source: which rows change, and what was left as it is."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import InputError
from errata.review.applying.classes import ClassNames
from errata.review.applying.decisions import Decision, Decisions
from errata.review.applying.edits import Change, Edits, Original, Samples
from errata.review.applying.image_folders import ImageFolder
from errata.review.applying.originals import open_original
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd

RENUMBERED = "rows are numbered anew in the copy, so decisions about the original do not fit it"


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be done, before anything is.

    kept: samples decided to be right. already: those that have their new label by now. skipped: those of which nobody
    could tell. stale: decisions about samples that are gone or have another label. undecided: all other samples.
    """

    original: Original
    edits: Edits
    origin: str
    kept: int
    already: int
    skipped: int
    stale: int
    undecided: int
    remarks: tuple[str, ...]

    @property
    def changed(self) -> int:
        """How many samples get another label, or are left out."""
        return len(self.edits.changes)

    def class_counts(self) -> "pd.DataFrame":
        """How many samples each class has: label, before, after."""
        import pandas as pd

        before = _counts(self.original.samples)
        after = before.copy()
        for change in self.edits.changes:
            after[change.before] -= 1
            if not self.edits.drop:
                after[change.after] += 1
        rows = [(name, before[name], after[name]) for name in after]
        return pd.DataFrame(rows, columns=["label", "before", "after"])


def plan(
    source: str | Path,
    decisions: "Decisions | pd.DataFrame | str | Path",
    *,
    label: Any = None,
    id: Any = None,  # noqa: A002
    drop: bool = False,
    link: bool = False,
    skip_stale: bool = False,
) -> Plan:
    """Read the data and the decisions, and refuse what does not fit together; nothing is written.

    For what each argument means see `apply`.
    """
    made = as_decisions(decisions)
    original = open_original(source, label, id, link)
    samples, names = original.samples, ClassNames(original.samples.classes)
    place = {id_: number for number, id_ in enumerate(samples.ids)}
    known = [one for one in made.made if one.id in place]
    already = {one.id for one in known if one.changes and names.is_one(one.new_label, samples.labels[place[one.id]])}
    fitting = [one for one in known if one.id in already or names.is_one(one.label, samples.labels[place[one.id]])]
    if not skip_stale:
        _refuse_strangers([one.id for one in made.made if one.id not in place], made.origin, original)
        fit = {one.id for one in fitting}
        _refuse_outdated([(one, samples.labels[place[one.id]]) for one in known if one.id not in fit], made.origin)
    changing = [(one, place[one.id]) for one in fitting if one.changes and one.id not in already]
    edits = Edits(tuple(_changes(changing, samples, names)), drop)
    original.check(edits)
    planned = Plan(
        original=original,
        edits=edits,
        origin=made.origin,
        kept=sum(one.decision == "keep" for one in fitting),
        already=len(already),
        skipped=sum(one.decision == "skip" for one in fitting),
        stale=len(made.made) - len(fitting),
        undecided=len(samples.ids) - len(fitting),
        remarks=(),
    )
    by_row = id is None and not isinstance(original, ImageFolder)
    return replace(planned, remarks=(*_class_remarks(planned, names), *([RENUMBERED] if drop and by_row else [])))


def as_decisions(given: "Decisions | pd.DataFrame | str | Path") -> Decisions:
    """Decisions from a file or a data frame."""
    if isinstance(given, Decisions):
        return given
    return Decisions.read(given) if isinstance(given, str | Path) else Decisions.of(given)


def _changes(changing: Sequence[tuple[Decision, int]], samples: Samples, names: ClassNames) -> Iterator[Change]:
    """The change that each decision about a sample, given by its number, makes."""
    donors: dict[Any, int] = {}
    for label, row in zip(samples.labels, samples.rows, strict=True):
        donors.setdefault(label, row)
    for decision, number in changing:
        meant = names.named(decision.new_label)
        if len(meant) > 1:
            raise InputError(
                f"the new label {decision.new_label!r} of id {decision.id!r} may be {' or '.join(map(repr, meant))}, "
                "which are different classes of the data: make them one first"
            )
        after = meant[0] if meant else names.fresh(decision.new_label)
        yield Change(samples.rows[number], samples.labels[number], after, donors.get(after), decision)


def _refuse_strangers(ids: Sequence[str], origin: str, original: Original) -> None:
    if ids:
        are = "decision is" if len(ids) == 1 else "decisions are"
        raise InputError(
            f"{len(ids):,} {are} about ids that no labelled sample of {original.path} has ({listed(ids)}): "
            f"are those in {origin} about other data, or was --id given to find? --skip-stale leaves them out"
        )


def _refuse_outdated(outdated: Sequence[tuple[Decision, Any]], origin: str) -> None:
    if outdated:
        decision, label = outdated[0]
        raise InputError(
            f"id {decision.id!r} had the label {decision.label!r} when {origin} was made, and has {label!r} now "
            f"({counted(len(outdated), 'such sample')}): decide anew, or leave such decisions out by --skip-stale"
        )


def _counts(samples: Samples) -> "Counter[Any]":
    counts: Counter[Any] = Counter(dict.fromkeys(samples.classes, 0))
    counts.update(samples.labels)
    return counts


def _class_remarks(planned: Plan, names: ClassNames) -> Iterator[str]:
    """What happens to the classes that a user may not expect."""
    for value in planned.edits.fresh:
        yield f"class {value!r} is new: no sample had it before"
        if not names.fits(value):
            yield f"the label {value!r} is not of the type of the others: software that expects that may stumble"
    counts = planned.class_counts()
    emptied = counts[(counts["after"] == 0) & (counts["before"] > 0)]["label"].tolist()
    if emptied:
        yield f"no sample is left in {'class' if len(emptied) == 1 else 'classes'} {listed(emptied)}"
    if (counts["after"] > 0).sum() < 2:
        yield "a single class is left, and label errors need at least two to be found"
