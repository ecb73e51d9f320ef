"""Containers that tests write, and what is stored in them."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import pytest
import xarray as xr

from tests.support.memory_store import MemoryStore
from xarray_n5 import pyramid, to_n5

if TYPE_CHECKING:
    import numpy as np


NAMES: dict[Any, str] = {"n5": "a.n5", "zarr2": "a.zarr", "zarr3": "b.zarr", "hdf5": "a.h5"}
"""The name of a container in each format."""

FULL = pytest.mark.parametrize("form", NAMES)

PAIRS = pytest.mark.parametrize(
    ("first", "second"), [(one, other) for one in NAMES for other in NAMES if one != other]
)

NUMBERS = da.arange(24, chunks=6, dtype="u1").reshape(4, 6)

IMAGE = xr.DataArray(NUMBERS, dims=("y", "x"), name="a")


def write_array(place: Path, **options: Any) -> object:
    return to_n5(NUMBERS, place, "a", **options)


def write_dataset(place: Path, **options: Any) -> object:
    return IMAGE.to_dataset().n5.to_n5(place, **options)


def write_pyramid(place: Path, **options: Any) -> object:
    return pyramid(IMAGE, place, "p", levels=1, **options)


def write_document(folder: Path | str, name: str = "attributes.json", /, **members: Any) -> Path:
    """Write a node's document by hand, and return its folder."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(json.dumps(members))
    return place


def objects_of(values: np.ndarray, chunks: tuple[int, ...]) -> dict[str, bytes]:
    """The objects of a container with the array "a", by their keys."""
    store = MemoryStore()
    to_n5(values, store, "a", chunks=chunks)
    return store.items


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder with its bytes, and every link with its target."""
    found: dict[str, bytes | str] = {}
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(top, name)
            if path.is_symlink():
                found[str(path.relative_to(folder))] = str(path.readlink())
            elif path.is_file():
                found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def digest(x: np.ndarray) -> str:
    """The hash of an array's little-endian bytes in C order."""
    return hashlib.sha256(x.astype(x.dtype.newbyteorder("<")).tobytes()).hexdigest()
