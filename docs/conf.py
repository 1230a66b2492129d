"""Sphinx settings; `./dev docs` builds the pages and executes their notebooks."""  # noqa: INP001 - read by its path

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
SOURCE = ROOT / "src"

# Pages describe this checkout, whatever else is installed: here, and in the kernels.
sys.path.insert(0, str(SOURCE))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCE), os.getenv("PYTHONPATH")]))
# The kernel is that of this environment, not one that the user has registered.
os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"

import thali  # noqa: E402 - only now is it that of this checkout

project = "thali"
author = "The thali developers"
project_copyright = author
version = release = thali.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
root_doc = "index"

# --- text and notebooks --------------------------------------------------------------------

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3


def _fingerprint() -> str:
    """Return a digest of all that cells can depend on beside their own text."""
    digest = hashlib.sha256()
    examples = (path for path in (ROOT / "examples").iterdir() if path.is_file())
    for path in sorted([*SOURCE.rglob("*.py"), DOCS / "gallery_card.py", *examples]):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


nb_execution_mode = "cache"
# The cache knows the text of the cells only; after a change of thali they must run again.
nb_execution_cache_path = str(DOCS / "_build" / "jupyter_cache" / _fingerprint())
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 300
nb_output_stderr = "remove-warn"  # a warning in a cell fails the build
nb_merge_streams = True

# --- reference -----------------------------------------------------------------------------

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80  # then one parameter a line, with its type
napoleon_google_docstring = False
napoleon_use_param = False  # parameters that are described together stay together
napoleon_use_rtype = False


def _escape_underscores(*event: Any) -> None:
    """Keep ``n_components_`` in the type of an attribute from becoming a link."""
    lines: list[str] = event[-1]
    lines[:] = [
        re.sub(r"_(?=[,)])", r"\\_", line) if re.match(r"\w+ : ", line) else line for line in lines
    ]


def setup(app: Any) -> None:
    """Run it before napoleon reads the docstring."""
    app.connect("autodoc-process-docstring", _escape_underscores, priority=400)


# --- looks ---------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "thali"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["thali.css"]
templates_path = ["_templates"]
html_sidebars = {"**": ["contents.html"]}  # all pages by section; so the header needs no links
html_theme_options = {
    "navbar_center": [],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}
