"""Pages and pictures that errata itself makes when the site is built, in docs/generated.

The results of trainings are made again only if the source of errata or of this extension has changed.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import command_reference
import default_pictures
import error_list
import live_review
from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
GENERATED = DOCS / "generated"
SOURCE = DOCS.parent / "src"


def source_hash() -> str:
    """A hash of all that the trainings depend on."""
    digest = hashlib.sha256()
    for file in sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("static/*"), *Path(__file__).parent.glob("*.py")]):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def write_once(make: Callable[[Path], None], folder: Path, key: str) -> None:
    """Call `make` unless the folder holds what it made for the same key."""
    stamp = GENERATED / f"{folder.name}.key"
    if not (stamp.exists() and stamp.read_text() == key):
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)
        stamp.write_text(key)


def write_page(path: Path, text: str) -> None:
    """Write a page, unless it is the same: Sphinx reads a changed file again."""
    if not (path.exists() and path.read_text(encoding="utf-8") == text):
        path.write_text(text, encoding="utf-8")


def remove_outdated_examples(gallery: Path, examples: Path) -> None:
    """Remove what an earlier build made of examples that are gone: Sphinx would miss them in the contents."""
    for page in gallery.glob("*/plot_*.rst"):
        if not (examples / page.parent.name / f"{page.stem}.py").exists():
            for file in page.parent.glob(f"{page.stem}.*"):
                file.unlink()


CARD = re.compile(
    r'(<div class="sphx-glr-thumbcontainer") tooltip="([^"]*)"(.*?<div class="sphx-glr-thumbnail-title">[^<]*</div>)',
    re.DOTALL,
)


def describe_cards(app: Sphinx, docname: str, source: list[str]) -> None:
    """Show the description of each example in the gallery on its card: as a tooltip, phones would not show it."""
    if docname.startswith("gallery/"):
        source[0] = CARD.sub(r'\1\3<div class="card-description">\2</div>', source[0])


def generate(app: Sphinx) -> None:
    """Write everything below docs/generated."""
    remove_outdated_examples(DOCS / "gallery", DOCS.parent / "examples")
    GENERATED.mkdir(exist_ok=True)
    key = source_hash()
    write_once(live_review.write, GENERATED / "live", key)
    write_once(default_pictures.write, GENERATED / "default", key)
    write_page(GENERATED / "commands.md", command_reference.page())
    write_page(GENERATED / "errors.md", error_list.page(SOURCE / "errata"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension; pages are made before Sphinx looks for files."""
    generate(app)
    app.connect("source-read", describe_cards)
    return {"parallel_read_safe": True}
