"""Projects of BigDataViewer and BigStitcher are opened by their XML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.projects import Setup, diagonal, project_xml, write_n5
from xarray_n5 import open_array

if TYPE_CHECKING:
    from pathlib import Path

VOXEL = (2.0, 0.5, 0.5)

TURN = [[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0]]
"""A rotation of y and x."""


# The unit of the world


WORLDS: dict[str, tuple[list[tuple[str, Any]], tuple[float, ...], str | None]] = {
    "BigStitcher divides by the smallest voxel size": (
        [("Translation", diagonal((1, 1, 1), (8, 6, 4))), ("calibration", diagonal((4, 1, 1)))],
        (2.0, 0.5, 0.5, 4.0, 3.0, 2.0),
        "um",
    ),
    "others scale to the voxel size": (
        [("Translation", diagonal((1, 1, 1), (8, 6, 4))), ("", diagonal(VOXEL))],
        (2.0, 0.5, 0.5, 8.0, 6.0, 4.0),
        "um",
    ),
    "without a calibration, it is a voxel": (
        [("Translation", diagonal((1, 1, 1), (8, 6, 4)))],
        (2.0, 0.5, 0.5, 16.0, 3.0, 2.0),
        "um",
    ),
    "rotations and translations before it are skipped": (
        [("calibration", diagonal((4, 1, 1))), ("moved", diagonal((1, 1, 1), (1, 2, 4)))],
        (2.0, 0.5, 0.5, 2.0, 1.0, 2.0),
        "um",
    ),
    "otherwise, it is believed to be physical": (
        [("registered", diagonal((2.2, 0.5, 0.6), (8, 6, 4)))],
        (2.2, 0.5, 0.6, 8.0, 6.0, 4.0),
        "um",
    ),
}


@pytest.mark.parametrize("kind", WORLDS)
def test_the_unit_of_the_world_is_found_by_the_first_step(tmp_path: Path, kind: str) -> None:
    steps, expected, unit = WORLDS[kind]
    setup = Setup(id=0, voxel=VOXEL)
    write_n5(tmp_path / "x.n5", [setup], (0,))
    (tmp_path / "x.xml").write_text(project_xml([setup], {(0, 0): steps}), "utf-8")
    axes = open_array(tmp_path / "x.n5", "setup0/timepoint0/s0").axes
    found = [*(axis.scale for axis in axes), *(axis.offset for axis in axes)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # type: ignore[arg-type]
    assert [axis.unit for axis in axes] == [unit] * 3


def test_views_that_do_not_agree_upon_the_world_have_no_unit(tmp_path: Path) -> None:
    setups = [Setup(id=0, voxel=VOXEL), Setup(id=1, voxel=VOXEL)]
    write_n5(tmp_path / "x.n5", setups, (0,))
    steps = {(0, 0): [("", diagonal(VOXEL))], (0, 1): [("calibration", diagonal((4, 1, 1)))]}
    (tmp_path / "x.xml").write_text(project_xml(setups, steps), "utf-8")
    axes = open_array(tmp_path / "x.n5", "setup1/timepoint0/s0").axes
    assert [(axis.unit, axis.scale) for axis in axes] == [(None, 4.0), (None, 1.0), (None, 1.0)]
