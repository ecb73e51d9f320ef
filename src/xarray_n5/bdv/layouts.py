"""The paths of a project's views in containers of each kind, and the metadata of levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from xarray_n5.bdv.registrations import NDIM
from xarray_n5.dialects.levels import images_in
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.dialects.pyramids import factors_of
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.level_names import hdf5_view_path, setup_name, view_path
from xarray_n5.model.metadata import lists_levels
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.bdv.loaders import View
    from xarray_n5.bdv.project import Project
    from xarray_n5.model.metadata import ArrayMetadata, Attributes

MOST_LEVELS = 32
"""The maximum number of levels of a pyramid."""

_MOST_FACTOR = 1 << 31

_ROUNDED = 1e-3
"""The precision of the ratios of scales, which may be those of floored sizes."""


class ViewLayout(Protocol):
    """The paths of views in a container."""

    in_one_batch: ClassVar[bool]
    """Whether the paths of levels are known before anything is read."""

    def group(self, view: View) -> str | None:
        """Return the path of the group that describes a view's levels, or None."""

    def level_count(self, groups: Mapping[str, Attributes]) -> int | None:
        """Return the number of levels from the groups' attributes, or None if they have none.

        It is a maximum; views may have fewer.
        """

    def path(self, view: View, level: int, groups: Mapping[str, Attributes]) -> str:
        """Return the path of a view's level."""

    def part(self, view: View, ndim: int) -> tuple[int, ...]:
        """Return a view's indices along the axes before z, of an array with `ndim` axes.

        Raises ValueError if they are unknown.
        """

    def factors(
        self, view: View, level: int, array: ArrayMetadata, groups: Mapping[str, Attributes]
    ) -> tuple[float, ...] | None:
        """Return the factors of a level along z, y, x, or None if they are unknown."""


