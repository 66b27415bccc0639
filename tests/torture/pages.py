"""Reports full of hostile text in Chromium: nothing of it may run, load anything or break the page."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from torture.tally import Attack, Verdict
from torture.victims import run_victim

PART = "hostile reports"
SAMPLES = 30
RUN = "window.broken = 1"
TEXTS = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"--></script><script>{RUN}</script><!--",
    f'"><img src=x onerror="{RUN}">',
    f"'><svg onload='{RUN}'>",
    f"<svg><script>{RUN}</script></svg>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f'<a href="javascript:{RUN}">click</a>',
    f"<style>@import 'https://example.org/x.css'</style><body onload={RUN}>",
    '<link rel=stylesheet href="https://example.org/x.css">',
    '<img src="https://example.org/x.png">',
    '<form action="https://example.org"><input name=x></form>',
    f"{{{{ constructor.constructor('{RUN}')() }}}}",
    "{{ 7 * 7 }}{% for x in () %}{% endfor %}",
    f"${{{RUN}}}`+{RUN}+`",
    f"';{RUN};//",
    f'";{RUN};//',
    f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    "\u2028\u2029\u202e\u200b\ufeff",
    "__proto__",
    "constructor",
    "toString",
    "]]><!--<!DOCTYPE html>",
    '=HYPERLINK("https://example.org")',
    'a,b\n"c"\r\n;\t',
    "\x01\x02\x1b[31m\x7f",
    "x" * 20_000,
    "𝕏🙂́" * 50,
    "../../../../etc/passwd",
    "file:///etc/passwd",
    f"data:text/html,<script>{RUN}</script>",
)
STORED = ("{", "null", "[]", '{"decisions": 7}', '{"__proto__": {"x": 1}}', f'"<script>{RUN}</script>"', "9" * 400)


def page_attacks() -> Iterator[Attack]:
    """Every text as class name, id, column and value, and damaged decisions in the storage of the browser."""
    for number, text in enumerate(TEXTS):
        yield Attack(PART, f"text {number}: {text[:40]!r}", lambda folder, text=text: _attack(folder, text))  # type: ignore[misc]
    for stored in STORED:
        yield Attack(PART, f"stored {stored[:40]!r}", lambda folder, stored=stored: _attack(folder, "a", stored))  # type: ignore[misc]


def _attack(folder: Path, text: str, stored: str | None = None) -> Verdict:
    outcome = run_victim(_write(text), folder)
    if outcome.crashed or outcome.code is None:
        return Verdict("traceback" if outcome.crashed else "stuck", outcome.output[-2000:])
    if outcome.code != 0:
        return Verdict("refused", outcome.output[-500:])
    problems = _look(folder / "errata-out" / "report.html", stored)
    return Verdict("silent", "; ".join(problems)) if problems else Verdict("fine")


def _write(text: str) -> Callable[[], object]:
    """Work that writes a report in which the text is a class, an id, a column and a value."""

    def work() -> None:
        import pandas as pd

        import errata

        rng = np.random.default_rng(0)
        classes = [text, "other", f"b {text}"]
        labels = np.arange(SAMPLES) % len(classes)
        ids = [f"{row} {text}" for row in range(SAMPLES)]
        logits = rng.normal(size=(3, SAMPLES, len(classes)))
        dynamics = errata.Dynamics.from_arrays(logits, [classes[label] for label in labels], ids=ids, classes=classes)
        sentences = [f"{text} number {rng.integers(9)} of {rng.integers(99)}" for _ in range(SAMPLES)]
        frame = pd.DataFrame({"id": ids, f"n {text}": rng.normal(size=SAMPLES), "text": sentences})
        errata.find(dynamics, data=frame, id="id", out="errata-out")

    return work


def _look(report: Path, stored: str | None) -> list[str]:
    """Open the page, use it, and list what went wrong."""
    from playwright.sync_api import sync_playwright

    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.on("pageerror", lambda error: problems.append(f"script error: {error}"))
        page.on("dialog", lambda dialog: (problems.append("a dialog opened"), dialog.dismiss()))
        page.on("request", lambda request: _check_request(request.url, report, problems))
        page.goto(report.as_uri())
        if stored is not None:
            _spoil_storage(page, stored)
            page.reload()
        if page.locator("#list, [role=listbox], [role=grid], table").count() == 0:
            problems.append("there is no list")
        for key in ("j", "j", "a", "k", "s", "j", "ArrowDown", "?", "Escape"):
            page.keyboard.press(key)
        if page.evaluate("'broken' in window"):
            problems.append("a script in the data ran")
        if page.evaluate("Object.prototype.x !== undefined"):
            problems.append("the prototype of all objects was changed")
        browser.close()
    return problems


def _check_request(url: str, report: Path, problems: list[str]) -> None:
    if url != report.as_uri() and not url.startswith(("data:", "blob:", report.parent.as_uri())):
        problems.append(f"the page asked for {url[:200]}")


def _spoil_storage(page: Any, stored: str) -> None:
    """Accept a suggestion, so that decisions are stored; then replace them by other text."""
    page.keyboard.press("a")
    page.evaluate("text => { for (const key of Object.keys(localStorage)) localStorage.setItem(key, text) }", stored)
