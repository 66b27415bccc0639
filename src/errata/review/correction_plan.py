"""Which labels the decisions change, and the checks before anything is written."""

import numbers
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import InputError
from errata.readers.label_encoding import spelling
from errata.review.decisions import Decision, Decisions
from errata.review.writers import open_writer
from errata.review.writers.image_folders import ImageFolder
from errata.review.writers.label_writer import LabelEdit, LabelEdits, LabelledSamples, LabelWriter, label_key
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd

ClassesFor = Callable[[str], list[Any]]  # the classes that a text may stand for


@dataclass(frozen=True, eq=False)
class CorrectionPlan:
    """What `apply` will write.

    counts: the number of samples by status: changed, kept, skipped, changed before (the sample already has the new
    label), outdated (it has another label than when it was reviewed), unknown id, and undecided.
    class_counts: the number of samples per class: label, before, after.
    """

    writer: LabelWriter
    edits: LabelEdits
    decisions: Decisions
    counts: "Counter[str]"
    class_counts: "pd.DataFrame"
    remarks: tuple[str, ...]


def plan_corrections(
    source: str | Path,
    decisions: "Decisions | pd.DataFrame | str | Path | Sequence[str | Path]",
    *,
    label: Any = None,
    id: Any = None,  # noqa: A002
    drop: bool = False,
    link: bool = False,
    skip_stale: bool = False,
    merge_labels: bool = False,
) -> CorrectionPlan:
    """Read the data and the decisions, and check that they belong together. Writes nothing.

    The arguments are those of `apply`.
    """
    decisions = Decisions.of(decisions)
    writer = open_writer(source, label, id, link)
    samples = writer.samples
    labels = dict(zip(samples.ids, samples.labels, strict=True))
    classes_for = cache(partial(classes_for_text, classes=samples.classes, read_label=writer.read_label))
    spelled = cache(partial(classes_of_spelling, classes=samples.classes))
    by_status: dict[str, list[Decision]] = defaultdict(list)
    for decision in decisions.entries:
        by_status[_status(decision, labels.get(decision.id), spelled if merge_labels else classes_for)].append(decision)
    if not skip_stale:
        _refuse_stale(by_status["unknown id"], by_status["outdated"], labels, decisions.origin, writer.path)
    edits = LabelEdits(tuple(_edits(by_status["changed"], writer, labels, classes_for)), drop)
    writer.check(edits)
    counts = Counter({status: len(entries) for status, entries in by_status.items()})
    counts["undecided"] = len(samples.ids) - len(decisions.entries) + counts["unknown id"] + counts["outdated"]
    class_counts = _class_counts(samples, edits)
    remarks = list(_class_remarks(samples.classes, edits.new_classes, class_counts))
    if drop and id is None and not isinstance(writer, ImageFolder):
        remarks.append("the rows of the copy have new numbers, so decisions about the original do not apply to it")
    return CorrectionPlan(writer, edits, decisions, counts, class_counts, tuple(remarks))


def _class_counts(samples: LabelledSamples, edits: LabelEdits) -> "pd.DataFrame":
    import pandas as pd

    before = Counter(dict.fromkeys(samples.classes, 0))
    before.update(samples.labels)
    after = before.copy()
    after.subtract(edit.before for edit in edits.entries)
    after.update(edit.after for edit in edits.relabelled)
    counts = {"before": [before[label] for label in after], "after": list(after.values())}
    # As objects: pandas 2 cannot infer a type for whole numbers that no float holds.
    return pd.DataFrame({"label": pd.Series(list(after), dtype=object), **counts})


def _status(decision: Decision, label: Any, classes_for: ClassesFor) -> str:
    """The status of a decision about a sample that now has this label (None if there is no such sample)."""
    if label is None:
        return "unknown id"
    if decision.changes_label and label_key(label) in map(label_key, classes_for(decision.new_label)):
        return "changed before"
    if label not in classes_for(decision.label):
        return "outdated"
    return {"keep": "kept", "skip": "skipped"}.get(decision.decision, "changed")


def classes_for_text(text: str, classes: Sequence[Any], read_label: Callable[[str], Any]) -> list[Any]:
    """The classes that a text in decisions.csv may stand for. Spreadsheets turn True into TRUE, and pandas 1 into 1.0.

    read_label: the label that the text spells in the type of the labels; None if they cannot hold it.
    """
    same_text = [value for value in classes if str(value) == text]
    return same_text or [value for value in classes if label_key(value) == label_key(read_label(text))]


def classes_of_spelling(text: str, classes: Sequence[Any]) -> list[Any]:
    """The classes that differ from a text only in spaces, capitals, type or the spelling of a number."""
    return [value for value in classes if spelling(value) == spelling(text)]


def _type_name(value: Any) -> str:
    return "number" if isinstance(value, numbers.Real) and not isinstance(value, bool) else type(value).__name__


def _edits(
    decisions: Sequence[Decision], writer: LabelWriter, labels: Mapping[str, Any], classes_for: ClassesFor
) -> Iterator[LabelEdit]:
    samples = writer.samples
    rows = dict(zip(samples.ids, samples.rows, strict=True))
    # The first row of each class.
    examples = dict(zip(map(label_key, reversed(samples.labels)), reversed(samples.rows), strict=True))
    for decision in decisions:
        candidates = classes_for(decision.new_label)
        if len(candidates) > 1:
            raise InputError(
                f"{decision.place}: the new label {decision.new_label!r} matches several classes of the data: "
                f"{listed(candidates)}. Merge these classes first."
            )
        if not candidates and any(character in decision.new_label for character in "\r\n"):
            raise InputError(
                f"{decision.place}: the new label {decision.new_label!r} has line breaks. Check the quotes."
            )
        after = candidates[0] if candidates else writer.read_label(decision.new_label)
        if after is None:
            label = f"the new label {decision.new_label!r} ({decision.place})"
            raise InputError(f"{writer.labels_are}, which cannot hold {label}")
        yield LabelEdit(rows[decision.id], labels[decision.id], after, examples.get(label_key(after)), decision)


def _refuse_stale(
    unknown: Sequence[Decision], outdated: Sequence[Decision], labels: Mapping[str, Any], origin: str, path: Path
) -> None:
    if unknown:
        raise InputError(
            f"no labelled sample of {path} has the {'id' if len(unknown) == 1 else 'ids'} "
            f"{listed(decision.id for decision in unknown)} from {origin}. Check that {origin} belongs to this data "
            "and that `id=` is the same as for find. `skip_stale=True` ignores such decisions."
        )
    if outdated:
        first = outdated[0]
        raise InputError(
            f"id {first.id!r} has the label {labels[first.id]!r}, but had {first.label!r} when {origin} was made "
            f"({counted(len(outdated), 'such sample')}). Review again, or ignore such decisions with `skip_stale=True`."
        )


def _class_remarks(classes: Sequence[Any], new_classes: Sequence[Any], counts: "pd.DataFrame") -> Iterator[str]:
    """Changes of the classes that the user may not expect."""
    types = {_type_name(value) for value in classes}
    for label in new_classes:
        name = repr(label) if isinstance(label, str) else str(label)
        yield f"class {name} is new: no sample had it before"
        if _type_name(label) not in types:
            yield f"the label {name} has another type than all other labels: software that reads them may fail"
    emptied = counts[(counts["after"] == 0) & (counts["before"] > 0)]["label"].tolist()
    if emptied:
        yield f"no sample is left in {'class' if len(emptied) == 1 else 'classes'} {listed(emptied)}"
    if (counts["after"] > 0).sum() < 2:
        yield "only one class is left; finding label errors needs at least two"
