"""Settings of Sphinx. Do not call Sphinx itself, but ci/site_build.py, which first collects the sources."""

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.util.nodes import make_refnode

project = "rndlib"
author = "the rndlib authors"
copyright = author
html_title = "rndlib"
language = "en"
smartquotes = False  # An x with a prime is no quotation.

sys.path.append(str(Path(__file__).parent))  # for the extension of our own
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "docstrings",
]
exclude_patterns = ["README.md", "_generated", "downloads"]

nb_execution_mode = "off"  # `make test` compares the stored outputs with a new run.
nb_merge_streams = True
nb_render_markdown_format = "myst"
myst_enable_extensions = ["attrs_inline", "dollarmath", "amsmath"]
myst_heading_anchors = 3

default_role = "py:obj"
napoleon_google_docstring = False
napoleon_custom_sections = ["Accuracy"]
napoleon_use_param = False  # A text for several parameters stands once.
nitpick_ignore_regex = [("py:(class|exc)", ".*")]  # What napoleon takes for a type may be any words.
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
add_module_names = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_sidebars = {"**": [
    "sidebar/brand.html", "paper.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
    "sidebar/scroll-end.html",
]}  # fmt: skip
html_css_files = ["site.css"]
html_js_files = ["tables.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
# It would fetch every page of the result, which browsers refuse to a page opened from a folder.
html_show_search_summary = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#004488", "color-brand-content": "#004488"},
    "dark_css_variables": {"color-brand-primary": "#8ab4e8", "color-brand-content": "#8ab4e8"},
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

mathjax_path = "mathjax.js"
mathjax_options = {"defer": "defer"}
myst_update_mathjax = False
mathjax3_config = {"options": {"processHtmlClass": "math", "ignoreHtmlClass": "document", "enableMenu": False}}


def _link(app: Any, env: Any, node: Any, content: Any) -> Any:
    """The object that a docstring names, in backquotes and as short as it likes; what is no name stays as it is."""
    name = node["reftarget"]
    if node.get("refdomain") != "py" or not re.fullmatch(r"[A-Z]\w+|[\w.]+\.\w+", name):
        return content if node.get("reftype") == "obj" else None
    found = env.domains["py"].find_obj(env, None, None, name, "obj", 1)
    if len(found) != 1:
        return content
    ((full, entry),) = found
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, full)


def _no_links_back(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Pages of source link back to the reference, and lead astray where a name is documented in another module."""
    if page.startswith("_modules/"):
        context["body"] = re.sub(r'<a class="viewcode-back".*?</a>', "", context["body"])


def setup(app: Any) -> None:
    app.connect("html-page-context", _no_links_back)
    app.connect("missing-reference", _link)
