"""The answer in sentences: how many labels are wrong, how many samples to look at, and why."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from errata.core.count_statement import CountStatement, count_statement
from errata.dynamics.store import Dynamics
from errata.finding.model_training import RECORDED
from errata.finding.trust import disagree_widely, guessing_reason
from errata.report import ReportData
from errata.report.page import MOST_LISTED
from errata.wording import counted, percent

if TYPE_CHECKING:
    from errata.finding.found import Found
    from errata.readers import UserData

MOST_CLASSES = 12  # named in one line
MOST_COLUMNS = 20
MOST_CONFUSIONS = 5
SMALLEST_BUDGET = 20
START = 100  # samples to look at if the number of wrong labels is not stated
DRAW = "Judge 30 random samples to find out (errata certify --draw 30)."
DRAW_ON_PAGE = "Judge 30 random samples to find out: some are mixed into the queue below."
BECAUSE = {
    "overlap": "classes overlap, so correct labels may look like errors",
    "held-out loss": "the model predicts held-out labels too well for more errors",
}
ASSUMPTION = (
    "These numbers assume that the model has learned what most samples of a class have in common, and that wrong "
    "labels are exceptions. Systematic errors, the same for all similar samples, look right to the model."
)
RANGE = (
    "The upper end of the range is the highest of several estimates, or the number that the predictions of held-out "
    "labels allow, if that is lower. The lower end is 0: overlapping classes alone may explain every label that the "
    "model contradicts."
)
FACTS = {
    "samples": "samples",
    "classes": "classes",
    "kind": "data",
    "model": "model",
    "method": "ranked by",
    "seconds": "seconds taken",
}


def what_was_read(name: str, opened: "UserData | Dynamics") -> list[str]:
    """Two short lines before the training starts: the samples, and the classes with their sizes."""
    counts = np.bincount(opened.labels, minlength=opened.num_classes)
    classes = opened.classes or range(opened.num_classes)
    names = [f"{classes[k]} ({counts[k]:,})" for k in np.argsort(-counts, kind="stable").tolist()]
    return [
        f"{name}: {len(opened.labels):,} samples in {opened.num_classes:,} classes, {_form(opened)}",
        f"Classes: {_first_names(names, MOST_CLASSES)}",
    ]


def _form(opened: "UserData | Dynamics") -> str:
    """`table (columns: 60 number, 4 left out)`, `300 images of 32 × 32 pixels` or `recorded over 12 epochs`."""
    if isinstance(opened, Dynamics):
        return f"recorded over {counted(opened.epochs, 'epoch')}"
    treatments = [treatment.partition(":")[0] for treatment in opened.columns.values()]
    if opened.kind in ("images", "image files"):
        return next((text for text in treatments if " pixels" in text), opened.kind)
    kinds = dict.fromkeys(sorted(treatments, key=lambda treatment: treatment == "left out"))
    columns = ", ".join(f"{treatments.count(kind):,} {kind}" for kind in kinds if kind not in ("label", "id"))
    return f"{opened.kind} (columns: {columns})" if columns else opened.kind


def column_note(data: "UserData") -> str:
    """Which columns were read as numbers, categories or text; the columns left out have remarks of their own."""
    by_treatment: dict[str, list[str]] = {}
    for name, treatment in data.columns.items():
        if treatment in ("number", "category", "text"):
            by_treatment.setdefault(treatment, []).append(name)
    parts = [f"{treatment}: {_first_names(names, MOST_COLUMNS)}" for treatment, names in by_treatment.items()]
    return f"Columns read as {'; '.join(parts)}." if parts else ""


def _first_names(names: list[str], most: int) -> str:
    """`a, b, c`; long lists end in `and 12 more`."""
    return ", ".join(names if len(names) <= most else [*names[:most], f"and {len(names) - most:,} more"])


def how_ranked(found: "Found") -> str:
    """One line: the model, the method and the epochs, as in `Ranked by Unmixed-MeanProb-LM over 30 epochs.`."""
    summary, every = found.summary, counted(found.dynamics.epochs, found.summary["unit"])
    model = "" if summary["model"] == RECORDED else f"Model: {summary['model']}. "
    some = "" if summary["epochs_used"] == found.dynamics.epochs else f"the first {summary['epochs_used']:,} of "
    again = ", and by a second training pass" if summary.get("passes") == 2 else ""
    return f"{model}Ranked by {summary['method']} over {some}{every}{again}."


def answer(found: "Found", draw: str = DRAW) -> list[str]:
    """At most three short lines: how many labels are wrong, what to do, and a warning if these cannot be trusted.

    No number is stated if the model learned nothing, and only a range where classes overlap; `draw` then says how to
    find out.
    """
    statement = stated_count(found)
    if statement.kind == "nothing":
        return [f"How many labels are wrong is not known: the model predicts no better than guessing. {draw}"]
    if statement.kind == "range":
        return [
            _range(found, statement),
            f"{draw} Or look at the first {min(START, len(found.ranking)):,}: most suspicious samples come first.",
        ]
    lines = [how_many(found), what_to_do(found)]
    if disagree_widely(found.estimate, len(found.ranking)):
        return [*lines, "Warning: the estimates of this number disagree widely. Trust the order, not the number."]
    return lines


def states_number(found: "Found") -> bool:
    """Whether a number of wrong labels is stated. Otherwise p_wrong is not shown: it sums to that number."""
    return stated_count(found).kind == "number"


def samples_described(found: "Found") -> int:
    """How many of the first samples the notes describe: the estimated errors, if their number is stated."""
    return found.expected if states_number(found) else min(START, len(found.ranking))


def stated_count(found: "Found") -> CountStatement:
    """What is known about the number of wrong labels before any verdict."""
    ranking, held_out_loss = found.ranking, found.summary.get("held_out_loss")
    return count_statement(
        ranking["score"].to_numpy(dtype=np.float64),
        ranking["p_wrong"].to_numpy(dtype=np.float64),
        found.estimate,
        guessing=bool(guessing_reason(found.dynamics.labels, ranking, held_out_loss)),
        held_out_loss=held_out_loss,
    )


def _range(found: "Found", statement: CountStatement) -> str:
    """`Between 0 and 1,004 of 6,000 labels are wrong (0–17 %): classes overlap, ...`."""
    samples = len(found.ranking)
    low, high = round(statement.low * samples), round(statement.high * samples)
    shares = f"{percent(statement.low).removesuffix(' %')}–{percent(statement.high)}"
    return f"Between {low:,} and {high:,} of {samples:,} labels are wrong ({shares}): {BECAUSE[statement.reason]}."


def how_many(found: "Found") -> str:
    """The estimate and its interval, as in `About 380 of 1,797 labels are wrong (21 %, 18–25 %).`."""
    rate = found.estimate
    interval = f"{percent(rate.low).removesuffix(' %')}–{percent(rate.high)}"
    verb = "is" if found.expected == 1 else "are"
    return f"About {found.expected:,} of {len(found.ranking):,} labels {verb} wrong ({percent(rate.rate)}, {interval})."


def what_to_do(found: "Found") -> str:
    """How many samples to look at, as in `Look at the first 400: expect about 363 errors, 95 % of all.`."""
    budget = suggested_budget(found.expected, len(found.ranking))
    errors, share = expectation(found, budget)
    if round(errors) == 0:
        return f"Look at the first {budget:,} anyway: expect less than one error, but no estimate is certain."
    return f"Look at the first {budget:,}: expect about {counted(round(errors), 'error')}, {percent(share)} of all."


def expectation(found: "Found", budget: int) -> tuple[float, float]:
    """The expected number of errors among the first `budget` samples, and its share of all expected errors."""
    curve = found.curve["expected_errors_found"].to_numpy()
    errors, total = float(curve[min(budget, len(curve) - 1)]), float(curve[-1])
    return errors, errors / total if total > 0 else 1.0


def suggested_budget(expected: int, samples: int) -> int:
    """A round number of samples to look at, close to the number of expected errors."""
    if expected < SMALLEST_BUDGET:
        return min(SMALLEST_BUDGET, samples)
    unit: int = 10 ** (len(str(expected)) - 1)
    return min(samples, max(SMALLEST_BUDGET, round(2 * expected / unit) * unit // 2))


def reasons(found: "Found") -> list[str]:
    """How the number or the range was estimated, how the model was chosen, and what is assumed."""
    choice, kind = found.summary.get("model_choice"), stated_count(found).kind
    estimated = {"number": [found.estimate.how], "range": [RANGE], "nothing": []}[kind]
    return [*estimated, *([choice] if choice else []), *([] if kind == "nothing" else [ASSUMPTION])]


def data_notes(found: "Found") -> list[str]:
    """What a user should know about the data: samples with equal inputs and different labels, remarks on columns."""
    conflicts = []
    if len(found.conflicts):
        groups = counted(int(found.conflicts["group"].nunique()), "group")
        conflicts.append(
            f"{counted(len(found.conflicts), 'sample')} in {groups} have the same inputs as another sample and a "
            "different label: at least one label per group is wrong, or the inputs do not determine the class."
        )
    return [*conflicts, *found.summary.get("remarks", [])]


def notes(found: "Found") -> list[str]:
    """The notes on the data, the most frequent confusions and the types of the columns."""
    lines = data_notes(found)
    if len(found.confusions):
        rows = found.confusions.head(MOST_CONFUSIONS).itertuples(index=False)
        pairs = ", ".join(f"{row.label} → {row.suggested} ({row.count:,})" for row in rows)
        lines.append(f"Most frequent among the first {samples_described(found):,} (given → suggested): {pairs}.")
    columns = "" if found.data is None else column_note(found.data)
    return [*lines, columns] if columns else lines


def report_data(found: "Found") -> ReportData:
    """The contents of report.html."""
    summary = found.summary
    counts = states_number(found)
    headline, *lines = answer(found, DRAW_ON_PAGE if len(found.ranking) <= MOST_LISTED else DRAW)
    source = summary.get("source") or {}
    dataset = Path(source["path"]).name if source.get("path") else ""
    facts = [(title, _as_text(summary[key])) for key, title in FACTS.items() if summary.get(key) is not None]
    return ReportData(
        headline=headline,
        answer=lines,
        trust=summary.get("trust", []),
        reasons=reasons(found),
        notes=notes(found),
        facts=facts,
        budget=suggested_budget(found.expected, len(found.ranking)) if counts else samples_described(found),
        unit=summary.get("unit", "epoch"),
        version=summary["version"],
        ranking=found.ranking,
        curve=found.curve,
        conflicts=found.conflicts,
        dynamics=found.dynamics,
        data=found.data,
        dataset=dataset,
        column=source["label"] if isinstance(source.get("label"), str) else "",
        trusted=counts,
        seed=found.random_seed,
    )


def _as_text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
