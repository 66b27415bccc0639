"""The pages of the built site."""

from pathlib import Path

SITE = Path(__file__).parents[2] / "build" / "site"
SITE_PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if "_static" not in path.parts)
