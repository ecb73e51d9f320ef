"""Axes that are written: what is there already, and the groups around, have a say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from xarray_n5 import MetadataError, create_group, to_n5

if TYPE_CHECKING:
    from pathlib import Path


def line(*values: float) -> xr.DataArray:
    """A line of samples at places in nanometres."""
    return xr.DataArray(np.zeros(len(values)), {"x": ("x", list(values), {"units": "nm"})}, "x")


def test_new_places_replace_the_old_ones_of_an_array(tmp_path: Path) -> None:
    to_n5(line(100, 104), tmp_path, "a", attributes={"mine": 1})
    to_n5(line(0, 4), tmp_path, "a", mode="a")
    opened = xr.open_dataset(tmp_path, engine="n5", group="a")
    assert opened.x.values.tolist() == [0, 4]
    assert opened["a"].attrs == {"mine": 1}
    to_n5(line(0, 8), tmp_path, "b", dialect="n5_viewer")
    to_n5(line(0, 4), tmp_path, "b", mode="a")
    assert xr.open_dataset(tmp_path, engine="n5", group="b").x.values.tolist() == [0, 4]
    to_n5(np.ones(2), tmp_path, "b", mode="a")
    assert xr.open_dataset(tmp_path, engine="n5", group="b").x.values.tolist() == [0, 4]


def test_attributes_that_contradict_the_axes_are_refused(tmp_path: Path) -> None:
    wrong = {"transform": {"scale": [9], "translate": [0], "units": "nm"}}
    with pytest.raises(MetadataError, match=r"contradict the scale of axis 'x', 4\.0.*read as 9"):
        to_n5(line(0, 4), tmp_path, "a", attributes=wrong)
    assert not (tmp_path / "a").exists()


def test_a_group_that_speaks_louder_is_answered(tmp_path: Path) -> None:
    groups: dict[str, dict[str, Any]] = {
        "n5-viewer": {"downsamplingFactors": [[1], [2]]},
        "neuroglancer": {"axes": ["x"], "units": ["nm"], "resolution": [4], "scales": [[1], [2]]},
    }
    for name, group in groups.items():
        create_group(tmp_path, name, attributes=group)
        to_n5(line(0, 4), tmp_path, f"{name}/s0")
        to_n5(line(0, 8), tmp_path, f"{name}/s1")
        opened = xr.open_dataset(tmp_path, engine="n5", group=f"{name}/s1")
        assert opened.x.values.tolist() == [0, 8]
        with pytest.raises(MetadataError, match="contradict"):
            to_n5(line(0, 8), tmp_path, f"{name}/s1", mode="w", dialect="n5_viewer")
