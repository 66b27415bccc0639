"""What the review page shows, and the HTML file: template, style, scripts and data in one, without network requests."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core.random_part import review_queue
from errata.dynamics.files import replace_atomically
from errata.dynamics.ids import match_ids
from errata.dynamics.store import Dynamics
from errata.readers import UserData
from errata.report.contents import loss_curves, sample_contents

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Template

# Each script uses what the ones before it define.
SCRIPTS = (
    "data",
    "csv",
    "decisions",
    "filters",
    "drawing",
    "charts",
    "list",
    "detail",
    "relabel",
    "conflicts",
    "outbox",
    "team",
    "main",
)
MOST_LISTED = 100_000  # samples in the list; a browser scrolls through these with ease
MOST_DETAILED = 10_000  # samples with a loss curve and, as far as they fit, contents
MOST_CONFLICTS = 500  # rows of the conflict table
CURVE_POINTS = 400
DIGITS = 4
HIGHEST_SHOWN = 0.9999  # an estimated probability rounded to 1 would look certain


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything the page shows.

    headline, answer: the sentences at the top. trust: "How far to trust this". reasons, notes: collapsed lists. facts:
    pairs of a name and a value. budget: how many samples to look at first. unit: `epoch` or `round`.
    ranking: one row per sample, most suspicious first: id, label, suggested, score, p_wrong, agree, mean_loss.
    curve: expected_errors_found by `inspected` samples. conflicts: group, id, label of samples with the same inputs and
    different labels. data: the samples themselves; None if they are not available. dataset: its name. column: that of
    the labels, if it has a name. trusted: whether p_wrong and expected numbers are shown. seed: of the random part.
    """

    headline: str
    answer: Sequence[str]
    trust: Sequence[str]
    reasons: Sequence[str]
    notes: Sequence[str]
    facts: Sequence[tuple[str, str]]
    budget: int
    unit: str
    version: str
    ranking: "pd.DataFrame"
    curve: "pd.DataFrame"
    conflicts: "pd.DataFrame"
    dynamics: Dynamics
    data: UserData | None = None
    dataset: str = ""
    column: str = ""
    trusted: bool = True
    seed: int = 0


def write_report(report: ReportData, path: str | Path) -> Path:
    """Write the page to `path` in one atomic step. Equal data gives equal bytes."""
    target = Path(path)
    text = page_html(report, script_json(payload(report, target.parent)))
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(target, lambda file: file.write(text.encode("utf-8", "backslashreplace")))
    return target


def page_html(report: ReportData, data: str, server: dict[str, Any] | None = None) -> str:
    """The page as text. data: the payload as JSON. server: what the page knows about `errata review`, or None."""
    return _template().render(
        report=report,
        data=data,
        server=None if server is None else script_json(server),
        script=_script(),
        style=_static("report.css"),
        policy=content_policy("'none'" if server is None else "'self'"),
    )


def content_policy(connections: str) -> str:
    """The content security policy of the page: its own script and style, pictures inside it, and some connections."""
    texts = (_script(), f"\n{_static('report.css')}\n")
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return (
        f"default-src 'none'; img-src data:; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        f"connect-src {connections}; base-uri 'none'; form-action 'none'"
    )


@cache
def _template() -> "Template":
    from jinja2 import Environment

    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_static("report.html.j2"))


def payload(report: ReportData, folder: Path | None, stored: dict[str, Any] | None = None) -> dict[str, Any]:
    """The data that the scripts of the page read: one list per column, most suspicious sample first.

    folder: where the HTML file will be; None if a server sends it. stored: the data of an earlier page; if it shows the
    same samples, their contents and losses are taken over.
    """
    listed = report.ranking.head(MOST_LISTED)
    dynamics = report.dynamics
    order, random = _review_order(report, len(listed))
    detailed = listed["id"].to_numpy()[order[:MOST_DETAILED]]
    classes = list(dict.fromkeys(str(dynamics.class_name(number)) for number in range(dynamics.num_classes)))
    codes = {name: code for code, name in enumerate(classes)}
    columns = sample_columns(listed, codes)
    key = json.dumps([classes, *(columns[name] for name in ("id", "label", "suggested", "score"))])
    run = hashlib.sha256(key.encode()).hexdigest()[:16]  # the browser stores decisions under this key
    if stored is not None and stored.get("run") == run:
        losses, contents = stored["losses"], {**stored["contents"], "files": None}
    else:
        losses = loss_curves(dynamics, detailed, report.ranking["id"].to_numpy())
        contents = sample_contents(report.data, detailed, len(listed), classes, folder)
    return {
        "run": run,
        "samples": len(report.ranking),
        "classes": classes,
        "unit": report.unit,
        "trusted": report.trusted,
        **columns,
        "alternatives": _alternatives(columns["label"], columns["suggested"], len(classes)),
        "random": random,
        "budget": max(1, min(report.budget, MOST_LISTED)),
        "curve": _budget_curve(report.curve, len(listed)),
        "losses": losses,  # and contents: in the order of a review
        "contents": contents,
        "conflicts": _conflicts(report.conflicts, listed),
    }


def _review_order(report: ReportData, listed: int) -> tuple[NDArray[np.int64], dict[str, list[int]] | None]:
    """The places in the order of a review, and at which positions `at` of it which places were drawn at random.

    None is drawn if not all samples are listed: the page could not show most of them.
    """
    if listed < len(report.ranking):
        return np.arange(listed), None
    rows = match_ids(report.dynamics.ids, report.ranking["id"].to_numpy())
    queue = review_queue(rows, report.seed)
    order = np.argsort(rows)[queue.rows]
    at = np.flatnonzero(queue.at_random)
    return order, {"at": at.tolist(), "places": order[at].tolist()}


def sample_columns(listed: "pd.DataFrame", codes: dict[str, int]) -> dict[str, list[Any]]:
    """Rows of the ranking as lists. codes: the number of each class."""
    return {
        "id": listed["id"].astype(str).tolist(),  # JavaScript rounds integers above 2**53
        "label": [codes[str(label)] for label in listed["label"].tolist()],
        "suggested": [codes[str(label)] for label in listed["suggested"].tolist()],
        "score": _rounded(listed["score"]),
        "pWrong": _rounded(listed["p_wrong"].clip(upper=HIGHEST_SHOWN)),
        "agree": _rounded(listed["agree"]),
        "meanLoss": _rounded(listed["mean_loss"]),
    }


def _alternatives(labels: list[int], suggested: list[int], classes: int) -> list[int]:
    """For each class the one that is suggested most often instead, or else the one that is suggested most often."""
    pairs = Counter((label, other) for label, other in zip(labels, suggested, strict=True) if label != other)
    instead = {label: other for (label, other), _ in reversed(pairs.most_common())}
    often = [code for code, _ in Counter(suggested).most_common()] + list(range(classes))
    return [instead.get(label, next((code for code in often if code != label), label)) for label in range(classes)]


def _rounded(values: "pd.Series[Any] | NDArray[Any]") -> list[float | None]:
    """Numbers with a few significant digits; None for NaN and infinity."""
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float)]


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


def script_json(data: dict[str, Any]) -> str:
    """JSON without <, > and &, so that no label or text can end the script element that holds it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script() -> str:
    return "\n".join(_static(f"{name}.js") for name in SCRIPTS)


def _static(name: str) -> str:
    return (files("errata.report") / "static" / name).read_text(encoding="utf-8")
