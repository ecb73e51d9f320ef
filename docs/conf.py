"""How Sphinx builds this documentation."""

import os
import shutil
from importlib.metadata import version as version_of
from pathlib import Path

from numpydoc.xref import DEFAULT_LINKS
from sphinx.pycode import ModuleAnalyzer

import xarray_n5  # the accessors, too

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
# and executed in place.
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

templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "signature"
maximum_signature_line_length = 88
python_use_unqualified_type_names = True
numpydoc_show_class_members = False  # docs/api.md lists them
numpydoc_xref_param_type = True
numpydoc_xref_aliases = {
    **{name: name for name in DEFAULT_LINKS},  # numpydoc's own need other projects' glossaries
    **{name: f"xarray_n5.{name}" for name in ("Array", "Axis", "Geometry", "Group")},
    **{name: f"xarray_n5.errors.{name}" for name in xarray_n5.errors.__all__},
    "View": "xarray_n5.viewing.api.View",
}
numpydoc_xref_ignore = {
    "collection",
    "default",
    "mapping",
    "of",
    "optional",
    "or",
    "store",
    "these",
    "to",
}


def without_signature(app, what, name, obj, options, signature, annotation):  # noqa: ANN001, ANN201, ARG001
    """Hide the parameters of classes whose instances users get from functions."""
    made = {"Axis", "Geometry", "ProgressBar", "Funlib"}
    hidden = what in {"class", "exception"} and obj.__name__ not in made
    return ("", None) if hidden and signature else None


# Overloads are for type checkers: the reference shows all parameters of a function, once.
ModuleAnalyzer.overloads = property(lambda _: {}, lambda *_: None)


def setup(app):  # noqa: ANN001, ANN201
    """Connect the function above."""
    app.connect("autodoc-process-signature", without_signature)


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
    "navbar_center": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "show_nav_level": 2,
    "show_toc_level": 2,
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"index": [], "**": ["globaltoc"]}
