"""Links from Markdown pages to files of the repository that are not pages: shown as the path of the file."""

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class RepositoryPaths(SphinxTransform):
    """Replace a link to `../src/x.py` or `../results` by its text and the path in the repository.

    A link to ../CONTRIBUTING.md, ../CHANGELOG.md or ../README.md leads to the page of the site with this content.
    """

    default_priority = 5
    PAGES = {"CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog", "README.md": "index"}

    def apply(self, **kwargs: Any) -> None:
        """Rewrite the links of one page."""
        for link in list(self.document.findall(addnodes.download_reference)) + list(
            self.document.findall(addnodes.pending_xref)
        ):
            target = link.get("reftarget", "")
            name = target.rpartition("../")[2]
            if "../" not in target or name.partition("#")[0].startswith(("docs/", "reference/", "generated/")):
                continue
            if self.env.docname.count("/") and target.count("../") == self.env.docname.count("/"):
                continue  # a page of the site, one folder up
            page = self.PAGES.get(name.partition("#")[0])
            if page:
                link.replace_self(addnodes.pending_xref(
                    "", nodes.inline("", link.astext()), refdomain="std", reftype="doc", reftarget=f"/{page}",
                    refexplicit=True, refwarn=True, refdoc=self.env.docname,
                ))
            else:
                text = link.astext()
                shown = [nodes.Text(text)] if text in name else [nodes.Text(f"{text} ("), nodes.literal("", name), nodes.Text(")")]
                link.replace_self(nodes.inline("", "", *shown))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_transform(RepositoryPaths)
    return {"parallel_read_safe": True}
