"""How the site is built: ``python docs/build.py``, which opens a display of its own where there is none."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent)]

from turns import is_its_turn, pages_with_cells, takes_turns  # noqa: E402 - one of the extensions

from napari_gpubio import __version__  # noqa: E402 - of this working tree

project = "napari-gpubio"
author = "the napari-gpubio developers"
project_copyright = author
version = release = __version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "pages",
    "ahead",
    "gallery_check",
]
exclude_patterns = ["_build", "extensions", "gallery/*", "generated/gallery/*.ipynb", "**/README.md"]
root_doc = "index"
default_role = "obj"
suppress_warnings = ["config.cache"]  # a scraper is a function, which Sphinx can't keep between builds
if takes_turns():  # pages and pictures that are not made today
    suppress_warnings += ["image.not_readable", "myst-nb.lexer"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "executed")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 240
nb_execution_show_tb = True  # in the log
nb_merge_streams = True
nb_execution_excludepatterns = [str(path) for path in pages_with_cells(HERE) if not is_its_turn(path.stem)]
scripts = [path.stem for path in (HERE / "gallery").glob("plot_*.py") if is_its_turn(path.stem)]

autodoc_member_order = "groupwise"
autodoc_typehints = "none"  # docstrings say what parameters are
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["generated/gallery"],
    "filename_pattern": rf"[\\/]({'|'.join(map(re.escape, scripts))})\.py$",
    "image_scrapers": ("matplotlib", "window_pictures.scraper"),
    "reset_modules": ("matplotlib", "window_pictures.reset"),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 3600,
    "write_computation_times": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "copyfile_regex": r".*\.mp4",
}

html_theme = "furo"
html_title = "napari-gpubio"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "source_repository": "https://github.com/napari-gpubio/napari-gpubio/",
    "source_branch": "main",
    "source_directory": "docs/",
}
