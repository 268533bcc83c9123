"""How Sphinx builds the documentation: ``make docs`` writes it to docs/_build/html."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent / "src"), str(HERE.parent)]
# Gallery scripts and cards train embedded models: nothing is downloaded, and sums are the same everywhere.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from gradgate_site.grouped_settings import HEADINGS, short_signatures  # noqa: E402

import gradgate  # noqa: E402

project = "gradgate"
author = "The gradgate developers"
copyright = author  # noqa: A001 - Sphinx's name for it
version = release = gradgate.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "gradgate_site.evidence_pages",
    "gradgate_site.form_tables",
    "gradgate_site.grouped_settings",
    "gradgate_site.method_cards",
    "gradgate_site.moved_pages",
    "gradgate_site.paper_pages",
    "gradgate_site.result_gallery",
    "gradgate_site.setting_tables",
]
exclude_patterns = ["_build", "_templates", "extensions", "gallery"]
nitpicky = False

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autosummary_generate = True
autosummary_context = {"signatures": short_signatures()}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Source", *((heading, "params_style") for heading in HEADINGS.values())]

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_", "__repr__"),
    "reset_modules": ("matplotlib", "gradgate_site.gallery.quiet"),
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1e6,  # times are those of the machine that built the site
    "write_computation_times": False,
    "download_all_examples": False,
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = "gradgate"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark as the reader's system is
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
