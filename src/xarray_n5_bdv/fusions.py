"""The projects that BigStitcher-Spark writes for fused volumes.

Their registrations are the identity (SpimData2Tools.createNewSpimDataForFusion), and their voxels
count pixels of the input's world as micrometres. Only the container has the position.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.dialects.bdv import fusion_around
from xarray_n5.dialects.values import as_tuples
from xarray_n5_bdv.loaders import View
from xarray_n5_bdv.registrations import NDIM, Registration, Transform

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xarray_n5.dialects.bdv import Fusion
    from xarray_n5.model.metadata import Attributes
    from xarray_n5_bdv.project import Project, ViewSetup

_STEP = "Boundingbox_min"
"""The name of the added transform."""


def in_world_of_input(project: Project, groups: Iterable[Attributes], where: str) -> Project:
    """Return the project of a fusion with the position that its container has.

    Other projects are returned as they are, and so is one whose views have been registered since.
    """
    fusion = fusion_around(groups, where)
    identity = np.eye(NDIM, NDIM + 1)
    registered = project.registrations.values()
    if fusion is None or fusion.start is None:
        return project
    if not all(np.array_equal(each.total, identity) for each in registered):
        return project
    rows = identity.copy()
    rows[:, NDIM] = fusion.start
    step = Registration((Transform(_STEP, as_tuples(rows)),))
    views = (View(time, setup) for time in project.timepoints for setup in project.setups)
    return replace(
        project,
        setups={n: _in_pixels(each, fusion, where) for n, each in project.setups.items()},
        registrations=dict.fromkeys(views, step),
    )


def _in_pixels(setup: ViewSetup, fusion: Fusion, where: str) -> ViewSetup:
    """Return a setup whose voxel size has the anisotropy, and no unit if it counts pixels."""
    listed = fusion.voxel if setup.voxel_size is None else setup.voxel_size[::-1]
    voxel = fusion.voxel_over(listed, where)
    unit = None if voxel[0] == voxel[1] == 1 else setup.unit
    return replace(setup, voxel_size=voxel[::-1], unit=unit)
