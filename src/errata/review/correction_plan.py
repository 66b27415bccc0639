"""Which labels the decisions change, and the checks before anything is written."""

import numbers
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import InputError
from errata.review.decisions import Decision, Decisions, as_decisions
from errata.review.writers import open_writer
from errata.review.writers.image_folders import ImageFolder
from errata.review.writers.label_writer import LabelEdit, LabelEdits, LabelledSamples, LabelWriter
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd

ROWS_RENUMBERED = "the rows of the copy have new numbers, so decisions about the original do not apply to the copy"


@dataclass(frozen=True, eq=False)
class CorrectionPlan:
    """What `apply` will write.

    Numbers of samples: kept (decision keep), skipped (decision skip), already_applied (the sample already has the new
    label), undecided (no decision). stale: decisions about samples that are gone or whose label has changed since.
    """

    writer: LabelWriter
    edits: LabelEdits
    origin: str
    kept: int
    already_applied: int
    skipped: int
    stale: int
    undecided: int
    remarks: tuple[str, ...]

    @property
    def changed(self) -> int:
        """How many samples are relabelled or removed."""
        return len(self.edits.entries)

    def class_counts(self) -> "pd.DataFrame":
        """The number of samples per class: label, before, after."""
        import pandas as pd

        before: Counter[Any] = Counter(dict.fromkeys(self.writer.samples.classes, 0))
        before.update(self.writer.samples.labels)
        after = before.copy()
        for edit in self.edits.entries:
            after[edit.before] -= 1
            if not self.edits.drop:
                after[edit.after] += 1
        rows = [(label, before[label], after[label]) for label in after]
        return pd.DataFrame(rows, columns=["label", "before", "after"])


def plan_corrections(
    source: str | Path,
    decisions: "Decisions | pd.DataFrame | str | Path",
    *,
    label: Any = None,
    id: Any = None,  # noqa: A002
    drop: bool = False,
    link: bool = False,
    skip_stale: bool = False,
) -> CorrectionPlan:
    """Read the data and the decisions, and check that they belong together. Writes nothing.

    The arguments are those of `apply`.
    """
    decisions = as_decisions(decisions)
    writer = open_writer(source, label, id, link)
    samples, classes = writer.samples, ClassLookup(writer.samples.classes)
    positions = {id_: position for position, id_ in enumerate(samples.ids)}
    known = [entry for entry in decisions.entries if entry.id in positions]
    labels = {entry.id: samples.labels[positions[entry.id]] for entry in known}
    applied = {e.id for e in known if e.changes_label and classes.is_class(e.new_label, labels[e.id])}
    valid = {e.id: e for e in known if e.id in applied or classes.is_class(e.label, labels[e.id])}
    if not skip_stale:
        _refuse_unknown_ids([entry.id for entry in decisions.entries if entry.id not in positions], decisions, writer)
        _refuse_changed_labels([entry for entry in known if entry.id not in valid], labels, decisions)
    changing = [(e, positions[e.id]) for e in valid.values() if e.changes_label and e.id not in applied]
    edits = LabelEdits(tuple(_edits(changing, samples, classes)), drop)
    writer.check(edits)
    plan = CorrectionPlan(
        writer=writer,
        edits=edits,
        origin=decisions.origin,
        kept=sum(entry.decision == "keep" for entry in valid.values()),
        already_applied=len(applied),
        skipped=sum(entry.decision == "skip" for entry in valid.values()),
        stale=len(decisions.entries) - len(valid),
        undecided=len(samples.ids) - len(valid),
        remarks=(),
    )
    renumbered = drop and id is None and not isinstance(writer, ImageFolder)
    return replace(plan, remarks=(*_class_remarks(plan, classes), *([ROWS_RENUMBERED] if renumbered else [])))


