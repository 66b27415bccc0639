"""The page itself: a template, a style, a script and the data, all in one file that asks the network for nothing."""

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.dynamics.files import replace_atomically
from errata.report.page_text import answer_of, facts_of, remarks_of
from errata.report.payload import payload

if TYPE_CHECKING:
    from errata.finding.found import Found

# In the order in which each needs what the ones before it define.
SCRIPTS = ("data", "csv", "decisions", "filters", "drawing", "charts", "list", "detail", "relabel", "conflicts", "main")


def write_report(found: "Found", path: str | Path) -> Path:
    """Write what was found as one page at `path`, whole or not at all; the same findings give the same bytes."""
    from jinja2 import Environment

    target = Path(path)
    script = "\n".join(_static(f"{name}.js") for name in SCRIPTS)
    head, answer = answer_of(found)
    text = (
        Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        .from_string(_static("report.html.j2"))
        .render(
            head=head,
            answer=answer,
            facts=facts_of(found),
            remarks=remarks_of(found),
            data=_embedded(payload(found, target.parent)),
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            style=_static("report.css"),
            version=found.summary["version"],
        )
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(target, lambda file: file.write(text.encode("utf-8", "backslashreplace")))
    return target


def _embedded(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, whatever the labels and texts hold."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _static(name: str) -> str:
    return (files("errata.report") / "static" / name).read_text(encoding="utf-8")
