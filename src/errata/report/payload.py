"""The JSON that the scripts of the page read: one list per column, most suspicious sample first."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.report.contents import sample_contents
from errata.report.loss_curves import loss_curves

if TYPE_CHECKING:
    import pandas as pd

    from errata.report.page import ReportData

MOST_LISTED = 100_000  # samples in the list; a browser scrolls through these with ease
MOST_DETAILED = 10_000  # samples with a loss curve and, as far as they fit, contents
MOST_CONFLICTS = 500  # rows of the conflict table
CURVE_POINTS = 400
DIGITS = 4
HIGHEST_SHOWN = 0.9999  # an estimated probability rounded to 1 would look certain


def payload(report: "ReportData", folder: Path) -> dict[str, Any]:
    """The data of the page; `folder` will hold the HTML file."""
    listed = report.ranking.head(MOST_LISTED)
    detailed = listed["id"].head(MOST_DETAILED).to_numpy()
    dynamics = report.dynamics
    classes = list(dict.fromkeys(str(dynamics.class_name(number)) for number in range(dynamics.num_classes)))
    codes = {name: code for code, name in enumerate(classes)}
    columns: dict[str, list[Any]] = {
        "id": listed["id"].astype(str).tolist(),  # JavaScript rounds integers above 2**53
        "label": [codes[str(label)] for label in listed["label"].tolist()],
        "suggested": [codes[str(label)] for label in listed["suggested"].tolist()],
        "score": _rounded(listed["score"]),
        "pWrong": _rounded(listed["p_wrong"].clip(upper=HIGHEST_SHOWN)),
        "agree": _rounded(listed["agree"]),
        "meanLoss": _rounded(listed["mean_loss"]),
    }
    return {
        "run": _run_key(classes, columns),
        "samples": len(report.ranking),
        "classes": classes,
        "unit": report.unit,
        **columns,
        "budget": max(1, min(report.budget, MOST_LISTED)),
        "curve": _budget_curve(report.curve, len(listed)),
        "losses": loss_curves(dynamics, detailed, report.ranking["id"].to_numpy()),
        "contents": sample_contents(report.data, detailed, len(listed), classes, folder),
        "conflicts": _conflicts(report.conflicts, listed),
    }


def _rounded(values: "pd.Series[Any] | NDArray[Any]") -> list[float | None]:
    """Numbers with a few significant digits; None for NaN and infinity."""
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def _run_key(classes: list[str], columns: dict[str, list[Any]]) -> str:
    """The key under which the browser stores decisions: a hash of the samples, their labels and their order."""
    text = json.dumps([classes, *(columns[name] for name in ("id", "label", "suggested", "score"))])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _budget_curve(curve: "pd.DataFrame", listed: int) -> dict[str, list[Any]]:
    """The expected errors at budgets that are dense at the start and sparse later, and in all samples (`total`)."""
    inspected = curve["inspected"].to_numpy(dtype=float)
    expected = curve["expected_errors_found"].to_numpy(dtype=float)
    points = np.unique(np.r_[0, np.geomspace(1, listed, CURVE_POINTS).round().astype(np.int64), listed])
    known = np.interp(points, inspected, expected)
    return {"inspected": points.tolist(), "expected": _rounded(known), "total": float(expected[-1])}


def _conflicts(conflicts: "pd.DataFrame", listed: "pd.DataFrame") -> dict[str, Any]:
    """Samples with the same inputs and different labels; `place` is the position of each in the list, or -1."""
    ids = conflicts["id"].astype(str)
    places = {id_: place for place, id_ in enumerate(listed["id"].astype(str))}
    shown = conflicts.head(MOST_CONFLICTS)
    return {
        "rows": len(conflicts),
        "groups": int(conflicts["group"].nunique()),
        "group": shown["group"].tolist(),
        "id": ids.head(MOST_CONFLICTS).tolist(),
        "label": shown["label"].astype(str).tolist(),
        "place": [places.get(id_, -1) for id_ in ids.head(MOST_CONFLICTS)],
        "places": sorted(places[id_] for id_ in ids if id_ in places),
    }