class ClassLookup:
    """Finds the class that a text stands for. Decisions hold text, whatever type the labels have."""

    def __init__(self, classes: Iterable[Any]) -> None:
        self._classes = tuple(classes)
        self._by_text: dict[str, list[Any]] = defaultdict(list)
        for value in self._classes:
            self._by_text[str(value)].append(value)

    def classes_for(self, text: str) -> list[Any]:
        """All classes that the text may stand for. Spreadsheets turn 1 into 1.0 and True into TRUE."""
        if text not in self._by_text:
            self._by_text[text] = [value for value in self._classes if _equals(text, value)]
        return self._by_text[text]

    def is_class(self, text: str, label: Any) -> bool:
        """Whether the text may stand for this class."""
        return any(type(value) is type(label) and value == label for value in self.classes_for(text))

    def new_class(self, text: str) -> Any:
        """A class that does not exist yet: a number if all classes are numbers and the text is one, else the text."""
        number = _number(text)
        if number is None or not all(map(_is_number, self._classes)):
            return text
        if all(isinstance(value, numbers.Integral) for value in self._classes):
            return int(number) if number == int(number) else text
        return number

    def has_type_of(self, label: Any) -> bool:
        """Whether any class has the type of this label."""
        return _type_name(label) in map(_type_name, self._classes)


def _equals(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text.strip().casefold() == str(value).casefold()
    return _is_number(value) and _number(text) == value


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _type_name(value: Any) -> str:
    return "number" if _is_number(value) else type(value).__name__


def _number(text: str) -> float | None:
    """The finite number that the text is, if any."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def _edits(
    changing: Sequence[tuple[Decision, int]], samples: LabelledSamples, classes: ClassLookup
) -> Iterator[LabelEdit]:
    """One edit per pair of a decision and the position of its sample."""
    examples: dict[Any, int] = {}
    for label, row in zip(samples.labels, samples.rows, strict=True):
        examples.setdefault(label, row)
    for decision, position in changing:
        candidates = classes.classes_for(decision.new_label)
        if len(candidates) > 1:
            raise InputError(
                f"the new label {decision.new_label!r} of id {decision.id!r} matches several classes of the data: "
                f"{' and '.join(map(repr, candidates))}. Merge these classes first."
            )
        after = candidates[0] if candidates else classes.new_class(decision.new_label)
        yield LabelEdit(samples.rows[position], samples.labels[position], after, examples.get(after), decision)


def _refuse_unknown_ids(ids: Sequence[str], decisions: Decisions, writer: LabelWriter) -> None:
    if ids:
        raise InputError(
            f"no labelled sample of {writer.path} has the {'id' if len(ids) == 1 else 'ids'} {listed(ids)} "
            f"from {decisions.origin}. Check that it belongs to this data and that --id is the same as for find; "
            "--skip-stale ignores these decisions."
        )


def _refuse_changed_labels(entries: Sequence[Decision], labels: Mapping[str, Any], decisions: Decisions) -> None:
    if entries:
        first = entries[0]
        raise InputError(
            f"id {first.id!r} has the label {labels[first.id]!r}, but had {first.label!r} when {decisions.origin} was "
            f"made ({counted(len(entries), 'such sample')}). Review again, or ignore these decisions with --skip-stale."
        )


def _class_remarks(plan: CorrectionPlan, classes: ClassLookup) -> Iterator[str]:
    """Changes of the classes that the user may not expect."""
    for label in plan.edits.new_classes:
        yield f"class {label!r} is new: no sample had it before"
        if not classes.has_type_of(label):
            yield f"the label {label!r} has another type than all other labels: software that reads them may fail"
    counts = plan.class_counts()
    emptied = counts[(counts["after"] == 0) & (counts["before"] > 0)]["label"].tolist()
    if emptied:
        yield f"no sample is left in {'class' if len(emptied) == 1 else 'classes'} {listed(emptied)}"
    if (counts["after"] > 0).sum() < 2:
        yield "only one class is left; finding label errors needs at least two"
