"""The documentation site: `make site` builds it from the pages as they stand, without a network."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

project = "spark-sequencer"
author = "the authors of spark-sequencer"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser"]
root_doc = "docs/site/index"
include_patterns = [
    "README.md",
    "docs/**.md",
    "bench/log.md",
    "examples/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "attrs_inline"]
nitpicky = True
# A page that stands in no list of index.md is an error, too.
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = "spark-sequencer"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["extra"]
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # it would fetch the pages, which browsers refuse to files
html_theme_options = {"navigation_with_keys": True}
