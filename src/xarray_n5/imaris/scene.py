"""What the core asks about Imaris files.

The function is that of `GroupReader`, the class that of `Scene` in ``xarray_n5/leaves.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

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
    summary = "an image of Imaris"
    rows: ClassVar[list[tuple[str, str]]] = []

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

    def facts(self, group: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the shapes of the levels, for programs."""
        levels = self.images(group, storage_options)[""].levels
        shapes = {name: level.shape for name, level in levels.items()}
        return {"url": self.url, "kind": self.kind, "levels": shapes}

    def content(self, storage_options: Mapping[str, Any] | None) -> NoReturn:
        """Raise MetadataError: the file has one image, and no scene of several."""
        del storage_options
        raise MetadataError(
            f"{self.url}: an Imaris file is one image, and no scene of several; copy it to "
            "OME-Zarr without the dialect 'ngff-0.6'"
        )
