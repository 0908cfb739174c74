"""Sphinx's settings for the documentation site: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from oncelog_protocol import __version__

sys.path.insert(0, str(Path(__file__).parents[1]))
from docs.from_code import setup as setup

project = "oncelog"
copyright = "the oncelog authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["__pycache__"]

# A code host shows the pages too, with these anchors.
myst_heading_anchors = 3

# Docstrings have code in single backticks, as Markdown has.
default_role = "code"
smartquotes = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

# Each name of oncelog in a signature must have its place on the site. Type variables, two internal
# types and the names of other packages have none.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!oncelog).*"),
    ("py:.*", r"oncelog_client\.values\.[KV]"),
    ("py:.*", r"oncelog_protocol\.(security\.mechanisms\.SaslMechanism|secret\.Secret)"),
    ("py:.*", r"oncelog\.testing\.(broker\.Process|client_thread\.ClientThread)"),
]

html_theme = "furo"
html_title = f"oncelog {version}"
html_show_sphinx = False