@dataclass(frozen=True, slots=True)
class BdvLayout:
    """``setup0/timepoint0/s0``, or in HDF5 ``t00000/s00/0/cells``."""

    in_one_batch: ClassVar[bool] = True
    in_hdf5: bool

    def group(self, view: View) -> str | None:
        """Return the path of the setup, which lists the factors of all levels; None in HDF5.

        There, the factors are an attribute of each level, see ``formats/hdf5/bdv.py``.
        """
        return None if self.in_hdf5 else setup_name(view.setup)

    def level_count(self, groups: Mapping[str, Attributes]) -> int | None:
        """Return the length of the longest list of factors; None in HDF5: levels are looked up."""
        return max(filter(None, map(_listed, groups.values())), default=None)

    def path(self, view: View, level: int, groups: Mapping[str, Attributes]) -> str:  # noqa: ARG002
        """Return the path of a view's level."""
        path = hdf5_view_path if self.in_hdf5 else view_path
        return path(view.setup, view.timepoint, level)

    def part(self, view: View, ndim: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return no indices: each array is one view."""
        if ndim != NDIM:
            raise ValueError(f"it has {ndim} axes, expected {NDIM}")
        return ()

    def factors(
        self, view: View, level: int, array: ArrayMetadata, groups: Mapping[str, Attributes]
    ) -> tuple[float, ...] | None:
        """Return the factors in the level's own list, or in the setup's."""
        path, setup = self.path(view, level, groups), groups.get(self.group(view) or "", {})
        context = ArrayContext(
            attributes=array.attributes, shape=array.shape, path=path, parents=({}, setup)
        )
        try:
            found = factors_of(context)
        except ODD as error:
            warn(f"{path}: its factors are ignored: {error}")
            found = None
        if found is None:
            return None if level else (1.0,) * NDIM
        return found[::-1]


@dataclass(frozen=True, slots=True)
class ZarrLayout:
    """OME-Zarr images, each for one view, or with axes of time and channels for several."""

    in_one_batch: ClassVar[bool] = False
    project: Project

    def group(self, view: View) -> str | None:
        """Return the path of the view's image; None if the project does not name any."""
        views = self.project.loader.views if self.project.loader else {}
        if not views:
            return ""
        return views[view].path.strip("/") if view in views else None

    def level_count(self, groups: Mapping[str, Attributes]) -> int | None:
        """Return the number of levels in the longest ``multiscales``."""
        return max(filter(None, (len(_entries(each)) for each in groups.values())), default=None)

    def path(self, view: View, level: int, groups: Mapping[str, Attributes]) -> str:
        """Return the path of a level, as ``multiscales`` lists it."""
        group = self.group(view) or ""
        entries = _entries(groups.get(group, {}))
        name = str(level)
        if entries and level < len(entries):
            name = str(entries[level].get("path", name)).removeprefix("./").strip("/")
        elif entries:
            name = f"{level} of {len(entries)} levels"  # there is none
        return join(group, name)

    def part(self, view: View, ndim: int) -> tuple[int, ...]:
        """Return the indices of time and channels; without them, axes before z must have size 1."""
        views = self.project.loader.views if self.project.loader else {}
        count = ndim - NDIM
        if count < 0:
            raise ValueError(f"it has {ndim} axes, expected at least {NDIM}")
        if views:
            indices = views[view].indices or ()
        else:  # the root is the only image
            setups, times = list(self.project.setups), list(self.project.timepoints)
            indices = (times.index(view.timepoint), setups.index(view.setup))
        if any(indices[: max(len(indices) - count, 0)]):
            raise ValueError(f"it has {ndim} axes, but the XML has the indices {indices}")
        return ((0,) * (count - len(indices)) + indices)[-count:] if count else ()

    def factors(
        self, view: View, level: int, array: ArrayMetadata, groups: Mapping[str, Attributes]
    ) -> tuple[float, ...] | None:
        """Return the level's own factors, or else the ratios of the scales in ``multiscales``.

        BigStitcher writes both, and older versions listed scales in another order than axes.
        """
        listed = factors_listed(groups.get(self.group(view) or "", {}), level)
        own = _own_factors(array) if level else None
        if own is not None and listed is not None and not np.allclose(own, listed, rtol=_ROUNDED):
            where = f"level {level} of the project"
            warn(
                f"{where}: 'multiscales' has the factors {list(listed)} along "
                f"z, y, x, but 'downsamplingFactors' has {list(own)}; using the latter"
            )
        return own or listed


def factors_listed(attributes: Attributes, level: int) -> tuple[float, ...] | None:
    """Return the ratios of the scales in ``multiscales`` along z, y, x, rounded as in BigStitcher.

    None if there are no scales, or fewer levels.
    """
    if level == 0:
        return (1.0,) * NDIM
    scales = [_scale(each) for each in _entries(attributes)]
    if level >= len(scales) or scales[0] is None or (own := scales[level]) is None:
        return None
    return tuple(round(a / b, 4) for a, b in zip(own, scales[0], strict=True))


def _own_factors(array: ArrayMetadata) -> tuple[float, ...] | None:
    """Return the factors along z, y, x that BigStitcher writes to arrays, x first, or None."""
    match array.attributes.get("downsamplingFactors"):
        case [x, y, z, *others] if len(others) in {0, len(array.shape) - NDIM}:
            numbers = (z, y, x, *others)
            valid = all(type(n) in {int, float} and 1 <= n < _MOST_FACTOR for n in numbers)
            if valid and others == [1] * len(others):
                return float(z), float(y), float(x)
    return None


def layout_of(project: Project) -> ViewLayout:
    """Return the layout of a project's container."""
    kind = project.loader.kind if project.loader else None
    if kind == "zarr":
        return ZarrLayout(project)
    return BdvLayout(in_hdf5=kind == "hdf5")


def groups_of(layout: ViewLayout, views: Iterable[View]) -> list[str]:
    """Return the paths of the groups that describe views."""
    return list(dict.fromkeys(p for view in views if (p := layout.group(view)) is not None))


def _listed(attributes: Attributes) -> int | None:
    """Return the number of levels that a setup lists, or None."""
    if not lists_levels(attributes):
        return None
    return min(len(attributes["downsamplingFactors"]), MOST_LEVELS)


def _entries(attributes: Attributes) -> list[dict[str, object]]:
    """Return the levels that the first image of ``multiscales`` lists."""
    for image in images_in(attributes):
        entries = image["datasets"][:MOST_LEVELS]
        if all(isinstance(each, dict) and isinstance(each.get("path"), str) for each in entries):
            return list(entries)
    return []


def _scale(entry: Mapping[str, object]) -> tuple[float, ...] | None:
    """Return the scale of a level along z, y, x."""
    transforms = entry.get("coordinateTransformations")
    for each in transforms if isinstance(transforms, list) else ():
        match each:
            case {"type": "scale", "scale": [*_, z, y, x]}:
                numbers = [float(n) for n in (z, y, x) if isinstance(n, int | float) and n > 0]
                return tuple(numbers) if len(numbers) == NDIM else None
    return None
