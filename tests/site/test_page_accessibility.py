"""The report and the review page in Chromium: no serious finding of axe-core."""

import pytest

from review_servers import ReviewServer, made_up_result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made_up_result(tmp_path_factory.mktemp("found") / "errata-out")


@pytest.fixture(scope="module")
def links(folder):
    server = ReviewServer(folder)
    yield server.links
    server.stop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("kind", ["report", "review"])
def test_the_page_has_no_serious_finding(kind, width, scheme, folder, links, chromium, serious_findings):
    context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    page = context.new_page()
    page.goto((folder / "report.html").as_uri() if kind == "report" else links["ana"])
    page.wait_for_selector("main")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert serious_findings(page) == []
    context.close()
