"""Samples are installed with the package, and open by name."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from xarray_n5 import tutorial


@pytest.mark.parametrize("name", tutorial.names())
def test_every_sample_opens_whole(name: str) -> None:
    tree = xr.open_datatree(tutorial.path(name), engine="n5")
    assert sum(node.load().nbytes for node in tree.to_dict().values()) > 0


def test_cells_have_axes_in_micrometres() -> None:
    cells = tutorial.open_dataset(chunks={})
    assert cells["raw"].chunks is not None
    assert {axis.attrs["units"] for axis in cells.coords.values()} == {"um"}


def test_tiles_are_a_project_that_overlaps() -> None:
    xml = tutorial.path("tiles")
    assert {each.name for each in xml.parent.iterdir()} == {"tiles.xml", "tiles.n5"}
    right = tutorial.open_dataset("tiles", level=0, setup=3)["tiles"].load()
    left = tutorial.open_dataset("tiles", level=0, setup=2)["tiles"].load()
    common = left.sel(t=0).isel(y=slice(4, None), x=slice(56, None))
    np.testing.assert_array_equal(common, right.sel(t=0).isel(y=slice(60), x=slice(8)))
    assert common.max() > 5


def test_unknown_samples_are_errors_that_name_the_others() -> None:
    with pytest.raises(
        ValueError, match=r"expected 'cells' or 'java-2.5.1' or 'tiles'; did you mean 'cells'"
    ):
        tutorial.open_dataset("cell")
