"""Links, anchors, pictures and scripts of the site lead to files of the site."""

from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from conftest_site import SITE, SITE_PAGES

import errata
import errata.integrations


class Links(HTMLParser):
    """The ids of a page, what it loads, and where it links to."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.loaded, self.linked = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        if values.get("src"):
            self.loaded.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.append(values["href"])
        if tag == "a" and values.get("href"):
            self.linked.append(values["href"])


@pytest.fixture(scope="module")
def pages():
    return {path: Links((SITE / path).read_text(encoding="utf-8")) for path in SITE_PAGES}


def test_the_site_has_pages():
    assert len(SITE_PAGES) > 40


def test_every_link_leads_somewhere(pages):
    missing = []
    for path, page in pages.items():
        for target in page.linked + page.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (SITE / path).parent / unquote(parts.path) if parts.path else SITE / path
            relative = file.resolve().relative_to(SITE).as_posix()
            known = file.is_file() and (
                not parts.fragment or relative not in pages or unquote(parts.fragment) in pages[relative].ids
            )
            if not known and relative != "live-review.html":
                missing.append(f"{path}: {target}")
    assert missing == []


def test_nothing_is_loaded_from_other_hosts(pages):
    others = {
        target for page in pages.values() for target in page.loaded if urlsplit(target).scheme in ("http", "https")
    }
    assert others == set()


def test_the_reference_has_every_public_name(pages):
    described = pages["reference/python.html"].ids
    names = {".".join(name.split(".")[:2]) for name in described}  # errata.noise is described by its functions
    assert {f"errata.{name}" for name in errata.__all__} - names == set()
    assert {f"errata.integrations.{name}" for name in errata.integrations.__all__} - described == set()
    assert not any(name.startswith("errata.core.") for name in described)
