"""Sample containers that are installed with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from xarray_n5.model.options import near, suggest_keywords

__all__ = ["names", "open_dataset", "path"]

_SAMPLES = Path(__file__).with_name("samples")


@suggest_keywords
def names() -> list[str]:
    """Return the names of the sample containers.

    Returns
    -------
    list of str
        Names for :func:`path` and :func:`open_dataset`.

    Examples
    --------
    >>> xarray_n5.tutorial.names()
    ['cells', 'java-2.5.1']
    """
    return sorted(container.stem for container in _SAMPLES.glob("*.n5"))


@suggest_keywords
def path(name: str) -> Path:
    """Return the path of a sample container. Do not write to it.

    Parameters
    ----------
    name : str
        A name. ``"cells"`` is a synthetic light-sheet volume, `raw`, with the labels of its
        `nuclei`, in micrometres; TensorStore wrote it. ``"java-2.5.1"`` has small arrays in several
        compressions, without units; the Java library n5 wrote it.

    Returns
    -------
    pathlib.Path
        A directory in the installed package.

    Raises
    ------
    ValueError
        If there is no sample of this name.

    Examples
    --------
    >>> raw = xarray_n5.open_array(xarray_n5.tutorial.path("cells"), "raw")
    >>> raw.shape
    (48, 160, 200)
    """
    if name not in (known := names()):
        raise ValueError(
            f"name is {name!r}; expected {' or '.join(map(repr, known))}{near(name, known)}"
        )
    return _SAMPLES / f"{name}.n5"


def open_dataset(name: str = "cells", **options: Any) -> xr.Dataset:
    """Open a sample container.

    Parameters
    ----------
    name : str, default "cells"
        A name, as for :func:`path`.
    **options
        Options of :func:`xarray.open_dataset`, such as ``chunks={}`` for Dask arrays, and of the
        engine "n5", such as ``group="codec"``.

    Returns
    -------
    xarray.Dataset
        The arrays of the container's root or of `group`, with lazy values.

    Raises
    ------
    ValueError
        If there is no sample of this name.

    Examples
    --------
    >>> cells = xarray_n5.tutorial.open_dataset("cells", chunks={})
    >>> int(cells["nuclei"].max())
    65
    """
    return xr.open_dataset(path(name), engine="n5", **options)
