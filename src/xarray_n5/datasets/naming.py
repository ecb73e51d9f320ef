"""What variables, dimensions and groups may be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.errors import MetadataError, PathError
from xarray_n5.model.paths import new_path

if TYPE_CHECKING:
    import xarray as xr

_LONGEST_NAME = 255
"""How many bytes file systems allow a name."""


def check_names(dataset: xr.Dataset) -> None:
    """Raise where a variable or a dimension cannot be called so, or is none of numpy's."""
    for name, variable in dataset.variables.items():
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the variable {name!r} must have a string or None for a name")
        if name == "":
            raise ValueError("no variable can be called '': a string must be length 1 or more")
        if name is not None:
            check_name(name, "variable")
        dims = variable.dims
        if len(set(dims)) != len(dims) or not all(isinstance(dim, str) and dim for dim in dims):
            raise ValueError(f"the dimensions of {name!r} are {dims}; different texts are needed")
        if not isinstance(variable.dtype, np.dtype):
            raise MetadataError(
                f"variable {name!r} has the type {variable.dtype}, which is pandas' own; convert "
                "it with astype() to one of numpy's"
            )


def check_name(name: str, what: str) -> None:
    """Raise where a directory cannot have a name.

    Raises
    ------
    ValueError
        Naming it.
    """
    try:
        proper = new_path(name, ["attributes.json"]) == name and "/" not in name
    except PathError as error:
        raise ValueError(f"no {what} can be called {name!r}: {error}") from error
    if not proper or len(name.encode("utf-8", "surrogatepass")) > _LONGEST_NAME:
        raise ValueError(
            f"no {what} can be called {name!r}: it becomes the name of one directory, of at most "
            f"{_LONGEST_NAME} bytes"
        )
