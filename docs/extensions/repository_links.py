"""Links of Markdown pages to files that are not pages of the site, and pages whose text is a file of the repository."""

import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
WHOLE_FILES = {"changelog": ROOT / "CHANGELOG.md", "contributing": ROOT / "CONTRIBUTING.md"}
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s:]+?)(?P<anchor>#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def with_site_links(text: str, folder: Path) -> str:
    """The text of a file in `folder`, with links that work on the site. Code blocks stay as they are."""
    parts = CODE.split(text)
    parts[::2] = [LINK.sub(lambda match: _link(match, folder), part) for part in parts[::2]]
    return "".join(parts)


def _link(match: re.Match[str], folder: Path) -> str:
    """A link to a page, or the path in the repository for any other file."""
    target = (folder / match["target"]).resolve()
    if not target.exists() or target.is_relative_to(DOCS):
        page = f"/{target.relative_to(DOCS)}" if target.exists() else match["target"]
        return f"[{match['text']}]({page}{match['anchor'] or ''})"
    path = target.relative_to(ROOT).as_posix()
    if path in PAGES:
        return f"[{match['text']}](/{PAGES[path]}{match['anchor'] or ''})"
    shown = match["text"].strip("`")
    return f"`{path}`" if shown in path else f"{match['text']} (`{path}`)"


def rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    """Rewrite the links of one page before it is parsed."""
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        file = WHOLE_FILES.get(docname, path)
        text = file.read_text(encoding="utf-8") if docname in WHOLE_FILES else source[0]
        source[0] = with_site_links(text, file.parent)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True}
