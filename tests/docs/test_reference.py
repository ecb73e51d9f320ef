"""The reference is whole: every public name is documented, with an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from unittest import mock

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5
import xarray_n5.bdv
from tests.support.reference import ACCESSORS, public_objects
from xarray_n5.codecs import COMPRESSIONS
from xarray_n5.dialects import DIALECTS

OBJECTS = public_objects()

NAMES = {"da": da, "np": np, "xr": xr, "xarray_n5": xarray_n5, "xarray_n5.bdv": xarray_n5.bdv}
"""The names that examples use; the first lines of docs/api.md import them."""

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def docstring(name: str) -> str:
    """The documentation of a public object."""
    found = OBJECTS[name]
    return inspect.getdoc(found.fget if isinstance(found, property) else found) or ""


def run(example: doctest.DocTest) -> None:
    shown: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=shown.append)
    assert not failed, "".join(shown)


@pytest.mark.parametrize("name", OBJECTS)
def test_every_public_name_has_an_example_that_runs_by_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(docstring(name), dict(NAMES), name, None, None)
    assert example.examples or isinstance(OBJECTS[name], property)
    with mock.patch.dict(COMPRESSIONS), mock.patch.dict(DIALECTS):  # some examples register more
        run(example)


def modules() -> list[str]:
    """The names of all modules of the package, of the command line and of napari's reader."""
    source = Path(xarray_n5.__file__).parent.parent
    return [
        found.name
        for package in ("xarray_n5", "xarray_n5.bdv", "xarray_n5.cli", "xarray_n5.napari")
        for found in pkgutil.walk_packages([str(source / package)], f"{package}.")
    ]


def test_examples_of_other_docstrings_are_true() -> None:
    public = {docstring(name) for name in OBJECTS}
    for name in modules():
        for example in doctest.DocTestFinder().find(importlib.import_module(name)):
            if example.examples and inspect.cleandoc(example.docstring or "") not in public:
                run(example)


def test_the_reference_lists_every_public_name() -> None:
    page = (Path(__file__).parents[2] / "docs/api.md").read_text("utf-8")
    entries = re.findall(r"^(?:\.\. currentmodule:: (\S+)|   ([\w.]+))$", page, re.MULTILINE)
    listed, module = set(), ""
    for changed, name in entries:
        module = changed or module
        listed.add(f"{module}.{name}")
    methods = {
        name.rpartition(".")[2] for name in listed if name.startswith("xarray.DataArray.n5.")
    }
    others = {f"{accessor}.{method}" for accessor in ACCESSORS for method in methods}
    assert OBJECTS.keys() - ACCESSORS.keys() - others - listed == set()
