"""What the page knows, as columns: a list a property, most suspicious sample first."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.finding.answer import suggested_budget
from errata.report.contents import contents_of
from errata.report.training_curves import loss_curves

if TYPE_CHECKING:
    import pandas as pd

    from errata.finding.found import Found

LISTED = 100_000  # samples a browser scrolls through with ease
CLOSELY = 10_000  # of them, those whose loss curve and contents are in the page, if there is room
CONFLICTS = 500  # rows of conflicts in the page
CURVE_POINTS = 400
DIGITS = 4
NEARLY_CERTAIN = 0.9999  # an estimate that is rounded to 1 would read as certain


def payload(found: "Found", folder: Path) -> dict[str, Any]:
    """All that the script of the page is given; `folder` is where the page will lie."""
    listed = found.ranking.head(LISTED)
    closely = listed.head(CLOSELY)
    classes, codes = _classes(found)
    columns: dict[str, list[Any]] = {
        "id": listed["id"].astype(str).tolist(),  # a script knows no whole numbers beyond 2**53
        "label": _coded(listed["label"], codes),
        "suggested": _coded(listed["suggested"], codes),
        "score": _rounded(listed["score"]),
        "pWrong": _rounded(listed["p_wrong"].clip(upper=NEARLY_CERTAIN)),
        "agree": _rounded(listed["agree"]),
        "meanLoss": _rounded(listed["mean_loss"]),
    }
    return {
        "run": _run_hash(classes, columns),
        "samples": len(found.ranking),
        "classes": classes,
        "unit": found.summary.get("unit", "epoch"),
        **columns,
        "budget": _first_budget(found),
        "curve": _budget_curve(found.curve, len(listed)),
        "losses": loss_curves(found.dynamics, closely["id"].to_numpy(), found.ranking["id"].to_numpy()),
        "contents": contents_of(found.data, closely["id"].to_numpy(), len(listed), classes, folder),
        "conflicts": _conflicts(found.conflicts, listed),
    }


def _classes(found: "Found") -> tuple[list[str], dict[str, int]]:
    """The names of all classes as they are read, each once, and the number of each."""
    every = (str(found.dynamics.class_name(number)) for number in range(found.dynamics.num_classes))
    names = list(dict.fromkeys(every))
    return names, {name: code for code, name in enumerate(names)}


def _coded(labels: "pd.Series[Any]", codes: dict[str, int]) -> list[int]:
    return [codes[str(label)] for label in labels.tolist()]


def _rounded(values: "pd.Series[Any] | NDArray[Any]") -> list[float | None]:
    """Numbers to a few digits; None where there is none."""
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def _run_hash(classes: list[str], columns: dict[str, list[Any]]) -> str:
    """What decisions are kept under: the samples, their labels and their order."""
    told = json.dumps([classes, *(columns[name] for name in ("id", "label", "suggested", "score"))])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _first_budget(found: "Found") -> int:
    """As many samples as the answer in words says to look at."""
    return max(1, min(suggested_budget(found.expected, len(found.ranking)), LISTED))


def _budget_curve(curve: "pd.DataFrame", listed: int) -> dict[str, list[Any]]:
    """The curve at every early budget and at fewer and fewer later ones; all that is expected stands at the end."""
    inspected = curve["inspected"].to_numpy(dtype=float)
    expected = curve["expected_errors_found"].to_numpy(dtype=float)
    points = np.unique(np.r_[0, np.geomspace(1, listed, CURVE_POINTS).round().astype(np.int64), listed])
    known = np.interp(points, inspected, expected)
    return {"inspected": points.tolist(), "expected": _rounded(known), "total": float(expected[-1])}


def _conflicts(conflicts: "pd.DataFrame", listed: "pd.DataFrame") -> dict[str, Any]:
    """Rows with the same inputs and different labels; `place` is where each is listed, or -1."""
    shown = conflicts.head(CONFLICTS)
    places = {id_: place for place, id_ in enumerate(listed["id"].astype(str))}
    return {
        "rows": len(conflicts),
        "groups": int(conflicts["group"].nunique()),
        "group": shown["group"].tolist(),
        "id": shown["id"].astype(str).tolist(),
        "label": shown["label"].astype(str).tolist(),
        "place": [places.get(id_, -1) for id_ in shown["id"].astype(str)],
        "places": sorted(places[id_] for id_ in conflicts["id"].astype(str) if id_ in places),
    }
