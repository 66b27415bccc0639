"""Settings of the documentation site. `make docs` builds it into build/site."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent / "benchmarks")]
# Examples run in a process that must not open windows, count cores or look for a network.
os.environ |= {"MPLBACKEND": "agg", "KERAS_BACKEND": "torch", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # for the command `errata`

from gallery import GALLERY  # noqa: E402

import errata  # noqa: E402

project = "errata"
author = "The errata developers"
project_copyright = "The errata developers"
version = release = errata.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "generated_pages",
    "docstring_text",
    "repository_links",
]
exclude_patterns = [
    "generated/default/*.md",
    "gallery/**/*.ipynb",
    "gallery/**/*.py",
    "gallery/**/*.json",
    "gallery/**/*.zip",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
suppress_warnings = ["config.cache"]  # the gallery's settings contain functions
default_role = "literal"
smartquotes = False  # quotes in docstrings are Python

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autodoc_typehints = "none"  # the signature on the page would be longer than the text; docstrings state shapes
autodoc_member_order = "bysource"
add_module_names = True

sphinx_gallery_conf = GALLERY

html_theme = "pydata_sphinx_theme"
html_title = "errata"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_extra_path = ["generated/live"]
templates_path = ["_templates"]
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button-field"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
