"""What is public: the package's names, the members of its classes, and the accessors."""

from __future__ import annotations

import inspect
from pkgutil import resolve_name
from typing import Any

import xarray as xr

import xarray_n5
from xarray_n5 import errors

ACCESSORS = {
    "xarray.DataArray.n5": xr.DataArray,
    "xarray.Dataset.n5": xr.Dataset,
    "xarray.DataTree.n5": xr.DataTree,
}
"""The accessors as users reach them, and the classes that have them."""

MODULES = ("bdv", "doctor", "errors", "hangar")
"""The modules with public names of their own."""

RETURNED = ("xarray_n5.viewing.api.View",)
"""Classes without a public name whose instances public functions return."""

BESIDE = (
    "xarray_n5_engine.N5BackendEntrypoint.open_dataset",
    "xarray_n5.dialects.Funlib",
    "xarray_n5_engine.BdvBackendEntrypoint.open_dataset",
)
"""What docs/api.md describes besides: the options of the engine, and a dialect with options."""


def public_objects() -> dict[str, Any]:
    """Every public object by its full name: functions, classes, their methods and properties."""
    names = [name for name in xarray_n5.__all__ if not name.startswith("__")]
    names = [name for name in names if name not in errors.__all__]
    found = {f"xarray_n5.{name}": getattr(xarray_n5, name) for name in [*names, *MODULES]}
    for name, kind in ACCESSORS.items():
        found[name] = kind.n5  # type: ignore[attr-defined]
    found |= {name: resolve_name(name) for name in RETURNED}
    for name, module in [pair for pair in found.items() if inspect.ismodule(pair[1])]:
        del found[name]
        found |= {f"{name}.{public}": getattr(module, public) for public in module.__all__}
    for name, each in list(found.items()):
        if inspect.isclass(each):
            found |= {f"{name}.{own}": member for own, member in members_of(each).items()}
    return found | {name: resolve_name(name) for name in BESIDE}


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
    made = {"Axis", "Geometry", "ProgressBar"}
    return {
        name: each
        for name, each in public_objects().items()
        if (inspect.isfunction(each) and name not in BESIDE) or name.rpartition(".")[2] in made
    }


ALLOWED = {
    "GL01": "summaries begin on the first line, as ruff's D212 has it",
    "ES01": "a summary may be enough",
    "SA01": "few names need others beside them",
}
"""Rules of numpydoc that do not hold here, and why."""


def problems_of(name: str) -> list[str]:
    """What numpydoc finds wrong with the docstring of a public object."""
    from numpydoc.validate import validate

    allowed = {*ALLOWED, *({"PR01"} if _is_only_returned(name) else ())}
    allowed |= {"EX01"} if isinstance(public_objects()[name], property) else set()
    return [f"{code} {text}" for code, text in validate(name)["errors"] if code not in allowed]


def _is_only_returned(name: str) -> bool:
    """Whether a class is not for users to make, so that its parameters are its own affair."""
    return inspect.isclass(public_objects()[name]) and name not in public_functions()
