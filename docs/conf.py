"""Sphinx configuration: ``sphinx-build -W docs site``, then open ``site/index.html``."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_site"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from equipoise import __version__

project = "Equipoise"
author = "The Equipoise authors"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "equipoise_site",
]
exclude_patterns = ["_site/*.py", "gallery/*.ipynb", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.zip"]
suppress_warnings = ["config.cache"]
keep_warnings = True

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

default_role = "py:obj"
add_module_names = False
maximum_signature_line_length = 70
python_use_unqualified_type_names = True
python_display_short_literal_types = True
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "Prior": "Prior"}  # they stand for many lines each
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "Equipoise"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_show_search_summary = False  # a page opened as a file may not fetch the others
html_last_updated_fmt = None
html_sidebars = {"index": [], "changelog": [], "gallery/*": []}
html_theme_options = {
    "logo": {"text": "Equipoise"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button-field"],
    "header_links_before_dropdown": 6,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 10**6,
    "within_subsection_order": "equipoise_site.ExampleOrder",
    "default_thumb_file": str(Path(__file__).parent / "results/illustration-boundaries.png"),
    "plot_gallery": "EQUIPOISE_SKIP_GALLERY" not in os.environ,  # the examples take minutes
}
