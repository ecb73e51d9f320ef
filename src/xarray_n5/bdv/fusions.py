"""The projects that BigStitcher-Spark writes for fused volumes.

Their registrations are the identity (SpimData2Tools.createNewSpimDataForFusion), and their voxels
count pixels of the input's world as micrometres. Only the container has the position: its root, or
after a non-rigid fusion (SparkNonRigidFusion) the array of each view.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.bdv.loaders import View
from xarray_n5.bdv.registrations import NDIM, Registration, Transform
from xarray_n5.dialects.bdv import fusion_around
from xarray_n5.dialects.values import as_tuples, numbers
from xarray_n5.model.alerts import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.bdv.project import Project, ViewSetup
    from xarray_n5.bdv.stored import StoredViews
    from xarray_n5.dialects.bdv import Fusion
    from xarray_n5.model.metadata import Attributes

_BOX, _OFFSET = "Boundingbox_min", "offset"
"""The attributes with the position, and the names of the added transforms."""

_IDENTITY = np.eye(NDIM, NDIM + 1)


def in_world_of_input(project: Project, stored: StoredViews, where: str) -> Project:
    """Return the project of a fusion with the position that its container has.

    Other projects are returned as they are, and so is one whose views have been registered since.
    """
    registered = project.registrations
    placed = {
        view for view, each in registered.items() if not np.array_equal(each.total, _IDENTITY)
    }
    fusion = None if placed else fusion_around(stored.groups.values(), where)
    if fusion is None or fusion.start is None:
        steps = {
            view: _moved(start, _OFFSET)
            for view, part in stored.levels.get(0, {}).items()
            if view in registered.keys() - placed and _is_in_pixels(project.setups.get(view.setup))
            if (start := _offset(part.array.attrs, part.array.url)) is not None
        }
        return replace(project, registrations={**registered, **steps}) if steps else project
    views = (View(time, setup) for time in project.timepoints for setup in project.setups)
    return replace(
        project,
        setups={n: _in_pixels(each, fusion, where) for n, each in project.setups.items()},
        registrations=dict.fromkeys(views, _moved(fusion.start, _BOX)),
    )


def _moved(start: Sequence[float], name: str) -> Registration:
    rows = _IDENTITY.copy()
    rows[:, NDIM] = start
    return Registration((Transform(name, as_tuples(rows)),))


def _offset(attributes: Attributes, where: str) -> tuple[float, ...] | None:
    """Return the first voxel that a non-rigid fusion states on the array of the base level."""
    try:
        return numbers(_OFFSET, attributes.get(_OFFSET), NDIM, positive=False, exact=True)
    except ValueError as error:
        warn(f"{where}: {_OFFSET!r} is ignored: {error}")
        return None


def _is_in_pixels(setup: ViewSetup | None) -> bool:
    """Return whether a setup has the voxel size that BDVSparkInstantiateViewSetup writes."""
    return setup is not None and (setup.voxel_size, setup.unit) == ((1.0,) * NDIM, "px")


def _in_pixels(setup: ViewSetup, fusion: Fusion, where: str) -> ViewSetup:
    """Return a setup whose voxel size has the anisotropy, and no unit if it counts pixels."""
    listed = fusion.voxel if setup.voxel_size is None else setup.voxel_size[::-1]
    voxel = fusion.voxel_over(listed, where)
    unit = None if voxel[0] == voxel[1] == 1 else setup.unit
    return replace(setup, voxel_size=voxel[::-1], unit=unit)
