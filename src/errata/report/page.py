"""What the review page shows, and the HTML file: template, style, scripts and data in one, without network requests."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.dynamics.files import replace_atomically
from errata.dynamics.store import Dynamics
from errata.readers import UserData
from errata.report.payload import payload

if TYPE_CHECKING:
    import pandas as pd

# Each script uses what the ones before it define.
SCRIPTS = ("data", "csv", "decisions", "filters", "drawing", "charts", "list", "detail", "relabel", "conflicts", "main")


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything the page shows.

    headline, answer: the sentences at the top. trust: "How far to trust this". reasons, notes: collapsed lists. facts:
    pairs of a name and a value. budget: how many samples to look at first. unit: `epoch` or `round`.
    ranking: one row per sample, most suspicious first: id, label, suggested, score, p_wrong, agree, mean_loss.
    curve: expected_errors_found by `inspected` samples. conflicts: group, id, label of samples with the same inputs and
    different labels. data: the samples themselves; None if they are not available.
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


def write_report(report: ReportData, path: str | Path) -> Path:
    """Write the page to `path` in one atomic step. Equal data gives equal bytes."""
    from jinja2 import Environment

    target = Path(path)
    script = "\n".join(_static(f"{name}.js") for name in SCRIPTS)
    text = (
        Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        .from_string(_static("report.html.j2"))
        .render(
            report=report,
            data=_as_script_json(payload(report, target.parent)),
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            style=_static("report.css"),
        )
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(target, lambda file: file.write(text.encode("utf-8", "backslashreplace")))
    return target


def _as_script_json(data: dict[str, Any]) -> str:
    """JSON without <, > and &, so that no label or text can end the script element that holds it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _static(name: str) -> str:
    return (files("errata.report") / "static" / name).read_text(encoding="utf-8")
