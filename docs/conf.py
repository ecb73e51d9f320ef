"""How Sphinx builds this documentation."""

import os
import shutil
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent

project = "xarray-n5"
author = "xarray-n5 maintainers"
copyright = "2026, xarray-n5 maintainers"
version = release = version_of("xarray-n5")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
]
exclude_patterns = ["_build", "generated/.*", "jupyter_execute", "**.ipynb_checkpoints"]

# The notebooks are kept without outputs in the project's folder `notebooks`. They are copied here
# and executed in place, since they search the folders above for the project's test data.
shutil.rmtree(HERE / "notebooks", ignore_errors=True)
if (HERE.parent / "notebooks").is_dir():
    shutil.copytree(
        HERE.parent / "notebooks",
        HERE / "notebooks",
        ignore=shutil.ignore_patterns(".*", "*.n5", "__pycache__"),
    )
nb_execution_mode = "force"
nb_execution_in_temp = False
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
# No widgets are shown, so no script from elsewhere is needed for them.
nb_ipywidgets_js = {}

myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections hold them
numpydoc_show_class_members = False  # autosummary lists them

# Links into other projects need the network, which only the hosted build can rely on.
if "READTHEDOCS" in os.environ:
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "dask": ("https://docs.dask.org/en/stable", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "python": ("https://docs.python.org/3", None),
        "xarray": ("https://docs.xarray.dev/en/stable", None),
    }

html_theme = "pydata_sphinx_theme"
html_title = "xarray-n5"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "github_url": "https://github.com/xarray-n5/xarray-n5",
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "show_nav_level": 2,
    "show_toc_level": 2,
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"index": []}  # elsewhere, the theme lists the section's pages
