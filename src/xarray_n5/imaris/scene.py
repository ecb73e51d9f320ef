"""What the core asks about Imaris files.

The function is that of `GroupReader`, the class that of `Scene` in ``xarray_n5/leaves.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from xarray_n5.arrays.group import Group
from xarray_n5.datasets.placed import GroupScene, chosen_level
from xarray_n5.errors import MetadataError
from xarray_n5.imaris.images import read_image
from xarray_n5.model.paths import stem_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.datasets.placed import PlacedImage


def scene_of(group: object) -> ImarisImage | None:
    """Return the image of a file by the group at its root; None for other nodes."""
    if isinstance(group, Group) and group.format == "hdf5" and not group.path:
        return ImarisImage(group)
    return None


class ImarisImage(GroupScene):
    """A file by the group at its root."""

    kind = "imaris"

    def open_dataset(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,  # noqa: ARG002
        options: DatasetOptions,
        **how: Any,
    ) -> xr.Dataset:
        """Open one level, by default the finest."""
        placed = self.at(group, options)[""]
        options = replace(options, level=0) if options.level is None else options
        level = chosen_level(placed.image, options, self.url)
        return placed.dataset(level, self.name, self.url, options, **how)

    @property
    def name(self) -> str:
        """The name of variables: that of the file."""
        return stem_of(self.group.container.name, [".ims", ".IMS"])

    def placed(self, options: DatasetOptions) -> dict[str, PlacedImage]:  # noqa: ARG002
        """Return the image."""
        return {"": read_image(self.group)}

    def first_image(self, group: str, storage_options: Mapping[str, Any] | None) -> list[Array]:
        """Return the levels of the first channel at the first timepoint."""
        image = self.images(group, storage_options)[""]
        return [level.first for level in image.levels.values()]

    @property
    def summary(self) -> str:
        """What it is, in one line."""
        return "an image of Imaris"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The axes of the finest level for people, as names and values."""
        geometry = read_image(self.group).image.base.geometry
        return [("axes" if not at else "", str(axis)) for at, axis in enumerate(geometry.axes)]

    def facts(self, group: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the description of the image, for programs."""
        levels = self.images(group, storage_options)[""].levels
        return {
            "url": self.url,
            "kind": self.kind,
            "levels": [
                {
                    "name": name,
                    "shape": level.shape,
                    "dtype": str(level.first.dtype),
                    "axes": [
                        {
                            "name": axis.name,
                            "unit": axis.unit,
                            "scale": axis.scale,
                            "offset": axis.offset,
                            "labels": axis.labels,
                        }
                        for axis in level.geometry.axes
                    ],
                }
                for name, level in levels.items()
            ],
        }

    def content(self, storage_options: Mapping[str, Any] | None) -> NoReturn:
        """Raise MetadataError: the file has one image, and no scene of several."""
        del storage_options
        raise MetadataError(
            f"{self.url}: an Imaris file is one image, and no scene of several; copy it to "
            "OME-Zarr without the dialect 'ngff-0.6'"
        )
