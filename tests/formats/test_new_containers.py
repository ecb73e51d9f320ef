"""The name of a new container tells its format, wherever none is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import pytest
import xarray as xr

import xarray_n5
from tests.support.containers import IMAGE, write_array, write_dataset, write_pyramid
from xarray_n5 import copy
from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[[Path], object]


def write_tree(place: Path) -> None:
    xr.DataTree.from_dict({"/": IMAGE.to_dataset()}).n5.to_n5(place)


def write_group(place: Path) -> None:
    xarray_n5.create_group(place, "a")


def write_copy(place: Path) -> None:
    source = place.parent / "source.n5"
    xarray_n5.to_n5(da.ones((3, 4)), source, "a")
    copy(source, place)


WRITES = [write_array, write_dataset, write_tree, write_pyramid, write_group, write_copy]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("name", "expected"), [("b.zarr", "zarr2"), ("b.n5", "n5"), ("b.ZARR", "zarr2"), ("b", "n5")]
)
def test_the_name_tells_the_format(tmp_path: Path, write: Write, name: str, expected: str) -> None:
    write(tmp_path / name)
    assert xarray_n5.open_group(tmp_path / name).format == expected


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", ["b.tif", "b.TIFF", "b.zarr.zip", "b.nc", "b.xml"])
def test_names_of_other_files_are_refused(tmp_path: Path, write: Write, name: str) -> None:
    with pytest.raises(MetadataError, match=r"choose a name such as \*\.n5, \*\.zarr or \*\.h5"):
        write(tmp_path / name)
    assert not (tmp_path / name).exists()


STORED: dict[str, tuple[list[tuple[str, str, Any]], str]] = {
    "a given format counts more than the name": (
        [("b.tif", "a", "zarr2"), ("b.tif", "b", None)],
        "b.tif/b/.zarray",
    ),
    "what is there counts more than the name": (
        [("b.zarr", "a", "n5"), ("b.zarr", "b", None)],
        "b.zarr/b/attributes.json",
    ),
    "so it does with no document of the root": (
        [("b.zarr", "a", "n5"), ("b.zarr", "b", None)],
        "b.zarr/b/attributes.json",
    ),
    "also within a directory": (
        [("b.zarr", "a", "n5"), ("b.zarr/em", "", None)],
        "b.zarr/em/attributes.json",
    ),
    "the innermost name counts": (
        [("b.zarr/em/raw", "", None), ("b.zarr/c.n5/em/raw", "", None)],
        "b.zarr/c.n5/em/raw/attributes.json",
    ),
    "a name around counts": ([("b.zarr/em/raw", "", None)], "b.zarr/em/raw/.zarray"),
}
"""Arrays that are stored, by container, path and format, and a document that the last one has."""


@pytest.mark.parametrize("name", STORED)
def test_an_array_has_the_format_of_what_is_there(tmp_path: Path, name: str) -> None:
    arrays, document = STORED[name]
    for url, path, form in arrays:
        xarray_n5.to_n5(da.ones(3), tmp_path / url, path, format=form)
        if "no document" in name:  # as TensorStore writes it
            (tmp_path / url / "attributes.json").unlink(missing_ok=True)
    assert (tmp_path / document).exists()


def test_what_is_not_there_is_not_found_by_whatever_name(tmp_path: Path) -> None:
    for name in ("b.tif", "b.zarr"):
        with pytest.raises(NodeNotFoundError):
            xarray_n5.open_array(LocalStore(str(tmp_path / name)), "a")


def test_a_misspelt_format_is_told_by_its_right_name() -> None:
    with pytest.raises(MetadataError, match=r"did you mean 'zarr[23]'"):
        xarray_n5.create_group("b.n5", format="zarr")  # type: ignore[arg-type]
