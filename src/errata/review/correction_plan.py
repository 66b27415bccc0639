"""Which labels the decisions change, and the checks before anything is written."""

import numbers
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
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
ClassesFor = Callable[[str], list[Any]]  # the classes that a text may stand for


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
    samples = writer.samples
    positions = {id_: position for position, id_ in enumerate(samples.ids)}
    classes_for = cache(partial(classes_for_text, classes=samples.classes))
    current = {entry.id: samples.labels[positions[entry.id]] for entry in decisions.entries if entry.id in positions}
    by_status: dict[str, list[Decision]] = defaultdict(list)
    for entry in decisions.entries:
        by_status[_status(entry, current.get(entry.id), classes_for)].append(entry)
    if not skip_stale:
        _refuse_unknown_ids(by_status["unknown id"], decisions.origin, writer.path)
        _refuse_changed_labels(by_status["label changed"], current, decisions.origin)
    edits = LabelEdits(tuple(_edits(by_status["change"], samples, positions, classes_for)), drop)
    writer.check(edits)
    stale = len(by_status["unknown id"]) + len(by_status["label changed"])
    plan = CorrectionPlan(
        writer=writer,
        edits=edits,
        origin=decisions.origin,
        kept=len(by_status["keep"]),
        already_applied=len(by_status["already applied"]),
        skipped=len(by_status["skip"]),
        stale=stale,
        undecided=len(samples.ids) - len(decisions.entries) + stale,
        remarks=(),
    )
    renumbered = drop and id is None and not isinstance(writer, ImageFolder)
    return replace(plan, remarks=(*_class_remarks(plan), *([ROWS_RENUMBERED] if renumbered else [])))


def _status(decision: Decision, label: Any, classes_for: ClassesFor) -> str:
    """What the decision does to its sample, which has this label now (None if there is no such sample)."""
    if label is None:
        return "unknown id"
    if decision.changes_label and _contains(classes_for(decision.new_label), label):
        return "already applied"
    if not _contains(classes_for(decision.label), label):
        return "label changed"
    return "change" if decision.changes_label else decision.decision


def classes_for_text(text: str, classes: Sequence[Any]) -> list[Any]:
    """The classes that a text in decisions.csv may stand for. Spreadsheets turn 1 into 1.0 and True into TRUE."""
    return [value for value in classes if str(value) == text] or [value for value in classes if _equals(text, value)]


def new_class(text: str, classes: Sequence[Any]) -> Any:
    """A class that does not exist yet: a number if all classes are numbers and the text is one, else the text."""
    number = _number(text)
    if number is None or not all(map(_is_number, classes)):
        return text
    if all(isinstance(value, numbers.Integral) for value in classes):
        return int(number) if number == int(number) else text
    return number


def _equals(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text.strip().casefold() == str(value).casefold()
    return _is_number(value) and _number(text) == value


def _contains(classes: Sequence[Any], label: Any) -> bool:
    """Whether the label is among the classes. True, 1 and 1.0 are different classes."""
    return any(type(value) is type(label) and value == label for value in classes)


def _type_name(value: Any) -> str:
    return "number" if _is_number(value) else type(value).__name__


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _number(text: str) -> float | None:
    """The finite number that the text is, if any."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def _edits(
    decisions: Sequence[Decision], samples: LabelledSamples, positions: Mapping[str, int], classes_for: ClassesFor
) -> Iterator[LabelEdit]:
    examples: dict[Any, int] = {}
    for label, row in zip(samples.labels, samples.rows, strict=True):
        examples.setdefault(label, row)
    for decision in decisions:
        candidates = classes_for(decision.new_label)
        if len(candidates) > 1:
            raise InputError(
                f"the new label {decision.new_label!r} of id {decision.id!r} matches several classes of the data: "
                f"{listed(candidates)}. Merge these classes first."
            )
        after = candidates[0] if candidates else new_class(decision.new_label, samples.classes)
        position = positions[decision.id]
        yield LabelEdit(samples.rows[position], samples.labels[position], after, examples.get(after), decision)


def _refuse_unknown_ids(decisions: Sequence[Decision], origin: str, path: Path) -> None:
    if decisions:
        raise InputError(
            f"no labelled sample of {path} has the {'id' if len(decisions) == 1 else 'ids'} "
            f"{listed(decision.id for decision in decisions)} from {origin}. Check that {origin} belongs to this data "
            "and that --id is the same as for find. --skip-stale ignores such decisions."
        )


def _refuse_changed_labels(decisions: Sequence[Decision], current: Mapping[str, Any], origin: str) -> None:
    if decisions:
        first = decisions[0]
        raise InputError(
            f"id {first.id!r} has the label {current[first.id]!r}, but had {first.label!r} when {origin} was made "
            f"({counted(len(decisions), 'such sample')}). Review again, or ignore such decisions with --skip-stale."
        )


def _class_remarks(plan: CorrectionPlan) -> Iterator[str]:
    """Changes of the classes that the user may not expect."""
    types = {_type_name(value) for value in plan.writer.samples.classes}
    for label in plan.edits.new_classes:
        yield f"class {label!r} is new: no sample had it before"
        if _type_name(label) not in types:
            yield f"the label {label!r} has another type than all other labels: software that reads them may fail"
    counts = plan.class_counts()
    emptied = counts[(counts["after"] == 0) & (counts["before"] > 0)]["label"].tolist()
    if emptied:
        yield f"no sample is left in {'class' if len(emptied) == 1 else 'classes'} {listed(emptied)}"
    if (counts["after"] > 0).sum() < 2:
        yield "only one class is left; finding label errors needs at least two"
