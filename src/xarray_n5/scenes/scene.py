"""What the core asks about groups that describe scenes.

The function is that of `GroupReader`, the class that of `Scene` in ``xarray_n5/leaves.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.arrays.group import Group
from xarray_n5.datasets.placed import GroupScene
from xarray_n5.errors import NodeNotFoundError, printable
from xarray_n5.images.select import pick_level
from xarray_n5.scenes.metadata import find_images, read_metadata
from xarray_n5.scenes.placing import World
from xarray_n5.scenes.stacking import images_of

if TYPE_CHECKING:
    import xarray as xr

    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.datasets.placed import PlacedImage

_SHOWN = 8
"""The maximum number of names that are listed."""


def scene_of(group: object) -> NgffScene | None:
    """Return the scene that a group's attributes describe; None for other nodes."""
    return NgffScene(group) if isinstance(group, Group) else None


class NgffScene(GroupScene):
    """A scene by its group."""

    kind = "scene"

    def open_dataset(self, group: str, options: DatasetOptions) -> xr.Dataset:
        """Open one level of all images, if they are alike."""
        placed = self.at(group, options)
        if "" not in placed:
            shown = ", ".join([*list(placed)[:_SHOWN], *["..."] * (len(placed) > _SHOWN)])
            raise ValueError(
                f"the images of {self.url!r} differ in shape, type, levels or axes "
                f"({printable(shown)}); open one with group=, or all of them with "
                "xarray.open_datatree"
            )
        levels = placed[""].image.levels
        level = pick_level([*levels], options.level, lambda: levels, self.url)
        return placed[""].dataset(level, self.name, self.url, options)

    @property
    def name(self) -> str:
        """The name of variables: that of the scene."""
        from xarray_n5.images.find import name_of_group

        return name_of_group(self.group)

    def placed(self, options: DatasetOptions) -> dict[str, PlacedImage]:
        """Return the images by name; "" if they are alike.

        Raises
        ------
        MetadataError
            If the scene is invalid.
        NodeNotFoundError
            If it has no images.
        """
        metadata = read_metadata(self.group.attrs["ome"], self.url)
        images = find_images(self.group, metadata.paths, options.dialect)
        if not images:
            named = ", ".join(metadata.paths[:_SHOWN]) or "none"
            raise NodeNotFoundError(self.url, "", "image", f"the scene names the images {named}")
        return images_of(World(self.group, metadata, images))
