"""Check the names of variables, dimensions and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.errors import MetadataError, PathError
from xarray_n5.model.paths import new_path

if TYPE_CHECKING:
    import xarray as xr

_LONGEST_NAME = 255
"""The maximum length of a name in file systems, in bytes."""


def check_names(dataset: xr.Dataset) -> None:
    """Raise if a variable or dimension cannot have its name, or a variable its type."""
    for name, variable in dataset.variables.items():
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the variable {name!r} must have a string or None for a name")
        if name == "":
            raise ValueError("a variable cannot be called '': a string must be length 1 or more")
        if name is not None:
            check_name(name, "variable")
        dims = variable.dims
        if len(set(dims)) != len(dims) or not all(isinstance(dim, str) and dim for dim in dims):
            raise ValueError(f"expected unique strings as the dimensions of {name!r}, got {dims}")
        if not isinstance(variable.dtype, np.dtype):
            raise MetadataError(
                f"variable {name!r} has the pandas type {variable.dtype}; convert it to a NumPy "
                "type with astype()"
            )


def check_name(name: str, what: str) -> None:
    """Raise PathError if a name cannot be that of a directory."""
    try:
        proper = new_path(name, ["attributes.json"]) == name and "/" not in name
    except PathError as error:
        raise PathError(f"a {what} cannot be called {name!r}: {error}") from error
    if not proper or len(name.encode()) > _LONGEST_NAME:
        raise PathError(
            f"a {what} cannot be called {name!r}: expected the name of one directory, of at most "
            f"{_LONGEST_NAME} bytes"
        )
