"""The built site, served on this machine, and axe-core."""

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
AXE = ROOT / "build" / "npm" / "node_modules" / "axe-core" / "axe.min.js"
# The contrast of each text is measured, which takes minutes on long pages; these are made like the ones before them.
REPEATED = ("tbody tr:nth-child(n+8)", "main li:nth-child(n+12)")
SERIOUS = ("serious", "critical")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="session")
def site():
    """The address of the site."""
    assert (SITE / "index.html").exists(), "run `make docs` first"
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="session")
def serious_findings():
    """A function that returns the serious accessibility findings of a page, one line each."""
    assert AXE.exists(), "run `make docs-test`, which installs axe-core"
    script = AXE.read_text(encoding="utf-8")

    def findings(page):
        page.evaluate(script)
        context = {"include": [["html"]], "exclude": [[selector] for selector in REPEATED]}
        options = {"resultTypes": ["violations"], "iframes": False}
        result = page.evaluate("([context, options]) => axe.run(context, options)", [context, options])
        return [
            f"{found['id']} ({found['impact']}): {node['target']} {node['html'][:120]}"
            for found in result["violations"]
            if found["impact"] in SERIOUS
            for node in found["nodes"]
        ]

    return findings
