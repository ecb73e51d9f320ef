"""What is public: the package's names, the members of its classes, and the accessors."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import xarray as xr

import xarray_n5

ACCESSORS = {
    "xarray.DataArray.n5": xr.DataArray,
    "xarray.Dataset.n5": xr.Dataset,
    "xarray.DataTree.n5": xr.DataTree,
}
"""The accessors as users reach them, and the classes that have them."""

BESIDE = ("xarray_n5.views.neuroglancer.api.View",)
"""Classes without a public name whose instances public functions return."""


def public_objects() -> dict[str, Any]:
    """Every public object by its full name: functions, classes, their methods and properties."""
    names = [name for name in xarray_n5.__all__ if not name.startswith("__")]
    found = {f"xarray_n5.{name}": getattr(xarray_n5, name) for name in names}
    for name, kind in ACCESSORS.items():
        found[name] = kind.n5  # type: ignore[attr-defined]
    for name in BESIDE:
        module, _, attribute = name.rpartition(".")
        found[name] = getattr(import_module(module), attribute)
    for name, each in list(found.items()):
        if inspect.isclass(each):
            found |= {f"{name}.{own}": member for own, member in members_of(each).items()}
    return found


def members_of(kind: type) -> dict[str, Any]:
    """The public methods and properties of a class that the package itself defines."""
    return {
        name: member
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("xarray_n5")
        for name, member in vars(base).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod))
    }


def public_functions() -> dict[str, Any]:
    """What users call: public functions and methods, and public classes that they make."""
    made = {"Axis", "Geometry", "HangarWriter", "ProgressBar"}
    return {
        name: each
        for name, each in public_objects().items()
        if inspect.isfunction(each) or name.removeprefix("xarray_n5.") in made
    }
