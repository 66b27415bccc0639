"""Every page of the site in Chromium: phone and desktop, light and dark, offline, and accessible."""

import pytest
from conftest_site import SITE_PAGES

WIDTHS = (390, 1440)


@pytest.fixture
def open_page(chromium, site):
    """Open a page of the site; fail on errors of scripts and on requests to other hosts."""
    contexts, problems = [], []

    def opened(path, scheme, width=1440):
        context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        context.add_init_script(f"localStorage.setItem('mode', '{scheme}'); localStorage.setItem('theme', '{scheme}')")
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(300_000)  # on a busy machine, the front page with its pictures takes minutes
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((site, "data:", "blob:"))
                else problems.append(f"request to {request.url}")
            ),
        )
        page.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))
        page.goto(f"{site}/{path}", wait_until="load")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


@pytest.mark.parametrize("path", SITE_PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_fits_and_is_accessible(path, scheme, width, open_page, serious_findings):
    page = open_page(path, scheme, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert serious_findings(page) == []


def test_the_review_page_on_the_front_page_takes_decisions(open_page):
    page = open_page("index.html", "light")
    page.locator("iframe.live-review").scroll_into_view_if_needed()
    frame = page.frame_locator("iframe.live-review")
    frame.locator("h1").click()
    page.keyboard.press("a")
    page.keyboard.press("k")
    page.wait_for_function(
        "() => Object.values(localStorage).some(stored => /accept/.test(stored) && /keep/.test(stored))"
    )


def test_the_review_page_follows_the_theme_of_the_site(open_page):
    page = open_page("index.html", "light")
    page.locator("iframe.live-review").scroll_into_view_if_needed()
    page.frame_locator("iframe.live-review").locator("h1").wait_for()
    colours = []
    for theme in ("light", "dark", "light"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        page.wait_for_timeout(100)
        body = page.frame_locator("iframe.live-review").locator("body")
        colours.append(body.evaluate("body => getComputedStyle(body).backgroundColor"))
    assert colours[0] == colours[2] != colours[1]


def test_code_on_the_front_page_is_whole_on_a_phone(open_page):
    page = open_page("index.html", "light", 390)
    cut = "blocks => blocks.filter(block => block.scrollWidth > block.clientWidth).length"
    assert page.locator(".bd-article .highlight pre").evaluate_all(cut) == 0


def test_the_front_page_has_three_entries(open_page):
    page = open_page("index.html", "light")
    assert page.locator(".sd-card-title").all_inner_texts() == [
        "I have data",
        "I have a training loop",
        "I do research",
    ]
