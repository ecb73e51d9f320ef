"""Projects in Zarr that BigStitcher resaved: one OME-Zarr image for each view."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import xarray_n5.bdv
from tests.bdv.test_open import NAMES, grid, steps_of
from tests.bdv.test_write import (
    SECTIONS,
    opened,
)
from tests.support.projects import (
    FACTORS,
    Setup,
    bigstitcher_reads,
    has_sections,
    level_shape,
    project_xml,
    values,
    write_zarr,
)

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.formats import FormatName

FORMS = ["zarr3", "zarr2"]

pytestmark = pytest.mark.filterwarnings("ignore:.*views are not stored")


def resaved(where: Path, form: FormatName, **options: Any) -> Path:
    """A project that BigStitcher resaved, with unknown elements and sections."""
    where.mkdir(exist_ok=True)
    loader = write_zarr(where / "x.ome.zarr", grid(), form=form, **options)
    steps, missing = steps_of(grid()), options.get("without", ())
    text = project_xml(grid(), steps, names=NAMES, loader=loader, missing=missing, more=SECTIONS)
    path = where / "project.xml"
    path.write_text(text.replace("<ViewSetups>", "<ViewSetups><!-- setups -->"), "utf-8")
    return path


@pytest.mark.parametrize("form", FORMS)
def test_resaved_views_are_read_as_bigstitcher_reads_them(tmp_path: Path, form: FormatName) -> None:
    path = resaved(tmp_path, form, without=[(1, 2)])
    tree: Any = opened(path, chunks={})
    for level, factors in enumerate(FACTORS):
        ds = tree[f"s{level}"].to_dataset()
        for (t, setup), levels in bigstitcher_reads(path).items():
            at = {"t": t, "channel": setup % 2, "tile": setup // 2}
            np.testing.assert_array_equal(ds["project"].isel(at), levels[level][1])
            assert levels[level][0] == factors[::-1]
        shape = level_shape((6, 12, 16), factors)
        assert ds["project"].shape == (2, 2, 2, *shape)
        np.testing.assert_array_equal(
            ds["project"].isel(t=0, channel=1, tile=0), values((0, 1), level, shape)
        )
        assert bool(ds.missing.isel(t=1, channel=0, tile=1))
        assert ds.x.attrs["units"] == "um"
        assert float(ds.x[0]) == 0.5 * (factors[2] - 1) / 2


@pytest.mark.parametrize("size", [(7, 13, 17), (5, 9, 31)])
def test_levels_of_floored_sizes_have_whole_factors(tmp_path: Path, size: Any) -> None:
    setups = [Setup(id=0, shape=size)]
    loader = write_zarr(tmp_path / "x.zarr", setups, (0,))
    (tmp_path / "a.xml").write_text(project_xml(setups, loader=loader), "utf-8")
    tree: Any = opened(tmp_path / "a.xml")
    for level, factors in enumerate(FACTORS):
        ds = tree[f"s{level}"].to_dataset()
        assert ds["a"].shape[-3:] == level_shape(size, factors)
        assert [float(ds[a][1] - ds[a][0]) for a in "zyx"] == [
            2.0 * factors[0],
            *[0.5 * factors[1]] * 2,
        ]


@pytest.mark.parametrize("form", FORMS)
def test_factors_of_arrays_win_over_scales_in_another_order(
    tmp_path: Path, form: FormatName
) -> None:
    path = resaved(tmp_path, form)
    for document in (tmp_path / "x.ome.zarr").glob(
        "s*.zarr/" + ("zarr.json" if form == "zarr3" else ".zattrs")
    ):
        found = json.loads(document.read_text())
        (one,) = found.get("attributes", {}).get("ome", found)["multiscales"]
        for each in one["datasets"]:
            each["coordinateTransformations"][0]["scale"].reverse()
        document.write_text(json.dumps(found))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree: Any = opened(path)
    texts = {str(each.message) for each in caught}
    assert len(texts) == len(FACTORS) - 1  # one for each level, not for each view
    assert any("'downsamplingFactors' has [1.0, 2.0, 2.0]; using" in text for text in texts)
    assert float(tree["s1"].x[1] - tree["s1"].x[0]) == 1.0
    assert float(tree["s1"].z[1] - tree["s1"].z[0]) == 2.0


def test_views_are_moved_and_all_else_stays(tmp_path: Path) -> None:
    path = resaved(tmp_path, "zarr3")
    ds = xr.open_dataset(path, engine="bdv", level=0, chunks={})
    affine = ds.affine.copy()
    affine.loc[{"tile": ds.tile[-1], "axis": "x", "column": "1"}] += 2
    origins = [f"origin_{axis}" for axis in "zyx"]
    xarray_n5.bdv.register(ds.assign_coords(affine=affine).drop_vars(origins), path)
    assert has_sections(path.read_bytes(), SECTIONS)
    again = xr.open_dataset(path, engine="bdv", level=0)
    np.testing.assert_allclose(again.affine, affine)
    np.testing.assert_array_equal(again["project"], ds["project"])
