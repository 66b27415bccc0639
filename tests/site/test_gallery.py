"""The gallery: a limit on the processor time of an example, and a description on each card."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs" / "extensions"))

import gallery  # noqa: E402 - the extensions of the site are not a package
import generated_pages  # noqa: E402


@pytest.mark.parametrize(("used", "warned"), [(59.0, False), (61.0, True)])
def test_an_example_that_needs_more_than_a_minute_of_processor_time_is_named(used, warned, monkeypatch):
    times, warnings = iter([100.0, 100.0 + used]), []
    monkeypatch.setattr(gallery, "processor_seconds", lambda: next(times))
    monkeypatch.setattr(gallery.LOGGER, "warning", warnings.append)
    clock = gallery.Clock()
    for when in ("before", "after"):
        clock({}, "plot_slow.py", when)
    assert any("plot_slow.py needs" in warning for warning in warnings) == warned


def test_the_time_of_threads_and_of_processes_counts():
    before = gallery.processor_seconds()
    assert sum(number * number for number in range(200_000))
    assert gallery.processor_seconds() > before


def test_the_gallery_uses_the_limit_before_and_after_each_script():
    assert gallery.GALLERY["reset_modules_order"] == "both"
    assert any(isinstance(reset, gallery.Clock) for reset in gallery.GALLERY["reset_modules"])
    assert gallery.MOST_SECONDS == 60


def test_a_card_shows_the_description_of_its_example():
    card = """<div class="sphx-glr-thumbcontainer" tooltip="errata find photos/ &#x27;here&#x27;.">
    <div class="sphx-glr-thumbnail-title">Photographs</div></div>"""
    source = [card + card]
    generated_pages.describe_cards(None, "gallery/index", source)
    assert source[0].count('<div class="card-description">errata find photos/ &#x27;here&#x27;.</div></div>') == 2
    assert "tooltip" not in source[0]


def test_every_card_of_the_built_gallery_has_a_description():
    page = (ROOT / "build" / "site" / "gallery" / "index.html").read_text(encoding="utf-8")
    examples = len(list((ROOT / "examples").glob("*/plot_*.py")))
    assert page.count('<div class="card-description">') == page.count("sphx-glr-thumbnail-title") == examples
