"""What the core asks about Imaris files.

The function is that of `GroupReader`, the class that of `Scene` in ``xarray_n5/leaves.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from xarray_n5.arrays.group import Group
from xarray_n5.datasets.placed import chosen_level, open_levels
from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.model.paths import stem_of
from xarray_n5_imaris.images import read_image

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.datasets.placed import PlacedImage
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.image import Image


def scene_of(group: object) -> ImarisImage | None:
    """Return the image of a file by the group at its root; None for other nodes."""
    if isinstance(group, Group) and group.format == "hdf5" and not group.path:
        return ImarisImage(group)
    return None


@dataclass(frozen=True)
class ImarisImage:
    """A file by the group at its root."""

    group: Group

    @property
    def url(self) -> str:
        """The location of the file."""
        return self.group.url

    @property
    def document(self) -> None:
        """No document describes it."""
        return

    @property
    def kind(self) -> str:
        """What it is, in one word."""
        return "imaris"

    def container(self, storage_options: Mapping[str, Any] | None) -> Container:
        """Return the file as a container."""
        del storage_options
        return self.group.container

    def open_dataset(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,
        options: DatasetOptions,
        **how: Any,
    ) -> xr.Dataset:
        """Open one level, by default the finest."""
        del storage_options
        placed = self._placed(group)
        options = replace(options, level=0) if options.level is None else options
        level = chosen_level(placed.image, options, self.url)
        return placed.dataset(level, self._name, self.url, options, **how)

    def open_groups(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,
        options: DatasetOptions,
        **how: Any,
    ) -> dict[str, xr.Dataset]:
        """Open all levels, by path: ``/s0``, ``/s1``, ...."""
        del storage_options
        return open_levels({"": self._placed(group)}, self._name, self.url, options, **how)

    @property
    def _name(self) -> str:
        """The name of variables: that of the file."""
        return stem_of(self.group.container.name, [".ims", ".IMS"])

    def _placed(self, group: str) -> PlacedImage:
        """Return the image; `group` is empty, as a path leads to a node and not to a scene."""
        if group:
            raise NodeNotFoundError(self.url, group, "image", "open its group instead")
        return read_image(self.group)

    def images(
        self, group: str, storage_options: Mapping[str, Any] | None
    ) -> Mapping[str, Image[Array]]:
        """Return the image."""
        del storage_options
        return {"": self._placed(group).image}

    def first_image(self, group: str, storage_options: Mapping[str, Any] | None) -> list[Array]:
        """Return the levels of the first channel at the first timepoint."""
        del storage_options
        return [level.first for level in self._placed(group).image.levels.values()]

    @property
    def summary(self) -> str:
        """What it is, in one line."""
        return "an image of Imaris"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The axes of the finest level for people, as names and values."""
        geometry = self._placed("").image.base.geometry
        return [("axes" if not at else "", str(axis)) for at, axis in enumerate(geometry.axes)]

    def facts(self, group: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the description of the image, for programs."""
        del storage_options
        levels = self._placed(group).image.levels
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
