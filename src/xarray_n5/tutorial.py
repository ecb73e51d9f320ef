"""Sample containers, and a sample project, that are installed with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from xarray_n5.model.json import near

__all__ = ["names", "open_dataset", "path"]

_SAMPLES = Path(__file__).with_name("samples")


def names() -> list[str]:
    """Return the names of the sample containers.

    Returns
    -------
    list of str
        Names for :func:`path` and :func:`open_dataset`.

    Examples
    --------
    >>> xarray_n5.tutorial.names()
    ['cells', 'java-2.5.1', 'tiles']
    """
    return [*_samples()]


def _samples() -> dict[str, Path]:
    return {path.stem: path for path in sorted([*_SAMPLES.glob("*.n5"), *_SAMPLES.glob("*/*.xml")])}


def path(name: str) -> Path:
    """Return the path of a sample container. Do not write to it.

    Parameters
    ----------
    name : str
        A name. ``"cells"`` is a synthetic light-sheet volume, `raw`, with the labels of its
        `nuclei`, in micrometres; TensorStore wrote it. ``"java-2.5.1"`` has small arrays in several
        compressions, without units; the Java library n5 wrote it. ``"tiles"`` is a project of
        BigStitcher: two tiles of `cells` with two channels, at two time points.

    Returns
    -------
    pathlib.Path
        A directory in the installed package; for ``"tiles"`` the XML, alone in a directory with its
        container.

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
    if name not in (known := _samples()):
        raise ValueError(
            f"name is {name!r}; expected {' or '.join(map(repr, known))}{near(name, known)}"
        )
    return known[name]


def open_dataset(name: str = "cells", **options: Any) -> xr.Dataset:
    """Open a sample container.

    Parameters
    ----------
    name : str, default "cells"
        A name, as for :func:`path`.
    **options
        Options of :func:`xarray.open_dataset`, such as ``chunks={}`` for Dask arrays, and of the
        engine "n5", such as ``group="codec"``, or, for ``"tiles"``, of the engine "bdv".

    Returns
    -------
    xarray.Dataset
        The arrays of the container's root or of `group`, or the views of the project, with lazy
        values.

    Raises
    ------
    ValueError
        If there is no sample of this name.

    Examples
    --------
    >>> cells = xarray_n5.tutorial.open_dataset("cells", chunks={})
    >>> int(cells["nuclei"].max())
    65
    >>> xarray_n5.tutorial.open_dataset("tiles", level=0).sizes["tile"]
    2
    """
    sample = path(name)
    return xr.open_dataset(sample, engine="n5" if sample.is_dir() else "bdv", **options)
